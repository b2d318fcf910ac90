"""The published ring, and a ring so large that plain coordinates drown in cancellation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import gtsam
import numpy as np

from gtsam_sdp import SdpSolution, relax
from tests import problems
from tests.benchmarks import common
from tests.benchmarks.relaxation.document import filled
from tests.benchmarks.relaxation.settings import Section, Settings

OPTIMA = {20: 2.7017995359, 100: 1.3461771256, 1000: 1.3062630662}
"""Published optima of the split ring."""

LARGEST_VECTOR = 100
"""Poses of the largest ring for the vector lift."""

LiftName = Literal["gram", "vector"]


def run_ring(settings: Settings) -> str:
    """The published ring in both lifts."""
    rows, seconds = [], {}
    for count, lift, tighten in _ring_runs(settings):
        graph, truth = problems.split_ring(count)
        solution = relax(graph, truth, lift=lift, tighten=tighten).solve()
        name = f"{lift}, {'tightened' if tighten else 'plain'}"
        seconds[name, count] = solution.timings["solving"]
        rows.append([str(count), name, *solution_cells(solution, OPTIMA[count], graph.error(solution.recover()))])
        common.say("ring", *rows[-1])
    head = ["poses", "lift", *SOLUTION_HEAD]
    ratios = [
        f"{name} {seconds[name, 1000] / seconds[name, 100]:.1f}"
        for name in ("gram, plain", "gram, tightened")
        if (name, 1000) in seconds
    ]
    text = (
        "`FrobeniusBetweenFactorRot3` and `RelativeTranslationFactor3` between neighbours, seed 42; optima "
        "2.7017995359, 1.3461771256, 1.3062630662. The cheaper of METIS and COLAMD; a clique counts as tight if "
        "lambda_r / lambda_(r+1) "
        "> 1e5, r = 3 in the Gram lift and 1 in the vector lift."
    )
    last = f"\n\nSolve time of 1,000 poses by that of 100: {', '.join(ratios)}." if ratios else ""
    return f"{filled(text)}\n\n{common.table(head, rows)}{last}"


def _ring_runs(settings: Settings) -> Iterator[tuple[int, LiftName, bool]]:
    for count in OPTIMA:
        if count <= settings.largest:
            yield count, "gram", False
            yield count, "gram", True
            if count <= LARGEST_VECTOR:
                yield count, "vector", True


def run_large_ring(settings: Settings) -> str:
    """300 poses on a circle of 90 m."""
    count = min(300, settings.largest)
    graph, truth = large_ring(count)
    best = common.newton(graph, problems.optimize(graph, truth))
    optimum = graph.error(best)
    rows = []
    for tighten in (False, True):
        solution = relax(graph, truth, tighten=tighten).solve()
        rounded = graph.error(solution.recover())
        rows.append(["tightened" if tighten else "plain", *solution_cells(solution, optimum, rounded)])
        common.say("large-ring", *rows[-1])
    text = (
        f"{count} poses on a circle of 90 m radius in 3D, `BetweenFactorPose3` measurements with sigmas of 0.05 rad "
        "and 0.1 m made `FrobeniusBetweenFactorPose3` (sigma sqrt(2) 0.05 for entries of rotations), Gram lift. "
        f"Optimum: LM from the true poses, and Newton steps, {optimum:.10g}."
    )
    return f"{filled(text)}\n\n{common.table(['', *SOLUTION_HEAD], rows)}"


def large_ring(count: int) -> tuple[gtsam.NonlinearFactorGraph, gtsam.Values]:
    """The graph with exact terms, and the true poses."""
    rng = np.random.default_rng(0)
    poses = problems.ring_poses(3, count, radius=90.0)
    graph, truth = problems.pose_graph(poses, problems.ring_edges(count), 0.05, 0.1, rng)
    return problems.as_frobenius(graph), truth


SOLUTION_HEAD = [
    "solver says",
    "iterations",
    "its value",
    "verified bound",
    "by optimum",
    "tight cliques",
    "rounded cost",
    "build [s]",
    "solve [s]",
]


def solution_cells(solution: SdpSolution, optimum: float, rounded: float) -> list[str]:
    """The columns of SOLUTION_HEAD."""
    return [
        solution.message,
        str(solution.iterations),
        f"{solution.objective:.9g}",
        f"{solution.lower_bound:.9g}",
        f"{solution.lower_bound / optimum - 1:+.0e}",
        f"{np.count_nonzero(solution.eigenvalue_ratios > 1e5)} of {len(solution.eigenvalue_ratios)}",
        f"{rounded:.9g}",
        f"{solution.timings['building']:.2f}",
        f"{solution.timings['solving']:.2f}",
    ]


RING = Section("ring", "The split ring", run_ring)
LARGE_RING = Section("large-ring", "A ring of 90 m radius", run_large_ring)
