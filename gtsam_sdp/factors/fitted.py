"""Terms of factors whose error was found to be linear in rotations and positions (docs/maths/, section 2.7)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from gtsam_sdp.factors.axes import rows_of, vector_terms
from gtsam_sdp.factors.probing import Fit, Signature, Slots
from gtsam_sdp.factors.registry import Lifting, world_numbers
from gtsam_sdp.factors.weights import axis_weights, give_up
from gtsam_sdp.linalg.array import Array
from gtsam_sdp.linalg.bounded import Bounded, rounding_error
from gtsam_sdp.linalg.real import real_entries
from gtsam_sdp.terms.entrywise import Entrywise
from gtsam_sdp.terms.terms import Exactness, Terms
from gtsam_sdp.values.layout import Layout
from gtsam_sdp.values.space import Space

_SAME = 1e-12
"""Relative difference of coefficients up to which errors count as whole vectors; it is charged to the term."""


@dataclass(frozen=True)
class FittedGroup:
    """Factors of one signature whose errors are linear: error = coefficients @ entries + constant.

    Attributes:
        type_names: class names in GTSAM, m of them.
        index: places in the graph, (m,).
        numbers: numbers of their variables in the layout, (m, s).
        information: W, (m, k, k).
        signature: kinds of the keys.
        space: the plane or space.
        fit: the coefficients.
        vectors: B of residual vectors R m, c t and w if the errors are such vectors, or None.
    """

    type_names: Sequence[str]
    index: Array
    numbers: Array
    information: Array
    signature: Signature
    space: Space
    fit: Fit
    vectors: Vectors | None

    @property
    def absolute(self) -> bool:
        """Whether the terms need the world frame."""
        if self.vectors is None or self.fit.constant.any():
            return True
        weights = axis_weights(self.information, self.space.dimension)
        return bool((weights.exactness != int(Exactness.EXACT)).any())

    def build(self, lifting: Lifting) -> Terms:
        """The terms; fits are off by a little."""
        error = self.fit.error if self.vectors is None else self.fit.error + self.vectors.off
        whitened = np.sum(error * np.sqrt(np.einsum("kii->ki", self.information)), axis=1)
        kept, given_up = give_up(whitened)
        information = kept * self.information
        terms = (
            _numbers(self, information, given_up, lifting)
            if self.vectors is None
            else _vectors(self, self.vectors, information, given_up, lifting)
        )
        return _inflated(terms, self.fit.inflation)


@dataclass(frozen=True)
class Vectors:
    """Errors as residual vectors: r = turning @ (rows of rotations) + moving @ (rows of positions) + constant.

    Attributes:
        turning: (m, q, rows of rotations).
        moving: (m, q, rows of positions).
        off: by how much the entries differ from this, (m, k).
    """

    turning: Array
    moving: Array
    off: Array

    def select(self, at: Array) -> Vectors:
        """The vectors of some factors."""
        return Vectors(self.turning[at], self.moving[at], self.off[at])


def find_vectors(fit: Fit, slots: Slots, space: Space, chosen: Array) -> tuple[Vectors, Array] | None:
    """Which of the chosen fits are residual vectors in the world frame, and their coefficients."""
    d = space.dimension
    size = fit.coefficients.shape[1]
    coefficients, slots = _padded(fit.coefficients, slots, d)
    count, rows, columns = coefficients.shape
    whole = rows % d == 0 and columns % d == 0 and (slots.part == np.tile(np.arange(d), columns // d)).all()
    if not whole:
        return None
    blocks = coefficients.reshape(count, rows // d, d, columns // d, d)
    if d == 3:
        common = np.einsum("kqara->kqr", blocks) / 3
        rebuilt = np.einsum("kqr,ab->kqarb", common, np.eye(3))
    else:
        real = (blocks[:, :, 0, :, 0] + blocks[:, :, 1, :, 1]) / 2
        imaginary = (blocks[:, :, 1, :, 0] - blocks[:, :, 0, :, 1]) / 2
        common = real + 1j * imaginary
        rebuilt = np.stack(
            [np.stack([real, -imaginary], axis=-1), np.stack([imaginary, real], axis=-1)], axis=2
        )  # (m, q, 2, rows, 2)
    turns = slots.turns.reshape(-1, d)[:, 0]
    difference = np.abs(blocks - rebuilt)
    turning = difference[:, :, :, turns].sum(axis=(3, 4)).reshape(count, rows)[:, :size]
    moving = difference[:, :, :, ~turns].max(axis=(1, 2, 3, 4), initial=0.0)
    largest = np.abs(fit.coefficients).max(axis=(1, 2))
    largest_moving = np.abs(coefficients[:, :, ~slots.turns]).max(axis=(1, 2), initial=0)
    known = rounding_error(4 * fit.inflation, largest_moving)
    same = chosen & (turning.max(axis=1) <= _SAME * largest) & (moving <= known)
    return Vectors(common[:, :, turns], common[:, :, ~turns], turning), same


def _padded(coefficients: Array, slots: Slots, d: int) -> tuple[Array, Slots]:
    """Errors that are about vectors of as many numbers as themselves, padded like these to whole rows of d numbers.

    A vector's padding is zero, so that its coefficients are free: those of the row's first number, on the diagonal.
    """
    count, size, columns = coefficients.shape
    alike = not slots.turns.any() and (np.bincount(slots.key) == size).all()
    if not alike or size % d == 0:
        return coefficients, slots
    keys, wide = columns // size, -(-size // d) * d
    padded = np.zeros((count, wide, keys, wide))
    padded[:, :size, :, :size] = coefficients.reshape(count, size, keys, size)
    first = wide - d
    for number in range(size, wide):
        padded[:, number, :, number] = padded[:, first, :, first]
    key, number = np.divmod(np.arange(keys * wide), wide)
    row, part = np.divmod(number, d)
    return padded.reshape(count, wide, -1), Slots(key, np.zeros(len(key), dtype=bool), row, part)


def _rows(group: FittedGroup, layout: Layout) -> tuple[Array, Array]:
    """First rows of the rotations of a group's keys, (m, a), and rows of their positions, (m, t)."""
    d = layout.space.dimension
    turning: list[Array] = []
    moving: list[Array] = []
    for slot, (kind, length) in enumerate(zip(group.signature.kinds, group.signature.lengths, strict=True)):
        numbers = group.numbers[:, slot]
        if kind.rotates:
            turning.append(layout.rotation[numbers])
        if kind.translates:
            moving += [layout.translation[numbers] + row for row in range(-(-(length or d) // d))]
    count = len(group.index)
    empty = np.zeros((count, 0), dtype=np.intp)
    return (
        np.stack(turning, axis=1) if turning else empty,
        np.stack(moving, axis=1) if moving else empty,
    )


def _vectors(group: FittedGroup, vectors: Vectors, information: Array, given_up: Array, lifting: Lifting) -> Terms:
    """Residual vectors with noise along the axes of the world."""
    space = lifting.layout.space
    rotations, translations = _rows(group, lifting.layout)
    count, q, _ = vectors.turning.shape
    moving = vectors.moving if np.abs(np.imag(vectors.moving)).any() else vectors.moving.real
    constant = space.pack(group.fit.constant)
    weights = axis_weights(information, space.dimension)
    blank = Terms(
        factor=group.index,
        rotations=rotations,
        translations=translations,
        combination=moving,
        offset=-constant if np.abs(constant).any() else None,
        matrix=np.zeros(0),
        constant=given_up,
        exactness=weights.exactness,
    )
    points = np.broadcast_to(np.eye(q), (count, q, q))
    return vector_terms(blank, np.concatenate([vectors.turning, points], axis=2), weights, lifting)


def _numbers(group: FittedGroup, information: Array, given_up: Array, lifting: Lifting) -> Terms:
    """Numbers s = E vec(X): 1/2 s^T W s >= a . s - 1/2 a . s^ with a = W s^; the whole cost is kept for entries."""
    layout, space = lifting.layout, lifting.layout.space
    d, count = space.dimension, len(group.index)
    world = layout.rotation_rows(world_numbers(count))[:, None]
    own, translations = _rows(group, layout)
    rotations = np.concatenate([own, world], axis=1)
    form = _functional(group, own.shape[1] * space.rows, translations.shape[1], space)
    combination, functional, at = form.combination, form.entries, form.world
    blank = Terms(
        factor=group.index,
        rotations=rotations,
        translations=translations if combination.shape[-2] else translations[:, :0],
        combination=combination,
        offset=form.offset if form.offset.any() else None,
        matrix=np.zeros(0),
        constant=given_up,
        exactness=np.full(count, int(Exactness.TANGENT)),
    )
    size = functional.shape[2] // d
    matrix = Bounded.of(np.zeros((count, size, size), dtype=space.dtype))
    constant = given_up.copy()
    if not lifting.at_measurements:
        local = blank.local_rows(lifting.estimate, layout.world)
        entries = real_entries(local).reshape(count, -1)
        s = np.einsum("kie,ke->ki", functional, entries)
        slope = Bounded.of(information).apply(lambda matrix, x: np.einsum("kij,kj->ki", matrix, x), s)
        gradient = slope.apply(lambda x, f: np.einsum("kie,ki->ke", f, x).reshape(count, size, d), functional)
        gradient[:, at] = 0.0  # the constant, which is one of the world's rows here
        rows = slice(at, at + space.rows)
        across = rows_of(gradient, space) * 0.5
        matrix[:, rows] += across.H
        matrix[:, :, rows] += across
        constant += np.sum(slope.value * (form.fixed - s / 2), axis=1)
        constant -= rounding_error(16, np.sum(slope.magnitude * (np.abs(form.fixed) + np.abs(s)), axis=1))
    whole = Entrywise.of_numbers(Bounded.of(functional), information, given_up)
    return replace(blank, matrix=matrix.value, magnitude=matrix.magnitude, constant=constant, entrywise=whole)


@dataclass(frozen=True)
class _Functional:
    """Numbers s = entries @ vec(X), X = (rotations, world, points p = combination @ positions - offset @ world).

    Each number and each of the d parts has a point of its own, where differences of positions can cancel.

    Attributes:
        combination: (m, p, t).
        offset: (m, p, rows).
        entries: E, (m, k, d r).
        world: the world's first local row.
        fixed: constants that are in E, on an entry of the world, and not in the points' offsets, (m, k).
    """

    combination: Array
    offset: Array
    entries: Array
    world: int
    fixed: Array


def _functional(group: FittedGroup, turning: int, moving: int, space: Space) -> _Functional:
    """The errors of a group as numbers."""
    d = space.dimension
    slots = Slots.build(group.signature, space)
    coefficients = group.fit.coefficients
    count, size, _ = coefficients.shape
    at, first = turning, turning + space.rows
    row_of = _place_of_rows(slots)
    parts = np.zeros((count, size, d, moving))
    moved = np.flatnonzero(~slots.turns)
    parts[:, :, slots.part[moved], row_of[moved]] = coefficients[:, :, moved]
    used = np.argwhere(parts.any(axis=(0, 3)))
    combination = np.stack([parts[:, i, a] for i, a in used], axis=1) if len(used) else np.zeros((0, 0))
    functional = np.zeros((count, size, d * (first + len(used))))
    turned = np.flatnonzero(slots.turns)
    functional[:, :, row_of[turned] * d + slots.part[turned]] = coefficients[:, :, turned]
    fixed = group.fit.constant.copy()
    offset = np.zeros((count, len(used), d))
    for place, (i, a) in enumerate(used):
        functional[:, i, (first + place) * d + a] = 1.0
        offset[:, place, a] = -fixed[:, i]
        fixed[:, i] = 0.0
    functional[:, :, at * d] = fixed
    return _Functional(combination, space.vectors(offset), functional, at, fixed)


def _place_of_rows(slots: Slots) -> Array:
    """Place of each entry's row among all rows of rotations, or among all rows of positions."""
    place = np.zeros(len(slots.key), dtype=np.intp)
    for turns in (True, False):
        chosen = np.flatnonzero(slots.turns == turns)
        named = np.stack([slots.key[chosen], slots.row[chosen]], axis=1)
        place[chosen] = np.unique(named, axis=0, return_inverse=True)[1].ravel()
    return place


def _inflated(terms: Terms, inflation: Array) -> Terms:
    """Terms whose entries are granted larger errors."""
    if (inflation == 1).all():
        return terms
    wide = inflation[:, None, None]
    entrywise = terms.entrywise
    if entrywise is not None:
        entrywise = entrywise._replace(form=Bounded(entrywise.form.value, entrywise.form.magnitude * wide))
    return replace(terms, magnitude=terms.form.magnitude * wide, entrywise=entrywise)
