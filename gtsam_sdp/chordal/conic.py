"""The dual of the clique-decomposed relaxation as a block linear matrix inequality.

    max  objective of the multipliers
    s.t. W_c^T (Q_c - M_c) W_c + U_c - sum over children F^T U_child F >= 0     for every clique c

Q_c, M_c: the cost and the multipliers of the terms and constraints at home in c, on its rows. U_c: a free symmetric
matrix on the coordinates of c's separator. Matrices of multipliers that have to be positive semidefinite have blocks
of their own. See docs/maths.md, section 5.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy

from gtsam_sdp.backends.export import write_cbf, write_sdpa
from gtsam_sdp.chordal.coordinates import CliqueCoordinates
from gtsam_sdp.chordal.forms import Forms, Slopes
from gtsam_sdp.chordal.lift import Lift, MultiplierGroup
from gtsam_sdp.chordal.svec import svec, svec_place, svec_weights, upper_entries
from gtsam_sdp.chordal.tree import CliqueTree
from gtsam_sdp.terms import DistanceTerms, Terms
from gtsam_sdp.variables import Array

_SOFTEST = 1e-4
"""Stiffness, relative to the median of the costs' diagonals, below which a coordinate is not balanced any further."""

_MANY_CLIQUES = 50
"""Trees from this size on are balanced: fewer iterations where chains are long. Small ones with large residuals are
better left alone."""

_FREE = 1e-9
"""Share of the stiffest coordinate of a clique below which a coordinate counts as free."""


_STEEPEST = 1e-9
"""Smallest delta^ / delta: a tangent is not taken farther away than this."""

_FINEST = 1e-7
"""Smallest unit in which delta^ / delta - 1 is counted."""


class SlopeVariables(NamedTuple):
    """Variables p, s of terms of distances of one batch, in a unit u: [[1 + u p, p], [p, s]] >= 0.

    u p = delta^ / delta - 1, and delta / delta^ - 1 is then at most -u p + u^2 s. With u as large as the relative
    residuals, p and s are of size 1 however little noise there is; without a unit the solver would know a small p to
    its absolute accuracy only.

    Attributes:
        batch: place among the lift's terms.
        members: places in the batch, (g,).
        columns: their variables p and s, (g, 2).
        unit: u.
    """

    batch: int
    members: Array
    columns: Array
    unit: float


@dataclass(frozen=True)
class ConicProblem:
    """max b^T y subject to svec(C_k) - A_k y in the cone of positive semidefinite matrices, for every block k.

    svec lists the upper triangle column by column, off-diagonal entries times sqrt(2).

    Attributes:
        A: all A_k stacked, (sum of n_k (n_k + 1) / 2, variables).
        c: all svec(C_k) stacked.
        b: objective, (variables,).
        sizes: n_k of the blocks, cliques first, (k,).
        weights: rows of A and c were multiplied by these, to balance soft and stiff cliques; so are multipliers of the
            cones before they are those of the cliques.
        offset: optimum / scale + offset is the bound in the unit of `graph.error`.
        scale: the costs were multiplied by this.
        tree: the cliques.
        coordinates: of the cliques.
        groups: multipliers of the lift.
        columns: variables of each group, (members, parameters).
        slopes: where terms of distances touch is a variable too.
        is_balanced: the data are as large as 1 already, and solvers had better not rescale them.
    """

    A: scipy.sparse.csc_array
    c: Array
    b: Array
    sizes: Array
    weights: Array
    offset: float
    scale: float
    tree: CliqueTree
    coordinates: Sequence[CliqueCoordinates]
    groups: Sequence[MultiplierGroup]
    columns: Sequence[Array]
    slopes: Sequence[SlopeVariables] = ()
    is_balanced: bool = False

    @property
    def starts(self) -> Array:
        """Where each block starts in the stacked svec, (k + 1,)."""
        return np.concatenate([[0], np.cumsum(self.sizes * (self.sizes + 1) // 2)])

    def parameters(self, y: Array, group: int) -> Array:
        """Multipliers of a group in the unit of the cost, (members, parameters)."""
        return y[self.columns[group]] / self.scale

    def touching(self, terms: Sequence[Terms], y: Array, less: float = 0.0) -> Sequence[Terms]:
        """The lift's terms as tangents where y says; delta^ / delta is made smaller by a share `less`."""
        terms = list(terms)
        for own in self.slopes:
            distances = terms[own.batch].distances
            assert distances is not None
            points = distances.point.copy()
            points[own.members] /= np.maximum((1 + own.unit * y[own.columns[:, 0]]) * (1 - less), _STEEPEST)
            terms[own.batch] = terms[own.batch].touching(points)
        return terms

    def to_sdpa(self, path: str | os.PathLike[str]) -> None:
        """Writes the problem in SDPA sparse format, see `gtsam_sdp.backends.export`."""
        write_sdpa(self, Path(path))

    def to_cbf(self, path: str | os.PathLike[str]) -> None:
        """Writes the problem in Conic Benchmark Format, see `gtsam_sdp.backends.export`."""
        write_cbf(self, Path(path))

    def __str__(self) -> str:
        sizes, counts = np.unique(self.sizes, return_counts=True)
        blocks = ", ".join(f"{n} of {size}" for size, n in zip(sizes.tolist(), counts.tolist(), strict=True))
        return f"ConicProblem: {len(self.b)} variables, {self.A.nnz} entries\n  blocks by side: {blocks}"

    __repr__ = __str__


def build_conic(lift: Lift, tree: CliqueTree, *, tighten: bool = True) -> ConicProblem:
    """The conic problem of a lift on a clique tree.

    Args:
        lift: rows, terms and constraints.
        tree: the cliques, from `lift.tree`.
        tighten: add the lift's redundant constraints.
    """
    coordinates = [lift.coordinates(clique.members) for clique in tree.cliques]
    links = _link(lift, tree, coordinates)
    costs = clique_costs(lift, lift.forms, tree, coordinates)
    diagonal = np.concatenate([np.diagonal(cost) for cost in costs])
    positive = diagonal[diagonal > 0]
    scale = 1 / float(np.median(positive)) if len(positive) else 1.0
    groups = lift.multipliers(tree, tighten=tighten)
    cones = [group.cone for group in groups if group.cone for _ in group.cliques]
    columns, count = _number_variables(groups)
    slopes, count = _number_slopes(lift, tree, count)
    tangents = sum(len(own.members) for own in slopes)
    sizes = np.array([max(len(cost), 1) for cost in costs] + cones + [2] * tangents, dtype=np.intp)
    starts = np.concatenate([[0], np.cumsum(sizes * (sizes + 1) // 2)])
    entries = _Entries()
    _add_multipliers(entries, lift, coordinates, groups, columns, starts)
    _add_slopes(entries, lift, tree, coordinates, slopes, starts, scale)
    count = _add_separators(entries, links, starts, count)
    b = np.zeros(count)
    for group, variables in zip(groups, columns, strict=True):
        b[variables] = group.objective
    for own in slopes:
        price = scale * own.unit * _slopes_of(lift, own).price[own.members]
        b[own.columns] = np.column_stack([price, -own.unit * price])
    weights = np.ones(int(starts[-1]))
    own = slice(0, int(starts[len(costs)]))
    if len(tree.cliques) >= _MANY_CLIQUES and (forms := lift.stiffness_forms) is not None:
        weights[own] = _weights(lift, forms, tree, coordinates, links, costs, scale)
    c = np.zeros(len(weights))
    # an empty clique becomes the block 1 >= 0
    c[own] = np.concatenate([svec(scale * cost) if len(cost) else np.ones(1) for cost in costs]) * weights[own]
    c[len(c) - 3 * tangents :] = np.tile([1.0, 0.0, 0.0], tangents)
    return ConicProblem(
        A=entries.matrix(weights, count),
        c=c,
        b=b,
        sizes=sizes,
        weights=weights,
        offset=float(sum(batch.constant.sum() for batch in lift.terms)),
        scale=scale,
        tree=tree,
        coordinates=coordinates,
        groups=groups,
        columns=columns,
        slopes=slopes,
    )


class _Link(NamedTuple):
    """A separator: its clique, the parent, and the maps from their coordinates to its own, (s, n)."""

    clique: int
    parent: int
    own: Array
    above: Array


def _link(lift: Lift, tree: CliqueTree, coordinates: Sequence[CliqueCoordinates]) -> list[_Link]:
    """The separators of a tree, parents first."""
    links = []
    for c, clique in enumerate(tree.cliques):
        if clique.separator:
            part = lift.coordinates(clique.separator)
            own, above = (lift.real_map(coordinates[k].map_to(part), part, coordinates[k]) for k in (c, clique.parent))
            links.append(_Link(c, clique.parent, own, above))
    return links


def _weights(
    lift: Lift,
    forms: Sequence[Forms],
    tree: CliqueTree,
    coordinates: Sequence[CliqueCoordinates],
    links: Sequence[_Link],
    costs: list[Array],
    scale: float,
) -> Array:
    """Weights of the svecs of all cliques that balance soft and stiff ones; `costs` are used where they are convex."""
    known = all(new is old for new, old in zip(forms, lift.forms, strict=True))
    stiff = costs if known else clique_costs(lift, forms, tree, coordinates)
    sides = _stiffness([scale * cost for cost in stiff], links)
    return np.concatenate([_balance(side) if len(side) else np.ones(1) for side in sides])


def _stiffness(costs: list[Array], links: Sequence[_Link]) -> list[Array]:
    """For every coordinate of every clique, how stiffly the clique and those below it hold it.

    The diagonal of the clique's cost plus what is left of its children's when their other coordinates give way.
    """
    for link in reversed(links):
        cost = costs[link.clique]
        floor = _FREE * float(np.abs(np.diagonal(cost)).max(initial=0.0)) + np.finfo(float).tiny
        values, vectors = np.linalg.eigh(cost)
        compliance = link.own @ (vectors / np.maximum(values, floor))
        left = np.linalg.inv(compliance @ (link.own @ vectors).T)
        costs[link.parent] = costs[link.parent] + link.above.T @ left @ link.above
    return [np.diagonal(cost) for cost in costs]


def _balance(stiffness: Array) -> Array:
    """Weights of a clique's svec that bring its soft coordinates half way to the stiffness of others.

    All the way takes fewer iterations where the relaxation is tight, and many more where it is not.
    """
    scale = np.clip(stiffness, _SOFTEST, 1.0) ** -0.25
    row, column = upper_entries(len(scale))
    return scale[row] * scale[column]


def _number_variables(groups: Sequence[MultiplierGroup]) -> tuple[list[Array], int]:
    columns, count = [], 0
    for group in groups:
        shape = (len(group.cliques), len(group.objective))
        columns.append(count + np.arange(shape[0] * shape[1]).reshape(shape))
        count += shape[0] * shape[1]
    return columns, count


def clique_costs(
    lift: Lift, forms: Sequence[Forms], tree: CliqueTree, coordinates: Sequence[CliqueCoordinates]
) -> list[Array]:
    """W_c^T Q_c W_c of every clique, summed in differences so that nothing as large as the map enters."""
    costs = [np.zeros((side, side)) for side in (lift.clique_size(clique.members) for clique in tree.cliques)]
    for batch in forms:
        for c, _, matrices in _at_home(lift, batch, batch.matrix, tree, coordinates):
            costs[c] += matrices.sum(axis=0)
    return costs


def _at_home(
    lift: Lift, batch: Forms, matrices: Array, tree: CliqueTree, coordinates: Sequence[CliqueCoordinates]
) -> Iterator[tuple[int, Array, Array]]:
    """Cliques, the members of a batch at home in each, and their matrices in its real coordinates, (k, n, n)."""
    place = np.zeros(lift.size, dtype=np.intp)
    homes = tree.homes(batch.variables(lift.owner))
    order = np.argsort(homes, kind="stable")
    for chosen in np.split(order, np.flatnonzero(np.diff(homes[order])) + 1):
        c = int(homes[chosen[0]])
        if c < 0:  # fixed altogether: a constant of the vector lift is at home where the world frame is
            continue
        place[coordinates[c].rows] = np.arange(len(coordinates[c].rows))
        at = np.where(batch.used[chosen], place[batch.rows[chosen]], 0)
        local = batch.expansion[chosen] @ coordinates[c].basis[at]
        local, matrix = lift.real_terms(local, matrices[chosen], batch.turning, coordinates[c])
        yield c, chosen, local.swapaxes(1, 2) @ matrix @ local


class _Entries:
    """Collects entries of A: row, column and value of many symmetric matrices at once."""

    def __init__(self) -> None:
        self._parts: list[tuple[Array, Array, Array]] = []

    def add(self, start: Array | int, i: Array, j: Array, value: Array, column: Array) -> None:
        """Entries (i, j) of blocks that start at `start`; one off the diagonal stands for its mirror too."""
        row = start + svec_place(np.minimum(i, j), np.maximum(i, j))
        self._parts.append((row.ravel(), column.ravel(), (value * svec_weights(i, j)).ravel()))

    def matrix(self, weights: Array, columns: int) -> scipy.sparse.csc_array:
        """A, its rows multiplied by weights."""
        row, column, value = (np.concatenate([part[k] for part in self._parts]) for k in range(3))
        return scipy.sparse.coo_array((value * weights[row], (row, column)), shape=(len(weights), columns)).tocsc()


def _add_multipliers(
    entries: _Entries,
    lift: Lift,
    coordinates: Sequence[CliqueCoordinates],
    groups: Sequence[MultiplierGroup],
    columns: Sequence[Array],
    starts: Array,
) -> None:
    """+ M: the cone holds C - A y, and S_c loses M; where the parameters are a matrix, it is a block of its own."""
    labels = [lift.real_labels(own) for own in coordinates]
    lengths = [len(own) for own in labels]
    stride = 2 * lift.size + 1
    known = np.repeat(np.arange(len(labels)) * stride, lengths) + np.concatenate(labels)
    places = np.concatenate([np.arange(n) for n in lengths])
    order = np.argsort(known)
    block = len(coordinates)
    for group, variables in zip(groups, columns, strict=True):
        wanted = group.cliques[:, None] * stride + group.rows
        at = places[order[np.searchsorted(known[order], wanted)]]
        row, column, parameter, value = group.entries
        value = np.broadcast_to(value, (len(at), len(value)))
        entries.add(starts[group.cliques][:, None], at[:, row], at[:, column], value, variables[:, parameter])
        if group.cone:
            a, b = upper_entries(group.cone)
            first = starts[block : block + len(at)][:, None]
            entries.add(first, a, b, np.full(variables.shape, -1.0), variables)
            block += len(at)


def _slopes_of(lift: Lift, own: SlopeVariables) -> Slopes:
    slopes = lift.forms[own.batch].slopes
    assert slopes is not None
    return slopes


def _number_slopes(lift: Lift, tree: CliqueTree, count: int) -> tuple[list[SlopeVariables], int]:
    """Two variables for each term of a distance that is not fixed; and the number of variables so far."""
    found = []
    for number, batch in enumerate(lift.forms):
        if batch.slopes is None:
            continue
        members = np.flatnonzero((batch.slopes.price > 0) & (tree.homes(batch.variables(lift.owner)) >= 0))
        columns = count + np.arange(2 * len(members)).reshape(-1, 2)
        found.append(SlopeVariables(number, members, columns, _unit(lift.terms[number].distances, members)))
        count += 2 * len(members)
    return found, count


def _unit(distances: DistanceTerms | None, members: Array) -> float:
    """Root mean square of delta^ / r - 1, at most 1."""
    assert distances is not None
    if not len(members):
        return 1.0
    relative = 1 - distances.measured[members] / distances.point[members]
    return float(np.clip(np.sqrt(np.mean(relative**2)), _FINEST, 1.0))


def _add_slopes(
    entries: _Entries,
    lift: Lift,
    tree: CliqueTree,
    coordinates: Sequence[CliqueCoordinates],
    slopes: Sequence[SlopeVariables],
    starts: Array,
    scale: float,
) -> None:
    """S_c loses u p times the slope of every term of a distance; its p and s have a cone of their own, at the end."""
    block = len(starts) - 1 - sum(len(own.members) for own in slopes)
    for own in slopes:
        batch, first = lift.forms[own.batch], starts[block : block + len(own.members)]
        column = np.full(len(batch.rows), -1)
        column[own.members] = own.columns[:, 0]
        for c, chosen, matrices in _at_home(
            lift, batch, scale * own.unit * _slopes_of(lift, own).matrix, tree, coordinates
        ):
            matrices = matrices * (column[chosen] >= 0)[:, None, None]
            member, i, j = np.nonzero(np.triu(matrices))
            entries.add(int(starts[c]), i, j, matrices[member, i, j], column[chosen][member])
        for row, column, variable, value in ((0, 0, 0, -own.unit), (0, 1, 0, -1.0), (1, 1, 1, -1.0)):
            at = (np.full(len(first), row), np.full(len(first), column))
            entries.add(first, *at, np.full(len(first), value), own.columns[:, variable])
        block += len(own.members)


def _add_separators(entries: _Entries, links: Sequence[_Link], starts: Array, count: int) -> int:
    """- U on the separator's coordinates in the clique, + U in its parent; returns the number of variables so far."""
    for link in links:
        for owner, sign, F in ((link.clique, -1.0, link.own), (link.parent, 1.0, link.above)):
            a, i = np.nonzero(F)
            f = F[a, i]
            # U_ab F_ai F_bj for all pairs of entries (a, i), (b, j) of F; those below the diagonal are mirrors
            first, second = np.nonzero(i[:, None] <= i)
            low, high = np.minimum(a[first], a[second]), np.maximum(a[first], a[second])
            entries.add(
                int(starts[owner]), i[first], i[second], sign * f[first] * f[second], count + svec_place(low, high)
            )
        count += len(link.own) * (len(link.own) + 1) // 2
    return count
