"""What all pictures share: axes at notebook size, colours, names of variables."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from gtsam_sdp.errors import MatplotlibNotInstalledError, format_key
from gtsam_sdp.results.notes import percent
from gtsam_sdp.values.layout import Layout

if TYPE_CHECKING:
    from gtsam_sdp.results.certificate import Certificate

BLUE, ORANGE, GREY, FAINT = "#0072B2", "#D55E00", "0.45", "0.8"
"""Okabe and Ito's blue and orange, which colour-blind readers can tell apart, and two greys."""


def make_axes(ax: Any, *, figsize: tuple[float, float] = (7, 4), projection: str | None = None) -> Any:
    """The axes given, or new ones.

    Raises:
        MatplotlibNotInstalledError: there are none, and matplotlib is not installed.
    """
    if ax is not None:
        return ax
    try:
        plt = importlib.import_module("matplotlib.pyplot")
    except ImportError as error:
        raise MatplotlibNotInstalledError(
            'Pictures need matplotlib: pip install "gtsam-sdp[plot]", or "gtsam-sdp[notebook]" for Jupyter too.'
        ) from error
    return plt.subplots(figsize=figsize, layout="constrained", subplot_kw={"projection": projection})[1]


def variable_name(variable: int, layout: Layout) -> str:
    """Name of a variable by number; the number of variables stands for the world frame."""
    return "world" if variable == len(layout.keys) else format_key(int(layout.keys[variable]))


def verdict(certificate: Certificate) -> str:
    """What titles conclude: `BOUNDED: a better solution may exist, by up to 85%`."""
    status, gap = certificate.status.name, percent(certificate.relative_gap)
    if status == "INCONCLUSIVE":
        return f"{status}: a better solution may exist, no bound says by how much"
    if certificate.zero_cost:
        return f"{status}: the cost is zero to the digits of the data"
    held = "" if certificate.region is None or certificate.region.is_unconditional else " in its region"
    if status == "BOUNDED":
        return f"{status}: a better solution may exist{held}, by up to {gap}"
    gap = gap if certificate.gap > 0 else "rounding"
    return f"{status}: no solution{held} is better by more than {gap}"
