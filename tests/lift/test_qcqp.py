"""The lifted problem: lift and unlift, constraints, costs against GTSAM, two coordinate systems of one problem."""

from __future__ import annotations

from typing import Any

import gtsam
import numpy as np
import pytest

from gtsam_sdp import Layout, Qcqp, relax
from gtsam_sdp.lift.build import build_terms
from gtsam_sdp.lift.coordinates import centred_coordinates, plain_coordinates
from gtsam_sdp.reading.graph import read
from tests import problems


def frobenius_graph(kind: str, seed: int = 0) -> tuple[gtsam.NonlinearFactorGraph, gtsam.Values]:
    """Frobenius factors with isotropic noise, and random values."""
    g: Any = gtsam
    d = int(kind[-1])
    rng = np.random.default_rng(seed)
    poses = problems.random_poses(d, 7, rng)
    items = poses if kind.startswith("Pose") else [p.rotation() for p in poses]
    dimension = {"Rot2": 1, "Rot3": 3, "Pose2": 3, "Pose3": 6}[kind]
    graph = gtsam.NonlinearFactorGraph()
    factor_type = getattr(g, f"FrobeniusBetweenFactor{kind}")
    for i, j in [*problems.ring_edges(7), (0, 3), (2, 5)]:
        measured = items[i].between(items[j]).retract(0.3 * rng.normal(size=dimension))
        model = gtsam.noiseModel.Isotropic.Sigma(dimension, rng.uniform(0.3, 3))
        graph.add(factor_type(i, j, measured, model))
    return graph, problems.to_values(enumerate(items))


@pytest.mark.parametrize("kind", ["Rot2", "Rot3", "Pose2", "Pose3"])
def test_cost_is_that_of_gtsam_and_of_its_qcqp(kind: str) -> None:
    """Two oracles: graph.error, and GTSAM's own conversion of Frobenius graphs into a QCQP."""
    graph, values = frobenius_graph(kind)
    qcqp = Qcqp.from_graph(graph, values)
    Y = qcqp.lift(values)
    assert qcqp.cost(Y) == pytest.approx(graph.error(values), rel=1e-12)
    assert qcqp.violation(Y) < 1e-14
    g: Any = gtsam
    d = int(kind[-1])
    at = getattr(values, f"at{kind}")
    oracles = [(1, getattr(g, f"qcqpValue{kind}"))]
    if kind.startswith("Rot"):
        oracles.append((d, lambda rotation: rotation.matrix().T.copy()))
    for dimension, to_matrix in oracles:
        columns = problems.to_values((key, to_matrix(at(key))) for key in values.keys())
        cost, equality, _ = gtsam.QcqpProblem(graph, dimension).evaluate(columns)
        assert cost == pytest.approx(qcqp.cost(Y), rel=1e-12)
        assert equality == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("kind", ["Rot2", "Rot3", "Pose2", "Pose3"])
def test_cost_of_relaxed_points_is_invariant(kind: str) -> None:
    """Y U has the cost of Y for orthogonal U, and a common translation costs nothing."""
    graph, values = frobenius_graph(kind)
    qcqp = Qcqp.from_graph(graph, values)
    rng = np.random.default_rng(0)
    Y = qcqp.lift(values) + 0.1 * rng.normal(size=(qcqp.size, qcqp.rank))
    U, _ = np.linalg.qr(rng.normal(size=(3, 3))) if qcqp.rank == 3 else (np.array([[np.exp(0.3j)]]), None)
    assert qcqp.cost(Y @ U) == pytest.approx(qcqp.cost(Y), rel=1e-12)
    if kind.startswith("Pose"):
        moved = Y.copy()
        moved[qcqp.layout.translation] += 1.7
        assert qcqp.cost(moved) == pytest.approx(qcqp.cost(Y), rel=1e-9)


@pytest.mark.parametrize("d", [2, 3])
def test_lift_and_unlift(d: int) -> None:
    graph, values = problems.small_graph(d)
    prior: Any = gtsam.PriorFactorPose2 if d == 2 else gtsam.PriorFactorPose3
    at = values.atPose2 if d == 2 else values.atPose3
    graph.add(prior(3, at(3), problems.noise_model(d, 0.1, 0.1)))
    qcqp = Qcqp.from_graph(graph, values)
    Y = qcqp.lift(values)
    assert qcqp.unlift(Y).equals(values, 1e-12)
    turn = np.array([[np.exp(0.7j)]]) if d == 2 else gtsam.Rot3.Ypr(0.3, 0.2, 0.1).matrix()
    assert qcqp.unlift(Y @ turn).equals(values, 1e-10)
    with pytest.raises(ValueError, match="must have shape"):
        qcqp.layout.unlift(Y[:-1])


def test_layout_of_mixed_kinds() -> None:
    """Rotations own d rows, poses d + 1, points one, longer vectors one for each d numbers, the world d."""
    keys = np.array([1, 2, 3, 4], dtype=np.uint64)
    layout = Layout.build(keys, ("Pose3", "Rot3", "Vector", "Vector"), np.array([0, 0, 3, 7]), world=True)
    assert [layout.rows(k).tolist() for k in (1, 2, 3, 4)] == [[0, 1, 2, 3], [4, 5, 6], [7], [8, 9, 10]]
    assert layout.world == 11
    assert layout.size == 14
    assert layout.row_variable.tolist() == [0] * 4 + [1] * 3 + [2] + [3] * 3 + [4] * 3
    values = problems.to_values(
        [
            (1, gtsam.Pose3(gtsam.Rot3.Rz(1.0), np.arange(3.0))),
            (2, gtsam.Rot3.Rx(2.0)),
            (3, np.arange(3.0)),
            (4, np.arange(7.0)),
        ]
    )
    assert layout.unlift(layout.lift(values)).equals(values, 1e-12)
    plane = Layout.build(keys, ("Pose2", "Rot2", "Vector", "Vector"), np.array([0, 0, 2, 3]), world=False)
    assert [plane.rows(k).tolist() for k in (1, 2, 3, 4)] == [[0, 1], [2], [3], [4, 5]]
    flat = problems.to_values(
        [(1, gtsam.Pose2(1, 2, 3)), (2, gtsam.Rot2(2.0)), (3, np.arange(2.0)), (4, np.arange(3.0))]
    )
    assert plane.unlift(plane.lift(flat)).equals(flat, 1e-12)


@pytest.mark.parametrize("d", [2, 3])
def test_constraints_hold_at_lifted_values_and_pin_the_blocks(d: int) -> None:
    graph, values = problems.small_graph(d)
    qcqp = Qcqp.from_graph(graph, values)
    Z = qcqp.lift(values) @ qcqp.lift(values).conj().T
    assert len(qcqp.constraints) == len(qcqp.blocks) * (1 if d == 2 else 6)
    for constraint in qcqp.constraints:
        assert np.vdot(constraint.A.toarray(), Z).real == pytest.approx(constraint.b, abs=1e-12)
    assert {c.key for c in qcqp.constraints} == set(values.keys())
    scaled = qcqp.lift(values) * 1.1
    assert qcqp.violation(scaled) == pytest.approx(0.21)
    assert max(abs(np.vdot(c.A.toarray(), scaled @ scaled.conj().T).real - c.b) for c in qcqp.constraints) > 0.2


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("absolute", [False, True])
def test_centred_coordinates_are_the_same_problem(d: int, absolute: bool) -> None:
    """Equal costs at any relaxed point, zero translations at the estimate, and the way back."""
    graph, values = problems.small_graph(d, seed=9)
    if absolute:
        prior: Any = gtsam.PoseTranslationPrior2D if d == 2 else gtsam.PoseTranslationPrior3D
        hard: Any = gtsam.PriorFactorPose2 if d == 2 else gtsam.PriorFactorPose3
        at = values.atPose2 if d == 2 else values.atPose3
        graph.add(prior(2, 10 * np.ones(d), gtsam.noiseModel.Isotropic.Sigma(d, 2.0)))
        graph.add(hard(4, at(4), gtsam.noiseModel.Constrained.All(3 if d == 2 else 6)))
    reading = read(graph, values, "raise")
    terms = build_terms(reading)
    plain = Qcqp.assemble(terms, reading.layout, plain_coordinates(reading))
    centred = Qcqp.assemble(terms, reading.layout, centred_coordinates(reading, terms))
    start = centred.lift(values)
    moving = np.setdiff1d(np.arange(centred.size), (centred.blocks[:, None] + np.arange(centred.rank)).ravel())
    assert np.abs(start[moving]).max() < 1e-12
    rng = np.random.default_rng(0)
    for _ in range(5):
        Y = start + rng.normal(size=start.shape)
        raw = centred.coordinates.expand(Y)
        same = plain.coordinates.reduce(raw)
        assert plain.cost(same) == pytest.approx(centred.cost(Y), rel=1e-9)
        np.testing.assert_allclose(centred.coordinates.reduce(raw), Y, atol=1e-12)
    assert centred.unlift(start).equals(values if absolute else centred.unlift(start), 1e-9)
    expected = sum(float(t.value(reading.estimate, reading.layout.world).sum()) for t in terms)
    assert centred.cost(start) == pytest.approx(expected, rel=1e-9)


def test_matrices_are_hermitian_sparse_columns() -> None:
    for d, dtype in ((2, np.complex128), (3, np.float64)):
        graph, values = problems.small_graph(d)
        Q = Qcqp.from_graph(graph, values).Q
        assert Q.format == "csc"
        assert Q.dtype == dtype
        assert abs(Q - Q.conj().T).max() < 1e-9 * abs(Q).max()


@pytest.mark.parametrize("d", [2, 3])
def test_texts_are_short(d: int) -> None:
    graph, values = problems.ring(d, 40)
    for qcqp in (Qcqp.from_graph(graph, values), relax(graph, values, lift="vector").qcqp):
        assert qcqp.constraint_count == len(qcqp.constraints)
        text = str(qcqp)
        assert f"{qcqp.Q.shape[0]} x {qcqp.Q.shape[0]}" in text
        assert f"{qcqp.Q.nnz} entries" in text
        assert f"{len(qcqp.constraints)} constraints; constant {qcqp.constant:.6g}" in text
        assert repr(qcqp) == f"<{text}>"
        assert len(text) < 120
