"""Coordinates of the lifted problem: which rows of Y are unknowns, and relative to what translations are counted.

Entries of Y that belong to translations are as large as the map, while costs are about differences of neighbours:
in plain coordinates a bound would drown in cancellation. A translation row is therefore counted from its value at
the estimate, as seen from a reference frame (the world, or one rotation of its component):

    t_i = t'_i + a_i R_reference        (rows; a_i constant)

This is an exact change of variables, t' is zero at the estimate, and only differences a_j - a_i enter the cost.
Variables with hard values are substituted by multiples of the world frame. See docs/maths/, section 3.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from gtsam_sdp.errors import InvalidGraphError, format_key
from gtsam_sdp.factors.families import ADAPTERS
from gtsam_sdp.lift.structure import NONE, anchors, components, touched_rows, translation_rows
from gtsam_sdp.linalg.array import Array
from gtsam_sdp.linalg.bounded import Bounded, Entries
from gtsam_sdp.reading.graph import Reading
from gtsam_sdp.remedies import Advice, Remedy
from gtsam_sdp.terms.terms import Terms
from gtsam_sdp.tolerances import FIXED_VALUE_TOLERANCE
from gtsam_sdp.values.layout import Layout


class Expansion(NamedTuple):
    """Local rows of m terms as combinations of raw rows: X = coefficients @ Y[rows].

    Rows that are no unknowns (hard or anchored translations) count as zero.

    Attributes:
        rows: (m, s).
        coefficients: (m, r, s).
    """

    rows: Array
    coefficients: Bounded


@dataclass(frozen=True)
class Coordinates:
    """A choice of unknowns for the rows of a layout.

    Attributes:
        layout: the rows before any substitution ("raw" rows).
        kept: raw rows that are unknowns, (n,).
        reference: first raw row of the frame that a translation row is counted from, or -1, (raw,).
        shift: a_i: raw row i = unknown i + shift_i @ rows of its reference, (raw, rows).
        turned: first raw rows of rotation blocks with hard values, (h,).
        turns: these blocks are turns @ the world's rows, (h, rows, rows).
        references: first raw rows of one reference frame for each component, (c,).
        component: component of each raw row, (raw,), as an index into `references`; -1 for none.
        anchor: the translation row that another one is counted from too, (raw,), or -1. Where they may be shifted
            together at no cost it is held at zero and no unknown.
        border: what a proof treats apart with each reference: first raw row of a second frame, and a translation row,
            (c, 2), -1 for none.
    """

    layout: Layout
    kept: Array
    reference: Array
    shift: Array
    turned: Array
    turns: Array
    references: Array
    component: Array
    anchor: Array
    border: Array

    @property
    def size(self) -> int:
        """Number of unknown rows."""
        return len(self.kept)

    @cached_property
    def position(self) -> Array:
        """Place of each raw row among the unknowns, -1 for rows that are none, (raw,)."""
        position = np.full(self.layout.size, NONE)
        position[self.kept] = np.arange(len(self.kept))
        return position

    def entries(self, terms: Terms) -> Entries:
        """Entries of the terms' matrices in these coordinates, and the sizes of the numbers behind them."""
        if self._turns(terms.rotations)[1] is not None:
            rows, coefficients = self.expansion(terms)
            form = terms.form.sandwich(coefficients)
        elif terms.combination.shape[-2]:
            more, points = self._points(terms)
            rows = np.concatenate([terms.whole_rows(self.layout.space.rows), more], axis=1)
            form = terms.form.apply(_substituted, points)
        else:
            rows, form = terms.whole_rows(self.layout.space.rows), terms.form
        return Entries.of_blocks(self.position[rows], form)

    def expansion(self, terms: Terms) -> Expansion:
        """Local rows of the terms as combinations of raw rows in these coordinates."""
        count = self.layout.space.rows
        local, points = terms.matrix.shape[1], terms.combination.shape[-2]
        turning = local - points
        starts, turns = self._turns(terms.rotations)
        rotation_rows = terms.whole_rows(count, starts)
        more, moved = self._points(terms)
        expansion = np.zeros((len(terms.factor), local, turning + more.shape[1]), dtype=terms.matrix.dtype)
        expansion[:, :turning, :turning] = np.eye(turning)
        if turns is not None:
            for slot in range(starts.shape[1]):
                at = slice(slot * count, (slot + 1) * count)
                expansion[:, at, at] = turns[:, slot]
        coefficients = Bounded.of(expansion)
        coefficients[:, turning:, turning:] = moved
        return Expansion(np.concatenate([rotation_rows, more], axis=1), coefficients)

    def _points(self, terms: Terms) -> tuple[Array, Bounded]:
        """Rows of translations and references, (m, s), and points as combinations of them, (m, q, s)."""
        parts = self._carried(terms)
        for of_world in (False, True) if self.layout.world >= 0 else (False,):
            reference, arms = self._arms(terms, of_world)
            if arms.magnitude.any():
                parts.append((reference[:, None] + np.arange(self.layout.space.rows), arms))
        rows, points = zip(*parts, strict=True)
        return np.concatenate(rows, axis=1), Bounded.concatenate(points, axis=2)

    def _carried(self, terms: Terms) -> list[tuple[Array, Bounded]]:
        """Rows of translations and their coefficients, apart those that carry others, (m, 1) and (m, q, 1).

        Differences of rows that are counted from the same one do not hold it.
        """
        combination = np.broadcast_to(terms.combination, (len(terms.factor), *terms.combination.shape[-2:]))
        carriers = self.border[:, 1][self.border[:, 1] >= 0]
        if not len(carriers) or not terms.translations.shape[1]:
            return [(terms.translations, Bounded.of(combination))]
        rows = terms.translations
        own = np.isin(rows, carriers)
        carrier = np.where(own, rows, np.where(np.isin(self.anchor[rows], carriers), self.anchor[rows], NONE))
        parts = np.where((carrier >= 0)[:, None, :], combination, 0)
        total = parts.sum(axis=2, keepdims=True)
        whole = np.isin(parts, (-1, 0, 1)).all()
        sizes = np.abs(total) if whole else np.abs(parts).sum(axis=2, keepdims=True)
        row = np.maximum(carrier.max(axis=1, keepdims=True), 0)
        return [(rows, Bounded.of(np.where(own[:, None, :], 0, combination))), (row, Bounded(total, sizes))]

    def _arms(self, terms: Terms, of_world: bool) -> tuple[Array, Bounded]:
        """Reference row of each term, (m,); coefficients of its rows in the points, (m, q, rows).

        Those of translations counted from the world frame, with the terms' offsets, or of the others. A sum of two
        numbers is rounded relative to itself; where more take part, or a coefficient is not 1 or -1, the size is that
        of the numbers before they cancel.
        """
        of_rows, world = self.reference[terms.translations], self.layout.world
        chosen = (of_rows == world) == of_world if world >= 0 else np.full(of_rows.shape, not of_world)
        reference = np.where(chosen, of_rows, NONE).max(axis=1, initial=world if of_world else NONE)
        shifts = np.where(chosen[:, :, None], self.shift[terms.translations], 0)
        arms = terms.combination @ shifts
        involved = np.count_nonzero(terms.combination, axis=-1).max(initial=0)
        units = np.isin(terms.combination, (-1, 0, 1)).all() and involved <= 2
        sizes = np.abs(arms) if units else np.abs(terms.combination) @ np.abs(shifts)
        if of_world and terms.offset is not None:
            arms = arms - terms.offset
            sizes = np.abs(arms) if units and involved <= 1 else sizes + np.abs(terms.offset)
        return np.maximum(reference, 0), Bounded(arms, sizes)

    def _turns(self, rotations: Array) -> tuple[Array, Array | None]:
        """Blocks to use in place of hard ones: first rows (m, a), and matrices (m, a, rows, rows) in front of them."""
        if not len(self.turned) or not rotations.shape[1]:
            return rotations, None
        place = np.full(self.layout.size, NONE)
        place[self.turned] = np.arange(len(self.turned))
        hard = place[rotations]
        identity = np.eye(self.layout.space.rows, dtype=self.turns.dtype)
        turns = np.where((hard >= 0)[:, :, None, None], self.turns[hard], identity)
        return np.where(hard >= 0, self.layout.world, rotations), turns

    def reduce(self, lifted: Array) -> Array:
        """Unknowns of a raw matrix Y, (n, rows); moved so that the anchored translations are at zero."""
        moved = lifted.astype(self.layout.space.dtype, copy=True)
        at = np.flatnonzero(self.reference >= 0)
        moved[at] -= self._reference_rows(lifted, at)
        held = np.flatnonzero(self.anchor >= 0)
        moved[held] -= moved[self.anchor[held]]
        return moved[self.kept]

    def expand(self, unknowns: Array) -> Array:
        """Raw matrix Y of unknowns, (raw, rows)."""
        count = self.layout.space.rows
        lifted = np.zeros((self.layout.size, count), dtype=self.layout.space.dtype)
        lifted[self.kept] = unknowns
        counted = np.flatnonzero(self.anchor >= 0)
        lifted[counted] += lifted[self.anchor[counted]]
        if len(self.turned):
            world = lifted[self.layout.world : self.layout.world + count]
            lifted[self.turned[:, None] + np.arange(count)] = self.turns @ world
        at = np.flatnonzero(self.reference >= 0)
        lifted[at] += self._reference_rows(lifted, at)
        return lifted

    def _reference_rows(self, lifted: Array, at: Array) -> Array:
        frames = lifted[self.reference[at][:, None] + np.arange(self.layout.space.rows)]
        return (self.shift[at][:, None, :] @ frames)[:, 0]


def _substituted(matrices: Array, points: Array) -> Array:
    """Hermitian matrices whose last q rows and columns are replaced by combinations: (m, r, r), (m, q, s)."""
    turning = matrices.shape[1] - points.shape[1]
    size = turning + points.shape[2]
    result = np.empty((len(matrices), size, size), dtype=np.result_type(matrices, points))
    result[:, :turning, :turning] = matrices[:, :turning, :turning]
    cross = _products(matrices[:, :turning, turning:], points)
    result[:, :turning, turning:] = cross
    result[:, turning:, :turning] = cross.conj().swapaxes(1, 2)
    inner = _products(matrices[:, turning:, turning:], points)
    result[:, turning:, turning:] = _products(points.conj().swapaxes(1, 2), inner)
    return result


def _products(left: Array, right: Array) -> Array:
    """Products of many small matrices; by columns and rows where that is all there is."""
    return left * right if right.shape[1] == 1 else left @ right


@dataclass(frozen=True)
class _Hard:
    """Hard values of the raw rows: rotation blocks and translation rows."""

    turned: Array
    turns: Array
    rows: Array
    positions: Array


def plain_coordinates(reading: Reading) -> Coordinates:
    """Every variable's own rows, without those that have hard values."""
    layout = reading.layout
    hard = _hard_values(reading)
    reference = np.full(layout.size, NONE)
    shift = np.zeros((layout.size, layout.space.rows), dtype=layout.space.dtype)
    reference[hard.rows] = layout.world
    shift[hard.rows] = hard.positions
    kept = _without(layout, hard)
    none = np.zeros(0, dtype=np.intp)
    nowhere = np.full(layout.size, NONE)
    nothing = np.zeros((0, 2), dtype=np.intp)
    return Coordinates(layout, kept, reference, shift, hard.turned, hard.turns, none, nowhere, nowhere, nothing)


def centred_coordinates(reading: Reading, terms: Sequence[Terms], *, inside: bool = False) -> Coordinates:
    """Translations counted from the estimate, one of them anchored in each component that can be shifted freely.

    Args:
        reading: the graph at the estimate.
        terms: of its factors.
        inside: count from a pose in place of the world frame, which weak factors may hold: the proof then treats
            apart that pose, and the world frame with it.

    Raises:
        InvalidGraphError: a key that no term constrains, unless the reading drops what has no term.
    """
    layout = reading.layout
    hard = _hard_values(reading)
    component, references = components(layout, terms, hard.turned, hard.rows)
    is_translation = translation_rows(layout)
    touched = touched_rows(layout, terms)
    anchor = anchors(layout, terms, hard.rows)
    touched[references[:, None] + np.arange(layout.space.rows)] = True
    kept = _without(layout, hard)
    free = kept[~touched[kept]]
    if len(free) and not reading.drops:
        _raise_free(layout, free)
    kept = np.setdiff1d(kept[touched[kept]], np.unique(anchor))
    border = np.full((len(references), 2), NONE)
    if inside and layout.world >= 0:
        own = np.flatnonzero(references == layout.world)
        places = _inside(layout, terms, kept[component[kept] == own[0]]) if len(own) else None
        if places is not None:
            references, border[own[0]] = references.copy(), places[1]
            references[own[0]] = places[0]
            carried = kept[(component[kept] == own[0]) & is_translation[kept] & (kept != places[1][1])]
            anchor[carried[anchor[carried] < 0]] = places[1][1]
    frame = np.where(component >= 0, references[component], NONE) if len(references) else component
    reference = np.where(is_translation, frame, NONE)
    reference[hard.rows] = layout.world
    shift = np.zeros((layout.size, layout.space.rows), dtype=layout.space.dtype)
    at = np.flatnonzero(reference >= 0)
    frames = reading.estimate[reference[at][:, None] + np.arange(layout.space.rows)]
    shift[at] = (reading.estimate[at][:, None, :] @ frames.conj().swapaxes(1, 2))[:, 0]
    shift[hard.rows] = hard.positions
    return Coordinates(layout, kept, reference, shift, hard.turned, hard.turns, references, component, anchor, border)


def _inside(layout: Layout, terms: Sequence[Terms], rows: Array) -> tuple[int, tuple[int, int]]:
    """The frame to count from in the world's component, and what else the proof treats apart with it.

    The variable with the largest weights: its rotation if one has any, the world frame, and its position.

    Args:
        layout: the raw rows.
        terms: of the factors.
        rows: raw rows of the component that are unknowns.
    """
    weight = np.zeros(layout.size)
    for batch in terms:
        sizes = np.abs(batch.matrix).sum(axis=2)
        turning = sizes.shape[1] - batch.combination.shape[-2]
        count = layout.space.rows
        for slot in range(batch.rotations.shape[1]):
            np.add.at(weight, batch.rotations[:, slot], sizes[:, slot * count : (slot + 1) * count].sum(axis=1))
        moved = (np.abs(batch.combination) * sizes[:, turning:, None]).sum(axis=1)
        np.add.at(weight, batch.translations, moved)
    blocks = np.intersect1d(rows, layout.blocks)
    blocks = blocks[blocks != layout.world]
    if len(blocks):
        first = int(blocks[np.argmax(weight[blocks])])
        position = int(layout.translation[layout.row_variable[first]])
        return first, (layout.world, position if position in rows else NONE)
    positions = rows[layout.is_free[rows]]
    return layout.world, (NONE, int(positions[np.argmax(weight[positions])]) if len(positions) else NONE)


def _hard_values(reading: Reading) -> _Hard:
    """Hard values by raw row; every one has to agree with the estimate, so that they cannot contradict each other."""
    layout, count = reading.layout, reading.layout.space.rows
    turned: dict[int, Array] = {}
    rows: dict[int, Array] = {}
    for group in reading.hard:
        fix = ADAPTERS[group.type_name].fix
        assert fix is not None
        fixed = fix(group, layout, reading.estimate)
        for k, number in enumerate(group.numbers[:, 0]):
            if fixed.rotations is not None:
                start = int(layout.rotation[number])
                turned[start] = fixed.rotations[k].T
                _check_hard(reading, group.index[k], turned[start] - reading.estimate[start : start + count])
            if fixed.translations is not None:
                start = int(layout.translation[number])
                for place, position in enumerate(fixed.translations[k]):
                    rows[start + place] = position
                    _check_hard(reading, group.index[k], position - reading.estimate[start + place])
    return _Hard(
        turned=np.array(list(turned), dtype=np.intp),
        turns=np.array(list(turned.values())).reshape(-1, count, count),
        rows=np.array(list(rows), dtype=np.intp),
        positions=np.array(list(rows.values())).reshape(-1, count),
    )


def _check_hard(reading: Reading, index: int, difference: Array) -> None:
    scale = 1.0 + float(np.abs(reading.estimate).max())
    if np.abs(difference).max() > FIXED_VALUE_TOLERANCE * scale:
        position = int(np.searchsorted(reading.table.index, index))
        raise InvalidGraphError(
            f"The values violate the hard {reading.table.name(position)} by {np.abs(difference).max():.2g}. "
            "Optimise first, or remove the hard constraint that contradicts another one."
        )


def _without(layout: Layout, hard: _Hard) -> Array:
    kept = np.ones(layout.size, dtype=bool)
    kept[hard.rows] = False
    if len(hard.turned):
        kept[hard.turned[:, None] + np.arange(layout.space.rows)] = False
    return np.flatnonzero(kept)


def _raise_free(layout: Layout, free: Array) -> None:
    number = int(layout.row_variable[free[0]])
    what = layout.block_name(int(free[0]))
    keys = list(dict.fromkeys(layout.row_variable[free].tolist()))
    more = f" ({len(keys)} such keys)" if len(keys) > 1 else ""
    what = (
        f"No factor constrains the {what} of {format_key(int(layout.keys[number]))}{more}, or their noise models give "
        "it no weight that a bound can use. Add a factor that does, or pass "
    )
    raise InvalidGraphError(Advice(what, Remedy.DROP, " to leave it out of the bound."))
