"""The vector lift: one vector y = [entries of rotations; entries of positions; h] with h = 1, rank 1 where it is tight.

It holds what the Gram lift only bounds: noise that differs along the axes of the world. And it holds more of what
makes a matrix a rotation: R R^T = I and the cross products of the columns, on by default. Cones are larger, in 3D
three times.

Positions are counted from the estimate by h; a component without absolute terms has one rotation held at its value,
because nothing else would tell the world frame from a turned one. See docs/maths/, section 5.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import gtsam
import numpy as np
import scipy

from gtsam_sdp.lift.problem import Problem
from gtsam_sdp.lift.qcqp import Constraint
from gtsam_sdp.linalg.array import Array
from gtsam_sdp.linalg.bounded import Bounded, Entries, rounding_error
from gtsam_sdp.proof.bound import VerifiedBound, prove_bound
from gtsam_sdp.proof.slack import Slack
from gtsam_sdp.relaxation.clique_coordinates import CliqueCoordinates
from gtsam_sdp.relaxation.forms import variable_groups
from gtsam_sdp.relaxation.hull import MatrixEntries
from gtsam_sdp.relaxation.lift import Lift, MultiplierGroup, Recovered, best_touching, projected
from gtsam_sdp.relaxation.problem import CliqueProblem
from gtsam_sdp.relaxation.recovery import recover_rows
from gtsam_sdp.relaxation.tree import CliqueTree, OrderingChoice
from gtsam_sdp.relaxation.vector_rows import VectorRows, form_of, in_world, whole_form, with_world
from gtsam_sdp.shown import Shown
from gtsam_sdp.terms.terms import Terms
from gtsam_sdp.tolerances import COEFFICIENT_ROUNDOFFS
from gtsam_sdp.values.blocks import Constrained
from gtsam_sdp.values.layout import Layout
from gtsam_sdp.values.space import Space

_SCALE, _BLOCKS = 0, 1
"""Places among the groups of multipliers: of h^2 = 1, and the first one of blocks."""

_SUMMANDS_OF_CONSTRAINTS = 24
"""More than the number of constraints that meet in one entry."""

_ROUNDOFFS_OF_PRODUCTS = 80
"""Roundoffs of E^T M E with M of up to 24 rows, and of the sums before it."""


@dataclass(frozen=True, repr=False, eq=False)
class VectorQcqp(Shown):
    """min y^T Q y + constant subject to quadratic constraints on y = [entries; h].

    Attributes:
        Q: symmetric, (n, n); in the unit of `graph.error`.
        constant: sum of the terms' constants.
        rows: what the entries of y are; those that are held at the estimate have zero rows in Q.
        constraints: of the rotations and directions, and h^2 = 1 (key None).
    """

    Q: scipy.sparse.csc_array
    constant: float
    rows: VectorRows
    constraints: Sequence[Constraint]

    @property
    def layout(self) -> Layout:
        """Rows of the variables before they are lifted."""
        return self.rows.coordinates.layout

    @property
    def rank(self) -> int:
        """Columns of y."""
        return 1

    def lift(self, values: gtsam.Values) -> Array:
        """y of values, (n, 1)."""
        return self.rows.lift(self.layout.lift(values))[:, None]

    def unlift(self, y: Array) -> gtsam.Values:
        """Values of y."""
        return self.layout.unlift(self.rows.unlift(y[:, 0]))

    def cost(self, y: Array) -> float:
        """y^T Q y + constant."""
        return float(np.sum(y * (self.Q @ y))) + self.constant

    def violation(self, y: Array) -> float:
        """Largest violation of a constraint."""
        return max((abs(float(np.sum(y * (c.A @ y))) - c.b) for c in self.constraints), default=0.0)

    @property
    def constraint_count(self) -> int:
        """How many constraints there are."""
        return len(self.constraints)


@dataclass(frozen=True)
class VectorLift(Lift):
    """The vector lift of a graph.

    Attributes:
        rows: what the entries of y are.
    """

    rows: VectorRows

    @classmethod
    def build(cls, problem: Problem) -> VectorLift:
        """The lift of a problem.

        Raises:
            InvalidGraphError: a key that no term constrains.
        """
        reading = with_world(problem.reading)
        layout = reading.layout
        terms = [in_world(batch.touching_at(reading.estimate, -1), layout) for batch in problem.terms]
        problem = Problem(reading, terms)
        rows = VectorRows.build(problem)
        owner = np.repeat(layout.row_variable[rows.coordinates.kept], rows.d)
        forms = [form_of(batch, rows) for batch in terms]
        return cls(problem, forms, rows.h + 1, np.append(owner, len(layout.keys)), rows)

    def with_terms(self, terms: Sequence[Terms]) -> VectorLift:
        """The same rows with other terms on them; for a proof, which asks for no forms."""
        return replace(self, problem=self.problem.with_terms(terms))

    @property
    def rank(self) -> int:
        """1."""
        return 1

    @property
    def columns(self) -> int:
        """1."""
        return 1

    @cached_property
    def qcqp(self) -> VectorQcqp:
        """The lifted problem."""
        Q = self.cost_entries().sum(self.size).value
        constraints = []
        for group, of_blocks in zip(self.rows.groups, self.rows.block_entries, strict=True):
            matrices = block_matrices(group.block, self.layout.space, tighten=True)
            for key, own in zip(self.layout.keys[self.owner[of_blocks[:, 0]]].tolist(), of_blocks, strict=True):
                places = np.append(self.rows.h, own)
                for parameter in range(int(matrices.parameter.max()) + 1):
                    chosen = matrices.parameter == parameter
                    upper = scipy.sparse.coo_array(
                        (matrices.value[chosen], (places[matrices.row[chosen]], places[matrices.column[chosen]])),
                        shape=Q.shape,
                    )
                    A = upper + upper.T - scipy.sparse.diags_array(upper.diagonal())
                    constraints.append(Constraint(key, A.tocsc(), 0.0))
        one = scipy.sparse.coo_array(([1.0], ([self.rows.h], [self.rows.h])), shape=Q.shape).tocsc()
        constraints.append(Constraint(None, one, 1.0))
        return VectorQcqp(
            Q, math.fsum(np.concatenate([b.constant for b in self.terms]).tolist()), self.rows, constraints
        )

    def tree(self, ordering: OrderingChoice) -> CliqueTree:
        """The cliques of the variables that are not held, each with the world frame (h) added."""
        world = len(self.layout.keys)
        groups = [tuple(v for v in group if v != world) for group in variable_groups(self.forms, self.owner)]
        groups = [group for group in groups if group]
        return CliqueTree.build(groups, self.layout, ordering).sharing(world)

    def _member_rows(self, members: Sequence[int]) -> tuple[Array, Array]:
        """Entries of blocks and of positions of variables that are not held."""
        layout, position = self.layout, self.rows.coordinates.position
        world = len(layout.keys)
        members = [v for v in members if v != world]
        blocks = [np.zeros(0, dtype=np.intp)]
        for group in layout.groups:
            raw = layout.first[group.block][members]
            starts = position[raw[raw >= 0]]
            starts = starts[starts >= 0]
            blocks.append(replace(group, starts=starts[~self.rows.fixed[starts]]).rows.ravel())
        moving = [position[row] for v in members for row in layout.translation_rows(v)]
        moving = np.array([row for row in moving if row >= 0], dtype=np.intp)
        turning = np.append(self.rows.h, self.rows.entries(np.concatenate(blocks)))
        return turning, self.rows.entries(moving)

    def coordinates(self, members: Sequence[int]) -> CliqueCoordinates:
        """h and the entries of blocks as they are, those of positions divided by the clique's extent."""
        turning, moving = self._member_rows(members)
        scale = np.ones(len(turning) + len(moving))
        scale[len(turning) :] = self._extent(moving)
        rows = np.concatenate([turning, moving]).astype(np.intp)
        return CliqueCoordinates(rows, np.diag(scale), np.diag(1 / scale), len(turning))

    def _extent(self, moving: Array) -> float:
        raw = self.rows.coordinates.kept[moving[:: self.rows.d] // self.rows.d]
        positions = self.reading.estimate[raw]
        if not len(positions):
            return 1.0
        largest = float(np.linalg.norm(positions - positions[0], axis=1).max())
        return largest if largest > 0 else 1.0

    def clique_size(self, members: Sequence[int]) -> int:
        """Side of the cone of a clique."""
        turning, moving = self._member_rows(members)
        return len(turning) + len(moving)

    def multipliers(self, tree: CliqueTree, *, tighten: bool) -> Sequence[MultiplierGroup]:
        """h^2 = 1, then the equations of the blocks of each group: orthogonal columns of rotations, unit vectors.

        If `tighten`, rows and cross products of rotations too.
        """
        world = len(self.layout.keys)
        one = MatrixEntries(np.zeros(1, dtype=int), np.zeros(1, dtype=int), np.zeros(1, dtype=int), np.ones(1))
        found = [MultiplierGroup(tree.home[[world]], np.array([[self.rows.h]]), one, np.ones(1))]
        for group, own in zip(self.rows.groups, self.rows.block_entries, strict=True):
            homes = tree.home[self.owner[own[:, 0]]]
            own, homes = own[homes >= 0], homes[homes >= 0]
            matrices = block_matrices(group.block, self.layout.space, tighten=tighten)
            objective = np.zeros(int(matrices.parameter.max()) + 1)
            found.append(MultiplierGroup(homes, np.insert(own, 0, self.rows.h, axis=1), matrices, objective))
        return found

    def recover(self, problem: CliqueProblem, z: Array) -> Recovered:
        """y from the leading eigenvectors, its rotations projected."""
        rows, ratios = recover_rows(self, problem, z)
        y = rows[:, 0]
        y = y if abs(y[-1]) > 1e-6 else np.append(y[:-1], 1.0)
        return Recovered(projected(self.rows.unlift(y), self.layout), ratios)

    def verify(self, problem: CliqueProblem, y: Array, Y: Array) -> tuple[VerifiedBound, float]:
        """The bound of the solver's multipliers."""
        scale = float(problem.parameters(y, _SCALE)[0, 0])
        of_blocks = [(group, problem.parameters(y, _BLOCKS + k)) for k, group in enumerate(problem.groups[_BLOCKS:])]
        lift = VectorLift.build(self.problem.at(Y))
        point = lift.rows.lift(Y)[lift.kept]

        def slack_of(terms: Sequence[Terms]) -> Slack:
            return lift.with_terms(terms)._slack(scale, of_blocks)

        bound = best_touching(problem, self.terms, y, lambda terms: prove_bound(slack_of(terms), point[:, None]))
        lengths = np.abs(point)
        size = float(lengths @ (slack_of(lift.terms).form.magnitude @ lengths)) + abs(problem.offset)
        return bound, size

    @cached_property
    def kept(self) -> Array:
        """Rows of y that are not held."""
        return np.append(np.flatnonzero(~np.repeat(self.rows.fixed, self.rows.d)), self.rows.h)

    def cost_entries(self) -> Entries:
        """Entries of Q, and the sizes of the numbers behind them."""
        parts = [Entries.of_blocks(np.zeros((0, 1), dtype=np.intp), Bounded.of(np.zeros(0)))]
        for batch in self.terms:
            rows, coefficients = self.rows.expand(batch)
            entries = Entries.of_blocks(rows, whole_form(batch, self.rows.d).sandwich(coefficients))
            # all entries of rows that take part, zeros too: their number bounds the number of summands elsewhere
            taking_part = (coefficients.magnitude != 0).any(axis=1)
            parts.append(entries[(taking_part[:, :, None] & taking_part[:, None, :]).ravel()])
        return Entries.join(parts)

    def _slack(self, scale: float, of_blocks: Sequence[tuple[MultiplierGroup, Array]]) -> Slack:
        """S = Q - scale E_hh - multipliers of the blocks, without the rows that are held."""
        h = np.array([self.rows.h])
        parts = [self.cost_entries(), Entries(h, h, Bounded.of(np.array([-scale])))]
        for group, parameters in of_blocks:
            rows, matrices = group.rows, group.entries
            i, j = rows[:, matrices.row].ravel(), rows[:, matrices.column].ravel()
            value = -(matrices.value * parameters[:, matrices.parameter]).ravel()
            off = i != j
            value, i, j = np.append(value, value[off]), np.append(i, j[off]), np.append(j, i[off])
            parts.append(Entries(i, j, Bounded.of(value)))
        return self.slack(parts, np.array([]), scale)

    def slack(self, parts: Sequence[Entries], constants: Array, scale: float = 0.0) -> Slack:
        """S of entries on all rows, without those that are held, and with more constants than the terms have."""
        kept = self.kept
        place = np.zeros(self.size, dtype=np.intp)
        place[kept] = np.arange(len(kept))
        entries = Entries.join(parts)
        entries = replace(entries, row=place[entries.row], column=place[entries.column])
        border = np.zeros(len(kept), dtype=bool)
        border[-1] = True
        norms = np.zeros(self.size)
        for group, own in zip(self.rows.groups, self.rows.block_entries, strict=True):
            norms[own] = group.block.norm / self.rows.d  # shared by the entries of a row
        constants = np.concatenate([*(batch.constant for batch in self.terms), constants])
        total = math.fsum(constants.tolist())
        return Slack(
            form=entries.sum_exactly(border),
            summands=entries.count_summands(border) + _SUMMANDS_OF_CONSTRAINTS,
            norms=norms[kept],
            references=np.array([len(kept) - 1]),
            component=np.zeros(len(kept), dtype=np.intp),
            base=total + scale,
            base_error=rounding_error(8, abs(scale) + abs(total))
            + rounding_error(COEFFICIENT_ROUNDOFFS, float(np.abs(constants).sum())),
            roundoffs=COEFFICIENT_ROUNDOFFS + _ROUNDOFFS_OF_PRODUCTS,
        )


def block_matrices(block: Constrained, space: Space, *, tighten: bool) -> MatrixEntries:
    """Constraints of one block on [h, its entries], each <M, y y^T> = 0, redundant ones too if `tighten`."""
    rows = block.entry_equations(space, tighten=tighten)
    return MatrixEntries(*(np.array(x) for x in zip(*rows, strict=True)))


def is_better_than_gram(terms: Sequence[Terms]) -> bool:
    """Whether the vector lift holds costs that the Gram lift only bounds."""
    return any(batch.entrywise is not None for batch in terms)
