"""Local optimisation: GTSAM's Levenberg-Marquardt, step by step, so that it can be stopped and tell how far it is."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum

import gtsam

from gtsam_sdp.progress import report_now

MAX_ITERATIONS = 200
"""In all."""

_USUAL_ITERATIONS = 100
"""With the usual damping, as GTSAM's own default; then diagonal damping is tried for as many."""

_RELATIVE_ERROR_TOLERANCE = 1e-10

_NO_COST = 1e-20
"""A cost that no optimizer lowers further: residuals of 1e-10 of their sigmas."""

_SETTLED = 1e-6
"""After a step that was not damped and gained no more than this share of the cost, rounding may hide the next gain."""

_TRIES = 10
"""A step that rounding hides is tried at so many dampings, from that of the step before up to GTSAM's largest."""

_FREE = 1e-4
"""Damping below which a step counts as not damped: GTSAM starts with 1e-5."""

_DAMPED = 1.0
"""Damping at which steps may be short; GTSAM ends with much less where all goes well."""


class OptimizationInterrupted(KeyboardInterrupt):
    """Ctrl-C; what was found until then is in `found`."""

    def __init__(self, found: Optimization) -> None:
        super().__init__(f"Ctrl-C after {found.iterations} iterations")
        self.found = found


class Ending(Enum):
    """Why an optimizer stopped."""

    CONVERGED = "converged"
    NO_STEP = "no step lowers the cost at any damping"
    LIMIT = "limit of iterations"
    STOPPED = "stopped, by the time or the caller"
    DIVERGED = "the cost is not finite"


@dataclass(frozen=True)
class Optimization:
    """What an optimizer did: its result, costs before and after, and why it stopped.

    Attributes:
        values: the result.
        initial_cost: of the start.
        cost: of the result.
        iterations: with either damping.
        ending: why the last run stopped.
        seconds: its time.
        diagonal: iterations of these with diagonal damping.
        damped: whether the last step was held back by the damping, and not by rounding alone.
        longest: time of the longest iteration [s].
    """

    values: gtsam.Values
    initial_cost: float
    cost: float
    iterations: int
    ending: Ending
    seconds: float
    diagonal: int = 0
    damped: bool = False
    longest: float = 0.0

    @property
    def converged(self) -> bool:
        """Whether the last step gained next to nothing because of what is left to gain, or rounding hides that."""
        return self.ending is Ending.CONVERGED

    @property
    def note(self) -> str:
        """What is worth telling about how it ended; empty if it just converged."""
        damping = f", {self.diagonal} of {self.iterations} iterations with diagonal damping" if self.diagonal else ""
        if self.converged:
            return damping
        if self.ending is Ending.NO_STEP:
            return f"{damping}, no step lowers the cost"
        return f"{damping}, stopped after {self.iterations} iterations"


def optimise(
    graph: gtsam.NonlinearFactorGraph,
    start: gtsam.Values,
    *,
    max_iterations: int = MAX_ITERATIONS,
    ends: float = math.inf,
    go_on: Callable[[int, float], bool] = lambda iterations, cost: True,
) -> Optimization:
    """Levenberg-Marquardt with a tight relative tolerance, as `optimize()` runs it.

    GTSAM damps all directions by the same number. Where weights differ by many decades nothing may move then, or only
    slowly: damping by the diagonal of the Hessian goes on from there (docs/maths/, section 6.4).

    Args:
        graph: the graph.
        start: where to start.
        max_iterations: the limit, of which the usual damping gets the first hundred.
        ends: no iteration after the first is begun that is predicted to end after this reading of
            `time.perf_counter` [s].
        go_on: asked after each iteration, with their number and the cost.

    Raises:
        RuntimeError, ValueError: GTSAM cannot do a step.
        OptimizationInterrupted: Ctrl-C.
    """

    def told(iterations: int, cost: float) -> bool:
        report_now(f"Levenberg-Marquardt, iteration {iterations}", cost=cost)
        return go_on(iterations, cost)

    report_now("Levenberg-Marquardt")
    found = levenberg_marquardt(graph, start, min(max_iterations, _USUAL_ITERATIONS), ends, told)
    left = min(max_iterations - found.iterations, _USUAL_ITERATIONS)
    if not left or not _is_held_back(found) or time.perf_counter() + found.longest > ends:
        return found
    try:
        more = levenberg_marquardt(
            graph,
            found.values,
            left,
            ends,
            lambda iterations, cost: told(found.iterations + iterations, cost),
            by_diagonal=True,
        )
    except RuntimeError:
        return found
    if not more.cost <= found.cost:
        return found
    return replace(
        more,
        initial_cost=found.initial_cost,
        iterations=found.iterations + more.iterations,
        seconds=found.seconds + more.seconds,
        longest=max(found.longest, more.longest),
    )


def _is_held_back(found: Optimization) -> bool:
    """Whether another damping may go on."""
    if found.cost <= _NO_COST:
        return False
    return found.ending is Ending.LIMIT or (found.damped and found.ending in (Ending.NO_STEP, Ending.CONVERGED))


def levenberg_marquardt(
    graph: gtsam.NonlinearFactorGraph,
    start: gtsam.Values,
    max_iterations: int,
    ends: float = math.inf,
    go_on: Callable[[int, float], bool] = lambda iterations, cost: True,
    *,
    by_diagonal: bool = False,
) -> Optimization:
    """One optimizer with one kind of damping.

    After the first no iteration is begun that would end too late if it took as long as the longest so far, or many
    times as long where rounding may hide what it gains.
    """
    parameters = gtsam.LevenbergMarquardtParams()
    parameters.setRelativeErrorTol(_RELATIVE_ERROR_TOLERANCE)
    parameters.setAbsoluteErrorTol(0.0)
    parameters.setMaxIterations(max_iterations)
    parameters.setDiagonalDamping(by_diagonal)
    began = time.perf_counter()
    optimizer = gtsam.LevenbergMarquardtOptimizer(graph, start, parameters)

    def found(ending: Ending) -> Optimization:
        iterations = optimizer.iterations()
        return Optimization(
            values=optimizer.values(),
            initial_cost=initial_cost,
            cost=optimizer.error(),
            iterations=iterations,
            ending=ending,
            seconds=time.perf_counter() - began,
            diagonal=iterations if by_diagonal else 0,
            damped=optimizer.lambda_() >= _DAMPED and not was_settled,
            longest=longest,
        )

    initial_cost = cost = optimizer.error()
    ending = Ending.CONVERGED if cost == 0 else None if math.isfinite(cost) else Ending.DIVERGED
    longest, was_settled, is_settled = 0.0, False, False
    while ending is None:
        at = time.perf_counter()
        try:
            optimizer.iterate()
        except KeyboardInterrupt:
            raise OptimizationInterrupted(found(Ending.STOPPED)) from None
        before, cost = cost, optimizer.error()
        now = time.perf_counter()
        longest = max(longest, now - at)
        was_settled, is_settled = is_settled, before - cost <= _SETTLED * before and optimizer.lambda_() < _FREE
        if not math.isfinite(cost):
            ending = Ending.DIVERGED
        elif before - cost <= _RELATIVE_ERROR_TOLERANCE * before or cost == 0:
            gave_up = cost == before and optimizer.lambda_() >= parameters.getlambdaUpperBound()
            ending = Ending.NO_STEP if gave_up and not was_settled else Ending.CONVERGED
        elif not go_on(optimizer.iterations(), cost) or now + longest * (_TRIES if is_settled else 1) > ends:
            ending = Ending.STOPPED
        elif optimizer.iterations() >= max_iterations:
            ending = Ending.LIMIT
    return found(ending)
