"""Clique coordinates: rows in which the clique matrices are well scaled, and the maps between neighbours.

Rotation rows stay as they are. Translations that may be shifted together are counted from one of them in the clique
(facial reduction: every clique matrix annihilates the shift, so that one row is superfluous), others from the world
frame or a rotation of the clique; both are divided by the clique's extent. See docs/maths.md, section 5.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gtsam_sdp.variables import Array, Layout

_SMALLEST_EXTENT = 1e-9


@dataclass(frozen=True)
class CliqueCoordinates:
    """rows of the clique = basis @ coordinates, and coordinates = inverse @ rows (up to a common shift).

    Attributes:
        rows: raw rows of the clique's variables, rotations first, (r,).
        basis: W, (r, m).
        inverse: a left inverse of W, (m, r).
    """

    rows: Array
    basis: Array
    inverse: Array

    @property
    def size(self) -> int:
        """Number of coordinates, m."""
        return self.basis.shape[1]

    def map_to(self, part: CliqueCoordinates) -> Array:
        """F with coordinates(part) = F @ coordinates(self), for a part of the clique's rows."""
        order = np.argsort(self.rows)
        return part.inverse @ self.basis[order[np.searchsorted(self.rows[order], part.rows)]]


@dataclass(frozen=True)
class CoordinateMaker:
    """Makes coordinates of sets of variables.

    Attributes:
        layout: rows of the variables.
        estimate: Y of the estimate, (raw, rows): its extent gives the scale.
        shiftable: for a translation row the set it may be shifted with at no cost, -1 for none, (raw,).
    """

    layout: Layout
    estimate: Array
    shiftable: Array

    def make(self, members: Sequence[int]) -> CliqueCoordinates:
        """Coordinates of the rows of some variables; the number of variables stands for the world frame."""
        rows, turning, frame = self._rows(members)
        basis = np.eye(len(rows), dtype=self.layout.space.dtype)
        inverse = basis.copy()
        references: dict[int, int] = {}
        for place in range(turning, len(rows)):
            label = int(self.shiftable[rows[place]])
            reference = references.setdefault(label, place)
            if label < 0:
                self._count_from_frame(basis, inverse, rows, place, frame)
            elif reference != place:
                extent = self._extent(self.estimate[rows[place]] - self.estimate[rows[reference]])
                basis[place, place] = extent
                inverse[place, [place, reference]] = 1 / extent, -1 / extent
        kept = np.setdiff1d(np.arange(len(rows)), [p for label, p in references.items() if label >= 0])
        return CliqueCoordinates(rows, basis[:, kept], inverse[kept])

    def _rows(self, members: Sequence[int]) -> tuple[Array, int, int | None]:
        """Raw rows, rotations first; how many belong to rotations; where the frame starts that positions refer to."""
        layout, count = self.layout, self.layout.space.rows
        world = len(layout.keys)
        blocks = [layout.world if v == world else int(layout.rotation[v]) for v in members]
        blocks = [first for first in blocks if first >= 0]
        moving = [row for v in members if v != world for row in layout.translation_rows(v)]
        rows = np.array([first + i for first in blocks for i in range(count)] + moving, dtype=np.intp)
        frame = blocks.index(layout.world) * count if layout.world in blocks else 0
        return rows, len(blocks) * count, frame if blocks else None

    def _count_from_frame(self, basis: Array, inverse: Array, rows: Array, place: int, frame: int | None) -> None:
        """t = a R + extent t', with a R the value at the estimate as seen from the frame R."""
        extent = self._extent(self.estimate[rows[place]])
        basis[place, place], inverse[place, place] = extent, 1 / extent
        if frame is not None:
            at = slice(frame, frame + self.layout.space.rows)
            arm = self.estimate[rows[place]] @ self.estimate[rows[at]].conj().T
            basis[place, at], inverse[place, at] = arm, -arm / extent

    @staticmethod
    def _extent(difference: Array) -> float:
        distance = float(np.linalg.norm(difference))
        return distance if distance > _SMALLEST_EXTENT else 1.0
