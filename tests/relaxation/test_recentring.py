"""Conic problems of accurate ranges in units of their noise: the same optimum, and a bound as good as the optimum."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import gtsam
import numpy as np
import pytest

from gtsam_sdp import relax
from gtsam_sdp.backends.clarabel_ import ClarabelBackend
from gtsam_sdp.linalg.svec import smat
from gtsam_sdp.relaxation.gram import GramLift
from gtsam_sdp.relaxation.hull import hull_matrix
from gtsam_sdp.relaxation.recentring import is_accurate, recentre
from tests import problems
from tests.relaxation.test_distances import beacons, smooth_trajectory
from tests.relaxation.test_rounding import Given


def directions_and_ranges(d: int, seed: int) -> tuple[gtsam.NonlinearFactorGraph, gtsam.Values]:
    """Points that poses see, with directions and ranges between them."""
    rng = np.random.default_rng(seed)
    graph, values = problems.direction_graph(seed, "poses")
    noise = gtsam.noiseModel.Isotropic.Sigma(1, 0.05)
    for i, j in combinations(range(5), 2):
        distance = float(np.linalg.norm(values.atVector(i) - values.atVector(j)) + 0.05 * rng.normal())
        graph.add(gtsam.RangeFactor3(i, j, distance, noise))
    return graph, values


PROBLEMS = {
    "trajectory": lambda d, seed: smooth_trajectory(d, 12, 0.1, seed),
    "beacons": lambda d, seed: beacons(d, 10, 3, 0.05, seed),
    "directions": directions_and_ranges,
}


@pytest.mark.parametrize(("kind", "d"), [(k, d) for k in PROBLEMS for d in (2, 3) if (k, d) != ("directions", 2)])
@pytest.mark.parametrize("seed", range(5))
def test_the_optimum_is_the_same(kind: str, d: int, seed: int) -> None:
    """Where there is noise enough for the problem as it is."""
    graph, truth = PROBLEMS[kind](d, seed)
    result = problems.optimize(graph, truth)
    relaxation, cost = relax(graph, result), graph.error(result)
    plain, lift = relaxation.solve(), relaxation.lift
    assert isinstance(lift, GramLift)
    recentred = recentre(relaxation.conic, lift)
    posed = recentred.with_margin(1e-8)
    found = ClarabelBackend().solve(posed, tolerance=1e-9, time_limit=None, verbose=False)
    assert found.objective / posed.scale + posed.offset == pytest.approx(plain.objective, abs=3e-4 * cost)
    y, z = recentred.restore(found.y, found.z)
    bound, _ = lift.verify(relaxation.conic, y, lift.recover(relaxation.conic, relaxation.conic.weights * z).Y)
    assert bound.value == pytest.approx(plain.lower_bound, abs=3e-3 * cost)


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("sigma", [1e-2, 1e-3, 1e-4])
def test_data_are_as_large_as_one(d: int, sigma: float) -> None:
    """Whatever the noise; and clique matrices annihilate the values, which are the frame's rows."""
    graph, truth = smooth_trajectory(d, 12, sigma, seed=0)
    relaxation = relax(graph, problems.optimize(graph, truth))
    assert isinstance(relaxation.lift, GramLift)
    recentred = recentre(relaxation.conic, relaxation.lift).problem
    assert np.abs(recentred.c).max() < 10
    assert np.abs(recentred.b).max() < 10
    assert np.abs(recentred.A.data).max() <= 1
    rows = []
    for k, side in enumerate(recentred.sizes[: len(recentred.tree.cliques)].tolist()):
        matrix = smat(recentred.c[recentred.starts[k] : recentred.starts[k + 1]], side)
        rows.append(np.abs(matrix[:d]).max())  # the world frame is the first rotation
    assert max(rows) < 1e-3


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("size", [1e-6, 1e-3, 0.1, 10.0])
def test_no_multiplier_is_trusted(d: int, size: float) -> None:
    """Wrong points of a recentred problem give a poor bound and not a wrong one."""
    graph, truth = beacons(d, 8, 2, 1e-3, seed=0)
    result = problems.optimize(graph, truth)
    relaxation, rng = relax(graph, result), np.random.default_rng(1)
    assert is_accurate(relaxation.conic)

    def disturbed(problem: Any, y: np.ndarray) -> np.ndarray:
        return y + size * rng.normal(size=y.shape)

    for _ in range(3):
        assert relaxation.solve(Given(disturbed)).bound.value <= graph.error(result) * (1 + 1e-9)


def test_hull_matrix_of_rotations() -> None:
    """I + K(E) = 4 q q^T."""
    rng = np.random.default_rng(0)
    rotations = np.array([pose.rotation().matrix() for pose in problems.random_poses(3, 20, rng)])
    eigenvalues = np.linalg.eigvalsh(hull_matrix(rotations))
    assert np.allclose(eigenvalues, [0.0, 0.0, 0.0, 4.0])
