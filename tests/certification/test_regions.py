"""Ranges among positions near the values: bounds that are valid for all values, and certificates of what is optimal."""

from __future__ import annotations

from typing import Any

import gtsam
import numpy as np
import pytest

from gtsam_sdp import certify, solve
from gtsam_sdp.certification.regions import applies, bound_near
from gtsam_sdp.lift.problem import Problem
from gtsam_sdp.reading.graph import read
from tests import problems

GTSAM: Any = gtsam
ISO = gtsam.noiseModel.Isotropic.Sigma
GROUND = np.array([4.1e6, 6.0e5, 4.8e6])
"""A receiver on the ground, 6.4e6 m from the centre of the Earth [m]."""


def satellites(
    epochs: int, seed: int, *, known: bool, origin: np.ndarray
) -> tuple[gtsam.NonlinearFactorGraph, gtsam.Values]:
    """Ranges with sigma 5 m to six satellites 2e7 m away, odometry with 0.1 m between epochs, and the truth."""
    rng = np.random.default_rng(seed)
    graph, values = gtsam.NonlinearFactorGraph(), gtsam.Values()
    places: list[np.ndarray] = []
    while len(places) < 6:
        place = rng.normal(size=3)
        place *= 2.66e7 / np.linalg.norm(place)
        if (place - GROUND) @ GROUND > 0.2 * np.linalg.norm(place - GROUND) * np.linalg.norm(GROUND):
            places.append(place)
    for j, place in enumerate(places):
        noise = gtsam.noiseModel.Constrained.All(3) if known else ISO(3, 1.0)
        graph.add(gtsam.PriorFactorPoint3(1000 + j, place - origin, noise))
        values.insert(1000 + j, place - origin)
    for epoch in range(epochs):
        here = GROUND + np.array([1.0, 0.5, 0.0]) * epoch
        for j, place in enumerate(places):
            measured = float(np.linalg.norm(here - place) + 5 * rng.normal())
            graph.add(GTSAM.RangeFactor3(epoch, 1000 + j, measured, ISO(1, 5.0)))
        if epoch:
            moved = np.array([1.0, 0.5, 0.0]) + 0.1 * rng.normal(size=3)
            graph.add(gtsam.BetweenFactorPoint3(epoch - 1, epoch, moved, ISO(3, 0.1)))
        values.insert(epoch, here - origin)
    return graph, values


@pytest.mark.parametrize("epochs", [1, 10])
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("seed", range(8))
def test_satellites(epochs: int, known: bool, seed: int) -> None:
    origin = np.zeros(3) if known else GROUND
    graph, truth = satellites(epochs, seed, known=known, origin=origin)
    certificate = certify(graph, problems.optimize(graph, truth))
    assert certificate
    assert not certificate.zero_cost


def test_satellites_from_no_start() -> None:
    graph, truth = satellites(10, 0, known=True, origin=np.zeros(3))
    solution = solve(graph)
    assert solution.certificate
    assert solution.cost == pytest.approx(graph.error(problems.optimize(graph, truth)), rel=1e-6)


def random_ranges(rng: np.random.Generator) -> tuple[gtsam.NonlinearFactorGraph, list[gtsam.Values]]:
    """A few positions with odometry and ranges to anchors, near and far, with outliers; and starts."""
    d, count, anchors = int(rng.choice([2, 3])), int(rng.integers(1, 5)), int(rng.integers(2, 7))
    far, sigma, hard = 10 ** rng.uniform(0, 4), 10 ** rng.uniform(-3, 0.5), rng.random() < 0.6
    fixed, places = rng.normal(size=(anchors, d)) * far, rng.normal(size=(count, d)) * rng.choice([1.0, far])
    graph = gtsam.NonlinearFactorGraph()
    prior = getattr(GTSAM, f"PriorFactorPoint{d}")
    for k, place in enumerate(fixed):
        graph.add(prior(100 + k, place, gtsam.noiseModel.Constrained.All(d) if hard else ISO(d, sigma)))
    for i, place in enumerate(places):
        for k, anchor in enumerate(fixed):
            error = sigma * rng.normal() * rng.choice([1, 1, 5])
            measured = abs(float(np.linalg.norm(place - anchor)) + error)
            graph.add(getattr(GTSAM, f"RangeFactor{d}")(i, 100 + k, measured, ISO(1, sigma)))
        if i:
            moved = place - places[i - 1] + sigma * rng.normal(size=d)
            graph.add(getattr(GTSAM, f"BetweenFactorPoint{d}")(i - 1, i, moved, ISO(d, sigma)))
    graph.add(prior(0, places[0], ISO(d, 10 * far)))
    starts = []
    for start in range(12):
        away = rng.normal(size=places.shape) * (far if start else 0)
        moved = [*enumerate(places + away), *((100 + k, place) for k, place in enumerate(fixed))]
        starts.append(problems.to_values(moved))
    return graph, starts


@pytest.mark.parametrize("seed", range(25))
def test_bounds_are_below_every_minimum(seed: int) -> None:
    """The bound near the values holds for all values: near a wrong minimum it is none, or below the best one."""
    rng = np.random.default_rng(seed)
    graph, starts = random_ranges(rng)
    found = []
    for start in starts:
        try:
            found.append(problems.optimize(graph, start))
        except RuntimeError:
            continue
    costs = [graph.error(values) for values in found]
    for values in (found[int(np.argmin(costs))], found[int(np.argmax(costs))]):
        reading = read(graph, values, "raise")
        problem = Problem.build(reading)
        assert applies(problem)
        assert bound_near(problem, np.inf).value <= min(costs) * (1 + 1e-9) + 1e-12


def test_a_mirrored_position_is_no_proof() -> None:
    """Anchors on a line: the mirrored position costs the same, and what one side proves holds for the other."""
    graph = gtsam.NonlinearFactorGraph()
    values = problems.to_values([(0, np.array([3.0, 4.0]))])
    for k, x in enumerate((-5.0, 0.0, 6.0)):
        place = np.array([x, 0.0])
        graph.add(gtsam.PriorFactorPoint2(10 + k, place, gtsam.noiseModel.Constrained.All(2)))
        measured = float(np.linalg.norm(place - values.atPoint2(0))) + 0.01 * (-1) ** k
        graph.add(GTSAM.RangeFactor2(0, 10 + k, measured, ISO(1, 0.01)))
        values.insert(10 + k, place)
    graph.add(gtsam.PriorFactorPoint2(0, np.array([3.0, -1.0]), ISO(2, 30.0)))
    result = problems.optimize(graph, values)
    values.update(0, np.array([3.0, -4.0]))
    better = problems.optimize(graph, values)
    assert graph.error(better) < graph.error(result)
    reading = read(graph, result, "raise")
    assert bound_near(Problem.build(reading), np.inf).value <= graph.error(better) * (1 + 1e-9)
