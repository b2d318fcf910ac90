"""Pictures of poses: which factors cost most, and two solutions over each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import gtsam
import numpy as np

from gtsam_sdp.linalg.array import Array
from gtsam_sdp.plot.axes import BLUE, FAINT, ORANGE, make_axes, verdict
from gtsam_sdp.plot.marks import (
    LEAST,
    Edges,
    Share,
    dimension_of,
    draw_lines,
    draw_places,
    draw_shares,
    draw_sights,
    name_markers,
)
from gtsam_sdp.tolerances import SAME_COST
from gtsam_sdp.values.vector import Vector

if TYPE_CHECKING:
    from gtsam_sdp.results.certificate import Certificate
    from gtsam_sdp.results.solution import Solution

_STANDS_OUT = 5.0
"""Times the mean cost or gap of a sight line from which on it gets a colour; of Gaussian noise one in forty has it."""

_MOST_SIGHTS = 20
"""Most sight lines with a colour: more would hide the path."""

_FLATTEST = 0.3
"""Shortest axis relative to the longest one, so that flat scenes have readable axes."""


def plot_trajectory(
    graph: gtsam.NonlinearFactorGraph,
    values: gtsam.Values,
    certificate: Certificate | Solution | None = None,
    *,
    by: Share = "cost",
    ax: Any = None,
) -> Any:
    """Positions, and a line for each factor between them, coloured by the factor's share.

    Lines from poses to landmarks and beacons are thin and pale but for the few whose share stands out.

    Args:
        graph: the graph.
        values: poses, points and vectors of it; what has no position is left out, velocities (keys v0, v1, ...) too.
        certificate: of these values, or the solution that holds it; None: all lines are grey.
        by: "cost": share of the factor in the cost; "gap": what its term adds to the gap, as a share of the gap.
        ax: matplotlib axes; None: new ones, in space for 3D values. 3D values in plane axes are seen from above.

    Returns:
        The axes.

    Raises:
        ValueError: `by` is none of those listed, or the certificate is none, or of another graph.
    """
    if by not in ("cost", "gap"):
        raise ValueError(f'by must be "cost" or "gap", not {by!r}.')
    judged = None if certificate is None else certificate_of(certificate, graph)
    keys, places = positions(values)
    ax = _trajectory_axes(ax, places.shape[1])
    places = places[:, : dimension_of(ax)]
    sorts = sorts_of(graph, values, keys)
    edges = _edges(_factor_keys(graph), keys, places)
    is_sight = _sees(edges, sorts)
    path = _chosen(edges, ~is_sight)
    if judged is None:
        draw_lines(ax, path.lines, colors=FAINT, zorder=2)
        draw_sights(ax, edges.lines[is_sight])
    else:
        share = _shares(judged, graph.size(), by)
        sights = _chosen(edges, is_sight)
        stands_out = _standing_out(share[sights.factor])
        draw_shares(ax, path, _chosen(sights, stands_out), share, by)
        draw_sights(ax, sights.lines[~stands_out])
        ax.set_title(_summary(judged, share, by), fontsize="medium")
    draw_places(ax, places, sorts, color="0.2")
    if is_sight.any():
        name_markers(ax)
    return _finish(ax, places)


def plot_comparison(
    graph: gtsam.NonlinearFactorGraph,
    before: gtsam.Values,
    after: gtsam.Values,
    *,
    names: tuple[str, str] = ("before", "after"),
    align: bool = True,
    ax: Any = None,
) -> Any:
    """Two solutions of a graph over each other.

    Args:
        graph: the graph; factors between successive keys are the lines, or all where there are none.
        before: drawn in orange, below.
        after: drawn in blue.
        names: of the two, for the legend.
        align: move `before` as a whole to where it is closest to `after`: without absolute measurements only the
            shape of a solution means anything.
        ax: as for `plot_trajectory`.

    Returns:
        The axes.
    """
    keys, places = positions(after)
    old_keys, old_places = positions(before)
    ax = _trajectory_axes(ax, places.shape[1])
    if align:
        _, old, new = np.intersect1d(old_keys, keys, return_indices=True)
        old_places = _moved(old_places, old_places[old], places[new])
    known = set(keys.tolist())
    joined = _successive([[key for key in each if key in known] for each in _factor_keys(graph)])
    size = dimension_of(ax)
    for number, (held, k, p, colour) in enumerate(
        ((before, old_keys, old_places, ORANGE), (after, keys, places, BLUE))
    ):
        lines = _edges(joined, k, p[:, :size]).lines
        draw_lines(ax, lines, colors=colour, zorder=1 + number, alpha=0.8, label=names[number])
        draw_places(ax, p[:, :size], sorts_of(graph, held, k), color=colour, named=False)
    ax.set_title(_difference(graph, before, after, names), fontsize="medium")
    ax.legend(loc="upper left", bbox_to_anchor=(1, 1), frameon=False)
    return _finish(ax, np.concatenate([places, old_places])[:, :size])


def positions(values: gtsam.Values) -> tuple[Array, Array]:
    """Keys in increasing order, (p,), and positions [m], (p, d), of poses, points and vectors of d numbers.

    Vectors whose keys are v0, V1, ... are velocities by GTSAM's custom, and left out.
    """
    planar, spatial = gtsam.utilities.allPose2s(values), gtsam.utilities.allPose3s(values)
    d = 3 if spatial.size() else 2 if planar.size() else 0
    poses = spatial if d == 3 else planar
    table = gtsam.utilities.extractPose3(poses)[:, 9:] if d == 3 else gtsam.utilities.extractPose2(poses)[:, :2]
    found = dict(zip(poses.keys(), table.reshape(-1, d or 2), strict=True))
    if len(found) < values.size():
        vectors = {key: v for key in values.keys() if key not in found and (v := _vector(values, key)) is not None}
        d = d or (3 if any(len(v) == 3 for v in vectors.values()) else 2)
        found |= {key: v for key, v in vectors.items() if len(v) == d}
    keys = np.array(sorted(found), dtype=np.uint64)
    return keys, np.array([found[int(k)] for k in keys]).reshape(-1, d or 2)


def sorts_of(graph: gtsam.NonlinearFactorGraph, values: gtsam.Values, keys: Array) -> Array:
    """What stands at each position, (p,): "pose", "beacon" (a point that ranges alone lead to) or "landmark".

    Without poses, points that other factors than ranges join are positions of the robot.
    """
    poses = {*gtsam.utilities.allPose2s(values).keys(), *gtsam.utilities.allPose3s(values).keys()}
    factors: list[Any] = [graph.at(k) for k in range(graph.size())]
    ranged, seen = set[int](), set[int]()
    for factor in factors:
        if factor is not None and len(factor.keys()) > 1:
            (ranged if type(factor).__name__.startswith("Range") else seen).update(factor.keys())
    beacons = ranged - seen - poses
    robot = poses or {*keys.tolist()} - beacons
    names = ["pose" if k in robot else "beacon" if k in beacons else "landmark" for k in keys.tolist()]
    return np.array(names, dtype="<U8")


def certificate_of(given: Certificate | Solution, graph: gtsam.NonlinearFactorGraph) -> Certificate:
    """The certificate, a solution's own where one is given.

    Raises:
        ValueError: it is no certificate, or of another graph.
    """
    from gtsam_sdp.results.certificate import Certificate

    certificate = getattr(given, "certificate", given)
    if not isinstance(certificate, Certificate):
        raise ValueError(f"certificate must be a Certificate or a Solution, not {type(given).__name__}.")
    terms = certificate.terms
    live = {k: tuple(keys) for k, keys in enumerate(_factor_keys(graph)) if keys}
    if dict(zip(terms.index.tolist(), map(terms.keys, range(len(terms))), strict=True)) != live:
        differs = "of other keys" if len(terms) == len(live) else f"{len(terms)}, this graph {len(live)}"
        raise ValueError(
            f"The certificate is of another graph: its factors are {differs}. Give the one of this graph and values."
        )
    return certificate


def _vector(values: gtsam.Values, key: int) -> Array | None:
    if chr(key >> 56) in "vV":
        return None
    try:
        return Vector().at(values, key)
    except RuntimeError:
        return None


def _factor_keys(graph: gtsam.NonlinearFactorGraph) -> list[list[int]]:
    factors: list[Any] = [graph.at(k) for k in range(graph.size())]
    return [factor.keys() if factor is not None else [] for factor in factors]


def _successive(joined: list[list[int]]) -> list[list[int]]:
    """The factors that make a path, odometry for the most part; all if there is no path."""
    return [keys for keys in joined if len(keys) == 2 and abs(keys[0] - keys[1]) == 1] or joined


def _edges(joined: Sequence[Sequence[int]], keys: Array, places: Array) -> Edges:
    """Lines between successive positions of each factor's keys; a factor with one position has a line of length 0."""
    flat = np.array([key for each in joined for key in each], dtype=np.uint64)
    factor = np.repeat(np.arange(len(joined)), [len(each) for each in joined])
    known = np.isin(flat, keys)
    flat, factor = flat[known], factor[known]
    at = np.searchsorted(keys, flat)
    meets = np.flatnonzero(factor[1:] == factor[:-1])
    alone = np.flatnonzero(np.bincount(factor, minlength=len(joined))[factor] == 1)
    first, second = np.concatenate([meets, alone]), np.concatenate([meets + 1, alone])
    ends = np.stack([at[first], at[second]], axis=1)
    return Edges(places[ends], factor[first], ends)


def _chosen(edges: Edges, which: Array) -> Edges:
    return Edges(*(part[which] for part in edges))


def _sees(edges: Edges, sorts: Array) -> Array:
    """Which lines lead from a pose to something else, (e,)."""
    is_pose = sorts[edges.ends] == "pose"
    return is_pose[:, 0] != is_pose[:, 1]


def _standing_out(share: Array) -> Array:
    """Which sight lines have a share far above the others', (s,): a few at most."""
    high = share > max(_STANDS_OUT * share.mean() if len(share) else 0.0, LEAST)
    high[np.argsort(-share, kind="stable")[_MOST_SIGHTS:]] = False
    return high


def _shares(certificate: Certificate, size: int, by: Share) -> Array:
    """Share of each factor by its place in the graph, (size,)."""
    terms = certificate.terms
    share = np.zeros(size)
    whole = certificate.cost if by == "cost" else certificate.gap
    if whole > 0:
        share[terms.index] = (terms.cost if by == "cost" else terms.contribution) / whole
    return share


def _summary(certificate: Certificate, share: Array, by: Share) -> str:
    """The verdict, and below it which factors the cost, or the gap, is in."""
    if by == "gap":
        part = min(float(share.sum()), 1.0)
        where = f"{100 * part:.0f}% of it in the factors' terms" if certificate.gap > 0 else "no gap"
        if part < 0.5 and not certificate and certificate.gap > 0:
            where += "\nthe rest: a wrong minimum, or a bound that is not tight"
    else:
        most = np.searchsorted(np.cumsum(np.sort(share)[::-1]), 0.5 * share.sum()) + 1
        half = f": {most} of {len(certificate.terms)} factors make up half of it" if share.any() else ""
        where = f"cost {certificate.cost:.6g}{half}"
    return f"{verdict(certificate)}\n{where}"


def _difference(
    graph: gtsam.NonlinearFactorGraph, before: gtsam.Values, after: gtsam.Values, names: tuple[str, str]
) -> str:
    """What two solutions cost, where they hold all keys."""
    needed = {key for keys in _factor_keys(graph) for key in keys}
    if not all(values.exists(key) for values in (before, after) for key in needed):
        return f"{names[0]} and {names[1]}"
    old, new = graph.error(before), graph.error(after)
    if abs(new - old) <= SAME_COST * max(old, new):
        return f"both cost {new:.6g}"
    lower, higher, share = (names[1], names[0], 1 - new / old) if new < old else (names[0], names[1], 1 - old / new)
    return f"{lower} costs {100 * share:.3g}% less than {higher}: {min(old, new):.6g} against {max(old, new):.6g}"


def _moved(places: Array, source: Array, target: Array) -> Array:
    """The places after the rigid motion that takes the points `source` closest to `target`, both (n, d)."""
    if not len(source):
        return places
    middle, aim = source.mean(axis=0), target.mean(axis=0)
    left, _, right = np.linalg.svd((target - aim).T @ (source - middle))
    left[:, -1] *= np.linalg.det(left @ right)
    return (places - middle) @ (left @ right).T + aim


def _trajectory_axes(ax: Any, dimension: int) -> Any:
    return make_axes(ax, figsize=(7, 5), projection="3d" if dimension == 3 else None)


def _finish(ax: Any, places: Array) -> Any:
    """Limits around the places, equal scales, units, few numbers along axes in space."""
    if len(places):
        low, high = places.min(axis=0), places.max(axis=0)
        middle, half = (low + high) / 2, (high - low) / 2
        half = np.maximum(1.1 * half, _FLATTEST * max(float(half.max()), 1e-9))
        for name, start, end in zip("xyz", middle - half, middle + half, strict=False):
            getattr(ax, f"set_{name}lim")(start, end)
    ax.set_aspect("equal")
    for name in "xyz"[: dimension_of(ax)]:
        getattr(ax, f"set_{name}label")(f"{name} [m]")
        if dimension_of(ax) == 3:
            getattr(ax, f"{name}axis").get_major_locator().set_params(nbins=5)
    if dimension_of(ax) == 3:
        ax.zaxis.labelpad = 9  # its numbers may be long
        spans = [end - start for start, end in (ax.get_xlim(), ax.get_ylim(), ax.get_zlim())]
        ax.set_box_aspect(spans, zoom=0.9)  # of the axes: labels outside would be cut off
    return ax
