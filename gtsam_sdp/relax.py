"""relax: the semidefinite relaxation of a graph with every intermediate object, to solve or to explore."""

from __future__ import annotations

from typing import TYPE_CHECKING

import gtsam

if TYPE_CHECKING:
    from gtsam_sdp.reading.graph import OnUnsupported
    from gtsam_sdp.relaxation.relaxation import LiftChoice, Relaxation
    from gtsam_sdp.relaxation.tree import OrderingChoice


def relax(
    graph: gtsam.NonlinearFactorGraph,
    values: gtsam.Values | None = None,
    *,
    lift: LiftChoice = "gram",
    tighten: bool = True,
    ordering: OrderingChoice = "auto",
    on_unsupported: OnUnsupported = "raise",
) -> Relaxation:
    """The semidefinite relaxation of a graph on the cliques of GTSAM's Bayes tree, nothing solved yet.

    Args:
        graph: the graph; it is not changed.
        values: where terms touch the cost, and the scale of the coordinates: a local optimum, usually. None: terms
            touch the cost of each factor where its error is zero, so that the bound depends on no values; the scale
            is that of the chordal initialisation.
        lift: "gram": d columns and small cones; "vector": one column and cones that are larger, in 3D three times, and
            hold noise that differs along the axes of the world; "auto": "vector" where it holds what the other only
            bounds, and it fits.
        tighten: add redundant constraints that hold for rotations: the convex hull of SO(d) for pairs of rotations in
            a clique ("gram"), R R^T = I and cross products ("vector").
        ordering: "metis", "colamd", the cheaper of the two ("auto"), or a gtsam.Ordering of the graph's keys.
        on_unsupported: as in `certify`; keys that only dropped factors hold are not part of the relaxation, and
            `recover` gives no values for them.

    Raises:
        GtsamSdpError: as `certify`; InvalidGraphError for an ordering that misses keys, and, without values, for a key
            whose type no supported factor tells.
    """
    # on the first call: importing the package is quick
    from gtsam_sdp.certification.stationarity import is_near_optimum
    from gtsam_sdp.lift.problem import Problem
    from gtsam_sdp.reading.graph import read
    from gtsam_sdp.relaxation.relaxation import Relaxation
    from gtsam_sdp.search.start import starting_values

    at_measurements = values is None
    reading = read(graph, starting_values(graph, on_unsupported) if values is None else values, on_unsupported)
    touching = values is None or is_near_optimum(graph, values, reading.cost)
    problem = Problem.build(reading, at_measurements=at_measurements, touching=touching)
    return Relaxation.build(problem, lift=lift, tighten=tighten, ordering=ordering)
