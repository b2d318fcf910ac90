"""Lines and markers of pictures of poses: colours by share, thin sight lines, landmarks and beacons."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np

from gtsam_sdp.linalg.array import Array
from gtsam_sdp.plot.axes import FAINT

Share = Literal["cost", "gap"]

_FEW_POSES = 200
"""Poses up to which each one gets a dot."""

_DECADES = 3
"""Most decades of shares that the colours tell apart, below the largest one."""

LEAST = 1e-6
"""Largest share that still counts as none: what is below it is rounding."""

_SPREAD = 2.0
"""Least ratio of the ends of the colours: shares that differ by less look the same."""

_PALEST = 0.25
"""Where the colours begin on matplotlib's scale: what is below can hardly be seen on white."""


class Edges(NamedTuple):
    """Lines between positions that a factor joins, (e, 2, d), places of its factor, (e,), and of its ends, (e, 2)."""

    lines: Array
    factor: Array
    ends: Array


def dimension_of(ax: Any) -> int:
    """Of the space that axes show."""
    return 3 if ax.name == "3d" else 2


def colours(share: Array) -> tuple[Any, Any]:
    """Colour map and scale, from the smaller shares to the largest one."""
    import matplotlib as mpl
    from matplotlib.colors import LinearSegmentedColormap, LogNorm

    scale = mpl.colormaps["viridis_r"](np.linspace(_PALEST, 1, 256))
    largest = max(float(share.max(initial=0.0)), LEAST)
    told = share[share > largest * 10.0**-_DECADES]
    lowest = np.quantile(told, 0.05) if len(told) and largest > LEAST else largest * 10.0**-_DECADES
    norm = LogNorm(min(lowest, largest / _SPREAD), largest, clip=True)
    return LinearSegmentedColormap.from_list("share", list(scale)), norm


def draw_shares(ax: Any, path: Edges, sights: Edges, share: Array, by: Share) -> None:
    """Lines coloured by share, the largest on top; squares for factors on one position."""
    from matplotlib.ticker import FuncFormatter, LogLocator

    cmap, norm = colours(share[np.concatenate([path.factor, sights.factor])])
    shares = share[path.factor]
    order = np.argsort(shares, kind="stable")
    lines, shares = path.lines[order], shares[order]
    shown = draw_lines(ax, lines, array=shares, cmap=cmap, norm=norm, zorder=2)
    if len(sights.lines):
        draw_lines(
            ax,
            sights.lines,
            array=share[sights.factor],
            cmap=cmap,
            norm=norm,
            zorder=2,
            linewidths=1.2,
            label="stand out",
        )
    alone = (lines[:, 0] == lines[:, 1]).all(axis=1)
    if alone.any():
        ax.scatter(*lines[alone, 0].T, c=shares[alone], cmap=cmap, norm=norm, marker="s", s=40, zorder=3)
    bar = ax.figure.colorbar(
        shown, ax=ax, label=f"share of the {by}", shrink=0.8, pad=0.12 if dimension_of(ax) == 3 else 0.05
    )
    bar.ax.yaxis.set_major_locator(LogLocator(subs=(1.0,) if norm.vmax > 100 * norm.vmin else (1.0, 2.0, 5.0)))
    bar.ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:.2g}%"))
    bar.ax.minorticks_off()


def name_markers(ax: Any) -> None:
    """A legend in one line below the numbers and the name of the x axis, whatever the height of the axes."""
    from matplotlib.transforms import ScaledTranslation

    below = ax.transAxes + ScaledTranslation(0, -0.5, ax.figure.dpi_scale_trans)
    ax.legend(loc="upper left", bbox_to_anchor=(0, 0), bbox_transform=below, ncol=4, frameon=False, borderaxespad=0)


def draw_sights(ax: Any, lines: Array) -> None:
    """Thin, pale lines below all others."""
    if len(lines):
        draw_lines(ax, lines, colors=FAINT, zorder=1, linewidths=0.3, label="sight lines")


def draw_lines(ax: Any, lines: Array, **style: Any) -> Any:
    """Lines, (e, 2, d), thinner where there are many, unless the style says how wide."""
    from matplotlib.collections import LineCollection
    from mpl_toolkits.mplot3d.art3d import Line3DCollection

    kind: Any = LineCollection if dimension_of(ax) == 2 else Line3DCollection
    width = 2.0 if len(lines) <= 2 * _FEW_POSES else 0.6
    return ax.add_collection(kind(lines, **{"linewidths": width, **style}))


_MARKERS = {"pose": ("o", 14, "poses"), "landmark": ("+", 30, "landmarks"), "beacon": ("^", 60, "beacons")}
"""Marker, its size and its name of what stands at positions."""


def draw_places(ax: Any, places: Array, sorts: Array, color: str, *, named: bool = True) -> None:
    """Markers, with names for a legend; many poses are told by their lines."""
    for sort, (marker, size, name) in _MARKERS.items():
        there = places[sorts == sort]
        if len(there) and (sort != "pose" or len(there) <= _FEW_POSES):
            label = {"label": f"{len(there)} {name if len(there) > 1 else sort}"} if named else {}
            width = 1.0 if marker == "+" else 0.0
            ax.scatter(*there.T, s=size, marker=marker, color=color, zorder=4, linewidths=width, **label)
