"""Starts of graphs with ranges: positions that nothing else holds are placed where ranges meet."""

from __future__ import annotations

import gtsam
import numpy as np
import pytest

from gtsam_sdp import load_pyfg, solve
from gtsam_sdp.lift.build import build_terms
from gtsam_sdp.reading.graph import read
from gtsam_sdp.search.multilateration import placed_by_ranges
from gtsam_sdp.search.start import starting_values
from tests import problems
from tests.relaxation.test_distances import BEACON, beacons, smooth_trajectory


@pytest.mark.parametrize("d", [2, 3])
def test_exact_ranges_meet_in_a_point(d: int) -> None:
    graph, truth = beacons(d, 12, 3, 1e-9, seed=0)
    away = gtsam.Values(truth)
    for j in range(3):
        away.update(BEACON + j, truth.atVector(BEACON + j) + 5.0)
    reading = read(graph, away, "raise")
    placed = reading.layout.unlift(placed_by_ranges(reading, build_terms(reading), reading.estimate))
    for j in range(3):
        np.testing.assert_allclose(placed.atVector(BEACON + j), truth.atVector(BEACON + j), atol=1e-6)
    pose = "atPose2" if d == 2 else "atPose3"
    np.testing.assert_allclose(getattr(placed, pose)(3).matrix(), getattr(truth, pose)(3).matrix(), atol=1e-12)


def test_a_better_place_is_kept() -> None:
    graph, truth = beacons(2, 12, 3, 0.5, seed=1)
    best = problems.optimize(graph, truth)
    reading = read(graph, best, "raise")
    placed = reading.layout.unlift(placed_by_ranges(reading, build_terms(reading), reading.estimate))
    assert graph.error(placed) <= graph.error(best) * (1 + 1e-12)


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("seed", range(3))
def test_beacons_without_a_start(d: int, seed: int) -> None:
    graph, truth = beacons(d, 12, 3, 0.1, seed)
    best = graph.error(problems.optimize(graph, truth))
    assert graph.error(problems.optimize(graph, starting_values(graph))) == pytest.approx(best, rel=1e-6)
    solution = solve(graph)
    assert solution.cost == pytest.approx(best, rel=1e-6)
    assert 0.8 * best <= solution.certificate.lower_bound <= best


@pytest.mark.parametrize("d", [2, 3])
def test_a_trajectory_without_a_start(d: int) -> None:
    graph, truth = smooth_trajectory(d, 20, 0.1, seed=0)
    best = graph.error(problems.optimize(graph, truth))
    solution = solve(graph)
    assert solution.cost == pytest.approx(best, rel=1e-6)
    assert 0.9 * best <= solution.certificate.lower_bound <= best


@pytest.mark.parametrize(
    ("name", "cost", "gap"), [("goats_15.pyfg", 17849.5728, 0.12), ("goats_16.pyfg", 3830.2474, 0.06)]
)
def test_goats(name: str, cost: float, gap: float) -> None:
    """Two surveys with ranges to a few beacons; the costs are the best of many starts."""
    graph, values = load_pyfg(gtsam.findExampleDataFile(name))
    solution = solve(graph)
    assert solution.cost == pytest.approx(cost, rel=1e-6)
    assert (1 - gap) * cost <= solution.certificate.lower_bound <= cost
    solution = solve(graph, values, method="local")  # the file's landmarks and poses are in different frames
    assert solution.cost >= cost * (1 - 1e-6)
