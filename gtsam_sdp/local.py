"""Local optimisation: GTSAM's Levenberg-Marquardt, step by step, so that it can be stopped and tell how far it is."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import gtsam

MAX_ITERATIONS = 100
"""As GTSAM's own default."""

_RELATIVE_ERROR_TOLERANCE = 1e-10


@dataclass(frozen=True)
class Optimization:
    """What an optimizer did: its result, costs before and after, and why it stopped."""

    values: gtsam.Values
    initial_cost: float
    cost: float
    iterations: int
    converged: bool
    seconds: float


def optimise(
    graph: gtsam.NonlinearFactorGraph,
    start: gtsam.Values,
    *,
    max_iterations: int = MAX_ITERATIONS,
    ends: float = math.inf,
    go_on: Callable[[int, float], bool] = lambda iterations, cost: True,
) -> Optimization:
    """Levenberg-Marquardt with a tight relative tolerance, as `optimize()` runs it.

    Args:
        graph: the graph.
        start: where to start.
        max_iterations: the limit.
        ends: no iteration after the first begins after this reading of `time.perf_counter` [s].
        go_on: asked after each iteration, with their number and the cost.

    Raises:
        RuntimeError, ValueError: GTSAM cannot do a step.
    """
    parameters = gtsam.LevenbergMarquardtParams()
    parameters.setRelativeErrorTol(_RELATIVE_ERROR_TOLERANCE)
    parameters.setAbsoluteErrorTol(0.0)
    parameters.setMaxIterations(max_iterations)
    began = time.perf_counter()
    optimizer = gtsam.LevenbergMarquardtOptimizer(graph, start, parameters)
    initial_cost = cost = optimizer.error()
    converged = cost == 0
    while not converged and optimizer.iterations() < max_iterations and math.isfinite(cost):
        optimizer.iterate()
        before, cost = cost, optimizer.error()
        converged = before - cost <= _RELATIVE_ERROR_TOLERANCE * before or cost == 0
        if not go_on(optimizer.iterations(), cost) or time.perf_counter() > ends:
            break
    seconds = time.perf_counter() - began
    return Optimization(optimizer.values(), initial_cost, cost, optimizer.iterations(), converged, seconds)
