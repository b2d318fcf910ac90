"""From the clique matrices of the relaxation back to one matrix: factorise, align down the tree, undo coordinates."""

from __future__ import annotations

import numpy as np

from gtsam_sdp.linalg.array import Array
from gtsam_sdp.linalg.svec import smat
from gtsam_sdp.relaxation.clique_coordinates import CliqueCoordinates
from gtsam_sdp.relaxation.lift import Lift
from gtsam_sdp.relaxation.problem import CliqueProblem


def clique_matrices(problem: CliqueProblem, z: Array) -> list[Array]:
    """Gram matrices of the cliques in real clique coordinates, from the stacked multipliers of the cones."""
    starts, sizes = problem.starts, problem.sizes.tolist()
    return [smat(z[starts[k] : starts[k + 1]], sizes[k]) for k in range(len(problem.coordinates))]


def recover_rows(lift: Lift, problem: CliqueProblem, z: Array) -> tuple[Array, Array]:
    """Rows of the lift from best factors of the clique matrices, each aligned to its parent on the rows they share.

    Returns:
        rows (size, columns), and the eigenvalue ratio of each clique.
    """
    cliques = problem.tree.cliques
    ratios = np.ones(len(cliques))
    rows = np.zeros((lift.size, lift.columns), dtype=problem.coordinates[0].basis.dtype)
    known = np.zeros(lift.size, dtype=bool)
    for k, matrix in enumerate(clique_matrices(problem, z)):
        coordinates, clique = problem.coordinates[k], cliques[k]
        if not coordinates.size:  # positions that nothing but each other is counted from: all at the first
            _put(rows, known, coordinates, np.zeros((0, lift.columns)))
            continue
        candidates, ratios[k] = lift.factors(matrix, coordinates)
        if clique.separator:
            part = lift.coordinates(clique.separator)
            target, shared = part.inverse @ rows[part.rows], coordinates.map_to(part)
            candidates = [factor @ _procrustes(shared @ factor, target) for factor in candidates]
            candidates.sort(key=lambda factor: float(np.linalg.norm(shared @ factor - target)))
        _put(rows, known, coordinates, candidates[0])
    return rows, ratios


def _procrustes(moving: Array, target: Array) -> Array:
    """The orthogonal U that brings moving @ U nearest to target."""
    left, _, right = np.linalg.svd(moving.conj().T @ target)
    return left @ right


def _put(rows: Array, known: Array, coordinates: CliqueCoordinates, factor: Array) -> None:
    """Writes a clique's rows; sets that may be moved as a whole are moved to meet what is known of them already.

    Positions are counted from frames as they are known, not as the factor has them: an arm of a hundred metres would
    turn a small error of alignment into a large one, which the next clique would be aligned to.
    """
    at = coordinates.rows
    frames = at[: coordinates.turning]
    factor = factor.copy()
    factor[: coordinates.turning][known[frames]] = rows[frames[known[frames]]]
    values = coordinates.basis @ factor
    for members in coordinates.movable:
        shared = members[known[at[members]]]
        if len(shared):
            values[members] += (rows[at[shared]] - values[shared]).mean(axis=0)
    new = ~known[at]
    rows[at[new]] = values[new]
    known[at] = True
