"""The vector lift: exact for noise along the axes of the world, as tight as the Gram lift elsewhere, never above."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gtsam
import numpy as np
import pytest

from gtsam_sdp import relax, solve
from gtsam_sdp.relaxation.vector import VectorLift, VectorQcqp, block_matrices
from gtsam_sdp.terms.terms import Terms
from gtsam_sdp.values.blocks import ROTATION
from gtsam_sdp.values.space import Space
from tests import problems
from tests.factors.cases import CASES, Case, random_rotation, to_values
from tests.factors.test_soundness import lift, others

IN_WORLD_AXES = {
    "FrobeniusBetweenFactor", "FrobeniusFactor", "FrobeniusPrior", "FrobeniusLeftBetweenFactor", "GPSFactor",
    "PoseTranslationPrior", "KnownLandmarkFactor2", "BetweenFactorPoint", "PriorFactorPoint", "BetweenFactorVector",
    "PriorFactorVector", "GPSFactorArm", "WnoaMotionFactorPoint",
    "ExtendedPriorFactorPoint", "ExtendedPriorFactorVector", "ExtendedPriorFactorConstantBias",
    "PriorFactorConstantBias", "BetweenFactorConstantBias",
}  # fmt: skip
"""Factors whose residual is linear in the entries of their variables."""


def is_in_world_axes(case: Case) -> bool:
    kinds = ("Rot2", "Rot3", "Pose2", "Pose3", "2D", "3D", "2", "3", "1", "6", "")
    return any(case.name == name + kind for name in IN_WORLD_AXES for kind in kinds)


def entrywise_value(terms: Terms, lifted: np.ndarray, world: int) -> np.ndarray:
    assert terms.entrywise is not None
    local = terms.local_rows(lifted, world)
    entries = np.stack([local.real, local.imag], axis=2) if np.iscomplexobj(local) else local
    x = entries.reshape(len(local), -1)
    return np.einsum("ki,kij,kj->k", x, terms.entrywise.form.value, x) + terms.entrywise.constant


@pytest.mark.parametrize(
    ("case", "noise"),
    [pytest.param(c, n, id=f"{c.name}-{n.__name__}") for c in CASES for n in c.noises if n not in c.exact_for],
)
def test_entrywise_form_is_the_cost(case: Case, noise: Callable[..., Any]) -> None:
    """Wherever the Gram lift only bounds a residual in world axes, the form on entries is the factor's cost."""
    rng = np.random.default_rng(3)
    for _ in range(5):
        factor, values = case.sample(noise, rng)
        reading, terms = lift(factor, values)
        assert len(terms) == 1
        if not is_in_world_axes(case):
            assert terms[0].entrywise is None
            return
        for other in [values, *others(case, values, rng, 6)]:
            lifted = reading.layout.lift(to_values(other))
            value = entrywise_value(terms[0], lifted, reading.layout.world)
            cost = gtsam.NonlinearFactor.error(factor, to_values(other))
            assert value == pytest.approx(cost, rel=1e-9, abs=1e-10)


@pytest.mark.parametrize("d", [2, 3])
def test_constraints_hold_for_rotations_only(d: int) -> None:
    rng = np.random.default_rng(0)
    matrices = block_matrices(ROTATION, Space(d), tighten=True)
    count = int(matrices.parameter.max()) + 1
    assert count == {2: 1, 3: 20}[d]

    def violation(R: np.ndarray) -> float:
        v = np.append(1.0, R.T.ravel() if d == 3 else R[:, 0])
        off = np.where(matrices.row == matrices.column, 1.0, 2.0)
        products = off * matrices.value * v[matrices.row] * v[matrices.column]
        return float(np.abs(np.bincount(matrices.parameter, products)).max())

    for _ in range(20):
        R = random_rotation(d, rng).matrix()
        assert violation(R) < 1e-12
        assert violation(1.1 * R) > 0.1
        if d == 3:
            assert violation(-R) > 0.1


def localisation(d: int, seed: int = 0) -> tuple[gtsam.NonlinearFactorGraph, gtsam.Values]:
    """A chain with positions measured in the world, with noise that differs along its axes."""
    rng = np.random.default_rng(seed)
    truth = problems.random_poses(d, 5, rng, scale=2.0)
    pose: Any = gtsam.FrobeniusBetweenFactorPose2 if d == 2 else gtsam.FrobeniusBetweenFactorPose3
    prior: Any = gtsam.PoseTranslationPrior2D if d == 2 else gtsam.PoseTranslationPrior3D
    fixed: Any = gtsam.FrobeniusPriorPose2 if d == 2 else gtsam.FrobeniusPriorPose3
    graph = gtsam.NonlinearFactorGraph()
    size = (d + 1) ** 2
    tangent = d * (d + 1) // 2
    for i in range(4):
        step = truth[i].between(truth[i + 1]).retract(0.2 * rng.normal(size=tangent))
        graph.add(pose(i, i + 1, step, gtsam.noiseModel.Isotropic.Sigma(size, 0.3)))
    sigmas = np.array([0.05, 2.0, 0.5])[:d]
    for i in range(5):
        measured = truth[i].translation() + sigmas * rng.normal(size=d)
        graph.add(prior(i, measured, gtsam.noiseModel.Diagonal.Sigmas(sigmas)))
    graph.add(fixed(2, truth[2].matrix(), gtsam.noiseModel.Diagonal.Sigmas(rng.uniform(0.2, 2.0, size))))
    return graph, problems.to_values(enumerate(truth))


@pytest.mark.parametrize("d", [2, 3])
def test_noise_along_the_axes_of_the_world(d: int) -> None:
    """The vector lift meets the optimum where the Gram lift may not; "auto" knows which one to take."""
    graph, truth = localisation(d)
    best = problems.optimize(graph, truth)
    cost = graph.error(best)
    gram = relax(graph, best).solve()
    relaxation = relax(graph, best, lift="auto")
    assert isinstance(relaxation.lift, VectorLift)
    vector = relaxation.solve()
    assert gram.lower_bound < {2: 1 - 1e-4, 3: 0.9}[d] * cost
    assert cost * (1 - 1e-5) <= vector.lower_bound <= cost * (1 + 1e-9)
    assert vector.is_tight
    assert graph.error(vector.recover()) == pytest.approx(cost, rel=1e-4)
    solution = solve(graph)
    assert solution.certificate
    assert solution.cost == pytest.approx(cost, rel=1e-6)


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("seed", range(3))
def test_costs_that_a_turn_of_the_world_changes(d: int, seed: int) -> None:
    """Relative factors with noise along the world's axes: no rotation may be held. The bound is below every minimum."""
    rng = np.random.default_rng(seed)
    poses = problems.random_poses(d, 4, rng, scale=2.0)
    factor: Any = gtsam.FrobeniusBetweenFactorPose2 if d == 2 else gtsam.FrobeniusBetweenFactorPose3
    graph = gtsam.NonlinearFactorGraph()
    for i, j in [*problems.ring_edges(4), (0, 2)]:
        step = poses[i].between(poses[j]).retract(0.6 * rng.normal(size=d * (d + 1) // 2))
        graph.add(factor(i, j, step, gtsam.noiseModel.Diagonal.Sigmas(10 ** rng.uniform(-1, 0.5, (d + 1) ** 2))))
    truth = problems.to_values(enumerate(poses))
    starts = [problems.random_start(truth, rng) for _ in range(30)]
    best = min(graph.error(problems.optimize(graph, start, 1e-9)) for start in starts)
    for tighten in (False, True):
        solution = relax(graph, truth, lift="vector", tighten=tighten).solve()
        assert solution.lower_bound <= best * (1 + 1e-9)
    assert solution.lower_bound >= 0.5 * best


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("absolute", [False, True])
def test_vector_qcqp(d: int, absolute: bool) -> None:
    """Cost, constraints, lift and its inverse, with GTSAM as the oracle."""
    graph, truth = localisation(d) if absolute else problems.split_ring(6)
    qcqp = relax(graph, truth, lift="vector").qcqp
    assert isinstance(qcqp, VectorQcqp)
    y = qcqp.lift(truth)
    assert y.shape == (relax(graph, truth, lift="vector").lift.size, 1)
    assert qcqp.rank == 1
    assert qcqp.violation(y) < 1e-12
    assert qcqp.cost(y) == pytest.approx(graph.error(truth), rel=1e-9)
    assert graph.error(qcqp.unlift(y)) == pytest.approx(graph.error(truth), rel=1e-9)
    assert qcqp.violation(1.2 * y) > 0.1


def test_published_ring() -> None:
    graph, truth = problems.split_ring(8)
    best = problems.optimize(graph, truth)
    solution = relax(graph, best, lift="vector").solve()
    assert solution.lower_bound == pytest.approx(graph.error(best), rel=1e-7)
    assert solution.lower_bound == pytest.approx(relax(graph, best).solve().lower_bound, rel=1e-7)
    assert solution.eigenvalue_ratios.min() > 1e5


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("lift_name", ["gram", "vector"])
def test_hard_values(d: int, lift_name: Any) -> None:
    """Hard values are constants of the relaxation, far from the origin too."""
    graph, truth = problems.small_graph(d, count=5, loops=3, sigma_rotation=0.05, seed=3)
    far = (
        gtsam.Pose2(300.0, -200.0, 1.0) if d == 2 else gtsam.Pose3(gtsam.Rot3.Rz(1.0), np.array([300.0, -200.0, 50.0]))
    )
    at: Any = truth.atPose2 if d == 2 else truth.atPose3
    moved = problems.to_values((k, far.compose(at(k))) for k in truth.keys())
    at = moved.atPose2 if d == 2 else moved.atPose3
    prior: Any = gtsam.PriorFactorPose2 if d == 2 else gtsam.PriorFactorPose3
    for key in (1, 3):
        graph.add(prior(key, at(key), gtsam.noiseModel.Constrained.All(3 * d - 3)))
    best = problems.optimize(graph, moved)
    solution = relax(graph, best, lift=lift_name).solve()
    assert solution.lower_bound == pytest.approx(graph.error(best), rel=1e-4)
    assert solution.lower_bound <= graph.error(best) * (1 + 1e-9)
    recovered = solution.recover()
    assert graph.error(recovered) == pytest.approx(graph.error(best), rel=1e-3)


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("lift_name", ["gram", "vector"])
@pytest.mark.parametrize("seed", range(2))
def test_bound_is_below_every_local_minimum(d: int, lift_name: Any, seed: int) -> None:
    graph, truth = problems.ring(d, 5, 1.0, 0.5, seed=seed)
    rng = np.random.default_rng(seed)
    costs = [graph.error(problems.optimize(graph, problems.random_start(truth, rng), 1e-9)) for _ in range(30)]
    for tighten in (False, True):
        solution = relax(graph, problems.optimize(graph, truth), lift=lift_name, tighten=tighten).solve()
        assert solution.lower_bound <= min(costs) * (1 + 1e-9)


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("lift_name", ["gram", "vector"])
def test_monolithic(d: int, lift_name: Any) -> None:
    """One clique of all variables gives the same bound as the decomposition."""
    graph, truth = problems.ring(d, 5, 0.3, 0.2, seed=1)
    best = problems.optimize(graph, truth)
    relaxation = relax(graph, best, lift=lift_name, tighten=False)
    whole = relaxation.monolithic()
    assert len(whole.tree.cliques) == 1
    assert whole.predicted_cost.flops > relaxation.predicted_cost.flops
    assert whole.solve().objective == pytest.approx(relaxation.solve().objective, rel=1e-5)


def test_a_single_pose_and_a_tree() -> None:
    graph = gtsam.NonlinearFactorGraph()
    graph.addPriorPose3(0, gtsam.Pose3(gtsam.Rot3.Rx(0.3), np.ones(3)), gtsam.noiseModel.Unit.Create(6))
    values = problems.to_values([(0, gtsam.Pose3(gtsam.Rot3.Rx(0.3), np.ones(3)))])
    assert abs(relax(graph, values, lift="vector").solve().lower_bound) < 1e-6
    rng = np.random.default_rng(0)
    chain, truth = problems.pose_graph(problems.random_poses(2, 3, rng), [(0, 1), (1, 2)], 0.1, 0.1, rng)
    best = problems.optimize(chain, truth)
    assert abs(relax(chain, best, lift="vector").solve().lower_bound) < 1e-5
