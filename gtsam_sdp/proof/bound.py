"""Multipliers in closed form, and a lower bound of the cost that is proven in floating point.

For any Hermitian blocks Lambda_i, S = Q - blkdiag(Lambda) and every feasible Y:
    cost(Y) = <S, Y Y^H> + sum_i tr Lambda_i + constant >= sum_i tr Lambda_i + constant   if S >= 0.
The proof of S >= 0 treats the rows of one reference frame for each component apart: without them S is positive
definite with a margin that swallows all rounding errors, and what remains is one small Schur complement, whose value
is added to the reference's multiplier. So rounding costs almost nothing, even where S itself is singular, as it is
at every optimum. See docs/maths/, section 3.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import scipy

from gtsam_sdp.lift.qcqp import Qcqp
from gtsam_sdp.linalg.array import Array
from gtsam_sdp.linalg.bounded import UNIT_ROUNDOFF
from gtsam_sdp.linalg.factorisation import add_to_diagonal
from gtsam_sdp.linalg.real import real_upper, reals_per_number
from gtsam_sdp.linalg.sums import exact_sum
from gtsam_sdp.proof.multipliers import Multipliers, closed_form_multipliers
from gtsam_sdp.proof.positive_definite import PositiveDefinite, prove_positive_definite
from gtsam_sdp.proof.slack import PairTerms, Slack

_EXTENDED_SHARE = float(np.finfo(np.longdouble).eps / np.finfo(float).eps)
"""Roundoff of extended precision relative to double: 2^-11 on x86, 1 where there is no such type."""

_MAX_CORRECTIONS = 3
_NEGLIGIBLE_REMAINDER = 1e-17
"""Share of the terms' size that is far below their rounding: V needs no further correction."""

_SHIFT_GROWTH = 30.0
_SHIFT_PRECISION = 1.3
_BACKING_OFF = 4.0
_UNUSED = 1e-9
"""Share of the largest row sum below which a row of a block counts as unused, as those of a world frame may be."""

_LOST_SHARE = 1e-6
"""Share of the bound above which what rounding and the gradient take is worth more attempts."""


@dataclass(frozen=True)
class VerifiedBound:
    """A number that no feasible point costs less than.

    Attributes:
        value: the bound, rounding errors included; -inf if none was proven.
        shift: what was added to the diagonal of S on rows of blocks to prove it (in the unit of the cost).
        decrease: how much below <Q, Y Y^H> + constant a Newton step from Y would go, by the small complement.
        rounding: what the bound gives away to rounding errors.
        attempts: number of shifts tried.
    """

    value: float
    shift: float
    decrease: float
    rounding: float
    attempts: int


NO_BOUND = VerifiedBound(-math.inf, math.inf, math.inf, 0.0, 0)
"""Nothing is proven."""


@dataclass(frozen=True)
class _Bordered:
    """S split into the rows that the proof treats apart (border) and the rest (inner).

    Attributes:
        slack: the whole matrix.
        errors: error of the entries of each row relative to the magnitude, (n,).
        inner, border: the two sets of rows.
        place: place of each border row among those of its component, (len(border),).
        upper: upper triangle of the inner part as a real matrix.
    """

    slack: Slack
    errors: Array
    inner: Array
    border: Array
    place: Array
    upper: scipy.sparse.csc_array

    @classmethod
    def split(cls, slack: Slack, count: int) -> _Bordered:
        """The border's rows, `count` for each frame, apart from the others."""
        place = np.full(len(slack.norms), -1)
        for offset in range(count):
            place[slack.references + offset] = offset
        if slack.border is not None:
            second, position = slack.border.T
            for offset in range(count):
                place[second[second >= 0] + offset] = count + offset
            place[position[position >= 0]] = 2 * count
        border, inner = np.flatnonzero(place >= 0), np.flatnonzero(place < 0)
        # entry (i, j) sums at most min(s_i, s_j) terms, each of whose coefficients is known to a few roundoffs
        errors = (slack.roundoffs + slack.summands) * UNIT_ROUNDOFF
        return cls(slack, errors, inner, border, place[border], real_upper(slack.form.value, inner))

    @property
    def parts(self) -> int:
        """Rows of the real matrix for each row of S."""
        return reals_per_number(self.slack.form.value)

    @property
    def bounded(self) -> Array:
        """1 on rows that a shift may be added to, (n,)."""
        return (self.slack.norms > 0).astype(float)

    def real(self, numbers: Array) -> Array:
        """Numbers for the inner rows, as numbers for the rows of the real matrix."""
        return np.repeat(numbers[self.inner], self.parts)

    def shifted(self, shift: float) -> scipy.sparse.csc_array:
        """The inner part with `shift` added on bounded rows."""
        return add_to_diagonal(self.upper, shift * self.real(self.bounded)) if shift else self.upper

    def uncertainty(self, x: Array) -> Array:
        """|E| x for the errors E of the inner part; a complex error of size e is at most sqrt(2) e in a real row."""
        wide = np.zeros(len(self.errors))
        wide[self.inner] = x.reshape(-1, self.parts).max(axis=1) * math.sqrt(self.parts)
        return self.real(self.errors * (self.slack.form.magnitude @ wide))


def verify_bound(
    qcqp: Qcqp, multipliers: Multipliers, Y: Array, *, quick: bool = False, pairs: PairTerms | None = None
) -> VerifiedBound:
    """A proven lower bound of the cost over the feasible set, from multipliers and a nearly optimal Y.

    Neither multipliers nor Y are trusted: poor ones give a poor bound, never a wrong one.

    Args:
        qcqp: the problem, in centred coordinates.
        multipliers: Hermitian, (k, r, r) for each group of blocks.
        Y: where the multipliers were taken, (n, rank).
        pairs: multipliers of pairs of rotations.
        quick: give up (value -inf) where S needs a shift, which takes several factorisations to find.
    """
    return prove_bound(Slack.build(qcqp, multipliers, pairs), Y, quick=quick)


def bound_at(qcqp: Qcqp, Y: Array, *, quick: bool = False) -> VerifiedBound:
    """`verify_bound` with the multipliers in closed form at Y."""
    return verify_bound(qcqp, closed_form_multipliers(qcqp, Y), Y, quick=quick)


def prove_bound(slack: Slack, Y: Array, *, quick: bool = False) -> VerifiedBound:
    """`verify_bound` for any S: what is left of `base` once S is proven positive semidefinite, with a shift if need be.

    Args:
        slack: the matrix.
        Y: a nearly optimal feasible point, (n, columns).
        quick: give up where a shift is needed.
    """
    bordered = _Bordered.split(slack, Y.shape[1])
    total = math.fsum(slack.norms[bordered.inner].tolist())

    def attempt(shift: float) -> VerifiedBound | None:
        proof = prove_positive_definite(bordered.shifted(shift), bordered.uncertainty)
        if proof is None:
            return None
        gain, error = _schur_complement(bordered, proof, Y, shift)
        rounding = error + slack.base_error
        value = slack.base + gain - shift * total * (1 + 4 * UNIT_ROUNDOFF) - rounding
        value -= 4 * UNIT_ROUNDOFF * (abs(slack.base) + abs(gain))
        return VerifiedBound(value, shift, max(-gain, 0.0), rounding, 1)

    turning = np.flatnonzero(slack.norms > 0)
    sums = (slack.form.magnitude @ np.ones(len(slack.norms)))[turning]  # rotation factors alone have no diagonal in Q
    sums = sums[sums > _UNUSED * sums.max(initial=0.0)]
    # without inner rotations a shift changes nothing
    scale = float(np.median(sums)) if sums.size and total > 0 else 0.0
    ceiling = max(slack.base, 0.0) / max(total, 1.0)
    return _best_shift(attempt, scale, total, ceiling, quick)


def _best_shift(
    attempt: Callable[[float], VerifiedBound | None], scale: float, total: float, ceiling: float, quick: bool
) -> VerifiedBound:
    """The best bound among those of some shifts: the smallest that `attempt` succeeds with, and larger ones.

    The largest shift with a bound above 0 first: where it does not help no other one does, as at most wrong minima.
    Then grow from the smallest one until it succeeds, and bisect. At the edge of definiteness the proof gives away
    more to rounding, and to what is left of the gradient, than a larger shift costs: back off.
    """
    found: list[VerifiedBound] = []
    attempts = 0

    def works(shift: float) -> bool:
        nonlocal attempts
        attempts += 1
        bound = attempt(shift)
        found.extend([] if bound is None else [bound])
        return bound is not None

    first, largest = 1e-13 * scale, max(ceiling, 1e-12 * scale)
    if works(0.0) or quick or not first > 0 or not works(largest):
        shift, failed = 0.0, 0.0
    else:
        shift, failed = first, 0.0
        while shift < largest and not works(shift):
            failed, shift = shift, min(_SHIFT_GROWTH * shift, largest)
    while found and failed and shift > _SHIFT_PRECISION * failed:
        middle = math.sqrt(failed * shift)
        failed, shift = (failed, middle) if works(middle) else (middle, shift)
    if not found:
        return replace(NO_BOUND, attempts=attempts)
    best = max(found, key=lambda bound: bound.value)
    while not quick and first > 0 and _avoidable(best) > best.shift * total:
        if not works(max(_BACKING_OFF * best.shift, first)) or found[-1].value <= best.value:
            break
        best = found[-1]
    return replace(best, attempts=attempts)


def _avoidable(bound: VerifiedBound) -> float:
    """What a bound gives away that a larger shift may save, 0 if it is next to nothing."""
    lost = bound.decrease + bound.rounding
    return lost if lost > _LOST_SHARE * abs(bound.value) else 0.0


def _schur_complement(bordered: _Bordered, proof: PositiveDefinite, Y: Array, shift: float) -> tuple[float, float]:
    """The least value of <S, Y Y^H> over the border's rows, and the rounding error in it.

    With inner part M and coupling B, <S, Y Y^H> is at least the border's own part of V^H S V, V = [I; V_inner], less
    the residual (B + M V_inner)^H M^-1 (B + M V_inner), for any V_inner. V is Y relative to the reference if that is
    the whole border, else zero, improved by up to three solves.
    """
    slack = bordered.slack
    S, magnitude, references = slack.form.value, slack.form.magnitude, slack.references
    if not len(references):
        return 0.0, 0.0
    inner, border = bordered.inner, bordered.border
    V = _relative_to_border(bordered, Y)
    shifts = np.zeros(len(Y))
    shifts[inner] = shift * bordered.bounded[inner]
    margin = proof.slack.reshape(-1, bordered.parts).min(axis=1)
    enough = _NEGLIGIBLE_REMAINDER * float(np.sum(np.abs(V) * (magnitude @ np.abs(V))))
    for _ in range(_MAX_CORRECTIONS):
        residual = (S @ V + shifts[:, None] * V)[inner]
        if (np.abs(residual).max(axis=1, initial=0.0) ** 2 / margin).sum() <= enough:
            break
        V[inner] -= proof.factor.solve(residual)
    residual = _accurate_product(S, V) + shifts[:, None] * V
    residual[border] = _exact_rows(S, border, V)
    lengths = np.diff(S.indptr) * bordered.parts**2 * _EXTENDED_SHARE
    errors = bordered.errors + (lengths + 2) * UNIT_ROUNDOFF
    reach = (magnitude @ np.abs(V) + shifts[:, None] * np.abs(V)) * errors[:, None]
    # rows of references: exact sums of entries that are as good as the other row they belong to
    exact = (references[:, None] + np.arange(Y.shape[1])).ravel()
    errors[exact] = slack.roundoffs * UNIT_ROUNDOFF
    reach[exact] = (magnitude @ (errors[:, None] * np.abs(V)))[exact]
    remainder = np.zeros(len(Y))
    remainder[inner] = (np.abs(residual[inner]) + reach[inner]).max(axis=1) ** 2 / margin
    if V.shape[1] > Y.shape[1]:
        return _least_of_borders(slack, Y.shape[1], V, residual, reach, remainder)
    products = V.conj()[:, :, None] * residual[:, None, :]
    uncertain = np.abs(V)[:, :, None] * reach[:, None, :] + len(V) * UNIT_ROUNDOFF * np.abs(products)
    gain = math.fsum(np.trace(products, axis1=1, axis2=2).real.tolist())
    count = Y.shape[1]
    error = count * (uncertain.sum(axis=(0, 2)).max() + count * remainder.sum())
    return gain, float(error) * (1 + 1e-6)


def _relative_to_border(bordered: _Bordered, Y: Array) -> Array:
    """V to begin with, (n, k): one column for each row of a component's border."""
    slack, count = bordered.slack, Y.shape[1]
    extended = slack.border is not None and (slack.border >= 0).any()
    V = np.zeros((len(Y), 2 * count + 1 if extended else count), dtype=Y.dtype)
    if not extended:
        frames = Y[slack.references[:, None] + np.arange(count)]
        known = np.flatnonzero(slack.component >= 0)
        V[known] = (Y[known][:, None, :] @ frames[slack.component[known]].conj().swapaxes(1, 2))[:, 0]
    V[bordered.border] = np.eye(V.shape[1])[bordered.place]
    return V


def _least_of_borders(
    slack: Slack, count: int, V: Array, residual: Array, reach: Array, remainder: Array
) -> tuple[float, float]:
    """The least values of the components' borders together, of two frames and a position each, and the rounding error.

    With G the border's form on its rows (F, H, t) of frames and a position,
        <G, Y_b Y_b^H> >= tr K_FF + tr K_HH + 2 Re <K_FH, F H^H>,    K = G - g g^H / G_tt on the frames' rows,
    where g is what couples t to the frames. F H^H is a rotation, and the least value over rotations is that of the
    orthogonal Procrustes problem.
    """
    gain, error, frames = 0.0, 0.0, 2 * count
    for number in range(len(slack.references)):
        at = np.flatnonzero(slack.component == number)
        own, near = V[at], np.abs(V[at])
        G = own.conj().T @ residual[at]
        sizes = near.T @ np.abs(residual[at])
        # every entry: products of uncertain numbers, their sum, and the residual's own part
        off = near.T @ reach[at] + len(at) * UNIT_ROUNDOFF * sizes + remainder[at].sum()
        off = (off + off.T) * (1 + 1e-6)
        G = (G + G.conj().T) / 2
        second, position = (-1, -1) if slack.border is None else slack.border[number]
        if position >= 0:
            held, pull = float(G[frames, frames].real) - float(off[frames, frames]), G[:frames, frames]
            if held <= 0:
                return 0.0, math.inf
            taken = pull[:, None] * pull.conj() / held
            reach_of_pull = np.abs(pull) + off[:frames, frames]
            G = G[:frames, :frames] - taken
            off = off[:frames, :frames] + (reach_of_pull[:, None] * reach_of_pull / held - np.abs(taken)) * (1 + 1e-6)
            off += 8 * UNIT_ROUNDOFF * (np.abs(G) + np.abs(taken))
        gain += float(np.trace(G[:frames, :frames]).real)
        error += float(off[:frames, :frames].sum()) + 8 * frames * UNIT_ROUNDOFF * float(np.abs(np.diagonal(G)).sum())
        if second >= 0:
            turned, turned_off = _least_of_rotations(G[:count, count:frames])
            gain, error = gain + 2 * turned, error + 2 * turned_off
    return gain, error


def _least_of_rotations(G: Array) -> tuple[float, float]:
    """The least value of Re <G, E> over rotations E, and its rounding error; complex numbers in the plane."""
    if reals_per_number(G) == 2:
        return -float(np.abs(G).sum()), 8 * UNIT_ROUNDOFF * float(np.abs(G).sum())
    left, values, right = np.linalg.svd(-G)
    error = 64 * UNIT_ROUNDOFF * float(values[0])
    mirrored = np.linalg.det(left @ right) < 0 and values[-1] > error
    return -float(values[0] + values[1] + (-values[2] if mirrored else values[2])), 3 * error


def _accurate_product(S: scipy.sparse.csc_array, V: Array) -> Array:
    """S V in extended precision where the machine has it."""
    wide = np.result_type(V, np.longdouble)
    return (S.astype(wide) @ V.astype(wide)).astype(V.dtype)


def _exact_rows(S: scipy.sparse.csc_array, rows: Array, V: Array) -> Array:
    """(S V) at rows that sum a part of every term, with correctly rounded sums."""
    result = np.zeros((len(rows), V.shape[1]), dtype=V.dtype)
    for place, row in enumerate(rows):  # S is Hermitian: row i is the conjugate of column i
        at = slice(S.indptr[row], S.indptr[row + 1])
        products = S.data[at].conj()[:, None] * V[S.indices[at]]
        result[place] = [exact_sum(column) for column in products.T]
    return result
