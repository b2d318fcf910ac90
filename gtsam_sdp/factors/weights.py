"""Small information matrices: smallest eigenvalues, and the part that the lift keeps of noise on rotated vectors."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gtsam_sdp.linalg.array import Array
from gtsam_sdp.linalg.bounded import Bounded, rounding_error
from gtsam_sdp.terms.entrywise import Entrywise
from gtsam_sdp.terms.terms import Exactness
from gtsam_sdp.tolerances import EIGENVALUE_ROUNDOFFS, NEGLIGIBLE


def symmetric(matrix: Array) -> Array:
    """Symmetric parts of real matrices, (m, k, k)."""
    return (matrix + matrix.swapaxes(1, 2)) / 2


def scaled_identity(scale: Array, size: int) -> Array:
    """scale_k I, (m, size, size)."""
    return scale[:, None, None] * np.eye(size)


def smallest_eigenvalue(information: Array, scale: Array | None = None) -> Array:
    """A lower bound of the smallest eigenvalues of symmetric matrices (m, k, k), exact for multiples of I.

    Args:
        information: the matrices.
        scale: size of the numbers they were computed from, (m,), if that is larger than the matrices themselves.
    """
    diagonal = np.einsum("kii->ki", information)
    least = diagonal.min(axis=1)
    off = information - diagonal[:, :, None] * np.eye(information.shape[-1])
    plain = ~off.any(axis=(1, 2))
    error = rounding_error(EIGENVALUE_ROUNDOFFS, np.linalg.norm(information, axis=(1, 2)) if scale is None else scale)
    smallest = least if plain.all() else np.where(plain, least, np.linalg.eigvalsh(information)[:, 0] - error)
    return smallest if scale is None else smallest - np.where(plain, error, 0.0)


def give_up(whitened: Array) -> tuple[Array, Array]:
    """What is left of 1/2 |r|_W^2 where r is known to an error e only: shares of W, (m, 1, 1), and constants, (m,).

    |r + e|_W^2 >= (1 - share) |r|_W^2 - (1 / share - 1) |e|_W^2 for every share; `whitened` is |e|_W, (m,).
    """
    share = np.clip(whitened, rounding_error(1), 0.5)
    return (1 - share)[:, None, None], -(whitened**2) / share / 2


class AxisWeights(NamedTuple):
    """What a Gram lift keeps of noise on rotated vectors.

    Attributes:
        matrix: A, (m, q, q).
        exactness: of each, (m,).
        information: W, padded to whole vectors, (m, q d, q d).
    """

    matrix: Array
    exactness: Array
    information: Array

    def entrywise(self, coefficients: Bounded, constant: Array) -> Entrywise | None:
        """The exact cost of residual vectors `coefficients` X in world axes, None if `matrix` is exact already."""
        if (self.exactness == int(Exactness.EXACT)).all():
            return None
        dimension = self.information.shape[1] // self.matrix.shape[1]
        return Entrywise.of_numbers(coefficients.by_entry(dimension), self.information, constant)


_SPARE = 1e-11
"""Share of a common part of all axes that is given up, so that what is left is positive definite beyond rounding."""


def _common_part(information: Array, by_axis: Array) -> tuple[Array, Array]:
    """Matrices A with A kron I_d below W, for noise that couples residuals: multiples of W's mean over the axes.

    Returns:
        A, (m, q, q), and whether W - A kron I_d was found to be positive definite.
    """
    count, d, q, _ = by_axis.shape
    mean = symmetric(by_axis.mean(axis=1))
    diagonal = np.einsum("kaa->ka", mean)
    usable = (diagonal > 0).all(axis=1)
    scale = 1 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    scaled = mean * scale[:, :, None] * scale[:, None, :]
    eigenvalues, vectors = np.linalg.eigh(scaled)
    usable &= eigenvalues[:, 0] > 1e-6
    root = vectors / np.sqrt(np.where(usable[:, None], eigenvalues, 1.0))[:, None, :] * scale[:, :, None]
    wide = np.einsum("kab,ij->kaibj", root, np.eye(d)).reshape(count, q * d, q * d)
    share = smallest_eigenvalue(symmetric(wide.swapaxes(1, 2) @ information @ wide))
    kept = np.maximum(share * (1 - _SPARE), 0.0)[:, None, None] * mean
    rest = information - np.einsum("kab,ij->kaibj", kept, np.eye(d)).reshape(count, q * d, q * d)
    weight = np.sqrt(np.maximum(np.einsum("kii->ki", information), np.finfo(float).tiny))
    rest = rest / weight[:, :, None] / weight[:, None, :]
    return kept, usable & (smallest_eigenvalue(symmetric(rest), 2 * np.linalg.norm(rest, axis=(1, 2))) > 0)


def axis_weights(information: Array, dimension: int) -> AxisWeights:
    """The largest simple matrices A with A kron I_d below the information matrices, and how exact they are.

    Residual vectors r_1 ... r_q of d numbers each, stacked, have information W (qd x qd). A Gram lift knows their
    scalar products only, so it keeps 1/2 sum A_ab r_a . r_b: equal to the cost if W = A kron I_d. Otherwise a
    diagonal W gives the smallest weight of each r_a, and any other W a multiple of its mean over the axes, or its
    smallest eigenvalue.

    Args:
        information: W, (m, n, n); if d does not divide n the last residual is padded with its own weight.
        dimension: d.

    """
    count, size, _ = information.shape
    blocks = -(-size // dimension)
    full = np.zeros((count, blocks * dimension, blocks * dimension))
    full[:, :size, :size] = information
    padding = np.arange(size, blocks * dimension)
    full[:, padding, padding] = information[:, -1:, -1]
    diagonal = np.einsum("kii->ki", full)
    # everything is compared entry by entry with sqrt(W_ii W_jj): weights may be many decades apart
    with np.errstate(divide="ignore"):
        inverse_root = np.where(diagonal > 0, 1 / np.sqrt(diagonal), 0.0)
    scaled = full * inverse_root[:, :, None] * inverse_root[:, None, :]
    split, scaled_split = (x.reshape(count, blocks, dimension, blocks, dimension) for x in (full, scaled))
    by_axis = np.einsum("kaibi->kiab", split)
    across = np.abs(scaled_split * (1 - np.eye(dimension))[:, None, :]).max(axis=(1, 2, 3, 4))
    pair_scale = inverse_root.reshape(count, blocks, dimension).max(axis=2)
    spread = np.abs(by_axis - by_axis[:, :1]) * (pair_scale[:, :, None] * pair_scale[:, None, :])[:, None]
    exact = (across <= NEGLIGIBLE) & (spread.max(axis=(1, 2, 3)) <= NEGLIGIBLE)
    weights = by_axis[:, 0].copy()
    rough = np.flatnonzero(~exact)
    if len(rough):
        least = diagonal[rough].reshape(-1, blocks, dimension).min(axis=2)
        off_diagonal = np.abs(scaled[rough] * (1 - np.eye(blocks * dimension))).max(axis=(1, 2))
        smallest = np.maximum(smallest_eigenvalue(information[rough]), 0.0)
        chosen = np.where((off_diagonal <= NEGLIGIBLE)[:, None], least, smallest[:, None])
        weights[rough] = chosen[:, :, None] * np.eye(blocks)
        mixed = rough[off_diagonal > NEGLIGIBLE]
        if blocks > 1 and len(mixed):
            better, proven = _common_part(full[mixed], by_axis[mixed])
            weights[mixed[proven]] = better[proven]
    # what was neglected is at most this share of the diagonal
    neglected = size * NEGLIGIBLE * ((across > 0) | (spread.max(axis=(1, 2, 3)) > 0))
    weights -= neglected[:, None, None] * np.einsum("kaa->ka", weights)[:, :, None] * np.eye(blocks)
    return AxisWeights(weights, np.where(exact, int(Exactness.EXACT), int(Exactness.LOWER_BOUND)), full)
