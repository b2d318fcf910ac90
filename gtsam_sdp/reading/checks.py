"""Checks of what was read, with messages that name factors and keys."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from numbers import Real

import gtsam
import numpy as np

from gtsam_sdp.errors import InvalidGraphError, SuspiciousInputWarning, format_key
from gtsam_sdp.factors.families import ADAPTERS
from gtsam_sdp.factors.registry import FactorGroup
from gtsam_sdp.linalg.array import Array
from gtsam_sdp.reading.table import FactorTable
from gtsam_sdp.tolerances import MANIFOLD_TOLERANCE
from gtsam_sdp.values.layout import Layout


def check_types(graph: object, values: object) -> None:
    """Raises InvalidGraphError when the arguments are not a NonlinearFactorGraph and a Values."""
    if not isinstance(graph, gtsam.NonlinearFactorGraph):
        raise InvalidGraphError(f"graph must be a gtsam.NonlinearFactorGraph, not {type(graph).__name__}.")
    if not isinstance(values, gtsam.Values):
        raise InvalidGraphError(
            f"values must be a gtsam.Values (the result of an optimizer), not {type(values).__name__}."
        )


def check_tolerance(tolerance: object) -> None:
    """Raises ValueError for what is no positive number."""
    if isinstance(tolerance, bool) or not isinstance(tolerance, Real) or not 0 < float(tolerance) < math.inf:
        raise ValueError(f"tolerance must be a positive number, not {tolerance!r}.")


def check_finite_values(layout: Layout, estimate: Array) -> None:
    """Raises InvalidGraphError where values are not finite."""
    bad = np.flatnonzero(~np.isfinite(estimate).all(axis=1))
    if len(bad):
        keys = [int(layout.keys[n]) for n in dict.fromkeys(layout.row_variable[bad].tolist())]
        raise InvalidGraphError(
            f"The values of {some_keys(keys)} are not finite. Optimise from a finite start, or repair them."
        )


def on_manifold(layout: Layout, estimate: Array) -> Array:
    """The estimate with rotations put back on SO(d), and unit vectors on the sphere; refuses what is neither."""
    for group in layout.groups:
        refined, off = group.block.refine(estimate[group.rows], layout.space)
        bad = np.flatnonzero(off > MANIFOLD_TOLERANCE)
        if len(bad):
            keys = layout.keys[layout.row_variable[group.starts[bad]]].tolist()
            where = f"off SO({layout.space.dimension})" if group.block.is_frame else "off length 1"
            raise InvalidGraphError(
                f"The values of {some_keys(keys)} hold {group.block.lapse} ({where} by {off.max():.1e}). Normalise "
                "them (gtsam.Rot3.normalized), then optimise and certify."
            )
        estimate[group.rows] = refined
    return estimate


def check_finite_costs(table: FactorTable, costs: Array) -> None:
    """Raises InvalidGraphError where a factor has no finite cost at the values."""
    bad = np.flatnonzero(~np.isfinite(costs))
    if len(bad):
        name = table.types[int(bad[0])]
        hard = name.startswith("NonlinearEquality")
        what = "is violated by the values" if hard else "has a cost that is not finite at the values"
        advice = "Certify values that satisfy it." if hard else "Its measurement or its noise may not be finite."
        if name.startswith("Bearing"):
            advice = f"The landmark may be exactly where the pose is, which has no bearing; move it. {advice}"
        raise InvalidGraphError(f"{table.name(int(bad[0]))} {what}. {advice}")


def warn_of_unit_noise(groups: Sequence[FactorGroup]) -> None:
    """Warns where GTSAM may have replaced a noise model by unit noise."""
    for group in groups:
        dimension = ADAPTERS[group.type_name].unit_dimension
        if dimension is None or group.information.shape[1] != dimension:
            continue
        unit = [f for f in group.factors if f.noiseModel().isUnit()]
        if unit:
            warnings.warn(
                f"{len(unit)} {group.type_name} have unit noise. GTSAM silently replaces anisotropic noise models of "
                f"the tangent dimension by unit noise of dimension {dimension}; the certificate is for what the "
                f"factors hold. Pass a model of dimension {dimension} if unit noise was not meant.",
                SuspiciousInputWarning,
                stacklevel=5,
            )


def some_keys(keys: Sequence[int]) -> str:
    """The first keys of a list, by name, and how many more there are."""
    named = ", ".join(format_key(k) for k in keys[:5])
    return f"{named} and {len(keys) - 5} more keys" if len(keys) > 5 else named
