"""Priors of g2o files: where they put the start, and lines that may be of a pose or of a landmark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gtsam
import numpy as np
import pytest

import gtsam_sdp
from gtsam_sdp.errors import DatasetError
from gtsam_sdp.files.datasets import read_pose_graph, write_g2o

UNIT_2D = "1 0 0 1 0 1"
UNIT_3D = " ".join("1" if row == column else "0" for row in range(6) for column in range(row, 6))
EDGE_2D = f"EDGE_SE2 0 1 1 0 0.5 {UNIT_2D}"
EDGE_3D = f"EDGE_SE3:QUAT 0 1 1 2 3 0 0 0 1 {UNIT_3D}"
OFFSET = "PARAMS_SE3OFFSET 0 0 0 0 0 0 0 1"
POSITION = "0.4 -0.2 0.1 5 1 0 3 0 7"


def written(folder: Path, *lines: str) -> Path:
    path = folder / "graph.g2o"
    path.write_text("\n".join(lines) + "\n")
    return path


def factor(graph: gtsam.NonlinearFactorGraph, place: int) -> Any:
    return graph.at(place)


def test_the_priors_of_rtabmap(tmp_path: Path) -> None:
    """A pose with all its noise, and a position: what rtabmap writes where the rotation is not known."""
    here = "EDGE_POINTXYZ_PRIOR 1 1.1 2 3 5 1 0 3 0 7"
    file = read_pose_graph(written(tmp_path, OFFSET, EDGE_3D, f"EDGE_SE3_PRIOR 0 0 0 0 0 0 0 0 1 {UNIT_3D}", here))
    assert isinstance(factor(file.graph, 1), gtsam.PriorFactorPose3)
    assert isinstance(factor(file.graph, 2), gtsam.PoseTranslationPrior3D)
    assert gtsam_sdp.solve(file.graph, file.initial).certificate


def test_the_position_prior_of_g2o(tmp_path: Path) -> None:
    """EDGE_SE3_XYZ_PRIOR names an offset, which g2o does not use: the body's own position is measured."""
    path = written(tmp_path, "PARAMS_SE3OFFSET 3 1 2 3 0 0 1 0", EDGE_3D, f"EDGE_SE3_XYZ_PRIOR 1 3 {POSITION}")
    graph, _ = gtsam_sdp.load_g2o(path)
    same, _ = gtsam_sdp.load_g2o(written(tmp_path, EDGE_3D, f"EDGE_POINTXYZ_PRIOR 1 {POSITION}"))
    assert graph.equals(same, 0.0)


def shared_number(prior: Any) -> tuple[gtsam.NonlinearFactorGraph, gtsam.Values]:
    """A pose 7 and a landmark l7, which the pose 0 sees, and a prior."""
    graph, values = gtsam.NonlinearFactorGraph(), gtsam.Values()
    noise = gtsam.noiseModel.Isotropic.Sigma(3, 0.5)
    graph.add(gtsam.BetweenFactorPose3(0, 7, gtsam.Pose3(), gtsam.noiseModel.Unit.Create(6)))
    landmark = gtsam.symbol("l", 7)
    graph.add(gtsam.BearingRangeFactor3D(0, landmark, gtsam.Unit3(np.array([1.0, 2, 3])), 4.0, noise))
    graph.add(prior)
    for key in (0, 7):
        values.insert(key, gtsam.Pose3())
    values.insert(landmark, np.array([1.0, 2, 3]))
    return graph, values


@pytest.mark.parametrize("kind", [gtsam.GPSFactor, gtsam.PoseTranslationPrior3D])
def test_a_position_where_a_landmark_has_the_number_of_the_pose(tmp_path: Path, kind: Any) -> None:
    graph, values = shared_number(kind(7, np.array([1.0, 0, 2]), gtsam.noiseModel.Isotropic.Sigma(3, 0.2)))
    write_g2o(tmp_path / "copy.g2o", graph, values)
    assert "\nEDGE_SE3_XYZ_PRIOR 7 0 1.0 0.0 2.0 " in (tmp_path / "copy.g2o").read_text()
    copy = read_pose_graph(tmp_path / "copy.g2o")
    assert copy.graph.error(values) == pytest.approx(graph.error(values), rel=1e-9)


def test_a_landmark_where_a_pose_has_its_number(tmp_path: Path) -> None:
    prior = gtsam.PriorFactorPoint3(gtsam.symbol("l", 7), np.zeros(3), gtsam.noiseModel.Unit.Create(3))
    with pytest.raises(DatasetError, match=r"factor 2 .*: a pose and a landmark have the number 7, .*\.pyfg"):
        write_g2o(tmp_path / "copy.g2o", *shared_number(prior))
    lines = [OFFSET, EDGE_3D, "EDGE_SE3_TRACKXYZ 0 1 0 3 4 5 1 0 0 1 0 1", f"EDGE_POINTXYZ_PRIOR 1 {POSITION}"]
    with pytest.raises(DatasetError, match=r"line 4: 1 is a pose and a landmark, .* For the pose write EDGE_SE3_XYZ"):
        gtsam_sdp.load_g2o(written(tmp_path, *lines))


def test_landmarks_of_one_number(tmp_path: Path) -> None:
    """`a7` and `b7` are different keys, and the same number in a g2o file."""
    values = gtsam.Values()
    for letter in "ab":
        values.insertPoint3(gtsam.symbol(letter, 7), np.zeros(3))
    with pytest.raises(DatasetError, match=r"landmarks a7 and b7 have the same number. Write a \.pyfg file"):
        write_g2o(tmp_path / "copy.g2o", gtsam.NonlinearFactorGraph(), values)


@pytest.mark.parametrize("name", ["Robust", "Constrained"])
def test_noise_that_files_do_not_hold(tmp_path: Path, name: str) -> None:
    unit = gtsam.noiseModel.Unit.Create(3)
    huber = gtsam.noiseModel.mEstimator.Huber.Create(1.0)
    models = {
        "Robust": gtsam.noiseModel.Robust.Create(huber, unit),
        "Constrained": gtsam.noiseModel.Constrained.All(3),
    }
    graph, values = gtsam.NonlinearFactorGraph(), gtsam.Values()
    graph.add(gtsam.PriorFactorPose2(0, gtsam.Pose2(), models[name]))
    values.insert(0, gtsam.Pose2())
    with pytest.raises(DatasetError, match=f"factor 0 .PriorFactorPose2 on 0. has noise of type {name}; files have Ga"):
        write_g2o(tmp_path / "copy.g2o", graph, values)


def test_a_prior_without_a_vertex_starts_where_it_is(tmp_path: Path) -> None:
    """The values of the others are the file's."""
    path = written(tmp_path, "VERTEX_SE2 0 0 0 0", "VERTEX_SE2 1 1 0 0", EDGE_2D, f"EDGE_PRIOR_SE2 9 4 5 1 {UNIT_2D}")
    with pytest.warns(gtsam_sdp.SuspiciousInputWarning, match="line 4: vertex 9 has no VERTEX line"):
        file = read_pose_graph(path)
    assert file.initial.atPose2(9).equals(gtsam.Pose2(4, 5, 1), 1e-12)
    assert file.initial.atPose2(1).equals(gtsam.Pose2(1, 0, 0), 1e-12)


def test_priors_alone(tmp_path: Path) -> None:
    file = read_pose_graph(written(tmp_path, f"EDGE_PRIOR_SE2 9 4 5 1 {UNIT_2D}"))
    assert file.initial.atPose2(9).equals(gtsam.Pose2(4, 5, 1), 1e-12)
    assert gtsam_sdp.certify(file.graph, file.initial)


@pytest.mark.parametrize("count", [1, 2])
def test_few_positions_turn_the_start_no_more_than_they_say(tmp_path: Path, count: int) -> None:
    """About the line through two positions nothing is known: the start is not rolled about it."""
    positions = [f"EDGE_POINTXYZ_PRIOR {i} 5 {5 + 2 * i} 5 1 0 0 1 0 1" for i in range(count)]
    file = read_pose_graph(written(tmp_path, EDGE_3D.replace("1 2 3", "2 0 0", 1), *positions))
    turn = gtsam.Rot3.Yaw(np.pi / 2) if count == 2 else gtsam.Rot3()
    assert file.initial.atPose3(0).equals(gtsam.Pose3(turn, np.array([5.0, 5, 5])), 1e-5)


def test_the_strongest_prior_places_the_start(tmp_path: Path) -> None:
    weak, strong = "1e-9 0 0 1e-9 0 1e-9", "100 0 0 100 0 100"
    path = written(tmp_path, EDGE_2D, f"EDGE_PRIOR_SE2 0 0 0 0 {weak}", f"EDGE_PRIOR_SE2 1 40 -3 1.2 {strong}")
    assert read_pose_graph(path).initial.atPose2(1).equals(gtsam.Pose2(40, -3, 1.2), 1e-12)


def test_a_moved_prior_without_rotation_keeps_its_cost(tmp_path: Path) -> None:
    """Only the sensor's position is measured: a singular matrix, which GTSAM would factor into another one."""
    noise = " ".join(["4 0 0 0 0 0 4 0 0 0 0 4 0 0 0", "0 0 0 0 0 0"])
    path = written(
        tmp_path, "PARAMS_SE3OFFSET 2 1 2 3 0 0 0.6 0.8", EDGE_3D, f"EDGE_SE3_PRIOR 1 2 5 6 7 0 0 0 1 {noise}"
    )
    with pytest.warns(
        gtsam_sdp.SuspiciousInputWarning, match="1 priors are singular .the first in line 3, the prior of"
    ):
        file = read_pose_graph(path)
    prior, values = factor(file.graph, 1), gtsam.Values()
    sensor = gtsam.Pose3(gtsam.Rot3.Quaternion(0.8, 0, 0, 0.6), np.array([1.0, 2, 3]))
    here = gtsam.Pose3(gtsam.Rot3.RzRyRx(0.3, -0.2, 0.4), np.array([4.0, 5, 6]))
    values.insert(1, here)
    error = gtsam.Pose3.Logmap(gtsam.Pose3(gtsam.Rot3(), np.array([5.0, 6, 7])).between(here.compose(sensor)))
    assert prior.error(values) == pytest.approx(2 * error[3:] @ error[3:], rel=1e-9)
    write_g2o(tmp_path / "copy.g2o", file.measured, file.initial)
    with pytest.warns(gtsam_sdp.SuspiciousInputWarning, match="singular"):
        copy = read_pose_graph(tmp_path / "copy.g2o")
    assert factor(copy.graph, 1).error(values) == pytest.approx(prior.error(values), rel=1e-9)
