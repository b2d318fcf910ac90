"""Positions from ranges to known ones: a linear least squares problem for each position that only ranges hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gtsam_sdp.lift.structure import touched_rows, translation_rows
from gtsam_sdp.linalg.array import Array
from gtsam_sdp.reading.graph import Reading
from gtsam_sdp.terms.terms import Terms


class _Sightings(NamedTuple):
    """Ranges r, (m,), with weights, (m,), from centres, (m, d), to positions by row, (m,)."""

    row: Array
    centre: Array
    measured: Array
    weight: Array


def placed_by_ranges(reading: Reading, terms: Sequence[Terms], lifted: Array) -> Array:
    """Y with positions that only ranges hold moved to where these meet, if that is a better place for them.

    |l - c|^2 = r^2 is linear in l and |l|^2, which is taken for one more unknown (Caffery, "A new approach to the
    geometry of TOA location", VTC 2000). Ranges between two such positions are left out.

    Args:
        reading: the graph.
        terms: of its factors.
        lifted: Y, (layout.size, rows).
    """
    layout = reading.layout
    held = touched_rows(layout, [batch for batch in terms if batch.distances is None])
    for group in reading.hard:
        held |= np.isin(layout.row_variable, group.numbers)
    loose = translation_rows(layout) & ~held
    parts = [part for batch in terms for part in _sightings(batch, lifted, layout.world, loose)]
    if not parts:
        return lifted
    seen = _Sightings(*(np.concatenate(column) for column in zip(*parts, strict=True)))
    order = np.argsort(seen.row, kind="stable")
    moved = lifted.copy()
    for chosen in np.split(order, np.flatnonzero(np.diff(seen.row[order])) + 1):
        own = _Sightings(*(column[chosen] for column in seen))
        at = int(own.row[0])
        place = _meeting_point(own)
        if _misfit(own, place) < _misfit(own, _real(moved[at : at + 1])[0]):
            moved[at] = layout.space.vectors(place)
    return moved


def _sightings(batch: Terms, lifted: Array, world: int, loose: Array) -> list[_Sightings]:
    """Ranges of a batch between a loose position and one that is not; one part for each column of translations."""
    distances = batch.distances
    if distances is None or batch.combination.shape != (1, 2):
        return []
    # the residual's coefficients: those of the translations are 1
    coefficients = distances.square[:, -1, :] / np.where(distances.weight > 0, distances.weight, 1.0)[:, None]
    residual = (coefficients[:, None, :] @ batch.local_rows(lifted, world))[:, 0]
    parts = []
    for column in (0, 1):
        row, other = batch.translations[:, column], batch.translations[:, 1 - column]
        chosen = np.flatnonzero(distances.movable & loose[row] & ~loose[other])
        if len(chosen):
            centre = lifted[row] - residual / batch.combination[0, column]
            parts.append(
                _Sightings(
                    row[chosen], _real(centre[chosen]), distances.measured[chosen], np.sqrt(distances.weight[chosen])
                )
            )
    return parts


def _meeting_point(own: _Sightings) -> Array:
    """(d,)."""
    middle = own.centre.mean(axis=0)
    centre = own.centre - middle
    scale = float(np.abs(centre).max()) or 1.0
    left = np.column_stack([2 * centre, np.full(len(centre), -scale)]) * own.weight[:, None]
    right = ((centre**2).sum(axis=1) - own.measured**2) * own.weight
    return middle + np.linalg.lstsq(left, right, rcond=1e-9)[0][:-1]


def _misfit(own: _Sightings, place: Array) -> float:
    distance = np.linalg.norm(own.centre - place, axis=1)
    return float(((own.weight * (distance - own.measured)) ** 2).sum())


def _real(rows: Array) -> Array:
    """Positions (m, d) of rows (m, 3), or (m, 1) if complex."""
    return np.column_stack([rows.real, rows.imag]) if np.iscomplexobj(rows) else rows
