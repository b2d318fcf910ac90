"""Inputs on which a verdict was once wrong, or did not come at all."""

from __future__ import annotations

from typing import Any

import gtsam
import numpy as np
import pytest

from gtsam_sdp import CertificateStatus, Residual, Term, UnsupportedFactorError, certify, register_term, unregister_term
from tests import problems

ISO = gtsam.noiseModel.Isotropic.Sigma


def twisted_rotations(kind: str, count: int = 12, noise: float = 0.02) -> tuple[Any, Any, Any]:
    """A ring of rotations with one turn too many, and the values without it."""
    rng = np.random.default_rng(0)
    g: Any = gtsam
    size = 1 if kind == "Rot2" else 3
    turn = (lambda a: gtsam.Rot2(a)) if kind == "Rot2" else gtsam.Rot3.Rz
    graph = gtsam.NonlinearFactorGraph()
    for i in range(count):
        measured = turn(0.0).retract(noise * rng.normal(size=size))
        graph.add(getattr(g, f"BetweenFactor{kind}")(i, (i + 1) % count, measured, ISO(size, 0.3)))
    wrong = problems.to_values((i, turn(2 * np.pi * i / count)) for i in range(count))
    right = problems.to_values((i, turn(0.0)) for i in range(count))
    return graph, wrong, right


@pytest.mark.parametrize("kind", ["Rot2", "Rot3"])
def test_wrong_minima_of_rotation_graphs(kind: str) -> None:
    """Graphs of rotations have nothing on the diagonal of Q: the search for a shift has to start somewhere."""
    graph, wrong, right = twisted_rotations(kind)
    result = problems.optimize(graph, wrong)
    assert graph.error(result) > 1.0
    certificate = certify(graph, result)
    assert not certificate
    best = problems.optimize(graph, right)
    assert certificate.lower_bound <= graph.error(best)
    assert certify(graph, best)


@pytest.mark.parametrize("sigma", [1e-9, 1e-10, 1e-11])
def test_a_stiff_factor_excuses_no_other_cost(sigma: float) -> None:
    """One prior of tiny sigma makes sums large; the cost of a wrong minimum is not rounding all the same."""
    graph, wrong, _ = twisted_rotations("Rot2")
    graph.add(gtsam.PriorFactorRot2(0, gtsam.Rot2(0.0), ISO(1, sigma)))
    result = problems.optimize(graph, wrong)
    assert graph.error(result) > 1.0
    assert not certify(graph, result)


def test_loose_tolerance_is_a_share_of_the_cost() -> None:
    graph = gtsam.NonlinearFactorGraph()
    graph.add(gtsam.PriorFactorRot2(0, gtsam.Rot2(0.0), ISO(1, 1e-5)))
    for x in (-0.01, 0.01):
        graph.add(gtsam.BetweenFactorRot2(0, 1, gtsam.Rot2(x), ISO(1, 1.0)))
    values = problems.to_values([(0, gtsam.Rot2(0.0)), (1, gtsam.Rot2(0.02))])
    certificate = certify(graph, values, tolerance=0.3)
    assert certificate.lower_bound <= 1e-4
    assert not certificate


def test_soft_equality_is_no_constraint() -> None:
    graph = gtsam.NonlinearFactorGraph()
    graph.add(gtsam.NonlinearEqualityPose2(1, gtsam.Pose2(), 1.0))
    graph.add(gtsam.BetweenFactorPose2(1, 2, gtsam.Pose2(1, 0, 0), ISO(3, 1.0)))
    values = problems.to_values([(1, gtsam.Pose2(50, 0, 0)), (2, gtsam.Pose2(2, 0, 0))])
    with pytest.raises(UnsupportedFactorError, match="with an error_gain it is a soft cost"):
        certify(graph, values)


def test_equality_prescribes_its_own_value() -> None:
    """GTSAM accepts values within 1e-9; next to a stiff factor the difference matters."""
    graph = gtsam.NonlinearFactorGraph()
    graph.add(gtsam.NonlinearEqualityPoint2(1, np.zeros(2)))
    graph.add(gtsam.PriorFactorPoint2(1, np.array([1e-9, 0]), ISO(2, 1e-10)))
    graph.add(gtsam.BetweenFactorPoint2(1, 2, np.array([1.0, 0]), ISO(2, 1)))
    graph.add(gtsam.PriorFactorPoint2(2, np.array([3.0, 0]), ISO(2, 1)))
    values = problems.to_values([(1, np.array([-9e-10, 0])), (2, np.array([2.0, 0]))])
    certificate = certify(graph, values)
    exact = problems.to_values([(1, np.zeros(2)), (2, np.array([2.0, 0]))])
    assert certificate.lower_bound <= graph.error(exact) * (1 + 1e-9)


@pytest.mark.parametrize("kind", ["Rot2", "Rot3", "Pose2", "Pose3", "Point2", "Point3"])
def test_equality_of_every_kind(kind: str) -> None:
    rng = np.random.default_rng(0)
    g: Any = gtsam
    pose = problems.random_poses(int(kind[-1]), 1, rng)[0]
    value = {"Rot": pose.rotation(), "Pose": pose, "Point": pose.translation()}[kind[:-1]]
    graph = gtsam.NonlinearFactorGraph()
    graph.add(getattr(g, f"NonlinearEquality{kind}")(0, value))
    size = {"Rot2": 1, "Rot3": 3, "Pose2": 3, "Pose3": 6, "Point2": 2, "Point3": 3}[kind]
    moved = value + 0.1 if kind.startswith("Point") else value.retract(0.1 * np.ones(size))
    graph.add(getattr(g, f"PriorFactor{kind}")(0, moved, ISO(size, 1.0)))
    certificate = certify(graph, problems.to_values([(0, value)]), tolerance=1e-2)
    assert certificate
    assert certificate.cost == pytest.approx(0.005 * size, rel=1e-6)


def test_costs_that_may_be_negative_are_not_dropped() -> None:
    graph = gtsam.NonlinearFactorGraph()
    at = problems.to_values([(1, np.zeros(2))])
    graph.add(gtsam.LinearContainerFactor(gtsam.HessianFactor(1, np.eye(2) * 0.01, np.array([0.1, 0]), 0.0), at))
    graph.add(gtsam.PriorFactorPoint2(1, np.zeros(2), ISO(2, 1)))
    with pytest.raises(UnsupportedFactorError, match="may be negative"):
        certify(graph, at, on_unsupported="drop")


def test_nothing_left_to_optimise() -> None:
    graph = gtsam.NonlinearFactorGraph()
    graph.add(gtsam.BetweenFactorRot3(1, 1, gtsam.Rot3.Rx(0.3), ISO(3, 0.1)))
    certificate = certify(graph, problems.to_values([(1, gtsam.Rot3())]))
    assert certificate
    assert certificate.lower_bound == pytest.approx(certificate.cost, rel=1e-6)


def test_hard_prior_that_is_violated_by_rounding() -> None:
    """Every feasible value costs more than those given, which violate the constraint by a little."""
    graph = gtsam.NonlinearFactorGraph()
    graph.add(gtsam.PriorFactorPoint2(1, np.zeros(2), gtsam.noiseModel.Constrained.All(2)))
    graph.add(gtsam.PriorFactorPoint2(1, np.array([1.0, 0]), ISO(2, 1e-9)))
    graph.add(gtsam.PriorFactorPoint2(2, np.array([3.0, 0]), ISO(2, 1)))
    graph.add(gtsam.BetweenFactorPoint2(1, 2, np.array([1.0, 0]), ISO(2, 1)))
    values = problems.to_values([(1, np.array([9e-7, 0])), (2, np.array([2.0, 0]))])
    certificate = certify(graph, values)
    assert certificate.lower_bound <= certificate.cost


@pytest.mark.parametrize("spectrum", [(1, 1, 2.1), (1, 1, 4), (1, 4, 4), (1, 1, 1.9)])
@pytest.mark.parametrize("pose", [False, True])
def test_one_rotation_axis_better_known_than_the_others(spectrum: tuple[float, ...], pose: bool) -> None:
    """Low noise and a good optimum have to be certified whatever the ratio of the rotation weights."""
    rng = np.random.default_rng(0)
    turn = 1 / (0.02 * np.sqrt(np.array(spectrum)))
    graph = gtsam.NonlinearFactorGraph()
    poses = problems.random_poses(3, 6, rng)
    scale = 0.02 / np.sqrt(np.array(spectrum))
    for i in range(6):
        for j in range(i + 1, 6):
            noise = np.concatenate([scale * rng.normal(size=3), 0.05 * rng.normal(size=3)])
            measured = poses[i].between(poses[j]).retract(noise)
            if pose:
                model = gtsam.noiseModel.Diagonal.Sigmas(np.concatenate([scale, np.full(3, 0.05)]))
                graph.add(gtsam.BetweenFactorPose3(i, j, measured, model))
            else:
                model = gtsam.noiseModel.Diagonal.Sigmas(scale)
                graph.add(gtsam.BetweenFactorRot3(i, j, measured.rotation(), model))
    assert len(turn) == 3
    truth = problems.to_values((k, p if pose else p.rotation()) for k, p in enumerate(poses))
    certificate = certify(graph, problems.optimize(graph, truth), tolerance=1e-3)
    assert certificate.status is CertificateStatus.CERTIFIED


def test_vectors_that_can_be_shifted_together() -> None:
    graph = gtsam.NonlinearFactorGraph()
    for m in (0.0, 1.0):
        graph.add(gtsam.BetweenFactorVector(1, 2, np.full(5, m), ISO(5, 0.1)))
    assert certify(graph, problems.to_values([(1, np.zeros(5)), (2, np.full(5, 0.5))]))


@pytest.mark.parametrize(
    "term",
    [
        Term([Residual(1.0, rotation={1: [0, 0, 1.0]}, world=[0, 0, -1.0])]),
        Term([]),
        Term([Residual(0.0, translation={1: 1.0})]),
    ],
)
def test_own_terms_of_every_shape(term: Term) -> None:
    """A direction seen from a pose (gravity), and terms that say nothing."""

    def error(this: gtsam.CustomFactor, values: gtsam.Values, jacobians: Any) -> np.ndarray:
        down = values.atPose3(1).rotation().matrix()[:, 2]
        if jacobians is not None:
            R = values.atPose3(1).rotation().matrix()
            jacobians[0] = np.column_stack([-R @ np.cross(np.eye(3), np.array([0, 0, 1.0])), np.zeros((3, 3))])
        return down - np.array([0, 0, 1.0])

    rng = np.random.default_rng(0)
    graph, truth = problems.pose_graph(
        problems.random_poses(3, 5, rng), [*problems.ring_edges(5), (0, 2)], 0.02, 0.1, rng
    )
    graph.add(gtsam.CustomFactor(gtsam.noiseModel.Unit.Create(3), [1], error))

    @register_term(gtsam.CustomFactor)
    def own(factor: Any, values: gtsam.Values) -> Term:
        return term

    try:
        certificate = certify(graph, truth)
    finally:
        unregister_term(own)
    assert certificate.lower_bound <= certificate.cost
