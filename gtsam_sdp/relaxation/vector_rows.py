"""How a graph becomes one vector y: entries of rotations and positions, and h = 1 at the end."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from gtsam_sdp.lift.coordinates import Coordinates
from gtsam_sdp.lift.problem import Problem
from gtsam_sdp.lift.structure import lone_directions
from gtsam_sdp.linalg.array import Array
from gtsam_sdp.linalg.bounded import Bounded
from gtsam_sdp.linalg.real import by_entry, real_entries
from gtsam_sdp.reading.graph import Reading
from gtsam_sdp.relaxation.forms import Forms, Slopes
from gtsam_sdp.terms.terms import Terms
from gtsam_sdp.values.blocks import BlockGroup
from gtsam_sdp.values.layout import Layout


@dataclass(frozen=True)
class VectorRows:
    """How the unknown rows of the Gram lift become entries of y: entry a of row p is y[p d + a], h comes last.

    Attributes:
        coordinates: the Gram lift's unknowns, positions counted from the estimate.
        fixed: whether a row belongs to a frame or direction that is held at its value, (n,).
        values: the unknowns at the estimate, (n, d) real.
    """

    coordinates: Coordinates
    fixed: Array
    values: Array

    @classmethod
    def build(cls, problem: Problem) -> VectorRows:
        """Rows of a problem whose layout has a world frame."""
        shadow = problem.with_terms([_shadow(batch) for batch in problem.terms])
        coordinates, count = shadow.coordinates, problem.layout.space.rows
        fixed = np.zeros(coordinates.size, dtype=bool)
        fixed[coordinates.position[coordinates.references][:, None] + np.arange(count)] = True
        lone = coordinates.position[lone_directions(problem.layout, problem.terms, coordinates.component)]
        fixed[lone[lone >= 0]] = True
        return cls(coordinates, fixed, real_entries(shadow.Y))

    @property
    def d(self) -> int:
        """Entries of a row."""
        return self.values.shape[1]

    @property
    def h(self) -> int:
        """The row of the homogenising one."""
        return self.values.size

    def entries(self, rows: Array) -> Array:
        """Places of all entries of some unknown rows."""
        return (rows[..., None] * self.d + np.arange(self.d)).reshape(*rows.shape[:-1], rows.shape[-1] * self.d)

    @cached_property
    def groups(self) -> tuple[BlockGroup, ...]:
        """Blocks with a constraint that are not held, among the unknown rows."""
        groups = (group.among(self.coordinates.position) for group in self.coordinates.layout.groups)
        return tuple(group.select(~self.fixed[group.starts]) for group in groups)

    @cached_property
    def block_entries(self) -> tuple[Array, ...]:
        """Entries of the blocks of each group, row by row: of a rotation its columns, (k, r d)."""
        return tuple(self.entries(group.rows) for group in self.groups)

    def expand(self, terms: Terms) -> tuple[Array, Bounded]:
        """Local entries of terms as combinations of y: rows (m, s), and coefficients (m, d r, s)."""
        raw, coefficients = self.coordinates.expansion(terms)
        rows = self.coordinates.position[raw]
        unknown = rows >= 0
        rows = np.where(unknown, rows, 0)
        wide = (coefficients * unknown[:, None]).by_entry(self.d)
        held = np.repeat(self.fixed[rows], self.d, axis=1)
        at_estimate = np.where(held, self.values[rows].reshape(len(rows), -1), 0.0)
        # a frame that is held is a rotation up to the rounding of 1, whatever the size of its entries
        size_at_estimate = np.where(np.isin(at_estimate, (0.0, 1.0, -1.0)), np.abs(at_estimate), 1.0)
        constant = wide @ Bounded(at_estimate, size_at_estimate)[:, :, None]
        return (
            np.append(self.entries(rows), np.full((len(rows), 1), self.h), axis=1),
            Bounded.concatenate([wide * ~held[:, None], constant], axis=2),
        )

    def lift(self, Y: Array) -> Array:
        """y of raw rows, (size,)."""
        return np.append(real_entries(self.coordinates.reduce(Y)), 1.0)

    def unlift(self, y: Array) -> Array:
        """Raw rows of y."""
        entries = np.where(self.fixed[:, None], self.values, (y[:-1] / y[-1]).reshape(self.values.shape))
        return self.coordinates.expand(self.coordinates.layout.space.vectors(entries))


def whole_form(terms: Terms, d: int) -> Bounded:
    """The whole cost where the Gram matrix holds only a bound, else the Gram form on entries, (m, d r, d r)."""
    return terms.form.by_entry(d) if terms.entrywise is None else terms.entrywise.form


def form_of(batch: Terms, rows: VectorRows) -> Forms:
    """Terms as quadratic forms on y."""
    at, coefficients = rows.expand(batch)
    slopes = Slopes.of_terms(batch)
    if slopes is not None:
        slopes = slopes._replace(matrix=by_entry(slopes.matrix, rows.d))
    used = (coefficients.value != 0).any(axis=1)
    return Forms(at, used, coefficients.value, whole_form(batch, rows.d).value, turning=0, slopes=slopes)


def with_world(reading: Reading) -> Reading:
    """The reading with a world frame, which h stands for."""
    layout = reading.layout
    if layout.world >= 0:
        return reading
    count = layout.space.rows
    extended = replace(layout, world=layout.size, size=layout.size + count)
    frame = np.eye(count, dtype=reading.estimate.dtype)
    return replace(reading, layout=extended, estimate=np.vstack([reading.estimate, frame]))


def in_world(batch: Terms, layout: Layout) -> Terms:
    """Terms whose noise knows the axes of the world belong to the world frame, even if nothing else ties them to it.

    Their constant is that of their whole cost.
    """
    if batch.entrywise is None:
        return batch
    batch = replace(batch, constant=batch.entrywise.constant)
    if batch.offset is not None:
        return batch
    points = batch.combination.shape[-2]
    offset = np.zeros((len(batch.factor), points, layout.space.rows), dtype=layout.space.dtype)
    return replace(batch, offset=offset)


def _shadow(batch: Terms) -> Terms:
    """Terms with the sparsity of their whole cost in place of the part that a Gram matrix holds."""
    if batch.entrywise is None:
        return batch
    count, size = batch.matrix.shape[:2]
    d = batch.entrywise.form.value.shape[1] // size
    blocks = np.abs(batch.entrywise.form.value).reshape(count, size, d, size, d)
    return replace(batch, matrix=blocks.max(axis=(2, 4)).astype(batch.matrix.dtype))
