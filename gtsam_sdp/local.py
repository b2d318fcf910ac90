"""Local optimisation: GTSAM's Levenberg-Marquardt, step by step, so that it can be stopped and tell how far it is."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum

import gtsam

from gtsam_sdp.reading.graph import Reading
from gtsam_sdp.softening import largest_ratio, softened_graph

MAX_ITERATIONS = 100
"""As GTSAM's own default."""

_RELATIVE_ERROR_TOLERANCE = 1e-10

_DECADES = 1e6
"""Ratio of the largest weights to the usual ones from which the weights are raised step by step too."""

_FACTOR = 100.0
"""By which the largest weight grows from one step to the next."""

_ROUGH = 1e-6
"""Relative decrease that ends a step before the last one."""


class Stop(Enum):
    """Why an optimizer stopped."""

    CONVERGED = "converged"
    NO_STEP = "no step possible"
    """With this damping; another one may find a step."""
    ITERATIONS = "iteration limit"
    ASKED = "stopped"
    """By a time limit, or because it was told to."""


@dataclass(frozen=True)
class Optimization:
    """What an optimizer did: its result, costs before and after, and why it stopped."""

    values: gtsam.Values
    initial_cost: float
    cost: float
    iterations: int
    stop: Stop
    seconds: float

    @property
    def converged(self) -> bool:
        """Whether the next step would gain next to nothing."""
        return self.stop is Stop.CONVERGED

    def then(self, other: Optimization) -> Optimization:
        """Both, one after the other."""
        return replace(
            other,
            initial_cost=self.initial_cost,
            iterations=self.iterations + other.iterations,
            seconds=self.seconds + other.seconds,
        )


GoOn = Callable[[int, float], bool]
"""Asked after each iteration, with their number and the cost, whether to go on."""


def optimise(
    graph: gtsam.NonlinearFactorGraph,
    start: gtsam.Values,
    *,
    max_iterations: int = MAX_ITERATIONS,
    tolerance: float = _RELATIVE_ERROR_TOLERANCE,
    by_diagonal: bool = False,
    ends: float = math.inf,
    go_on: GoOn = lambda iterations, cost: True,
) -> Optimization:
    """Levenberg-Marquardt with a tight relative tolerance, as `optimize()` runs it.

    Args:
        graph: the graph.
        start: where to start.
        max_iterations: the limit.
        tolerance: relative decrease of the cost by an iteration that ends it.
        by_diagonal: damp each variable by its own weight, and not all by the largest one.
        ends: no iteration after the first begins after this reading of `time.perf_counter` [s].
        go_on: whether to go on.

    Raises:
        RuntimeError, ValueError: GTSAM cannot do a step.
    """
    parameters = gtsam.LevenbergMarquardtParams()
    parameters.setRelativeErrorTol(tolerance)
    parameters.setAbsoluteErrorTol(0.0)
    parameters.setMaxIterations(max_iterations)
    parameters.setDiagonalDamping(by_diagonal)
    began = time.perf_counter()
    optimizer = gtsam.LevenbergMarquardtOptimizer(graph, start, parameters)
    initial_cost = cost = optimizer.error()
    stop = Stop.CONVERGED if cost == 0 else Stop.ITERATIONS
    while stop is Stop.ITERATIONS and optimizer.iterations() < max_iterations and math.isfinite(cost):
        optimizer.iterate()
        before, cost = cost, optimizer.error()
        if cost == before:
            stop = Stop.NO_STEP
        elif before - cost <= tolerance * before or cost == 0:
            stop = Stop.CONVERGED
        elif not go_on(optimizer.iterations(), cost) or time.perf_counter() > ends:
            stop = Stop.ASKED
    seconds = time.perf_counter() - began
    return Optimization(optimizer.values(), initial_cost, cost, optimizer.iterations(), stop, seconds)


def settle(
    graph: gtsam.NonlinearFactorGraph,
    start: gtsam.Values,
    *,
    max_iterations: int = 2 * MAX_ITERATIONS,
    ends: float = math.inf,
    go_on: GoOn = lambda iterations, cost: True,
) -> Optimization:
    """`optimise`, and from where that finds no step, or takes many, again with the other damping.

    A step that fails is no convergence: damping by the largest weight lets nothing move where others are ten decades
    smaller. Raises as `optimise`.
    """
    first = optimise(graph, start, max_iterations=min(max_iterations, MAX_ITERATIONS), ends=ends, go_on=go_on)
    done = first.iterations
    may_go_on = first.stop in (Stop.NO_STEP, Stop.ITERATIONS) and done < max_iterations and math.isfinite(first.cost)
    if not may_go_on:
        return first

    def again(iterations: int, cost: float) -> bool:
        return go_on(done + iterations, cost)

    try:
        left = max_iterations - done
        second = optimise(graph, first.values, max_iterations=left, by_diagonal=True, ends=ends, go_on=again)
    except (RuntimeError, ValueError):  # GTSAM throws both
        return first
    if second.stop is Stop.NO_STEP:
        second = replace(second, stop=Stop.CONVERGED)
    return first.then(second)


def settle_by_weights(
    graph: gtsam.NonlinearFactorGraph, reading: Reading, start: gtsam.Values, *, ends: float = math.inf
) -> Optimization | None:
    """Optimises with the largest weights cut to the usual ones, then to larger and larger ones, then as they are.

    None where weights do not differ by many decades. Raises as `optimise`.
    """
    largest = largest_ratio(reading)
    if largest < _DECADES:
        return None
    cap, values, seconds, iterations = 1.0, start, 0.0, 0
    while cap < largest:
        softer = softened_graph(graph, reading, cap)
        step = optimise(softer, values, tolerance=_ROUGH, by_diagonal=True, ends=ends)
        values, seconds, iterations = step.values, seconds + step.seconds, iterations + step.iterations
        if step.stop is Stop.ASKED:
            break
        cap *= _FACTOR
    last = settle(graph, values, ends=ends)
    return replace(last, initial_cost=graph.error(start), iterations=iterations + last.iterations,
                   seconds=seconds + last.seconds)  # fmt: skip
