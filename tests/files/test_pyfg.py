"""PyFG files: poses, points, ranges and priors, with names and covariances."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import gtsam
import numpy as np
import pytest

import gtsam_sdp
from gtsam_sdp.errors import DatasetError, SuspiciousInputWarning
from gtsam_sdp.files.datasets import read_dataset, read_pose_graph
from gtsam_sdp.files.pyfg_writing import rewrite_pyfg

POSES = ["VERTEX_SE2 0.0 A0 0 0 0", "VERTEX_SE2 1.0 A1 1 2 0.5", "VERTEX_XY L0 3 4", "VERTEX_XY L1 3 5"]
EDGE = "EDGE_SE2 0.0 A0 A1 1 2 0.5 0.04 0 0 0.04 0 0.01"
RANGE = "EDGE_RANGE 0.0 A1 L0 5.5 0.25"


def A(number: int) -> int:
    return gtsam.symbol("A", number)


def L(number: int) -> int:
    return gtsam.symbol("L", number)


def written(folder: Path, *lines: str) -> Path:
    path = folder / "graph.pyfg"
    path.write_text("\n".join(lines) + "\n")
    return path


def factors(graph: gtsam.NonlinearFactorGraph) -> list[Any]:
    return [graph.at(k) for k in range(graph.size())]


@pytest.mark.parametrize(("name", "poses", "points", "ranges"), [("goats_15", 473, 3, 786), ("goats_16", 201, 4, 572)])
def test_goats(name: str, poses: int, points: int, ranges: int) -> None:
    file = read_dataset(name)
    kinds = Counter(type(factor).__name__ for factor in factors(file.graph))
    assert kinds == {"RangeFactor2D": ranges, "BetweenFactorPose2": poses - 1}
    assert file.initial.size() == poses + points
    assert (file.start, file.has_values, file.dimension) == ("values of the file", True, 2)
    graph, _ = gtsam_sdp.load_pyfg(gtsam.findExampleDataFile(f"{name}.pyfg"))
    assert graph.equals(file.graph, 1e-12)


def test_every_line_of_the_plane(tmp_path: Path) -> None:
    lines = [
        *POSES,
        EDGE,
        "VERTEX_SE2:PRIOR 0.0 A0 0.1 0.2 0.3 0.04 0.01 0 0.09 0 0.01",
        "VERTEX_XY:PRIOR 0.0 L0 3 4 0.04 0 0.09",
        RANGE,
        "EDGE_RANGE 0.0 L0 A1 5.5 0.25",
        "EDGE_RANGE 0.0 A0 A1 2 0.25",
        "EDGE_RANGE 0.0 L0 L1 1 0.25",
        "EDGE_SE2_XY 0.0 A0 L1 3 5 0.01 0 0.01",
    ]
    graph, values = gtsam_sdp.load_pyfg(written(tmp_path, *lines))
    between, pose, point, first, second, poses, points, seen = factors(graph)
    assert isinstance(between, gtsam.BetweenFactorPose2)
    np.testing.assert_allclose(between.noiseModel().sigmas(), [0.2, 0.2, 0.1])
    assert isinstance(pose, gtsam.PriorFactorPose2)
    model: Any = pose.noiseModel()
    root = model.R()
    np.testing.assert_allclose(
        np.linalg.inv(root.T @ root), [[0.04, 0.01, 0], [0.01, 0.09, 0], [0, 0, 0.01]], atol=1e-15
    )
    assert isinstance(point, gtsam.PriorFactorPoint2)
    np.testing.assert_allclose(point.noiseModel().sigmas(), [0.2, 0.3])
    assert isinstance(first, gtsam.RangeFactor2D)
    assert first.equals(second, 1e-12)
    assert list(first.keys()) == [A(1), L(0)]
    assert first.noiseModel().sigmas() == [0.5]
    assert isinstance(poses, gtsam.RangeFactorPose2)
    assert isinstance(points, gtsam.RangeFactor2)
    assert isinstance(seen, gtsam.BearingRangeFactor2D)
    assert seen.error(values) < 1e-24
    np.testing.assert_allclose(seen.noiseModel().sigmas(), [0.1 / np.hypot(3, 5), 0.1])
    assert gtsam_sdp.certify(graph, gtsam.LevenbergMarquardtOptimizer(graph, values).optimize()).lower_bound >= 0


def test_every_line_of_space(tmp_path: Path) -> None:
    """Covariances have translations first in the file, rotations first in GTSAM."""
    triangle = np.diag([0.01, 0.02, 0.03, 0.04, 0.05, 0.06])[np.triu_indices(6)]
    covariance = " ".join(str(x) for x in triangle)
    lines = [
        "VERTEX_SE3:QUAT 0.0 A0 0 0 0 0 0 0 1",
        "VERTEX_SE3:QUAT 0.0 A1 1 2 3 0 0 0.6 0.8",
        "VERTEX_XYZ L0 4 5 6",
        "VERTEX_XYZ L1 4 5 7",
        f"EDGE_SE3:QUAT 0.0 A0 A1 1 2 3 0 0 1.2 1.6 {covariance}",
        f"VERTEX_SE3:QUAT:PRIOR 0.0 A0 0 0 0 0 0 0 1 {covariance}",
        "VERTEX_XYZ:PRIOR 0.0 L0 4 5 6 0.01 0 0 0.01 0 0.01",
        "EDGE_RANGE 0.0 A0 L0 8.8 0.25",
        "EDGE_RANGE 0.0 A0 A1 3.7 0.25",
        "EDGE_RANGE 0.0 L0 L1 1 0.25",
        "EDGE_SE3_XYZ 0.0 A0 L1 4 5 7 0.01 0 0 0.01 0 0.01",
    ]
    graph, values = gtsam_sdp.load_pyfg(written(tmp_path, *lines))
    names = [type(factor).__name__ for factor in factors(graph)]
    assert names == [
        "BetweenFactorPose3", "PriorFactorPose3", "PriorFactorPoint3", "RangeFactor3D", "RangeFactorPose3",
        "RangeFactor3", "BearingRangeFactor3D",
    ]  # fmt: skip
    expected = np.sqrt([0.04, 0.05, 0.06, 0.01, 0.02, 0.03])
    for factor in factors(graph)[:2]:
        np.testing.assert_allclose(factor.noiseModel().sigmas(), expected)
        assert factor.error(values) < 1e-24
    assert factors(graph)[6].error(values) < 1e-24


BAD = {
    "unknown tag": (["EDGE_FOO 0 A0 A1"], "line 6: unknown tag 'EDGE_FOO'. Supported in PyFG are VERTEX_SE2, "),
    "truncated": (["EDGE_RANGE 0.0 A1 L0 5.5"], "line 6: EDGE_RANGE needs 5 words, this line has 4. The file may"),
    "too many": ([RANGE + " 1"], "line 6: EDGE_RANGE needs 5 words, this line has 6"),
    "word": (["EDGE_RANGE 0.0 A1 L0 five 0.25"], "line 6: 'five' is not a number"),
    "time": (["EDGE_RANGE noon A1 L0 5.5 0.25"], "line 6: 'noon' is not a number"),
    "nan": (["EDGE_RANGE 0.0 A1 L0 nan 0.25"], "line 6: a number is not finite"),
    "name": (["EDGE_RANGE 0.0 A1 beacon 5.5 0.25"], "line 6: 'beacon' is not a name; names are a letter and a number"),
    "number": (["EDGE_RANGE 0.0 1 L0 5.5 0.25"], "line 6: '1' is not a name"),
    "unknown name": (["EDGE_RANGE 0.0 A1 L9 5.5 0.25"], "line 6: the file has no VERTEX line for L9"),
    "itself": (["EDGE_RANGE 0.0 A1 A1 5.5 0.25"], "line 6: EDGE_RANGE joins A1 with itself"),
    "negative range": (["EDGE_RANGE 0.0 A1 L0 -5.5 0.25"], "line 6: the range -5.5 is negative"),
    "no variance": (["EDGE_RANGE 0.0 A1 L0 5.5 0"], "line 6: the covariance matrix is not positive definite"),
    "negative variance": (["EDGE_RANGE 0.0 A1 L0 5.5 -1"], "line 6: the covariance matrix is not positive definite"),
    "indefinite": (["VERTEX_XY:PRIOR 0 L0 3 4 1 2 1"], "line 6: the covariance matrix is not positive definite"),
    "twice": (["VERTEX_XY L0 3 5"], "line 6: L0 was given in line 3 before"),
    "point as pose": (["EDGE_SE2 0.0 A0 L0 1 2 0.5 1 0 0 1 0 1"], "line 6: L0 is a point, where a pose is needed"),
    "pose as point": (["EDGE_SE2_XY 0.0 A0 A1 1 2 1 0 1"], "line 6: A1 is a pose, where a point is needed"),
    "3D": (["VERTEX_XYZ L7 3 4 5"], "line 6: VERTEX_XYZ is in 3D, the lines before are in 2D"),
    "distance 0": (["EDGE_SE2_XY 0.0 A0 L0 0 0 1 0 1"], "line 6: the landmark is measured at distance 0"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_lines_are_named(tmp_path: Path, name: str) -> None:
    lines, message = BAD[name]
    path = written(tmp_path, *POSES, EDGE, *lines)
    with pytest.raises(DatasetError, match=message) as caught:
        gtsam_sdp.load_pyfg(path)
    assert str(path) in str(caught.value)


def test_zero_quaternion(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="line 1: the quaternion is zero"):
        gtsam_sdp.load_pyfg(written(tmp_path, "VERTEX_SE3:QUAT 0.0 A0 0 0 0 0 0 0 0"))


@pytest.mark.parametrize(
    ("content", "message"),
    [("", "is empty"), ("# a remark\n", "holds no measurements"), ("\n".join(POSES), "holds no measurements")],
)
def test_files_without_a_graph(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "graph.pyfg"
    path.write_text(content)
    with pytest.raises(DatasetError, match=message):
        gtsam_sdp.load_pyfg(path)


def test_formats_are_told_by_content(tmp_path: Path) -> None:
    path = tmp_path / "graph.g2o"
    path.write_text("# remark\n" + "\n".join([*POSES[:3], EDGE, RANGE]) + "\n")
    assert read_pose_graph(path).graph.size() == 2
    with pytest.raises(DatasetError, match=r"is in PyFG format: read it with gtsam_sdp\.load_pyfg"):
        gtsam_sdp.load_g2o(path)
    with pytest.raises(DatasetError, match="needs a g2o file; this one is in PyFG format"):
        read_pose_graph(path, cost="chordal")


def test_vertices_may_come_last_and_unused_ones_are_left_out(tmp_path: Path) -> None:
    path = written(tmp_path, EDGE, RANGE, *POSES)
    with pytest.warns(SuspiciousInputWarning, match="1 vertices, the first is L1, have no edge; they are left out"):
        _, values = gtsam_sdp.load_pyfg(path)
    assert sorted(values.keys()) == [A(0), A(1), L(0)]


def test_a_written_file_has_the_new_values(tmp_path: Path) -> None:
    file = read_dataset("goats_16")
    result = gtsam.LevenbergMarquardtOptimizer(file.graph, file.initial).optimize()
    assert file.pyfg
    rewrite_pyfg(tmp_path / "copy.pyfg", file.pyfg, result)
    graph, values = gtsam_sdp.load_pyfg(tmp_path / "copy.pyfg")
    assert graph.equals(file.graph, 1e-12)
    assert values.equals(result, 1e-12)
    with pytest.raises(DatasetError, match="cannot be written"):
        rewrite_pyfg(tmp_path / "none" / "copy.pyfg", file.pyfg, result)
