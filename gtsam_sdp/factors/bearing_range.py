"""Landmarks seen by bearing and range: BearingRangeFactor* (docs/maths/, section 2.6).

With q = R_i^T (l - t_i), the landmark in the body frame, the cost depends on the distance d = |q| and on the angle of
q to the measured direction. Linear in the lifted matrix are |q|^2 and q itself: the term is the widest paraboloid
alpha |q - m|^2 + c of this kind that touches the cost at the estimate and stays below it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gtsam_sdp.factors.geometry import adjoint, transform
from gtsam_sdp.factors.registry import FactorGroup, Lifting, adapter, unsupported
from gtsam_sdp.factors.weights import smallest_eigenvalue
from gtsam_sdp.linalg.array import Array
from gtsam_sdp.linalg.bounded import Bounded, rounding_error
from gtsam_sdp.terms.terms import Exactness, Terms, residual_matrix
from gtsam_sdp.tolerances import NEGLIGIBLE
from gtsam_sdp.values.space import Space

_LARGEST_ANGLE = 2.8
"""Largest angle [rad] at which a term touches the cost."""

_MARGIN = 1.01
"""By this factor the curvature of cost less paraboloid must exceed what is needed, for rounding."""

_SMALLEST_REST = 1e-6
"""Least share of w_r by which alpha has to stay below it."""

_SHARES = np.concatenate(
    [-(10.0 ** np.linspace(1, -3, 9)), np.linspace(0, 0.9, 19), 1 - 10.0 ** -np.arange(1.25, 6.1, 0.25)]
)
"""Values of alpha / w_r that are tried."""

_CANDIDATES = 32
_BISECTIONS = 10

_SQUARED = 0.05
"""Where alpha is larger than this share of the gradient by distance the paraboloid is written as one square."""

_NEAREST = 1e-3
"""Distance, as a share of the measured range, below which a term is made at the measurement and not at the estimate."""

_BLIND_DISTANCE = 1.001e-5
"""In the plane GTSAM takes the direction (1, 0) for landmarks nearer than 1e-5 [m]."""

_SPARE = 1e-10
"""Share of the weights that is kept back where bearing and range are correlated, for the tangent's rounding."""


@dataclass(frozen=True)
class _Observation:
    """What m factors measured, and where their terms touch the cost, (m,) or (m, rows) each.

    Attributes:
        direction: measured direction in the body frame, unit vectors.
        range: measured distance r [m].
        distance: d^ [m].
        angle: phi^ from the measured direction to that of the landmark [rad], signed in the plane.
        across: in space the unit vector in which `angle` is counted; i times `direction` in the plane.
        touches: whether the point is the estimate, and not the measurement.
        zero_error: whether it was meant to be the measurement.
    """

    direction: Array
    range: Array
    distance: Array
    angle: Array
    across: Array
    touches: Array
    zero_error: bool

    @classmethod
    def read(cls, group: FactorGroup, lifting: Lifting) -> _Observation:
        """Measurements, and the landmark at the estimate; at the measurement where that is of no use."""
        space = lifting.layout.space
        table = group.gather(_read_2d if space.dimension == 2 else _read_3d)
        vectors = table[:, :-1]
        direction = space.vectors(vectors / np.linalg.norm(vectors, axis=1)[:, None])
        pose, target = group.numbers[:, 0], group.numbers[:, 1]
        moved = lifting.translations(target) - lifting.translations(pose)
        seen = transform(adjoint(lifting.rotations(pose)), moved)
        angle, across = _angle(direction, seen, space)
        measured = table[:, -1]
        distance = np.linalg.norm(seen, axis=1)
        touches = (distance > np.maximum(_NEAREST * np.abs(measured), _BLIND_DISTANCE)) & (
            np.abs(angle) <= _LARGEST_ANGLE
        )
        if lifting.at_measurements:
            touches = np.zeros_like(touches)
        seen = cls(direction, measured, distance, angle, across, touches, lifting.at_measurements)
        return seen.at_measurement(~touches)

    def at_measurement(self, chosen: Array) -> _Observation:
        """The same with terms that touch the cost at zero error where `chosen`."""
        return _Observation(
            self.direction,
            self.range,
            np.where(chosen, np.maximum(self.range, 0.0), self.distance),
            np.where(chosen, 0.0, self.angle),
            self.across,
            self.touches & ~chosen,
            self.zero_error,
        )

    def in_body(self, along: Array, across: Array) -> Array:
        """Vectors in the body frame from their parts along q^ and in the direction in which its angle grows."""
        cosine, sine = np.cos(self.angle), np.sin(self.angle)
        first, second = cosine * along - sine * across, sine * along + cosine * across
        return first[:, None] * self.direction + second[:, None] * self.across


def _read_2d(factor: object) -> list[float]:
    measured = factor.measured()  # pyright: ignore[reportAttributeAccessIssue]
    bearing = measured.bearing()
    return [bearing.c(), bearing.s(), measured.range()]


def _read_3d(factor: object) -> list[float]:
    measured = factor.measured()  # pyright: ignore[reportAttributeAccessIssue]
    return [*measured.bearing().unitVector(), measured.range()]


def _angle(direction: Array, seen: Array, space: Space) -> tuple[Array, Array]:
    """Angle from one direction to another vector, and the unit vector in which it is counted."""
    if space.dimension == 2:
        return np.angle(direction.conj() * seen)[:, 0], 1j * direction
    along = np.sum(direction * seen, axis=1)
    off = seen - along[:, None] * direction
    off -= np.sum(direction * off, axis=1)[:, None] * direction
    length = np.linalg.norm(off, axis=1)
    least = np.eye(3)[np.argmin(np.abs(direction), axis=1)]  # any unit vector across, where there is no angle
    spare = np.cross(direction, least)
    spare /= np.linalg.norm(spare, axis=1)[:, None]
    across = np.where((length > 0)[:, None], off / np.where(length > 0, length, 1.0)[:, None], spare)
    return np.arctan2(length, along), across


@dataclass(frozen=True)
class _Weights:
    """L split into an isotropic part and what goes by its tangent: r^T L r >= w0 (phi - phi0)^2 + w_r (d - r0)^2 + ...

    Attributes:
        bearing: the largest w0 that there is weight for.
        range: w_r.
        slope_bearing, slope_range: halves of the derivatives of r^T L r at the point of tangency.
        value: r^T L r there.
        rounding: what rounding of the slopes may cost.
        complete: whether nothing of L was given up.
    """

    bearing: Array
    range: Array
    slope_bearing: Array
    slope_range: Array
    value: Array
    rounding: Array
    complete: Array

    @classmethod
    def split(cls, information: Array, seen: _Observation) -> _Weights:
        """The split of information matrices on (bearing, range), (m, 2, 2) or (m, 3, 3).

        In space GTSAM counts the bearing's error in a basis that turns with the landmark's direction, so that only its
        length is used: L is replaced by the largest isotropic part.
        """
        angles = information.shape[1] - 1
        cross, last = information[:, :angles, angles], information[:, angles, angles]
        block = information[:, :angles, :angles]
        least = smallest_eigenvalue(block)
        spread = np.abs(block - least[:, None, None] * np.eye(angles)).max(axis=(1, 2))
        coupled: Array = np.abs(cross).max(axis=1) > 0
        complete = (spread <= NEGLIGIBLE * least) & ~coupled if angles == 2 else np.ones(len(last), dtype=bool)
        bearing, ranging = _uncoupled(information, least, coupled)
        error = seen.distance - seen.range
        if angles == 1:
            slope_bearing = block[:, 0, 0] * seen.angle + cross[:, 0] * error
            slope_range = cross[:, 0] * seen.angle + last * error
            value = block[:, 0, 0] * seen.angle**2 + 2 * cross[:, 0] * seen.angle * error + last * error**2
        else:
            slope_bearing, slope_range = bearing * seen.angle, ranging * error
            value = bearing * seen.angle**2 + ranging * error**2
        sizes = np.abs(information[:, [0, -1]][:, :, [0, -1]])
        reach = transform(sizes, np.stack([np.abs(seen.angle), np.abs(error)], axis=1))
        safe = [np.where(w > 0, w, 1.0) for w in (bearing, ranging)]
        rounding = sum(rounding_error(16, reach[:, k]) ** 2 / (_SPARE * safe[k]) for k in (0, 1))
        return cls(
            bearing, ranging, slope_bearing, slope_range, value, np.where(coupled, rounding, 0.0), complete
        )  # fmt: skip


def _uncoupled(information: Array, least: Array, coupled: Array) -> tuple[Array, Array]:
    """Weights of bearing and range whose diagonal matrix is below L: half of L's own where they are correlated."""
    bearing, ranging = np.maximum(least, 0.0), information[:, -1, -1].copy()
    at = np.flatnonzero(coupled)
    if not len(at):
        return bearing, ranging
    diagonal = np.sqrt(np.einsum("kii->ki", information[at]))
    usable = (diagonal > 0).all(axis=1)
    scale = np.where(diagonal > 0, diagonal, 1.0)
    smallest = smallest_eigenvalue(information[at] / scale[:, :, None] / scale[:, None, :])
    kept = np.where(usable, np.maximum(smallest, 0.0) * (1 - 2 * _SPARE), 0.0)
    bearing[at] = kept * scale[:, :-1].min(axis=1) ** 2
    ranging[at] = kept * scale[:, -1] ** 2
    return bearing, ranging


def _widest(weights: _Weights, seen: _Observation) -> tuple[Array, Array]:
    """The largest alpha for which the paraboloid is known to be below the cost, (m,), and whether there is one.

    Two sufficient conditions are tried, each better where the other is weak: with stiff bearings, with large angles.
    """
    alpha, valid = _last_valid(_SHARES[:, None] * weights.range, lambda a: _is_convex_in_angle(a, weights, seen))
    low = np.abs(weights.slope_bearing) / _LARGEST_ANGLE
    top = np.maximum(np.minimum(weights.bearing, weights.range * seen.distance**2), low)
    low = np.where(low > 0, low, 1e-4 * top)
    kept, also = _last_valid(
        low + (top - low) * np.linspace(0, 1, _CANDIDATES)[:, None] ** 2,
        lambda w: _is_convex_in_cosine(w, weights, seen)[1],
    )
    other, _ = _is_convex_in_cosine(kept, weights, seen)
    better = also & ~(valid & (alpha >= other))
    return np.where(better, other, alpha), np.logical_or(valid, also)


def _last_valid(grid: Array, holds: Callable[[Array], Array]) -> tuple[Array, Array]:
    """The largest valid number of each column of an increasing grid, refined towards the next one by bisection."""
    valid = holds(grid)
    last = len(grid) - 1 - np.argmax(valid[::-1], axis=0)
    columns = np.arange(grid.shape[1])
    good, bad = grid[last, columns], grid[np.minimum(last + 1, len(grid) - 1), columns]
    for _ in range(_BISECTIONS):
        middle = (good + bad) / 2
        works = holds(middle)
        good, bad = np.where(works, middle, good), np.where(works, bad, middle)
    found: Array = np.max(valid, axis=0)
    return good, found


def _is_convex_in_angle(alpha: Array, weights: _Weights, seen: _Observation) -> Array:
    """Whether cost less paraboloid, at the best distance for each angle, is a convex function of the angle."""
    rest = weights.range - alpha
    pull = weights.range * seen.distance - weights.slope_range  # w_r r0
    B = np.hypot(alpha * seen.distance - weights.slope_range, weights.slope_bearing / seen.distance)
    # the largest B (w_r r0 x + B (1 - 2 x^2)) for |x| <= 1
    inner = np.abs(pull) <= 4 * B
    bend = np.where(inner, B**2 + pull**2 / 8, B * (np.abs(pull) - B))
    return (rest > 0) & (_MARGIN * bend <= weights.bearing * rest)


def _is_convex_in_cosine(kept: Array, weights: _Weights, seen: _Observation) -> tuple[Array, Array]:
    """alpha where the bearing keeps the weight w0 = `kept`, and whether the paraboloid is below the cost."""
    safe = np.where(kept > 0, kept, 1.0)
    psi = np.abs(weights.slope_bearing) / safe
    usable = (kept > 0) & (kept <= weights.bearing) & (psi <= _LARGEST_ANGLE)
    psi = np.where(usable, psi, 1.0)
    B = safe / (seen.distance * np.sinc(psi / np.pi))
    alpha = (weights.slope_range + B * np.cos(psi)) / seen.distance
    rest = weights.range - alpha
    usable &= rest > _SMALLEST_REST * weights.range
    rest = np.where(usable, rest, 1.0)
    bend = _MARGIN * B**2 / rest
    short = 2 * np.sin(psi / 2) ** 2  # 1 - cos(psi)
    # the cost at psi = 0 is this much further above the paraboloid than at the point where they touch
    ahead = B * short * (2 * seen.distance - B * short / rest) - _MARGIN * kept * psi**2
    usable &= (bend <= kept / 3) | ((bend <= kept * _half_curvature(psi)) & (ahead >= 0))
    return alpha, usable


def _half_curvature(psi: Array) -> Array:
    """Half the second derivative of psi^2 by 1 - cos(psi), rounded down: 1/3 at zero."""
    safe = np.maximum(psi, 0.05)
    exact = (np.sin(safe) - safe * np.cos(safe)) / np.sin(safe) ** 3
    return np.where(psi < 0.05, 1 / 3, exact * (1 - 1e-9))


@dataclass(frozen=True)
class _Form:
    """weight |B X|^2 + 2 Re(slope . R^T p) + constant on the rows X = (R, p), twice the term."""

    alpha: Array
    arm: Bounded
    slope: Bounded
    constant: Array
    exactness: Array


def _bearing_range(group: FactorGroup, lifting: Lifting) -> Terms:
    space = lifting.layout.space
    seen = _Observation.read(group, lifting)
    form, valid = _form(group.information, seen, space)
    lost = ~valid & seen.touches
    if lost.any():
        form, _ = _form(group.information, seen.at_measurement(lost), space)
    return _terms(group, lifting, form)


def _form(information: Array, seen: _Observation, space: Space) -> tuple[_Form, Array]:
    """The terms' forms, and where one is valid; elsewhere what can be said without a point of tangency."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        weights = _Weights.split(information, seen)
        alpha, valid = _widest(weights, seen)
    valid &= (seen.distance > 0) & (weights.range > 0) & (weights.bearing > 0)
    alpha = np.where(valid, alpha, 1.0)
    form, excess = _paraboloid(alpha, valid, weights, seen, space)
    if (excess > 0).any():  # a narrower one is as valid, and lower at the pose
        narrower = alpha - 1.01 * np.maximum(excess, 0.0) / np.where(valid, seen.distance, 1.0) ** 2
        form, _ = _paraboloid(narrower, valid, weights, seen, space)
    return form, valid


def _paraboloid(alpha: Array, valid: Array, weights: _Weights, seen: _Observation, space: Space) -> tuple[_Form, Array]:
    """The paraboloid that touches the cost at q^ with curvature alpha, and how much too high it is at the pose."""
    distance = np.where(valid, seen.distance, 1.0)
    along, across = weights.slope_range, weights.slope_bearing / distance  # half the gradient at q^
    reach = np.hypot(along, across)
    squared = alpha > _SQUARED * reach / distance
    by_alpha = np.where(squared, 1 / np.where(squared, alpha, 1.0), 0.0)
    arm = seen.in_body(distance - along * by_alpha, -across * by_alpha)
    slope = -seen.in_body(alpha * distance - along, -across)
    slope_size = np.abs(alpha) * distance + reach
    lost = np.where(squared, reach**2 * by_alpha, 2 * along * distance - alpha * distance**2)
    constant = weights.value - lost - weights.rounding
    lengths = np.linalg.norm(np.where(squared[:, None], arm, slope), axis=1)
    limit = _at_the_pose(weights, seen, alpha, lengths, squared) if space.dimension == 2 else np.inf
    excess = np.where(valid, constant - limit, 0.0)
    constant = np.minimum(constant, limit)
    constant -= rounding_error(64, np.abs(weights.value) + np.where(squared, lost, slope_size * distance))
    # without a point of tangency: w_r (d - r)^2 >= w_r (d^2 + r^2) if r <= 0
    ranging = np.where(~valid & (seen.range <= 0), np.maximum(weights.range, 0.0), 0.0)
    tangent = valid & weights.complete & (seen.touches | seen.zero_error)
    form = _Form(
        alpha=np.where(valid, alpha, ranging),
        arm=_where(valid & squared, arm, distance + reach * by_alpha),
        slope=_where(valid & ~squared, slope, slope_size),
        constant=np.where(valid, constant, ranging * seen.range**2),
        exactness=np.where(tangent, int(Exactness.TANGENT), int(Exactness.LOWER_BOUND)),
    )
    return form, excess


def _where(chosen: Array, vectors: Array, sizes: Array) -> Bounded:
    """The chosen vectors (m, rows), of sizes (m,), zero elsewhere."""
    sizes = np.broadcast_to(sizes[:, None], vectors.shape)
    return Bounded(vectors, sizes).apply(lambda x: np.where(chosen[:, None], x, 0.0))


def _at_the_pose(weights: _Weights, seen: _Observation, alpha: Array, lengths: Array, squared: Array) -> Array:
    """What the constant may be at most for landmarks nearer than 1e-5 m in the plane, where the bearing may be any.

    `lengths`: of m where the paraboloid is alpha |q - m|^2, of the slope where it is alpha |q|^2 + 2 slope . q.
    """
    blind = _BLIND_DISTANCE
    least = weights.range * np.maximum(np.maximum(-seen.range, seen.range - blind), 0.0) ** 2
    largest = np.where(
        squared, alpha * (lengths + blind) ** 2, np.maximum(alpha, 0.0) * blind**2 + 2 * lengths * blind
    )  # fmt: skip
    return least - largest


def _terms(group: FactorGroup, lifting: Lifting, form: _Form) -> Terms:
    layout = lifting.layout
    rows, slope = layout.space.rows, form.slope[:, None]
    coefficients = Bounded.concatenate([-form.arm, np.ones((len(form.alpha), 1))], axis=1)
    doubled = coefficients.apply(residual_matrix, form.alpha)
    doubled[:, :rows, rows:] += slope.H
    doubled[:, rows:, :rows] += slope
    whole = doubled * 0.5
    return Terms(
        factor=group.index,
        rotations=layout.rotation[group.numbers[:, :1]],
        translations=layout.translation[group.numbers],
        combination=np.array([[-1.0, 1.0]]),
        offset=None,
        matrix=whole.value,
        constant=form.constant / 2,
        exactness=form.exactness,
        magnitude=whole.magnitude,
    )


_BEARING_ONLY = (
    "a bearing without a range has no scale, and no quadratic function of rotations and positions below its cost "
    "comes near it; use BearingRangeFactor, or drop it"
)

for _d in ("2", "3"):
    for _end, _target in ((f"{_d}D", "Vector"), (f"Pose{_d}", f"Pose{_d}")):
        adapter(f"BearingRangeFactor{_end}", [f"Pose{_d}", _target])(_bearing_range)
for _name in ("2D", "3D", "Pose2"):
    unsupported(f"BearingFactor{_name}", _BEARING_ONLY)
