"""Pictures of poses: which factors cost most, and two solutions over each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import gtsam
import numpy as np

from gtsam_sdp.linalg.array import Array
from gtsam_sdp.plot.axes import BLUE, FAINT, ORANGE, make_axes
from gtsam_sdp.results.notes import percent
from gtsam_sdp.values.vector import Vector

if TYPE_CHECKING:
    from gtsam_sdp.results.certificate import Certificate
    from gtsam_sdp.results.solution import Solution

Share = Literal["cost", "gap"]

_FEW_POSES = 200
"""Poses up to which each one gets a dot."""

_DECADES = 3
"""Decades of shares that the colours tell apart, below the largest one."""

_LEAST = 1e-6
"""Largest share that still counts as none: what is below it is rounding."""

_FLATTEST = 0.3
"""Shortest axis relative to the longest one, so that flat scenes have readable axes."""


class _Edges(NamedTuple):
    """Lines between the positions that a factor joins, (e, 2, d), and the place of each line's factor, (e,)."""

    lines: Array
    factor: Array


def plot_trajectory(
    graph: gtsam.NonlinearFactorGraph,
    values: gtsam.Values,
    certificate: Certificate | Solution | None = None,
    *,
    by: Share = "cost",
    ax: Any = None,
) -> Any:
    """Positions, and a line for each factor between them, coloured by the factor's share.

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
    places = places[:, : _dimension(ax)]
    edges = _edges(_factor_keys(graph), keys, places)
    if judged is None:
        _draw_lines(ax, edges.lines, colors=FAINT, zorder=1)
    else:
        share = _shares(judged, graph.size(), by)
        _draw_shares(ax, edges, share, by)
        ax.set_title(_summary(judged, share, by))
    _draw_places(ax, places, color="0.2")
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
    size = _dimension(ax)
    for number, (k, p, colour) in enumerate(((old_keys, old_places, ORANGE), (keys, places, BLUE))):
        lines = _edges(joined, k, p[:, :size]).lines
        _draw_lines(ax, lines, colors=colour, zorder=1 + number, alpha=0.8, label=names[number])
        _draw_places(ax, p[:, :size], color=colour)
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


def _edges(joined: Sequence[Sequence[int]], keys: Array, places: Array) -> _Edges:
    """Lines between successive positions of each factor's keys; a factor with one position has a line of length 0."""
    flat = np.array([key for each in joined for key in each], dtype=np.uint64)
    factor = np.repeat(np.arange(len(joined)), [len(each) for each in joined])
    known = np.isin(flat, keys)
    flat, factor = flat[known], factor[known]
    at = np.searchsorted(keys, flat)
    meets = np.flatnonzero(factor[1:] == factor[:-1])
    alone = np.flatnonzero(np.bincount(factor, minlength=len(joined))[factor] == 1)
    first, second = np.concatenate([meets, alone]), np.concatenate([meets + 1, alone])
    return _Edges(np.stack([places[at[first]], places[at[second]]], axis=1), factor[first])


def _shares(certificate: Certificate, size: int, by: Share) -> Array:
    """Share of each factor by its place in the graph, (size,)."""
    terms = certificate.terms
    share = np.zeros(size)
    whole = certificate.cost if by == "cost" else certificate.gap
    if whole > 0:
        share[terms.index] = (terms.cost if by == "cost" else terms.contribution) / whole
    return share


def _summary(certificate: Certificate, share: Array, by: Share) -> str:
    """Whether few factors cost most, or what the gap is and how much of it the factors' terms explain."""
    if by == "gap" and not certificate.gap > 0:
        return "no gap"
    if by == "gap":
        gap = percent(certificate.relative_gap)
        return f"gap {gap} of the cost, {100 * share.sum():.0f}% of it in the factors' terms"
    most = np.searchsorted(np.cumsum(np.sort(share)[::-1]), 0.5 * share.sum()) + 1
    half = f": {most} of {len(certificate.terms)} factors make up half of it" if share.any() else ""
    return f"cost {certificate.cost:.6g}{half}"


def _draw_shares(ax: Any, edges: _Edges, share: Array, by: Share) -> None:
    """Lines coloured by share, the largest on top; dots for factors on one position."""
    from matplotlib.colors import LogNorm
    from matplotlib.ticker import FuncFormatter

    largest = share.max(initial=_LEAST)
    norm = LogNorm(largest * 10.0**-_DECADES, largest, clip=True)
    shares = share[edges.factor]
    order = np.argsort(shares, kind="stable")
    lines, shares = edges.lines[order], shares[order]
    shown = _draw_lines(ax, lines, array=shares, cmap="viridis_r", norm=norm, zorder=1)
    alone = (lines[:, 0] == lines[:, 1]).all(axis=1)
    if alone.any():
        ax.scatter(*lines[alone, 0].T, c=shares[alone], cmap="viridis_r", norm=norm, marker="s", s=40, zorder=2)
    bar = ax.figure.colorbar(
        shown, ax=ax, label=f"share of the {by}", shrink=0.8, pad=0.12 if _dimension(ax) == 3 else 0.05
    )
    bar.ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:.2g}%"))
    bar.ax.minorticks_off()


def _draw_lines(ax: Any, lines: Array, **style: Any) -> Any:
    from matplotlib.collections import LineCollection
    from mpl_toolkits.mplot3d.art3d import Line3DCollection

    kind: Any = LineCollection if _dimension(ax) == 2 else Line3DCollection
    width = 2.0 if len(lines) <= 2 * _FEW_POSES else 0.6
    return ax.add_collection(kind(lines, linewidths=width, **style))


def _draw_places(ax: Any, places: Array, color: str) -> None:
    if len(places) <= _FEW_POSES:
        ax.scatter(*places.T, s=14, color=color, zorder=3, linewidths=0)


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


def _dimension(ax: Any) -> int:
    return 3 if ax.name == "3d" else 2


def _finish(ax: Any, places: Array) -> Any:
    """Limits around the places, equal scales, units, few numbers along axes in space."""
    if len(places):
        low, high = places.min(axis=0), places.max(axis=0)
        middle, half = (low + high) / 2, (high - low) / 2
        half = np.maximum(1.1 * half, _FLATTEST * max(float(half.max()), 1e-9))
        for name, start, end in zip("xyz", middle - half, middle + half, strict=False):
            getattr(ax, f"set_{name}lim")(start, end)
    ax.set_aspect("equal")
    for name in "xyz"[: _dimension(ax)]:
        getattr(ax, f"set_{name}label")(f"{name} [m]")
        if _dimension(ax) == 3:
            getattr(ax, f"{name}axis").get_major_locator().set_params(nbins=5)
    if _dimension(ax) == 3:
        ax.zaxis.labelpad = 9  # its numbers may be long
        spans = [end - start for start, end in (ax.get_xlim(), ax.get_ylim(), ax.get_zlim())]
        ax.set_box_aspect(spans, zoom=0.9)  # of the axes: labels outside would be cut off
    return ax
