"""Clique coordinates: rows in which the clique matrices are well scaled, and the maps between neighbours.

Rotation rows stay as they are. Translations that may be shifted together are counted from one of them in the clique
(facial reduction: every clique matrix annihilates the shift, so that one row is superfluous), others from the world
frame or a rotation of the clique; both are divided by the clique's extent. See docs/maths/, section 5.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gtsam_sdp.linalg.array import Array

_SMALLEST_EXTENT = 1e-9


@dataclass(frozen=True)
class CliqueCoordinates:
    """rows of the clique = basis @ coordinates, and coordinates = inverse @ rows (up to a common shift).

    Attributes:
        rows: rows of the clique's variables, those that keep their scale first, (r,).
        basis: W, (r, m).
        inverse: a left inverse of W, (m, r).
        turning: how many of the first coordinates are rows that keep their scale.
        movable: sets of rows, by place, that are known better relative to each other than as a whole: positions that
            may be shifted, or whose clique is far from what is known of the world.
    """

    rows: Array
    basis: Array
    inverse: Array
    turning: int
    movable: tuple[Array, ...] = ()

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
    """Makes coordinates of sets of rows.

    Attributes:
        estimate: the lifted estimate, (raw, columns): its extent gives the scale.
        shiftable: for a translation row the set it may be shifted with at no cost, -1 for none, (raw,).
    """

    estimate: Array
    shiftable: Array

    def make(self, turning: Array, moving: Array, frame: int, is_world: bool) -> CliqueCoordinates:
        """Coordinates of some rows.

        Args:
            turning: rows that keep their scale, those of rotations.
            moving: rows of translations.
            frame: place among `turning` where the frame starts that translations are counted from, -1 for none.
            is_world: whether that is the world frame.
        """
        rows = np.concatenate([turning, moving]).astype(np.intp)
        basis = np.eye(len(rows), dtype=self.estimate.dtype)
        inverse = basis.copy()
        extent = self._extent(moving)
        labels = self.shiftable[moving]
        places = np.arange(len(turning), len(rows))
        kept = np.ones(len(rows), dtype=bool)
        movable = []
        for label in dict.fromkeys(labels.tolist()):
            members = places[labels == label]
            movable += [members] if label >= 0 or not is_world else []
            if label >= 0:
                self._count_from_first(basis, inverse, rows, members)
                kept[members[0]] = False
            elif is_world:
                self._count_from_frame(basis, inverse, rows, members, frame, extent)
            else:  # far from what is known of the world only the first position is known no better than the map
                self._count_from_frame(basis, inverse, rows, members[:1], frame, extent)
                self._count_from_first(basis, inverse, rows, members)
        return CliqueCoordinates(rows, basis[:, kept], inverse[kept], len(turning), tuple(movable))

    def _count_from_first(self, basis: Array, inverse: Array, rows: Array, members: Array) -> None:
        """t = t_first + extent t'."""
        first, others = members[0], members[1:]
        extent = _extents(self.estimate[rows[others]] - self.estimate[rows[first]])
        basis[others] = basis[first]
        basis[others, others] = extent
        inverse[others, others] = 1 / extent
        inverse[others, first] = -1 / extent

    def _extent(self, moving: Array) -> float:
        """Largest distance between positions at the estimate."""
        positions = self.estimate[moving]
        largest = float(np.linalg.norm(positions - positions[:1], axis=1).max(initial=0.0))
        return largest if largest > _SMALLEST_EXTENT else 1.0

    def _count_from_frame(
        self, basis: Array, inverse: Array, rows: Array, members: Array, frame: int, extent: float
    ) -> None:
        """t = a R + extent t', with a R the value at the estimate as seen from the frame R."""
        positions = self.estimate[rows[members]]
        basis[members, members], inverse[members, members] = extent, 1 / extent
        if frame >= 0:
            at = np.arange(frame, frame + positions.shape[1])
            arms = positions @ self.estimate[rows[at]].conj().T
            basis[members[:, None], at] = arms
            inverse[members[:, None], at] = -arms / extent


def _extents(differences: Array) -> Array:
    distances = np.linalg.norm(differences, axis=1)
    return np.where(distances > _SMALLEST_EXTENT, distances, 1.0)
