"""LDL^T against dense matrices whose inertia is known."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from gtsam_sdp.linalg.factorisation import Factorisation, add_to_diagonal
from gtsam_sdp.linalg.real import real_upper


def factorised(matrix: np.ndarray) -> Factorisation:
    factor = Factorisation.of(real_upper(sp.csc_array(matrix)))
    assert factor is not None
    return factor


def with_inertia(signs: list[int], seed: int, *, is_complex: bool = False) -> np.ndarray:
    """A Hermitian matrix X D X^H, X well conditioned, D with these signs: by Sylvester's law they are its inertia."""
    rng = np.random.default_rng(seed)
    n = len(signs)
    X = rng.normal(size=(n, n)) + (1j * rng.normal(size=(n, n)) if is_complex else 0)
    X = np.linalg.qr(X)[0] + 0.1 * np.eye(n)
    return (X * (np.array(signs) * rng.uniform(1, 3, n))) @ X.conj().T


@pytest.mark.parametrize("seed", range(10))
def test_factors_multiply_to_the_matrix(seed: int) -> None:
    A = with_inertia([1] * 9, seed)
    A[np.abs(A) < 0.1] = 0
    A += 3 * np.eye(9)
    factor = factorised(A)
    L = factor.lower.toarray() + np.eye(9)
    assert (np.triu(factor.lower.toarray()) == 0).all()
    np.testing.assert_allclose(L * factor.pivots @ L.T, A[np.ix_(factor.order, factor.order)], atol=1e-12)
    assert factor.is_positive
    assert factor.negative == 0


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("is_complex", [False, True])
@pytest.mark.parametrize("below", [0, 1, 4, 8])
def test_inertia(below: int, is_complex: bool, seed: int) -> None:
    """Negative pivots are as many as negative eigenvalues; a complex matrix has each twice."""
    factor = factorised(with_inertia([-1] * below + [1] * (8 - below), seed, is_complex=is_complex))
    assert factor.negative == below * (2 if is_complex else 1)
    assert factor.is_positive == (below == 0)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("is_complex", [False, True])
@pytest.mark.parametrize("shape", [(8,), (8, 1), (8, 5), (8, 0)])
def test_solves_for_many_right_sides(shape: tuple[int, ...], is_complex: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    A = with_inertia([1] * 8, seed, is_complex=is_complex)
    right = rng.normal(size=shape) + (1j * rng.normal(size=shape) if is_complex else 0)
    before = right.copy()
    solved = factorised(A).solve(right)
    assert solved.dtype == right.dtype
    np.testing.assert_allclose(solved, np.linalg.solve(A, right), rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(right, before)


def test_columns_are_solved_alike_alone_and_together() -> None:
    """To the last bit, and wherever they lie in memory."""
    factor = factorised(with_inertia([1] * 8, 0))
    right = np.random.default_rng(0).normal(size=(8, 6))
    together = factor.solve(right)
    for column in range(6):
        np.testing.assert_array_equal(together[:, column], factor.solve(right[:, column].copy()))
    np.testing.assert_array_equal(together[:, ::2], factor.solve(right[:, ::2]))
    np.testing.assert_array_equal(together, factor.solve(np.asfortranarray(right)))


@pytest.mark.parametrize("shape", [(7,), (9, 2), (16, 1)])
def test_right_sides_of_another_length(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="does not match"):
        factorised(np.eye(8)).solve(np.ones(shape))
    with pytest.raises(ValueError, match="does not match"):
        factorised(np.eye(8)).solve(np.ones(8, dtype=complex))


@pytest.mark.parametrize("matrix", [np.zeros((1, 1)), np.zeros((3, 3)), np.ones((2, 2)), np.diag([1.0, 0.0, 2.0])])
def test_no_factorisation_where_a_pivot_vanishes(matrix: np.ndarray) -> None:
    assert Factorisation.of(real_upper(sp.csc_array(matrix))) is None
    assert Factorisation.of(real_upper(sp.csc_array(matrix.astype(complex)))) is None


@pytest.mark.parametrize("entry", [np.nan, np.inf, -np.inf])
def test_pivots_that_are_no_numbers_are_not_positive(entry: float) -> None:
    assert not factorised(np.diag([1.0, entry, 2.0])).is_positive


@pytest.mark.parametrize("dtype", [float, complex])
def test_no_rows(dtype: type) -> None:
    factor = factorised(np.zeros((0, 0), dtype=dtype))
    assert factor.is_positive
    assert factor.negative == 0
    assert factor.lower.shape == (0, 0)
    assert factor.solve(np.zeros((0, 3), dtype=dtype)).shape == (0, 3)


def test_added_to_the_diagonal() -> None:
    A = with_inertia([1, 1, -1, -1], 0)
    upper = real_upper(sp.csc_array(A))
    numbers = np.array([1.0, 2.0, 3.0, 4.0])
    np.testing.assert_array_equal(add_to_diagonal(upper, numbers).toarray(), np.triu(A + np.diag(numbers)))
    np.testing.assert_array_equal(add_to_diagonal(upper, 2.0).toarray(), np.triu(A + 2 * np.eye(4)))
    np.testing.assert_array_equal(upper.toarray(), np.triu(A))
