"""The dual of the clique-decomposed relaxation as a block linear matrix inequality.

    max  sum_i tr Lambda_i - sum_p tr W_p
    s.t. W_c^H (Q_c - Lambda_c - K_c) W_c + U_c - sum over children F^H U_child F >= 0     for every clique c
         W_p >= 0                                                                          for every pair p

Q_c, Lambda_c: the cost and the multipliers of the terms and rotations at home in c. U_c: a free Hermitian matrix on the
separator of c. K_c, from the W_p: the convex hull of SO(3) for pairs of rotations (Saunderson, Parrilo, Willsky,
"Semidefinite descriptions of the convex hull of rotation matrices", SIAM J. Optim. 25, 2015); in 2D the complex rows
imply it. A complex cone becomes a real one of twice the size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from gtsam_sdp.chordal.coordinates import CliqueCoordinates, CoordinateMaker
from gtsam_sdp.chordal.tree import CliqueTree, term_members
from gtsam_sdp.terms import Terms
from gtsam_sdp.variables import Array, Layout

HULL = np.array(
    [
        [[(0, 0, -1), (1, 1, -1), (2, 2, 1)], [(0, 2, 1), (2, 0, 1)], [(0, 1, 1), (1, 0, -1)], [(1, 2, 1), (2, 1, 1)]],
        [None, [(0, 0, 1), (1, 1, -1), (2, 2, -1)], [(1, 2, 1), (2, 1, -1)], [(0, 1, 1), (1, 0, 1)]],
        [None, None, [(0, 0, 1), (1, 1, 1), (2, 2, 1)], [(2, 0, 1), (0, 2, -1)]],
        [None, None, None, [(0, 0, -1), (1, 1, 1), (2, 2, -1)]],
    ],
    dtype=object,
)
"""K(E): entry (a, b) sums coefficient * E_ij over its triples (i, j, coefficient); I + K(E) >= 0 on the hull."""


@dataclass(frozen=True)
class ConicProblem:
    """max b^T y subject to svec(C_k) - A_k y in the cone of positive semidefinite matrices, for every block k.

    svec lists the upper triangle column by column, off-diagonal entries times sqrt(2).

    Attributes:
        A: all A_k stacked, (sum of n_k (n_k + 1) / 2, variables).
        c: all svec(C_k) stacked.
        b: objective, (variables,).
        sizes: n_k of the blocks, cliques first, then pairs, (k,).
        offset: to be added to the optimum for the cost of the graph, before scaling.
        scale: the costs were multiplied by this.
        multiplier_columns: variables of the multipliers, (rotations, parameters).
        pair_columns: variables of the matrices of the pairs, (pairs, 10).
        pairs: first raw rows of the pairs' rotations, (pairs, 2).
        blocks: first raw rows of the rotations, in the order of `multiplier_columns`.
        coordinates: clique coordinates.
    """

    A: sp.csc_array
    c: Array
    b: Array
    sizes: Array
    offset: float
    scale: float
    multiplier_columns: Array
    pair_columns: Array
    pairs: Array
    blocks: Array
    coordinates: Sequence[CliqueCoordinates]

    @property
    def starts(self) -> Array:
        """Where each block starts in the stacked svec, (k + 1,)."""
        return np.concatenate([[0], np.cumsum(self.sizes * (self.sizes + 1) // 2)])


def svec_place(row: Array, column: Array) -> Array:
    """Place of entry (row <= column) in the svec of a matrix."""
    return column * (column + 1) // 2 + row


def smat(vector: Array, size: int) -> Array:
    """The symmetric matrix of an svec."""
    column, row = np.tril_indices(size)
    matrix = np.zeros((size, size))
    matrix[row, column] = np.where(row == column, vector, vector / np.sqrt(2))
    return matrix + np.triu(matrix, 1).T


def real_entries(i: Array, j: Array, value: Array, complex_rows: bool) -> tuple[Array, Array, Array]:
    """Hermitian entries (i <= j) as (place in the real svec, value, index of the entry they come from)."""
    source = np.arange(len(i))
    diagonal = np.where(i == j, 1.0, np.sqrt(2.0))
    if not complex_rows:
        return svec_place(i, j), np.real(value) * diagonal, source
    off = np.flatnonzero(i < j)
    real, imaginary = np.real(value) * diagonal, np.imag(value)[off] * np.sqrt(2.0)
    places = [
        svec_place(2 * i, 2 * j),
        svec_place(2 * i + 1, 2 * j + 1),
        svec_place(2 * i[off], 2 * j[off] + 1),
        svec_place(2 * i[off] + 1, 2 * j[off]),
    ]
    values = [real, real, -imaginary, imaginary]
    return np.concatenate(places), np.concatenate(values), np.concatenate([source, source, off, off])


def build_conic(
    terms: Sequence[Terms], layout: Layout, tree: CliqueTree, maker: CoordinateMaker, *, tighten: bool = True
) -> ConicProblem:
    """The conic problem of terms on a clique tree.

    Args:
        terms: the terms.
        layout: rows of the variables.
        tree: the cliques.
        maker: makes clique coordinates.
        tighten: add the convex hull of SO(3) for every pair of rotations in a clique (in 2D it is implied).
    """
    coordinates = [maker.make(clique.members) for clique in tree.cliques]
    costs = _clique_costs(terms, layout, tree, coordinates)
    diagonal = np.concatenate([np.real(np.diagonal(cost)) for cost in costs])
    scale = 1 / float(np.median(diagonal[diagonal > 0]))
    return _Builder(layout, tree, maker, coordinates, tighten).build(costs, scale, sum(b.constant.sum() for b in terms))


def _clique_costs(
    terms: Sequence[Terms], layout: Layout, tree: CliqueTree, coordinates: Sequence[CliqueCoordinates]
) -> list[Array]:
    """W_c^H Q_c W_c of every clique, summed in differences so that nothing as large as the map enters."""
    costs = [np.zeros((c.size, c.size), dtype=layout.space.dtype) for c in coordinates]
    place = np.full(layout.size, -1)
    for batch in terms:
        homes = tree.homes(term_members(batch, layout))
        order = np.argsort(homes, kind="stable")
        for chosen in np.split(order, np.flatnonzero(np.diff(homes[order])) + 1):
            c = int(homes[chosen[0]])
            place[coordinates[c].rows] = np.arange(len(coordinates[c].rows))
            local = _local_basis(batch, chosen, place, coordinates[c].basis, layout)
            costs[c] += (local.conj().swapaxes(1, 2) @ batch.matrix[chosen] @ local).sum(axis=0)
    return costs


def _local_basis(batch: Terms, chosen: Array, place: Array, basis: Array, layout: Layout) -> Array:
    """Local rows of terms as combinations of clique coordinates, (m, r, n)."""
    count = layout.space.rows
    rotations = place[batch.rotations[chosen][:, :, None] + np.arange(count)].reshape(len(chosen), -1)
    combination = batch.combination if batch.combination.ndim == 2 else batch.combination[chosen]
    moved = combination @ basis[place[batch.translations[chosen]]]
    if batch.offset is not None:
        world = basis[place[layout.world] + np.arange(count)]
        moved = moved - batch.offset[chosen] @ world
    return np.concatenate([basis[rotations], moved], axis=1)


class _Builder:
    """Lays out variables and blocks, and fills the sparse matrix clique by clique."""

    def __init__(
        self,
        layout: Layout,
        tree: CliqueTree,
        maker: CoordinateMaker,
        coordinates: Sequence[CliqueCoordinates],
        tighten: bool,
    ) -> None:
        self.layout, self.tree, self.maker, self.coordinates = layout, tree, maker, coordinates
        self.is_complex = layout.space.dimension == 2
        self.homes: dict[int, list[int]] = {}
        for block in layout.blocks:
            variable = int(layout.row_variable[block])
            self.homes.setdefault(int(tree.home[variable]), []).append(int(block))
        self.pairs = self._list_pairs() if tighten and not self.is_complex else []
        self.parts: list[tuple[Array, Array, Array]] = []

    def _list_pairs(self) -> list[tuple[int, int, int]]:
        """(clique, first rows of two rotations): pairs that meet, each in the clique where one of them is frontal."""
        found = []
        for c, clique in enumerate(self.tree.cliques):
            blocks = {v: self._block(v) for v in clique.members}
            frontals = [v for v in clique.frontals if blocks[v] >= 0]
            others = [v for v in clique.separator if blocks[v] >= 0]
            for k, v in enumerate(frontals):
                found += [(c, blocks[v], blocks[u]) for u in frontals[k + 1 :] + others]
        return found

    def _block(self, variable: int) -> int:
        if variable == len(self.layout.keys):
            return self.layout.world
        return int(self.layout.rotation[variable])

    def build(self, costs: Sequence[Array], scale: float, constant: float) -> ConicProblem:
        """Fills A, c and b."""
        factor = 2 if self.is_complex else 1
        sizes = np.array([factor * c.size for c in self.coordinates] + [4] * len(self.pairs), dtype=np.intp)
        starts = np.concatenate([[0], np.cumsum(sizes * (sizes + 1) // 2)])
        parameters = 1 if self.is_complex else 6
        blocks = np.array([b for c in sorted(self.homes) for b in self.homes[c]], dtype=np.intp)
        multiplier_columns = np.arange(len(blocks) * parameters).reshape(-1, parameters)
        pair_columns = multiplier_columns.size + np.arange(10 * len(self.pairs)).reshape(-1, 10)
        variables = multiplier_columns.size + pair_columns.size
        self._add_multipliers(starts, multiplier_columns)
        variables = self._add_separators(starts, variables)
        self._add_pairs(starts, pair_columns)
        A = self._matrix((int(starts[-1]), variables))
        b = np.zeros(variables)
        b[multiplier_columns[:, [0] if self.is_complex else [0, 2, 5]]] = 1.0
        b[pair_columns[:, [0, 2, 5, 9]]] = -1.0
        return ConicProblem(
            A=A,
            c=self._costs(costs, scale, starts),
            b=b,
            sizes=sizes,
            offset=float(constant),
            scale=scale,
            multiplier_columns=multiplier_columns,
            pair_columns=pair_columns,
            pairs=np.array([(i, j) for _, i, j in self.pairs], dtype=np.intp).reshape(-1, 2),
            blocks=blocks,
            coordinates=self.coordinates,
        )

    def _costs(self, costs: Sequence[Array], scale: float, starts: Array) -> Array:
        c = np.zeros(int(starts[-1]))
        for k, cost in enumerate(costs):
            j, i = np.tril_indices(len(cost))
            place, value, _ = real_entries(i, j, scale * cost[i, j], self.is_complex)
            c[starts[k] + place] = value
        return c

    def _add(self, start: int, i: Array, j: Array, value: Array, column: Array) -> None:
        upper = i <= j
        place, real, source = real_entries(i[upper], j[upper], np.asarray(value)[upper], self.is_complex)
        used = real != 0
        self.parts.append((start + place[used], column[upper][source[used]], real[used]))

    def _matrix(self, shape: tuple[int, int]) -> sp.csc_array:
        row, column, value = (np.concatenate([p[k] for p in self.parts]) for k in range(3))
        return sp.coo_array((value, (row, column)), shape=shape).tocsc()

    def _place(self, clique: int, block: int) -> int:
        """Coordinate of a rotation's first row in a clique: rotations come first, unscaled."""
        return int(np.flatnonzero(self.coordinates[clique].rows == block)[0])

    def _add_multipliers(self, starts: Array, columns: Array) -> None:
        """+ Lambda: the cone holds C - A y, and S has - Lambda."""
        count = self.layout.space.rows
        j, i = np.tril_indices(count)
        at = 0
        for c in sorted(self.homes):
            for block in self.homes[c]:
                first = self._place(c, block)
                self._add(int(starts[c]), first + i, first + j, np.ones(len(i)), columns[at])
                at += 1

    def _add_separators(self, starts: Array, variables: int) -> int:
        """- U on the separator's coordinates in the clique, + U in its parent."""
        for c, clique in enumerate(self.tree.cliques):
            if not clique.separator:
                continue
            part = self.maker.make(clique.separator)
            size = part.size
            offdiagonal = size * (size - 1) // 2
            for owner, sign in ((c, -1.0), (clique.parent, 1.0)):
                F = self.coordinates[owner].map_to(part)
                a, i = np.nonzero(np.abs(F) > 1e-300)
                f = F[a, i]
                first, second = np.repeat(np.arange(len(a)), len(a)), np.tile(np.arange(len(a)), len(a))
                value = sign * f[first].conj() * f[second]
                low, high = np.minimum(a[first], a[second]), np.maximum(a[first], a[second])
                column = variables + svec_place(low, high)
                self._add(int(starts[owner]), i[first], i[second], value, column)
                if self.is_complex:
                    turn = np.sign(a[second] - a[first])
                    off = np.flatnonzero(turn)
                    imaginary = variables + size + offdiagonal + high * (high - 1) // 2 + low
                    self._add(
                        int(starts[owner]), i[first][off], i[second][off], 1j * (turn * value)[off], imaginary[off]
                    )
            variables += size + offdiagonal * (2 if self.is_complex else 1)
        return variables

    def _add_pairs(self, starts: Array, columns: Array) -> None:
        """+ K*(W) / 2 on the blocks (i, j) of the clique, and W itself in a cone of its own."""
        rows, cols, entries, weights = _hull_entries()
        for p, (c, first, second) in enumerate(self.pairs):
            i, j = self._place(c, first), self._place(c, second)
            at_i, at_j, value = i + rows, j + cols, weights / 2
            swap = at_i > at_j
            low, high = np.where(swap, at_j, at_i), np.where(swap, at_i, at_j)
            self._add(int(starts[c]), low, high, value, columns[p][entries])
            block = int(starts[len(self.coordinates) + p])
            b, a = np.tril_indices(4)
            order = svec_place(a, b)
            weight = np.where(a == b, 1.0, np.sqrt(2.0))
            self.parts.append((block + order, columns[p][order], -weight))


def _hull_entries() -> tuple[Array, Array, Array, Array]:
    """K*(W): (row, column) of E, entry of W (in upper-triangle order), and coefficient; W_ab for a < b counts twice."""
    found = []
    for a in range(4):
        for b in range(a, 4):
            for i, j, coefficient in HULL[a, b]:
                found.append((i, j, b * (b + 1) // 2 + a, coefficient * (1.0 if a == b else 2.0)))
    rows, cols, entries, weights = (np.array(x) for x in zip(*found, strict=True))
    return rows, cols, entries, weights.astype(float)


def hull_adjoint(W: Array) -> Array:
    """K*(W) with <K*(W), E> = <W, K(E)>, (p, 4, 4) -> (p, 3, 3)."""
    result = np.zeros((len(W), 3, 3))
    for a in range(4):
        for b in range(a, 4):
            for i, j, coefficient in HULL[a, b]:
                result[:, i, j] += coefficient * (W[:, a, b] + (W[:, b, a] if a != b else 0.0))
    return result
