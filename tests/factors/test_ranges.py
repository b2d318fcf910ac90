"""Ranges, bearings with ranges: bad input, values on top of each other, and how close the terms come to the costs."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import gtsam
import numpy as np
import pytest

from gtsam_sdp import Exactness, InvalidGraphError, UnsupportedFactorError, certify, relax
from gtsam_sdp.lift.build import build_terms
from gtsam_sdp.reading.graph import read
from tests import problems
from tests.factors.cases import random_direction, random_pose, to_values
from tests.factors.test_soundness import lift, value_and_size

GTSAM: Any = gtsam
Noise = gtsam.noiseModel


def landmark_factor(d: int, direction: Any, distance: float, noise: Any) -> Any:
    return getattr(GTSAM, f"BearingRangeFactor{d}D")(1, 2, direction, distance, noise)


def sigmas(d: int, bearing: float, distance: float) -> Any:
    return Noise.Diagonal.Sigmas(np.array([bearing] * (d - 1) + [distance]))


def measured_vector(factor: Any, d: int) -> np.ndarray:
    bearing = factor.measured().bearing()
    unit = np.array([bearing.c(), bearing.s()]) if d == 2 else bearing.unitVector()
    return unit * factor.measured().range()


def seen_from(pose: Any, place: np.ndarray) -> dict[int, Any]:
    return {1: pose, 2: pose.transformFrom(place)}


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("correlated", [False, True])
def test_bearing_and_range_near_and_far(d: int, correlated: bool) -> None:
    """Sigmas over decades, landmarks at all distances, also where the term comes nearest to the cost."""
    rng = np.random.default_rng(d)
    for _ in range(60):
        bearing, ranging, distance = 10 ** rng.uniform([-3.5, -2.5, -1], [0.3, 1, 2])
        noise = sigmas(d, bearing, ranging)
        if correlated:
            root = np.diag(1 / noise.sigmas()) @ (np.eye(d) + 0.5 * rng.uniform(-1, 1, (d, d)))
            noise = Noise.Gaussian.Information(root @ root.T)
        factor = landmark_factor(d, random_direction(d, rng), distance, noise)
        pose = random_pose(d, rng)
        place = measured_vector(factor, d) + rng.normal(size=d) * np.hypot(bearing * distance, ranging)
        reading, terms = lift(factor, seen_from(pose, place))
        places = [
            place * (1 + 1e-6),
            place + 1e-3 * distance * rng.normal(size=d),
            measured_vector(factor, d),
            1e-7 * place,
        ]
        places += [rng.normal(size=d) * distance * 10 ** rng.uniform(-3, 1) for _ in range(30)]
        places += [-place * scale for scale in (0.01, 0.5, 1.0, 3.0)]
        for other in places:
            values = seen_from(pose, other)
            value, size = value_and_size(reading, terms, values)
            cost = factor.error(to_values(values))
            assert value <= cost * (1 + 1e-9) + 1e-13 * size + 1e-12


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize(("bearing", "ranging"), [(0.001, 0.01), (0.01, 0.1), (0.05, 0.1), (0.01, 0.5), (0.1, 0.05)])
def test_bearing_and_range_touch_the_cost(d: int, bearing: float, ranging: float) -> None:
    """At estimates a sigma from the measurement nothing is lost."""
    rng = np.random.default_rng(1)
    for _ in range(40):
        distance = rng.uniform(1, 30)
        factor = landmark_factor(d, random_direction(d, rng), distance, sigmas(d, bearing, ranging))
        place = measured_vector(factor, d) * (1 + ranging * rng.normal() / distance)
        place = place + rng.normal(size=d) * bearing * distance / np.sqrt(d)
        values = seen_from(random_pose(d, rng), place)
        reading, terms = lift(factor, values)
        assert (terms[0].exactness == Exactness.TANGENT).all()
        value, size = value_and_size(reading, terms, values)
        assert value == pytest.approx(factor.error(to_values(values)), rel=1e-8, abs=1e-12 * size)


def test_nearer_than_gtsam_can_see() -> None:
    """In the plane GTSAM takes the direction (1, 0) below 1e-5 m: whatever was measured, the term holds there too."""
    rng = np.random.default_rng(0)
    for _ in range(300):
        distance = 10 ** rng.uniform(-5, 0)
        noise = sigmas(2, *10 ** rng.uniform(-3, 0, size=2))
        factor = landmark_factor(2, gtsam.Rot2(rng.uniform(-0.1, 0.1)), distance, noise)
        pose = random_pose(2, rng)
        reading, terms = lift(factor, seen_from(pose, measured_vector(factor, 2) + 0.3 * distance * rng.normal(size=2)))
        for _ in range(10):
            values = seen_from(pose, rng.normal(size=2) * 10 ** rng.uniform(-8, -4.5))
            value, size = value_and_size(reading, terms, values)
            assert value <= factor.error(to_values(values)) * (1 + 1e-9) + 1e-13 * size + 1e-12


@pytest.mark.parametrize("d", [2, 3])
def test_terms_at_the_measurement_do_not_depend_on_the_estimate(d: int) -> None:
    rng = np.random.default_rng(0)
    factor = landmark_factor(d, random_direction(d, rng), 4.0, sigmas(d, 0.02, 0.1))
    graph = gtsam.NonlinearFactorGraph()
    graph.add(factor)
    matrices = []
    for _ in range(3):
        values = to_values(seen_from(random_pose(d, rng), rng.normal(size=d) * 5))
        terms = build_terms(read(graph, values, "raise"), at_measurements=True)
        matrices.append((terms[0].matrix, terms[0].constant))
        layout = read(graph, values, "raise").layout
        exact = layout.lift(to_values(seen_from(random_pose(d, rng), measured_vector(factor, d))))
        assert terms[0].value(exact, layout.world) == pytest.approx(0.0, abs=1e-9)
    for matrix, constant in matrices[1:]:
        np.testing.assert_array_equal(matrix, matrices[0][0])
        np.testing.assert_array_equal(constant, matrices[0][1])


@pytest.mark.parametrize("distance", [-2.0, 0.0, 1e-9])
@pytest.mark.parametrize("name", ["BearingRangeFactor2D", "BearingRangeFactor3D", "RangeFactor2D", "RangeFactor3D"])
def test_ranges_that_are_no_distances(name: str, distance: float) -> None:
    rng = np.random.default_rng(0)
    d = int(name[-2])
    make = getattr(GTSAM, name)
    if name.startswith("Bearing"):
        factor = make(1, 2, random_direction(d, rng), distance, sigmas(d, 0.1, 0.5))
    else:
        factor = make(1, 2, distance, Noise.Isotropic.Sigma(1, 0.5))
    for size in (0.0, 1e-9, 1e-3, 1.0):
        if size == 0 and name == "BearingRangeFactor3D":
            continue  # GTSAM's error is not a number there
        pose = random_pose(d, rng)
        reading, terms = lift(factor, seen_from(pose, size * rng.normal(size=d)))
        for other in (0.0, 1e-9, 1e-7, 1e-3, 0.1, 1.0, 10.0):
            values = seen_from(pose, other * rng.normal(size=d))
            cost = factor.error(to_values(values))
            if np.isfinite(cost):
                value, scale = value_and_size(reading, terms, values)
                assert value <= cost * (1 + 1e-9) + 1e-13 * scale + 1e-12


def test_a_range_of_zero_is_exact() -> None:
    factor = gtsam.RangeFactor3(1, 2, 0.0, Noise.Isotropic.Sigma(1, 0.5))
    _, terms = lift(factor, {1: np.zeros(3), 2: np.ones(3)})
    assert terms[0].exactness.tolist() == [Exactness.EXACT]


@pytest.mark.parametrize("d", [2, 3])
def test_landmarks_on_top_of_the_pose(d: int) -> None:
    """In the plane the bearing is defined by GTSAM's choice and the bound stays valid, in space there is no cost."""
    graph, values = gtsam.NonlinearFactorGraph(), gtsam.Values()
    rng = np.random.default_rng(0)
    pose = random_pose(d, rng)
    graph.add(getattr(GTSAM, f"PriorFactorPose{d}")(1, pose, Noise.Isotropic.Sigma(d * (d + 1) // 2, 0.1)))
    graph.add(landmark_factor(d, random_direction(d, rng), 3.0, sigmas(d, 0.1, 0.5)))
    values.insert(1, pose)
    values.insert(2, pose.translation())
    if d == 3:
        with pytest.raises(
            InvalidGraphError, match=r"factor 1 \(BearingRangeFactor3D on 1, 2\) has a cost that is not"
        ):
            certify(graph, values)
        return
    certificate = certify(graph, values)
    assert not certificate
    assert certificate.lower_bound <= graph.error(problems.optimize(graph, values)) + 1e-9


def test_measurements_that_are_not_finite() -> None:
    graph = gtsam.NonlinearFactorGraph()
    graph.add(gtsam.RangeFactor3(1, 2, np.nan, Noise.Unit.Create(1)))
    with pytest.raises(InvalidGraphError, match=r"factor 0 \(RangeFactor3 on 1, 2\)"):
        certify(graph, to_values({1: np.zeros(3), 2: np.ones(3)}))


def test_vectors_of_another_length() -> None:
    graph = gtsam.NonlinearFactorGraph()
    graph.add(gtsam.RangeFactor3D(1, 2, 1.0, Noise.Unit.Create(1)))
    with pytest.raises(InvalidGraphError, match="needs a vector of 3 numbers at 2, where the values hold one of 2"):
        certify(graph, to_values({1: gtsam.Pose3(), 2: np.ones(2)}))


@pytest.mark.parametrize("d", [2, 3])
def test_bearings_alone_are_refused_and_droppable(d: int) -> None:
    graph, truth = problems.small_graph(d, seed=5, sigma_rotation=0.02)
    direction = gtsam.Rot2(0.1) if d == 2 else gtsam.Unit3(1.0, 0.1, 0.2)
    pose = truth.atPose2(0) if d == 2 else truth.atPose3(0)
    graph.add(getattr(GTSAM, f"BearingFactor{d}D")(0, 77, direction, Noise.Unit.Create(d - 1)))
    truth.insert(77, pose.transformFrom(np.array([3.0, 0.3, 0.6])[:d]))
    with pytest.raises(UnsupportedFactorError, match="a bearing without a range has no scale"):
        certify(graph, truth)
    assert certify(graph, problems.optimize(graph, truth), on_unsupported="drop").terms.counts()["DROPPED"] == 1


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("far", [1.0, 1e3, 1e6])
def test_bounds_against_exact_arithmetic(d: int, far: float) -> None:
    """Two measurements of one landmark straight ahead: the minimum is w / 4 (r_1 - r_2)^2."""
    rng = np.random.default_rng(0)
    ahead = gtsam.Rot2() if d == 2 else gtsam.Unit3(1.0, 0.0, 0.0)
    pose = gtsam.Pose2() if d == 2 else gtsam.Pose3()
    fixed = getattr(GTSAM, f"PriorFactorPose{d}")
    for sigma in (0.25, 4.0):
        ranges = far + rng.uniform(-0.4, 0.4, size=2)
        graph, values = gtsam.NonlinearFactorGraph(), gtsam.Values()
        graph.add(fixed(1, pose, Noise.Constrained.All(d * (d + 1) // 2)))
        for measured in ranges:
            graph.add(landmark_factor(d, ahead, measured, sigmas(d, 0.125, sigma)))
        values.insert(1, pose)
        values.insert(2, np.eye(d)[0] * ranges.mean())
        minimum = (Fraction(float(ranges[0])) - Fraction(float(ranges[1]))) ** 2 / Fraction(sigma) ** 2 / 4
        bound = relax(graph, values).solve().bound.value
        assert Fraction(float(bound)) <= minimum
        assert bound >= float(minimum) - 1e-13 * far**2 / sigma**2 - 1e-6 * float(minimum)


@pytest.mark.parametrize("far", [1.0, 1e3, 1e6])
@pytest.mark.parametrize("lever", [0.0, 0.75])
def test_ranges_against_exact_arithmetic(far: float, lever: float) -> None:
    """Known positions at distances of 5: the cost is a rational number."""
    sensor = gtsam.Pose3(gtsam.Rot3(), np.array([3.0, 4.0, 0.0]) * lever)
    for measured in (0.1, 3.7, 5.0, 123.4):
        graph, values = gtsam.NonlinearFactorGraph(), gtsam.Values()
        target = np.array([3.0, 4.0, 0.0]) * (far + lever)
        graph.add(gtsam.PriorFactorPose3(1, gtsam.Pose3(), Noise.Constrained.All(6)))
        graph.add(gtsam.PriorFactorPoint3(2, target, Noise.Constrained.All(3)))
        model = Noise.Isotropic.Sigma(1, 0.5)
        graph.add(gtsam.RangeFactorWithTransform3D(1, 2, measured, model, sensor))
        values.insert(1, gtsam.Pose3())
        values.insert(2, target)
        exact = (5 * Fraction(far) - Fraction(measured)) ** 2 * 2
        bound = relax(graph, values).solve().bound.value
        assert Fraction(float(bound)) <= exact
        assert bound >= float(exact) * (1 - 1e-11) - 1e-11 * far**2


def test_directions_survive_the_lift() -> None:
    rng = np.random.default_rng(0)
    values = gtsam.Values()
    for key in range(20):
        values.insert(key, gtsam.Unit3(rng.normal(size=3)))
    for key, axis in enumerate(np.vstack([np.eye(3), -np.eye(3)]), start=20):
        values.insert(key, gtsam.Unit3(axis))
    for key in (100, 101):
        values.insert(key, rng.normal(size=3))
    graph = gtsam.NonlinearFactorGraph()
    for key in range(26):
        graph.add(GTSAM.QuadraticRangeFactor3(100, 101, key, 2.0, 1.0))
    layout = read(graph, values, "raise").layout
    lifted = layout.lift(values)
    assert layout.size == 26 + 2
    np.testing.assert_allclose(np.linalg.norm(lifted[layout.direction[:26]], axis=1), 1.0, atol=1e-15)
    back = layout.unlift(lifted)
    for key in range(26):
        np.testing.assert_allclose(back.atUnit3(key).unitVector(), values.atUnit3(key).unitVector(), atol=1e-15)


def test_a_factor_on_a_direction_without_an_adapter() -> None:
    graph = gtsam.NonlinearFactorGraph()
    graph.add(gtsam.PriorFactorUnit3(0, gtsam.Unit3(1.0, 2.0, 3.0), Noise.Isotropic.Sigma(2, 0.1)))
    values = gtsam.Values()
    values.insert(0, gtsam.Unit3(1.0, 2.0, 2.0))
    with pytest.raises(UnsupportedFactorError, match="1 x PriorFactorUnit3: no term is known"):
        certify(graph, values)
