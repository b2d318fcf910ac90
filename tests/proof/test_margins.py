"""Every margin of the proof decides some case: exact arithmetic is the judge.

The true matrix is anything within the errors that are granted to the stored one. Each test takes the true matrix that
is worst for the bound, and fractions for its least value. Without the margin that the docstring names the bound is
above that value for some of the seeds.
"""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from gtsam_sdp.linalg.bounded import UNIT_ROUNDOFF, Bounded
from gtsam_sdp.proof.bound import _least_of_rotations, prove_bound
from gtsam_sdp.proof.multipliers import PairTerms
from gtsam_sdp.proof.positive_definite import prove_positive_definite
from gtsam_sdp.proof.slack import Slack
from gtsam_sdp.relaxation.gram import positive_part
from gtsam_sdp.tolerances import COEFFICIENT_ROUNDOFFS
from gtsam_sdp.values.blocks import BlockGroup, Rotation
from tests.proof.exact import complement, granted, is_definite, is_semidefinite, rational, slack_of

U = Fraction(UNIT_ROUNDOFF)
KINDS = ["real", "complex", "space"]
"""One real column; one complex column; three real columns, each row of the small matrix as three."""


def upper(matrix: np.ndarray) -> sp.csc_array:
    result = sp.csc_array(np.triu(matrix))
    result.sort_indices()
    return result


def steps(x: float, count: int) -> float:
    """A float near x, `count` places further."""
    return x + count * float(np.spacing(x))


# positive definiteness


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("guess", [2.0**-38, 2.0**-44])
def test_rounding_of_the_factorisation(seed: int, guess: float) -> None:
    """`rounding`: a hub from which hundreds of equal squares are subtracted, each with the same rounding."""
    leaves = 1600
    b = 0.025 * (1 + 0.01 * np.random.default_rng(seed).random())
    edge = float(leaves * Fraction(b) ** 2 / (1 - Fraction(guess)) ** 2)
    A = np.eye(leaves + 1)
    A[-1, :-1] = A[:-1, -1] = b
    stored = upper(A)
    for count in range(-600, 900, 25):
        stored.data[-1] = hub = steps(edge, count)
        proof = prove_positive_definite(stored)
        if proof is None:
            continue
        used = Counter(proof.slack[:-1].tolist())
        taken = sum((n * Fraction(b) ** 2 / (1 - Fraction(s)) for s, n in used.items()), Fraction(0))
        assert Fraction(hub) - Fraction(float(proof.slack[-1])) >= taken


@pytest.mark.parametrize("error", [1e-9, 1e-6, 1e-3])
def test_uncertainty_of_entries(error: float) -> None:
    """`fixed`: an entry off the diagonal that is wrong by as much as it may be."""
    proven = 0
    for shift in error * np.linspace(0.1, 4, 40):
        A = np.array([[1 + shift, -1], [-1, 1 + shift]])
        proof = prove_positive_definite(upper(A), lambda x: np.nextafter(error * x[::-1], np.inf))
        if proof is not None:
            true = rational(A) - Fraction(error) * np.array([[0, 1], [1, 0]])
            assert is_semidefinite(true - np.diag(rational(proof.slack)))
            proven += 1
    assert proven > 0


def test_rounding_of_the_diagonal() -> None:
    """`4 u diagonal`: what is left after the subtraction is a few units in the last place, and all but singular."""
    rest = np.array([[50, 57], [57, 65]])  # determinant 1
    rng = np.random.default_rng(0)
    proven = 0
    for _ in range(60):
        diagonal = rng.uniform(0.6, 0.99, size=2)
        off = 57 * UNIT_ROUNDOFF
        scale = 1 / np.sqrt(diagonal)
        wanted = diagonal - np.diag(rest) * UNIT_ROUNDOFF
        errors = (wanted - 2.0**-38 * diagonal) / 2
        for _ in range(20):  # so that 2 errors + 2^-38 diagonal is what is wanted
            errors += (wanted - (2 * (errors * scale / scale) + 2.0**-38 * diagonal)) / 2
        seen: list[np.ndarray] = []

        def uncertainty(x: np.ndarray, errors: np.ndarray = errors, seen: list[np.ndarray] = seen) -> np.ndarray:
            seen.append(x)
            return errors * x

        proof = prove_positive_definite(upper(np.array([[diagonal[0], off], [off, diagonal[1]]])), uncertainty)
        if proof is None:
            continue
        true = rational(np.array([[diagonal[0], off], [off, diagonal[1]]]))
        true -= np.diag(rational(errors * seen[0]) / rational(seen[0]))
        assert is_semidefinite(true - np.diag(rational(proof.slack)))
        proven += 1
    assert proven > 10


# the bound: one reference


def turns(size: int, seed: int) -> np.ndarray:
    """Quarter turns: they change a complex matrix without any rounding."""
    return np.array([1, 1j, -1, -1j])[np.random.default_rng(seed).integers(4, size=size)]


def spread(kind: str, slack: Slack, y: np.ndarray, seed: int) -> tuple[Slack, np.ndarray, int]:
    """A small real problem and its point as another kind, and how many times the least value that one has."""
    S, magnitude = slack.form.value.toarray(), slack.form.magnitude.toarray()
    given = {
        "base": slack.base,
        "base_error": slack.base_error,
        "roundoffs": slack.roundoffs,
        "references": slack.references,
    }
    if kind == "complex":
        z = turns(len(S), seed)
        S, y = z[:, None] * S * z.conj(), y * z[:, None]
    if kind != "space":
        return slack_of(S, magnitude, summands=slack.summands, norms=slack.norms, **given), y, 1
    eye = np.eye(3)
    larger = slack_of(
        np.kron(S, eye),
        np.kron(magnitude, eye),
        summands=np.repeat(slack.summands, 3),
        norms=np.repeat(slack.norms, 3),
        **given,
    )
    return larger, np.kron(y, eye), 3


def worst(slack: Slack, y: np.ndarray) -> np.ndarray:
    """The true matrix that costs least at y, in fractions; row 0 is the border."""
    signs = np.sign(y[:, 0]).astype(int)
    return rational(slack.form.value.toarray()) - granted(slack, 1) * np.outer(signs, signs)


def check(kind: str, slack: Slack, y: np.ndarray, seed: int = 0) -> float:
    """The bound is at most the least value of the worst matrix; returns the bound."""
    least = complement(worst(slack, y), 1)
    larger, point, times = spread(kind, slack, y, seed)
    value = float(prove_bound(larger, point).value)
    if np.isfinite(value):
        assert least is not None
        base = Fraction(slack.base) - Fraction(slack.base_error)
        assert Fraction(value) <= base + times * least[0, 0]
    return value


def definite(size: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """A random matrix, positive definite but for the first row, and its least point."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(size, 2 * size))
    S = X @ X.T + np.eye(size)
    S = (S + S.T) / 2
    return S, np.append(1.0, -np.linalg.solve(S[1:, 1:], S[1:, 0]))[:, None]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("roundoffs", "summands"), [(16, 0), (0, 16), (16, 5)])
def test_errors_in_the_proof_of_definiteness(kind: str, roundoffs: int, summands: int) -> None:
    """`errors` = (roundoffs + summands) u in `uncertainty`: no value is proven if the true inner part is indefinite."""
    large = 2.0**20
    error = (roundoffs + summands) * UNIT_ROUNDOFF * large
    finite = 0
    for shift in error * np.linspace(0.1, 12, 60):
        S = np.array([[1.0, 0, 0], [0, 1 + shift, -1], [0, -1, 1 + shift]])
        magnitude = np.abs(S)
        magnitude[1:, 1:] = large
        slack = slack_of(S, magnitude, roundoffs=roundoffs, summands=np.full(3, summands))
        true = rational(S[1:, 1:]) - granted(slack, 1)[1:, 1:] * np.array([[1, 1], [1, 1]])
        larger, point, _ = spread(kind, slack, np.array([[1.0], [0], [0]]), 0)
        if np.isfinite(prove_bound(larger, point).value):
            assert is_definite(true)
            finite += 1
    assert finite > 0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("part", ["inner", "coupling", "border"])
@pytest.mark.parametrize(("roundoffs", "summands"), [(16, 0), (0, 16), (16, 5)])
def test_errors_in_the_complement(kind: str, seed: int, part: str, roundoffs: int, summands: int) -> None:
    """`uncertain`: `reach` of inner rows and of the border's, its errors, and the factor for columns in the sum."""
    S, y = definite(2 + seed, seed)
    size = np.abs(S)
    large = 2.0**24
    size[1:, 1:] *= large if part == "inner" else 1
    size[0, 1:] *= large if part == "coupling" else 1
    size[1:, 0] *= large if part == "coupling" else 1
    size[0, 0] *= large if part == "border" else 1
    slack = slack_of(S, size, roundoffs=roundoffs, summands=np.full(len(S), summands))
    assert np.isfinite(check(kind, slack, y, seed))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(6))
def test_errors_of_the_residual(kind: str, seed: int) -> None:
    """`reach` in the remainder: nothing couples the border to the rest as stored, much as it may be."""
    rng = np.random.default_rng(seed)
    small = 1e-12 * rng.uniform(1, 2)
    S = np.array([[0.0, 0], [0, small]])
    magnitude = np.array([[0, 1e8], [1e8, small]])
    slack = slack_of(S, magnitude, roundoffs=16, summands=np.full(2, 3))
    true = rational(S) + granted(slack, 1) * np.array([[0, 1], [1, 0]])
    larger, point, times = spread(kind, slack, np.array([[1.0], [0.0]]), seed)
    least = complement(true, 1)
    assert least is not None
    value = float(prove_bound(larger, point).value)
    assert np.isfinite(value)
    assert Fraction(value) <= times * least[0, 0]


def nearly_singular(seed: int, share: float) -> np.ndarray:
    """Three solves do not find the least point: what is factorised is smaller by 1 / share of the eigenvalue."""
    rng = np.random.default_rng(seed)
    weak = 2.0**-38 * share * rng.uniform(1, 1.2)
    b = 1e-9 * rng.uniform(1, 2)
    return np.array([[1.0, b, -b], [b, 1 + weak, 1], [-b, 1, 1 + weak]])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("share", [1.6, 5.0])
def test_remainder(kind: str, seed: int, share: float) -> None:
    """`remainder` and its factor for columns: what the solves leave over, with an inner part next to singular."""
    S = nearly_singular(seed, share)
    assert np.isfinite(check(kind, slack_of(S), np.array([[1.0], [0], [0]]), seed))


@pytest.mark.parametrize("seed", range(6))
def test_remainder_of_all_columns(seed: int) -> None:
    """`count` of the remainder: the same inner rows are left over in all three columns."""
    small = nearly_singular(seed, 1.6)
    S = np.eye(5)
    S[3:, 3:] = small[1:, 1:]
    S[3:, :3] = small[1:, :1]
    S[:3, 3:] = small[:1, 1:]
    least = complement(rational(S), 3)
    assert least is not None
    value = float(prove_bound(slack_of(S), np.eye(5, 3)).value)
    assert np.isfinite(value)
    assert Fraction(value) <= np.trace(least)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(30))
def test_rounding_of_products_with_exact_entries(kind: str, seed: int) -> None:
    """`(lengths + 2) u`: the entries are exact, and their products are rounded and cancel."""
    S, y = definite(5, seed)
    S[0, 0] = -float(S[0, 1:] @ y[1:, 0])
    assert np.isfinite(check(kind, slack_of(S), y, seed))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(30))
def test_rounding_of_the_borders_sums(kind: str, seed: int) -> None:
    """`len(V) u products`: a large number of the border plus a small one, rounded."""
    rng = np.random.default_rng(seed)
    b = 1e-8 * rng.uniform(1, 2)
    S = np.array([[rng.uniform(1, 2), b], [b, rng.uniform(1, 2)]])
    assert np.isfinite(check(kind, slack_of(S), np.array([[1.0], [-b / S[1, 1]]]), seed))


@pytest.mark.parametrize("seed", range(30))
def test_rounding_of_the_error_itself(seed: int) -> None:
    """`1 + 1e-6`: three times the error of one column is rounded, too."""
    size = np.random.default_rng(seed).uniform(1, 2)
    slack = slack_of(np.zeros((3, 3)), size * np.eye(3), roundoffs=16)
    assert Fraction(float(prove_bound(slack, np.eye(3)).value)) <= -3 * 16 * U * Fraction(size)


# the numbers that are added to the complement


@pytest.mark.parametrize("seed", range(10))
def test_error_of_the_base(seed: int) -> None:
    """`base_error`, and `4 u |base|` for the rounding of the last sums."""
    rng = np.random.default_rng(seed)
    base = rng.uniform(1, 2)
    S = np.array([[1.0]])
    for base_error in (rng.uniform(0.1, 0.2), 0.4 * UNIT_ROUNDOFF, 1e-20):
        slack = slack_of(S, references=np.zeros(0, dtype=int), base=base, base_error=base_error)
        value = float(prove_bound(slack, np.ones((1, 1))).value)
        assert Fraction(value) <= Fraction(base) - Fraction(base_error)


def test_price_of_the_shift() -> None:
    """`1 + 4 u`: a shift takes itself times the rows' norms, whose sum and product are rounded."""
    rng = np.random.default_rng(0)
    for _ in range(60):
        norms = rng.uniform(0.2, 0.4, size=4)
        S = np.ones((4, 4)) - 1e-14 * rng.uniform(1, 9) * np.eye(4)
        slack = slack_of(S, references=np.zeros(0, dtype=int), norms=norms)
        bound = prove_bound(slack, np.full((4, 1), 0.5))
        assert bound.shift > 0
        assert np.isfinite(bound.value)
        assert Fraction(float(bound.value)) <= -Fraction(float(bound.shift)) * rational(norms).sum()


def lifted(blocks: int, rank: int = 3, **given: Any) -> Any:
    """What `Slack.build` reads of a problem with nothing but rotations."""
    size = blocks * rank
    row = np.arange(size)
    coordinates = SimpleNamespace(
        border=np.full((1, 2), -1),
        references=np.array([0]),
        position=row,
        component=np.zeros(size, dtype=int),
        kept=row,
    )
    known = {
        "form": Bounded.of(sp.csc_array((size, size))),
        "constant": 0.0,
        "constant_magnitude": 0.0,
        "summands": np.ones(size, dtype=int),
        "size": size,
        "Q": sp.csc_array((size, size)),
        "groups": [BlockGroup(Rotation(), rank * np.arange(blocks), rank)],
        "coordinates": coordinates,
    }
    return SimpleNamespace(**{**known, **given})


@pytest.mark.parametrize("seed", range(10))
def test_rounding_of_traces(seed: int) -> None:
    """8 u of the multipliers' diagonals in `base_error`: traces that cancel, each rounded against us."""
    rng = np.random.default_rng(seed)
    diagonals = rng.uniform(1, 2, size=(50, 3)) * 1e6 ** rng.random((50, 1)) * np.array([1.0, 1.0, -2.0])
    multipliers = diagonals[:, None, :] * np.eye(3)
    traces = np.trace(multipliers, axis1=1, axis2=2)
    excess = rational(traces) - rational(diagonals).sum(axis=1)
    multipliers[excess < 0] *= -1
    multipliers[:, 2, 2] -= np.round(np.trace(multipliers, axis1=1, axis2=2))
    slack = Slack.build(lifted(50), [multipliers])
    exact = rational(np.einsum("kii->ki", multipliers)).sum()
    lowest = Fraction(slack.base) - Fraction(float(slack.base_error)) - 4 * U * abs(Fraction(slack.base))
    assert lowest <= exact


def test_errors_of_constants() -> None:
    """The constants' share of `base_error`: each is granted 16 u of itself, and they may cancel."""
    slack = Slack.build(lifted(1, constant=1.0, constant_magnitude=1e6), [np.zeros((1, 3, 3))])
    worst_constant = 1 - COEFFICIENT_ROUNDOFFS * U * 10**6
    assert Fraction(slack.base) - Fraction(float(slack.base_error)) <= worst_constant


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("largest", ["cost", "multipliers", "pairs"])
def test_entries_of_the_matrix(seed: int, largest: str) -> None:
    """`magnitude` and `summands + 2`: the subtractions that make S are rounded, beyond the errors of what they take."""
    rng = np.random.default_rng(seed)
    factor = {name: 1e6 if name == largest else 1.0 for name in ("cost", "multipliers", "pairs")}

    def symmetric() -> np.ndarray:
        matrix = rng.normal(size=(6, 6))
        return matrix + matrix.T

    Q, P = factor["cost"] * symmetric(), factor["pairs"] * symmetric()
    P[:3, :3] = P[3:, 3:] = 0
    multipliers = factor["multipliers"] * np.array([symmetric()[:3, :3] for _ in range(2)])
    summands = np.full(6, 3)
    qcqp = lifted(2, form=Bounded.of(sp.csc_array(Q)), summands=summands)
    pairs = PairTerms(Bounded.of(sp.csc_array(P)), 0.0)
    slack = Slack.build(qcqp, [multipliers], pairs)
    stored = rational(slack.form.value.toarray())
    exact = rational(Q) - rational(P)
    for k in range(2):
        at = slice(3 * k, 3 * k + 3)
        exact[at, at] -= rational(multipliers[k])
    known = (COEFFICIENT_ROUNDOFFS + 3) * U * (np.abs(rational(Q)) + np.abs(rational(P)))  # of the cost and the pairs
    allowed = (slack.roundoffs + np.min(slack.summands).item()) * U * rational(slack.form.magnitude.toarray())
    assert (np.abs(stored - exact) + known <= allowed).all()


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_positive_part(rank: int) -> None:
    """32 eps of the largest eigenvalue in `positive_part`: multipliers of low rank are semidefinite, not nearly so."""
    rng = np.random.default_rng(rank)
    X = rng.normal(size=(100, 4, rank))
    row, column = np.triu_indices(4)
    order = np.lexsort((row, column))
    for W in positive_part((X @ X.swapaxes(1, 2))[:, row[order], column[order]]):
        exact = rational(W)
        assert is_semidefinite((exact + exact.T) / 2)


# the bound: two frames and a position

BORDERS = ["complex", "space"]


def bordered(kind: str, C: np.ndarray, position: np.ndarray, inner: np.ndarray) -> tuple[np.ndarray, int]:
    """A form on frames, a position and inner rows, each frame as one row or as three, and the size of a frame.

    Args:
        C: the frames' form, (f, f).
        position: the position's entries with the first frame and with itself, (2,).
        inner: form of the first frame (row 0) and the inner rows, (1 + m, 1 + m); entry (0, 0) is ignored.
    """
    count = 3 if kind == "space" else 1
    frames, size = count * len(C), count * len(C) + 1 + len(inner) - 1
    S = np.zeros((size, size))
    S[:frames, :frames] = np.kron(C, np.eye(count))
    S[0, frames] = S[frames, 0] = position[0]
    S[frames, frames] = position[1]
    S[frames + 1 :, frames + 1 :] = inner[1:, 1:]
    S[0, frames + 1 :] = S[frames + 1 :, 0] = inner[0, 1:]
    return S, count


def border_bound(kind: str, S: np.ndarray, magnitude: np.ndarray, frames: int, seed: int, roundoffs: int) -> float:
    """The bound with a border of frames and a position."""
    count = 3 if kind == "space" else 1
    if kind == "complex":
        z = turns(len(S), seed)
        S = z[:, None] * S * z.conj()
    position = frames * count
    border = np.array([[count if frames == 2 else -1, position]])
    slack = slack_of(S, magnitude, roundoffs=roundoffs, border=border)
    Y = np.zeros((len(S), count), dtype=S.dtype)
    Y[:position] = np.tile(np.eye(count), (frames, 1))
    return float(prove_bound(slack, Y).value)


@pytest.mark.parametrize("kind", BORDERS)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("part", ["frame", "pull", "position"])
def test_errors_of_the_borders_form(kind: str, seed: int, part: str) -> None:
    """`off` of a frame, of what pulls the position, and of the position's own entry in `held`."""
    rng = np.random.default_rng(seed)
    S, count = bordered(kind, np.array([[3.0]]), np.array([rng.uniform(1, 2), rng.uniform(2, 4)]), np.zeros((1, 1)))
    magnitude = np.abs(S)
    large = 1e12
    at = {"frame": (0, 0), "pull": (0, count), "position": (count, count)}[part]
    magnitude[at] = magnitude[at[::-1]] = large
    sign = 1 if part == "pull" else -1
    true = rational(S)
    true[at] += sign * 16 * U * Fraction(large)
    true[at[::-1]] = true[at]
    least = complement(true, count)
    assert least is not None
    value = border_bound(kind, S, magnitude, 1, seed, 16)
    assert np.isfinite(value)
    assert Fraction(value) <= np.trace(least)


@pytest.mark.parametrize("kind", BORDERS)
@pytest.mark.parametrize("seed", range(4))
def test_remainder_with_a_position(kind: str, seed: int) -> None:
    """`remainder` in `off`: as without a position, with an inner part next to singular."""
    S, count = bordered(kind, np.array([[1.0]]), np.array([0.0, 1.0]), nearly_singular(seed, 5.0))
    least = complement(rational(S), count)
    assert least is not None
    value = border_bound(kind, S, np.abs(S), 1, seed, 0)
    assert np.isfinite(value)
    assert Fraction(value) <= np.trace(least)


@pytest.mark.parametrize("kind", BORDERS)
@pytest.mark.parametrize("seed", range(4))
def test_errors_between_frames(kind: str, seed: int) -> None:
    """`off` in the value over rotations: the second frame equals the first at the best point."""
    rng = np.random.default_rng(seed)
    k, large = rng.uniform(1, 2), 1e12
    S, count = bordered(kind, np.array([[3.0, -k], [-k, 3.0]]), np.array([0.0, 1.0]), np.zeros((1, 1)))
    magnitude = np.abs(S)
    first, second = np.arange(count), count + np.arange(count)
    magnitude[first, second] = magnitude[second, first] = large
    value = border_bound(kind, S, magnitude, 2, seed, 16)
    assert np.isfinite(value)
    assert Fraction(value) <= count * (6 - 2 * (Fraction(k) + 16 * U * Fraction(large)))


def rotation(seed: int) -> np.ndarray:
    """A rotation with rational entries, from a quaternion of integers."""
    w, x, y, z = (Fraction(int(n)) for n in np.random.default_rng(seed).integers(1, 20, size=4))
    n = w * w + x * x + y * y + z * z
    return np.array(
        [
            [n - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), n - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), n - 2 * (x * x + y * y)],
        ],
        dtype=object,
    ) / n  # fmt: skip


@pytest.mark.parametrize("mirrored", [False, True])
@pytest.mark.parametrize("seed", range(30))
def test_rounding_of_the_procrustes_problem(seed: int, mirrored: bool) -> None:
    """The error of singular values: against a rational rotation that is next to the best one."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(3, 3))
    P = X @ X.T + np.eye(3)
    if mirrored:
        values, vectors = np.linalg.eigh(P)
        P = (vectors * (values * np.array([-1, 1, 1]))) @ vectors.T
    R = rotation(seed)
    G = -(R.astype(float) @ ((P + P.T) / 2))
    value, error = _least_of_rotations(G)
    assert Fraction(value) - Fraction(error) <= (rational(G) * R).sum()


@pytest.mark.parametrize("seed", range(30))
def test_rounding_of_a_complex_modulus(seed: int) -> None:
    """The error of the least value in the plane."""
    rng = np.random.default_rng(seed)
    G = np.array([[rng.normal() + 1j * rng.normal()]])
    value, error = _least_of_rotations(G)
    least = Fraction(error) - Fraction(value)
    assert least >= 0
    assert least**2 >= Fraction(float(G[0, 0].real)) ** 2 + Fraction(float(G[0, 0].imag)) ** 2
