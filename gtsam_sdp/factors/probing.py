"""Reads factors that nobody wrote an adapter for, if their error is linear in rotations and positions.

The error is evaluated at seeded random values, fitted by linear functions of the entries of R and t of its keys, and
the fit is compared with the error at other random values, near and far (docs/maths/, section 2.7).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import gtsam
import numpy as np

from gtsam_sdp.linalg.array import Array
from gtsam_sdp.linalg.bounded import rounding_error
from gtsam_sdp.linalg.stack import stack
from gtsam_sdp.tolerances import PROBING_TOLERANCE
from gtsam_sdp.values.kind import Kind
from gtsam_sdp.values.space import Space

_SEED = 20240229
_SPARE_SAMPLES = 12
"""Values in excess of the number of coefficients."""

_FRESH_SAMPLES = 24
"""Values at which a fit is tested, spread over eight decades of distance."""

_ROUNDED = 1e-12
"""A coefficient of a position this near to an integer is taken for it: then differences cancel exactly."""

_SAFETY = 16
"""By how much the errors of a fit may exceed the largest one that was seen."""


@dataclass(frozen=True)
class Signature:
    """What factors must share to be read together: kinds and vector lengths of their keys, numbers in their error."""

    kinds: tuple[Kind, ...]
    lengths: tuple[int, ...]
    size: int


@dataclass(frozen=True)
class Fit:
    """Errors of m factors as linear functions of n entries: error = coefficients @ entries + constant, up to `error`.

    Attributes:
        coefficients: (m, k, n); entries of rotations and positions in the order of `Samples.slots`.
        constant: (m, k).
        error: bound of what rotations and constant are off by, (m, k).
        inflation: how many times more than a few roundoffs coefficients of positions may be off by, (m,).
        fits: whether the error is linear, (m,).
        reasons: why not, where it is not.
    """

    coefficients: Array
    constant: Array
    error: Array
    inflation: Array
    fits: Array
    reasons: Sequence[str]

    def select(self, at: Array) -> Fit:
        """The fits of some factors."""
        reasons = [str(self.reasons[k]) for k in at.tolist()]
        return Fit(
            self.coefficients[at], self.constant[at], self.error[at], self.inflation[at], self.fits[at], reasons
        )  # fmt: skip


@dataclass(frozen=True)
class Slots:
    """Which entries the columns of a fit stand for.

    Attributes:
        key: place of the key among the factor's keys, (n,).
        turns: whether it is an entry of a rotation, (n,).
        row: row within the rotation's or position's block, (n,).
        part: which of the d numbers of the row, (n,).
    """

    key: Array
    turns: Array
    row: Array
    part: Array

    @classmethod
    def build(cls, signature: Signature, space: Space) -> Slots:
        """The entries of all keys of a signature."""
        d, found = space.dimension, []
        for slot, (kind, length) in enumerate(zip(signature.kinds, signature.lengths, strict=True)):
            if kind.rotates:
                found += [(slot, True, row, part) for row in range(space.rows) for part in range(d)]
            if kind.translates:
                found += [(slot, False, *divmod(number, d)) for number in range(length or d)]
        table = np.array(found).reshape(-1, 4)
        return cls(table[:, 0], table[:, 1].astype(bool), table[:, 2], table[:, 3])


def _random_values(
    signature: Signature, space: Space, scales: Array, rng: np.random.Generator
) -> tuple[list[list[Any]], Array]:
    """Values for the keys of a signature, one list for each scale of positions, and their entries, (N, n)."""
    values, entries = [], []
    for scale in scales.tolist():
        row: list[Any] = []
        numbers: list[Array] = []
        for kind, length in zip(signature.kinds, signature.lengths, strict=True):
            value = kind.random(rng, scale, length or space.dimension)
            numbers.append(kind.numbers(value))
            row.append(value)
        values.append(row)
        entries.append(np.concatenate(numbers))
    return values, np.array(entries)


def fit_factors(factors: Sequence[Any], signature: Signature, space: Space, scale: float) -> Fit:
    """Fits the errors of factors of one signature.

    Args:
        factors: the factors.
        signature: theirs.
        space: the plane or space.
        scale: size of positions in the graph [m].
    """
    rng = np.random.default_rng(_SEED)
    slots = Slots.build(signature, space)
    count = len(slots.key) + 1 + _SPARE_SAMPLES
    scales = np.concatenate([np.full(count, scale), scale * 10 ** np.linspace(-4, 4, _FRESH_SAMPLES)])
    values, entries = _random_values(signature, space, scales, rng)
    errors, reasons = _evaluate(factors, values, signature.size)
    usable: Array = np.all(np.isfinite(errors), axis=(1, 2))  # pyright: ignore[reportAssignmentType]
    errors = np.where(usable[:, None, None], errors, 0.0)
    design = np.column_stack([entries, np.ones(len(entries))])
    weight = np.append(np.where(slots.turns, 1.0, 1 / scale), 1.0)  # columns of like size
    solution = np.linalg.pinv(design[:count] * weight) @ errors[:, :count]
    coefficients = (weight[:, None] * solution).swapaxes(1, 2)
    rounded = _rounded(coefficients, slots, errors[:, :count])
    predicted = rounded @ design.T
    largest = np.abs(errors[:, :count]).max(axis=(1, 2), initial=np.finfo(float).tiny)
    sizes = np.abs(rounded) @ np.abs(design).T + 1e-3 * largest[:, None, None]
    with np.errstate(over="ignore"):
        off: Array = np.max(np.abs(errors.swapaxes(1, 2) - predicted) / sizes, axis=(1, 2))
    fits = np.asarray(usable & (off <= PROBING_TOLERANCE))
    known = _SAFETY * np.clip(off, rounding_error(1), 1.0)
    bounded = np.abs(rounded[:, :, :-1][:, :, slots.turns]).sum(axis=2) + np.abs(rounded[:, :, -1])
    moving = rounded[:, :, :-1][:, :, ~slots.turns]
    exact = np.all(moving == np.round(moving), axis=(1, 2))
    inflation = np.where(exact, 1.0, np.maximum(1.0, known / rounding_error(8)))
    return Fit(
        coefficients=rounded[:, :, :-1],
        constant=rounded[:, :, -1],
        error=known[:, None] * (bounded + largest[:, None]),
        inflation=inflation,
        fits=fits,
        reasons=[r or "its error is not linear in rotations and positions" for r in reasons],
    )


def _rounded(coefficients: Array, slots: Slots, errors: Array) -> Array:
    """Coefficients with what is a whole number but for rounding replaced by it, and rounding replaced by zero."""
    size = np.maximum(np.abs(errors).max(axis=(1, 2)), np.abs(coefficients).max(axis=(1, 2)))
    floor = rounding_error(64, size[:, None, None])
    result = np.where(np.abs(coefficients) <= floor, 0.0, coefficients)
    moving = np.append(~slots.turns, False)
    near = np.abs(result - np.round(result)) <= _ROUNDED
    return np.where(near & moving, np.round(result), result)


def _evaluate(factors: Sequence[Any], values: list[list[Any]], size: int) -> tuple[Array, list[str]]:
    """Errors of factors at values, (m, N, k); NaN where there is none, with the reason."""
    tables: list[Array] = []
    reasons: list[str] = []
    placed: dict[tuple[int, ...], list[gtsam.Values]] = {}
    for factor in factors:
        keys = tuple(factor.keys())
        reason = ""
        try:
            if keys not in placed:
                placed = {keys: [_insert(keys, row) for row in values]}
            table = stack(factor.unwhitenedError(v) for v in placed[keys])
        except Exception as error:  # whatever the error function of a user raises
            table, reason = np.zeros(0), f"its error cannot be evaluated at random values ({error})"
        if not reason and table.shape != (len(values), size):
            reason = "its error has not as many numbers as its noise model"
        tables.append(table if not reason else np.full((len(values), size), np.nan))
        reasons.append(reason)
    return np.array(tables), reasons


def _insert(keys: tuple[int, ...], row: Sequence[Any]) -> gtsam.Values:
    values = gtsam.Values()
    for key, value in zip(keys, row, strict=True):
        values.insert(key, value)
    return values
