"""From the clique matrices of the relaxation back to one matrix Y: factorise, align down the tree, undo coordinates."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gtsam_sdp.chordal.conic import ConicProblem, smat
from gtsam_sdp.chordal.coordinates import CliqueCoordinates, CoordinateMaker
from gtsam_sdp.chordal.tree import CliqueTree
from gtsam_sdp.variables import Array, Layout


@dataclass(frozen=True)
class Recovered:
    """Y of the relaxation.

    Attributes:
        Y: raw rows, (raw, rows); rotation blocks are not projected yet.
        eigenvalue_ratios: lambda_d / lambda_(d+1) of each clique matrix: large where the relaxation is tight, (c,).
    """

    Y: Array
    eigenvalue_ratios: Array


def clique_matrices(problem: ConicProblem, z: Array, layout: Layout) -> list[Array]:
    """Gram matrices of the cliques in clique coordinates, from the stacked multipliers of the cones."""
    starts = problem.starts
    matrices = []
    for k in range(len(problem.coordinates)):
        matrix = smat(z[starts[k] : starts[k + 1]], int(problem.sizes[k]))
        if layout.space.dimension == 2:  # rows 2i and 2i + 1 are real and imaginary part
            real = matrix[0::2, 0::2] + matrix[1::2, 1::2]
            imaginary = matrix[1::2, 0::2] - matrix[0::2, 1::2]
            matrix = real + 1j * imaginary
        matrices.append(matrix)
    return matrices


def recover(problem: ConicProblem, z: Array, tree: CliqueTree, layout: Layout, maker: CoordinateMaker) -> Recovered:
    """Best factor of rank d of each clique matrix, each aligned to its parent on the rows they share."""
    rank = layout.space.rows
    Y = np.zeros((layout.size, rank), dtype=layout.space.dtype)
    known = np.zeros(layout.size, dtype=bool)
    ratios = np.ones(len(tree.cliques))
    for k, matrix in enumerate(clique_matrices(problem, z, layout)):
        coordinates, clique = problem.coordinates[k], tree.cliques[k]
        factor, ratios[k] = _factor(matrix, rank)
        if clique.separator:
            part = maker.make(clique.separator)
            target = part.inverse @ Y[part.rows]
            factor = factor @ _procrustes(coordinates.map_to(part) @ factor, target)
        _put(Y, known, coordinates, factor, maker)
    return Recovered(_unreflected(Y, layout), ratios)


def _factor(matrix: Array, rank: int) -> tuple[Array, float]:
    eigenvalues, vectors = np.linalg.eigh(matrix)
    largest = np.maximum(eigenvalues[::-1], 0.0)
    factor = vectors[:, ::-1][:, :rank] * np.sqrt(largest[:rank])
    if factor.shape[1] < rank:
        factor = np.pad(factor, ((0, 0), (0, rank - factor.shape[1])))
    rest = largest[rank] if len(largest) > rank else 0.0
    return factor, float(largest[min(rank, len(largest)) - 1] / max(rest, 1e-300))


def _procrustes(moving: Array, target: Array) -> Array:
    """The orthogonal U that brings moving @ U nearest to target."""
    left, _, right = np.linalg.svd(moving.conj().T @ target)
    return left @ right


def _put(Y: Array, known: Array, coordinates: CliqueCoordinates, factor: Array, maker: CoordinateMaker) -> None:
    """Writes a clique's rows; translations that may be shifted are shifted to meet those that are known already."""
    rows = coordinates.rows
    values = coordinates.basis @ factor
    labels = maker.shiftable[rows]
    for label in np.unique(labels[labels >= 0]):
        at = np.flatnonzero(labels == label)
        shared = at[known[rows[at]]]
        if len(shared):
            values[at] += (Y[rows[shared]] - values[shared]).mean(axis=0)
    new = ~known[rows]
    Y[rows[new]] = values[new]
    known[rows] = True


def _unreflected(Y: Array, layout: Layout) -> Array:
    """Y, mirrored if most rotation blocks have a negative determinant."""
    if layout.space.dimension == 2 or not len(layout.blocks):
        return Y
    blocks = Y[layout.blocks[:, None] + np.arange(3)]
    negative = np.count_nonzero(np.linalg.det(blocks) < 0)
    return Y * np.array([1.0, 1.0, -1.0]) if 2 * negative > len(blocks) else Y


def rotation_multipliers(problem: ConicProblem, y: Array, layout: Layout) -> dict[int, Array]:
    """Multipliers of the rotations by first raw row, in the unit of the cost."""
    rank = layout.space.rows
    found = {}
    for block, columns in zip(problem.blocks.tolist(), problem.multiplier_columns, strict=True):
        j, i = np.tril_indices(rank)
        matrix = np.zeros((rank, rank), dtype=layout.space.dtype)
        matrix[i, j] = matrix[j, i] = y[columns] / problem.scale
        found[block] = matrix
    return found


def pair_multipliers(problem: ConicProblem, y: Array) -> Array:
    """Matrices W of the pairs, positive semidefinite, in the unit of the cost, (p, 4, 4)."""
    if not len(problem.pairs):
        return np.zeros((0, 4, 4))
    b, a = np.tril_indices(4)
    W = np.zeros((len(problem.pairs), 4, 4))
    W[:, a, b] = W[:, b, a] = y[problem.pair_columns] / problem.scale
    eigenvalues, vectors = np.linalg.eigh(W)
    kept = np.maximum(eigenvalues, 0.0)
    W = (vectors * kept[:, None, :]) @ vectors.swapaxes(1, 2)
    return W + 8 * np.finfo(float).eps * kept[:, -1:, None] * np.eye(4)
