"""Awkward graphs with landmarks: a sound bound, or an error that names factor and keys."""

from __future__ import annotations

from typing import Any

import gtsam
import numpy as np
import pytest

from gtsam_sdp import Certificate, InvalidGraphError, UnsupportedFactorError, certify, relax, solve
from tests import problems
from tests.test_landmarks import best_of

GTSAM: Any = gtsam
LANDMARK = 100


def ring(d: int) -> tuple[gtsam.NonlinearFactorGraph, gtsam.Values]:
    return problems.ring(d, 6)


def place(d: int, x: float, y: float, z: float = 0.0) -> np.ndarray:
    return np.array([x, y, z])[:d]


def sighting(d: int, pose: int, distance: float, angle: float = 0.3) -> Any:
    bearing: Any = gtsam.Rot2(angle) if d == 2 else gtsam.Unit3(np.array([np.cos(angle), np.sin(angle), 0.3]))
    noise = gtsam.noiseModel.Diagonal.Sigmas(np.array([0.05] * (d - 1) + [0.1]))
    return getattr(GTSAM, f"BearingRangeFactor{d}D")(pose, LANDMARK, bearing, distance, noise)


def ranging(d: int, pose: int, distance: float) -> Any:
    noise = gtsam.noiseModel.Isotropic.Sigma(1, 0.1)
    return getattr(GTSAM, f"RangeFactor{d}D")(pose, LANDMARK, distance, noise)


def sound(graph: gtsam.NonlinearFactorGraph, values: gtsam.Values) -> Certificate:
    """The certificate at the optimum that is found from the values; bounds of all kinds are below the best of many."""
    result = problems.optimize(graph, values)
    best = best_of(graph, values, np.random.default_rng(0), 15)
    certificate = certify(graph, result)
    bounds = [certificate.lower_bound, relax(graph, result).solve().bound.value]
    bounds.append(solve(graph, values, time_limit=5).certificate.lower_bound)
    assert max(bounds) <= best * (1 + 1e-9) + 1e-9
    return certificate


@pytest.mark.parametrize("d", [2, 3])
def test_a_landmark_seen_once_costs_nothing(d: int) -> None:
    graph, values = ring(d)
    alone = certify(graph, problems.optimize(graph, values))
    graph.add(sighting(d, 0, 2.0))
    values.insert(LANDMARK, place(d, 7, 1))
    certificate = sound(graph, values)
    assert certificate
    assert certificate.lower_bound == pytest.approx(alone.lower_bound, rel=1e-6)


@pytest.mark.parametrize("d", [2, 3])
def test_a_landmark_ranged_once(d: int) -> None:
    """Anywhere on a circle: no bound is above what the ring costs alone."""
    graph, values = ring(d)
    graph.add(ranging(d, 0, 2.0))
    values.insert(LANDMARK, place(d, 7, 1))
    sound(graph, values)
    assert solve(graph, values).certificate


@pytest.mark.parametrize("make", [sighting, ranging])
@pytest.mark.parametrize("distance", [0.0, -1.0])
@pytest.mark.parametrize("d", [2, 3])
def test_ranges_of_zero_and_below(d: int, distance: float, make: Any) -> None:
    """GTSAM takes them as they are: (d - r)^2 has no minimum at r < 0, its bound is sound all the same."""
    graph, values = ring(d)
    for k in range(3):
        graph.add(make(d, k, distance if k == 0 else 2.0))
    values.insert(LANDMARK, place(d, 5, 1))
    first = sound(graph, values).terms[graph.size() - 3]
    assert first.exactness.name == ("EXACT" if make is ranging and distance == 0 else "LOWER_BOUND")


@pytest.mark.parametrize("d", [2, 3])
def test_a_landmark_on_top_of_a_pose(d: int) -> None:
    """The bound at such values is sound; in space GTSAM has no cost there, which the error says."""
    graph, values = ring(d)
    graph.add(ranging(d, 0, 2.0))
    graph.add(ranging(d, 1, 2.0))
    at: Any = values.atPose2 if d == 2 else values.atPose3
    values.insert(LANDMARK, at(0).translation())
    moved = gtsam.Values(values)
    moved.update(LANDMARK, place(d, 5, 1))
    assert certify(graph, values).lower_bound <= best_of(graph, moved, np.random.default_rng(0), 15)
    graph.add(sighting(d, 0, 2.0))
    if d == 2:
        assert certify(graph, values).lower_bound <= best_of(graph, moved, np.random.default_rng(0), 15)
    else:
        message = (
            r"factor 8 \(BearingRangeFactor3D on 0, 100\) has a cost that is not finite at the values. The landmark"
        )
        with pytest.raises(InvalidGraphError, match=message):
            certify(graph, values)
    assert solve(graph, values).certificate.lower_bound <= best_of(graph, moved, np.random.default_rng(0), 15)


@pytest.mark.parametrize("d", [2, 3])
def test_a_bearing_without_a_range(d: int) -> None:
    graph, values = ring(d)
    bearing: Any = gtsam.Rot2(0.3) if d == 2 else gtsam.Unit3(np.array([1.0, 2.0, 3.0]))
    noise = gtsam.noiseModel.Isotropic.Sigma(d - 1, 0.1)
    graph.add(getattr(GTSAM, f"BearingFactor{d}D")(0, LANDMARK, bearing, noise))
    graph.add(sighting(d, 1, 2.0))
    values.insert(LANDMARK, place(d, 5, 1))
    result = problems.optimize(graph, values)
    with pytest.raises(
        UnsupportedFactorError, match=rf"BearingFactor{d}D: a bearing without a range .*factor 6 on 0, 100"
    ):
        certify(graph, result)
    dropped = certify(graph, result, on_unsupported="drop")
    assert dropped.cost == graph.error(result)
    assert dropped.lower_bound <= best_of(graph, values, np.random.default_rng(0), 15)


@pytest.mark.parametrize("d", [2, 3])
def test_directions_have_to_be_directions(d: int) -> None:
    """A vector in place of the auxiliary Rot2 or Unit3, which GTSAM normalises by themselves, is refused."""
    kind = "Rot2" if d == 2 else "Unit3"
    graph, values = gtsam.NonlinearFactorGraph(), gtsam.Values()
    for k in range(4):
        anchor = np.random.default_rng(k).normal(size=d) * 4
        graph.add(getattr(GTSAM, f"PriorFactorPoint{d}")(k, anchor, gtsam.noiseModel.Isotropic.Sigma(d, 0.01)))
        graph.add(getattr(GTSAM, f"QuadraticRangeFactor{d}")(50, k, LANDMARK + k, 4.0, 10.0))
        values.insert(k, anchor)
        values.insert(LANDMARK + k, 3 * np.ones(d))
    values.insert(50, np.zeros(d))
    with pytest.raises(
        InvalidGraphError, match=rf"factor 1 .QuadraticRangeFactor{d} on 50, 0, 100. needs a {kind} at 100"
    ):
        certify(graph, values)
    assert solve(graph, time_limit=5).certificate.lower_bound <= solve(graph, time_limit=5).cost


@pytest.mark.parametrize("d", [2, 3])
def test_anchors_on_a_line(d: int) -> None:
    """Every position has a mirror image (in space a circle of them): the bound is below both."""
    graph, values = gtsam.NonlinearFactorGraph(), gtsam.Values()
    anchors = [place(d, 3.0 * k, 0.0) for k in range(4)]
    for k, anchor in enumerate(anchors):
        graph.add(getattr(GTSAM, f"PriorFactorPoint{d}")(k, anchor, gtsam.noiseModel.Isotropic.Sigma(d, 0.01)))
        values.insert(k, anchor)
    noise, rng = gtsam.noiseModel.Isotropic.Sigma(1, 0.1), np.random.default_rng(0)
    for i in range(5):
        values.insert(LANDMARK + i, place(d, i, 3.0))
        for k, anchor in enumerate(anchors):
            distance = float(np.linalg.norm(place(d, i, 3.0) - anchor) + 0.1 * rng.normal())
            graph.add(getattr(GTSAM, f"RangeFactor{d}")(LANDMARK + i, k, distance, noise))
    mirrored = gtsam.Values(values)
    for i in range(5):
        mirrored.update(LANDMARK + i, place(d, i, -3.0))
    assert graph.error(mirrored) == pytest.approx(graph.error(values))
    assert sound(graph, values).lower_bound <= graph.error(problems.optimize(graph, mirrored)) * (1 + 1e-9)
