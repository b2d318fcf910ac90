"""Landmarks in g2o and TORO files: the factors that GTSAM makes of them, or would; errors that say where."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gtsam
import numpy as np
import pytest

import gtsam_sdp
from gtsam_sdp.errors import DatasetError, SuspiciousInputWarning
from gtsam_sdp.files.datasets import read_dataset, read_pose_graph, write_g2o
from gtsam_sdp.files.writing import any_value

L = gtsam.symbol_shorthand.L
EDGE_2D = "EDGE_SE2 0 1 1 0 0.5 1 0 0 1 0 1"
SEEN_2D = "EDGE_SE2_XY 1 7 3 4 10 2 20"
OFFSET = "PARAMS_SE3OFFSET 0 0 0 0 0 0 0 1"
SEEN_3D = "EDGE_SE3_TRACKXYZ 1 7 0 3 4 5 10 0 0 20 1 30"
UNIT_3D = " ".join("1" if row == column else "0" for row in range(6) for column in range(row, 6))
EDGE_3D = f"EDGE_SE3:QUAT 0 1 1 2 3 0 0 0 1 {UNIT_3D}"


def written(folder: Path, *lines: str) -> Path:
    path = folder / "graph.g2o"
    path.write_text("\n".join(lines) + "\n")
    return path


def numbers(values: gtsam.Values, key: int) -> Any:
    value = any_value(values, key)
    return value if isinstance(value, np.ndarray) else value.matrix()


def factor(graph: gtsam.NonlinearFactorGraph, place: int) -> Any:
    return graph.at(place)


@pytest.mark.parametrize("name", ["known_landmark_localization_3", "known_landmark_localization_20"])
def test_points_in_space_are_the_factors_of_gtsam(name: str) -> None:
    file = read_dataset(name)
    own, values = gtsam.readG2o(gtsam.findExampleDataFile(f"{name}.g2o"), True)
    assert file.initial.equals(values, 1e-12)
    assert file.has_values
    by_keys = {tuple(own.at(k).keys()): factor(own, k) for k in range(own.size())}
    assert len(by_keys) == file.graph.size()
    for k in range(file.graph.size()):
        assert factor(file.graph, k).equals(by_keys[tuple(file.graph.at(k).keys())], 1e-6)
    assert file.graph.error(values) == pytest.approx(own.error(values), rel=1e-12)


@pytest.mark.parametrize("tag", ["EDGE_SE2_XY", "LANDMARK2"])
def test_points_in_the_plane_are_bearings_with_ranges(tmp_path: Path, tag: str) -> None:
    """The whitened error is that of the point, to first order: its Jacobian by bearing and range is in the noise."""
    lines = ["VERTEX_XY 7 2 5", "VERTEX_SE2 0 0 0 0", "VERTEX_SE2 1 1 1 0.5", EDGE_2D]
    file = read_pose_graph(written(tmp_path, *lines, SEEN_2D.replace("EDGE_SE2_XY", tag)))
    seen = factor(file.graph, 1)
    assert isinstance(seen, gtsam.BearingRangeFactor2D)
    assert list(seen.keys()) == [1, L(7)]
    assert seen.measured().range() == pytest.approx(5)
    np.testing.assert_array_equal(file.initial.atPoint2(L(7)), [2, 5])
    point, information = np.array([3.0, 4.0]), np.array([[10.0, 2], [2, 20]])
    for turn in np.linspace(0, 6, 7):
        moved = 1e-5 * np.array([np.cos(turn), np.sin(turn)])
        values = gtsam.Values()
        values.insert(1, gtsam.Pose2())
        values.insert(L(7), point + moved)
        assert seen.error(values) == pytest.approx(moved @ information @ moved / 2, rel=1e-4)


def test_isotropic_noise_stays_diagonal(tmp_path: Path) -> None:
    graph, _ = gtsam_sdp.load_g2o(written(tmp_path, EDGE_2D, "EDGE_SE2_XY 1 7 3 4 25 0 25"))
    np.testing.assert_allclose(factor(graph, 1).noiseModel().sigmas(), [0.2 / 5, 0.2])


@pytest.mark.parametrize("is_3d", [False, True])
def test_landmarks_without_a_value_are_where_they_are_first_seen(tmp_path: Path, is_3d: bool) -> None:
    lines = [EDGE_3D, SEEN_3D, OFFSET] if is_3d else [EDGE_2D, SEEN_2D]
    file = read_pose_graph(written(tmp_path, *lines))
    assert file.start == "odometry along a spanning tree (the file lacks 3 of 3 values)"
    assert file.graph.error(file.initial) < 1e-24
    vertices = [f"VERTEX_SE3:QUAT {k} {k} 0 0 0 0 0 1" if is_3d else f"VERTEX_SE2 {k} {k} 0 0" for k in (0, 1)]
    file = read_pose_graph(written(tmp_path, *vertices, *lines))
    assert file.start == "values of the file, landmarks where they are first seen (the file lacks 1 of 3 values)"
    assert factor(file.graph, 1).error(file.initial) < 1e-24


def test_a_file_of_sightings_alone(tmp_path: Path) -> None:
    """Two poses that share landmarks and no edge."""
    seen = [f"EDGE_SE2_XY {pose} {k} {3 + k} {pose - 2 * k} 1 0 1" for pose in (0, 1) for k in range(3)]
    graph, initial = gtsam_sdp.load_g2o(written(tmp_path, *seen))
    assert (graph.size(), initial.size()) == (6, 5)
    assert gtsam_sdp.solve(graph, initial).certificate


def test_a_pose_and_a_landmark_of_the_same_number(tmp_path: Path) -> None:
    graph, initial = gtsam_sdp.load_g2o(written(tmp_path, EDGE_2D, "EDGE_SE2_XY 0 1 3 4 1 0 1"))
    assert sorted(initial.keys()) == [0, 1, L(1)]
    assert graph.size() == 2


def test_landmarks_that_nobody_sees_are_left_out(tmp_path: Path) -> None:
    path = written(tmp_path, EDGE_2D, SEEN_2D, "VERTEX_XY 7 1 1", "VERTEX_XY 8 1 1")
    with pytest.warns(SuspiciousInputWarning, match="1 vertices, the first is l8, have no edge; they are left out"):
        _, initial = gtsam_sdp.load_g2o(path)
    assert not initial.exists(L(8))


BAD_2D = {
    "truncated": ("EDGE_SE2_XY 1 7 3 4 10 2", "line 2: EDGE_SE2_XY needs 7 numbers, this line has 6. The file may be"),
    "no noise": ("EDGE_SE2_XY 1 7 3 4", "line 2: EDGE_SE2_XY needs 7 numbers, this line has 4. It has no noise"),
    "word": ("EDGE_SE2_XY 1 7 3 four 10 2 20", "line 2: 'four' is not a number"),
    "nan": ("LANDMARK2 1 7 nan 4 10 2 20", "line 2: a number is not finite"),
    "on top of the pose": ("EDGE_SE2_XY 1 7 0 0 10 2 20", "line 2: the landmark is measured at distance 0, where"),
    "negative weight": ("EDGE_SE2_XY 1 7 3 4 -10 2 20", "line 2: the information matrix is not positive definite"),
    "indefinite": ("EDGE_SE2_XY 1 7 3 4 10 20 20", "line 2: the information matrix is not positive definite"),
    "singular": ("EDGE_SE2_XY 1 7 3 4 0 0 0", "line 2: the information matrix is not positive definite"),
    "large number": (f"EDGE_SE2_XY 1 {2**56} 3 4 1 0 1", r"line 2: the number of a landmark is not below 2\^56"),
    "point truncated": ("VERTEX_XY 7 1", "line 2: VERTEX_XY needs 3 numbers, this line has 2"),
    "3D": ("VERTEX_TRACKXYZ 7 1 2 3", r"mixes 2D \(line 1\) and 3D \(line 2\) elements"),
    "TORO": ("LANDMARK 1 7 3 4 1 0 1", r"mixes TORO \(line 2\) and g2o \(line 1\) elements"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_2D)
def test_bad_lines_in_the_plane_are_named(tmp_path: Path, name: str) -> None:
    line, message = BAD_2D[name]
    with pytest.raises(DatasetError, match=message):
        gtsam_sdp.load_g2o(written(tmp_path, EDGE_2D, line))


BAD_3D = {
    "offset missing": ([SEEN_3D], "line 2: PARAMS_SE3OFFSET 0 is not in the file; points have to be"),
    "offset turned": (["PARAMS_SE3OFFSET 0 0 0 0 0 0 1 0", SEEN_3D], r"line 3: PARAMS_SE3OFFSET 0 is not the identity"),
    "offset twice": ([OFFSET, OFFSET], "line 3: offset 0 was given in line 2 before"),
    "offset zero": (["PARAMS_SE3OFFSET 0 0 0 0 0 0 0 0"], "line 2: the quaternion is zero"),
    "indefinite": ([OFFSET, SEEN_3D.replace("30", "-1")], "line 3: the information matrix is not positive definite"),
    "distance 0": ([OFFSET, "EDGE_SE3_TRACKXYZ 1 7 0 0 0 0 1 0 0 1 0 1"], "line 3: the landmark is measured at dist"),
    "truncated": (["EDGE_SE3_TRACKXYZ 1 7 0 3 4 5 1 0 0"], "line 2: EDGE_SE3_TRACKXYZ needs 12 numbers, this line"),
    "point twice": (["VERTEX_TRACKXYZ 7 1 2 3"] * 2, "line 3: landmark 7 was given in line 2 before"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_3D)
def test_bad_lines_in_space_are_named(tmp_path: Path, name: str) -> None:
    lines, message = BAD_3D[name]
    with pytest.raises(DatasetError, match=message):
        gtsam_sdp.load_g2o(written(tmp_path, EDGE_3D, *lines))


def test_the_pose_goes_first(tmp_path: Path) -> None:
    path = written(tmp_path, EDGE_2D, "VERTEX_XY 7 1 1", "EDGE_SE2_XY 7 1 3 4 1 0 1")
    with pytest.raises(DatasetError, match="line 3: 7 is a landmark; the pose that sees it goes first"):
        gtsam_sdp.load_g2o(path)


def test_chordal_cost_is_for_poses(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="is a cost of poses only; this file has landmarks"):
        gtsam_sdp.load_g2o(written(tmp_path, EDGE_2D, SEEN_2D), cost="chordal")


TORO = ["ODOMETRY 0 1 1 0 0.5 1 0 0 1 0 1", "LANDMARK 1 7 3 4 0.4 0 0.4"]


@pytest.mark.parametrize(("noise", "is_unit"), [("0.4 0.1 0.4", False), ("0.4 0 0.9", True), ("0.4 0.1 0.9", True)])
def test_noise_of_landmarks_that_gtsam_replaces(tmp_path: Path, noise: str, is_unit: bool) -> None:
    """`gtsam.load2D` takes unit noise where a covariance has two variances, and no correlation at all."""
    with pytest.warns(SuspiciousInputWarning, match="of 1 LANDMARK lines .the first is line 2. are no multiples of"):
        graph, _ = gtsam_sdp.load_g2o(written(tmp_path, TORO[0], f"LANDMARK 1 7 3 4 {noise}"))
    assert factor(graph, 1).noiseModel().isUnit() == is_unit
    graph, _ = gtsam_sdp.load_g2o(written(tmp_path, *TORO))
    np.testing.assert_allclose(factor(graph, 1).noiseModel().sigmas(), np.sqrt([0.04, 0.4]))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("LANDMARK 1 7 3 4 -0.4 0 0.4", "line 2: the noise of LANDMARK has -0.4 on its diagonal"),
        ("BR 1 7 0.5 4 0 0.4", "line 2: the noise of BR has 0 on its diagonal"),
        ("LANDMARK 1 7 3 4 0.4 0", "line 2: LANDMARK needs 7 numbers, this line has 6"),
        ("LANDMARK2 1 7 3 4 1 0 1", r"mixes TORO \(line 1\) and g2o \(line 2\)"),
    ],
)
def test_bad_landmarks_of_toro_files(tmp_path: Path, line: str, message: str) -> None:
    with pytest.raises(DatasetError, match=message):
        gtsam_sdp.load_g2o(written(tmp_path, TORO[0], line))


@pytest.mark.parametrize(
    ("name", "sizes"), [("victoriaPark_reduced_1k", (1605, 1048)), ("cityTrees_reduced_1k", (1405, 1066))]
)
def test_shipped_files_with_landmarks_are_solved(name: str, sizes: tuple[int, int]) -> None:
    file = read_dataset(name)
    assert (file.graph.size(), file.initial.size()) == sizes
    assert gtsam_sdp.solve(file.graph).certificate.relative_gap < 1e-6


def test_victoria_park() -> None:
    """Poses and landmarks as `gtsam.load2D` reads them, from no start."""
    with pytest.warns(SuspiciousInputWarning, match="noise of EDGE2 and ODOMETRY lines as covariance matrices"):
        file = read_dataset("victoria_park")
    own, _ = gtsam.load2D(gtsam.findExampleDataFile("victoria_park.txt"))
    assert file.graph.equals(own, 1e-12)
    solution = gtsam_sdp.solve(file.graph)
    assert solution.cost == pytest.approx(2339.2195, rel=1e-6)
    assert solution.certificate.relative_gap < 1e-4


@pytest.mark.parametrize("name", ["example", "victoriaPark_reduced_1k", "known_landmark_localization_20"])
def test_written_landmarks_are_the_same_graph(tmp_path: Path, name: str) -> None:
    file = read_dataset(name)
    write_g2o(tmp_path / "copy.g2o", file.measured, file.initial)
    copy = read_pose_graph(tmp_path / "copy.g2o")
    assert copy.has_values
    for key in file.initial.keys():
        np.testing.assert_allclose(numbers(copy.initial, key), numbers(file.initial, key), atol=1e-12)
    assert copy.graph.error(copy.initial) == pytest.approx(file.graph.error(file.initial), rel=1e-9)


def test_a_range_of_zero_is_not_written(tmp_path: Path) -> None:
    file = read_pose_graph(written(tmp_path, TORO[0], "BR 1 7 0.5 0 0.1 0.4"))
    with pytest.raises(DatasetError, match="a g2o file has no line for a range of 0"):
        write_g2o(tmp_path / "copy.g2o", file.measured, file.initial)
