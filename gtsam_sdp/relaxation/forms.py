"""Terms as quadratic forms on the rows of a lift: what the cliques share out among themselves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from gtsam_sdp.lift.coordinates import Coordinates
from gtsam_sdp.linalg.array import Array
from gtsam_sdp.terms.terms import Terms


class Slopes(NamedTuple):
    """How terms of distances change with the point delta where they touch, by p = delta^ / delta - 1.

    1/2 w (1 - r / delta) |p|^2 - 1/2 w r delta loses p times `matrix` and gains `price` (delta^ - delta).

    Attributes:
        matrix: of 1/2 w r / delta^ |p|^2, (m, r, r).
        price: 1/2 w r delta^, 0 where the term is no tangent, (m,).
    """

    matrix: Array
    price: Array

    @classmethod
    def of_terms(cls, terms: Terms) -> Slopes | None:
        """On local rows; None for terms that are none of distances."""
        distances = terms.distances
        if distances is None:
            return None
        steepness = np.where(distances.movable, distances.measured / distances.point, 0.0)
        price = np.where(distances.movable, distances.weight * distances.measured * distances.point, 0.0)
        return cls(distances.square * steepness[:, None, None], price)


@dataclass(frozen=True)
class Forms:
    """Re tr(X^H matrix X) of m terms of equal shape, X = expansion @ (rows of the lift).

    Attributes:
        rows: rows of the lift, (m, s).
        used: whether a row takes part in the term, (m, s); the others have zero coefficients.
        expansion: (m, r, s).
        matrix: Hermitian, (m, r, r).
        turning: how many of the first rows of X are rows of rotations.
        slopes: of terms of distances, None for others.
    """

    rows: Array
    used: Array
    expansion: Array
    matrix: Array
    turning: int
    slopes: Slopes | None = None

    @classmethod
    def of_terms(cls, terms: Terms, coordinates: Coordinates) -> Forms:
        """The Gram forms of terms on raw rows; rows that are no unknowns are left out."""
        rows, coefficients = coordinates.expansion(terms)
        known = coordinates.position[rows] >= 0
        expansion = np.where(known[:, None, :], coefficients.value, 0)
        turning = terms.matrix.shape[1] - terms.combination.shape[-2]
        return cls(rows, (expansion != 0).any(axis=1), expansion, terms.matrix, turning, Slopes.of_terms(terms))

    def variables(self, owner: Array) -> Array:
        """The variable of each row that is used, (m, s); -1 for the others."""
        return np.where(self.used, owner[self.rows], -1)


def variable_groups(forms: Sequence[Forms], owner: Array) -> list[tuple[int, ...]]:
    """Distinct sets of variables that forms hold."""
    found: dict[tuple[int, ...], None] = {}
    for batch in forms:
        for row in np.unique(np.sort(batch.variables(owner), axis=1), axis=0):
            found.setdefault(tuple(dict.fromkeys(int(v) for v in row if v >= 0)), None)
    return [group for group in found if group]
