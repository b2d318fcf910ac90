"""Optimising the user's graph with GTSAM from some values, and certifying what that finds."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import gtsam

from gtsam_sdp.certification.conclude import certify_problem
from gtsam_sdp.certification.robust import lifted
from gtsam_sdp.lift.problem import Problem
from gtsam_sdp.progress import Clock
from gtsam_sdp.results.solution import FoundBy, StageName
from gtsam_sdp.search.budget import Budget
from gtsam_sdp.search.findings import Finding, Incumbent
from gtsam_sdp.search.local import Ending, optimise
from gtsam_sdp.search.start import with_hard_values
from gtsam_sdp.search.task import Task
from gtsam_sdp.tolerances import SAME_COST

_HOPELESS = 10.0
"""A local optimisation is abandoned above this multiple of the best cost after `_PATIENCE` iterations."""

_PATIENCE = 20
_LONG_PATIENCE = 60
"""The same for graphs with robust losses, which are flat where factors change sides."""

_PROMISE = 10.0
"""All later steps of an optimisation gain at most so many times what the last one did, as is assumed."""


def certified(values: gtsam.Values, found_by: FoundBy, task: Task, known: Incumbent, budget: Budget) -> Finding:
    """The certificate of values."""
    reading = task.read(values)
    with budget.proving():
        exact, tolerance = task.exact_terms, task.options.tolerance
        problem = lifted(reading, tolerance) if exact is None else Problem(reading, exact)
        certificate = certify_problem(task.graph, values, problem, Clock(), tolerance=tolerance)
    name = certificate.status.name
    return Finding(StageName.CERTIFY, name, certificate.cost, values, certificate, found_by)


def optimised(start: gtsam.Values, found_by: FoundBy, task: Task, known: Incumbent, budget: Budget) -> Finding:
    """Where Levenberg-Marquardt ends, or the start itself where it fails; certified if it is new."""
    reading = task.read(start, at_any_values=True)
    if reading.hard:
        start = task.completed(reading.layout.unlift(with_hard_values(reading).estimate), start)
    cost = task.graph.error(start)
    patience = _LONG_PATIENCE if reading.robust else _PATIENCE
    go_on = _while_hopeful(known.cost, task.options.tolerance, patience)
    values, note, was_cut_short = start, "; the optimizer diverged", False
    try:
        found = optimise(task.graph, start, ends=budget.ends, go_on=go_on)
    except (RuntimeError, ValueError) as error:  # GTSAM throws both
        note = f"; the optimizer failed: {str(error).strip().splitlines()[0]}"
    else:
        if math.isfinite(found.cost):
            values, note, was_cut_short = found.values, found.note, found.ending in (Ending.LIMIT, Ending.NO_STEP)
    found_cost = task.graph.error(values)
    is_new = known.certificate is None or (
        math.isfinite(found_cost) and (known.is_far_from_optimum or found_cost < known.cost * (1 - SAME_COST))
    )
    then = (partial(certified, values, found_by),) if is_new else ()
    note = f"from {cost:.6g}{note}"
    return Finding(StageName.OPTIMISE, note, found_cost, was_cut_short=was_cut_short, then=then)


def _while_hopeful(best: float, tolerance: float, patience: int) -> Callable[[int, float], bool]:
    """Whether an optimisation may still find something: not if it is far above the best, or comes back to it."""
    enough = best * (1 - tolerance / 10)
    before = math.inf

    def go_on(iterations: int, cost: float) -> bool:
        nonlocal before
        promised, before = cost - _PROMISE * (before - cost), cost
        return iterations < patience or (cost <= _HOPELESS * best and (cost <= best or promised < enough))

    return go_on
