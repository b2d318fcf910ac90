"""The conic problem of accurate data in other unknowns: by what its optimum differs from the values, in units of noise.

In the unknowns of `build_conic` costs are differences of numbers larger by 1 / noise^2, which uses up the relative
accuracy of a solver. Four exact changes make all data as large as 1 (docs/maths, section 5.9):

1. the multipliers at the values are subtracted, so that every clique matrix annihilates the values;
2. a clique's rows are counted from the values, as seen from one of its rotations (the frame), in units of noise;
3. every clique has multipliers of its own for the orthogonality of its rotations, in place of the separator's
   unknowns that say the same;
4. with these, other unknowns are freed of what they would add to the frame's block and to the symmetric products of
   the frame with other rotations.

The solver's point is mapped back before anything is proven with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import scipy

from gtsam_sdp.linalg.array import Array
from gtsam_sdp.linalg.svec import svec_place, svec_weights, upper_entries
from gtsam_sdp.relaxation.clique_coordinates import CliqueCoordinates
from gtsam_sdp.relaxation.gram import GramLift
from gtsam_sdp.relaxation.hull import hull_matrix
from gtsam_sdp.relaxation.problem import CliqueProblem

_ACCURATE = 3e-3
"""Relative residual of ranges below which a problem is recentred: others are solved as well as they are."""

_DAMPING = 1e-6
_REFINEMENTS = 3
"""Regularisation and repetitions of the least squares problem for the multipliers at the values."""

_CANCELLED = 1e-12
"""Share of the numbers that an entry was summed from below which it is their rounding."""

_DEPENDENT = 1e-6
"""Share of the largest pivot below which a position is no frame."""

_MARGIN_OF_FRAMES = 0.01
"""Margin of the frames' rows relative to that of others: their part of the solution is as large as 1."""


@dataclass(frozen=True)
class Recentred:
    """A conic problem in other unknowns, and the way back.

    Attributes:
        problem: what to solve.
        inner: places of the cones' diagonals in the svecs, (k,), and
        shares: shares of the margin that they get, (k,).
        centre: multipliers at the values, in the unknowns of the original problem.
        columns: original unknowns from the new ones; U is left out where multipliers took its place.
        rows: the new stacked svec from the original one.
        unit: the new objective is the original one times this.
    """

    problem: CliqueProblem
    inner: Array
    shares: Array
    centre: Array
    columns: scipy.sparse.csc_array
    rows: scipy.sparse.csr_array
    unit: float

    def with_margin(self, margin: float) -> CliqueProblem:
        """The problem with cones that are smaller by a margin, so that an inexact solution is in the original ones."""
        c = self.problem.c.copy()
        c[self.inner] -= margin * self.shares
        return replace(self.problem, c=c)

    def restore(self, y: Array, z: Array) -> tuple[Array, Array]:
        """Unknowns and multipliers of the cones of the original problem."""
        return self.centre + self.columns @ y, self.rows.T @ z / self.unit


def is_accurate(problem: CliqueProblem) -> bool:
    """Whether ranges are so accurate that the problem should be recentred."""
    return any(len(own.members) and own.unit < _ACCURATE for own in problem.slopes)


class _View(NamedTuple):
    """Coordinates x = T x' as seen from a frame: x = E x[frame] + D x', the frame's own as they are.

    Attributes:
        values: x at the values, (n, d).
        frame: places of the frame's coordinates, (r,).
        turn: E, zero at the frame, (n, r).
        unit: D, one at the frame, (n,).
        rotations: first places of the rotations, those of the frame first; empty if there are none.
    """

    values: Array
    frame: Array
    turn: Array
    unit: Array
    rotations: Array

    @property
    def size(self) -> int:
        return len(self.unit)

    def congruence(self, *, inverse: bool = False) -> scipy.sparse.coo_array:
        """M -> T^T M T on svecs, or with the inverse of T."""
        turn, unit = (-self.turn / self.unit[:, None], 1 / self.unit) if inverse else (self.turn, self.unit)
        n, count = self.size, len(self.frame) + 1
        into = np.column_stack([np.tile(self.frame, (n, 1)), np.arange(n)])
        value = np.column_stack([turn, unit])
        i, j = upper_entries(n)
        a, b = np.repeat(into[i], count, axis=1), np.tile(into[j], (1, count))
        product = np.repeat(value[i], count, axis=1) * np.tile(value[j], (1, count))
        product *= np.where(a == b, np.where(i == j, 1.0, 2.0)[:, None], np.where(i == j, 0.5, 1.0)[:, None])
        product *= svec_weights(a, b) / svec_weights(i, j)[:, None]
        used = product != 0
        out = svec_place(np.minimum(a, b), np.maximum(a, b))
        source = np.broadcast_to(np.arange(len(i))[:, None], out.shape)
        return scipy.sparse.coo_array((product[used], (out[used], source[used])), shape=(len(i), len(i)))


class _Viewer(NamedTuple):
    """Makes views of a lift; `stiffness` is how stiffly noise holds each row, in units of the cost, (size,)."""

    lift: GramLift
    stiffness: Array

    @classmethod
    def build(cls, lift: GramLift, problem: CliqueProblem) -> _Viewer:
        """A range holds its ends by what its tangent may change: w times the relative residual, and not w."""
        units = {own.batch: own.unit for own in problem.slopes}
        stiffness = np.zeros(lift.size)
        for number, form in enumerate(lift.stiffness_forms):
            matrix = form.matrix if form.slopes is None else form.slopes.matrix * units.get(number, 1.0)
            diagonal = np.einsum("kri,krs,ksi->ki", form.expansion.conj(), matrix, form.expansion).real
            np.add.at(stiffness, form.rows, np.where(form.used, diagonal, 0.0))
        return cls(lift, stiffness / lift.reading.cost)

    def view(self, coordinates: CliqueCoordinates, label: int = -1) -> _View:
        """As seen from the rotation whose first real row is `label`, or the first one; without one from positions."""
        values = self.lift.real_values(coordinates)
        d, labels = values.shape[1], self.lift.real_labels(coordinates)
        rotations = self.lift.rotation_places(coordinates)
        if len(rotations):
            first = int(np.flatnonzero(labels == label)[0]) if label >= 0 else 0
            rotations = np.append(first, rotations[rotations != first])
            frame = first + np.arange(d)
        else:
            frame = _independent(values)
        turn = values @ np.linalg.pinv(values[frame])
        turn[frame] = 0.0
        unit = self._units(coordinates)
        for start in rotations:
            unit[start : start + d] = unit[start : start + d].min()
        unit[frame] = 1.0
        return _View(values, frame, turn, unit, rotations)

    def _units(self, coordinates: CliqueCoordinates) -> Array:
        """How far noise moves each real coordinate, at most 1."""
        held = (np.abs(coordinates.basis) ** 2).T @ self.stiffness[coordinates.rows]
        return self.lift.real_numbers(_moved(held), coordinates)


def _independent(values: Array) -> Array:
    """Places of as many independent rows as there are, (r,)."""
    if not len(values):
        return np.zeros(0, dtype=np.intp)
    triangle, places = scipy.linalg.qr(values.T, mode="r", pivoting=True)
    pivots = np.abs(np.diagonal(triangle))
    return places[: len(pivots)][pivots > _DEPENDENT * pivots.max(initial=0.0)]


def recentre(problem: CliqueProblem, lift: GramLift) -> Recentred:
    """The same problem counted from the values given, in units of their noise; their cost must not be zero."""
    viewer = _Viewer.build(lift, problem)
    views, separators = _views(viewer, problem)
    centre = _multipliers_at_values(problem, views)
    own = _own_multipliers(problem, lift, views)
    unit = 1 / (problem.scale * lift.reading.cost)
    pairs = _pair_bases(problem, viewer, unit)
    rows = _congruences(problem, views, pairs, unit)
    columns, kept = _unknowns(problem, separators, pairs, own, unit)
    A, b = scipy.sparse.hstack([problem.A, own.entries]).tocsc(), np.append(problem.b, own.objective)
    A, b = _product(rows, A, columns), unit * (columns.T @ b)
    for rest in _eliminations(A, problem, lift, views, own):
        A, b, columns = _product(A, rest), rest.T @ b, columns @ rest
    A, b, columns = A[:, kept], b[kept], columns[:, kept]
    lengths = np.sqrt(np.asarray(A.multiply(A).sum(axis=0)).ravel())
    inverse = scipy.sparse.diags_array(1 / np.where(lengths > 0, lengths, 1.0))
    columns = (columns @ inverse).tocsc()
    inner, shares = _diagonals(problem, views)
    return Recentred(
        problem=replace(
            problem,
            A=(A @ inverse).tocsc(),
            b=inverse @ b,
            c=rows @ (problem.c - problem.A @ centre),
            weights=np.ones(len(problem.c)),
            scale=unit * problem.scale,
            offset=problem.offset + float(problem.b @ centre) / problem.scale,
            is_balanced=True,
        ),
        inner=inner,
        shares=shares,
        centre=centre,
        columns=own.to_original(columns, len(problem.b)),
        rows=rows,
        unit=unit,
    )


def _views(viewer: _Viewer, problem: CliqueProblem) -> tuple[list[_View], dict[int, _View]]:
    """Views of the cliques, from a rotation of their separator if it has one, and of the separators by clique."""
    lift, views, separators = viewer.lift, [], {}
    for number, (clique, coordinates) in enumerate(zip(problem.tree.cliques, problem.coordinates, strict=True)):
        label = -1
        if clique.separator:
            part = lift.coordinates(clique.separator)
            label = int(lift.real_labels(part)[0]) if len(lift.rotation_places(part)) else -1
            separators[number] = viewer.view(part, label)
        views.append(viewer.view(coordinates, label))
    return views, separators


def _multipliers_at_values(problem: CliqueProblem, views: Sequence[_View]) -> Array:
    """y with which every clique matrix annihilates the values, nearly; zero where multipliers are in cones."""
    free = np.ones(len(problem.b), dtype=bool)
    for group, variables in zip(problem.groups, problem.columns, strict=True):
        free[variables.ravel()] = not group.cone
    for own in problem.slopes:
        free[own.columns.ravel()] = False
    parts = []
    for view, start in zip(views, problem.starts, strict=False):
        i, j = upper_entries(view.size)
        place = start + np.arange(len(i))
        weight = problem.weights[place] * svec_weights(i, j)
        part = np.zeros((view.size, view.values.shape[1], len(i)))
        part[i, :, np.arange(len(i))] = view.values[j] / weight[:, None]
        part[j, :, np.arange(len(i))] = view.values[i] / weight[:, None]
        parts.append(part.reshape(-1, len(i)))
    ends = len(problem.c) - int(problem.starts[len(views)])
    parts = [part if part.size else scipy.sparse.coo_array((0, 1)) for part in parts]  # an empty clique is 1 >= 0
    products = scipy.sparse.block_diag([*parts, scipy.sparse.coo_array((0, ends))], format="csr")
    matrix, right = (products @ problem.A[:, np.flatnonzero(free)]).tocsc(), products @ problem.c
    count, unknowns = matrix.shape
    damping = -_DAMPING * scipy.sparse.eye_array(unknowns)
    system = scipy.sparse.block_array([[scipy.sparse.eye_array(count), matrix], [matrix.T, damping]]).tocsc()
    factor, found = scipy.sparse.linalg.splu(system), np.zeros(unknowns)
    for _ in range(_REFINEMENTS):
        found += factor.solve(np.append(right - matrix @ found, np.zeros(unknowns)))[count:]
    centre = np.zeros(len(problem.b))
    centre[free] = found
    return centre


class _Own(NamedTuple):
    """Multipliers for the orthogonality of the rotations of each clique, those at home there and new ones.

    Attributes:
        clique: (m,).
        start: first place of the rotation in the clique, (m,).
        columns: unknowns, new ones after all others, (m, parameters).
        originals: the rotation's unknowns at home, (m, parameters).
        entries: columns of the new unknowns, (rows of A, new).
        objective: of the new unknowns, (new,).
    """

    clique: Array
    start: Array
    columns: Array
    originals: Array
    entries: scipy.sparse.csc_array
    objective: Array

    def to_original(self, columns: scipy.sparse.csc_array, count: int) -> scipy.sparse.csc_array:
        """Adds the new multipliers to those of the same rotation at home, the first `count` unknowns."""
        new = self.columns >= count
        extra = scipy.sparse.coo_array(
            (np.ones(int(new.sum())), (self.originals[new], self.columns[new] - count)),
            shape=(count, columns.shape[0] - count),
        )
        return (scipy.sparse.hstack([scipy.sparse.eye_array(count), extra]).tocsr() @ columns).tocsc()


def _own_multipliers(problem: CliqueProblem, lift: GramLift, views: Sequence[_View]) -> _Own:
    group, variables = problem.groups[0], problem.columns[0]
    row, column, parameter, value = group.entries
    known = {int(label): member for member, label in enumerate(group.rows[:, 0])}
    count, found, parts = len(problem.b), [], []
    for number, view in enumerate(views):
        labels = lift.real_labels(problem.coordinates[number])
        for start in view.rotations.tolist():
            member = known[int(labels[start])]
            columns = variables[member]
            if group.cliques[member] != number:
                columns = count + np.arange(len(columns))
                count += len(columns)
                place = problem.starts[number] + svec_place(start + row, start + column)
                parts.append((place, columns[parameter], value * svec_weights(row, column) * problem.weights[place]))
            found.append((number, start, columns, variables[member]))
    places, into, values = (np.concatenate([p[k] for p in parts] or [np.zeros(0, dtype=int)]) for k in range(3))
    new = count - len(problem.b)
    width = variables.shape[1]
    return _Own(
        clique=np.array([own[0] for own in found], dtype=np.intp),
        start=np.array([own[1] for own in found], dtype=np.intp),
        columns=np.array([own[2] for own in found], dtype=np.intp).reshape(-1, width),
        originals=np.array([own[3] for own in found], dtype=np.intp).reshape(-1, width),
        entries=scipy.sparse.coo_array((values, (places, into - len(problem.b))), shape=(len(problem.c), new)).tocsc(),
        objective=np.tile(group.objective, new // width),
    )


def _pair_bases(problem: CliqueProblem, viewer: _Viewer, unit: float) -> Array:
    """Bases T for the multipliers W of pairs of rotations: T^T W T is as large as 1, (p, 4, 4).

    W and I + K(E) of the pair annihilate each other nearly, which at the values has one eigenvector only.
    """
    bases = []
    for group in problem.groups:
        if group.cone:
            at = (group.rows[:, :3], group.rows[:, 3:])
            first, second = (viewer.lift.reading.estimate[rows] for rows in at)
            _, vectors = np.linalg.eigh(hull_matrix(first @ second.swapaxes(1, 2)))
            noise = np.sqrt(np.prod([_moved(viewer.stiffness[rows]).min(axis=1) for rows in at], axis=0))
            lengths = np.column_stack([noise, noise, noise, np.ones(len(noise))])
            bases.append(np.sqrt(unit) * vectors * lengths[:, None, :])
    return np.concatenate([np.zeros((0, 4, 4)), *bases])


def _moved(stiffness: Array) -> Array:
    """How far noise moves what it holds with this stiffness, at most 1."""
    return 1 / np.sqrt(np.maximum(stiffness, 1.0))


def _dense_congruences(bases: Array) -> list[Array]:
    """M -> T^T M T on svecs for dense T of the same size, (p, n, n)."""
    i, j = upper_entries(bases.shape[1])
    product = bases[:, i][:, :, i] * bases[:, j][:, :, j] + bases[:, i][:, :, j] * bases[:, j][:, :, i]
    weights = svec_weights(i, j)
    return list(product.swapaxes(1, 2) * np.where(i == j, 0.5, 1.0) * weights[:, None] / weights)


def _congruences(problem: CliqueProblem, views: Sequence[_View], pairs: Array, unit: float) -> scipy.sparse.csr_array:
    """The stacked svec in the views' coordinates and the pairs' bases, in units of the cost."""
    one = scipy.sparse.coo_array([[1.0]])
    inner = int(problem.starts[len(views)])
    cones = _dense_congruences(pairs)
    rest = len(problem.c) - inner - 10 * len(cones)
    blocks = [*(view.congruence() if view.size else one for view in views), *cones]
    scale = np.append(np.full(inner, unit), np.ones(len(problem.c) - inner)) / problem.weights
    rows = scipy.sparse.block_diag([*blocks, scipy.sparse.eye_array(rest)], format="csr")
    return (rows @ scipy.sparse.diags_array(scale)).tocsr()


def _unknowns(
    problem: CliqueProblem, separators: dict[int, _View], pairs: Array, own: _Own, unit: float
) -> tuple[scipy.sparse.csc_array, Array]:
    """Unknowns of separators and pairs in the coordinates of their views and bases, and which unknowns are kept.

    Where all cliques say that a rotation is orthogonal, a separator need not say that they agree about it: of its
    products with the frame only the skew part is left.
    """
    sides = {number: view.size * (view.size + 1) // 2 for number, view in separators.items()}
    first = len(problem.b) - sum(sides.values())
    parts: list[Any] = [scipy.sparse.eye_array(len(problem.columns[0].ravel()))]
    if len(pairs):
        weights = svec_weights(*upper_entries(4))
        parts += [inverse / weights[:, None] * weights for inverse in _dense_congruences(np.linalg.inv(pairs))]
    parts.append(scipy.sparse.eye_array(first - sum(part.shape[1] for part in parts)))
    kept = [np.ones(first, dtype=bool)]
    for view in separators.values():  # in the order of the tree, as in `build_conic`
        if not view.size:
            continue
        i, j = upper_entries(view.size)
        weights = svec_weights(i, j)
        inverse = scipy.sparse.diags_array(1 / weights) @ view.congruence(inverse=True)
        basis, needed = _without_agreement(view)
        parts.append(inverse @ scipy.sparse.diags_array(weights / unit) @ basis)
        kept.append(needed)
    new = own.entries.shape[1]
    parts.append(scipy.sparse.eye_array(new))
    kept.append(np.ones(new, dtype=bool))
    columns = scipy.sparse.block_diag([part for part in parts if part.shape[1]], format="csc")
    return columns, np.concatenate(kept)


def _without_agreement(view: _View) -> tuple[scipy.sparse.csr_array, Array]:
    """A basis of a separator's unknowns whose needed columns leave out what orthogonality says, and which these are."""
    i, _ = upper_entries(view.size)
    basis, needed = scipy.sparse.eye_array(len(i), format="lil"), np.ones(len(i), dtype=bool)
    for start in view.rotations.tolist():
        block = start + np.arange(len(view.frame))
        a, b = view.frame[:, None], block[None, :]
        place = svec_place(np.minimum(a, b), np.maximum(a, b))
        needed[place] = False
        if start == view.frame[0]:
            continue
        turned, into = view.turn[block].T, place.ravel()
        basis[into, into] = 0.0
        for number, (p, q) in enumerate(combinations(range(len(block)), 2)):
            skew = np.zeros((len(block), len(block)))
            skew[p, q], skew[q, p] = 1.0, -1.0
            basis[into, [into[number]]] = (turned @ skew).ravel()
            needed[into[number]] = True
    return basis.tocsr(), needed


def _eliminations(
    A: scipy.sparse.csc_array, problem: CliqueProblem, lift: GramLift, views: Sequence[_View], own: _Own
) -> list[scipy.sparse.csc_array]:
    """Changes of unknowns: first what they add to symmetric products with frames, then to frames, is taken out."""
    d = lift.rank
    i, j = upper_entries(d)
    matrices = np.zeros((len(i), d, d))
    matrices[np.arange(len(i)), i, j] = matrices[np.arange(len(i)), j, i] = 1.0
    symmetric, frames = [], []
    for k, (number, start) in enumerate(zip(own.clique.tolist(), own.start.tolist(), strict=True)):
        view, first = views[number], problem.starts[number]
        if start == view.frame[0]:
            frames.append((own.columns[k], first + svec_place(start + i, start + j), np.eye(len(i))))
            continue
        a, b = view.frame[:, None], start + np.arange(d)[None, :]
        place = first + svec_place(np.minimum(a, b), np.maximum(a, b))
        tests = view.turn[start : start + d].T @ matrices / np.sqrt(2.0)
        symmetric.append((own.columns[k], place.ravel(), tests.reshape(len(i), -1)))
    changes = []
    for tested in (symmetric, frames):
        change = _elimination(A, tested, np.concatenate([x[0] for x in symmetric]) if symmetric else np.zeros(0, int))
        A = _product(A, change)
        changes.append(change)
    return changes


def _elimination(
    A: scipy.sparse.csc_array, tested: Sequence[tuple[Array, Array, Array]], others: Array
) -> scipy.sparse.csc_array:
    """I - X: the columns of A lose multiples of some of them, so that tests of the columns vanish.

    Each test is one of a column that it alone does not vanish for. `tested`: columns (p,), places (s,), tests (p, s).
    """
    count = A.shape[1]
    identity = scipy.sparse.eye_array(count, format="csc")
    if not tested:
        return identity
    columns = np.concatenate([own[0] for own in tested])
    width = [len(own[1]) for own in tested for _ in own[0]]
    row = np.repeat(np.arange(len(columns)), width)
    place = np.concatenate([np.tile(own[1], len(own[0])) for own in tested])
    value = np.concatenate([own[2].ravel() for own in tested])
    tests = scipy.sparse.coo_array((value, (row, place)), shape=(len(columns), A.shape[0])).tocsr()
    values = _product(tests, A).tolil()
    pivots = np.array([values[k, column] for k, column in enumerate(columns.tolist())])
    values = values.tocsc()
    values = (scipy.sparse.diags_array(1 / pivots) @ values).tocoo()
    used = ~np.isin(values.col, columns)
    lost = scipy.sparse.coo_array(
        (values.data[used], (columns[values.row[used]], values.col[used])), shape=(count, count)
    )
    return (identity - lost).tocsc()


def _product(*factors: scipy.sparse.sparray) -> scipy.sparse.csc_array:
    """A product of sparse matrices without entries that are nothing but rounding."""
    product, sizes = factors[0], abs(factors[0])
    for factor in factors[1:]:
        product, sizes = product @ factor, sizes @ abs(factor)
    product, sizes = product.tocsr(), sizes.tocsr()
    product.sum_duplicates()
    entries = product.tocoo()
    limit = np.asarray(sizes[entries.row, entries.col]).ravel()
    used = np.abs(entries.data) > _CANCELLED * limit
    return scipy.sparse.coo_array(
        (entries.data[used], (entries.row[used], entries.col[used])), shape=entries.shape
    ).tocsc()


def _diagonals(problem: CliqueProblem, views: Sequence[_View]) -> tuple[Array, Array]:
    """Places of the cliques' diagonals in the stacked svec, and their shares of a margin."""
    places, shares = [], []
    for view, start in zip(views, problem.starts, strict=False):
        each = np.arange(view.size)
        places.append(start + svec_place(each, each))
        share = np.ones(view.size)
        share[view.frame] = _MARGIN_OF_FRAMES
        shares.append(share)
    return np.concatenate(places).astype(np.intp), np.concatenate(shares)
