"""Small problems with much noise: how often the relaxation is tight, in each lift."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal

import gtsam
import numpy as np

from gtsam_sdp import SdpSolution, relax
from tests import problems
from tests.benchmarks import common
from tests.benchmarks.relaxation.document import filled
from tests.benchmarks.relaxation.settings import Section, Settings

Made = tuple[gtsam.NonlinearFactorGraph, gtsam.Values]

SIGMAS = (0.1, 0.3, 0.6, 1.0, 1.5)
"""Of rotations [rad]."""

FAMILIES: dict[str, Callable[[int, float, int], Made]] = {
    "2D ring": lambda count, sigma, seed: problems.ring(2, count, sigma, 0.1, seed),
    "3D ring": lambda count, sigma, seed: problems.ring(3, count, sigma, 0.1, seed),
    "2D graph": lambda count, sigma, seed: problems.small_graph(2, count, count // 2, sigma, 0.1, seed),
    "3D graph": lambda count, sigma, seed: problems.small_graph(3, count, count // 2, sigma, 0.1, seed),
}

LIFTS: dict[str, tuple[Literal["gram", "vector"], bool]] = {
    "plain Gram": ("gram", False),
    "tightened Gram": ("gram", True),
    "vector": ("vector", True),
}

CLOSED = 1e-6
"""A gap counts as closed below this share of the cost."""

SOUND = 1e-9
"""A bound above the best cost by more than this share of it is a bug."""


class UnsoundBoundError(Exception):
    """A lower bound is above the cost of a solution."""


@dataclass(frozen=True)
class Instance:
    """A noisy problem."""

    family: str
    sigma: float
    seed: int

    @property
    def count(self) -> int:
        """Poses, 6 to 10."""
        return 6 + self.seed % 5

    def make(self) -> Made:
        """Graph with exact terms, and the true poses."""
        graph, truth = FAMILIES[self.family](self.count, self.sigma, self.seed)
        return problems.as_frobenius(graph), truth


@dataclass(frozen=True)
class Measured:
    """What became of an instance: gaps relative to the best cost, statuses and seconds, one for each lift."""

    instance: Instance
    best: float
    gaps: Sequence[float]
    messages: Sequence[str]
    seconds: Sequence[float]


def instances(count: int) -> Iterator[Instance]:
    """All families and noises in turn."""
    cells = list(product(SIGMAS, FAMILIES))
    for k in range(count):
        sigma, family = cells[k % len(cells)]
        yield Instance(family, sigma, k // len(cells))


def measure(instance: Instance, starts: int) -> Measured:
    """Solves an instance in every lift, and by LM from many starts.

    Raises:
        UnsoundBoundError: a bound is above the best cost.
    """
    graph, truth = instance.make()
    solutions = [relax(graph, truth, lift=lift, tighten=tighten).solve() for lift, tighten in LIFTS.values()]
    best = best_cost(graph, truth, solutions, starts)
    for name, solution in zip(LIFTS, solutions, strict=True):
        if solution.lower_bound > best * (1 + SOUND):
            raise UnsoundBoundError(f"{instance}, {name}: bound {solution.lower_bound!r} above the cost {best!r}")
    return Measured(
        instance,
        best,
        [(best - solution.lower_bound) / best for solution in solutions],
        [solution.message for solution in solutions],
        [solution.timings["solving"] for solution in solutions],
    )


def best_cost(
    graph: gtsam.NonlinearFactorGraph, truth: gtsam.Values, solutions: Sequence[SdpSolution], starts: int
) -> float:
    """The lowest cost that LM finds from the truth, from what the relaxations recover, and from random poses."""
    rng = np.random.default_rng(0)
    begin: list[Any] = [truth, *(solution.recover() for solution in solutions)]
    begin += [problems.random_start(truth, rng) for _ in range(starts)]
    return min(graph.error(problems.optimize(graph, start)) for start in begin)


def run_noisy(settings: Settings) -> str:
    """Gaps by family and noise."""
    measured = []
    for k, instance in enumerate(instances(settings.instances)):
        measured.append(measure(instance, settings.starts))
        gaps = " ".join(f"{gap:.1e}" for gap in measured[-1].gaps)
        common.say("noisy", k, instance, f"cost {measured[-1].best:.6g}, gaps {gaps}", *measured[-1].messages)
    rows = [
        _row(family, f"{sigma:g}", chosen)
        for family, sigma in product(FAMILIES, SIGMAS)
        if (chosen := [m for m in measured if (m.instance.family, m.instance.sigma) == (family, sigma)])
    ]
    rows.append(_row("all", "", measured))
    head = ["family", "sigma [rad]", "problems"]
    for name in LIFTS:
        head += [f"{name}: median", "max", "closed"]
    text = (
        f"{len(measured)} problems of 6 to 10 poses (`tests/problems.py`), sigma of positions 0.1 m, Frobenius "
        "factors, so that every gap is the relaxation's own: (best cost - verified bound) / best cost, the best cost "
        f"of {settings.starts} random starts of LM, of the true poses and of the recovered ones. Closed: below "
        f"{CLOSED:g}. No bound was above the best cost by more than {SOUND:g} of it."
    )
    return f"{filled(text)}\n\n{common.table(head, rows)}\n\n{filled(_solver(measured))}"


def _row(family: str, sigma: str, measured: Sequence[Measured]) -> list[str]:
    gaps = np.array([m.gaps for m in measured])
    cells = [family, sigma, str(len(measured))]
    for column in gaps.T:
        cells += [f"{np.median(column):.1e}", f"{column.max():.1e}", f"{np.mean(column < CLOSED):.0%}"]
    return cells


def _solver(measured: Sequence[Measured]) -> str:
    """How often the solver says Solved, and its seconds."""
    lines = []
    for k, name in enumerate(LIFTS):
        solved = sum(m.messages[k] == "Solved" for m in measured)
        seconds = np.array([m.seconds[k] for m in measured])
        lines.append(f"{name} {solved} times, median {np.median(seconds):.2g} s, longest {seconds.max():.2g} s")
    return f"The solver says Solved: {'; '.join(lines)}."


NOISY = Section("noisy", "Noisy problems", run_noisy)
