"""certify: read, build minorants, multipliers, prove a bound. The recipe of the package's main function."""

from __future__ import annotations

from typing import TYPE_CHECKING

import gtsam

from gtsam_sdp.progress import Clock, showing_progress

if TYPE_CHECKING:
    from gtsam_sdp.backends.choose import BackendChoice
    from gtsam_sdp.certification.evidence import Method
    from gtsam_sdp.reading.graph import OnUnsupported
    from gtsam_sdp.results.certificate import Certificate


def certify(
    graph: gtsam.NonlinearFactorGraph,
    values: gtsam.Values,
    *,
    tolerance: float = 1e-4,
    method: Method = "auto",
    on_unsupported: OnUnsupported = "raise",
    backend: BackendChoice = "clarabel",
    region: float | None = None,
    verbose: bool = False,
) -> Certificate:
    """Bounds how much better than `values` any other solution of `graph` can be.

    Every factor's cost is replaced by a quadratic function of rotations and translations that is never above it
    and touches it at `values`. Multipliers at that point turn the sum into a lower bound for all values, if a matrix
    is positive semidefinite, which is proven in floating point (docs/maths/).

    Args:
        graph: the graph that was optimised; it is not changed.
        values: the solution, usually the result of an optimizer; it is not changed.
        tolerance: largest relative gap that counts as CERTIFIED.
        method: "multipliers" needs no SDP solver; "chordal" takes multipliers from the semidefinite relaxation on the
            cliques of the Bayes tree, which takes longer and can prove more; "auto": multipliers, and the relaxation
            where these do not certify the values and it is predicted to take less than five seconds.
        on_unsupported: "raise" an error that lists all factors that no term is known for, or "drop" them: they count
            as 0 in the bound and keep their cost, so the bound stays valid. Keys that only they hold may have values
            of any type, as IMU biases and calibrations.
        backend: the SDP solver of the relaxation: "clarabel", "mosek" or an instance of a `Backend`.
        region: for graphs with robust losses the residual up to which their factors have to be allowed for [sigmas];
            None: the largest one for which the proof succeeds.
        verbose: show the steps as they are done.

    Raises:
        UnsupportedFactorError, UnsupportedNoiseError: factors that no term is known for.
        InvalidGraphError: the graph or the values cannot be used.
        InvalidTermError: a term registered by the user is above the cost of its factor, or an error that looked linear
            is not.
        GtsamSdpError: with method="chordal" as `Relaxation.solve`.
        ValueError: an argument that is none of those listed.
    """
    # on the first call, before the clock runs: importing the package is quick
    from gtsam_sdp.certification.conclude import certify_problem
    from gtsam_sdp.certification.robust import lifted
    from gtsam_sdp.certification.stationarity import is_near_optimum
    from gtsam_sdp.reading.checks import check_tolerance
    from gtsam_sdp.reading.graph import read

    if method not in ("auto", "multipliers", "chordal"):
        raise ValueError(f'method must be "auto", "multipliers" or "chordal", not {method!r}.')
    check_tolerance(tolerance)
    with showing_progress(verbose):
        clock = Clock()
        reading = read(graph, values, on_unsupported)
        clock.done("reading", f"{len(reading.table.index)} factors, {len(reading.layout.keys)} keys")
        # multipliers tell themselves how far the values are from an optimum
        touching = method != "chordal" or is_near_optimum(graph, values, reading.cost)
        problem = lifted(reading, tolerance, touching=touching)
        return certify_problem(
            graph, values, problem, clock, tolerance=tolerance, method=method, backend=backend, region=region
        )
