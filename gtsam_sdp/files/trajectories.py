"""Trajectories in the files of TUM and KITTI, which evo and others read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import gtsam

from gtsam_sdp.errors import InvalidGraphError, format_key
from gtsam_sdp.files.writing import words_of, write_lines


def write_tum(
    path: str | Path,
    values: gtsam.Values,
    keys: Iterable[int] | None = None,
    times: Mapping[int, float] | None = None,
) -> None:
    """Writes poses as lines of time, position and quaternion: `t x y z qx qy qz qw`; poses in the plane have z = 0.

    Args:
        path: the file; packed with gzip where its name ends with .gz.
        values: the poses, Pose2 or Pose3; values of other types are left out.
        keys: the poses to write; None: all.
        times: time of each pose by key [s]; None: its number, 12 for x12. Lines are in the order of time.

    Raises:
        InvalidGraphError: there is no pose, or not those of `keys`; two poses have the same time, or one has none.
        DatasetError: the file cannot be written.
    """
    poses = _poses(values, keys)
    clock = {key: float(gtsam.Symbol(key).index()) for key in poses} if times is None else times
    missing = [key for key in poses if key not in clock]
    if missing:
        raise InvalidGraphError(f"There is no time for the pose {format_key(missing[0])}.")
    at: dict[float, int] = {}
    for key in poses:
        if (other := at.setdefault(float(clock[key]), key)) != key:
            raise InvalidGraphError(
                f"{format_key(other)} and {format_key(key)} have the same time, {clock[key]:g}: a file holds one "
                "trajectory. Give the keys of one robot, or times."
            )
    lines = []
    for time in sorted(at):
        pose = poses[at[time]]
        turn = pose.rotation().toQuaternion()
        lines.append(words_of([time, *pose.translation(), turn.x(), turn.y(), turn.z(), turn.w()]))
    write_lines(path, lines)


def write_kitti(path: str | Path, values: gtsam.Values, keys: Iterable[int] | None = None) -> None:
    """Writes poses, in the order of their keys, as lines of the 12 numbers of [R | t], row by row.

    Args:
        path: the file; packed with gzip where its name ends with .gz.
        values: the poses, Pose2 or Pose3; values of other types are left out.
        keys: the poses to write, in this order; None: all.

    Raises:
        InvalidGraphError: there is no pose, or not those of `keys`.
        DatasetError: the file cannot be written.
    """
    write_lines(path, [words_of(pose.matrix()[:3].ravel()) for pose in _poses(values, keys).values()])


def _poses(values: gtsam.Values, keys: Iterable[int] | None) -> dict[int, gtsam.Pose3]:
    """Poses in space by key, in the order of the file."""
    spatial, planar = gtsam.utilities.allPose3s(values), gtsam.utilities.allPose2s(values)
    found = {key: spatial.atPose3(key) for key in spatial.keys()}
    found |= {key: gtsam.Pose3(planar.atPose2(key)) for key in planar.keys()}
    chosen = sorted(found) if keys is None else [int(key) for key in keys]
    missing = [key for key in chosen if key not in found]
    if missing:
        raise InvalidGraphError(f"The values hold no pose {format_key(missing[0])}.")
    if not chosen:
        raise InvalidGraphError("The values hold no pose, of which a trajectory is made.")
    return {key: found[key] for key in chosen}
