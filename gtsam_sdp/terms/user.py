"""What users return for a factor of their own: a `Term` made of `Residual`s."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from gtsam_sdp.errors import InvalidTermError, format_key
from gtsam_sdp.linalg.bounded import Bounded
from gtsam_sdp.terms.terms import Exactness, Terms, residual_matrix
from gtsam_sdp.values.layout import Layout


@dataclass(frozen=True)
class Residual:
    """One d-dimensional residual vector in the world frame, linear in rotations, translations and directions.

    r = sum_k R_k rotation[k] + sum_k translation[k] t_k + sum_k direction[k] u_k + world, contributing
    weight / 2 * |r|^2 to a term.

    Attributes:
        weight: may be negative; the term as a whole has to stay below the factor's cost.
        rotation: for a key, a vector (d,) in that key's frame.
        translation: for a key, a number.
        world: a constant vector (d,) in the world frame.
        direction: for a key that holds a Unit3, a number.
    """

    weight: float
    rotation: Mapping[int, ArrayLike] = field(default_factory=dict)
    translation: Mapping[int, float] = field(default_factory=dict)
    world: ArrayLike | None = None
    direction: Mapping[int, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Term:
    """The term of one factor: constant + sum of weight / 2 * |residual|^2, never above the factor's cost.

    Attributes:
        residuals: the residuals.
        constant: in the unit of `graph.error`.
        exactness: EXACT if equal to the factor's cost everywhere, TANGENT if at the estimate, else LOWER_BOUND.
    """

    residuals: Sequence[Residual]
    constant: float = 0.0
    exactness: Exactness = Exactness.EXACT

    @property
    def absolute(self) -> bool:
        """Whether a residual has a part in the world frame."""
        return any(r.world is not None for r in self.residuals)

    def _check(self, factor: int, keys: Sequence[int], layout: Layout) -> None:
        where = f"The term of factor {factor}"
        d = layout.space.dimension
        for residual in self.residuals:
            given = [*residual.rotation.values(), *([] if residual.world is None else [residual.world])]
            vectors = [np.asarray(vector, dtype=float) for vector in given]
            if any(vector.shape != (d,) for vector in vectors):
                raise InvalidTermError(f"{where} has a vector of the wrong length: in {d}D each needs {d} numbers.")
            factors = [*residual.translation.values(), *residual.direction.values()]
            numbers = [residual.weight, self.constant, *factors, *(x for v in vectors for x in v)]
            if not np.isfinite(np.array(numbers, dtype=float)).all():
                raise InvalidTermError(f"{where} holds a number that is not finite.")
            for key, rows, what in (
                *((k, layout.rotation, "rotation") for k in residual.rotation),
                *((k, layout.translation, "position") for k in residual.translation),
                *((k, layout.direction, "direction") for k in residual.direction),
            ):
                if key not in keys:
                    raise InvalidTermError(f"{where} uses key {format_key(key)}, which is none of the factor's keys.")
                if key not in layout:
                    raise InvalidTermError(f"{where} uses {format_key(key)}, whose type of value is not supported.")
                if rows[layout.number(key)] < 0:
                    raise InvalidTermError(f"{where} uses the {what} of {format_key(key)}, which has none.")

    def to_terms(self, factor: int, keys: Sequence[int], layout: Layout) -> Terms:
        """The term as arrays, one factor long.

        Raises:
            InvalidTermError: a number is not finite, a vector has the wrong length, or a key is not the factor's or
                has no rotation or position.
        """
        self._check(factor, keys, layout)
        rotation_keys = list(dict.fromkeys(k for r in self.residuals for k in r.rotation))
        translation_keys = list(dict.fromkeys(k for r in self.residuals for k in r.translation))
        direction_keys = list(dict.fromkeys(k for r in self.residuals for k in r.direction))
        space = layout.space
        rows = space.rows
        turning = len(rotation_keys) * rows
        count = turning + len(direction_keys)
        coefficients = np.zeros((len(self.residuals), count + len(self.residuals)), dtype=space.dtype)
        combination = np.zeros((len(self.residuals), len(translation_keys)))
        offset = np.zeros((1, len(self.residuals), rows), dtype=space.dtype)
        for line, residual in enumerate(self.residuals):
            for key, vector in residual.rotation.items():
                start = rotation_keys.index(key) * rows
                coefficients[line, start : start + rows] = space.vectors(np.asarray(vector))
            for key, number in residual.direction.items():
                coefficients[line, turning + direction_keys.index(key)] = number
            for key, number in residual.translation.items():
                combination[line, translation_keys.index(key)] = number
            if residual.world is not None:
                offset[0, line] = -space.vectors(np.asarray(residual.world))
            coefficients[line, count + line] = 1.0
        weights = np.array([r.weight for r in self.residuals], dtype=float)
        squares = Bounded.of(coefficients).apply(residual_matrix, weights / 2)
        form = squares.apply(lambda x: x.sum(axis=0)[None])
        numbers_r = np.array([layout.number(k) for k in rotation_keys], dtype=np.intp)
        numbers_u = np.array([layout.number(k) for k in direction_keys], dtype=np.intp)
        numbers_t = np.array([layout.number(k) for k in translation_keys], dtype=np.intp)
        return Terms(
            factor=np.array([factor]),
            rotations=layout.rotation[numbers_r][None].astype(np.intp),
            translations=layout.translation[numbers_t][None].astype(np.intp),
            combination=combination,
            offset=offset if self.absolute else None,
            matrix=form.value,
            constant=np.array([float(self.constant)]),
            exactness=np.array([self.exactness]),
            magnitude=(1 + len(weights) / 8) * form.magnitude,
            singles=layout.direction[numbers_u][None].astype(np.intp) if direction_keys else None,
        )
