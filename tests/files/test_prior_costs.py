"""Priors of g2o files: what they cost, read and written again, and where they put a start from odometry."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gtsam
import numpy as np
import pytest

import gtsam_sdp
from gtsam_sdp.errors import DatasetError
from gtsam_sdp.files.datasets import read_pose_graph, write_g2o
from tests.files.lines import definite, upper

UNIT_2D = "1 0 0 1 0 1"
UNIT_3D = " ".join("1" if row == column else "0" for row in range(6) for column in range(row, 6))
EDGE_2D = f"EDGE_SE2 0 1 1 0 0.5 {UNIT_2D}"
EDGE_3D = f"EDGE_SE3:QUAT 0 1 1 2 3 0 0 0.6 0.8 {UNIT_3D}"
IDENTITY = "PARAMS_SE3OFFSET 0 0 0 0 0 0 0 1"
MEASURED = "1 -2 0.5 0.1 0.3 -0.2 0.9"
OFFSET = "0.3 0.2 -0.4 0.5 -0.1 0.2 0.7"
DEFINITE_2D = np.array([[5.0, 1.0], [1.0, 3.0]])
DEFINITE_3D = np.array([[5.0, 1.0, 0.5], [1.0, 3.0, -0.2], [0.5, -0.2, 7.0]])
Write = Callable[..., Path]


def pose(words: str) -> gtsam.Pose3:
    numbers = np.array([float(word) for word in words.split()])
    x, y, z, w = numbers[3:] / np.linalg.norm(numbers[3:])
    return gtsam.Pose3(gtsam.Rot3.Quaternion(w, x, y, z), numbers[:3])


def factors(graph: gtsam.NonlinearFactorGraph) -> list[Any]:
    return [graph.at(k) for k in range(graph.size())]


def with_value(key: int, value: Any) -> gtsam.Values:
    values = gtsam.Values()
    values.insert(key, value)
    return values


def random_pose(random: np.random.Generator, dimension: int) -> Any:
    tangent = random.normal(size=3 if dimension == 2 else 6)
    return gtsam.Pose2.Expmap(tangent) if dimension == 2 else gtsam.Pose3.Expmap(tangent)


PRIORS = {
    "EDGE_PRIOR_SE2": (EDGE_2D, f"EDGE_PRIOR_SE2 1 0.4 -0.2 0.7 {upper(definite(3))}", gtsam.PriorFactorPose2),
    "EDGE_SE3_PRIOR": (EDGE_3D, f"EDGE_SE3_PRIOR 1 0 {MEASURED} {upper(definite(6))}", gtsam.PriorFactorPose3),
    "EDGE_PRIOR_SE2_XY": (EDGE_2D, f"EDGE_PRIOR_SE2_XY 1 0.4 -0.2 {upper(DEFINITE_2D)}", gtsam.PoseTranslationPrior2D),
    "EDGE_POINTXYZ_PRIOR": (
        EDGE_3D, f"EDGE_POINTXYZ_PRIOR 1 1 -2 0.5 {upper(DEFINITE_3D)}", gtsam.PoseTranslationPrior3D,
    ),
}  # fmt: skip


@pytest.mark.parametrize("tag", PRIORS)
def test_a_prior_is_read_and_written_again(write: Write, tmp_path: Path, tag: str) -> None:
    edge, line, kind = PRIORS[tag]
    file = read_pose_graph(write(IDENTITY, edge, line) if file_is_3d(edge) else write(edge, line))
    prior = factors(file.graph)[1]
    assert isinstance(prior, kind)
    assert list(prior.keys()) == [1]
    write_g2o(tmp_path / "copy.g2o", file.measured, file.initial)
    assert any(text.startswith(f"{tag} 1 ") for text in (tmp_path / "copy.g2o").read_text().splitlines())
    copy = read_pose_graph(tmp_path / "copy.g2o")
    random = np.random.default_rng(3)
    for _ in range(5):
        values = gtsam.Values()
        for key in (0, 1):
            values.insert(key, random_pose(random, file.dimension))
        assert copy.graph.error(values) == pytest.approx(file.graph.error(values), rel=1e-11)


def file_is_3d(edge: str) -> bool:
    return edge == EDGE_3D


@pytest.mark.parametrize("dimension", [2, 3])
def test_the_noise_of_a_prior_is_that_of_an_edge(write: Write, dimension: int) -> None:
    """The same numbers after an edge and after a prior are the same noise model."""
    noise = upper(definite(3 if dimension == 2 else 6))
    if dimension == 2:
        path = write(f"EDGE_SE2 0 1 1 0 0.5 {noise}", f"EDGE_PRIOR_SE2 1 1 0 0.5 {noise}")
    else:
        path = write(IDENTITY, f"EDGE_SE3:QUAT 0 1 {MEASURED} {noise}", f"EDGE_SE3_PRIOR 1 0 {MEASURED} {noise}")
    edge, prior = factors(gtsam_sdp.load_g2o(path)[0])
    np.testing.assert_allclose(prior.noiseModel().R(), edge.noiseModel().R(), rtol=1e-12, atol=1e-12)
    assert prior.prior().equals(edge.measured(), 1e-12)


def test_a_prior_of_a_sensor_is_moved_to_the_body(write: Write) -> None:
    """The cost is that of the sensor's pose X P, at poses near and far: 1/2 |Log(Z^-1 X P)|^2 in the file's noise."""
    information = definite(6)
    path = write(f"PARAMS_SE3OFFSET 4 {OFFSET}", EDGE_3D, f"EDGE_SE3_PRIOR 1 4 {MEASURED} {upper(information)}")
    prior = factors(gtsam_sdp.load_g2o(path)[0])[1]
    rotations_first = np.roll(information, 3, axis=(0, 1))
    random = np.random.default_rng(5)
    for _ in range(5):
        body = random_pose(random, 3)
        error = gtsam.Pose3.Logmap(pose(MEASURED).between(body.compose(pose(OFFSET))))
        expected = error @ rotations_first @ error / 2
        assert prior.error(with_value(1, body)) == pytest.approx(expected, rel=1e-10)


def test_the_information_of_a_moved_prior_by_finite_differences(write: Write) -> None:
    """At its minimum the Hessian of the cost is J^T Omega J, J the differences of the sensor's pose by the body's."""
    information = definite(6)
    path = write(f"PARAMS_SE3OFFSET 4 {OFFSET}", EDGE_3D, f"EDGE_SE3_PRIOR 1 4 {MEASURED} {upper(information)}")
    prior = factors(gtsam_sdp.load_g2o(path)[0])[1]
    sensor, step, columns = pose(OFFSET), 1e-5, []
    for direction in np.eye(6):
        ends = [
            gtsam.Pose3.Logmap(sensor.inverse().compose(gtsam.Pose3.Expmap(sign * step * direction)).compose(sensor))
            for sign in (1, -1)
        ]
        columns.append((ends[0] - ends[1]) / (2 * step))
    jacobian = np.array(columns).T
    expected = jacobian.T @ np.roll(information, 3, axis=(0, 1)) @ jacobian
    root = prior.noiseModel().R()
    np.testing.assert_allclose(root.T @ root, expected, rtol=1e-7, atol=1e-7)
    assert prior.error(with_value(1, pose(MEASURED).compose(sensor.inverse()))) < 1e-24


@pytest.mark.parametrize("tag", ["EDGE_PRIOR_SE2_XY", "EDGE_POINTXYZ_PRIOR"])
def test_noise_of_positions_is_in_the_axes_of_the_world(write: Write, tag: str) -> None:
    """As in g2o, however the pose is turned."""
    edge, line, _ = PRIORS[tag]
    prior = factors(gtsam_sdp.load_g2o(write(edge, line))[0])[1]
    numbers, information = ([0.4, -0.2], DEFINITE_2D) if tag == "EDGE_PRIOR_SE2_XY" else ([1, -2, 0.5], DEFINITE_3D)
    random = np.random.default_rng(7)
    for _ in range(3):
        body = random_pose(random, len(numbers))
        error = np.asarray(body.translation()) - numbers
        assert prior.error(with_value(1, body)) == pytest.approx(error @ information @ error / 2, rel=1e-12)


def test_the_prior_of_a_landmark(write: Write, tmp_path: Path) -> None:
    seen = "EDGE_SE3_TRACKXYZ 1 7 0 3 4 5 10 0 0 20 0 30"
    line = f"EDGE_POINTXYZ_PRIOR 7 4 2 -3 {upper(DEFINITE_3D)}"
    file = read_pose_graph(write(IDENTITY, EDGE_3D, seen, line))
    prior = factors(file.graph)[2]
    assert isinstance(prior, gtsam.PriorFactorPoint3)
    assert list(prior.keys()) == [gtsam.symbol("l", 7)]
    write_g2o(tmp_path / "copy.g2o", file.measured, file.initial)
    copy = read_pose_graph(tmp_path / "copy.g2o")
    assert copy.graph.error(file.initial) == pytest.approx(file.graph.error(file.initial), rel=1e-9, abs=1e-20)


BAD = {
    "no offset": ([EDGE_3D, f"EDGE_SE3_PRIOR 1 0 {MEASURED} {UNIT_3D}"], "line 2: PARAMS_SE3OFFSET 0 is not in the"),
    "no offset number": ([EDGE_3D, f"EDGE_SE3_PRIOR 1 {MEASURED} {UNIT_3D}"], "line 2: .*lacks the number of"),
    "no noise": ([EDGE_2D, "EDGE_PRIOR_SE2 1 0 0 0"], "line 2: EDGE_PRIOR_SE2 needs 10 numbers.*It has no noise"),
    "indefinite": ([EDGE_2D, "EDGE_PRIOR_SE2_XY 1 0 0 1 2 1"], "line 2: the information matrix is not positive def"),
    "zero": ([EDGE_2D, "EDGE_PRIOR_SE2 1 0 0 0 1 0 0 1 0 0"], "line 2, the prior of 1: the information matrix has 0"),
    "unknown": ([EDGE_3D, "EDGE_POINTXYZ_PRIOR 9 0 0 0 1 0 0 1 0 1"], "line 2: no other line has vertex 9"),
    "landmark": (
        [EDGE_2D, "VERTEX_XY 7 1 1", "EDGE_SE2_XY 1 7 3 4 1 0 1", f"EDGE_PRIOR_SE2 7 0 0 0 {UNIT_2D}"],
        "line 4: 7 is a landmark; EDGE_PRIOR_SE2 is a prior of a pose",
    ),
    "other prior": ([EDGE_2D, "EDGE_PRIOR_ONE 1 0 0"], "line 2: EDGE_PRIOR_ONE lines are not supported; of priors"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_priors_are_named(write: Write, name: str) -> None:
    lines, message = BAD[name]
    with pytest.raises(DatasetError, match=message):
        gtsam_sdp.load_g2o(write(*lines))


@pytest.mark.parametrize("tag", ["EDGE_PRIOR_SE2", "EDGE_SE3_PRIOR"])
def test_chordal_priors_weigh_as_chordal_edges(write: Write, tag: str) -> None:
    """An edge from the origin and a prior with the same numbers have the same cost."""
    if tag == "EDGE_PRIOR_SE2":
        rest = f"1 0.4 -0.2 0.7 {upper(definite(3))}"
        path = write(f"EDGE_SE2 0 {rest}", f"{tag} {rest}")
    else:
        rest = f"{MEASURED} {upper(definite(6))}"
        path = write(IDENTITY, f"EDGE_SE3:QUAT 0 1 {rest}", f"{tag} 1 0 {rest}")
    file = read_pose_graph(path, cost="chordal")
    edge, prior = factors(file.graph)
    assert type(prior).__name__ == f"FrobeniusPriorPose{file.dimension}"
    values = with_value(1, random_pose(np.random.default_rng(2), file.dimension))
    values.insert(0, gtsam.Pose2() if file.dimension == 2 else gtsam.Pose3())
    assert prior.error(values) == pytest.approx(edge.error(values), rel=1e-12)


def test_odometry_starts_at_its_prior(write: Write) -> None:
    edges = [f"EDGE_SE2 {i} {i + 1} 1 0 0.5 {UNIT_2D}" for i in range(4)]
    file = read_pose_graph(write(*edges, f"EDGE_PRIOR_SE2 2 40 -3 1.2 {UNIT_2D}"))
    assert "placed by priors" in file.start
    assert file.initial.atPose2(2).equals(gtsam.Pose2(40, -3, 1.2), 1e-12)
    assert file.graph.error(file.initial) < 1e-20


@pytest.mark.parametrize("is_3d", [False, True])
def test_odometry_starts_where_its_positions_are(write: Write, is_3d: bool) -> None:
    """Positions of a trajectory that turns and moves as a whole determine the start, without a prior of a rotation."""
    random = np.random.default_rng(11)
    dimension = 3 if is_3d else 2
    poses = [random_pose(random, dimension) for _ in range(5)]
    lines = []
    for i, (first, second) in enumerate(itertools.pairwise(poses)):
        step = first.between(second)
        if is_3d:
            q = step.rotation().toQuaternion()
            numbers = [*step.translation(), q.x(), q.y(), q.z(), q.w()]
        else:
            numbers = [step.x(), step.y(), step.theta()]
        tag, noise = ("EDGE_SE3:QUAT", UNIT_3D) if is_3d else ("EDGE_SE2", UNIT_2D)
        lines.append(f"{tag} {i} {i + 1} {' '.join(repr(float(x)) for x in numbers)} {noise}")
    tag, noise = ("EDGE_POINTXYZ_PRIOR", "1 0 0 1 0 1") if is_3d else ("EDGE_PRIOR_SE2_XY", "1 0 1")
    for i, here in enumerate(poses):
        lines.append(f"{tag} {i} {' '.join(repr(float(x)) for x in here.translation())} {noise}")
    file = read_pose_graph(write(*lines))
    assert file.graph.error(file.initial) < 1e-9
