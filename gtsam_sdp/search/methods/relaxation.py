"""The relaxation on cliques with terms that touch each cost at zero error, then at the best values."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import gtsam

from gtsam_sdp.errors import ProblemTooLargeError, SolveFailedError
from gtsam_sdp.relaxation.relaxation import Relaxation
from gtsam_sdp.results.solution import FoundBy, StageName
from gtsam_sdp.search.budget import Budget
from gtsam_sdp.search.findings import Finding, Incumbent
from gtsam_sdp.search.methods.local import optimised
from gtsam_sdp.search.multilateration import placed_by_ranges
from gtsam_sdp.search.task import Strategy, Task, have_tangents
from gtsam_sdp.terms.terms import Terms

NAME = "the relaxation on cliques"


def relaxed(task: Task, known: Incumbent, budget: Budget, *, built: Relaxation | None = None) -> Finding:
    """The relaxation's bound and values, which are optimised, and that with tangents at the solution.

    It is begun where it was asked for, where it is refused for its size, and where the time allows it.
    """
    if built is None:
        problem = task.problem(known.best_values, at_measurements=True)
        if not problem.terms:
            return Finding()
        built = task.relaxation(problem)
    cost, is_auto = built.predicted_cost, task.options.method == Strategy.AUTO
    if is_auto and cost.fits and not budget.allows(NAME, cost.seconds, _tolerances(task, known)):
        return Finding()
    began = time.perf_counter()
    found = _solved(built, StageName.RELAXATION, task, known, budget)
    if found.values is None or (budget.remaining <= 0 and is_auto):
        return found
    seconds = time.perf_counter() - began
    start = _placed(found.values, built.lift.terms, task, known)
    then = (partial(optimised, start, FoundBy.RELAXATION), partial(_relaxed_again, built.lift.terms, seconds))
    return replace(found, then=then)


def _relaxed_again(terms: Sequence[Terms], seconds: float, task: Task, known: Incumbent, budget: Budget) -> Finding:
    """The bound of the relaxation with tangents at the best values, predicted to take as long as the first one."""
    if known.is_final(budget) or not have_tangents(terms):
        return Finding()
    if not budget.allows(f"{NAME} with tangents at the solution", seconds, _tolerances(task, known)):
        return Finding()
    again = task.relaxation(task.problem(known.best_values, at_measurements=False))
    return _solved(again, StageName.RELAXATION_AGAIN, task, known, budget)


def _solved(relaxation: Relaxation, stage: StageName, task: Task, known: Incumbent, budget: Budget) -> Finding:
    """Bound and values of a relaxation; none if it is too large or the solver found no point."""
    limit = max(budget.ends_with(budget.for_a_relaxation) - time.perf_counter(), 1e-3)
    try:
        solution = relaxation.solve(task.options.backend, time_limit=limit)
    except (ProblemTooLargeError, SolveFailedError) as error:
        if task.options.method == Strategy.SDP:
            raise
        return Finding(stage, str(error).split(". ")[0])
    values = task.completed(solution.recover(), known.values)
    return Finding(
        stage, solution.summary, task.graph.error(values), values,
        bound=solution.bound, bound_by="sdp", relaxation=solution,
    )  # fmt: skip


def _tolerances(task: Task, known: Incumbent) -> float:
    """The gap, counted in tolerances."""
    return known.best_certificate.relative_gap / max(task.options.tolerance, 1e-300)


def _placed(values: gtsam.Values, terms: Sequence[Terms], task: Task, known: Incumbent) -> gtsam.Values:
    """Values with positions that only ranges hold where these meet, if that is better."""
    if all(batch.distances is None for batch in terms):
        return values
    reading = task.read(values, at_any_values=True)
    lifted = placed_by_ranges(reading, terms, reading.estimate)
    placed = task.completed(reading.layout.unlift(lifted), known.values)
    return placed if task.graph.error(placed) < task.graph.error(values) else values
