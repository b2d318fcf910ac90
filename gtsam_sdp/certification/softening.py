"""The same graph with less weight on what is very stiff: a bound of it is a bound of the graph (docs/maths/, 3.7).

Where weights differ by many decades the rounding of the large ones swallows what the small ones prove. A factor with
less weight never costs more, and at an optimum a stiff factor costs next to nothing at any large weight.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from gtsam_sdp.factors.families import ADAPTERS
from gtsam_sdp.factors.fitted import FittedGroup
from gtsam_sdp.factors.registry import FactorGroup
from gtsam_sdp.factors.weights import smallest_eigenvalue, symmetric
from gtsam_sdp.linalg.array import Array
from gtsam_sdp.reading.graph import Reading

CAPS = (1e6, 1e4, 1e2)
"""Largest weights, relative to the usual ones, that are tried."""

_SPARE = 1e-9
"""Share of the weights that is given up, so that what is taken away is positive definite beyond rounding."""


def softened(reading: Reading, *, touching: bool) -> Iterator[tuple[float, Reading]]:
    """Readings with smaller and smaller largest weights, and these relative to the usual ones.

    With `touching` what is cut off counts by its tangent at the values, where terms allow it, and not as nothing.
    """
    largest = largest_ratio(reading)
    for cap in CAPS:
        if cap < largest:
            yield cap, _cut(reading, cap, touching)


def largest_ratio(reading: Reading) -> float:
    """The largest weight relative to the usual ones."""
    usual = _usual_weights(reading)
    members = [*reading.groups, *reading.fitted]
    ratios = [_ratios(group.information, usual[group.information.shape[1]]) for group in members]
    return max((float(ratio.max(initial=0.0)) for ratio in ratios), default=0.0)


def _cut(reading: Reading, cap: float, touching: bool) -> Reading:
    """The reading with no weight, or curvature, above `cap` times the usual ones."""
    usual = _usual_weights(reading)

    def capped(group: FactorGroup | FittedGroup) -> Array:
        return _capped(group.information, cap * usual[group.information.shape[1]])

    groups = [
        replace(group, kept=capped(group))
        if touching and ADAPTERS[group.type_name].bends
        else replace(group, information=capped(group))
        for group in reading.groups
    ]
    fitted = [replace(group, information=capped(group)) for group in reading.fitted]
    return replace(reading, groups=groups, fitted=fitted)


def _usual_weights(reading: Reading) -> dict[int, Array]:
    """For each noise dimension the median weights of the softest axis of rotation and translation, (k,)."""
    diagonals: dict[int, list[Array]] = {}
    for group in [*reading.groups, *reading.fitted]:
        diagonal = np.einsum("kii->ki", group.information)
        diagonals.setdefault(diagonal.shape[1], []).append(diagonal)
    usual = {}
    for size, found in diagonals.items():
        median = np.median(np.concatenate(found), axis=0)
        for block in _blocks(size, reading.layout.space.dimension):
            median[block] = median[block].min()
        usual[size] = np.where(median > 0, median, np.inf)
    return usual


def _blocks(size: int, dimension: int) -> Sequence[slice]:
    """Axes of one unit: rotation and translation of a pose in GTSAM's order, or all of them."""
    if size == 6 and dimension == 3:
        return slice(0, 3), slice(3, 6)
    if size == 3 and dimension == 2:
        return slice(0, 2), slice(2, 3)
    return (slice(0, size),)


def _ratios(information: Array, usual: Array) -> Array:
    """Largest weight of each factor relative to the usual ones, (m,)."""
    scale = 1 / np.sqrt(usual)
    return np.linalg.eigvalsh(information * scale[:, None] * scale)[:, -1]


def _capped(information: Array, largest: Array) -> Array:
    """Matrices below L and below diag(largest), (m, k, k): L's own axes with smaller weights, or L times a number."""
    size = len(largest)
    diagonal = np.einsum("kii->ki", information)
    if not (information - diagonal[:, :, None] * np.eye(size)).any():
        return np.minimum(diagonal, largest)[:, :, None] * np.eye(size)
    root = np.where(np.isfinite(largest), np.sqrt(largest), 0.0)
    safe = np.where(root > 0, root, 1.0)
    eigenvalues, axes = np.linalg.eigh(information / safe[:, None] / safe)
    kept = (1 - _SPARE) * np.minimum(eigenvalues, 1.0)
    capped = symmetric((axes * kept[:, None, :]) @ axes.swapaxes(1, 2)) * safe[:, None] * safe
    rest = (information - capped) / safe[:, None] / safe
    sound = smallest_eigenvalue(symmetric(rest), 2 * eigenvalues[:, -1]) >= 0
    scale = 1 / np.maximum(eigenvalues[:, -1] * (1 + _SPARE), 1.0)
    return np.where(sound[:, None, None], capped, scale[:, None, None] * information)
