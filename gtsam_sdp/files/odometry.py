"""Values that follow from the measurements of a file, where it has none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import gtsam
import numpy as np
import scipy

from gtsam_sdp.files.sightings import Sighting
from gtsam_sdp.variables import Array


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


def add_poses(values: gtsam.Values, ids: Sequence[tuple[int, int]], relative: Sequence[Any]) -> None:
    """Adds poses that have no value: where edges from those that have lead, the rest along spanning trees."""
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
    values.insert(spanning_tree_values([ids[k] for k in rest], [relative[k] for k in rest]))


def insert_point(values: gtsam.Values, key: int, place: Array) -> None:
    """Adds a landmark; in space as the `Point3` that GTSAM's own readers add (Python has no such call for Point2)."""
    if len(place) == 3:
        values.insertPoint3(key, place)
    else:
        values.insert(key, place)


def spanning_tree_values(ids: Sequence[tuple[int, int]], relative: Sequence[Any]) -> gtsam.Values:
    """Values that follow from relative poses along a spanning tree of each component, first keys at the origin.

    Edges between successive keys, which usually are odometry, are taken first.
    """
    if not ids:
        return gtsam.Values()
    from scipy.sparse.csgraph import breadth_first_order, connected_components, minimum_spanning_tree

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
        for node, pose in poses.items():
            values.insert(int(keys[node]), pose)
    return values
