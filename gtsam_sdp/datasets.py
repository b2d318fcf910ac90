"""Pose-graph files: read with the checks that a certificate needs, and the data sets that ship with GTSAM."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import gtsam
import numpy as np
import scipy.sparse as sp

from gtsam_sdp.errors import DatasetError, SuspiciousInputWarning
from gtsam_sdp.g2o import PoseLines, read_pose_lines
from gtsam_sdp.variables import Array

Cost = Literal["geodesic", "chordal"]


@dataclass(frozen=True)
class PoseGraphFile:
    """A pose graph read from a file.

    Attributes:
        path: the file.
        dimension: 2 or 3.
        graph: factors with the cost that was asked for.
        initial: a value for every key.
        start: where the initial values come from, for people to read.
        has_values: the initial values are the file's.
        measured: GTSAM's own factors of the file; `graph` itself unless the cost is chordal.
    """

    path: Path
    dimension: int
    graph: gtsam.NonlinearFactorGraph
    initial: gtsam.Values
    start: str
    has_values: bool
    measured: gtsam.NonlinearFactorGraph


def load_g2o(path: str | Path, *, cost: Cost = "geodesic") -> tuple[gtsam.NonlinearFactorGraph, gtsam.Values]:
    """Reads a pose graph in g2o format (VERTEX_SE2, EDGE_SE2, VERTEX_SE3:QUAT, EDGE_SE3:QUAT).

    Args:
        path: the file. Files in TORO format (EDGE2, EDGE3) are read as `gtsam.load2D` and `gtsam.load3D` read them.
        cost: "geodesic" gives GTSAM's own `BetweenFactorPose2/3` with the full information matrices of the file.
            "chordal" gives `FrobeniusBetweenFactorPose2/3` so that `graph.error` is the cost of SE-Sync,
            sum kappa |R_j - R_i R~|_F^2 + tau |t_j - t_i - R_i t~|^2, with kappa = 3 / (2 tr(Omega_rot^-1)) and
            tau = 3 / tr(Omega_trans^-1) in 3D, kappa = Omega_33 and tau = 2 / tr(Omega_trans^-1) in 2D (where
            SE-Sync leaves the factor 1/2 of kappa out).

    Returns:
        The graph, and a value for each of its keys: the file's, or, if one is missing there, positions that follow
        from the measurements along a spanning tree.

    Raises:
        DatasetError: the file is missing, damaged or holds tags that are not supported; names the line.
    """
    file = read_pose_graph(path, cost=cost)
    return file.graph, file.initial


def find_dataset(name: str) -> Path:
    """Path of a file, or of a data set that ships with GTSAM by its name (`w100`, `pose3example-grid`)."""
    path = Path(name)
    if path.exists():
        return path
    try:
        return Path(gtsam.findExampleDataFile(name))
    except (FileNotFoundError, RuntimeError):
        raise DatasetError(
            f"There is no file {name}, and GTSAM ships no data set of that name. "
            "Give the path of a g2o file, or a name such as w100, w10000, pose3example-grid or noisyToyGraph."
        ) from None


def read_dataset(name: str, *, cost: Cost = "geodesic") -> PoseGraphFile:
    """As `read_pose_graph`, by path or by the name of a data set that ships with GTSAM."""
    return read_pose_graph(find_dataset(name), cost=cost)


def read_pose_graph(path: str | Path, *, cost: Cost = "geodesic") -> PoseGraphFile:
    """As `load_g2o`, and says where the initial values come from."""
    if cost not in ("geodesic", "chordal"):
        raise ValueError(f'cost must be "geodesic" or "chordal", not {cost!r}.')
    lines = read_pose_lines(Path(path))
    if cost == "chordal" and lines.format == "TORO":
        raise DatasetError(f"{path}: cost='chordal' needs a g2o file; this one is in TORO format.")
    _warn_of_left_out_lines(lines)
    if lines.format == "TORO":
        _warn_of_noise_format(lines)
    else:
        _warn_of_information(lines)
    measured, values = _read_with_gtsam(lines)
    graph = _chordal_graph(measured, lines) if cost == "chordal" else measured
    return _with_start(lines, graph, measured, values)


def write_g2o(path: str | Path, measured: gtsam.NonlinearFactorGraph, values: gtsam.Values) -> None:
    """Writes poses and between factors, with all their digits (`gtsam.writeG2o` keeps six).

    Raises:
        DatasetError: the graph holds other factors, or the file cannot be written.
    """
    lines = [_vertex_line(key, _pose(values, key)) for key in values.keys()]
    lines += [_edge_line(path, measured.at(k)) for k in range(measured.size())]
    try:
        Path(path).write_text("\n".join(lines) + "\n")
    except OSError as error:
        raise DatasetError(f"{path} cannot be written: {error.strerror}.") from None


def _pose(values: gtsam.Values, key: int) -> Any:
    try:
        return values.atPose3(key)
    except RuntimeError:
        return values.atPose2(key)


def _pose_words(pose: Any) -> str:
    if isinstance(pose, gtsam.Pose2):
        numbers = [pose.x(), pose.y(), pose.theta()]
    else:
        turn = pose.rotation().toQuaternion()
        numbers = [*pose.translation(), turn.x(), turn.y(), turn.z(), turn.w()]
    return " ".join(repr(float(x)) for x in numbers)


def _vertex_line(key: int, pose: Any) -> str:
    tag = "VERTEX_SE2" if isinstance(pose, gtsam.Pose2) else "VERTEX_SE3:QUAT"
    return f"{tag} {key} {_pose_words(pose)}"


def _edge_line(path: str | Path, factor: Any) -> str:
    if not isinstance(factor, gtsam.BetweenFactorPose2 | gtsam.BetweenFactorPose3):
        raise DatasetError(f"{path}: g2o files are written for BetweenFactorPose2/3, not {type(factor).__name__}.")
    model: Any = factor.noiseModel()
    root = model.R()
    information = root.T @ root
    if len(information) == 6:
        information = np.roll(information, 3, axis=(0, 1))  # GTSAM has rotations first, g2o translations
    tag = "EDGE_SE2" if len(information) == 3 else "EDGE_SE3:QUAT"
    i, j = factor.keys()
    upper = " ".join(repr(float(x)) for x in information[np.triu_indices(len(information))])
    return f"{tag} {i} {j} {_pose_words(factor.measured())} {upper}"


def _warn(message: str) -> None:
    warnings.warn(message, SuspiciousInputWarning, stacklevel=5)


def _warn_of_left_out_lines(lines: PoseLines) -> None:
    fixed = {key for words in lines.left_out if words[0] == "FIX" for key in words[1:]}
    if len(fixed) > 1:
        _warn(f"{lines.path}: FIX lines hold {len(fixed)} vertices; they are left out, and all vertices are free.")
    equal = sum(words[0] == "EQUIV" for words in lines.left_out)
    if equal:
        _warn(f"{lines.path}: {equal} EQUIV lines are left out, as GTSAM does.")


def _warn_of_noise_format(lines: PoseLines) -> None:
    """GTSAM's readers of TORO files do not take the noise as the format has it: what they make is what counts."""
    size = 3 if lines.dimension == 2 else 6
    if size == 6:
        diagonals = np.diagonal(lines.information, axis1=1, axis2=2)
        plain = np.count_nonzero(lines.noise, axis=1) == np.count_nonzero(diagonals, axis=1)
        if not (plain.all() and (diagonals == diagonals[:, :1]).all()):
            _warn(
                f"{lines.path}: GTSAM takes the noise of EDGE3 lines as information matrices with rotations first; "
                "the format has translations first. What is optimised and certified is GTSAM's cost."
            )
    elif (lines.noise[:, [0, 3]] != 1).any():
        _warn(
            f"{lines.path}: GTSAM takes the noise of EDGE2 and ODOMETRY lines as covariance matrices; "
            "the format has information matrices. What is optimised and certified is GTSAM's cost."
        )


def _warn_of_information(lines: PoseLines) -> None:
    diagonals = np.diagonal(lines.information, axis1=1, axis2=2)
    smallest = diagonals.min(axis=1)
    refused = np.flatnonzero(smallest <= 0 if lines.dimension == 2 else smallest < 0)
    if len(refused):
        raise DatasetError(
            f"{lines.path}, {lines.edge_name(int(refused[0]))}: the information matrix has "
            f"{smallest[refused[0]]:g} on its diagonal, which GTSAM cannot use."
        )
    eigenvalues = np.linalg.eigvalsh(lines.information)
    scale = np.abs(eigenvalues).max(axis=1)
    indefinite = np.flatnonzero(eigenvalues[:, 0] < -1e-9 * scale)
    singular = np.flatnonzero(np.abs(eigenvalues[:, 0]) <= 1e-12 * scale)
    if len(indefinite):
        _warn(
            f"{lines.path}: the information matrices of {len(indefinite)} edges are indefinite (the first in "
            f"{lines.edge_name(int(indefinite[0]))}). GTSAM factors them into different ones; "
            "what it optimises, and what is certified, is the cost of those."
        )
    if len(singular):
        _warn(
            f"{lines.path}: the information matrices of {len(singular)} edges are singular (the first in "
            f"{lines.edge_name(int(singular[0]))}). They leave a direction free, and GTSAM may factor them into "
            "different ones; what is certified is the cost that GTSAM has."
        )


def _read_with_gtsam(lines: PoseLines) -> tuple[gtsam.NonlinearFactorGraph, gtsam.Values]:
    """GTSAM reads a copy of the checked lines: in 2D it reads no edge of a file with a comment or a FIX line."""
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
    return graph, values


def _gtsam_reader(lines: PoseLines, path: str) -> tuple[gtsam.NonlinearFactorGraph, gtsam.Values]:
    if lines.format == "g2o":
        return gtsam.readG2o(path, lines.dimension == 3)
    return gtsam.load3D(path) if lines.dimension == 3 else gtsam.load2D(path)


def _measurements(graph: gtsam.NonlinearFactorGraph) -> list[Any]:
    factors: list[Any] = [graph.at(k) for k in range(graph.size())]
    return [factor.measured() for factor in factors]


def _inverse_traces(matrices: Array) -> Array:
    """tr(M^-1) of symmetric matrices (m, k, k); infinite where one is singular."""
    with np.errstate(divide="ignore"):
        return (1 / np.linalg.eigvalsh(matrices)).sum(axis=1)


def _chordal_weights(lines: PoseLines) -> tuple[Array, Array]:
    """kappa and tau of the edges, (m,)."""
    d = lines.dimension
    information = lines.information
    tau = d / _inverse_traces(information[:, :d, :d])
    kappa = 3 / (2 * _inverse_traces(information[:, 3:, 3:])) if d == 3 else information[:, 2, 2]
    bad = np.flatnonzero(~((kappa > 0) & (tau > 0) & np.isfinite(kappa + tau)))
    if len(bad):
        raise DatasetError(
            f"{lines.path}, {lines.edge_name(int(bad[0]))}: the chordal weights are not positive; use cost='geodesic'."
        )
    return kappa, tau


def _chordal_graph(measured: gtsam.NonlinearFactorGraph, lines: PoseLines) -> gtsam.NonlinearFactorGraph:
    """Frobenius factors with the measurements of the between factors and the weights kappa and tau."""
    d = lines.dimension
    factor_type: Any = gtsam.FrobeniusBetweenFactorPose3 if d == 3 else gtsam.FrobeniusBetweenFactorPose2
    models: dict[tuple[float, float], Any] = {}
    result = gtsam.NonlinearFactorGraph()
    edges = zip(lines.ids, _measurements(measured), *_chordal_weights(lines), strict=True)
    for (i, j), pose, kappa, tau in edges:
        weights = (float(kappa), float(tau))
        if weights not in models:
            sigmas = 1 / np.sqrt(2 * np.repeat(weights, [d * (d + 1), d + 1]))  # column by column
            models[weights] = gtsam.noiseModel.Diagonal.Sigmas(sigmas)
        result.add(factor_type(i, j, pose, models[weights]))
    return result


def _with_start(
    lines: PoseLines, graph: gtsam.NonlinearFactorGraph, measured: gtsam.NonlinearFactorGraph, values: gtsam.Values
) -> PoseGraphFile:
    """The file with a value for every key of the graph."""
    needed = {key for k in range(measured.size()) for key in measured.at(k).keys()}
    initial = gtsam.Values(values)
    unused = lines.vertices - needed
    for key in unused:
        initial.erase(key)
    if unused:
        _warn(f"{lines.path}: {len(unused)} vertices, the first is {min(unused)}, have no edge; they are left out.")
    missing = {key for pair in lines.ids for key in pair} - lines.vertices
    start, has_values = "values of the file", not missing
    if missing:
        lack = f"the file lacks {len(missing)} of {len(needed)} values"
        if lines.landmarks:
            start = f"odometry and first sightings as gtsam.load2D chains them ({lack})"
        else:
            start = f"odometry along a spanning tree ({lack})"
            initial = spanning_tree_values(lines.ids, _measurements(measured))
    return PoseGraphFile(lines.path, lines.dimension, graph, initial, start, has_values, measured)


def spanning_tree_values(ids: Sequence[tuple[int, int]], relative: Sequence[Any]) -> gtsam.Values:
    """Values that follow from relative poses along a spanning tree of each component, first keys at the origin.

    Edges between successive keys, which usually are odometry, are taken first.
    """
    from scipy.sparse.csgraph import breadth_first_order, connected_components, minimum_spanning_tree

    keys = np.unique(np.array(ids, dtype=np.uint64))
    ends = np.searchsorted(keys, np.array(ids, dtype=np.uint64))
    order: Mapping[tuple[int, int], int] = {}
    for k, (i, j) in enumerate(ends.tolist()):
        order.setdefault((min(i, j), max(i, j)), k)
    chosen = np.array(list(order.values()))
    lower, upper = ends[chosen].min(axis=1), ends[chosen].max(axis=1)
    weights = np.where(upper - lower == 1, 1.0, 2.0)
    tree = minimum_spanning_tree(sp.coo_array((weights, (lower, upper)), shape=(len(keys),) * 2).tocsr())
    values = gtsam.Values()
    for root in np.unique(connected_components(tree, directed=False)[1], return_index=True)[1]:
        poses: dict[int, Any] = {int(root): type(relative[0])()}
        visited, before = breadth_first_order(tree, root, directed=False)
        for node in visited[1:].tolist():
            parent = int(before[node])
            k = order[min(parent, node), max(parent, node)]
            step = relative[k] if int(ends[k, 0]) == parent else relative[k].inverse()
            poses[node] = poses[parent].compose(step)
        for node, pose in poses.items():
            values.insert(int(keys[node]), pose)
    return values
