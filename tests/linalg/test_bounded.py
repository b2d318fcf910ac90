"""Numbers with their magnitudes: exact arithmetic judges what an operation may lose to rounding."""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy

import gtsam_sdp
from gtsam_sdp.linalg.bounded import UNIT_ROUNDOFF, Bounded, Entries, rounding_error
from gtsam_sdp.linalg.real import by_entry

OPERATIONS: dict[str, tuple[Callable[..., Any], int]] = {
    "sum": (lambda a, b: a + b, 1),
    "difference": (lambda a, b: a - b, 1),
    "cancelling": (lambda a, b: a + b - a - b, 3),
    "product": (lambda a, b: a * b, 1),
    "matrix product": (lambda a, b: a @ b, 4),
    "sandwich": (lambda a, b: b.swapaxes(-1, -2) @ a @ b if isinstance(b, np.ndarray) else a.sandwich(b), 8),
    "weighted": (lambda a, b: a * -0.3 + b * 0.7, 2),
}


def exact(array: np.ndarray) -> np.ndarray:
    return np.vectorize(Fraction, otypes=[object])(array)


@pytest.mark.parametrize("name", OPERATIONS)
def test_errors_are_bounded(name: str) -> None:
    """No value is off by more than its roundoffs, and none is larger than its magnitude."""
    operation, roundoffs = OPERATIONS[name]
    for seed in range(20):
        rng = np.random.default_rng(seed)
        a, b = (rng.normal(size=(4, 4)) * 10.0 ** rng.integers(-6, 7, size=(4, 4)) for _ in range(2))
        found = operation(Bounded.of(a), Bounded.of(b))
        wanted = operation(exact(a), exact(b))
        allowed = exact(np.asarray(found.error(roundoffs + 1)))
        assert (abs(exact(found.value) - wanted) <= allowed).all()
        assert (np.abs(found.value) <= found.magnitude * (1 + 1e-14)).all()
        np.testing.assert_array_equal(found.value, operation(a, b))


def test_numbers_that_cancel_keep_their_size() -> None:
    a = Bounded.of(np.array([3.0, -4.0]))
    gone = a - a
    assert not gone.value.any()
    np.testing.assert_array_equal(gone.magnitude, [6.0, 8.0])
    np.testing.assert_array_equal(gone.error(2), 2 * UNIT_ROUNDOFF * gone.magnitude)
    assert rounding_error(3) == 3 * 2.0**-53


def test_parts_are_read_and_written_with_their_sizes() -> None:
    form = Bounded.of(np.zeros((2, 3, 3), dtype=complex))
    across = Bounded(np.full((2, 1, 2), 1j), np.full((2, 1, 2), 5.0))
    form[:, 2:, :2] += across
    form[:, :2, 2:] += across.H
    np.testing.assert_array_equal(form.value, form.H.value)
    np.testing.assert_array_equal(form.magnitude, form.H.magnitude)
    assert form.magnitude.sum() == 2 * 2 * 2 * 5.0
    assert form[0, 0, 2].value == -1j


def test_numpy_does_not_take_the_values_alone() -> None:
    number: Any = Bounded.of(np.ones(3))
    with pytest.raises(TypeError):
        np.add(np.ones(3), number)
    with pytest.raises(TypeError):
        np.ones(3) - number  # pyright: ignore[reportUnusedExpression]
    with pytest.raises(TypeError):
        np.ones((3, 3)) @ number  # pyright: ignore[reportUnusedExpression]


@pytest.mark.parametrize("is_complex", [False, True])
def test_by_entry(is_complex: bool) -> None:
    """By entry the matrix does the same to the rows' entries, and no size is smaller than what it bounds."""
    rng = np.random.default_rng(0)
    M, x = rng.normal(size=(5, 3, 4)), rng.normal(size=(5, 4, 1 if is_complex else 3))
    if is_complex:
        M, x = M + 1j * rng.normal(size=M.shape), x + 1j * rng.normal(size=x.shape)
    wide = Bounded.of(M).by_entry(2 if is_complex else 3)

    def entries(rows: Any) -> np.ndarray:
        return (np.concatenate([rows.real, rows.imag], axis=2) if is_complex else rows).reshape(5, -1, 1)

    np.testing.assert_allclose(wide.value @ entries(x), entries(M @ x), rtol=1e-12)
    assert (np.abs(wide.value) <= wide.magnitude * (1 + 1e-14)).all()
    if is_complex:
        np.testing.assert_array_equal(by_entry(M.conj(), 2), by_entry(M.swapaxes(1, 2), 2).swapaxes(1, 2))


@pytest.mark.parametrize("is_complex", [False, True])
def test_sparse_sums(is_complex: bool) -> None:
    """Blocks land where they belong; sums within the border are rounded once; sizes are sums of all sizes."""
    for seed in range(10):
        rng = np.random.default_rng(seed)
        count, size, n = 300, 3, 12
        rows = np.array([rng.choice(n, size, replace=False) for _ in range(count)])
        rows[rng.random(rows.shape) < 0.1] = -1
        M = rng.normal(size=(count, size, size)) * 10.0 ** rng.integers(-9, 10, size=(count, 1, 1))
        M = M + 1j * rng.normal(size=M.shape) if is_complex else M
        M = M + M.conj().swapaxes(1, 2)
        sizes = np.abs(M) * (1 + rng.random((count, 1, 1)))
        border = np.zeros(n, dtype=bool)
        border[[2, 3, 7]] = True
        entries = Entries.of_blocks(rows, Bounded(M, sizes))
        matrix = entries.sum_exactly(border)
        wanted, total = np.zeros((n, n), dtype=object), np.zeros((n, n))
        for k, i, j in np.ndindex(count, size, size):
            if min(rows[k, i], rows[k, j]) >= 0:
                wanted[rows[k, i], rows[k, j]] += Fraction(float(np.real(M[k, i, j])))
                total[rows[k, i], rows[k, j]] += sizes[k, i, j]
        off = np.vectorize(float)(abs(exact(matrix.value.toarray().real) - wanted))
        assert (off <= count * UNIT_ROUNDOFF * total).all()
        within = np.ix_(border, border)
        np.testing.assert_array_equal(
            matrix.value.toarray().real[within], np.vectorize(float)(np.asarray(wanted[within]))
        )
        np.testing.assert_allclose(matrix.magnitude.toarray(), total, rtol=1e-12)
        plain = entries.sum(n)
        np.testing.assert_allclose(plain.magnitude.toarray(), total, rtol=1e-12)
        assert isinstance(plain.value, scipy.sparse.csc_array)


def test_summands_are_counted() -> None:
    """Row 0 is the border: its own entry does not count, entries with it count for the other row."""
    rows = np.array([[0, 1], [0, 1], [0, 2], [1, 2]])
    entries = Entries.of_blocks(rows, Bounded.of(np.ones((4, 2, 2))))
    np.testing.assert_array_equal(entries.count_summands(np.array([True, False, False])), [3, 3, 2])


def test_the_unit_roundoff_is_named_where_errors_are_made_of_magnitudes_only() -> None:
    """All other rounding budgets go through `Bounded.error` or `rounding_error`."""
    folder = Path(gtsam_sdp.__file__).parent
    for path in folder.rglob("*.py"):
        name, text = path.relative_to(folder).as_posix(), path.read_text()
        if name != "linalg/bounded.py" and not name.startswith("proof/"):
            assert not re.search(r"UNIT_ROUNDOFF|finfo\(float\)\.eps|2\.0\*\*-5[23]", text), name
