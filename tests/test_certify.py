"""certify: what is certified is optimal, what is not optimal is never certified, and bounds are below every cost."""

from __future__ import annotations

import json
import warnings
from typing import Any

import gtsam
import numpy as np
import pytest

import gtsam_sdp
from gtsam_sdp import CertificateStatus, certify
from tests import problems

X = gtsam.symbol_shorthand.X
UNIT3 = gtsam.noiseModel.Unit.Create(3)


def assert_bound_below_other_minima(graph: Any, values: Any, certificate: Any, starts: int, seed: int = 0) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(starts):
        other = problems.optimize(graph, problems.random_start(values, rng), 1e-9)
        assert certificate.lower_bound <= graph.error(other) * (1 + 1e-12)


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("seed", range(4))
def test_certifies_the_optimum_of_small_graphs(d: int, seed: int) -> None:
    graph, truth = problems.small_graph(d, sigma_rotation=0.05, seed=seed)
    result = problems.optimize(graph, truth)
    certificate = certify(graph, result)
    assert certificate
    assert certificate.status is CertificateStatus.CERTIFIED
    assert certificate.cost == graph.error(result)
    assert 0 < certificate.lower_bound <= certificate.cost
    assert certificate.gap == certificate.cost - certificate.lower_bound
    assert_bound_below_other_minima(graph, truth, certificate, starts=10)


@pytest.mark.parametrize("d", [2, 3])
def test_bound_is_below_random_perturbations(d: int) -> None:
    graph, truth = problems.small_graph(d, sigma_rotation=0.3, sigma_translation=0.5, seed=7)
    result = problems.optimize(graph, truth)
    certificate = certify(graph, result, tolerance=1e-12)
    rng = np.random.default_rng(0)
    zero = result.zeroVectors()
    for _ in range(1000):
        size = 10 ** rng.uniform(-6, 0)
        delta = gtsam.VectorValues()
        for key in result.keys():
            delta.insert(key, rng.normal(size=zero.at(key).shape) * size)
        assert certificate.lower_bound <= graph.error(result.retract(delta))


@pytest.mark.parametrize("turns", [1, -1, 2])
def test_ring_with_extra_turns_is_never_certified(turns: int) -> None:
    graph, truth = problems.ring(2, 20, 0.1, 0.1, seed=1)
    best = problems.optimize(graph, truth)
    wrong = problems.optimize(graph, problems.with_turns(truth, 20, turns))
    assert graph.error(wrong) > 1.5 * graph.error(best)
    certificate = certify(graph, wrong)
    assert not certificate
    assert certificate.lower_bound <= graph.error(best)
    assert certify(graph, best)


def test_wrong_minima_of_a_ring_in_space_are_never_certified() -> None:
    graph, truth = problems.ring(3, 16, 0.05, 0.1, seed=2)
    best = graph.error(problems.optimize(graph, truth))
    rng = np.random.default_rng(0)
    wrong = 0
    for _ in range(12):
        result = problems.optimize(graph, problems.random_start(truth, rng))
        certificate = certify(graph, result)
        assert certificate.lower_bound <= best * (1 + 1e-9)
        if graph.error(result) > best * (1 + 1e-6):
            wrong += 1
            assert certificate.lower_bound < certificate.cost * (1 - 1e-6)
            assert not certify(graph, result, tolerance=1e-6)
    assert wrong >= 3


def test_sphere_from_a_random_start_is_never_certified() -> None:
    graph, _ = gtsam.readG2o(gtsam.findExampleDataFile("sphere2500.txt"), True)
    rng = np.random.default_rng(0)
    keys = list(graph.keyVector())
    start = problems.to_values(zip(keys, problems.random_poses(3, len(keys), rng, 20.0), strict=True))
    parameters = gtsam.LevenbergMarquardtParams()
    parameters.setMaxIterations(15)
    wrong = gtsam.LevenbergMarquardtOptimizer(graph, start, parameters).optimize()
    assert graph.error(wrong) > 1000
    certificate = certify(graph, wrong)
    assert not certificate
    assert certificate.lower_bound <= 675.701


def test_values_far_from_an_optimum_get_advice() -> None:
    graph, truth = problems.small_graph(3, seed=3)
    rng = np.random.default_rng(0)
    certificate = certify(graph, problems.random_start(truth, rng))
    assert not certificate
    assert "optimise first" in str(certificate)
    near = certify(graph, truth)
    assert near.stationarity > 1e-3
    assert not near
    assert near.lower_bound <= graph.error(problems.optimize(graph, truth))
    assert "optimise first" in str(near)


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("exponent", [-9, -4, 4, 9])
def test_gap_does_not_depend_on_the_unit_of_information(d: int, exponent: int) -> None:
    graph, truth = problems.small_graph(d, seed=4, sigma_rotation=0.2)
    result = problems.optimize(graph, truth)
    expected = certify(graph, result)
    scaled = certify(problems.scaled_information(graph, 10.0**exponent), result)
    assert scaled.relative_gap == pytest.approx(expected.relative_gap, rel=1e-3, abs=1e-9)
    assert scaled.lower_bound == pytest.approx(10.0**exponent * expected.lower_bound, rel=1e-8)


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("factor", [1e-3, 1e3])
def test_gap_does_not_depend_on_the_unit_of_length(d: int, factor: float) -> None:
    graph, truth = problems.small_graph(d, seed=5, sigma_rotation=0.2)
    result = problems.optimize(graph, truth)
    expected = certify(graph, result)
    scaled = certify(*problems.scaled_lengths(graph, result, factor))
    assert scaled.relative_gap == pytest.approx(expected.relative_gap, rel=1e-2, abs=1e-8)


@pytest.mark.parametrize("d", [2, 3])
def test_gap_does_not_depend_on_the_origin(d: int) -> None:
    """A map a million metres away from the origin has the same gap: bounds are not lost in large coordinates."""
    graph, truth = problems.small_graph(d, seed=6, sigma_rotation=0.2)
    result = problems.optimize(graph, truth)
    far: Any = (
        gtsam.Pose2(1e6, -2e6, 0.4)
        if d == 2
        else gtsam.Pose3(gtsam.Rot3.Ypr(0.3, 0.2, 0.1), np.array([1e6, -2e6, 3e5]))
    )
    at = result.atPose2 if d == 2 else result.atPose3
    moved = problems.to_values((k, far.compose(at(k))) for k in result.keys())
    expected = certify(graph, result)
    certificate = certify(graph, moved)
    assert certificate.relative_gap == pytest.approx(expected.relative_gap, abs=1e-6)


@pytest.mark.parametrize("d", [2, 3])
def test_noise_free_graphs_are_certified(d: int) -> None:
    rng = np.random.default_rng(0)
    poses = problems.random_poses(d, 10, rng)
    graph, truth = problems.pose_graph(poses, [*problems.ring_edges(10), (0, 5)], 0.1, 0.1, rng)
    exact = gtsam.NonlinearFactorGraph()
    for k in range(graph.size()):
        factor: Any = graph.at(k)
        i, j = factor.keys()
        exact.add(type(factor)(i, j, poses[i].between(poses[j]), factor.noiseModel()))
    certificate = certify(exact, truth)
    assert certificate
    assert certificate.relative_gap < 1e-6
    optimised = problems.optimize(
        exact, problems.to_values((k, p.retract(0.01 * rng.normal(size=p.dim()))) for k, p in enumerate(poses))
    )
    assert certify(exact, optimised)


@pytest.mark.parametrize(("sigma", "stretch"), [(1e-6, 2e-3), (1e-7, 0.02), (1e-8, 0.2)])
def test_stiff_rotations_do_not_make_a_cost_look_like_rounding(sigma: float, stretch: float) -> None:
    """A chain that is stretched: each factor's cost is tiny beside the numbers of its rotation part."""
    noise = gtsam.noiseModel.Diagonal.Sigmas(np.repeat([sigma, 1.0], 3))
    graph, values = gtsam.NonlinearFactorGraph(), gtsam.Values()
    for i in range(100):
        graph.add(gtsam.BetweenFactorPose3(i, i + 1, gtsam.Pose3(gtsam.Rot3(), np.array([1.0, 0, 0])), noise))
    for i in range(101):
        values.insert(i, gtsam.Pose3(gtsam.Rot3(), np.array([i * (1 + stretch), 0, 0])))
    certificate = certify(graph, values)
    assert not certificate
    assert certificate.lower_bound == 0  # the optimum costs nothing


def test_a_long_arm_does_not_make_a_cost_look_like_rounding() -> None:
    graph, values = gtsam.NonlinearFactorGraph(), gtsam.Values()
    noise = gtsam.noiseModel.Diagonal.Sigmas(np.array([1e-3, 1e-3, 0.1]))
    graph.add(gtsam.BetweenFactorPose2(0, 1, gtsam.Pose2(1e6, 0, 0), noise))
    values.insert(0, gtsam.Pose2())
    values.insert(1, gtsam.Pose2(1e6, 0, 0.1))
    assert not certify(graph, values)


def test_a_tree_and_a_single_pose() -> None:
    rng = np.random.default_rng(0)
    graph, truth = problems.pose_graph(
        problems.random_poses(3, 5, rng), [(0, 1), (1, 2), (1, 3), (3, 4)], 0.1, 0.1, rng
    )
    assert certify(graph, problems.optimize(graph, truth))
    graph = gtsam.NonlinearFactorGraph()
    graph.addPriorPose3(0, gtsam.Pose3(), gtsam.noiseModel.Unit.Create(6))
    assert certify(graph, problems.to_values([(0, gtsam.Pose3())]))


@pytest.mark.parametrize("d", [2, 3])
def test_several_components(d: int) -> None:
    """Two parts without a link, and one of them held in the world by a prior."""
    graph, values = problems.small_graph(d, seed=1, sigma_rotation=0.05)
    rng = np.random.default_rng(8)
    other, more = problems.pose_graph(
        problems.random_poses(d, 6, rng), [*problems.ring_edges(6), (0, 3)], 0.05, 0.1, rng, first_key=100
    )
    result = problems.optimize(graph, values)
    alone = certify(graph, result, tolerance=1e-6)
    graph.push_back(other)
    values.insert(more)
    both = problems.optimize(graph, values)
    certificate = certify(graph, both)
    assert certificate
    assert certificate.lower_bound > alone.lower_bound
    prior: Any = gtsam.PriorFactorPose2 if d == 2 else gtsam.PriorFactorPose3
    at = both.atPose2 if d == 2 else both.atPose3
    graph.add(prior(102, at(102), problems.noise_model(d, 0.1, 0.1)))
    assert certify(graph, problems.optimize(graph, both))


@pytest.mark.parametrize("d", [2, 3])
def test_priors_on_many_keys(d: int) -> None:
    graph, truth = problems.small_graph(d, seed=2, sigma_rotation=0.05)
    rng = np.random.default_rng(3)
    prior: Any = gtsam.PriorFactorPose2 if d == 2 else gtsam.PriorFactorPose3
    at = truth.atPose2 if d == 2 else truth.atPose3
    model = problems.noise_model(d, 0.1, 0.2)
    for key in list(truth.keys())[::2]:
        graph.add(prior(key, at(key).retract(rng.normal(size=model.dim()) * model.sigmas()), model))
    certificate = certify(graph, problems.optimize(graph, truth))
    assert certificate
    assert_bound_below_other_minima(graph, truth, certificate, starts=5)


def test_position_measurements_in_large_world_coordinates() -> None:
    """GPS in coordinates of millions of metres: the offset must not eat the bound."""
    rng = np.random.default_rng(0)
    origin = np.array([4.5e6, 5.2e6, 300.0])
    poses = [
        gtsam.Pose3(gtsam.Rot3.Rz(0.1 * k), origin + np.array([10.0 * k, 3.0 * np.sin(k), 0.1 * k])) for k in range(30)
    ]
    graph, truth = problems.pose_graph(poses, [(k, k + 1) for k in range(29)], 0.01, 0.1, rng)
    for k in range(30):
        graph.add(
            gtsam.GPSFactor(k, poses[k].translation() + rng.normal(size=3), gtsam.noiseModel.Isotropic.Sigma(3, 1.0))
        )
    result = problems.optimize(graph, truth)
    certificate = certify(graph, result)
    assert certificate
    assert certificate.relative_gap < 1e-4


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("how", ["constrained prior", "equality"])
def test_hard_priors(d: int, how: str) -> None:
    graph, truth = problems.small_graph(d, seed=3, sigma_rotation=0.05)
    at = truth.atPose2 if d == 2 else truth.atPose3
    dimension = 3 if d == 2 else 6
    for key in (0, 5):
        if how == "equality":
            equality: Any = gtsam.NonlinearEqualityPose2 if d == 2 else gtsam.NonlinearEqualityPose3
            graph.add(equality(key, at(key)))
        else:
            prior: Any = gtsam.PriorFactorPose2 if d == 2 else gtsam.PriorFactorPose3
            graph.add(prior(key, at(key), gtsam.noiseModel.Constrained.All(dimension)))
    result = problems.optimize(graph, truth)
    certificate = certify(graph, result)
    assert certificate
    assert any("2 hard constraint" in note for note in certificate.notes)
    free, _ = problems.small_graph(d, seed=3, sigma_rotation=0.05)
    unconstrained = certify(free, problems.optimize(free, truth))
    assert certificate.lower_bound > unconstrained.cost


@pytest.mark.parametrize("d", [2, 3])
def test_hard_positions_and_rotations(d: int) -> None:
    """A fixed rotation and a fixed position, and a fixed point, are substituted."""
    graph, truth = problems.small_graph(d, seed=4, sigma_rotation=0.05)
    at = truth.atPose2 if d == 2 else truth.atPose3
    g: Any = gtsam
    hard = gtsam.noiseModel.Constrained.All
    graph.add(getattr(g, f"PoseTranslationPrior{d}D")(0, at(0).translation(), hard(d)))
    graph.add(getattr(g, f"PoseRotationPrior{d}D")(1, at(1).rotation(), hard(1 if d == 2 else 3)))
    graph.add(
        getattr(g, f"KnownLandmarkFactorPose{d}")(
            2, np.ones(d), at(2).transformTo(np.ones(d)) + 0.1, gtsam.noiseModel.Isotropic.Sigma(d, 0.1)
        )
    )
    certificate = certify(graph, problems.optimize(graph, truth))
    assert certificate


def test_hard_prior_that_values_violate() -> None:
    graph, truth = problems.small_graph(3, seed=3)
    graph.add(
        gtsam.PriorFactorPose3(4, truth.atPose3(4).retract(0.1 * np.ones(6)), gtsam.noiseModel.Constrained.All(6))
    )
    with pytest.raises(gtsam_sdp.InvalidGraphError, match=r"violate the hard factor 25 \(PriorFactorPose3 on 4\)"):
        certify(graph, truth)


def test_off_manifold_hard_prior_is_refused() -> None:
    graph, truth = problems.small_graph(3, seed=3)
    matrix = truth.atPose3(4).matrix() @ np.diag([1.1, 1, 1, 1])
    graph.add(gtsam.FrobeniusPriorPose3(4, matrix, gtsam.noiseModel.Constrained.All(16)))
    with pytest.raises(gtsam_sdp.InvalidGraphError, match="not a rotation"):
        certify(graph, truth)


def test_partly_hard_noise_is_refused() -> None:
    graph, truth = problems.small_graph(3, seed=3)
    model = gtsam.noiseModel.Constrained.MixedSigmas(1000.0, np.array([0.0, 0, 0, 1, 1, 1]))
    graph.add(gtsam.PriorFactorPose3(4, truth.atPose3(4), model))
    with pytest.raises(gtsam_sdp.UnsupportedNoiseError, match="3 of 6 sigmas not zero"):
        certify(graph, truth)


def test_hard_constraint_between_keys_is_refused() -> None:
    graph, truth = problems.small_graph(2, seed=3)
    graph.add(gtsam.BetweenFactorPose2(0, 1, gtsam.Pose2(), gtsam.noiseModel.Constrained.All(3)))
    graph.add(gtsam.NonlinearEquality2Pose2(2, 3))
    with pytest.raises(gtsam_sdp.UnsupportedFactorError, match="hard constraint") as caught:
        certify(graph, truth)
    assert [o.index for o in caught.value.offenders] == [25, 26]


def test_dropped_factors_count_as_zero() -> None:
    graph, truth = problems.small_graph(3, seed=5, sigma_rotation=0.05)
    result = problems.optimize(graph, truth)
    alone = certify(graph, result)
    huber = gtsam.noiseModel.Robust.Create(problems.loss_of_numbers(1.0), gtsam.noiseModel.Unit.Create(6))
    graph.add(gtsam.BetweenFactorPose3(0, 5, gtsam.Pose3(), huber))
    graph.add(problems.distance_factor(0, 7, 3.0))
    with pytest.raises(gtsam_sdp.UnsupportedFactorError) as caught:
        certify(graph, result)
    message = str(caught.value)
    assert "1 x BetweenFactorPose3: the robust loss Huber is one of each number of the residual" in message
    assert "(factor 25 on 0, 5)" in message
    reason = "no term is known for this factor type, and its error is not linear in rotations and positions"
    assert f"1 x CustomFactor: {reason} (factor 26 on 0, 7)" in message
    assert 'on_unsupported="drop"' in message
    dropped = certify(graph, result, on_unsupported="drop")
    assert dropped.cost == graph.error(result)
    assert dropped.lower_bound == pytest.approx(alone.lower_bound, rel=1e-6)
    assert not dropped
    assert dropped.status is CertificateStatus.BOUNDED
    assert "2 unsupported factor(s) dropped" in str(dropped)
    assert dropped.terms.counts()["DROPPED"] == 2
    better = problems.optimize(graph, result)
    assert dropped.lower_bound <= graph.error(better)


def test_only_dropped_factors() -> None:
    graph = gtsam.NonlinearFactorGraph()
    graph.add(problems.distance_factor(0, 1, 3.0))
    values = problems.to_values([(0, gtsam.Pose3()), (1, gtsam.Pose3(gtsam.Rot3(), np.array([1.0, 0, 0])))])
    certificate = certify(graph, values, on_unsupported="drop")
    assert certificate.status is CertificateStatus.INCONCLUSIVE
    assert certificate.lower_bound == 0


def test_dropping_may_leave_keys_free() -> None:
    graph, truth = problems.small_graph(3, seed=5, sigma_rotation=0.05)
    graph.add(problems.distance_factor(0, 77, 3.0))
    truth.insert(77, gtsam.Pose3(gtsam.Rot3(), truth.atPose3(0).translation() + np.array([3.0, 0, 0])))
    certificate = certify(graph, problems.optimize(graph, truth), on_unsupported="drop")
    assert certificate


def test_rotation_averaging_is_tight() -> None:
    """BetweenFactorRot3 with isotropic noise: the tangent of the squared angle loses nothing at a local optimum."""
    rng = np.random.default_rng(0)
    graph = gtsam.NonlinearFactorGraph()
    truth = [p.rotation() for p in problems.random_poses(3, 30, rng)]
    pairs = [*problems.ring_edges(30), *(tuple(rng.choice(30, 2, replace=False).tolist()) for _ in range(60))]
    for i, j in pairs:
        measured = truth[i].between(truth[j]).retract(0.1 * rng.normal(size=3))
        graph.add(gtsam.BetweenFactorRot3(i, j, measured, gtsam.noiseModel.Isotropic.Sigma(3, 0.1)))
    result = problems.optimize(graph, problems.to_values(enumerate(truth)), 1e-15)
    assert certify(graph, result).relative_gap < 1e-9


def test_split_rotations_and_translations() -> None:
    """FrobeniusBetweenFactorRot3 with RelativeTranslationFactor3: rotations and positions under their own keys."""
    rng = np.random.default_rng(0)
    graph = gtsam.NonlinearFactorGraph()
    poses = problems.ring_poses(3, 15)
    for i, j in problems.ring_edges(15):
        step = poses[i].between(poses[j]).retract(np.repeat([0.05, 0.1], 3) * rng.normal(size=6))
        graph.add(gtsam.FrobeniusBetweenFactorRot3(i, j, step.rotation(), gtsam.noiseModel.Isotropic.Variance(3, 0.01)))
        graph.add(gtsam.RelativeTranslationFactor3(i, 100 + i, 100 + j, step.translation(), 25.0))
    values = problems.to_values(
        [*((k, p.rotation()) for k, p in enumerate(poses)), *((100 + k, p.translation()) for k, p in enumerate(poses))]
    )
    graph.add(gtsam.PriorFactorPoint3(100, poses[0].translation(), gtsam.noiseModel.Isotropic.Sigma(3, 0.1)))
    graph.addPriorRot3(0, poses[0].rotation(), gtsam.noiseModel.Isotropic.Sigma(3, 0.1))
    certificate = certify(graph, problems.optimize(graph, values))
    assert certificate
    assert certificate.relative_gap < 1e-6


def test_vectors_of_any_length() -> None:
    rng = np.random.default_rng(0)
    graph = gtsam.NonlinearFactorGraph()
    model = gtsam.noiseModel.Isotropic.Sigma(5, 0.3)
    for k in range(6):
        graph.add(gtsam.BetweenFactorVector(k, k + 1, rng.normal(size=5), model))
    graph.add(gtsam.BetweenFactorVector(0, 6, rng.normal(size=5), model))
    graph.add(gtsam.PriorFactorVector(2, rng.normal(size=5), model))
    values = problems.to_values((k, np.zeros(5)) for k in range(7))
    certificate = certify(graph, problems.optimize(graph, values))
    assert certificate
    assert certificate.relative_gap < 1e-9


def test_left_invariant_factors() -> None:
    """In the plane they are exact; in space the error says why they are not liftable."""
    rng = np.random.default_rng(0)
    graph = gtsam.NonlinearFactorGraph()
    poses = problems.random_poses(2, 8, rng)
    for i, j in [*problems.ring_edges(8), (0, 4)]:
        measured = poses[i].compose(poses[j].inverse()).retract(0.05 * rng.normal(size=3))
        graph.add(gtsam.FrobeniusLeftBetweenFactorPose2(i, j, measured, gtsam.noiseModel.Isotropic.Sigma(3, 0.1)))
    graph.addPriorPose2(0, poses[0], gtsam.noiseModel.Isotropic.Sigma(3, 0.1))
    assert certify(graph, problems.optimize(graph, problems.to_values(enumerate(poses))))
    space = gtsam.NonlinearFactorGraph()
    space.add(gtsam.FrobeniusLeftBetweenFactorRot3(0, 1, gtsam.Rot3()))
    with pytest.raises(gtsam_sdp.UnsupportedFactorError, match="not linear in the Gram matrix"):
        certify(space, problems.to_values([(0, gtsam.Rot3()), (1, gtsam.Rot3())]))


def correlated_ring(d: int, covariance: np.ndarray, seed: int) -> tuple[gtsam.NonlinearFactorGraph, gtsam.Values]:
    """A ring of twelve poses with four more loops, its noise of any covariance, and its optimum."""
    rng = np.random.default_rng(seed)
    poses = problems.ring_poses(d, 12, radius=10.0)
    graph, values = gtsam.NonlinearFactorGraph(), problems.to_values(enumerate(poses))
    factor: Any = gtsam.BetweenFactorPose2 if d == 2 else gtsam.BetweenFactorPose3
    model, root = gtsam.noiseModel.Gaussian.Covariance(covariance), np.linalg.cholesky(covariance)
    loops = [tuple(rng.choice(12, 2, replace=False).tolist()) for _ in range(4)]
    for i, j in [*problems.ring_edges(12), *loops]:
        measured = poses[i].between(poses[j]).retract(root @ rng.normal(size=len(root)))
        graph.add(factor(i, j, measured, model))
    return graph, problems.optimize(graph, values)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("d", "steps"), [(2, 7), (2, 20), (3, 10)])
def test_covariances_of_composed_odometry(d: int, steps: int, seed: int) -> None:
    """Steps of half a metre, 2 cm and 0.01 rad each: heading and drift to the side are strongly correlated."""
    step: Any = gtsam.Pose2(0.5, 0, 0.02) if d == 2 else gtsam.Pose3(gtsam.Rot3.Rz(0.02), np.array([0.5, 0, 0]))
    A = step.inverse().AdjointMap()
    sigmas = np.array([0.02, 0.02, 0.01]) if d == 2 else np.repeat([0.01, 0.02], 3)
    covariance = np.zeros_like(A)
    for _ in range(steps):
        covariance = A @ covariance @ A.T + np.diag(sigmas**2)
    graph, best = correlated_ring(d, covariance, seed)
    certificate = certify(graph, best)
    assert certificate
    assert certificate.terms.counts() == {"TANGENT": graph.size()}


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("d", [2, 3])
def test_covariances_of_any_correlation(d: int, seed: int) -> None:
    root = np.random.default_rng(seed).normal(size=(3 * d - 3, 3 * d - 3))
    graph, best = correlated_ring(d, 0.02**2 * (root @ root.T + 0.01 * np.eye(len(root))), seed)
    certificate = certify(graph, best)
    assert certificate.terms.counts() == {"TANGENT": graph.size()}
    assert certificate.relative_gap < 1e-4 or d == 3


def test_inputs_are_not_changed_and_results_repeat() -> None:
    graph, truth = problems.small_graph(3, seed=5)
    result = problems.optimize(graph, truth)
    graph_before, values_before = graph.serialize(), result.serialize()
    first, second = certify(graph, result), certify(graph, result)
    assert graph.serialize() == graph_before
    assert result.serialize() == values_before
    assert (first.lower_bound, first.gap, first.shift) == (second.lower_bound, second.gap, second.shift)


def test_symbols_and_huge_keys() -> None:
    graph, truth = problems.small_graph(2, seed=1, sigma_rotation=0.05)
    names = dict(enumerate([X(0), X(2**40), 2**63, 2**64 - 1, 5, *(X(k) for k in range(10, 17))]))
    renamed = gtsam.NonlinearFactorGraph()
    for k in range(graph.size()):
        factor: Any = graph.at(k)
        i, j = factor.keys()
        renamed.add(type(factor)(names[i], names[j], factor.measured(), factor.noiseModel()))
    values = problems.to_values((names[k], truth.atPose2(k)) for k in truth.keys())
    expected = certify(graph, problems.optimize(graph, truth))
    certificate = certify(renamed, problems.optimize(renamed, values))
    assert certificate.lower_bound == pytest.approx(expected.lower_bound, rel=1e-6)


def test_removed_factors_are_skipped() -> None:
    graph, truth = problems.small_graph(3, seed=5, sigma_rotation=0.05)
    graph.remove(20)
    certificate = certify(graph, problems.optimize(graph, truth))
    assert certificate
    assert len(certificate.terms) == graph.size() - 1
    assert 20 not in certificate.terms.index


def test_silent_unit_noise_warns() -> None:
    """GTSAM turns a 6-dimensional diagonal model on a Frobenius factor into unit noise without a word."""
    graph = gtsam.NonlinearFactorGraph()
    model = gtsam.noiseModel.Diagonal.Sigmas(np.arange(1, 7.0))
    graph.add(gtsam.FrobeniusBetweenFactorPose3(0, 1, gtsam.Pose3(), model))
    values = problems.to_values([(0, gtsam.Pose3()), (1, gtsam.Pose3())])
    with pytest.warns(gtsam_sdp.SuspiciousInputWarning, match="1 FrobeniusBetweenFactorPose3 have unit noise"):
        certify(graph, values)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        meant = gtsam.NonlinearFactorGraph()
        meant.add(gtsam.FrobeniusBetweenFactorPose3(0, 1, gtsam.Pose3(), gtsam.noiseModel.Isotropic.Sigma(6, 0.1)))
        certify(meant, values)


def test_report_and_export() -> None:
    graph, truth = problems.small_graph(3, seed=5, sigma_rotation=0.5)
    certificate = certify(graph, problems.optimize(graph, truth), tolerance=1e-12)
    text = str(certificate)
    assert text.startswith("BOUNDED: no solution is better by more than")
    for word in ("cost", "lower bound", "gap", "25 factors: 25 tangent", "largest contributions"):
        assert word in text
    html = certificate._repr_html_()
    assert html.startswith("<div>") and html.count("<table>") == 2
    data = json.loads(certificate.to_json())
    assert data["status"] == "bounded"
    assert data["lower_bound"] == certificate.lower_bound
    assert data["exactness"] == {"TANGENT": 25}
    assert len(data["largest_contributions"]) == 5
    largest = certificate.terms.largest(2)
    assert largest[0].contribution >= largest[1].contribution > 0
    assert certificate.terms[0].keys == tuple(graph.at(0).keys())
    assert certificate.terms.cost.sum() == pytest.approx(certificate.cost)
    with pytest.raises(ValueError, match="read-only"):
        certificate.terms.cost[0] = 1.0


def plain(thing: Any) -> bool:
    """Whether something is made of plain Python types."""
    if isinstance(thing, dict):
        return all(type(key) is str and plain(value) for key, value in thing.items())
    if isinstance(thing, list):
        return all(map(plain, thing))
    return thing is None or type(thing) in (str, int, float, bool)


def test_export_names_keys_and_is_plain() -> None:
    """JSON readers round symbols' keys, which are above 2^53: the names are there too."""
    graph = gtsam.NonlinearFactorGraph()
    poses = problems.random_poses(2, 3, np.random.default_rng(0))
    for i, j in ((0, 1), (1, 2), (2, 0)):
        measured = poses[i].between(poses[j]).retract(np.array([0.1, 0.2, 0.1 * j]))
        graph.add(gtsam.BetweenFactorPose2(X(i + 13), X(j + 13), measured, gtsam.noiseModel.Isotropic.Sigma(3, 0.3)))
    values = problems.optimize(graph, problems.to_values((X(k + 13), pose) for k, pose in enumerate(poses)))
    solution = gtsam_sdp.refine(graph, values, tolerance=1e-13)
    for certificate in (certify(graph, values), solution.certificate):
        assert plain(certificate.to_dict())
        largest = json.loads(certificate.to_json())["largest_contributions"]
        assert sorted(map(tuple, (t["names"] for t in largest))) == [("x13", "x14"), ("x14", "x15"), ("x15", "x13")]
        assert {tuple(t["keys"]) for t in largest} == {(X(13), X(14)), (X(14), X(15)), (X(15), X(13))}
    assert plain(solution.to_dict())
    found = json.loads(solution.to_json())
    assert found["certificate"] == json.loads(solution.certificate.to_json())
    assert found["method"] == solution.method
    assert [s["name"] for s in found["stages"]] == [s.name for s in solution.stages]


def test_text_of_terms() -> None:
    graph, truth = problems.small_graph(3, seed=5, sigma_rotation=0.5)
    graph.addPriorPose3(X(1), gtsam.Pose3(), gtsam.noiseModel.Unit.Create(6))
    truth.insert(X(1), gtsam.Pose3())
    terms = certify(graph, problems.optimize(graph, truth)).terms
    text = str(terms)
    assert text.startswith("26 factors: 26 tangent\n  25 BetweenFactorPose3\n  1 PriorFactorPose3\n  largest")
    assert f"factor {terms.largest(1)[0].index} (BetweenFactorPose3 on " in text
    assert repr(terms) == "<FactorTerms: 26 factors: 26 tangent>"
    assert str(terms[25]) == "factor 25 (PriorFactorPose3 on x1): cost 0, adds 0 to the gap, tangent"
    assert repr(terms[25]) == f"<FactorTerm: {terms[25]}>"


def test_parts_without_a_factor_between_them() -> None:
    """Legal, as for two robots that never met: a note says it, and a better proof keeps it."""
    graph, truth = problems.ring(2, 6)
    other, other_truth = problems.ring(2, 5, seed=1)
    assert "parts" not in str(certify(graph, problems.optimize(graph, truth)))
    for k in range(other.size()):
        factor: Any = other.at(k)
        graph.add(factor.rekey([X(key) for key in factor.keys()]))
    for key in other_truth.keys():
        truth.insert(X(key), other_truth.atPose2(key))
    certificate = certify(graph, problems.optimize(graph, truth))
    assert certificate
    assert certificate.notes == ("no factor connects the 2 parts that the graph falls into",)
    assert gtsam_sdp.solve(graph, method="sdp").certificate.notes == certificate.notes
    graph.add(problems.distance_factor(0, X(2), 1.0, d=2))
    dropped = certify(graph, truth, on_unsupported="drop")
    assert "parts" not in str(dropped)


def test_verbose_shows_progress(capsys: pytest.CaptureFixture[str]) -> None:
    graph, truth = problems.small_graph(3, seed=5)
    certify(graph, truth, verbose=True)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "gtsam_sdp: reading: 25 factors, 12 keys" in shown.err
    certify(graph, truth)
    assert capsys.readouterr().err == ""


def test_arguments_are_checked() -> None:
    graph, truth = problems.small_graph(3, seed=5)
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"tolerance": 0.0}, "positive number"),
        ({"tolerance": float("nan")}, "positive number"),
        ({"tolerance": "1e-4"}, "tolerance must be a positive number, not '1e-4'"),
        ({"tolerance": True}, "tolerance must be a positive number, not True"),
        ({"tolerance": None}, "tolerance must be a positive number, not None"),
        ({"method": "magic"}, '"auto", "multipliers" or "sdp"'),
        ({"on_unsupported": "ignore"}, '"raise" or "drop"'),
    ]
    for arguments, message in wrong:
        with pytest.raises(ValueError, match=message):
            certify(graph, truth, **arguments)
