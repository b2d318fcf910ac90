"""Verified bounds: valid for any multipliers, tight at the optimum, for any number of components."""

from __future__ import annotations

from collections.abc import Sequence

import gtsam
import numpy as np
import pytest

from gtsam_sdp import certify
from gtsam_sdp.lift.build import build_terms
from gtsam_sdp.lift.coordinates import centred_coordinates
from gtsam_sdp.lift.qcqp import Qcqp
from gtsam_sdp.lowrank.descent import descend, retracted
from gtsam_sdp.lowrank.quadratic import Quadratic
from gtsam_sdp.proof.bound import _least_of_rotations, prove_bound, verify_bound
from gtsam_sdp.proof.multipliers import certificate_matrix, closed_form_multipliers
from gtsam_sdp.reading.graph import read
from tests import problems
from tests.proof.exact import slack_of


def lifted(graph: gtsam.NonlinearFactorGraph, values: gtsam.Values) -> tuple[Qcqp, np.ndarray]:
    reading = read(graph, values, "raise")
    terms = build_terms(reading)
    qcqp = Qcqp.assemble(terms, reading.layout, centred_coordinates(reading, terms))
    return qcqp, qcqp.coordinates.reduce(reading.estimate)


def disturbed(multipliers: Sequence[np.ndarray], scale: float, rng: np.random.Generator) -> list[np.ndarray]:
    """Multipliers of each group with Hermitian noise, relative to the largest."""
    largest = max(float(np.abs(own).max(initial=0.0)) for own in multipliers)
    noise = [rng.normal(size=own.shape) * scale * largest for own in multipliers]
    return [own + extra + extra.swapaxes(1, 2) for own, extra in zip(multipliers, noise, strict=True)]


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("scale", [0.0, 1e-8, 1e-4, 1e-2, 1.0])
def test_any_multipliers_give_a_valid_bound(d: int, scale: float) -> None:
    """Wrong multipliers and a wrong Y cost tightness, never validity."""
    graph, truth = problems.small_graph(d, sigma_rotation=0.1, seed=3)
    qcqp, Y = lifted(graph, problems.optimize(graph, truth))
    best = qcqp.cost(Y)
    rng = np.random.default_rng(0)
    for _ in range(5):
        multipliers = closed_form_multipliers(qcqp, Y)
        noisy = disturbed(multipliers, scale, rng)
        bound = verify_bound(qcqp, noisy, Y + scale * rng.normal(size=Y.shape))
        assert bound.value <= best * (1 + 1e-12)
        if scale == 0:
            assert bound.value == pytest.approx(best, rel=1e-6)
        if np.isfinite(bound.value):
            direct = certificate_matrix(qcqp, noisy).toarray()
            value = qcqp.constant + np.trace(noisy[0], axis1=1, axis2=2).real.sum()
            by_eigenvalue = value + min(np.linalg.eigvalsh(direct)[0], 0.0) * len(qcqp.blocks) * qcqp.rank
            assert bound.value >= min(by_eigenvalue - abs(value), best) - 1e-9


@pytest.mark.parametrize("held", ["priors", "poses", "nothing"])
@pytest.mark.parametrize("seed", range(3))
def test_any_multipliers_of_directions_give_a_valid_bound(held: str, seed: int) -> None:
    graph, truth = problems.direction_graph(seed, held)
    qcqp, Y = lifted(graph, problems.optimize(graph, truth))
    assert [group.count for group in qcqp.groups] == [3, 1]
    Y = descend(Quadratic(qcqp), Y, 1e-10).Y
    best = qcqp.cost(Y)
    rng = np.random.default_rng(seed)
    for scale in (0.0, 1e-8, 1e-4, 1e-2, 1.0):
        noisy = disturbed(closed_form_multipliers(qcqp, Y), scale, rng)
        bound = verify_bound(qcqp, noisy, Y + scale * rng.normal(size=Y.shape))
        assert bound.value <= best * (1 + 1e-9) + 1e-9
        if scale == 0 and held != "nothing":
            assert bound.value == pytest.approx(best, rel=1e-6)
        if np.isfinite(bound.value):
            S = certificate_matrix(qcqp, noisy).toarray()
            worth = sum(float(np.trace(own, axis1=1, axis2=2).sum()) for own in noisy)
            other = retracted(qcqp, rng.normal(size=Y.shape))
            assert qcqp.cost(other) == pytest.approx(float(np.sum(other * (S @ other))) + worth + qcqp.constant)


@pytest.mark.parametrize("d", [2, 3])
def test_small_complement_recovers_what_a_wrong_reference_multiplier_loses(d: int) -> None:
    """The multiplier of the reference frame is optimised exactly: it may be anything."""
    graph, truth = problems.small_graph(d, sigma_rotation=0.1, seed=4)
    qcqp, Y = lifted(graph, problems.optimize(graph, truth))
    multipliers = closed_form_multipliers(qcqp, Y)
    expected = verify_bound(qcqp, multipliers, Y)
    reference = np.flatnonzero(qcqp.blocks == qcqp.coordinates.position[qcqp.coordinates.references[0]])
    for change in (-3.0, 5.0):
        changed = multipliers[0].copy()
        changed[reference] += change * np.eye(qcqp.rank)
        assert verify_bound(qcqp, [changed], Y).value == pytest.approx(expected.value, rel=1e-9)


def test_components_add_up() -> None:
    rng = np.random.default_rng(0)
    whole, values, total = gtsam.NonlinearFactorGraph(), gtsam.Values(), 0.0
    for part in range(6):
        poses = problems.random_poses(3, 5, rng)
        edges = [*problems.ring_edges(5), (0, 2)]
        graph, truth = problems.pose_graph(poses, edges, 0.05, 0.1, rng, first_key=10 * part)
        best = problems.optimize(graph, truth)
        qcqp, Y = lifted(graph, best)
        total += verify_bound(qcqp, closed_form_multipliers(qcqp, Y), Y).value
        whole.push_back(graph)
        values.insert(best)
    qcqp, Y = lifted(whole, values)
    assert len(qcqp.coordinates.references) == 6
    bound = verify_bound(qcqp, closed_form_multipliers(qcqp, Y), Y)
    assert bound.value == pytest.approx(total, rel=1e-6)


@pytest.mark.parametrize(("base", "attempts"), [(1.9, 2), (2.1, None)])
def test_a_hopeless_matrix_costs_two_attempts(base: float, attempts: int | None) -> None:
    """Where the largest shift with a bound above 0 does not help, the smaller ones are left out."""
    slack = slack_of(np.diag([1.0, -1.0, -1.0]), base=base, norms=np.array([0.0, 1.0, 1.0]))
    bound = prove_bound(slack, np.array([[1.0], [0.0], [0.0]]))
    assert (bound.value > 0) == (attempts is None)
    assert attempts in (None, bound.attempts)


def test_quick_gives_up_where_a_shift_is_needed() -> None:
    graph, truth = problems.ring(2, 20, 0.1, 0.1, seed=1)
    wrong = problems.optimize(graph, problems.with_turns(truth, 20, 1))
    qcqp, Y = lifted(graph, wrong)
    multipliers = closed_form_multipliers(qcqp, Y)
    assert verify_bound(qcqp, multipliers, Y, quick=True).value == -np.inf
    patient = verify_bound(qcqp, multipliers, Y)
    assert patient.attempts > 1
    assert patient.value <= graph.error(problems.optimize(graph, truth))


@pytest.mark.parametrize("mirrored", [False, True])
def test_least_value_over_rotations(mirrored: bool) -> None:
    """The orthogonal Procrustes problem with determinant one, against many rotations and the one that attains it."""
    rng = np.random.default_rng(int(mirrored))
    for _ in range(20):
        G = rng.normal(size=(3, 3))
        G = G if (np.linalg.det(-G) < 0) == mirrored else -G
        value, error = _least_of_rotations(G)
        left, _, right = np.linalg.svd(-G)
        best = left @ np.diag([1.0, 1.0, np.linalg.det(left @ right)]) @ right
        assert value == pytest.approx(float(np.sum(G * best)), rel=1e-12)
        for _ in range(200):
            E = gtsam.Rot3.Expmap(rng.uniform(-3, 3, 3)).matrix()
            assert value - error <= np.sum(G * E)
    G = np.array([[1.0 + 2.0j]])
    assert _least_of_rotations(G)[0] == pytest.approx(-np.sqrt(5))


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("weak", [1e-10, 1e-6, 1.0])
def test_two_references_prove_the_same(d: int, weak: float) -> None:
    """The border of two frames and a position: valid for any multipliers, and tight where the world hangs on little."""
    graph, truth = problems.small_graph(d, sigma_rotation=0.05, seed=5)
    size = 3 if d == 2 else 6
    prior = getattr(gtsam, f"PriorFactorPose{d}")
    at = truth.atPose2 if d == 2 else truth.atPose3
    noise = gtsam.noiseModel.Isotropic.Precision(size, weak)
    for key in list(truth.keys())[:3]:
        graph.add(prior(key, at(key).retract(0.1 * np.ones(size)), noise))
    result = problems.optimize(graph, truth)
    reading = read(graph, result, "raise")
    terms = build_terms(reading)
    coordinates = centred_coordinates(reading, terms, inside=True)
    assert (coordinates.border >= 0).all()
    qcqp = Qcqp.assemble(terms, reading.layout, coordinates)
    Y = coordinates.reduce(reading.estimate)
    assert np.allclose(coordinates.expand(Y), reading.estimate, atol=1e-12)
    cost = graph.error(result)
    assert qcqp.cost(Y) == pytest.approx(cost, rel=1e-3)
    assert cost * (1 - 1e-3) <= verify_bound(qcqp, closed_form_multipliers(qcqp, Y), Y).value <= cost * (1 + 1e-9)
    rng = np.random.default_rng(0)
    for scale in (1e-8, 1e-4, 1e-1):
        multipliers = closed_form_multipliers(qcqp, Y)
        assert verify_bound(qcqp, disturbed(multipliers, scale, rng), Y).value <= cost * (1 + 1e-9)


@pytest.mark.parametrize("seed", range(6))
def test_a_mirrored_world_is_no_better(seed: int) -> None:
    """A flat trajectory with GPS fits a mirrored world as well: only the determinant of a rotation rules it out."""
    rng = np.random.default_rng(seed)
    poses = problems.ring_poses(3, 30, radius=10.0)
    graph, truth = problems.pose_graph(poses, problems.ring_edges(30), 0.001, 0.01, rng)
    for i in range(0, 30, 3):
        place = poses[i].translation() + rng.normal(size=3)
        graph.add(gtsam.GPSFactor(i, place, gtsam.noiseModel.Isotropic.Sigma(3, 1.0)))
    result = problems.optimize(graph, truth)
    assert certify(graph, result, method="multipliers")
