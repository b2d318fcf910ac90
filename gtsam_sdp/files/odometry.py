"""Values that follow from the measurements of a file, where it has none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import gtsam
import numpy as np
import scipy
from scipy.sparse.csgraph import breadth_first_order, connected_components, minimum_spanning_tree

from gtsam_sdp.files.priors import Prior
from gtsam_sdp.files.sightings import Sighting
from gtsam_sdp.linalg.array import Array

_UNDECIDED = 1e-6  # relative weight of "no rotation" among moments of positions: decides where they lie on a line


def pose_of(values: gtsam.Values, key: int, dimension: int) -> Any:
    """A pose of the plane or of space."""
    return values.atPose2(key) if dimension == 2 else values.atPose3(key)


def place_landmarks(values: gtsam.Values, sightings: Iterable[Sighting]) -> None:
    """Adds landmarks that have no value where they are first seen; a pose without a value starts at the origin."""
    for sighting in sightings:
        dimension = len(sighting.point)
        if not values.exists(sighting.pose):
            values.insert(sighting.pose, gtsam.Pose2() if dimension == 2 else gtsam.Pose3())
        if not values.exists(sighting.landmark):
            insert_point(values, sighting.landmark, sighting.place(pose_of(values, sighting.pose, dimension)))


def add_poses(
    values: gtsam.Values, ids: Sequence[tuple[int, int]], relative: Sequence[Any], priors: Sequence[Prior] = ()
) -> None:
    """Adds poses that have no value: where edges from those that have lead, the rest along spanning trees.

    Each of these trees is moved as a whole to where its priors are.
    """
    edges: dict[int, list[tuple[int, Any]]] = {}
    for (i, j), step in zip(ids, relative, strict=True):
        edges.setdefault(i, []).append((j, step))
        edges.setdefault(j, []).append((i, step.inverse()))
    front = [key for key in edges if values.exists(key)]
    for i in front:
        for j, step in edges[i]:
            if not values.exists(j):
                values.insert(j, pose_of(values, i, 2 if isinstance(step, gtsam.Pose2) else 3).compose(step))
                front.append(j)
    rest = [k for k, (i, _) in enumerate(ids) if not values.exists(i)]
    values.insert(spanning_tree_values([ids[k] for k in rest], [relative[k] for k in rest], priors))


def place_by_priors(values: gtsam.Values, priors: Iterable[Prior]) -> None:
    """Adds what has no value but a prior, where the prior is."""
    for prior in priors:
        if values.exists(prior.key):
            continue
        if prior.kind == "landmark":
            insert_point(values, prior.key, prior.measured)
        else:
            values.insert(prior.key, prior.pose)


def insert_point(values: gtsam.Values, key: int, place: Array) -> None:
    """Adds a landmark; in space as the `Point3` that GTSAM's own readers add (Python has no such call for Point2)."""
    if len(place) == 3:
        values.insertPoint3(key, place)
    else:
        values.insert(key, place)


def spanning_tree_values(
    ids: Sequence[tuple[int, int]], relative: Sequence[Any], priors: Sequence[Prior] = ()
) -> gtsam.Values:
    """Values that follow from relative poses along a spanning tree of each component, first keys at the origin.

    Edges between successive keys, which usually are odometry, are taken first. Where a component has priors, it is
    moved to its strongest prior of a whole pose, or else to where its measured positions fit best.
    """
    if not ids:
        return gtsam.Values()
    keys = np.unique(np.array(ids, dtype=np.uint64))
    ends = np.searchsorted(keys, np.array(ids, dtype=np.uint64))
    order: Mapping[tuple[int, int], int] = {}
    for k, (i, j) in enumerate(ends.tolist()):
        order.setdefault((min(i, j), max(i, j)), k)
    chosen = np.array(list(order.values()))
    lower, upper = ends[chosen].min(axis=1), ends[chosen].max(axis=1)
    weights = np.where(upper - lower == 1, 1.0, 2.0)
    tree = minimum_spanning_tree(scipy.sparse.coo_array((weights, (lower, upper)), shape=(len(keys),) * 2).tocsr())
    values = gtsam.Values()
    for root in np.unique(connected_components(tree, directed=False)[1], return_index=True)[1]:
        poses: dict[int, Any] = {int(root): type(relative[0])()}
        visited, before = breadth_first_order(tree, root, directed=False)
        for node in visited[1:].tolist():
            parent = int(before[node])
            k = order[min(parent, node), max(parent, node)]
            step = relative[k] if int(ends[k, 0]) == parent else relative[k].inverse()
            poses[node] = poses[parent].compose(step)
        component = {int(keys[node]): pose for node, pose in poses.items()}
        move = _move_to(component, [prior for prior in priors if prior.key in component])
        for key, pose in component.items():
            values.insert(key, pose if move is None else move.compose(pose))
    return values


def _move_to(poses: Mapping[int, Any], priors: Sequence[Prior]) -> Any:
    """The rigid motion of the world that takes poses to their priors; None without priors."""
    if not priors:
        return None
    whole = [prior for prior in priors if prior.kind == "pose"]
    if whole:
        strongest = max(whole, key=lambda prior: float(np.linalg.eigvalsh(prior.information)[0]))
        return strongest.measured.compose(poses[strongest.key].inverse())
    here = np.array([poses[prior.key].translation() for prior in priors])
    there = np.array([prior.position for prior in priors])
    turn = _best_turn(here - here.mean(axis=0), there - there.mean(axis=0))
    shift = there.mean(axis=0) - turn @ here.mean(axis=0)
    if len(shift) == 2:
        return gtsam.Pose2(shift[0], shift[1], np.arctan2(turn[1, 0], turn[0, 0]))
    return gtsam.Pose3(gtsam.Rot3(turn), shift)


def _best_turn(here: Array, there: Array) -> Array:
    """The rotation (d, d) with the least sum |there - R here|^2, points (n, d); about directions left free, none."""
    moments = there.T @ here
    moments = moments + _UNDECIDED * np.linalg.norm(moments) * np.eye(here.shape[1])
    left, sizes, right = np.linalg.svd(moments)
    if not sizes[0] > 0:
        return np.eye(here.shape[1])
    signs = np.ones(len(sizes))
    signs[-1] = np.sign(np.linalg.det(left @ right))
    return left @ (signs[:, None] * right)
