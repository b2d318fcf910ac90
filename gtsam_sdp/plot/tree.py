"""A picture of the clique tree."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gtsam_sdp.linalg.array import Array
from gtsam_sdp.plot.axes import make_axes, variable_name
from gtsam_sdp.values.layout import Layout

if TYPE_CHECKING:
    from gtsam_sdp.relaxation.tree import CliqueTree

_MOST_NAMED = 40
"""Cliques up to which their variables are written into the picture."""

_DEEPEST_NAMED = 20
"""Depth of trees up to which this is done: more names stand on each other."""


def plot_tree(tree: CliqueTree, layout: Layout | None = None, ax: Any = None) -> Any:
    """The clique tree, roots at the top; a clique's area is its number of variables.

    Args:
        tree: the cliques.
        layout: rows of the variables, to name the frontal keys of small trees.
        ax: matplotlib axes; None: new ones.

    Returns:
        The axes.
    """
    ax = make_axes(ax)
    from matplotlib.ticker import MaxNLocator

    depth = tree.depths
    x = _spread(tree)
    parents = np.array([clique.parent for clique in tree.cliques], dtype=np.intp)
    below = np.flatnonzero(parents >= 0)
    above = parents[below]
    gap = np.full(len(below), np.nan)
    ax.plot(
        np.column_stack([x[below], x[above], gap]).ravel(),
        -np.column_stack([depth[below], depth[above], gap]).ravel(),
        color="0.7",
        linewidth=0.8,
        zorder=1,
    )
    few = len(tree.cliques) <= _MOST_NAMED
    area = (200 if few else 60) * tree.sizes / max(tree.sizes.max(initial=1), 10 if few else 1)
    dots = ax.scatter(x, -depth, s=area, c=tree.sizes, cmap="viridis_r", edgecolors="none", zorder=2)
    if len(set(tree.sizes.tolist())) > 1:
        ax.figure.colorbar(dots, ax=ax, label="variables in the clique", ticks=MaxNLocator(integer=True))
    if layout is not None and few and tree.depth <= _DEEPEST_NAMED:
        for k, clique in enumerate(tree.cliques):
            names = ", ".join(variable_name(v, layout) for v in clique.frontals)
            ax.annotate(names, (x[k], -depth[k]), xytext=(6, 0), textcoords="offset points", va="center", fontsize=8)
    ax.set_ylabel("depth")
    ax.set_xticks([])
    ax.yaxis.get_major_locator().set_params(integer=True)
    ax.yaxis.set_major_formatter(lambda value, _: f"{abs(value):.0f}")
    ax.set_title(f"{len(tree.cliques)} cliques, largest {tree.sizes.max(initial=0)} variables")
    return ax


def _spread(tree: CliqueTree) -> Array:
    """Horizontal places: leaves side by side in the order of the tree, others in the middle of their children."""
    children: list[list[int]] = [[] for _ in tree.cliques]
    for k, clique in enumerate(tree.cliques):
        if clique.parent >= 0:
            children[clique.parent].append(k)
    x = np.zeros(len(tree.cliques))
    leaves = 0
    waiting = [k for k, clique in reversed(list(enumerate(tree.cliques))) if clique.parent < 0]
    while waiting:
        k = waiting.pop()
        if not children[k]:
            x[k] = leaves
            leaves += 1
        waiting.extend(reversed(children[k]))
    for k in range(len(x) - 1, -1, -1):
        if children[k]:
            x[k] = np.mean(x[children[k]])
    return x
