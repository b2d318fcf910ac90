"""The staircase with terms that touch each cost at zero error, then at better and better values."""

from __future__ import annotations

from functools import partial

from gtsam_sdp.lowrank.quadratic import Quadratic
from gtsam_sdp.lowrank.staircase import climb, rounded
from gtsam_sdp.proof.bound import verify_bound
from gtsam_sdp.proof.multipliers import closed_form_multipliers
from gtsam_sdp.results.solution import FoundBy, StageName
from gtsam_sdp.search.budget import Budget
from gtsam_sdp.search.findings import Finding, Incumbent, Method
from gtsam_sdp.search.methods.local import optimised
from gtsam_sdp.search.task import Task, have_tangents
from gtsam_sdp.terms.terms import convex

_STAIRCASES = 4
"""Staircases with tangents at better and better values."""


def climbed(task: Task, known: Incumbent, budget: Budget, *, number: int = 0) -> Finding:
    """One staircase from the best values; with tangents there it is climbed for its bound rather than its point."""
    best = known.best_values
    problem = task.problem(best, at_measurements=number == 0)
    terms, space = problem.terms, problem.layout.space
    if not terms:
        return Finding()
    # other tangents of ranges may leave the lifted cost without a minimum
    held = problem.with_terms([batch if batch.distances is None else convex(batch, space.rows) for batch in terms])
    qcqp, columns = held.qcqp, 2 * space.dimension + 2
    ends = budget.ends_with(budget.for_a_rung)
    found = climb(Quadratic(qcqp), held.Y, max_columns=columns, ends=ends, seed=task.options.seed)
    if found.was_late:
        budget.leave("the staircase to its end")
    flat = rounded(qcqp, found.Y)
    bound = verify_bound(qcqp, closed_form_multipliers(qcqp, found.Y), flat)
    values = task.completed(qcqp.unlift(flat), best)
    note = f"{found.columns} columns{'' if found.is_second_order else ', stopped early'}, rounded"
    then: list[Method] = []
    if number == 0 or not found.was_late:
        then.append(partial(optimised, values, FoundBy.STAIRCASE))
    if number + 1 < _STAIRCASES and have_tangents(terms):
        then.append(partial(_climbed_again, number + 1, known.cost))
    cost = task.graph.error(values)
    return Finding(StageName.STAIRCASE, note, cost, bound=bound, bound_by="staircase", then=tuple(then))


def _climbed_again(number: int, before: float, task: Task, known: Incumbent, budget: Budget) -> Finding:
    """The next staircase, if the one before is the first or lowered the cost from that before it."""
    improves = known.cost < before * (1 - task.options.tolerance)
    if known.is_final(budget) or not (improves or number == 1):
        return Finding()
    if budget.is_spent(float(improves)):
        budget.leave("the staircase with tangents at the solution")
        return Finding()
    return climbed(task, known, budget, number=number)
