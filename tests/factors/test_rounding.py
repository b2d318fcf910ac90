"""Inputs on which rounding once made a term, a bound or a verdict wrong."""

from __future__ import annotations

from typing import Any

import gtsam
import numpy as np
import pytest

from gtsam_sdp import CertificateStatus, InvalidGraphError, certify
from gtsam_sdp.factors.weights import axis_weights, smallest_eigenvalue
from gtsam_sdp.terms.terms import Exactness
from tests import problems
from tests.factors.cases import perturbed, random_pose, to_values
from tests.factors.test_soundness import lift, value_and_size
from tests.proof.test_bound import lifted


def test_weights_far_apart_are_not_equal() -> None:
    weights, exactness, _ = axis_weights(np.diag([4.0, 1.0, 1e14, 1e14])[None], 2)
    np.testing.assert_allclose(weights[0], np.diag([1.0, 1e14]), rtol=1e-9)
    assert exactness[0] == Exactness.LOWER_BOUND
    weights, exactness, _ = axis_weights(np.diag([4.0, 4.0, 1e14, 1e14])[None], 2)
    np.testing.assert_array_equal(weights[0], np.diag([4.0, 1e14]))
    assert exactness[0] == Exactness.EXACT


@pytest.mark.parametrize("seed", range(20))
def test_axis_weights_are_below_the_information(seed: int) -> None:
    rng = np.random.default_rng(seed)
    d, blocks = int(rng.integers(2, 4)), int(rng.integers(1, 4))
    n = d * blocks
    root = rng.normal(size=(n, n)) * 10 ** rng.uniform(-4, 4, size=n)
    W = root.T @ root if seed % 2 else np.diag(10 ** rng.uniform(-8, 8, size=n))
    A, *_ = axis_weights(W[None], d)
    D = 1 / np.sqrt(np.diag(W))
    rest = (W - np.kron(A[0], np.eye(d))) * D[:, None] * D
    assert np.linalg.eigvalsh(rest)[0] > -1e-13


def test_certificate_with_weights_far_apart() -> None:
    """Two factors that disagree in a weakly measured direction, next to one that is held very stiffly."""
    graph = gtsam.NonlinearFactorGraph()
    sigmas = np.concatenate([np.full(12, 1e-7), [0.5, 1.0, 1.0, 1.0]])
    model = gtsam.noiseModel.Diagonal.Sigmas(sigmas)
    for y in (1.0, 3.0):
        graph.add(gtsam.FrobeniusBetweenFactorPose3(0, 1, gtsam.Pose3(gtsam.Rot3(), np.array([0.0, y, 0])), model))
    at = problems.to_values([(0, gtsam.Pose3()), (1, gtsam.Pose3(gtsam.Rot3(), np.array([0.0, 2.7, 0])))])
    certificate = certify(graph, at)
    assert certificate.lower_bound <= 1.0
    assert not certificate


@pytest.mark.parametrize("size", [1e-10, 1e-9, 1e-8, -1e-8])
def test_measured_rotations_off_the_manifold(size: float) -> None:
    """Rot3 keeps any matrix it is given; certify puts it back on SO(3)."""
    graph = gtsam.NonlinearFactorGraph()
    measured = gtsam.Rot3(np.eye(3) * (1 - size))
    for i in range(3):
        graph.add(gtsam.BetweenFactorRot3(i, (i + 1) % 3, measured, gtsam.noiseModel.Isotropic.Sigma(3, 1e-2)))
    values = problems.to_values((i, gtsam.Rot3.Rz(1e-5 * i)) for i in range(3))
    certificate = certify(graph, values)
    assert certificate.lower_bound <= certificate.cost


def test_what_is_no_rotation_is_refused() -> None:
    graph = gtsam.NonlinearFactorGraph()
    graph.add(gtsam.BetweenFactorRot3(0, 1, gtsam.Rot3(1.001 * np.eye(3)), gtsam.noiseModel.Isotropic.Sigma(3, 1e-2)))
    values = problems.to_values([(0, gtsam.Rot3()), (1, gtsam.Rot3())])
    with pytest.raises(InvalidGraphError, match=r"measured rotation of factor 0 \(BetweenFactorRot3 on 0, 1\) is off"):
        certify(graph, values)
    graph, truth = problems.small_graph(3)
    truth.update(4, gtsam.Pose3(gtsam.Rot3(1.001 * np.eye(3)), np.zeros(3)))
    with pytest.raises(InvalidGraphError, match="values of 4 hold matrices that are no rotations"):
        certify(graph, truth)


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("condition", [1e4, 1e8, 1e12])
def test_ill_conditioned_pose_noise(d: int, condition: float) -> None:
    """Translation weights many decades apart in axes that are not aligned, with cross terms."""
    rng = np.random.default_rng(0)
    n = 3 if d == 2 else 6
    for _ in range(60):
        basis, _ = np.linalg.qr(rng.normal(size=(n, n)))
        information = basis * condition ** -rng.permutation(np.linspace(0, 1, n)) @ basis.T
        model = gtsam.noiseModel.Gaussian.Information((information + information.T) / 2)
        factor_type: Any = gtsam.BetweenFactorPose2 if d == 2 else gtsam.BetweenFactorPose3
        values: dict[int, Any] = {1: random_pose(d, rng), 2: random_pose(d, rng)}
        measured = perturbed(values[1].between(values[2]), rng, 0.3)
        factor = factor_type(1, 2, measured, model)
        reading, terms = lift(factor, values, max_cost=np.inf)
        for size in (0.0, 1e-6, 1e-2, 1.0):
            other: dict[int, Any] = {1: values[1], 2: perturbed(values[2], rng, size)}
            value, magnitude = value_and_size(reading, terms, other)
            assert value <= factor.error(to_values(other)) * (1 + 1e-9) + 2e-15 * magnitude


def test_singular_rotation_information() -> None:
    """The smallest eigenvalue comes out slightly negative, where the tangent of theta^2 would be on the wrong side."""
    rng = np.random.default_rng(0)
    for _ in range(50):
        root = rng.normal(size=(2, 3))
        model = gtsam.noiseModel.Gaussian.Information(root.T @ root + 1e-17 * np.eye(3))
        values: dict[int, Any] = {1: gtsam.Rot3.Expmap(rng.normal(size=3)), 2: gtsam.Rot3.Expmap(rng.normal(size=3))}
        factor = gtsam.BetweenFactorRot3(1, 2, gtsam.Rot3.Expmap(rng.normal(size=3)), model)
        reading, terms = lift(factor, values)
        for size in (0.0, 0.1, 2.0):
            other: dict[int, Any] = {1: values[1], 2: perturbed(values[2], rng, size)}
            value, magnitude = value_and_size(reading, terms, other)
            assert value <= factor.error(to_values(other)) + 2e-15 * magnitude


@pytest.mark.parametrize("k", [2, 3, 6])
def test_smallest_eigenvalue_is_a_lower_bound(k: int) -> None:
    rng = np.random.default_rng(0)
    values = 10 ** rng.uniform(-6, 6, size=(100, k))
    basis = np.linalg.qr(rng.normal(size=(100, k, k)))[0]
    matrices = basis * values[:, None, :] @ basis.swapaxes(1, 2)
    found = smallest_eigenvalue((matrices + matrices.swapaxes(1, 2)) / 2)
    assert (found <= values.min(axis=1) + 1e-15 * values.max(axis=1)).all()
    assert (found >= values.min(axis=1) - 1e-13 * values.max(axis=1)).all()
    isotropic = np.full((3, 1, 1), 0.1) * np.eye(k)
    np.testing.assert_array_equal(smallest_eigenvalue(isotropic), 0.1)


def test_bound_zero_is_no_certificate() -> None:
    """Weights so far apart that rounding eats the bound: the verdict must not call that a certificate."""
    graph = gtsam.NonlinearFactorGraph()
    model = gtsam.noiseModel.Diagonal.Sigmas(np.array([2e-7] * 3 + [1.0] * 3))
    for x in (0.0, 1.0):
        graph.add(gtsam.BetweenFactorPose3(0, 1, gtsam.Pose3(gtsam.Rot3.Rz(0.3), np.array([x, 0, 0])), model))
    values = problems.to_values([(0, gtsam.Pose3()), (1, gtsam.Pose3(gtsam.Rot3.Rz(0.3), np.array([0.0, 1.0, 0])))])
    certificate = certify(graph, values)
    assert certificate.status is not CertificateStatus.CERTIFIED
    assert certificate.lower_bound <= 0.25


def test_many_priors_on_one_key() -> None:
    """Sums with thousands of summands next to the reference frame."""
    rng = np.random.default_rng(0)
    graph = gtsam.NonlinearFactorGraph()
    model = gtsam.noiseModel.Isotropic.Sigma(3, 0.1)
    for _ in range(3000):
        graph.addPriorRot3(0, gtsam.Rot3.Expmap(0.1 * rng.normal(size=3)), model)
    values = problems.optimize(graph, problems.to_values([(0, gtsam.Rot3())]))
    qcqp, _ = lifted(graph, values)
    assert qcqp.summands.max() >= 3000
    certificate = certify(graph, values)
    assert certificate.relative_gap < 1e-6


def test_points_that_can_be_shifted_together() -> None:
    """Differences of points in the world frame leave their common position free."""
    graph = gtsam.NonlinearFactorGraph()
    model = gtsam.noiseModel.Isotropic.Sigma(3, 0.1)
    for i, j, x in ((0, 1, 1.0), (1, 2, 1.0), (0, 2, 2.3)):
        graph.add(gtsam.BetweenFactorPoint3(i, j, np.array([x, 0, 0]), model))
    values = problems.to_values((i, 1e4 + np.array([1.1 * i, 0, 0])) for i in range(3))
    result = problems.optimize(graph, values)
    certificate = certify(graph, result)
    assert certificate
    assert certificate.relative_gap < 1e-8


def test_centred_lift_of_other_values_has_their_cost() -> None:
    """The anchored translation is at zero: other values are shifted as a whole, at no cost."""
    graph, truth = problems.small_graph(3, seed=1)
    qcqp, _ = lifted(graph, problems.optimize(graph, truth))
    rng = np.random.default_rng(0)
    other = problems.to_values((k, truth.atPose3(k).retract(0.1 * rng.normal(size=6))) for k in truth.keys())
    far = gtsam.Pose3(gtsam.Rot3.Ypr(0.4, 0.3, 0.2), np.array([10.0, -20.0, 5.0]))
    moved = problems.to_values((k, far.compose(other.atPose3(k))) for k in other.keys())
    assert qcqp.cost(qcqp.lift(moved)) == pytest.approx(qcqp.cost(qcqp.lift(other)), rel=1e-8)
