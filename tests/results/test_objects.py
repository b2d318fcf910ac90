"""Results are Python objects: they compare, hash, slice and pickle, and hold nothing of GTSAM but values."""

from __future__ import annotations

import gc
import gzip
import pickle
import sys
import weakref
from dataclasses import replace
from pathlib import Path
from typing import Any

import gtsam
import numpy as np
import pytest

from gtsam_sdp import (
    Certificate,
    DatasetError,
    InvalidGraphError,
    PandasNotInstalledError,
    certify,
    load_g2o,
    refine,
    relax,
    solve,
    write_g2o,
)
from tests import problems


def _certificate(seed: int = 3) -> Certificate:
    graph, start = problems.small_graph(2, count=9, loops=4, seed=seed)
    return certify(graph, problems.optimize(graph, start))


@pytest.mark.parametrize("seed", range(3))
def test_certificates_compare_and_hash(seed: int) -> None:
    certificate = _certificate(seed)
    copy = pickle.loads(pickle.dumps(certificate))
    assert certificate == copy
    assert len({certificate, copy}) == 1
    assert certificate != replace(certificate, cost=certificate.cost + 1)
    other = replace(certificate.terms, cost=certificate.terms.cost + 1.0)
    assert certificate != replace(certificate, terms=other)
    assert certificate.terms != other
    assert certificate != "certificate"
    unknown = replace(certificate, stationarity=float("nan"))
    assert unknown == pickle.loads(pickle.dumps(unknown))
    assert hash(unknown) == hash(pickle.loads(pickle.dumps(unknown)))


def test_solutions_compare_and_pickle() -> None:
    graph, start = problems.ring(2, 9)
    solution = refine(graph, start, method="chordal")
    copy = pickle.loads(pickle.dumps(solution))
    assert solution == copy
    assert len({solution, copy}) == 1
    assert str(solution) == str(copy)
    moved = gtsam.Values(solution.values)
    moved.update(0, moved.atPose2(0).compose(gtsam.Pose2(1e-9, 0.0, 0.0)))
    assert solution != replace(solution, values=moved)
    relaxation = relax(graph, start)
    assert relaxation == relax(graph, start)
    assert len({relaxation.tree, relax(graph, start).tree}) == 1
    assert relaxation.tree.cliques[0] != relaxation.tree.cliques[1]


def test_regions_compare_and_pickle() -> None:
    graph, start = problems.ring(2, 9)
    loss = gtsam.noiseModel.mEstimator.Huber.Create(1.0)
    robust = gtsam.NonlinearFactorGraph(graph)
    model = gtsam.noiseModel.Robust.Create(loss, gtsam.noiseModel.Unit.Create(3))
    robust.add(gtsam.BetweenFactorPose2(2, 6, start.atPose2(2).between(start.atPose2(6)), model))
    certificate = certify(robust, problems.optimize(robust, start))
    region = certificate.region
    assert region is not None
    assert region.keys(0) == (2, 6)
    assert pickle.loads(pickle.dumps(certificate)) == certificate


def test_terms_slice() -> None:
    terms = _certificate().terms
    assert [term.index for term in terms[:3]] == [term.index for term in list(terms)[:3]]
    assert terms[::2][1] == terms[2]
    assert [t.keys for t in terms[::-1]] == [t.keys for t in list(terms)[::-1]]
    assert terms[-1] == list(terms)[-1]
    assert len(terms[5:5]) == 0
    assert terms[:] == terms
    with pytest.raises(IndexError):
        terms[len(terms)]


def test_terms_as_a_frame() -> None:
    pytest.importorskip("pandas")
    terms = _certificate().terms
    frame = terms.to_frame()
    assert frame.index.tolist() == terms.index.tolist()
    assert frame["keys"].tolist() == [term.names for term in terms]
    assert frame["exactness"].tolist() == [term.exactness.name for term in terms]
    np.testing.assert_array_equal(frame["cost"], terms.cost)
    frame.loc[:, "cost"] = 0.0  # a frame of its own
    assert terms.cost.any()


def test_frames_need_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(PandasNotInstalledError, match="pip install pandas"):
        _certificate().terms.to_frame()


def test_certificates_of_custom_factors_pickle_and_keep_none_alive() -> None:
    class Error:
        def __call__(self, factor: Any, values: gtsam.Values, jacobians: Any) -> Any:
            if jacobians is not None:
                jacobians[0] = np.eye(2)
            return values.atPoint2(factor.keys()[0]) - np.ones(2)

    error = Error()
    seen = weakref.ref(error)
    graph = gtsam.NonlinearFactorGraph()
    graph.add(gtsam.CustomFactor(gtsam.noiseModel.Unit.Create(2), [4], error))
    certificate = certify(graph, problems.to_values([(4, np.ones(2))]))
    assert pickle.loads(pickle.dumps(certificate)) == certificate
    del graph, error
    gc.collect()
    assert seen() is None
    assert certificate.terms[0].keys == (4,)


def test_certificates_of_large_graphs_are_small() -> None:
    certificate = certify(*problems.manhattan_grid(2500))
    assert len(certificate.terms) > 2500
    assert len(pickle.dumps(certificate)) < 70 * len(certificate.terms) + 2000


@pytest.mark.parametrize("d", [2, 3])
def test_trajectories_as_tum_and_kitti(d: int, tmp_path: Path) -> None:
    graph, start = problems.ring(d, 9)
    solution = solve(graph, start)
    poses = [gtsam.Pose3(solution.values.atPose2(k)) if d == 2 else solution.values.atPose3(k) for k in range(9)]
    solution.to_tum(tmp_path / "path.tum")
    table = np.loadtxt(tmp_path / "path.tum")
    assert table.shape == (9, 8)
    np.testing.assert_array_equal(table[:, 0], np.arange(9))
    for pose, (_, x, y, z, qx, qy, qz, qw) in zip(poses, table.tolist(), strict=True):
        assert pose.equals(gtsam.Pose3(gtsam.Rot3(qw, qx, qy, qz), np.array([x, y, z])), 1e-12)
    solution.to_kitti(tmp_path / "path.kitti.gz")
    with gzip.open(tmp_path / "path.kitti.gz", "rt") as file:
        np.testing.assert_allclose(
            np.loadtxt(file).reshape(-1, 3, 4), [pose.matrix()[:3] for pose in poses], atol=1e-15
        )
    solution.to_tum(tmp_path / "timed.tum", keys=[3, 2], times={2: 1.5, 3: 0.25})
    timed = np.loadtxt(tmp_path / "timed.tum")
    np.testing.assert_array_equal(timed[:, 0], [0.25, 1.5])
    np.testing.assert_array_equal(timed[:, 1:], table[[3, 2], 1:])
    with pytest.raises(InvalidGraphError, match="no time for the pose 0"):
        solution.to_tum(tmp_path / "path.tum", times={})
    with pytest.raises(InvalidGraphError, match="hold no pose x7"):
        solution.to_kitti(tmp_path / "path.kitti", keys=[gtsam.symbol("x", 7)])
    with pytest.raises(DatasetError, match="cannot be written"):
        solution.to_tum(tmp_path / "missing" / "path.tum")


def test_trajectories_of_two_robots_are_two(tmp_path: Path) -> None:
    graph, start = problems.ring(2, 5)
    solution = solve(graph, start)
    keys = [gtsam.symbol(letter, 4) for letter in "ab"]
    two = replace(solution, values=problems.to_values((key, gtsam.Pose2()) for key in keys))
    with pytest.raises(InvalidGraphError, match=r"a4 and b4 have the same time, 4: .* keys of one robot"):
        two.to_tum(tmp_path / "two.tum")
    two.to_tum(tmp_path / "one.tum", keys=keys[:1])
    assert np.loadtxt(tmp_path / "one.tum").shape == (8,)
    none = replace(solution, values=problems.to_values([(0, np.zeros(2))]))
    with pytest.raises(InvalidGraphError, match="hold no pose"):
        none.to_kitti(tmp_path / "none")


def test_graphs_are_written_with_all_digits(tmp_path: Path) -> None:
    graph, start = problems.ring(3, 7)
    write_g2o(tmp_path / "ring.g2o", graph, start)
    again, values = load_g2o(tmp_path / "ring.g2o")
    assert again.error(values) == pytest.approx(graph.error(start), rel=1e-12)
