"""IMU factors with known biases: terms below GTSAM's own cost, graphs that are certified, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import gtsam
import numpy as np
import pytest
from gtsam.symbol_shorthand import B, V, X

from gtsam_sdp import certify, solve
from gtsam_sdp.errors import UnsupportedFactorError
from gtsam_sdp.lift.build import build_terms
from gtsam_sdp.reading.graph import read
from gtsam_sdp.terms.terms import Exactness
from tests.factors.cases import perturbed, random_bias, random_pose
from tests.inertial import lidar_inertial, optimized

GTSAM: Any = gtsam
GRAVITY = 9.81
TYPES = ("ImuFactor", "CombinedImuFactor")


def parameters(combined: bool, rng: np.random.Generator, mode: Any = None) -> Any:
    """Noise over a few decades; every second one with a sensor that is mounted askew."""
    kind = GTSAM.PreintegrationCombinedParams if combined else GTSAM.PreintegrationParams
    made = kind.MakeSharedU(GRAVITY)
    made.setAccelerometerCovariance(np.eye(3) * 10 ** rng.uniform(-6, -2))
    made.setGyroscopeCovariance(np.eye(3) * 10 ** rng.uniform(-8, -3))
    made.setIntegrationCovariance(np.eye(3) * 10 ** rng.uniform(-10, -5))
    if combined:
        made.setBiasAccCovariance(np.eye(3) * 10 ** rng.uniform(-8, -4))
        made.setBiasOmegaCovariance(np.eye(3) * 10 ** rng.uniform(-10, -6))
    if rng.uniform() < 0.5:
        made.setBodyPSensor(random_pose(3, rng, 0.3))
    if mode is not None:
        made.setImuFactorErrorMode(mode)
    return made


def factor(name: str, rng: np.random.Generator, made: Any = None) -> Any:
    """A factor of 0.1 to 2 s of turning and accelerating; keys X, V, X, V, B(0) and for combined ones B(1)."""
    combined = name == "CombinedImuFactor"
    made = parameters(combined, rng) if made is None else made
    kind = GTSAM.PreintegratedCombinedMeasurements if combined else GTSAM.PreintegratedImuMeasurements
    measured = kind(made, random_bias(rng))
    acceleration, turn = rng.normal(size=3) + np.array([0, 0, GRAVITY]), rng.normal(size=3)
    step = 10 ** rng.uniform(-2, -0.7)
    for _ in range(10):
        measured.integrateMeasurement(acceleration, turn, step)
    keys = (X(0), V(0), X(1), V(1), B(0), *([B(1)] if combined else []))
    return getattr(gtsam, name)(*keys, measured)


def states(measured: Any, biases: list[Any], rng: np.random.Generator, size: float) -> gtsam.Values:
    """A random state and one that the measurements predict from it but for an error."""
    values, pose, speed = gtsam.Values(), random_pose(3, rng, 10.0), rng.normal(size=3) * 5
    end = measured.predict(gtsam.NavState(pose, speed), biases[0])
    values.insert(X(0), pose)
    values.insert(V(0), speed)
    values.insert(X(1), perturbed(end.pose(), rng, size))
    values.insert(V(1), end.velocity() + rng.normal(size=3) * size)
    for k, bias in enumerate(biases):
        values.insert(B(k), bias)
    return values


def held_graph(one: Any, biases: list[Any]) -> gtsam.NonlinearFactorGraph:
    graph = gtsam.NonlinearFactorGraph()
    graph.add(one)
    for k, bias in enumerate(biases):
        graph.add(gtsam.NonlinearEqualityConstantBias(B(k), bias))
    return graph


def sample(name: str, rng: np.random.Generator) -> tuple[Any, list[Any]]:
    """A factor and biases near those of its preintegration."""
    one = factor(name, rng)
    drift = rng.normal(size=(2, 6)) * (0.05 if rng.uniform() < 0.7 else 1e-4)
    base = one.preintegratedMeasurements().biasHat().vector()
    biases = [gtsam.imuBias.ConstantBias((base + d)[:3], (base + d)[3:]) for d in np.cumsum(drift, axis=0)]
    return one, biases if name == "CombinedImuFactor" else biases[:1]


def check(name: str, seed: int, others: int) -> tuple[float, int]:
    """The term is nowhere above the cost, where that is below `max_cost`; what it loses at the estimate."""
    rng = np.random.default_rng(seed)
    one, biases = sample(name, rng)
    measured = one.preintegratedMeasurements()
    size = 10 ** rng.uniform(-5, 0.5)
    values = states(measured, biases, rng, size)
    graph = held_graph(one, biases)
    cost = one.error(values)
    limited = rng.uniform() < 0.5
    max_cost = cost * 10 ** rng.uniform(0, 2) if limited else np.inf
    reading = replace(read(graph, values, "raise"), cost=max_cost)
    [terms] = build_terms(reading)
    loss, compared = np.inf, 0
    for k in range(others):
        other = values if not k else states(measured, biases, rng, size * 10 ** rng.uniform(-2, 1))
        own = one.error(other)
        if own > max_cost:
            continue
        compared += 1
        lifted, world = reading.layout.lift(other), reading.layout.world
        value, scale = terms.value(lifted, world)[0], terms.size(lifted, world)[0]
        assert value <= own * (1 + 1e-9) + 1e-13 * scale + 1e-12, (name, seed, k)
        if not k and terms.exactness[0] == Exactness.TANGENT:
            loss = (own - value) / own
    return loss, compared


@pytest.mark.parametrize("name", TYPES)
def test_term_is_never_above_the_cost(name: str) -> None:
    compared = sum(check(name, seed, 20)[1] for seed in range(60))
    assert compared > 200


@pytest.mark.benchmark
@pytest.mark.parametrize("name", TYPES)
def test_a_million_values(name: str) -> None:
    assert sum(check(name, seed, 100)[1] for seed in range(20_000)) > 1_000_000


@pytest.mark.parametrize("name", TYPES)
def test_term_touches_the_cost_near_the_prediction(name: str) -> None:
    for seed in range(10):
        rng = np.random.default_rng(seed)
        one, biases = sample(name, rng)
        values = states(one.preintegratedMeasurements(), biases, rng, 1e-4)
        reading = read(held_graph(one, biases), values, "raise")
        [terms] = build_terms(reading)
        value = terms.value(reading.layout.lift(values), reading.layout.world)[0]
        assert terms.exactness[0] == Exactness.TANGENT
        assert value >= one.error(values) * (1 - 1e-3) - 1e-9


@pytest.mark.parametrize("combined", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_lidar_inertial_graph_is_certified_for_its_biases(combined: bool, seed: int) -> None:
    problem = lidar_inertial(60, np.random.default_rng(seed), combined=combined)
    best = optimized(problem.graph, problem.start)
    held = problem.holding(best)
    certificate = certify(held, best)
    assert certificate and certificate.lower_bound <= held.error(best) == certificate.cost
    assert "hard constraint(s)" in str(certificate)
    worse = gtsam.Values(best)
    worse.update(X(30), best.atPose3(X(30)).compose(gtsam.Pose3.Expmap(np.full(6, 0.01))))
    assert not certify(held, worse)
    assert certify(held, worse).lower_bound <= certificate.cost * (1 + 1e-9)


@pytest.mark.parametrize("combined", [False, True])
def test_solve_finds_poses_and_velocities_for_biases(combined: bool) -> None:
    problem = lidar_inertial(20, np.random.default_rng(5), combined=combined)
    best = optimized(problem.graph, problem.start)
    held = problem.holding(best)
    found = solve(held, best)
    assert found.certificate and held.error(found.values) <= held.error(best) * (1 + 1e-9)


def test_prior_without_noise_holds_a_bias() -> None:
    rng = np.random.default_rng(2)
    one, [bias] = sample("ImuFactor", rng)
    values = states(one.preintegratedMeasurements(), [bias], rng, 1e-3)
    soft, hard = gtsam.NonlinearFactorGraph(), gtsam.NonlinearFactorGraph()
    for graph, model in ((soft, gtsam.noiseModel.Unit.Create(6)), (hard, gtsam.noiseModel.Constrained.All(6))):
        graph.add(one)
        graph.add(gtsam.PriorFactorConstantBias(B(0), bias, model))
        graph.add(gtsam.PriorFactorPose3(X(0), values.atPose3(X(0)), gtsam.noiseModel.Isotropic.Sigma(6, 0.1)))
        graph.add(gtsam.PriorFactorVector(V(0), values.atVector(V(0)), gtsam.noiseModel.Isotropic.Sigma(3, 0.1)))
    best = optimized(hard, values)
    assert certify(hard, best)
    with pytest.raises(
        UnsupportedFactorError, match=r"hold each bias with gtsam.NonlinearEqualityConstantBias"
    ) as caught:
        certify(soft, values)
    [offender] = caught.value.offenders
    assert (offender.index, offender.keys) == (0, tuple(one.keys()))
    assert "factor 0 on x0, v0, x1, v1, b0" in str(caught.value)


@pytest.mark.parametrize("name", TYPES)
def test_other_errors_than_the_log_map_are_refused(name: str) -> None:
    """The error mode is compared, not believed: a mode that is the log map at these states has a term."""
    rng = np.random.default_rng(4)
    modes = [m for m in GTSAM.ImuFactorErrorMode.__members__.values() if m != GTSAM.ImuFactorErrorMode.Logmap]
    assert modes
    for mode in modes:
        one = factor(name, rng, parameters(name == "CombinedImuFactor", rng, mode))
        biases = [one.preintegratedMeasurements().biasHat()] * (2 if name == "CombinedImuFactor" else 1)
        values = states(one.preintegratedMeasurements(), biases, rng, 0.1)
        with pytest.raises(UnsupportedFactorError, match=r"not the log map on SE_2\(3\)"):
            certify(held_graph(one, biases), values)


@pytest.mark.parametrize("rate", [7e-5, 1e-2])
def test_rotation_of_the_earth_is_refused(rate: float) -> None:
    """Even where it changes a millisecond by some 1e-8 rad only."""
    rng = np.random.default_rng(1)
    made = parameters(False, rng)
    made.setOmegaCoriolis(np.array([0, 0, rate]))
    measured, bias = (
        GTSAM.PreintegratedImuMeasurements(made, gtsam.imuBias.ConstantBias()),
        gtsam.imuBias.ConstantBias(),
    )
    measured.integrateMeasurement(np.array([0, 0, GRAVITY]), np.zeros(3), 1e-3)
    one = gtsam.ImuFactor(X(0), V(0), X(1), V(1), B(0), measured)
    with pytest.raises(UnsupportedFactorError, match="rotation of the earth"):
        certify(held_graph(one, [bias]), states(measured, [bias], rng, 0.1))


@pytest.mark.parametrize("combined", [False, True])
def test_poses_and_velocities_may_be_hard_too(combined: bool) -> None:
    problem = lidar_inertial(30, np.random.default_rng(2), combined=combined)
    best = optimized(problem.graph, problem.start)
    held = problem.holding(best)
    held.add(gtsam.PriorFactorPose3(X(3), best.atPose3(X(3)), gtsam.noiseModel.Constrained.All(6)))
    held.add(gtsam.PriorFactorVector(V(5), best.atVector(V(5)), gtsam.noiseModel.Constrained.All(3)))
    certificate = certify(held, best)
    assert certificate and certificate.lower_bound <= held.error(best)


def test_without_inertial_factors_there_is_a_bound_for_all_biases() -> None:
    problem = lidar_inertial(30, np.random.default_rng(2))
    best = optimized(problem.graph, problem.start)
    dropped, held = certify(problem.graph, best, on_unsupported="drop"), certify(problem.holding(best), best)
    assert 0 < dropped.lower_bound < held.lower_bound
