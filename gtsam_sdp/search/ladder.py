"""The ladder of methods behind `solve` and `refine`: which ones, in which order, and what is known after each."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import gtsam
import numpy as np

from gtsam_sdp.progress import report_step
from gtsam_sdp.remedies import Remedy
from gtsam_sdp.results.notes import Note, NoteKind
from gtsam_sdp.results.solution import FoundBy, Solution
from gtsam_sdp.search.budget import Budget
from gtsam_sdp.search.findings import Finding, Incumbent, Method, is_most
from gtsam_sdp.search.methods import relaxation, staircase
from gtsam_sdp.search.methods.initialisation import from_initialisation, initialised
from gtsam_sdp.search.methods.local import certified, optimised
from gtsam_sdp.search.methods.weights import stepped_up
from gtsam_sdp.search.task import Options, Strategy, Task
from gtsam_sdp.tolerances import MAX_FLOPS_FIRST

_IN_VAIN = "values like these cannot be certified, and no global method is tried"


class _Rung(NamedTuple):
    """A global method and its name."""

    name: str
    climb: Method


def solve_graph(graph: gtsam.NonlinearFactorGraph, options: Options, initial: gtsam.Values | None) -> Solution:
    """The whole ladder, from values or none."""
    return _solution(Task(graph, options, initial), (_told_of_dropped, _started, _climbed))


def refine_values(graph: gtsam.NonlinearFactorGraph, options: Options, values: gtsam.Values) -> Solution:
    """The whole ladder, as far as the values given are not good enough."""
    steps = [partial(certified, values, FoundBy.GIVEN), _told_of_dropped, partial(_optimised_if_worth_it, values)]
    if options.method == Strategy.AUTO:
        steps += [_if_needed(stepped_up), _if_needed(from_initialisation)]
    return _solution(Task(graph, options, values), (*steps, _climbed))


def _followed(methods: Iterable[Method], task: Task, incumbent: Incumbent, budget: Budget) -> Incumbent:
    """The best that is known after some methods, and after what follows from what each of them finds."""
    for method in methods:
        finding = method(task, incumbent, budget)
        budget.reading = task.reading_seconds
        if finding.stage is not None:
            incumbent = incumbent.joined(finding, budget.took(finding.stage))
            _report(incumbent)
        incumbent = _followed(finding.then, task, incumbent, budget)
    return incumbent


def _report(incumbent: Incumbent) -> None:
    """Logs the last stage."""
    stage = incumbent.stages[-1]
    numbers = {"cost": stage.cost, "bound": stage.lower_bound}
    known = [f"{what} {number:.8g}" for what, number in numbers.items() if math.isfinite(number)]
    report_step(stage.name, ", ".join(part for part in (*known, stage.note) if part), stage.seconds)


def _solution(task: Task, methods: Iterable[Method]) -> Solution:
    """What methods find, one after the other."""
    budget = Budget(task.options.time_limit)
    incumbent = _followed(methods, task, Incumbent(), budget)
    values, certificate = incumbent.best
    gain = math.nan if task.given is None else task.graph.error(task.given) - certificate.cost
    return Solution(
        values=values,
        cost=certificate.cost,
        certificate=replace(certificate, notes=_notes(incumbent, budget)),
        method=incumbent.found_by.value,
        stages=incumbent.stages,
        improvement=gain if math.isfinite(gain) else 0.0,
        relaxation=incumbent.relaxation,
        untried=tuple(budget.untried) if not certificate else (),
    )


def _notes(incumbent: Incumbent, budget: Budget) -> tuple[Note, ...]:
    """Those of the best certificate, less advice that was followed, and what became of it."""
    certificate = incumbent.best[1]
    notes = [note for note in certificate.notes if note.remedy not in (Remedy.REFINE, Remedy.OPTIMISE)]
    if incumbent.is_far_from_optimum:
        ended = "the time ended before the optimizer" if budget.remaining <= 0 else "no step led to one"
        notes.append(Note(f"the values are not a local optimum: {ended}", kind=NoteKind.ADVICE))
    elif math.isnan(certificate.stationarity) and not certificate:
        text = "the time ended before it was known whether the values are a local optimum"
        notes.append(Note(text, kind=NoteKind.ADVICE))
    if incumbent.is_in_vain:
        notes.append(Note(f"the dropped factors make up most of the cost: {_IN_VAIN}", kind=NoteKind.ADVICE))
    return tuple(notes)


def _told_of_dropped(task: Task, incumbent: Incumbent, budget: Budget) -> Finding:
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


def _started(task: Task, incumbent: Incumbent, budget: Budget) -> Finding:
    """Local optimisations from the values given and from the chordal initialisation, the lower cost first."""
    is_auto = task.options.method == Strategy.AUTO
    others = (_stepped_up_if_needed,) if is_auto else ()
    if task.given is None:
        return Finding(then=(from_initialisation, *others))
    given = partial(optimised, task.given, FoundBy.LOCAL)
    if not is_auto or budget.remaining <= 0:
        return Finding(then=(given, *others))
    if not budget.fits_an_initialisation:
        budget.leave("the chordal initialisation")
        return Finding(then=(given, *others))
    found = initialised(task, incumbent, budget)
    costs = [cost if math.isfinite(cost) else math.inf for cost in (task.graph.error(task.given), found.cost)]
    first, last = (given, from_initialisation) if costs[0] < costs[1] else (from_initialisation, given)
    return replace(found, then=(first, *others, _if_needed(last)))


def _stepped_up_if_needed(task: Task, incumbent: Incumbent, budget: Budget) -> Finding:
    """The continuation; also where values are certified that an optimizer left before its end."""
    is_needed = not incumbent.is_final(budget) or (incumbent.was_cut_short and budget.remaining > 0)
    return stepped_up(task, incumbent, budget) if is_needed else Finding()


def _optimised_if_worth_it(values: gtsam.Values, task: Task, incumbent: Incumbent, budget: Budget) -> Finding:
    """The values given, optimised if they are no local optimum, or a step gains a part of the gap."""
    if (incumbent.is_far_from_optimum or incumbent.gains_by_a_step) and budget.remaining > 0:
        return optimised(values, FoundBy.LOCAL, task, incumbent, budget)
    return Finding()


def _if_needed(method: Method) -> Method:
    """The method, unless nothing is to be begun any more."""
    return lambda task, known, budget: Finding() if known.is_final(budget) else method(task, known, budget)


def _climbed(task: Task, incumbent: Incumbent, budget: Budget) -> Finding:
    """The global methods, as long as they are worth it."""
    known, method = incumbent.best[1], task.options.method
    if known or method == Strategy.LOCAL or (method == Strategy.AUTO and incumbent.is_in_vain):
        return Finding()
    if budget.remaining <= 0:
        budget.leave("the global methods")
        return Finding()
    rungs = _rungs(task, incumbent)
    later = (partial(_climbed_if_worth_it, rung, known.gap) for rung in rungs[1:])
    return Finding(then=(*(rung.climb for rung in rungs[:1]), *later))


def _climbed_if_worth_it(rung: _Rung, gap: float, task: Task, incumbent: Incumbent, budget: Budget) -> Finding:
    """A global method after another one, if that one closed enough of the gap that was there before it."""
    known = incumbent.best[1]
    if known:
        return Finding()
    if budget.is_spent(1 - known.gap / max(gap, 1e-300)):
        budget.leave(rung.name)
        return Finding()
    return rung.climb(task, incumbent, budget)


def _rungs(task: Task, incumbent: Incumbent) -> tuple[_Rung, ...]:
    """The global methods, the cheaper one first; one at most is asked for by name."""
    staircase_, relax = _Rung("the staircase", staircase.climbed), _Rung(relaxation.NAME, relaxation.relaxed)
    if task.options.method != Strategy.AUTO:
        return (staircase_ if task.options.method == Strategy.STAIRCASE else relax,)
    problem = task.problem(incumbent.best[0], at_measurements=True)
    if not problem.terms:
        return ()
    built = task.relaxation(problem)
    first = relax._replace(climb=partial(relaxation.relaxed, built=built))
    if built.predicted_cost.fits and any(batch.distances is not None for batch in problem.terms):
        return (first,)  # which chooses the tangents of ranges; the staircase has to take flat ones
    if built.predicted_cost.fits and built.predicted_cost.flops <= MAX_FLOPS_FIRST:
        return (first, staircase_)
    return (staircase_, relax)
