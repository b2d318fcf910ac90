"""solve, refine: a ladder of methods, each judged by the same certificate, until one is good enough.

A local optimisation from the values given and from the chordal initialisation; then the semidefinite relaxation on
the cliques of the Bayes tree and the Riemannian staircase, rounded and optimised. Nothing worse than the best seen is
ever returned.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import gtsam

from gtsam_sdp.progress import showing_progress

if TYPE_CHECKING:
    from gtsam_sdp.backends.choose import BackendChoice
    from gtsam_sdp.reading.graph import OnUnsupported
    from gtsam_sdp.relaxation.relaxation import LiftChoice
    from gtsam_sdp.relaxation.tree import OrderingChoice
    from gtsam_sdp.results.solution import Solution
    from gtsam_sdp.search.task import SolveMethod


def solve(
    graph: gtsam.NonlinearFactorGraph,
    initial: gtsam.Values | None = None,
    *,
    method: SolveMethod = "auto",
    lift: LiftChoice = "auto",
    ordering: OrderingChoice = "auto",
    backend: BackendChoice = "clarabel",
    tolerance: float = 1e-4,
    time_limit: float | None = None,
    on_unsupported: OnUnsupported = "raise",
    seed: int = 0,
    verbose: bool = False,
) -> Solution:
    """Finds the best values of a graph and certifies them, from any start or none.

    Args:
        graph: the graph; it is not changed.
        initial: where to start, with "auto" from the chordal initialisation too; None: from that alone, for graphs
            whose factors tell the types of all keys.
        method: "local": optimise and certify; "staircase": then the Riemannian staircase; "chordal": then the
            semidefinite relaxation on cliques; "auto": all of them as far as they are needed, the cheaper one first.
        lift: of the relaxation: "gram": small cones; "vector": larger ones, which hold noise along the axes of the
            world and can be tighter; "auto": "vector" where only that one holds all costs, and it fits.
        ordering: of the relaxation: "metis", "colamd", the cheaper of the two ("auto"), or a gtsam.Ordering.
        backend: the SDP solver: "clarabel", "mosek" or an instance of a `Backend`.
        tolerance: largest relative gap that counts as CERTIFIED.
        time_limit: no method after the first is begun after this time, and optimizer and SDP solver stop at their
            next iteration; what they have found is still certified [s].
        on_unsupported: "raise" an error that lists all factors that no term is known for, or "drop" them: they count
            as 0 in the bound, which stays valid, and are optimised with the others all the same.
        seed: of the vectors from which the staircase looks for directions of descent.
        verbose: show the steps as they are done.

    Raises:
        GtsamSdpError: as `certify`; InvalidGraphError where `initial` is needed; with method="chordal" also
            ProblemTooLargeError and SolveFailedError.
    """
    from gtsam_sdp.search.ladder import solve_graph  # on the first call: importing the package is quick
    from gtsam_sdp.search.task import Options

    options = Options(method, lift, ordering, backend, tolerance, time_limit, seed, on_unsupported)
    with showing_progress(verbose):
        return solve_graph(graph, options, initial)


def refine(
    graph: gtsam.NonlinearFactorGraph,
    values: gtsam.Values,
    *,
    method: SolveMethod = "auto",
    lift: LiftChoice = "auto",
    ordering: OrderingChoice = "auto",
    backend: BackendChoice = "clarabel",
    tolerance: float = 1e-4,
    time_limit: float | None = None,
    on_unsupported: OnUnsupported = "raise",
    seed: int = 0,
    verbose: bool = False,
) -> Solution:
    """Certifies values, and where that fails searches as `solve` does; never worse than what it was given.

    Args:
        graph: the graph; it is not changed.
        values: a solution, good or not; it is not changed.
        method: how to search: "local": optimise if the values are no local optimum; "staircase": then the Riemannian
            staircase; "chordal": then the semidefinite relaxation on cliques; "auto": the chordal initialisation, then
            these as far as they are needed.
        lift: of the relaxation: "gram", "vector" or "auto", as in `solve`.
        ordering: of the relaxation: "metis", "colamd", the cheaper of the two ("auto"), or a gtsam.Ordering.
        backend: the SDP solver: "clarabel", "mosek" or an instance of a `Backend`.
        tolerance: largest relative gap that counts as CERTIFIED.
        time_limit: no method is begun after this time, and optimizer and SDP solver stop at their next iteration [s].
        on_unsupported: "raise" an error for factors that no term is known for, or "drop" them from the bound.
        seed: of the vectors from which the staircase looks for directions of descent.
        verbose: show the steps as they are done.

    Raises:
        GtsamSdpError: as `solve`.
    """
    from gtsam_sdp.search.ladder import refine_values  # on the first call: importing the package is quick
    from gtsam_sdp.search.task import Options

    options = Options(method, lift, ordering, backend, tolerance, time_limit, seed, on_unsupported)
    with showing_progress(verbose):
        return refine_values(graph, options, values)
