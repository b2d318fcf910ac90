"""A picture of the ladder: how cost and bound met."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gtsam_sdp.linalg.array import Array
from gtsam_sdp.plot.axes import BLUE, FAINT, GREY, ORANGE, make_axes, verdict
from gtsam_sdp.results.notes import percent

if TYPE_CHECKING:
    from gtsam_sdp.results.solution import Solution

_TIP_UP, _TIP_DOWN = 6, 7
"""Markers of matplotlib whose tips are at the point: where cost and bound meet both can be seen."""

_SPREAD = 30.0
"""Ratio of the largest to the smallest number shown above which the axis is logarithmic."""


def plot_stages(solution: Solution, ax: Any = None) -> Any:
    """The lowest cost and the best verified bound against time, each stage of the ladder a strip.

    The tips of the markers are the costs found, from above, and the bounds verified, from below.

    Args:
        solution: what `solve` or `refine` returned.
        ax: matplotlib axes; None: new ones.

    Returns:
        The axes.

    Raises:
        ValueError: what is given has no stages.
    """
    if not hasattr(solution, "stages"):
        raise ValueError(f"plot_stages needs a Solution, of solve or refine, not {type(solution).__name__}.")
    ax = make_axes(ax)
    stages = solution.stages
    ends = np.cumsum([stage.seconds for stage in stages])
    starts = np.concatenate([[0.0], ends[:-1]])
    costs = np.array([stage.cost for stage in stages])
    bounds = np.array([max(stage.lower_bound, 0.0) for stage in stages])
    given = solution.cost + solution.improvement if solution.improvement else np.inf
    best_cost = np.minimum.accumulate(np.minimum(costs, given))
    best_bound = np.maximum.accumulate(bounds)
    _draw_strips(ax, starts, ends, [stage.name for stage in stages])
    for name, best, each, colour, marker in (
        ("cost", best_cost, costs, ORANGE, _TIP_DOWN),
        ("bound", best_bound, bounds, BLUE, _TIP_UP),
    ):
        known = np.isfinite(best)
        ax.step(ends[known], best[known], where="post", color=colour, linewidth=1.5)
        shown = np.isfinite(each) if name == "cost" else each > 0
        ax.scatter(ends[shown], each[shown], color=colour, s=60, marker=marker, zorder=3, label=f"{name} found")
    if np.isfinite(given):
        ax.axhline(given, color=GREY, linestyle=":", linewidth=1, label="cost of the values given")
    _set_scale(ax, np.concatenate([best_cost[np.isfinite(best_cost)], best_bound, [given]]))
    ax.set_xlim(0, ends[-1] * 1.04 if len(ends) else 1)
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.15), ncol=3, frameon=False)
    ax.set_xlabel("time [s]")
    ax.set_ylabel("cost and bound [graph.error]")
    bound, gap = solution.certificate.lower_bound, percent(solution.certificate.relative_gap)
    ax.set_title(
        f"{verdict(solution.certificate)}\ncost {solution.cost:.6g}, bound {bound:.6g}, gap {gap} of the cost",
        loc="left", fontsize="medium",
    )  # fmt: skip
    return ax


def _draw_strips(ax: Any, starts: Array, ends: Array, names: list[str]) -> None:
    """A strip for each stage, with its name where there is room."""
    total = ends[-1] if len(ends) else 1.0
    for number, (start, end, name) in enumerate(zip(starts, ends, names, strict=True)):
        ax.axvspan(start, end, color=FAINT if number % 2 else "0.93", alpha=0.5, linewidth=0, zorder=0)
        if end - start > 0.03 * total:
            ax.text(
                (start + end) / 2, 0.5, name, transform=ax.get_xaxis_transform(),
                rotation=90, ha="center", va="center", fontsize=8, color="0.3",
            )  # fmt: skip


def _set_scale(ax: Any, numbers: Array) -> None:
    positive = numbers[np.isfinite(numbers) & (numbers > 0)]
    if len(positive) and positive.max() > _SPREAD * positive.min():
        ax.set_yscale("log")
        ax.set_ylim(positive.min() / 1.5, positive.max() * 1.5)
        return
    ax.ticklabel_format(useOffset=False)
    if len(positive):
        margin = 0.1 * max(positive.max() - numbers[np.isfinite(numbers)].min(), 1e-3 * positive.max())
        ax.set_ylim(numbers[np.isfinite(numbers)].min() - margin, positive.max() + margin)
