"""Positive definiteness in floating point, on matrices whose smallest eigenvalue is known."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from gtsam_sdp.linalg.real import complex_vectors, real_upper, real_vectors
from gtsam_sdp.proof.positive_definite import prove_positive_definite


def upper(matrix: np.ndarray) -> sp.csc_array:
    result = sp.csc_array(np.triu(matrix))
    result.sort_indices()
    return result


def path_laplacian(size: int) -> np.ndarray:
    """Laplacian of a path: smallest eigenvalue exactly 0, the next one 2 - 2 cos(pi / n)."""
    L = 2 * np.eye(size) - np.eye(size, k=1) - np.eye(size, k=-1)
    L[0, 0] = L[-1, -1] = 1
    return L


def with_spectrum(eigenvalues: np.ndarray, seed: int) -> np.ndarray:
    """A matrix with integers, exactly representable, as U^T D U with unit lower triangular U: the signs are exact."""
    rng = np.random.default_rng(seed)
    n = len(eigenvalues)
    L = np.tril(rng.integers(-2, 3, size=(n, n)), -1) + np.eye(n)
    return L @ np.diag(eigenvalues) @ L.T


@pytest.mark.parametrize("seed", range(10))
def test_proves_positive_definite_integers(seed: int) -> None:
    A = with_spectrum(np.ones(8), seed)
    proof = prove_positive_definite(upper(A))
    assert proof is not None
    assert (proof.slack > 0).all()
    assert np.linalg.eigvalsh(A - np.diag(proof.slack)).min() > 0


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("last", [0.0, -1.0])
def test_never_proves_what_is_not_definite(seed: int, last: float) -> None:
    """Singular and indefinite matrices with exact entries, also when rounding makes all pivots positive."""
    A = with_spectrum(np.append(np.ones(7), last), seed)
    assert prove_positive_definite(upper(A)) is None


@pytest.mark.parametrize("size", [5, 50, 500])
def test_singular_laplacian_is_never_proven(size: int) -> None:
    L = path_laplacian(size)
    assert prove_positive_definite(upper(L)) is None
    for shift, possible in ((1e-16, False), (-1e-12, False), (1e-9, True)):
        proof = prove_positive_definite(upper(L + shift * np.eye(size)))
        assert (proof is not None) == possible, shift


@pytest.mark.parametrize("exponent", [-12, -6, 6, 12])
def test_bad_scaling_does_not_matter(exponent: int) -> None:
    """D A D is proven for the same A whatever the diagonal D: the proof is relative to each row."""
    A = path_laplacian(30) + 1e-6 * np.eye(30)
    D = np.diag(10.0 ** np.linspace(0, exponent, 30))
    assert prove_positive_definite(upper(D @ A @ D)) is not None
    B = path_laplacian(30) - 1e-6 * np.eye(30)
    assert prove_positive_definite(upper(D @ B @ D)) is None


@pytest.mark.parametrize("seed", range(5))
def test_slack_is_a_lower_bound(seed: int) -> None:
    """A - diag(slack) is positive semidefinite in exact arithmetic, checked with a margin far below the slack."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(40, 60)) * (rng.random((40, 60)) < 0.2)
    A = X @ X.T + np.eye(40)
    proof = prove_positive_definite(upper(A))
    assert proof is not None
    assert np.linalg.eigvalsh(A - np.diag(proof.slack))[0] > -1e-12


def test_uncertain_entries_need_a_larger_margin() -> None:
    """With entries off by e, the path Laplacian + s I is proven only if s is above the row sums of the errors."""
    L = path_laplacian(20)
    pattern = (L != 0).astype(float)
    error = 1e-6
    for shift, possible in ((1e-6, False), (2e-5, True)):
        proof = prove_positive_definite(upper(L + shift * np.eye(20)), lambda x: error * (pattern @ x))
        assert (proof is not None) == possible


def test_rejects_matrices_that_are_no_candidates() -> None:
    assert prove_positive_definite(upper(np.diag([1.0, -1.0]))) is None
    assert prove_positive_definite(upper(np.diag([1.0, np.nan]))) is None
    assert prove_positive_definite(upper(np.array([[0.0, 1.0], [1.0, 5.0]]))) is None


def test_solves_with_the_factor() -> None:
    A = path_laplacian(12) + np.eye(12)
    proof = prove_positive_definite(upper(A))
    assert proof is not None
    right = np.random.default_rng(0).normal(size=(12, 3))
    np.testing.assert_allclose(proof.factor.solve(right), np.linalg.solve(A, right), rtol=1e-8)


def test_real_form_of_a_hermitian_matrix() -> None:
    rng = np.random.default_rng(3)
    H = rng.normal(size=(6, 6)) + 1j * rng.normal(size=(6, 6))
    H = H + H.conj().T
    rows = np.array([0, 2, 3, 5])
    triangle = real_upper(sp.csc_array(H), rows).toarray()
    real = triangle + np.triu(triangle, 1).T
    part = H[np.ix_(rows, rows)]
    x = rng.normal(size=(4, 2)) + 1j * rng.normal(size=(4, 2))
    np.testing.assert_allclose(complex_vectors(real @ real_vectors(x)), part @ x, atol=1e-12)
    np.testing.assert_allclose(np.linalg.eigvalsh(real)[::2], np.linalg.eigvalsh(part), atol=1e-10)


def test_a_matrix_without_rows_is_positive_definite() -> None:
    proof = prove_positive_definite(upper(np.zeros((0, 0))))
    assert proof is not None
    assert proof.slack.shape == (0,)
    assert proof.factor.solve(np.zeros((0, 2))).shape == (0, 2)
