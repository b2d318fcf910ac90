"""How the rows of a lifted problem hang together: components, rows that no term touches, translations free to shift."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gtsam_sdp.linalg.array import Array
from gtsam_sdp.linalg.components import label_components
from gtsam_sdp.linalg.sums import exact_sum
from gtsam_sdp.terms.terms import Terms
from gtsam_sdp.values.layout import Layout

NONE = -1


def translation_rows(layout: Layout) -> Array:
    """Whether a raw row belongs to a translation or vector, (raw,)."""
    return layout.is_free


def _links(terms: Sequence[Terms]) -> tuple[Array, Array]:
    """Pairs of raw rows that share a term: its first row with each other one."""
    ends: list[Array] = [np.zeros((0, 2), dtype=np.intp)]
    for batch in terms:
        rows = batch.first_rows
        ends.extend(rows[:, [0, column]] for column in range(1, rows.shape[1]))
    pairs = np.concatenate(ends)
    return pairs[:, 0], pairs[:, 1]


def _translation_links(terms: Sequence[Terms]) -> tuple[Array, Array]:
    """Pairs of translation rows that meet in one row of a term's points."""
    ends: list[Array] = [np.zeros((0, 2), dtype=np.intp)]
    for batch in terms:
        for columns in _involved(batch):
            ends.extend(batch.translations[:, [columns[0], column]] for column in columns[1:])
    pairs = np.concatenate(ends)
    return pairs[:, 0], pairs[:, 1]


def _points(batch: Terms) -> Array:
    """The points of a batch in which translations take part."""
    return np.flatnonzero(_uses(batch).any(axis=1))


def _involved(batch: Terms) -> list[Array]:
    """For each point in which translations take part, the columns of those that do."""
    return [np.flatnonzero(row) for row in _uses(batch) if row.any()]


def _uses(batch: Terms) -> Array:
    """Whether a translation takes part in a point for any of the factors, (q, t)."""
    if not batch.combination.size:
        return np.zeros((0, 0), dtype=bool)
    return np.abs(batch.combination).reshape(-1, *batch.combination.shape[-2:]).max(axis=0) > 0


def components(layout: Layout, terms: Sequence[Terms], turned: Array, fixed: Array) -> tuple[Array, Array]:
    """Component of every raw row, and the first row of each component's reference frame.

    Components without any rotation get -1: their translations are counted from the origin.
    """
    first, second = _links(terms)
    world_links = np.concatenate([turned, fixed, *(_first_rows(b) for b in terms if b.offset is not None)]).astype(
        np.intp
    )
    first = np.concatenate([first, np.arange(layout.size), world_links])
    second = np.concatenate([second, layout.starts_of_rows, np.full(len(world_links), max(layout.world, 0))])
    label = label_components(layout.size, first, second)
    # the world frame first, if there is one
    blocks = np.append(layout.world, layout.blocks[:-1]) if layout.world >= 0 else layout.blocks
    blocks = blocks[~np.isin(blocks, turned)]
    labels, where = np.unique(label[blocks], return_index=True)
    references = blocks[where]
    known = np.full(label.max() + 1, NONE)
    known[labels] = np.arange(len(labels))
    return known[label], references


def lone_directions(layout: Layout, terms: Sequence[Terms], component: Array) -> Array:
    """The row of one direction in each part of the graph that no frame belongs to, which may be turned freely."""
    own = layout.direction[layout.direction >= 0]
    own = own[component[own] == NONE]
    if not len(own):
        return own
    first, second = _links(terms)
    first, second = np.append(first, np.arange(layout.size)), np.append(second, layout.starts_of_rows)
    _, where = np.unique(label_components(layout.size, first, second)[own], return_index=True)
    return own[where]


def _first_rows(batch: Terms) -> Array:
    rows = batch.first_rows
    return rows[:, 0] if rows.shape[1] else np.zeros(0, dtype=np.intp)


def touched_rows(layout: Layout, terms: Sequence[Terms]) -> Array:
    """Whether a raw row takes part in a term with a weight, (raw,)."""
    touched = np.zeros(layout.size, dtype=bool)
    count = layout.space.rows
    for batch in terms:
        weights = np.abs(batch.matrix) if batch.distances is None else np.abs(batch.distances.square)
        active = weights.max(axis=2, initial=0.0) > 0
        whole = batch.whole_rows(count)
        turning = whole.shape[1]
        touched[whole[active[:, :turning]]] = True
        moved = ((active[:, turning:, None]) & (batch.combination != 0)).any(axis=1)
        touched[batch.translations[moved]] = True
    for group in layout.groups:
        touched[group.rows] = touched[group.rows].any(axis=1, keepdims=True)
    return touched


def _exact_row_sums(combination: Array) -> Array:
    """Sums of the last axis, zero only if they are: two numbers are rounded to zero only if they cancel."""
    if combination.shape[-1] <= 2:
        return combination.sum(axis=-1)
    return np.apply_along_axis(exact_sum, -1, combination)


def anchors(layout: Layout, terms: Sequence[Terms], fixed: Array) -> Array:
    """For each translation that may be shifted together with others at no cost, the first of them; else -1, (raw,)."""
    label = label_components(layout.size, *_translation_links(terms))
    held = np.zeros(label.max() + 1, dtype=bool)
    held[label[fixed]] = True
    for batch in terms:
        sums = np.abs(_exact_row_sums(batch.combination)) * np.ones((len(batch.factor), 1))
        for point, columns in zip(_points(batch), _involved(batch), strict=True):
            held[label[batch.translations[sums[:, point] > 0, columns[0]]]] = True
    rows = np.flatnonzero(translation_rows(layout))
    free = rows[~held[label[rows]]]
    _, first, which = np.unique(label[free], return_index=True, return_inverse=True)
    anchor = np.full(layout.size, NONE)
    anchor[free] = free[first][which]
    return anchor
