"""How far values are from a local optimum of the graph itself, by an iteration of GTSAM's optimizer."""

from __future__ import annotations

import math

import gtsam

from gtsam_sdp.deadline import has_time, timed
from gtsam_sdp.progress import report_now
from gtsam_sdp.tolerances import FAR_FROM_OPTIMUM, SAME_COST


def is_near_optimum(graph: gtsam.NonlinearFactorGraph, values: gtsam.Values, cost: float) -> bool:
    """Whether an iteration of Levenberg-Marquardt gains next to nothing."""
    return not gain_of_an_iteration(graph, values, cost) > FAR_FROM_OPTIMUM * cost


def gain_of_an_iteration(graph: gtsam.NonlinearFactorGraph, values: gtsam.Values, cost: float) -> float:
    """How much one iteration of Levenberg-Marquardt lowers the cost; infinite if it cannot be done, NaN without time.

    Where weights differ by many decades the usual damping, by the largest of them, may let nothing move.
    """
    if not has_time():
        return math.nan
    gains = []
    report_now("stationarity")
    for by_diagonal in (False, True):
        if gains and not has_time():
            break
        parameters = gtsam.LevenbergMarquardtParams()
        parameters.setDiagonalDamping(by_diagonal)
        try:
            optimizer = gtsam.LevenbergMarquardtOptimizer(graph, values, parameters)
            with timed():
                optimizer.iterate()
        except RuntimeError:
            continue
        gains.append(max(cost - optimizer.error(), 0.0))
        if gains[-1] > SAME_COST * cost:
            break
    return max(gains, default=math.inf)
