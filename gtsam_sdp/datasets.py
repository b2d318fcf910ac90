"""Pose-graph files: g2o with the checks that a certificate needs, and the data sets that ship with GTSAM."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import gtsam
import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import breadth_first_order, connected_components, minimum_spanning_tree

from gtsam_sdp.errors import DatasetError, SuspiciousInputWarning
from gtsam_sdp.variables import Array

Cost = Literal["geodesic", "chordal"]

_EDGE_NUMBERS = {"EDGE_SE2": 3 + 6, "EDGE_SE3:QUAT": 7 + 21}
_VERTEX_NUMBERS = {"VERTEX_SE2": 3, "VERTEX_SE3:QUAT": 7}
_IGNORED = {"FIX"}


@dataclass(frozen=True)
class PoseGraphFile:
    """A pose graph read from a file.

    Attributes:
        graph: between factors of the file.
        initial: a value for every key.
        start: where the initial values come from, for people to read.
    """

    graph: gtsam.NonlinearFactorGraph
    initial: gtsam.Values
    start: str


@dataclass(frozen=True)
class _Edges:
    """Edges of a g2o file: vertex numbers, and information matrices (m, k, k), translations first."""

    dimension: int
    ids: Sequence[tuple[int, int]]
    information: Array


def load_g2o(path: str | Path, *, cost: Cost = "geodesic") -> tuple[gtsam.NonlinearFactorGraph, gtsam.Values]:
    """Reads a pose graph in g2o format (VERTEX_SE2, EDGE_SE2, VERTEX_SE3:QUAT, EDGE_SE3:QUAT).

    Args:
        path: the file.
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


def read_pose_graph(path: str | Path, *, cost: Cost = "geodesic") -> PoseGraphFile:
    """As `load_g2o`, and says where the initial values come from."""
    if cost not in ("geodesic", "chordal"):
        raise ValueError(f'cost must be "geodesic" or "chordal", not {cost!r}.')
    path = Path(path)
    edges, vertices = _parse(path)
    _warn_of_information(path, edges)
    graph, values = _read_with_gtsam(path, edges)
    measured = _measurements(graph)
    if cost == "chordal":
        graph = _chordal_graph(measured, edges)
    return _with_start(graph, values, measured, edges, vertices)


def find_dataset(name: str) -> Path:
    """Path of a file, or of a data set that ships with GTSAM by its name (`sphere2500`, `w100`)."""
    path = Path(name)
    if path.exists():
        return path
    try:
        return Path(gtsam.findExampleDataFile(name))
    except RuntimeError:
        raise DatasetError(
            f"There is no file {name}, and GTSAM ships no data set of that name. "
            "Give the path of a g2o file, or a name such as sphere2500, w100, pose3example or noisyToyGraph."
        ) from None


def read_dataset(name: str, *, cost: Cost = "geodesic") -> PoseGraphFile:
    """Reads a g2o file by path, or a data set that ships with GTSAM by name (TORO files too)."""
    path = find_dataset(name)
    tags = {line.split(maxsplit=1)[0] for line in _lines(path) if line.strip()}
    if not tags & {"EDGE2", "VERTEX2", "EDGE3", "VERTEX3", "ODOMETRY"}:
        return read_pose_graph(path, cost=cost)
    if cost == "chordal":
        raise DatasetError(f"{path}: cost='chordal' needs a g2o file; this one is in TORO format.")
    return _read_toro(path, is_3d=bool(tags & {"EDGE3", "VERTEX3"}))


def _lines(path: Path) -> list[str]:
    if not path.exists():
        raise DatasetError(f"There is no file {path}.")
    if path.is_dir():
        raise DatasetError(f"{path} is a folder; give a g2o file in it.")
    try:
        text = path.read_bytes().decode("ascii")
    except UnicodeDecodeError as error:
        raise DatasetError(
            f"{path} is not a g2o text file: byte {error.start} is not ASCII. "
            "Give an uncompressed text file with one vertex or edge a line."
        ) from None
    if not text.strip():
        raise DatasetError(f"{path} is empty.")
    return text.splitlines()


def _parse(path: Path) -> tuple[_Edges, frozenset[int]]:
    """Edges and vertex numbers, every line checked."""
    edge_ids: list[tuple[int, int]] = []
    edge_numbers: list[list[float]] = []
    vertices: dict[int, int] = {}
    kinds: dict[bool, int] = {}
    for number, line in enumerate(_lines(path), start=1):
        words = line.split()
        if not words or words[0].startswith("#") or words[0] in _IGNORED:
            continue
        tag = words[0]
        if tag in _EDGE_NUMBERS:
            ids, numbers = _parse_line(path, number, words, 2, _EDGE_NUMBERS[tag])
            if ids[0] == ids[1]:
                raise DatasetError(f"{path}, line {number}: the edge joins vertex {ids[0]} with itself.")
            edge_ids.append((ids[0], ids[1]))
            edge_numbers.append(numbers)
        elif tag in _VERTEX_NUMBERS:
            ids, numbers = _parse_line(path, number, words, 1, _VERTEX_NUMBERS[tag])
            if ids[0] in vertices:
                raise DatasetError(
                    f"{path}, line {number}: vertex {ids[0]} was given in line {vertices[ids[0]]} before."
                )
            vertices[ids[0]] = number
        else:
            raise DatasetError(
                f"{path}, line {number}: unknown tag {tag[:40]!r}. "
                f"Supported are {', '.join([*_VERTEX_NUMBERS, *_EDGE_NUMBERS])} and FIX."
            )
        is_3d = tag.endswith("QUAT")
        if is_3d:
            quaternion = numbers[3:7]
            if sum(x * x for x in quaternion) < 1e-12:
                raise DatasetError(f"{path}, line {number}: the quaternion is zero.")
        kinds.setdefault(is_3d, number)
    if len(kinds) == 2:
        raise DatasetError(f"{path} mixes 2D (line {kinds[False]}) and 3D (line {kinds[True]}) elements.")
    if not edge_ids:
        raise DatasetError(f"{path} holds no edges: there is nothing to optimise.")
    dimension = 3 if True in kinds else 2
    table = np.array(edge_numbers)
    split = 7 if dimension == 3 else 3
    return _Edges(dimension, edge_ids, _symmetric(table[:, split:])), frozenset(vertices)


def _parse_line(path: Path, number: int, words: list[str], ids: int, count: int) -> tuple[list[int], list[float]]:
    if len(words) != 1 + ids + count:
        raise DatasetError(
            f"{path}, line {number}: {words[0]} needs {ids + count} numbers, this line has {len(words) - 1}. "
            "The file may be truncated."
        )
    try:
        keys = [int(w) for w in words[1 : 1 + ids]]
        numbers = [float(w) for w in words[1 + ids :]]
    except ValueError as error:
        raise DatasetError(f"{path}, line {number}: {error}.") from None
    if any(not 0 <= k < 2**64 for k in keys):
        raise DatasetError(f"{path}, line {number}: a vertex number is not between 0 and 2^64.")
    if not np.isfinite(numbers).all():
        raise DatasetError(f"{path}, line {number}: a number is not finite.")
    return keys, numbers


def _symmetric(upper: Array) -> Array:
    """Upper triangles row by row, (m, k (k + 1) / 2), to matrices (m, k, k)."""
    size = 3 if upper.shape[1] == 6 else 6
    rows, columns = np.triu_indices(size)
    matrices = np.zeros((len(upper), size, size))
    matrices[:, rows, columns] = upper
    matrices[:, columns, rows] = upper
    return matrices


def _warn_of_information(path: Path, edges: _Edges) -> None:
    eigenvalues = np.linalg.eigvalsh(edges.information)
    scale = np.abs(eigenvalues).max(axis=1)
    indefinite = np.flatnonzero(eigenvalues[:, 0] < -1e-9 * scale)
    singular = np.flatnonzero(np.abs(eigenvalues[:, 0]) <= 1e-12 * scale)
    if len(indefinite):
        i, j = edges.ids[indefinite[0]]
        warnings.warn(
            f"{path}: {len(indefinite)} edges (the first joins {i} and {j}) have an indefinite information matrix. "
            "GTSAM factors it into a different one; what it optimises, and what is certified, is the cost of that.",
            SuspiciousInputWarning,
            stacklevel=4,
        )
    if len(singular):
        i, j = edges.ids[singular[0]]
        warnings.warn(
            f"{path}: {len(singular)} edges (the first joins {i} and {j}) have a singular information matrix: "
            "they leave a direction free, and the bound may be weak.",
            SuspiciousInputWarning,
            stacklevel=4,
        )


def _read_with_gtsam(path: Path, edges: _Edges) -> tuple[gtsam.NonlinearFactorGraph, gtsam.Values]:
    try:
        graph, values = gtsam.readG2o(str(path), edges.dimension == 3)
    except RuntimeError as error:
        raise DatasetError(f"{path}: GTSAM cannot read the file: {error}") from error
    found = [tuple(graph.at(k).keys()) for k in range(graph.size())]
    if found != list(edges.ids):
        raise DatasetError(f"{path}: GTSAM reads {len(found)} edges where the file holds {len(edges.ids)}.")
    return graph, values


def _measurements(graph: gtsam.NonlinearFactorGraph) -> list[Any]:
    factors: list[Any] = [graph.at(k) for k in range(graph.size())]
    return [factor.measured() for factor in factors]


def _chordal_graph(measured: Sequence[Any], edges: _Edges) -> gtsam.NonlinearFactorGraph:
    """Frobenius factors with the measurements of the between factors and the weights kappa and tau."""
    d = edges.dimension
    moved = slice(0, d)
    turned = slice(d, None)
    tau = d / np.trace(np.linalg.inv(edges.information[:, moved, moved]), axis1=1, axis2=2)
    if d == 3:
        kappa = 3 / (2 * np.trace(np.linalg.inv(edges.information[:, turned, turned]), axis1=1, axis2=2))
        factor_type: Any = gtsam.FrobeniusBetweenFactorPose3
    else:
        kappa = edges.information[:, 2, 2]
        factor_type = gtsam.FrobeniusBetweenFactorPose2
    if not (np.isfinite(kappa) & np.isfinite(tau) & (kappa > 0) & (tau > 0)).all():
        bad = int(np.flatnonzero(~((kappa > 0) & (tau > 0) & np.isfinite(kappa + tau)))[0])
        raise DatasetError(f"The chordal weights of the edge {edges.ids[bad]} are not positive; use cost='geodesic'.")
    models: dict[tuple[float, float], Any] = {}
    result = gtsam.NonlinearFactorGraph()
    for k, (i, j) in enumerate(edges.ids):
        weights = (float(kappa[k]), float(tau[k]))
        if weights not in models:
            sigmas = 1 / np.sqrt(2 * np.repeat(weights, [d * (d + 1), d + 1]))
            models[weights] = gtsam.noiseModel.Diagonal.Sigmas(sigmas)
        result.add(factor_type(i, j, measured[k], models[weights]))
    return result


def _with_start(
    graph: gtsam.NonlinearFactorGraph,
    values: gtsam.Values,
    measured: Sequence[Any],
    edges: _Edges,
    vertices: frozenset[int],
) -> PoseGraphFile:
    needed = {key for pair in edges.ids for key in pair}
    unused = vertices - needed
    if unused:
        warnings.warn(
            f"{len(unused)} vertices, the first is {min(unused)}, have no edge; they are left out.",
            SuspiciousInputWarning,
            stacklevel=4,
        )
    if needed <= vertices:
        initial = gtsam.Values(values)
        for key in unused:
            initial.erase(key)
        return PoseGraphFile(graph, initial, "values of the file")
    missing = len(needed - vertices)
    start = f"odometry along a spanning tree (the file lacks {missing} of {len(needed)} values)"
    return PoseGraphFile(graph, spanning_tree_values(edges.ids, measured), start)


def spanning_tree_values(ids: Sequence[tuple[int, int]], relative: Sequence[Any]) -> gtsam.Values:
    """Values that follow from relative poses along a spanning tree of each component, first keys at the origin.

    Edges between successive keys, which usually are odometry, are taken first.
    """
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


def _read_toro(path: Path, *, is_3d: bool) -> PoseGraphFile:
    """TORO files (VERTEX2, EDGE2, VERTEX3, EDGE3, ODOMETRY), as GTSAM reads them."""
    try:
        graph, values = gtsam.load3D(str(path)) if is_3d else gtsam.load2D(str(path))
    except (RuntimeError, ValueError) as error:
        raise DatasetError(f"{path}: GTSAM cannot read the file: {error}") from error
    factors = [graph.at(k) for k in range(graph.size())]
    ids = [(keys[0], keys[1]) for keys in (f.keys() for f in factors)]
    needed = {key for pair in ids for key in pair}
    given = set(values.keys())
    initial = gtsam.Values(values)
    for key in given - needed:
        initial.erase(key)
    if needed <= given:
        return PoseGraphFile(graph, initial, "values of the file")
    start = f"odometry along a spanning tree (the file lacks {len(needed - given)} of {len(needed)} values)"
    return PoseGraphFile(graph, spanning_tree_values(ids, _measurements(graph)), start)
