"""Verified bounds: valid for any multipliers, tight at the optimum, for any number of components."""

from __future__ import annotations

import gtsam
import numpy as np
import pytest

from gtsam_sdp.bound import closed_form_multipliers, verify_bound
from gtsam_sdp.coordinates import centred_coordinates
from gtsam_sdp.factors.build import build_terms
from gtsam_sdp.qcqp import Qcqp
from gtsam_sdp.reading.graph import read
from gtsam_sdp.slack import certificate_matrix
from tests import problems


def lifted(graph: gtsam.NonlinearFactorGraph, values: gtsam.Values) -> tuple[Qcqp, np.ndarray]:
    reading = read(graph, values, "raise")
    terms = build_terms(reading)
    qcqp = Qcqp.assemble(terms, reading.layout, centred_coordinates(reading, terms))
    return qcqp, qcqp.coordinates.reduce(reading.estimate)


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
        noise = rng.normal(size=multipliers.shape) * scale * np.abs(multipliers).max()
        noisy = multipliers + noise + noise.swapaxes(1, 2)
        bound = verify_bound(qcqp, noisy, Y + scale * rng.normal(size=Y.shape))
        assert bound.value <= best * (1 + 1e-12)
        if scale == 0:
            assert bound.value == pytest.approx(best, rel=1e-6)
        if np.isfinite(bound.value):
            direct = certificate_matrix(qcqp, noisy).toarray()
            value = qcqp.constant + np.trace(noisy, axis1=1, axis2=2).real.sum()
            by_eigenvalue = value + min(np.linalg.eigvalsh(direct)[0], 0.0) * len(qcqp.blocks) * qcqp.rank
            assert bound.value >= min(by_eigenvalue - abs(value), best) - 1e-9


@pytest.mark.parametrize("d", [2, 3])
def test_small_complement_recovers_what_a_wrong_reference_multiplier_loses(d: int) -> None:
    """The multiplier of the reference frame is optimised exactly: it may be anything."""
    graph, truth = problems.small_graph(d, sigma_rotation=0.1, seed=4)
    qcqp, Y = lifted(graph, problems.optimize(graph, truth))
    multipliers = closed_form_multipliers(qcqp, Y)
    expected = verify_bound(qcqp, multipliers, Y)
    reference = np.flatnonzero(qcqp.blocks == qcqp.coordinates.position[qcqp.coordinates.references[0]])
    for change in (-3.0, 5.0):
        changed = multipliers.copy()
        changed[reference] += change * np.eye(qcqp.rank)
        assert verify_bound(qcqp, changed, Y).value == pytest.approx(expected.value, rel=1e-9)


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


def test_quick_gives_up_where_a_shift_is_needed() -> None:
    graph, truth = problems.ring(2, 20, 0.1, 0.1, seed=1)
    wrong = problems.optimize(graph, problems.with_turns(truth, 20, 1))
    qcqp, Y = lifted(graph, wrong)
    multipliers = closed_form_multipliers(qcqp, Y)
    assert verify_bound(qcqp, multipliers, Y, quick=True).value == -np.inf
    patient = verify_bound(qcqp, multipliers, Y)
    assert patient.attempts > 1
    assert patient.value <= graph.error(problems.optimize(graph, truth))
