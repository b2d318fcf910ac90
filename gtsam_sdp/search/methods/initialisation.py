"""Chordal initialisation: in the lifted problem, and the graph itself where they differ."""

from __future__ import annotations

from functools import partial

from gtsam_sdp.lowrank.descent import descend
from gtsam_sdp.progress import report_now
from gtsam_sdp.results.solution import FoundBy, StageName
from gtsam_sdp.search.budget import Budget
from gtsam_sdp.search.findings import Finding, Incumbent, only_if
from gtsam_sdp.search.methods.local import certified, optimised
from gtsam_sdp.search.start import ChordalStart, zero_values
from gtsam_sdp.search.task import Task

_DESCENT = 3e-7
"""Relative decrease at which a descent ends, if the tolerance asks for no less: a hundredth of it may be left."""

_ROUGH_DESCENT = 1e-4
"""The same where the graph itself is optimised afterwards."""


def initialised(task: Task, known: Incumbent, budget: Budget) -> Finding:
    """The chordal initialisation and its cost."""
    reading = task.reading or task.read(zero_values(task.graph, task.options.on_unsupported), at_any_values=True)
    report_now("chordal initialisation")
    start = ChordalStart.build(task.lift(reading, at_measurements=True))
    if task.exact_terms and start.quadratic is not None:
        cost = start.quadratic.qcqp.cost(start.Y)
    else:
        cost = float(task.graph.error(task.completed(start.values(start.Y), known.values)))
    return Finding(StageName.INITIALISATION, cost=cost, then=(partial(_descended, start, cost),))


def _descended(start: ChordalStart, cost: float, task: Task, known: Incumbent, budget: Budget) -> Finding:
    """A local minimum of the lifted cost, and of the graph where the two differ."""
    by = FoundBy.INITIALISATION
    if known.certificate is None and budget.remaining <= 0:
        return Finding(then=(partial(certified, task.completed(start.values(start.Y), known.values), by),))
    Y = start.Y
    if start.quadratic is not None:
        tolerance = min(_DESCENT, task.options.tolerance / 3) if task.exact_terms else _ROUGH_DESCENT
        Y = descend(start.quadratic, Y, tolerance, ends=budget.ends).Y
    values = best = task.completed(start.values(Y), known.values)
    descended = task.graph.error(values)
    if not descended <= cost:
        best = task.completed(start.values(start.Y), known.values)
    then = (optimise,) = (partial(optimised, best, by),)
    if task.exact_terms:
        then = (
            partial(certified, values, by),
            only_if(lambda k, b: k.is_far_from_optimum and b.remaining > 0, optimise),
        )
    return Finding(StageName.DESCENT, f"from {cost:.6g}", descended, then=then)
