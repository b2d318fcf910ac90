"""Frobenius-norm factors: FrobeniusBetweenFactor*, FrobeniusBetweenFactorNL*, FrobeniusFactor*, FrobeniusPrior*.

Their residuals are the columns of T_j - T_i M (up to a rotation). The cost is exact when the noise treats the rows
of a column alike; otherwise it is a lower bound: each column gets the smallest of its weights, or, where entries are
correlated, what `axis_weights` keeps. FrobeniusLeftBetweenFactor*
measures T_i - M T_j, which a rotation of the world changes: in 3D it is not linear in the Gram matrix, in 2D it is,
because plane rotations commute.
"""

from __future__ import annotations

import numpy as np

from gtsam_sdp.errors import InvalidGraphError, format_factor
from gtsam_sdp.factors.registry import FactorGroup, FixedValues, Lifting, adapter, unsupported, world_numbers
from gtsam_sdp.factors.weights import AxisWeights, axis_weights
from gtsam_sdp.linalg.array import Array
from gtsam_sdp.linalg.bounded import Bounded
from gtsam_sdp.terms.terms import Terms, no_rows
from gtsam_sdp.tolerances import MANIFOLD_TOLERANCE
from gtsam_sdp.values.kind import Kind
from gtsam_sdp.values.kinds import KINDS
from gtsam_sdp.values.layout import Layout
from gtsam_sdp.values.space import Space


def _matrices(group: FactorGroup, kind: Kind, arguments: int, sign: int) -> Array:
    """The matrix M of every factor, (m, s, s): its error at identities is sign * (M - I), column by column."""
    identity = kind.identity(0)
    size = identity.matrix().shape[0]
    errors = group.gather(lambda f: f.evaluateError(*[identity] * arguments))
    return np.eye(size) + sign * errors.reshape(-1, size, size).swapaxes(1, 2)


def _column_weights(group: FactorGroup, kind: Kind, space: Space) -> AxisWeights:
    """Weights of the columns; the constant last row of a pose is left out."""
    d = space.dimension
    size = d + kind.translates
    kept = (np.arange(size)[:, None] * size + np.arange(d)).ravel()
    return axis_weights(group.information[:, kept[:, None], kept], d)


def _terms(
    group: FactorGroup,
    lifting: Lifting,
    kind: Kind,
    blocks: tuple[Array, Array],
    first: Array,
    translations: Array,
    combination: Array,
    offset: Array | None,
    arm: Array | None,
    in_world: bool = True,
) -> Terms:
    """Terms of the columns blocks[1] e_c - blocks[0] first_c, and of the translation column p - blocks[0] arm.

    `in_world`: the residual's entries are in world axes, and not turned with a pose.
    """
    space = lifting.layout.space
    rows, d = space.rows, space.dimension
    weights = _column_weights(group, kind, space)
    count, columns = weights.matrix.shape[:2]
    points = translations.shape[1]
    coefficients = np.zeros((count, columns, 2 * rows + (points > 0)), dtype=space.dtype)
    coefficients[:, :d, :rows] = -first
    coefficients[:, :d, rows : 2 * rows] = space.vectors(np.eye(d))
    if points:
        coefficients[:, d, -1] = 1.0
        if arm is not None:
            coefficients[:, d, :rows] = -arm
    # the diagonal of a matrix is read as 1 - error: it is known to the rounding of 1
    sizes = np.abs(coefficients)
    diagonal = np.arange(min(d, rows))
    sizes[:, diagonal, diagonal] = np.maximum(sizes[:, diagonal, diagonal], 1.0)
    residuals, nothing = Bounded(coefficients, sizes), np.zeros(count)
    form = Bounded.of(weights.matrix).sandwich(residuals) * 0.5
    return Terms(
        factor=group.index,
        rotations=np.stack(blocks, axis=1),
        translations=translations,
        combination=combination,
        offset=offset,
        matrix=form.value,
        constant=nothing,
        exactness=weights.exactness,
        magnitude=form.magnitude,
        entrywise=weights.entrywise(residuals, nothing) if in_world else None,
    )


def _between(kind: Kind, sign: int, measured: bool = True):
    def build(group: FactorGroup, lifting: Lifting) -> Terms:
        layout, space, d = lifting.layout, lifting.layout.space, lifting.layout.space.dimension
        numbers = group.numbers
        if measured:
            matrices = _matrices(group, kind, 2, sign)
        else:
            matrices = np.broadcast_to(np.eye(d + 1), (len(numbers), d + 1, d + 1))
        moves = kind.translates
        return _terms(
            group, lifting, kind,
            blocks=(layout.rotation[numbers[:, 0]], layout.rotation[numbers[:, 1]]),
            first=space.vectors(matrices[:, :d, :d].swapaxes(1, 2)),
            translations=layout.translation[numbers] if moves else no_rows(len(numbers)),
            combination=np.array([[-1.0, 1.0]]) if moves else np.zeros((0, 0)),
            offset=None,
            arm=space.vectors(matrices[:, :d, d]) if moves else None,
            in_world=sign < 0 or not measured,
        )  # fmt: skip

    return build


def _prior(kind: Kind):
    def build(group: FactorGroup, lifting: Lifting) -> Terms:
        layout, space, d = lifting.layout, lifting.layout.space, lifting.layout.space.dimension
        matrices = _prior_matrices(group, kind)
        numbers = group.numbers[:, 0]
        moves = kind.translates
        return _terms(
            group, lifting, kind,
            blocks=(layout.rotation_rows(world_numbers(len(numbers))), layout.rotation[numbers]),
            first=space.vectors(matrices[:, :d, :d].swapaxes(1, 2)),
            translations=layout.translation[numbers][:, None] if moves else no_rows(len(numbers)),
            combination=np.array([[1.0]]) if moves else np.zeros((0, 0)),
            offset=space.vectors(matrices[:, :d, d])[:, None, :] if moves else None,
            arm=None,
        )  # fmt: skip

    return build


def _prior_matrices(group: FactorGroup, kind: Kind) -> Array:
    """Prior matrices; those of poses have to end with the row (0, ..., 0, 1)."""
    matrices = _matrices(group, kind, 1, -1)
    if kind.translates:
        last = np.eye(matrices.shape[1])[-1]
        bad = np.flatnonzero(np.abs(matrices[:, -1] - last).max(axis=1) > 1e-12)
        if len(bad):
            k = bad[0]
            raise InvalidGraphError(
                f"The matrix of {format_factor(int(group.index[k]), group.type_name, group.keys[k])} has last row "
                f"{matrices[k, -1]}; that of a pose is (0, ..., 0, 1). Repair the prior."
            )
    return matrices


def _left_between(kind: Kind):
    def build(group: FactorGroup, lifting: Lifting) -> Terms:
        """Columns T_i e_c - M T_j e_c, with M T_j = T_j M for plane rotations."""
        layout, space = lifting.layout, lifting.layout.space
        matrices = _matrices(group, kind, 2, -1)
        turn = space.rotations(matrices[:, :2, :2])[:, :, 0]
        numbers = group.numbers
        moves = kind.translates
        return _terms(
            group, lifting, kind,
            blocks=(layout.rotation[numbers[:, 1]], layout.rotation[numbers[:, 0]]),
            first=turn[:, None, :] * space.vectors(np.eye(2)),
            translations=layout.translation[numbers] if moves else no_rows(len(numbers)),
            combination=np.stack([np.ones_like(turn), -turn], axis=2) if moves else np.zeros((0, 0)),
            offset=space.vectors(matrices[:, :2, 2])[:, None, :] if moves else None,
            arm=None,
        )  # fmt: skip

    return build


def _fix(kind: Kind):
    def fix(group: FactorGroup, layout: Layout, estimate: Array) -> FixedValues:
        d = layout.space.dimension
        matrices = _prior_matrices(group, kind)
        turns = matrices[:, :d, :d]
        off = np.abs(turns @ turns.swapaxes(1, 2) - np.eye(d)).max(axis=(1, 2))
        bad = np.flatnonzero((off > MANIFOLD_TOLERANCE) | (np.linalg.det(turns) < 0))
        if len(bad):
            k = bad[0]
            raise InvalidGraphError(
                f"The hard {format_factor(int(group.index[k]), group.type_name, group.keys[k])} prescribes a matrix "
                f"that is not a rotation (R R^T - I has entries up to {off[k]:.1e}): no value can satisfy it."
            )
        moves = kind.translates
        positions = layout.space.vectors(matrices[:, :d, d])[:, None, :] if moves else None
        return FixedValues(layout.space.nearest_rotations(layout.space.rotations(turns)), positions)

    return fix


_UNIT_DIMENSION = {"Rot2": None, "Rot3": 9, "Pose2": 9, "Pose3": 16}
_LEFT_IN_SPACE = (
    "its residual T_i - M T_j changes when the world turns, so it is not linear in the Gram matrix of the lift; "
    "measure T_j - T_i M with FrobeniusBetweenFactor instead"
)

for _name, _unit in _UNIT_DIMENSION.items():
    _kind = KINDS[_name]
    adapter(f"FrobeniusBetweenFactor{_name}", [_name] * 2, unit_dimension=_unit)(_between(_kind, -1))
    adapter(f"FrobeniusBetweenFactorNL{_name}", [_name] * 2, unit_dimension=_unit)(_between(_kind, 1))
    adapter(f"FrobeniusFactor{_name}", [_name] * 2, unit_dimension=_unit)(_between(_kind, 1, measured=False))
    adapter(f"FrobeniusPrior{_name}", [_name], absolute=True, fix=_fix(_kind), unit_dimension=_unit)(_prior(_kind))
    if _kind.dimension == 2:
        adapter(f"FrobeniusLeftBetweenFactor{_name}", [_name] * 2, absolute=_kind.translates, unit_dimension=_unit)(
            _left_between(_kind)
        )
    else:
        unsupported(f"FrobeniusLeftBetweenFactor{_name}", _LEFT_IN_SPACE)
