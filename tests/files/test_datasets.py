"""Reading of pose-graph files: what is right gives the graph of the file, what is wrong an error that says where."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gtsam
import numpy as np
import pytest

import gtsam_sdp
from gtsam_sdp.errors import DatasetError, SuspiciousInputWarning
from gtsam_sdp.files.datasets import find_dataset, read_dataset, read_pose_graph, write_g2o
from gtsam_sdp.files.odometry import spanning_tree_values

UNIT_2D = "1 0 0 1 0 1"
UNIT_3D = " ".join("1" if row == column else "0" for row in range(6) for column in range(row, 6))
Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes lines, or raw text, to a g2o file."""

    def to_file(*lines: str, raw: bytes | None = None) -> Path:
        path = tmp_path / "graph.g2o"
        path.write_bytes(raw if raw is not None else ("\n".join(lines) + "\n").encode())
        return path

    return to_file


def edge_2d(i: int | str, j: int | str, pose: str = "1 0 0.5", noise: str = UNIT_2D) -> str:
    return f"EDGE_SE2 {i} {j} {pose} {noise}"


def edge_3d(i: int, j: int, quaternion: str = "0 0 0 1", noise: str = UNIT_3D, translation: str = "1 2 3") -> str:
    return f"EDGE_SE3:QUAT {i} {j} {translation} {quaternion} {noise}"


def upper(matrix: np.ndarray) -> str:
    return " ".join(repr(float(x)) for x in matrix[np.triu_indices(len(matrix))])


def factor(graph: gtsam.NonlinearFactorGraph, place: int) -> Any:
    return graph.at(place)


BAD_LINES = {
    "unknown tag": (["EDGE_FOO 0 1 1 0 0"], "line 2: unknown tag 'EDGE_FOO'. Supported are VERTEX_SE2"),
    "other landmarks": (["EDGE_SE2_XY_BEARING 0 1 0.5 10"], "line 2: EDGE_SE2_XY_BEARING lines are not supported"),
    "truncated": (["EDGE_SE2 1 2 1 0 0.5 1 0"], "line 2: EDGE_SE2 needs 11 numbers, this line has 7. The file may be"),
    "too many numbers": ([edge_2d(1, 2) + " 7"], "line 2: EDGE_SE2 needs 11 numbers, this line has 12: one too many"),
    "two lines in one": ([edge_2d(1, 2) + edge_2d(2, 3)], "this line has 22: 11 too many"),
    "no noise": (["EDGE_SE2 1 2 1 0 0.5"], "line 2: EDGE_SE2 needs 11 numbers, this line has 5. It has no noise"),
    "word": ([edge_2d(1, 2, "1 zero 0.5")], "line 2: 'zero' is not a number"),
    "underscore": ([edge_2d(1, 2, "1_0 0 0.5")], "line 2: '1_0' is not a number"),
    "fraction as vertex": ([edge_2d("1.5", 2)], "line 2: '1.5' is not a vertex number"),
    "nan": ([edge_2d(1, 2, "nan 0 0.5")], "line 2: a number is not finite"),
    "infinity": ([edge_2d(1, 2, noise="inf 0 0 1 0 1")], "line 2: a number is not finite"),
    "overflow": ([edge_2d(1, 2, "1e400 0 0")], "line 2: a number is not finite"),
    "negative id": ([edge_2d(-1, 2)], r"line 2: a vertex number is not between 0 and 2\^64 - 1"),
    "id beyond 64 bits": ([edge_2d(1, 2**64)], r"line 2: a vertex number is not between 0 and 2\^64 - 1"),
    "edge to itself": ([edge_2d(3, 3)], "line 2: the edge joins vertex 3 with itself"),
    "duplicate vertex": (
        ["VERTEX_SE2 0 0 0 0", "# a remark", "VERTEX_SE2 0 1 0 0"],
        "line 4: vertex 0 was given in line 2",
    ),
    "mixed dimensions": (["", edge_3d(1, 2)], r"mixes 2D \(line 1\) and 3D \(line 3\) elements"),
    "mixed formats": (["EDGE2 1 2 1 0 0 1 0 1 1 0 0"], r"mixes TORO \(line 2\) and g2o \(line 1\) elements"),
    "zero in 2D": ([edge_2d(1, 2, noise="1 0 0 0 0 1")], "line 2, which joins 1 and 2: .* has 0 on its diagonal"),
    "negative": ([edge_2d(1, 2, noise="1 0 0 1 0 -2")], "line 2, which joins 1 and 2: .* has -2 on its diagonal"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_LINES)
def test_bad_lines_are_named(write: Write, name: str) -> None:
    lines, message = BAD_LINES[name]
    path = write(edge_2d(0, 1), *lines)
    with pytest.raises(DatasetError, match=message) as caught:
        gtsam_sdp.load_g2o(path)
    assert str(path) in str(caught.value)


def test_the_last_line_cut_short_is_named(write: Write) -> None:
    text = "\n".join([edge_3d(0, 1), edge_3d(1, 2)])
    with pytest.raises(DatasetError, match=r"line 2: EDGE_SE3:QUAT needs 30 numbers.*truncated"):
        gtsam_sdp.load_g2o(write(raw=text[: len(text) * 4 // 5].encode()))


def test_zero_quaternion(write: Write) -> None:
    with pytest.raises(DatasetError, match="line 2: the quaternion is zero"):
        gtsam_sdp.load_g2o(write(edge_3d(0, 1), edge_3d(1, 2, "0 0 0 0")))
    with pytest.raises(DatasetError, match="line 2: the quaternion is zero"):
        gtsam_sdp.load_g2o(write(edge_3d(0, 1), "VERTEX_SE3:QUAT 0 0 0 0 0 0 0 0"))


def test_missing_file_and_folder(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"There is no file .*none\.g2o"):
        gtsam_sdp.load_g2o(tmp_path / "none.g2o")
    with pytest.raises(DatasetError, match="is a folder; give a g2o file in it"):
        gtsam_sdp.load_g2o(tmp_path)
    for name in ("", " "):
        with pytest.raises(DatasetError, match="The path is empty"):
            find_dataset(name)
    with pytest.raises(DatasetError, match="There is no file nosuchthing, and GTSAM ships no data set of that name"):
        find_dataset("nosuchthing")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b" \r\n\n", "is empty"),
        (b"# only a remark\n", "holds no edges"),
        (b"VERTEX_SE2 0 0 0 0\n", "holds no edges: there is nothing to optimise"),
        (bytes(range(256)) * 4, "is not a text file: byte 128 belongs to no text"),
        (b"\x1f\x8b\x08\x00\xff\xfe", "is damaged gzip data .* or give the unpacked file"),
        (b"PK\x03\x04\xff", "is not a text file: byte 4 .* gzip is the only compression that is read"),
        (b"EDGE_SE2 0 1\0", "is not a text file: byte 12"),
        (b"# log\nt,x,y\n0,1,2\n", "is not a g2o file: line 2 begins with 't,x,y', where g2o has a tag such as VERTEX"),
        (b"0 1 2\n", "is not a g2o file: line 1 begins with '0'"),
    ],
    ids=["empty", "blank", "remark", "vertices only", "binary", "gzip", "zip", "zero byte", "comma", "numbers"],
)
def test_files_without_a_graph(write: Write, content: bytes, message: str) -> None:
    with pytest.raises(DatasetError, match=message):
        gtsam_sdp.load_g2o(write(raw=content))


def test_unknown_cost(write: Write) -> None:
    with pytest.raises(ValueError, match='cost must be "geodesic" or "chordal", not \'other\''):
        gtsam_sdp.load_g2o(write(edge_2d(0, 1)), cost="other")  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("ids", [(2**63, 2**64 - 1), (0, 2**63 + 1), (7, 1000000007), (5, 3)])
def test_any_64_bit_vertex_numbers(write: Write, ids: tuple[int, int]) -> None:
    i, j = ids
    graph, initial = gtsam_sdp.load_g2o(write(edge_2d(i, j), edge_2d(j, i, "1 0 -0.4")))
    assert [list(graph.at(k).keys()) for k in range(2)] == [[i, j], [j, i]]
    assert sorted(initial.keys()) == sorted(ids)
    result = gtsam.LevenbergMarquardtOptimizer(graph, initial).optimize()
    assert gtsam_sdp.certify(graph, result)


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
@pytest.mark.parametrize("is_3d", [False, True])
def test_line_ends_remarks_blank_and_fix_lines_change_nothing(write: Write, ending: str, is_3d: bool) -> None:
    edge = edge_3d if is_3d else edge_2d
    decorated = ["# by Zoë", "#", "FIX 0", edge(0, 1), "", "   ", "\t" + edge(1, 2) + "  ", "# end", edge(1, 2)]
    path = write(raw=(ending.join(decorated) + ending * 3).encode())
    graph, initial = gtsam_sdp.load_g2o(path)
    plain, _ = gtsam_sdp.load_g2o(write(edge(0, 1), edge(1, 2), edge(1, 2)))
    assert graph.equals(plain, 0.0)
    assert initial.size() == 3


def test_remarks_after_numbers_and_with_slashes(write: Write) -> None:
    decorated = ["// by Zoë", edge_2d(0, 1) + " # odometry", edge_2d(1, 2) + "  // loop", "  // end"]
    graph, _ = gtsam_sdp.load_g2o(write(*decorated))
    plain, _ = gtsam_sdp.load_g2o(write(edge_2d(0, 1), edge_2d(1, 2)))
    assert graph.equals(plain, 0.0)


def test_last_line_without_an_end(write: Write) -> None:
    graph, _ = gtsam_sdp.load_g2o(write(raw=(edge_2d(0, 1) + "\n" + edge_2d(1, 2)).encode()))
    assert graph.size() == 2


def test_several_fixed_vertices_are_a_warning(write: Write) -> None:
    path = write("FIX 0", "FIX 1 2", edge_2d(0, 1), edge_2d(1, 2))
    with pytest.warns(SuspiciousInputWarning, match="FIX lines hold 3 vertices; they are left out"):
        gtsam_sdp.load_g2o(path)


def test_a_fixed_vertex_that_does_not_exist_is_a_warning(write: Write) -> None:
    for word in ("99", "x"):
        path = write(f"FIX 0 {word}", edge_2d(0, 1))
        with pytest.warns(SuspiciousInputWarning) as caught:
            assert read_pose_graph(path).fixed == (0,)
        assert f"FIX {word} names a vertex that no edge of the file has" in str(caught[-1].message)


def test_quaternions_need_no_unit_length(write: Write) -> None:
    long, _ = gtsam_sdp.load_g2o(write(edge_3d(0, 1, "0 0 3 4")))
    unit, _ = gtsam_sdp.load_g2o(write(edge_3d(0, 1, "0 0 0.6 0.8")))
    rotation = factor(long, 0).measured().rotation().matrix()
    np.testing.assert_allclose(rotation, factor(unit, 0).measured().rotation().matrix(), atol=1e-15)
    np.testing.assert_allclose(rotation @ rotation.T, np.eye(3), atol=1e-15)


def test_information_has_translations_first_in_the_file(write: Write) -> None:
    root = np.random.default_rng(1).normal(size=(6, 6))
    information = root @ root.T + np.eye(6)
    graph, _ = gtsam_sdp.load_g2o(write(edge_3d(0, 1, noise=upper(information))))
    model = factor(graph, 0).noiseModel()
    expected = np.roll(information, 3, axis=(0, 1))
    np.testing.assert_allclose(model.R().T @ model.R(), expected, rtol=1e-12, atol=1e-12)


def test_file_values_are_used(write: Write) -> None:
    file = read_pose_graph(write("VERTEX_SE2 4 1 2 3", "VERTEX_SE2 9 4 5 -1", edge_2d(4, 9)))
    assert (file.start, file.has_values, file.dimension) == ("values of the file", True, 2)
    assert file.initial.atPose2(9).equals(gtsam.Pose2(4, 5, -1), 0.0)


def test_vertices_without_an_edge_are_left_out(write: Write) -> None:
    path = write(*(f"VERTEX_SE2 {i} 0 0 0" for i in (0, 1, 5, 6)), edge_2d(0, 1))
    with pytest.warns(SuspiciousInputWarning, match="2 vertices, the first is 5, have no edge; they are left out"):
        graph, initial = gtsam_sdp.load_g2o(path)
    assert list(initial.keys()) == [0, 1]
    assert gtsam_sdp.certify(graph, gtsam.LevenbergMarquardtOptimizer(graph, initial).optimize())


def test_missing_vertices_follow_from_the_measurements(write: Write) -> None:
    """A tree (edges in both directions): the start reproduces every measurement."""
    edges = [edge_3d(0, 1, "0 0 0.6 0.8"), edge_3d(2, 1, "0.6 0 0 0.8"), edge_3d(2, 7), edge_3d(0, 9, "0 1 0 0")]
    file = read_pose_graph(write(*edges))
    assert file.start == "odometry along a spanning tree (the file lacks 5 of 5 values)"
    assert not file.has_values
    assert file.graph.error(file.initial) < 1e-24


def test_vertices_that_only_some_edges_have_are_a_warning(write: Write) -> None:
    """It may be a wrong number; the values of the others are kept, the missing ones continue from them."""
    lines = ["VERTEX_SE2 0 9 9 0", "VERTEX_SE2 1 7 7 0", edge_2d(0, 1), edge_2d(44, 1), edge_2d(50, 44), edge_2d(7, 8)]
    path = write(*lines)
    with pytest.warns(SuspiciousInputWarning, match=r"line 4: vertex 44 has no VERTEX line, .*\(4 such\)"):
        file = read_pose_graph(path)
    assert file.start == "values of the file, the others where edges from these lead (the file lacks 4 of 6 values)"
    assert not file.has_values
    assert file.initial.atPose2(1).equals(gtsam.Pose2(7, 7, 0), 0.0)
    errors = [factor(file.graph, k).error(file.initial) for k in range(4)]
    assert errors[0] > 1
    assert max(errors[1:]) < 1e-24


def test_landmarks_that_only_some_sightings_have_are_a_warning(write: Write) -> None:
    sightings = [f"EDGE_SE2_XY 0 {landmark} 1 1 1 0 1" for landmark in (5, 66)]
    path = write("VERTEX_SE2 0 0 0 0", "VERTEX_SE2 1 1 0 0", "VERTEX_XY 5 1 1", edge_2d(0, 1), *sightings)
    with pytest.warns(SuspiciousInputWarning, match=r"line 6: vertex l66 has no VERTEX line"):
        file = read_pose_graph(path)
    np.testing.assert_allclose(file.initial.atPoint2(gtsam.symbol("l", 66)), [1, 1])


def test_spanning_tree_prefers_odometry(write: Write) -> None:
    """In a ring with one bad closure, all edges between successive vertices are kept."""
    file = read_pose_graph(write(edge_2d(0, 3, "50 50 1"), *(edge_2d(i, i + 1) for i in range(3))))
    errors = [factor(file.graph, k).error(file.initial) for k in range(4)]
    assert errors[0] > 1
    assert max(errors[1:]) < 1e-24


def test_every_component_has_a_start(write: Write) -> None:
    file = read_pose_graph(write(edge_2d(0, 1), edge_2d(1, 2), edge_2d(10, 11), edge_2d(21, 20)))
    assert sorted(file.initial.keys()) == [0, 1, 2, 10, 11, 20, 21]
    assert file.graph.error(file.initial) < 1e-24
    for root in (0, 10, 20):
        assert file.initial.atPose2(root).equals(gtsam.Pose2(), 0.0)
    assert gtsam_sdp.certify(file.graph, file.initial)


def test_spanning_tree_of_repeated_and_reversed_edges() -> None:
    step = gtsam.Pose2(1, 2, 0.3)
    values = spanning_tree_values([(2**64 - 1, 1), (1, 2**64 - 1)], [step, step])
    assert values.atPose2(1).equals(gtsam.Pose2(), 0.0)
    assert values.atPose2(2**64 - 1).equals(step.inverse(), 1e-15)


def symmetric(size: int, coupling: float) -> np.ndarray:
    matrix = np.eye(size)
    matrix[0, 1] = matrix[1, 0] = coupling
    return matrix


@pytest.mark.parametrize(("coupling", "word"), [(2.0, "indefinite"), (1.0, "singular")])
@pytest.mark.parametrize("is_3d", [False, True])
def test_information_that_gtsam_changes(write: Write, coupling: float, word: str, is_3d: bool) -> None:
    """GTSAM's own cost is what is kept and certified."""
    edge: Any = edge_3d if is_3d else edge_2d
    noise = upper(symmetric(6 if is_3d else 3, coupling))
    closure = edge_3d(0, 2, translation="2.1 4 6.1") if is_3d else edge_2d(0, 2, "1.9 0.4 1.1")
    path = write(edge(0, 1), edge(1, 2, noise=noise), closure)
    message = rf"matrices of 1 edges are {word} .the first in line 2, which joins 1 and 2"
    with pytest.warns(SuspiciousInputWarning, match=message):
        graph, initial = gtsam_sdp.load_g2o(path)
    own, _ = gtsam.readG2o(str(path), is_3d)
    result = gtsam.LevenbergMarquardtOptimizer(graph, initial).optimize()
    certificate = gtsam_sdp.certify(graph, result)
    assert certificate.cost == own.error(result)
    assert certificate.cost > 1e-4
    assert certificate.relative_gap < 0.01


def test_zero_weight_in_3d_is_a_warning(write: Write) -> None:
    path = write(edge_3d(0, 1, noise=upper(np.diag([1.0, 1, 1, 1, 1, 0]))))
    with pytest.warns(SuspiciousInputWarning, match="are singular .*They leave a direction free"):
        gtsam_sdp.load_g2o(path)


def chordal_cost(rotations: Any, translations: Any, edges: Any) -> float:
    """sum kappa |R_j - R_i R~|_F^2 + tau |t_j - t_i - R_i t~|^2."""
    total = 0.0
    for i, j, R, t, kappa, tau in edges:
        total += kappa * np.sum((rotations[j] - rotations[i] @ R) ** 2)
        total += tau * np.sum((translations[j] - translations[i] - rotations[i] @ t) ** 2)
    return total


def words(*numbers: float) -> str:
    return " ".join(repr(float(x)) for x in numbers)


def random_edge(random: np.random.Generator, dimension: int, i: int, j: int) -> tuple[str, tuple[Any, ...]]:
    """A line of a file, and (i, j, R, t, kappa, tau) computed from its numbers."""
    size = 3 if dimension == 2 else 6
    root = random.normal(size=(size, size))
    information = root @ root.T + np.eye(size)
    t = random.normal(size=dimension)
    tau = dimension / np.trace(np.linalg.inv(information[:dimension, :dimension]))
    if dimension == 2:
        angle = random.uniform(-3, 3)
        line = f"EDGE_SE2 {i} {j} {words(*t, angle)} {upper(information)}"
        return line, (i, j, gtsam.Rot2(angle).matrix(), t, information[2, 2], tau)
    rotation = gtsam.Rot3.Expmap(random.normal(size=3))
    q = rotation.toQuaternion()
    kappa = 3 / (2 * np.trace(np.linalg.inv(information[3:, 3:])))
    line = f"EDGE_SE3:QUAT {i} {j} {words(*t, q.x(), q.y(), q.z(), q.w())} {upper(information)}"
    return line, (i, j, rotation.matrix(), t, kappa, tau)


@pytest.mark.parametrize("dimension", [2, 3])
def test_chordal_cost_is_that_of_se_sync(write: Write, dimension: int) -> None:
    random = np.random.default_rng(dimension)
    lines, edges = zip(*(random_edge(random, dimension, *ids) for ids in [(0, 1), (1, 2), (2, 0), (2, 3)]), strict=True)
    file = read_pose_graph(write(*lines), cost="chordal")
    values = gtsam.Values()
    poses: list[Any] = []
    for key in range(4):
        tangent = random.normal(size=3 if dimension == 2 else 6)
        poses.append(gtsam.Pose2.Expmap(tangent) if dimension == 2 else gtsam.Pose3.Expmap(tangent))
        values.insert(key, poses[-1])
    rotations = [pose.rotation().matrix() for pose in poses]
    translations = [np.asarray(pose.translation()) for pose in poses]
    assert file.graph.error(values) == pytest.approx(chordal_cost(rotations, translations, edges), rel=1e-12)
    assert isinstance(factor(file.measured, 0), gtsam.BetweenFactorPose2 | gtsam.BetweenFactorPose3)


def test_chordal_weights_must_be_positive(write: Write) -> None:
    path = write(edge_3d(0, 1), edge_3d(1, 2, noise=upper(np.diag([1.0, 1, 1, 1, 1, 0]))))
    with (
        pytest.warns(SuspiciousInputWarning, match="singular"),
        pytest.raises(DatasetError, match="line 2, which joins 1 and 2: the chordal weights are not positive; use"),
    ):
        gtsam_sdp.load_g2o(path, cost="chordal")


SHIPPED = {
    "pose2example": (2, 11, 12),
    "pose3example": (3, 5, 6),
    "pose3example-grid": (3, 27, 44),
    "pose3example-offdiagonal": (3, 2, 1),
    "noisyToyGraph": (2, 4, 5),
    "toyExample": (3, 5, 6),
    "Klaus3": (3, 3, 3),
    "w100_30": (2, 30, 59),
}


@pytest.mark.parametrize("name", SHIPPED)
def test_data_sets_that_ship_with_gtsam(name: str) -> None:
    file = read_dataset(name)
    assert (file.dimension, file.initial.size(), file.graph.size()) == SHIPPED[name]
    assert file.has_values
    result = gtsam.LevenbergMarquardtOptimizer(file.graph, file.initial).optimize()
    assert gtsam_sdp.certify(file.graph, result).lower_bound >= 0


def test_toro_files_are_read_as_gtsam_reads_them() -> None:
    with pytest.warns(SuspiciousInputWarning, match="40 EQUIV lines are left out, as GTSAM does"):
        file = read_dataset("w100")
    graph, _ = gtsam.load2D(gtsam.findExampleDataFile("w100.graph"))
    assert file.graph.equals(graph, 0.0)
    assert file.start == "values of the file"


def test_toro_noise_that_gtsam_takes_differently() -> None:
    with pytest.warns(SuspiciousInputWarning, match="GTSAM takes the noise of EDGE3 lines .* with rotations first"):
        file = read_dataset("sphere2500")
    assert (file.initial.size(), file.graph.size()) == (2500, 4949)
    assert file.start == "odometry along a spanning tree (the file lacks 2500 of 2500 values)"
    with pytest.warns(SuspiciousInputWarning, match="noise of EDGE2 and ODOMETRY lines as covariance matrices"):
        file = read_dataset("w20000")
    assert not file.has_values


def test_toro_files_with_landmarks() -> None:
    file = read_dataset("example")
    assert (file.initial.size(), file.graph.size()) == (119, 516)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("sphere_smallnoise", r"line 2201: EDGE3 needs 29 numbers, this line has 8\. It has no noise"),
        ("example_with_vertices", "holds no edges: there is nothing to optimise"),
        ("edge_se3_trackxyz_nonidentity_offset", r"line 4: PARAMS_SE3OFFSET 1 is not the identity .line 3."),
        ("edge_se3_trackxyz_zero_range", "line 4: the landmark is measured at distance 0"),
        ("5pointExample1", "is not a g2o file: line 1 begins with '2'"),
    ],
)
def test_shipped_files_that_hold_something_else(name: str, message: str) -> None:
    with pytest.raises(DatasetError, match=message):
        read_dataset(name)


def test_chordal_cost_of_a_toro_file() -> None:
    with pytest.raises(DatasetError, match="needs a g2o file; this one is in TORO format"):
        read_dataset("w100_30", cost="chordal")


@pytest.mark.parametrize("name", ["pose3example-grid", "pose2example", "pose3example-offdiagonal"])
def test_written_files_keep_all_digits(tmp_path: Path, name: str) -> None:
    file = read_dataset(name)
    result = gtsam.LevenbergMarquardtOptimizer(file.graph, file.initial).optimize()
    write_g2o(tmp_path / "copy.g2o", file.measured, result)
    copy = read_pose_graph(tmp_path / "copy.g2o")
    assert copy.has_values
    assert copy.initial.equals(result, 1e-13)
    assert copy.graph.error(copy.initial) == pytest.approx(file.graph.error(result), rel=1e-9, abs=1e-25)


def test_what_cannot_be_written(tmp_path: Path) -> None:
    file = read_dataset("goats_15")
    with pytest.raises(DatasetError, match=r"factor 472 .RangeFactor2D on A1, L0. has no line in g2o .*to a \.pyfg"):
        write_g2o(tmp_path / "copy.g2o", file.measured, file.initial)
    file = read_dataset("pose2example")
    with pytest.raises(DatasetError, match=re.escape("cannot be written")):
        write_g2o(tmp_path / "none" / "copy.g2o", file.measured, file.initial)


@pytest.mark.parametrize("path", [5, None, b"graph.g2o"])
def test_path_of_another_type(path: Any) -> None:
    for read in (gtsam_sdp.load_g2o, gtsam_sdp.load_pyfg, read_dataset):
        with pytest.raises(DatasetError, match=rf"must be a string or a pathlib\.Path, not {type(path).__name__}"):
            read(path)
