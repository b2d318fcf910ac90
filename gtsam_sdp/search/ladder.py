"""The ladder of methods behind `solve` and `refine`: which ones, in which order, and what is known after each."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial

import gtsam
import numpy as np

from gtsam_sdp.errors import Interrupted, InvalidGraphError
from gtsam_sdp.progress import report_now, report_step
from gtsam_sdp.remedies import Remedy
from gtsam_sdp.results.notes import Note, NoteKind
from gtsam_sdp.results.solution import FoundBy, Solution, Stage
from gtsam_sdp.search.budget import Budget
from gtsam_sdp.search.findings import Finding, Incumbent, Method, is_most, only_if
from gtsam_sdp.search.local import OptimizationInterrupted
from gtsam_sdp.search.methods.continuation import stepped_up
from gtsam_sdp.search.methods.graduated import any_values, is_settled, starts
from gtsam_sdp.search.methods.initialisation import initialised
from gtsam_sdp.search.methods.local import certified, optimised
from gtsam_sdp.search.methods.relaxation import NAME, relaxed
from gtsam_sdp.search.methods.staircase import climbed
from gtsam_sdp.search.task import Options, Strategy, Task
from gtsam_sdp.tolerances import MAX_FLOPS_FIRST

_IN_VAIN = "values like these cannot be certified, and no global method is tried"


_Rung = tuple[str, Method]
"""A global method, by name."""


_ROBUST = (starts, only_if(lambda k, b: not is_settled(k) and b.remaining > 0, stepped_up))
"""What takes the place of the global methods for graphs with robust losses."""


def solve_graph(graph: gtsam.NonlinearFactorGraph, options: Options, initial: gtsam.Values | None) -> Solution:
    """The whole ladder, from values or none."""
    return _solution(Task(graph, options, initial), (_told_of_dropped, _by_losses((_started, _climbed), _ROBUST)))


def refine_values(graph: gtsam.NonlinearFactorGraph, options: Options, values: gtsam.Values) -> Solution:
    """The whole ladder, as far as the values given are not good enough."""
    optimise = partial(optimised, values, FoundBy.LOCAL)
    is_auto = options.method == Strategy.AUTO
    steps = (
        partial(certified, values, FoundBy.GIVEN),
        _told_of_dropped,
        only_if(lambda k, b: (k.is_far_from_optimum or k.gains_by_a_step) and b.remaining > 0, optimise),
    )
    others = (only_if(_is_needed, stepped_up), only_if(_is_needed, initialised)) * is_auto
    last = _by_losses((*others, _climbed), _ROBUST * is_auto)
    return _solution(Task(graph, options, values), (*steps, last))


def _by_losses(others: tuple[Method, ...], robust: tuple[Method, ...]) -> Method:
    """Some methods, or others where factors have a robust loss: no bound of a relaxation holds for these everywhere."""

    def chosen(task: Task, known: Incumbent, budget: Budget) -> Finding:
        reading = task.reading or task.read(any_values(task), at_any_values=True)
        if not reading.robust:
            return Finding(then=others)
        if task.options.method in (Strategy.STAIRCASE, Strategy.SDP):
            count = sum(len(group.index) for group in reading.robust)
            raise InvalidGraphError(
                f'{count} factor(s) have a robust loss, for which method="{task.options.method}" has no bound. '
                'Take method="auto", which finds by graduated non-convexity what fits, or Gaussian noise.'
            )
        return Finding(then=robust)

    return chosen


def _followed(methods: Iterable[Method], task: Task, known: Incumbent, budget: Budget) -> Incumbent:
    """The best that is known after some methods, and after what follows from what each of them finds."""
    for method in methods:
        try:
            finding = method(task, known, budget)
            budget.reading = task.reading_seconds
            if finding.stage is not None:
                known = known.joined(finding, budget.took(finding.stage))
                _report(known.stages[-1])
                _report_best(known)
        except KeyboardInterrupt as interrupt:
            raise _interrupted(interrupt, task, known, budget) from None
        known = _followed(finding.then, task, known, budget)
    return known


def _interrupted(interrupt: KeyboardInterrupt, task: Task, known: Incumbent, budget: Budget) -> Interrupted:
    """What is known when Ctrl-C ends a search; an optimizer may have better values, which nothing certifies yet."""
    best, cost = known.values, known.cost
    if isinstance(interrupt, OptimizationInterrupted):
        found = interrupt.found.values
        if task.graph.error(found) < cost:
            best = found
    return Interrupted(best, None if known.certificate is None else _as_solution(task, known, budget))


def _report(stage: Stage) -> None:
    """Logs a stage."""
    numbers = {"cost": stage.cost, "bound": stage.lower_bound}
    found = [f"{what} {number:.8g}" for what, number in numbers.items() if math.isfinite(number)]
    report_step(stage.name, ", ".join(part for part in (*found, stage.note) if part), stage.seconds)


def _report_best(known: Incumbent) -> None:
    """Says what is known so far; a bound on a region is one of its values only."""
    if known.certificate is not None:
        bound = known.certificate.lower_bound if known.certificate.region is None else math.nan
        report_now(cost=known.certificate.cost, bound=bound)


def _solution(task: Task, methods: Iterable[Method]) -> Solution:
    """What methods find, one after the other."""
    budget = Budget(task.options.time_limit)
    return _as_solution(task, _followed(methods, task, Incumbent(), budget), budget)


def _as_solution(task: Task, known: Incumbent, budget: Budget) -> Solution:
    """What is known, as the user sees it."""
    certificate = known.best_certificate
    gain = math.nan if task.given is None else task.graph.error(task.given) - certificate.cost
    return Solution(
        values=known.best_values,
        cost=certificate.cost,
        certificate=replace(certificate, notes=_notes(known, budget)),
        method=known.found_by.value,
        stages=known.stages,
        improvement=gain if math.isfinite(gain) else 0.0,
        relaxation=known.relaxation,
        untried=() if is_settled(known) else tuple(budget.untried),
    )


def _notes(known: Incumbent, budget: Budget) -> tuple[Note, ...]:
    """Those of the best certificate, less advice that was followed, and what became of it."""
    certificate = known.best_certificate
    notes = [note for note in certificate.notes if note.remedy not in (Remedy.REFINE, Remedy.OPTIMISE)]
    if known.is_far_from_optimum:
        ended = "the time ended before the optimizer" if budget.remaining <= 0 else "no step led to one"
        notes.append(Note(f"the values are not a local optimum: {ended}", kind=NoteKind.ADVICE))
    elif math.isnan(certificate.stationarity) and not certificate:
        text = "the time ended before it was known whether the values are a local optimum"
        notes.append(Note(text, kind=NoteKind.ADVICE))
    if known.is_in_vain:
        notes.append(Note(f"the dropped factors make up most of the cost: {_IN_VAIN}", kind=NoteKind.ADVICE))
    return tuple(notes)


def _told_of_dropped(task: Task, known: Incumbent, budget: Budget) -> Finding:
    """Says that the bound will leave a gap where most of the cost is that of dropped factors."""
    if task.given is None:
        return Finding()
    reading = task.read(task.given, at_any_values=True)
    at = np.searchsorted(reading.table.index, [offender.index for offender in reading.dropped])
    dropped, cost = float(reading.costs[at].sum()), float(reading.costs.sum())
    if is_most(dropped, cost):
        what = f"{len(at)} factors cost {dropped:.4g} of {cost:.4g} and count as 0 in the bound: {_IN_VAIN}"
        report_step("dropped", what, 0.0)
    return Finding()


def _started(task: Task, known: Incumbent, budget: Budget) -> Finding:
    """Local optimisations from the values given and from the chordal initialisation, the lower cost first."""
    is_auto = task.options.method == Strategy.AUTO
    # also where values are certified that an optimizer left before its end
    others = (only_if(lambda k, b: _is_needed(k, b) or (k.was_cut_short and b.remaining > 0), stepped_up),) * is_auto
    if task.given is None:
        return Finding(then=(initialised, *others))
    given = partial(optimised, task.given, FoundBy.LOCAL)
    if not is_auto or budget.remaining <= 0:
        return Finding(then=(given, *others))
    if not budget.fits_an_initialisation:
        budget.leave("the chordal initialisation")
        return Finding(then=(given, *others))
    found = initialised(task, known, budget)
    costs = [cost if math.isfinite(cost) else math.inf for cost in (task.graph.error(task.given), found.cost)]
    first, last = (given, *found.then) if costs[0] < costs[1] else (*found.then, given)
    return replace(found, then=(first, *others, only_if(_is_needed, last)))


def _is_needed(known: Incumbent, budget: Budget) -> bool:
    """Whether anything is to be begun."""
    return not known.is_final(budget)


def _climbed(task: Task, known: Incumbent, budget: Budget) -> Finding:
    """The global methods, as long as they are worth it."""
    certificate, method = known.best_certificate, task.options.method
    if certificate or method == Strategy.LOCAL or (method == Strategy.AUTO and known.is_in_vain):
        return Finding()
    if budget.remaining <= 0:
        budget.leave("the global methods")
        return Finding()
    rungs = _rungs(task, known)
    others = (partial(_climbed_if_worth_it, rung, certificate.gap) for rung in rungs[1:])
    return Finding(then=(*(method for _, method in rungs[:1]), *others))


def _climbed_if_worth_it(rung: _Rung, gap: float, task: Task, known: Incumbent, budget: Budget) -> Finding:
    """A global method after another one, if that one closed enough of the gap that was there before it."""
    certificate, (name, method) = known.best_certificate, rung
    if certificate:
        return Finding()
    if budget.is_spent(1 - certificate.gap / max(gap, 1e-300)):
        budget.leave(name)
        return Finding()
    return method(task, known, budget)


def _rungs(task: Task, known: Incumbent) -> Sequence[_Rung]:
    """The global methods, the cheaper one first; one at most is asked for by name."""
    by_staircase = "the staircase", climbed
    if task.options.method != Strategy.AUTO:
        return (by_staircase if task.options.method == Strategy.STAIRCASE else (NAME, relaxed),)
    problem = task.problem(known.best_values, at_measurements=True)
    if not problem.terms:
        return ()
    built = task.relaxation(problem)
    at_once, cost = (NAME, partial(relaxed, built=built)), built.predicted_cost
    if cost.fits and any(batch.distances is not None for batch in problem.terms):
        return (at_once,)  # which chooses the tangents of ranges; the staircase has to take flat ones
    if cost.fits and cost.flops <= MAX_FLOPS_FIRST:
        return (at_once, by_staircase)
    return (by_staircase, (NAME, relaxed))
