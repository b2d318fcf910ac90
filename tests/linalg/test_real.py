"""Complex numbers as real ones: every map keeps products and goes back."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy

from gtsam_sdp.linalg.real import (
    by_entry,
    complex_vectors,
    of_parts,
    real_entries,
    real_parts,
    real_upper,
    real_vectors,
    reals_per_number,
)
from gtsam_sdp.linalg.sums import exact_sum, inner_product


def numbers(is_complex: bool, *shape: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    plain = rng.normal(size=shape)
    return plain + 1j * rng.normal(size=shape) if is_complex else plain


@pytest.mark.parametrize("is_complex", [False, True])
def test_parts(is_complex: bool) -> None:
    x = numbers(is_complex, 4, 3)
    assert reals_per_number(x) == len(real_parts(x)) == 1 + is_complex
    assert reals_per_number(scipy.sparse.csc_array(x)) == 1 + is_complex
    np.testing.assert_array_equal(of_parts(real_parts(x)), x)
    assert real_entries(x).shape == (4, 3 * (1 + is_complex))
    assert real_entries(x[:0]).shape == (0, 3 * (1 + is_complex))
    assert np.linalg.norm(real_entries(x)) == pytest.approx(np.linalg.norm(x))
    if is_complex:
        np.testing.assert_array_equal(real_entries(x)[:, ::2] + 1j * real_entries(x)[:, 1::2], x)
        np.testing.assert_array_equal(complex_vectors(real_vectors(x)), x)
    else:
        np.testing.assert_array_equal(real_vectors(x), x)


@pytest.mark.parametrize("is_complex", [False, True])
def test_hermitian_matrices_keep_their_products(is_complex: bool) -> None:
    for seed in range(5):
        A = numbers(is_complex, 6, 6, seed=seed)
        A, x = A + A.conj().T, numbers(is_complex, 6, 2, seed=seed + 100)
        upper = real_upper(scipy.sparse.csc_array(A))
        S = upper + upper.T - scipy.sparse.diags_array(upper.diagonal())
        np.testing.assert_allclose(S @ real_vectors(x), real_vectors(A @ x), rtol=1e-12, atol=1e-12)
        assert inner_product(x, A @ x) == pytest.approx(np.trace(x.conj().T @ A @ x).real)


def test_products_of_matrices_by_entry() -> None:
    a, b = numbers(True, 5, 3, 4), numbers(True, 5, 4, 2, seed=1)
    np.testing.assert_allclose(by_entry(a, 2) @ by_entry(b, 2), by_entry(a @ b, 2), rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(by_entry(a.conj().swapaxes(1, 2), 2), by_entry(a, 2).swapaxes(1, 2))
    np.testing.assert_array_equal(by_entry(a[0], 2), by_entry(a, 2)[0])


def test_sums_are_rounded_once() -> None:
    x = np.array([1.0, 1e100, 1.0, -1e100])
    assert exact_sum(x) == 2.0
    assert exact_sum(x + 1j * x[::-1]) == 2.0 + 2.0j
    assert isinstance(exact_sum(x), float)
    assert exact_sum(np.full(10, 0.1)) == math.fsum([0.1] * 10)
