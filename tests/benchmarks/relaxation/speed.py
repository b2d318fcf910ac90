"""Ratios of solve times: against the published formulation, against no decomposition, and by the length of a ring."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

import gtsam
import numpy as np

from gtsam_sdp import SdpSolution, relax
from gtsam_sdp.backends.clarabel_ import ClarabelBackend
from tests import problems
from tests.benchmarks import common
from tests.benchmarks.relaxation.apart import Outcome, run_apart
from tests.benchmarks.relaxation.document import filled
from tests.benchmarks.relaxation.published import Edge, PublishedProblem, PublishedRun
from tests.benchmarks.relaxation.settings import Section, Settings

Make = Callable[[], tuple[gtsam.NonlinearFactorGraph, gtsam.Values]]

REPEATS = 3
"""Runs of which the median counts, where a run takes a few seconds at most."""

EXACT = 1e-8
"""Differences that rounding explains."""

CHECKED_POSES = 10
"""Of the ring on which the formulations are compared before they are timed."""

LONGEST = 3600.0
"""A process is stopped after this time [s]."""


class DifferentOptimaError(Exception):
    """Two formulations of one relaxation have different values."""


@dataclass(frozen=True)
class Run:
    """A solved relaxation.

    Attributes:
        message: the solver's word for how it ended.
        objective: the solver's value.
        iterations: of the solver.
        building: seconds from the graph to the conic problem.
        solving: seconds in the solver.
    """

    message: str
    objective: float
    iterations: int
    building: float
    solving: float


class Check(NamedTuple):
    """Differences of solvers' values from LM's optimum, relative to it."""

    ours: float
    published: float


SAME = Check(1e-6, 5e-4)
"""The largest that count as the same: Clarabel gets no nearer on the published formulation."""


class Row(NamedTuple):
    """A line of the table: what is compared, first / second."""

    what: str
    first: str
    second: str
    ratio: str
    target: str


def plane_ring(count: int) -> tuple[gtsam.NonlinearFactorGraph, gtsam.Values]:
    graph, truth = problems.ring(2, count)
    return problems.as_frobenius(graph), truth


def solve(make: Make, *, tighten: bool, lift: Literal["gram", "vector"] = "gram", repeats: int = REPEATS) -> Run:
    """The relaxation on the cliques: the run of median solve time."""
    graph, truth = make()
    runs: list[Run] = []
    for _ in range(repeats):
        started = time.perf_counter()
        relaxation = relax(graph, truth, lift=lift, tighten=tighten)
        made = time.perf_counter() - started
        runs.append(_run(relaxation.solve(), made))
    return sorted(runs, key=lambda run: run.solving)[repeats // 2]


def _run(solution: SdpSolution, made: float) -> Run:
    seconds = solution.timings
    return Run(
        solution.message, solution.objective, solution.iterations, made + seconds["building"], seconds["solving"]
    )


def solve_monolithic(dimension: int, count: int, time_limit: float | None) -> Run:
    """The plain Gram lift on one clique of all poses, given to the solver even if it is predicted not to fit."""
    graph, truth = (plane_ring if dimension == 2 else problems.joined_ring)(count)
    problem = relax(graph, truth, tighten=False).monolithic().conic
    result = ClarabelBackend().solve(problem, tolerance=1e-9, time_limit=time_limit, verbose=False)
    objective = result.objective / problem.scale + problem.offset
    return Run(result.message, objective, result.iterations, 0.0, result.seconds)


def published_problem(count: int) -> PublishedProblem:
    """The published formulation of the ring."""
    kappa, tau = 100.0, 25.0
    _, measured = problems.published_ring(count, kappa, tau)
    edges = [Edge(i, j, step, kappa, tau) for (i, j), step in zip(problems.ring_edges(count), measured, strict=True)]
    return PublishedProblem(edges, relax(*problems.joined_ring(count, kappa, tau)).tree)


def solve_published(count: int) -> PublishedRun:
    return published_problem(count).solve()


def check_published(count: int = CHECKED_POSES) -> Check:
    """Whether the published formulation is that of the same problem, and its value the same.

    Raises:
        DifferentOptimaError: LM's optimum is not feasible in it or costs something else, or the values differ.
    """
    graph, truth = problems.joined_ring(count)
    values = problems.optimize(graph, truth)
    optimum = graph.error(values)
    problem = published_problem(count)
    point = problem.point([values.atPose3(0).between(values.atPose3(k)) for k in range(count)])
    E, e = problem.equalities
    violation, cost = float(np.abs(E @ point - e).max()), float(problem.costs @ point)
    ours, theirs = solve(lambda: problems.joined_ring(count), tighten=True, repeats=1), problem.solve()
    check = Check(*(abs(run.objective / optimum - 1) for run in (ours, theirs)))
    if (
        violation > EXACT
        or abs(cost / optimum - 1) > EXACT
        or check.ours > SAME.ours
        or check.published > SAME.published
    ):
        raise DifferentOptimaError(
            f"ring of {count}: LM's optimum {optimum!r} costs {cost!r} and violates equations by {violation:.1e}; "
            f"ours {ours.objective!r} ({ours.message}), published {theirs.objective!r} ({theirs.message})"
        )
    return check


def run_speed(settings: Settings) -> str:
    """All ratios in one run."""
    check = check_published()
    rows = [
        *published_rows(settings.poses),
        *monolithic_rows(settings.poses, settings.time_limit),
        *length_rows(settings.largest),
    ]
    head = ["first / second", "first", "second", "ratio", "target"]
    text = (
        "Solver times of Clarabel with tolerance 1e-9, everything in one run; ours: Gram lift, cheaper of METIS "
        f"and COLAMD, median of {REPEATS} runs. *Published*: the vector lift with one homogenising coordinate for each "
        "pose, "
        "cliques of the Bayes tree joined by equations, plain coordinates (arXiv 2605.30617), rebuilt in "
        "`tests/benchmarks/relaxation/published.py`; the first pose is substituted. On a ring of "
        f"{CHECKED_POSES} LM's optimum is feasible in it at the same cost; its value ends {check.published:.0e} from "
        f"it, ours {check.ours:.0e}. 3D rings are the published one; split: rotations and positions under keys of "
        "their own. Building is everything from the graph to the conic problem."
    )
    return f"{filled(text)}\n\n{common.table(head, [list(row) for row in rows])}"


def _cell(run: Run | PublishedRun) -> str:
    seconds = run.seconds if isinstance(run, PublishedRun) else run.solving
    return f"{seconds:.3g} s, {run.iterations} iterations, {run.message}, {run.objective:.9g}"


def published_rows(count: int) -> list[Row]:
    """Against the published formulation."""
    outcome = run_apart(solve_published, count, seconds=LONGEST)
    theirs = outcome.value
    rows = []
    for name, make in (("poses", problems.joined_ring), ("split", problems.split_ring)):
        ours = solve(lambda make=make: make(count), tighten=True)
        ratio = "-" if theirs is None else f"{theirs.seconds / ours.solving:.0f}"
        other = outcome.note if theirs is None else f"{_cell(theirs)}, {outcome.megabytes / 1024:.2g} GB"
        rows.append(Row(f"3D, {count} {name}, published / ours tightened", other, _cell(ours), ratio, ">= 50"))
        common.say("speed", *rows[-1])
    vector = solve(lambda: problems.joined_ring(count), tighten=False, lift="vector", repeats=1)
    ours = solve(lambda: problems.joined_ring(count), tighten=True)
    ratio = f"{vector.solving / ours.solving:.0f}"
    rows.append(Row(f"3D, {count} poses, our vector lift / ours tightened", _cell(vector), _cell(ours), ratio, ""))
    common.say("speed", *rows[-1])
    return rows


def monolithic_rows(count: int, time_limit: float) -> list[Row]:
    """Against the same relaxation without decomposition: the 2D ring in full, the 3D ring as far as time allows."""
    rows = []
    for dimension, limit in ((2, None), (3, time_limit)):
        make = plane_ring if dimension == 2 else problems.joined_ring
        ours = solve(lambda make=make: make(count), tighten=False)
        outcome = run_apart(solve_monolithic, dimension, count, limit, seconds=LONGEST)
        what = f"{dimension}D, {count} poses, monolithic / cliques, plain"
        rows.append(Row(what, _describe(outcome), _cell(ours), _ratio(outcome, ours), ">= 20"))
        common.say("speed", *rows[-1])
    return rows


def _describe(outcome: Outcome[Run]) -> str:
    run = outcome.value
    if run is None:
        return outcome.note
    memory = f"{outcome.megabytes / 1024:.2g} GB"
    if run.message == "Solved":
        return f"{_cell(run)}, {memory}"
    return (
        f"{run.message} after {run.iterations} iterations, {run.solving / max(run.iterations, 1):.3g} s each, {memory}"
    )


def _ratio(outcome: Outcome[Run], ours: Run) -> str:
    """The ratio, or a lower bound of it and what as many iterations as ours would take."""
    run = outcome.value
    if run is None:
        return "-"
    ratio = run.solving / ours.solving
    if run.message == "Solved":
        return f"{ratio:.0f}"
    whole = ratio * ours.iterations / max(run.iterations, 1)
    return f"> {ratio:.0f} (about {whole:.0f} with {ours.iterations} iterations)"


def length_rows(largest: int) -> list[Row]:
    """Ten times as many poses, and the share of building."""
    short = largest // 10
    rows = []
    for tighten in (False, True):
        name = "tightened" if tighten else "plain"
        runs = [solve(lambda count=count: problems.split_ring(count), tighten=tighten) for count in (largest, short)]
        ratio = runs[0].solving / runs[1].solving
        what = f"3D, split, {name}, {largest} / {short} poses"
        rows.append(Row(what, _cell(runs[0]), _cell(runs[1]), f"{ratio:.1f}", "<= 14"))
        for count, run in zip((largest, short), runs, strict=True):
            what = f"3D, split, {name}, {count} poses, building / solving"
            share = f"{run.building / run.solving:.2f}"
            rows.append(Row(what, f"{run.building:.3g} s", f"{run.solving:.3g} s", share, "<= 0.25"))
    for row in rows:
        common.say("speed", *row)
    return rows


SPEED = Section("speed", "Speed", run_speed)
