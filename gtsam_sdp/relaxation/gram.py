"""The Gram lift: one matrix Y of d columns, rotations as d rows, positions as one; rank d where it is tight.

In 2D the cost is given on complex rows (docs/maths/, section 1). The cones are real: a rotation has the rows z and
i z, a position the row t alone. With the two equations of the convex hull of SO(2) for every pair of rotations this is
as tight as the complex relaxation, whose positive semidefinite matrix can be completed from it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from gtsam_sdp.lift.coordinates import Coordinates, plain_coordinates
from gtsam_sdp.lift.problem import Problem
from gtsam_sdp.lift.qcqp import Qcqp
from gtsam_sdp.linalg.array import Array
from gtsam_sdp.linalg.bounded import Entries, rounding_error
from gtsam_sdp.linalg.real import by_entry, real_entries
from gtsam_sdp.linalg.svec import upper_entries
from gtsam_sdp.lowrank.descent import descend
from gtsam_sdp.lowrank.quadratic import Quadratic
from gtsam_sdp.proof.bound import VerifiedBound, bound_at, verify_bound
from gtsam_sdp.proof.slack import PairTerms
from gtsam_sdp.relaxation.clique_coordinates import CliqueCoordinates, CoordinateMaker
from gtsam_sdp.relaxation.forms import Forms, variable_groups
from gtsam_sdp.relaxation.hull import MatrixEntries, hull_adjoint, hull_entries, plane_entries
from gtsam_sdp.relaxation.lift import Lift, MultiplierGroup, Recovered, best_factor, best_touching, projected
from gtsam_sdp.relaxation.problem import CliqueProblem
from gtsam_sdp.relaxation.recovery import recover_rows
from gtsam_sdp.relaxation.tree import CliqueTree, OrderingChoice
from gtsam_sdp.terms.terms import Terms, convex
from gtsam_sdp.tolerances import POLISH_DECREASE


@dataclass(frozen=True)
class GramLift(Lift):
    """The Gram lift of a graph.

    Attributes:
        plain: raw rows, without those that have hard values.
        maker: makes clique coordinates.
        couples_positions: whether a term turns positions against each other (2D): then they need the row i t too.
    """

    plain: Coordinates
    maker: CoordinateMaker
    couples_positions: bool

    @classmethod
    def build(cls, problem: Problem) -> GramLift:
        """The lift of a problem.

        Raises:
            InvalidGraphError: a key that no term constrains.
        """
        reading, layout = problem.reading, problem.layout
        problem = problem.with_terms([batch.touching_at(reading.estimate, layout.world) for batch in problem.terms])
        plain = plain_coordinates(reading)
        return cls(
            problem=problem,
            forms=[Forms.of_terms(batch, plain) for batch in problem.terms],
            size=layout.size,
            owner=layout.row_variable,
            plain=plain,
            maker=CoordinateMaker(reading.estimate, problem.coordinates.anchor),
            couples_positions=any(_turns_positions(batch) for batch in problem.terms),
        )

    @property
    def stiffness_forms(self) -> Sequence[Forms]:
        """The terms made convex."""
        made = [convex(batch, self.layout.space.rows) for batch in self.terms]
        return [
            form if new is old else Forms.of_terms(new, self.plain)
            for form, new, old in zip(self.forms, made, self.terms, strict=True)
        ]

    @property
    def rank(self) -> int:
        """d."""
        return self.layout.space.dimension

    @property
    def columns(self) -> int:
        """3, or one complex column in 2D."""
        return self.layout.space.rows

    @cached_property
    def _is_plane(self) -> bool:
        return self.columns == 1

    def tree(self, ordering: OrderingChoice) -> CliqueTree:
        """The cliques of the graph's variables, the world frame among them.

        It is in every clique where it is the only frame: in a clique without one positions are as large as the map.
        """
        groups, world = variable_groups(self.forms, self.owner), len(self.layout.keys)
        if self.layout.world < 0 or len(self.layout.blocks) > 1 or not any(world in group for group in groups):
            return CliqueTree.build(groups, self.layout, ordering)
        groups = [tuple(v for v in group if v != world) for group in groups]
        return CliqueTree.build([group for group in groups if group], self.layout, ordering).sharing(world)

    def _rows(self, members: Sequence[int]) -> tuple[Array, Array, int, bool]:
        """Rows of blocks, rotations first; position rows; the frame that these refer to; whether that is the world."""
        layout, count = self.layout, self.layout.space.rows
        starts = [self._block(v) for v in members]
        blocks = [start for start in starts if start >= 0]
        world = len(layout.keys)
        moving = [row for v in members if v != world for row in layout.translation_rows(v)]
        moving = [row for row in moving if self.plain.position[row] >= 0]
        is_world = layout.world in blocks
        frame = blocks.index(layout.world) * count if is_world else 0
        turning = [(np.array(blocks, dtype=np.intp)[:, None] + np.arange(count)).ravel()]
        for group in layout.groups[1:]:
            starts = layout.first[group.block][[v for v in members if v != world]]
            starts = starts[(starts >= 0) & (self.plain.position[starts] >= 0)]
            turning.append(replace(group, starts=starts).rows.ravel())
        return np.concatenate(turning), np.array(moving, dtype=np.intp), frame if blocks else -1, is_world

    def _block(self, variable: int) -> int:
        """First row of a variable's rotation, -1 if it has none or a hard one."""
        layout = self.layout
        start = layout.world if variable == len(layout.keys) else int(layout.rotation[variable])
        return start if start >= 0 and self.plain.position[start] >= 0 else -1

    def coordinates(self, members: Sequence[int]) -> CliqueCoordinates:
        """Rotation rows as they are, positions relative to one of them or to a frame, and scaled."""
        return self.maker.make(*self._rows(members))

    def clique_size(self, members: Sequence[int]) -> int:
        """Side of the real cone of a clique."""
        turning, moving, *_ = self._rows(members)
        shiftable = self.maker.shiftable[moving]
        positions = len(moving) - len(np.unique(shiftable[shiftable >= 0]))
        if not self._is_plane:
            return len(turning) + positions
        return 2 * len(turning) + positions * (2 if self.couples_positions else 1)

    def _real_places(self, coordinates: CliqueCoordinates) -> Array:
        """Places of the real coordinates among the doubled ones."""
        return self._places(coordinates.turning, coordinates.size)

    def _places(self, turning: int, count: int) -> Array:
        """Real rows among the doubled ones x_0, i x_0, x_1, i x_1 ... of `turning` rotations, then positions (2D)."""
        doubled = np.arange(2 * count)
        return doubled if self.couples_positions else np.append(doubled[: 2 * turning], doubled[2 * turning :: 2])

    def real_labels(self, coordinates: CliqueCoordinates) -> Array:
        """Real rows: 2 k and 2 k + 1 for the complex row k in 2D."""
        rows = coordinates.rows[: coordinates.turning]
        return (2 * rows[:, None] + np.arange(2)).ravel() if self._is_plane else rows

    def rotation_places(self, coordinates: CliqueCoordinates) -> Array:
        """Places of the rotations' first rows among the real coordinates of a clique."""
        count = np.isin(coordinates.rows[: coordinates.turning], self.layout.blocks).sum()
        return self.rank * np.arange(count)

    def real_values(self, coordinates: CliqueCoordinates) -> Array:
        """Real coordinates of a clique at the values given, (n, d)."""
        values = coordinates.inverse @ self.reading.estimate[coordinates.rows]
        if not self._is_plane:
            return values
        plane = real_entries(values)
        turned = np.column_stack([-plane[:, 1], plane[:, 0]])
        return np.stack([plane, turned], axis=1).reshape(-1, 2)[self._real_places(coordinates)]

    def real_numbers(self, numbers: Array, coordinates: CliqueCoordinates) -> Array:
        """Numbers for the coordinates of a clique as numbers for its real coordinates, (n,)."""
        return np.repeat(numbers, 2)[self._real_places(coordinates)] if self._is_plane else numbers.copy()

    def real_terms(
        self, local: Array, matrix: Array, turning: int, coordinates: CliqueCoordinates
    ) -> tuple[Array, Array]:
        """Re x^H M x on real rows: conj(x_a) x_b has the real part x_a . x_b, the imaginary part (i x_a) . x_b.

        A product of rotations is the mean of two, so that both their rows take part; one with a position is not.
        """
        if not self._is_plane:
            return local, matrix
        rows = self._places(turning, local.shape[1])
        single = np.arange(len(rows)) >= (len(rows) if self.couples_positions else 2 * turning)
        share = np.where(single[:, None] | single, 1.0, 0.5)
        return (
            by_entry(local.conj(), 2)[:, rows[:, None], self._real_places(coordinates)],
            by_entry(matrix.conj(), 2)[:, rows[:, None], rows] * share,
        )

    def real_map(self, matrix: Array, part: CliqueCoordinates, whole: CliqueCoordinates) -> Array:
        """x' = f x has the rows x' = Re f x + Im f (i x) and i x' = -Im f x + Re f (i x)."""
        if not self._is_plane:
            return matrix
        return by_entry(matrix.conj(), 2)[self._real_places(part)[:, None], self._real_places(whole)]

    def factors(self, matrix: Array, coordinates: CliqueCoordinates) -> tuple[list[Array], float]:
        """One factor of d columns; in 2D as complex rows, and mirrored where no rotation tells which way is right."""
        factor, ratio = best_factor(matrix, self.rank)
        if not self._is_plane:
            return [factor], ratio
        kept = self._real_places(coordinates)
        rows = np.zeros((2 * coordinates.size, 2))
        rows[kept] = factor
        plain = rows[::2, 0] + 1j * rows[::2, 1]
        turned = rows[1::2, 0] + 1j * rows[1::2, 1]
        orientation = float(np.imag(plain[: coordinates.turning].conj() * turned[: coordinates.turning]).sum())
        candidates = [plain[:, None], plain.conj()[:, None]]
        if coordinates.turning:
            candidates = candidates[:1] if orientation >= 0 else candidates[1:]
        return candidates, ratio

    def multipliers(self, tree: CliqueTree, *, tighten: bool) -> Sequence[MultiplierGroup]:
        """Those of every block, in the order of `Layout.groups`; if `tighten` the convex hull of SO(d) for every pair.

        Pairs are rotations that are in one clique.
        """
        groups = []
        for group in self.layout.groups:
            starts = group.starts[self.plain.position[group.starts] >= 0]
            homes = tree.home[self.owner[starts]]
            rows = self._real_rows(starts[homes >= 0], group.count)
            row, column = upper_entries(rows.shape[1])
            entries = MatrixEntries(row, column, np.arange(len(row)), np.ones(len(row)))
            groups.append(MultiplierGroup(homes[homes >= 0], rows, entries, (row == column).astype(float)))
        pairs = self._list_pairs(tree) if tighten else np.zeros((0, 3), dtype=np.intp)
        if len(pairs):
            rows = np.hstack([self._real_rows(pairs[:, k], self.layout.space.rows) for k in (1, 2)])
            row, column = upper_entries(4)
            objective = np.zeros(2) if self._is_plane else -(row == column).astype(float)
            entries = plane_entries() if self._is_plane else hull_entries()
            groups.append(MultiplierGroup(pairs[:, 0], rows, entries, objective, cone=0 if self._is_plane else 4))
        return groups

    def _real_rows(self, starts: Array, count: int) -> Array:
        """Real rows of blocks of some rows, (k, r)."""
        wide = 2 if self._is_plane else 1
        return (wide * starts)[:, None] + np.arange(wide * count)

    def _list_pairs(self, tree: CliqueTree) -> Array:
        """(clique, first rows of two rotations): pairs that meet, each in the clique where one of them is frontal."""
        found = []
        for c, clique in enumerate(tree.cliques):
            frontals = [b for b in map(self._block, clique.frontals) if b >= 0]
            others = [b for b in map(self._block, clique.separator) if b >= 0]
            for k, first in enumerate(frontals):
                found += [(c, first, second) for second in frontals[k + 1 :] + others]
        return np.array(found, dtype=np.intp).reshape(-1, 3)

    def recover(self, problem: CliqueProblem, z: Array) -> Recovered:
        """Factors of the clique matrices, aligned down the tree; mirrored where most rotations ask for it."""
        rows, ratios = recover_rows(self, problem, z)
        if not self._is_plane:
            rows = self._unmirrored(rows, problem.tree)
        rows = projected(rows, self.layout)  # the world frame is the identity now, so that hard values are themselves
        return Recovered(self.plain.expand(rows[self.plain.kept]), ratios)

    def _unmirrored(self, rows: Array, tree: CliqueTree) -> Array:
        """Rows with each component mirrored in which most rotation blocks have a negative determinant (3D)."""
        root = tree.roots[tree.home[self.owner]]
        blocks = self.layout.blocks
        signs = np.sign(np.linalg.det(rows[blocks[:, None] + np.arange(3)]))
        balance = np.bincount(root[blocks], signs, minlength=len(tree.cliques))
        mirrored = balance[root] < 0
        return np.where(mirrored[:, None], rows * np.array([1.0, 1.0, -1.0]), rows)

    def verify(self, problem: CliqueProblem, y: Array, Y: Array) -> tuple[VerifiedBound, float]:
        """The best of three bounds: multipliers of the solver, and in closed form at Y and at the values given."""

        def solved(terms: Sequence[Terms]) -> VerifiedBound:
            at = self.problem.with_terms(terms).at(Y)
            given = self._block_multipliers(problem, y, at.qcqp)
            return verify_bound(at.qcqp, given, at.Y, pairs=self._pair_terms(problem, y, at.qcqp))

        points = [self.problem.with_terms(self._touching_at(at)).at(at) for at in (Y, self.reading.estimate)]
        bounds = [best_touching(problem, self.terms, y, solved), *map(_polished_bound, points)]
        return max(bounds, key=lambda bound: bound.value), points[0].qcqp.term_size(points[0].Y)

    def _touching_at(self, Y: Array) -> Sequence[Terms]:
        """The terms, those of distances as tangents at the distances in Y."""
        return [batch.touching_at(Y, self.layout.world) for batch in self.terms]

    @property
    def qcqp(self) -> Qcqp:
        """The lifted problem, positions counted from the values given."""
        return self.problem.qcqp

    def _block_multipliers(self, problem: CliqueProblem, y: Array, qcqp: Qcqp) -> tuple[Array, ...]:
        """Multipliers of each group of blocks, (k, r, r); in 2D |z|^2 and |i z|^2 have one, the sum."""
        found = []
        for number, group in enumerate(qcqp.groups):
            parameters = problem.parameters(y, number)
            given = problem.groups[number].rows[:, 0] // (2 if self._is_plane else 1)
            place = np.full(self.layout.size, -1)
            place[given] = np.arange(len(given))
            at = place[qcqp.coordinates.kept[group.starts]]
            chosen = np.vstack([parameters, np.zeros(parameters.shape[1])])[at]  # zero where there are none
            if self._is_plane:
                found.append((chosen[:, 0] + chosen[:, 2]).astype(complex)[:, None, None])
            else:
                found.append(symmetric_of(chosen, group.count))
        return tuple(found)

    def _pair_terms(self, problem: CliqueProblem, y: Array, qcqp: Qcqp) -> PairTerms | None:
        """What the pairs of rotations contribute; in 2D complex rows imply it."""
        number = len(self.layout.groups)  # after those of the blocks
        if self._is_plane or len(problem.groups) <= number:
            return None
        W = positive_part(problem.parameters(y, number))
        rows = problem.groups[number].rows
        first, second = (qcqp.coordinates.position[rows[:, 3 * k : 3 * k + 3]] for k in (0, 1))
        row, column = np.repeat(first, 3, axis=1).ravel(), np.tile(second, (1, 3)).ravel()
        half = Entries(row, column, (hull_adjoint(W) * 0.5).apply(np.ravel)).sum(qcqp.size)
        trace = math.fsum(np.trace(W, axis1=1, axis2=2).tolist())
        return PairTerms(half.apply(lambda upper: (upper + upper.T).tocsc()), trace)


def _polished_bound(problem: Problem) -> VerifiedBound:
    """The bound of multipliers in closed form at the critical point near the values."""
    best = descend(Quadratic(problem.qcqp), problem.Y, POLISH_DECREASE, near=True).Y
    return bound_at(problem.qcqp, best, quick=True)


def _turns_positions(batch: Terms) -> bool:
    """Whether a term holds products of positions with a complex coefficient."""
    points = batch.combination.shape[-2]
    turning = batch.matrix.shape[1] - points
    return bool(np.any(np.imag(batch.combination)) or np.any(np.imag(batch.matrix[:, turning:, turning:])))


def symmetric_of(parameters: Array, size: int) -> Array:
    """Symmetric matrices (m, size, size) of their upper triangles (m, p), column by column."""
    row, column = upper_entries(size)
    matrix = np.zeros((len(parameters), size, size))
    matrix[:, row, column] = matrix[:, column, row] = parameters
    return matrix


def positive_part(parameters: Array) -> Array:
    """Positive semidefinite matrices (p, 4, 4) near those with these upper triangles, rounding included."""
    eigenvalues, vectors = np.linalg.eigh(symmetric_of(parameters, 4))
    kept = np.maximum(eigenvalues, 0.0)
    W = (vectors * kept[:, None, :]) @ vectors.swapaxes(1, 2)
    return W + rounding_error(64, kept[:, -1:, None]) * np.eye(4)
