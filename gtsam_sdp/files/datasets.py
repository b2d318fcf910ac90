"""Files of graphs: read with the checks that a certificate needs, and the data sets that ship with GTSAM."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import gtsam

from gtsam_sdp.errors import DatasetError, format_key
from gtsam_sdp.files.chordal import chordal_graph, measurements
from gtsam_sdp.files.g2o import PoseLines, read_pose_lines
from gtsam_sdp.files.lines import read_text
from gtsam_sdp.files.odometry import add_poses, insert_point, place_by_priors, place_landmarks
from gtsam_sdp.files.pyfg import PyfgGraph, looks_like_pyfg, read_pyfg
from gtsam_sdp.files.pyfg_writing import write_pyfg
from gtsam_sdp.files.suspicious import (
    warn,
    warn_of_information,
    warn_of_left_out_lines,
    warn_of_missing_vertices,
    warn_of_noise_format,
)
from gtsam_sdp.files.writing import write_g2o

__all__ = [
    "Cost",
    "PoseGraphFile",
    "find_dataset",
    "load_g2o",
    "load_pyfg",
    "read_dataset",
    "read_pose_graph",
    "write_g2o",
    "write_pyfg",
]

Cost = Literal["geodesic", "chordal"]


@dataclass(frozen=True)
class PoseGraphFile:
    """A graph of poses and landmarks, read from a file.

    Attributes:
        path: the file.
        dimension: 2 or 3.
        graph: factors with the cost that was asked for.
        initial: a value for every key.
        start: where the initial values come from, for people to read.
        has_values: the initial values are the file's.
        measured: GTSAM's own factors of the file; `graph` itself unless the cost is chordal.
        pyfg: what a file in PyFG format holds, None for others.
        fixed: numbers of the vertices in FIX lines, which change nothing here.
    """

    path: Path
    dimension: int
    graph: gtsam.NonlinearFactorGraph
    initial: gtsam.Values
    start: str
    has_values: bool
    measured: gtsam.NonlinearFactorGraph
    pyfg: PyfgGraph | None = None
    fixed: tuple[int, ...] = ()


def load_g2o(path: str | Path, *, cost: Cost = "geodesic") -> tuple[gtsam.NonlinearFactorGraph, gtsam.Values]:
    """Reads a graph in g2o format: poses (VERTEX_SE2, EDGE_SE2, VERTEX_SE3:QUAT, EDGE_SE3:QUAT), landmarks, priors.

    Landmarks seen from poses (VERTEX_XY with EDGE_SE2_XY or LANDMARK2 in 2D, VERTEX_TRACKXYZ with EDGE_SE3_TRACKXYZ
    in 3D) become `BearingRangeFactor2D/3D` with the information J^T Omega J, J the derivative of the measured point by
    bearing and range. In 3D that is what `gtsam.readG2o` makes of them; in 2D GTSAM's readers leave these lines out.
    Landmark 12 of the file has the key `l12`, as in GTSAM.

    Priors, which GTSAM's readers leave out: EDGE_PRIOR_SE2 and EDGE_SE3_PRIOR become `PriorFactorPose2/3` with the
    noise of an edge with the same numbers (what a sensor at PARAMS_SE3OFFSET measures is moved to the body exactly),
    EDGE_PRIOR_SE2_XY, EDGE_SE3_XYZ_PRIOR and EDGE_POINTXYZ_PRIOR of a pose `PoseTranslationPrior2D/3D` with noise in
    the axes of the world, EDGE_POINTXYZ_PRIOR of a landmark `PriorFactorPoint3`.

    Args:
        path: the file, plain or packed with gzip, or the name of a data set that ships with GTSAM, such as w100
            (`gtsam-sdp list` shows them). Files in TORO format (EDGE2, EDGE3, ODOMETRY, LANDMARK, BR) are
            read as `gtsam.load2D` and `gtsam.load3D` read them.
        cost: "geodesic" gives GTSAM's own `BetweenFactorPose2/3` with the full information matrices of the file.
            "chordal" gives `FrobeniusBetweenFactorPose2/3` so that `graph.error` is the cost of SE-Sync,
            sum kappa |R_j - R_i R~|_F^2 + tau |t_j - t_i - R_i t~|^2, with kappa = 3 / (2 tr(Omega_rot^-1)) and
            tau = 3 / tr(Omega_trans^-1) in 3D, kappa = Omega_33 and tau = 2 / tr(Omega_trans^-1) in 2D (where
            SE-Sync leaves the factor 1/2 of kappa out). Priors of poses become `FrobeniusPriorPose2/3` with the same
            weights, those of positions keep their information, doubled as tau is.

    Returns:
        The graph, and a value for each of its keys: the file's, or, if one is missing there, poses that follow from
        the measurements along a spanning tree, which is moved as a whole to the priors; landmarks from where they are
        first seen.

    Raises:
        DatasetError: the file is missing, damaged or holds tags that are not supported; names the line.
    """
    file = read_dataset(path, cost=cost)
    if file.pyfg:
        raise DatasetError(f"{path} is in PyFG format: read it with gtsam_sdp.load_pyfg.")
    return file.graph, file.initial


def load_pyfg(path: str | Path) -> tuple[gtsam.NonlinearFactorGraph, gtsam.Values]:
    """Reads a graph in PyFG format: poses, points, ranges, priors, landmarks seen from poses; in 2D or 3D.

    VERTEX_SE2, VERTEX_SE3:QUAT, VERTEX_XY, VERTEX_XYZ give values; EDGE_SE2 and EDGE_SE3:QUAT become
    `BetweenFactorPose2/3`, EDGE_RANGE the `RangeFactor` of its two ends (`RangeFactor2D` from a pose to a point in the
    plane), VERTEX_*:PRIOR `PriorFactorPose2/3` and `PriorFactorPoint2/3`, EDGE_SE2_XY and EDGE_SE3_XYZ
    `BearingRangeFactor2D/3D` as in `load_g2o`. The noise of the format is covariances [m^2, rad^2]. The key of `A12`
    is `gtsam.symbol("A", 12)`.

    Args:
        path: the file, plain or packed with gzip, or the name of a data set that ships with GTSAM, such as goats_15.

    Returns:
        The graph, and the values of the file.

    Raises:
        DatasetError: the file is missing, damaged or holds tags that are not supported; names the line.
    """
    path = find_dataset(path)
    file = read_pyfg(path, read_text(path))
    _warn_of_unused(file, path)
    return file.graph, file.values


def _warn_of_unused(file: PyfgGraph, path: str | Path) -> None:
    if file.unused:
        warn(f"{path}: {len(file.unused)} vertices, the first is {file.unused[0]}, have no edge; they are left out.")


def find_dataset(name: str | Path) -> Path:
    """Path of a file, or of a data set that ships with GTSAM by its name (`w100`, `pose3example-grid`)."""
    path = _as_path(name)
    if not str(name).strip():
        raise DatasetError("The path is empty: give that of a g2o file, or a name such as w100.")
    if path.exists():
        return path
    for spelled in (str(name), f"{name}.pyfg"):
        with suppress(FileNotFoundError, RuntimeError):
            return Path(gtsam.findExampleDataFile(spelled))
    raise DatasetError(
        f"There is no file {name}, and GTSAM ships no data set of that name. "
        "Give the path of a g2o file, or a name that `gtsam-sdp list` shows, such as w100, victoria_park or goats_15."
    )


def _as_path(path: object) -> Path:
    """The path, where it is one."""
    if not isinstance(path, (str, os.PathLike)):
        raise DatasetError(f"The path of a file must be a string or a pathlib.Path, not {type(path).__name__}.")
    return Path(path)


def read_dataset(name: str | Path, *, cost: Cost = "geodesic") -> PoseGraphFile:
    """As `read_pose_graph`, by path or by the name of a data set that ships with GTSAM."""
    return read_pose_graph(find_dataset(name), cost=cost)


def read_pose_graph(path: str | Path, *, cost: Cost = "geodesic", text: str | None = None) -> PoseGraphFile:
    """As `load_g2o` or `load_pyfg`, whichever the file needs, and says where the initial values come from.

    With `text` nothing is read, and the path is what errors name.
    """
    if cost not in ("geodesic", "chordal"):
        raise ValueError(f'cost must be "geodesic" or "chordal", not {cost!r}.')
    path = _as_path(path)
    text = read_text(path) if text is None else text
    if looks_like_pyfg(text):
        if cost == "chordal":
            raise DatasetError(f"{path}: cost='chordal' needs a g2o file; this one is in PyFG format.")
        file = read_pyfg(path, text)
        _warn_of_unused(file, path)
        return PoseGraphFile(
            path, file.dimension, file.graph, file.values, "values of the file", True, file.graph, file
        )
    lines = read_pose_lines(path, text)
    if cost == "chordal" and lines.format == "TORO":
        raise DatasetError(f"{path}: cost='chordal' needs a g2o file; this one is in TORO format.")
    if cost == "chordal" and (lines.sightings or any(prior.kind == "landmark" for prior in lines.priors)):
        raise DatasetError(f"{path}: cost='chordal' is a cost of poses only; this file has landmarks.")
    warn_of_left_out_lines(lines)
    if lines.format == "TORO":
        warn_of_noise_format(lines)
    else:
        warn_of_information(lines)
    measured, values = _read_with_gtsam(lines)
    graph = chordal_graph(measured, lines) if cost == "chordal" else measured
    return _with_start(lines, graph, measured, values)


def _read_with_gtsam(lines: PoseLines) -> tuple[gtsam.NonlinearFactorGraph, gtsam.Values]:
    """GTSAM reads a copy of the checked lines: in 2D it reads no edge of a file with a comment or a FIX line."""
    if not lines.lines:
        return _with_sightings(lines, gtsam.NonlinearFactorGraph(), gtsam.Values())
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "lines.g2o"
        copy.write_text("\n".join(lines.lines) + "\n")
        try:
            graph, values = _gtsam_reader(lines, str(copy))
        except (RuntimeError, ValueError, IndexError) as error:
            raise DatasetError(f"{lines.path}: GTSAM cannot read the file: {error}") from error
    keys = [tuple(graph.at(k).keys()) for k in range(graph.size())]
    expected = len(lines.ids) + lines.landmarks
    if len(keys) != expected or (not lines.landmarks and keys != list(lines.ids)):
        raise DatasetError(f"{lines.path}: GTSAM reads {len(keys)} edges where the file holds {expected}.")
    return _with_sightings(lines, graph, values)


def _with_sightings(
    lines: PoseLines, graph: gtsam.NonlinearFactorGraph, values: gtsam.Values
) -> tuple[gtsam.NonlinearFactorGraph, gtsam.Values]:
    """Adds what GTSAM does not read."""
    for sighting in lines.sightings:
        graph.add(sighting.factor())
    for prior in lines.priors:
        graph.add(prior.factor())
    for key, place in lines.points.items():
        insert_point(values, key, place)
    return graph, values


def _gtsam_reader(lines: PoseLines, path: str) -> tuple[gtsam.NonlinearFactorGraph, gtsam.Values]:
    if lines.format == "g2o":
        return gtsam.readG2o(path, lines.dimension == 3)
    return gtsam.load3D(path) if lines.dimension == 3 else gtsam.load2D(path)


def _with_start(
    lines: PoseLines, graph: gtsam.NonlinearFactorGraph, measured: gtsam.NonlinearFactorGraph, values: gtsam.Values
) -> PoseGraphFile:
    """The file with a value for every key of the graph."""
    needed = {key for k in range(measured.size()) for key in measured.at(k).keys()}
    initial = gtsam.Values(values)
    given = lines.vertices | lines.points.keys()
    unused = given - needed
    for key in unused:
        initial.erase(key)
    if unused:
        first = format_key(min(unused))
        warn(f"{lines.path}: {len(unused)} vertices, the first is {first}, have no edge; they are left out.")
    missing = needed - given
    start, has_values = "values of the file", not missing
    if missing:
        lack = f"the file lacks {len(missing)} of {len(needed)} values"
        if lines.landmarks:
            start = f"odometry and first sightings as gtsam.load2D chains them ({lack})"
        elif missing <= {sighting.landmark for sighting in lines.sightings}:
            place_by_priors(initial, [prior for prior in lines.priors if prior.kind == "landmark"])
            start = f"values of the file, landmarks where they are first seen ({lack})"
        else:
            placed = ", placed by priors" if lines.priors else ""
            start = f"odometry along a spanning tree{placed} ({lack})"
            if needed & lines.vertices:
                start = f"values of the file, the others where edges from these lead ({lack})"
            for key in missing & set(initial.keys()):  # in 2D GTSAM chains edges in the order of the file
                initial.erase(key)
            add_poses(initial, lines.ids, measurements(measured, len(lines.ids)), lines.priors)
            place_by_priors(initial, lines.priors)
        if not lines.landmarks:
            warn_of_missing_vertices(lines)
        place_landmarks(initial, lines.sightings)
    fixed = _fixed_vertices(lines, needed)
    return PoseGraphFile(lines.path, lines.dimension, graph, initial, start, has_values, measured, fixed=fixed)


def _fixed_vertices(lines: PoseLines, keys: set[int]) -> tuple[int, ...]:
    """Numbers of the FIX lines; warns of those that are no vertex of the graph."""
    numbers = {str(number): number for key in keys for number in (key, key % 2**56)}
    absent = [word for word in lines.fixed if word not in numbers]
    if absent:
        warn(f"{lines.path}: FIX {absent[0][:40]} names a vertex that no edge of the file has; it is left out.")
    return tuple(numbers[word] for word in lines.fixed if word in numbers)
