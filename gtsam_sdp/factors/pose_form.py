"""Minorants of log-map errors on SE(d) for any Gaussian noise (docs/maths/, section 2.5).

All formulas are for the relative quantities E = R~^T R_i^T R_j and e = R~^T (R_i^T p - t~), p = t_j - t_i, which
are linear in the lifted matrix. Rotations are (m, rows, rows) and vectors (m, rows) in the sense of `Space`: one
complex number in 2D, so that one text serves both dimensions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from gtsam_sdp.factors.geometry import adjoint, exp_rotation, transform
from gtsam_sdp.factors.pose_split import (
    NEGLIGIBLE_LOSS,
    Estimate,
    Split,
    choose_split,
    estimate_of,
    is_plain,
    translation_residuals,
)
from gtsam_sdp.factors.rotation_form import (
    LocalForm,
    add_anisotropic,
    isotropic_rotation,
    largest_angle,
    put,
)
from gtsam_sdp.factors.touching import Nearness
from gtsam_sdp.linalg.array import Array
from gtsam_sdp.terms.terms import Exactness
from gtsam_sdp.values.space import Space

_LOOSENING = 1 / 3
"""Share of its curvature, by the gap, that a term gives up which is only to tell where better solutions are.

Its cost is then above it by the gap at sqrt(2 / _LOOSENING) sigmas of its loosest axis.
"""

_LEAST_LOOSENING, _LARGEST_LOOSENING = 0.05, 0.25
"""The least of it, for the first tightening and doubled for each that follows, and the most."""


def pose_form(
    information: Array,
    measured: Array,
    offset: Array,
    relative: Array,
    e: Array,
    max_cost: float | Array,
    space: Space,
    gaps: Sequence[float] = (),
    share: Array | float = 1.0,
    kept: Array | None = None,
    *,
    touching: bool = True,
) -> LocalForm:
    """Minorant of 1/2 r^T L r, r = Log of the relative pose, on the rows (R_i, R_j, p): section 2.5.

    Args:
        information: L, ordered (rotation, translation), (m, 3, 3) in 2D or (m, 6, 6).
        measured: R~, (m, rows, rows).
        offset: t~ in the rows of the space, (m, rows) [m].
        relative: E at the estimate.
        e: e at the estimate, (m, rows) [m].
        max_cost: only points where no factor costs more have to be bounded, which limits the angle; a number, or (m,).
        space: the plane or space.
        gaps: how much the costs of points that have to be bounded can exceed the minorants, of the first form, of the
            second one made with that, ...: what limits the angle further.
        share: of the cost that keeps its curvature, the rest is its tangent at the estimate; (m,), or 1. Where it is
            not positive the form has to touch; it is no bound if its exactness says that it does not.
        kept: the part of L, and not above it, that keeps its curvature, (m, k, k), in place of a share of L.
        touching: forms may touch the cost in its gradient too, where that takes curvature.
    """
    max_cost, share = (np.broadcast_to(x, len(information)) for x in (max_cost, share))
    estimate = estimate_of(information, relative, e, max_cost, space)
    if kept is None and np.any(share != 1):
        estimate = estimate.bent_less(information, share[:, None, None] * information, share * estimate.marginal)
    elif kept is not None:
        marginal = estimate_of(kept, relative, e, max_cost, space).marginal
        estimate = estimate.bent_less(information, kept, marginal)
    bent = share[:, None, None] * information if kept is None else kept
    near = Nearness.below_cost(information, bent, estimate.r, max_cost, share, space)
    information = np.where((share > 0)[:, None, None], bent, 0.0)
    split = choose_split(information, estimate, max_cost, space)
    may_touch = touching | (share < 1)
    found = near.touching(may_touch & _worth_touching(split, max_cost), split.least_to_touch)
    for number, gap in enumerate(gaps):
        turned = adjoint(exp_rotation(split.w0, space)) @ relative
        angle = largest_angle(split.kappa, turned, gap, space) + np.linalg.norm(split.w0, axis=1) * (1 + 1e-9)
        angle = np.where(found.touches, np.pi, angle)
        theta, linear = np.minimum(angle, estimate.theta), split.linear(information)
        linear[np.isinf(split.loss) & (share != 1)] = 0.0  # these forms are no bounds
        nearer = near.within(found, gap, theta, linear)
        estimate = replace(estimate, theta=np.minimum(np.minimum(estimate.theta, nearer.theta), angle))
        split = choose_split(information, estimate, max_cost, space)
        wanted = may_touch & _worth_touching(split, max_cost)
        near = near.until_it_touches(found, gap, theta, linear, wanted, split.least_to_touch)
        found = near.touching(wanted, split.least_to_touch)
        given_up = min(max(gap * _LOOSENING, _LEAST_LOOSENING * 2**number), _LARGEST_LOOSENING)
        split = _loosened(
            split, information, estimate, found.missing & ~is_plain(information, space), 1 - given_up, space
        )
    turned = exp_rotation(split.w0, space)
    form = isotropic_rotation(split.kappa, measured @ turned, adjoint(turned) @ relative, space)
    coefficient, constant = form.coefficient, form.constant + 2 * split.constant
    add_anisotropic(coefficient, constant, split.rotation, split.kappa, measured, relative)
    matrix, extra = _translation_part(split, estimate, measured, offset, space)
    rows = space.rows
    put(matrix, slice(0, rows), slice(rows, 2 * rows), coefficient.conj())
    exactness = np.where(np.isfinite(split.loss), int(Exactness.TANGENT), int(Exactness.LOWER_BOUND))
    form = LocalForm(matrix / 2, (constant + extra) / 2, exactness)
    return found.replace(form, measured, offset, space)


def _worth_touching(split: Split, max_cost: Array) -> Array:
    """The factors whose terms lose something at the estimate."""
    return ~(split.loss <= NEGLIGIBLE_LOSS * max_cost / len(split.loss))


def _loosened(split: Split, information: Array, estimate: Estimate, where: Array, keep: float, space: Space) -> Split:
    """The split that keeps a share of the curvature `where` there is one: what the cost is above it grows all around.

    Its bound is lower, but the gap that it leaves tells where better solutions are, so that the next term can touch.
    """
    at = np.flatnonzero(where)
    if not len(at):
        return split
    loose = choose_split(information[at], estimate.select(at), np.zeros(len(at)), space, keep)
    return split.replace(loose, at, np.isfinite(loose.loss) | np.isinf(split.loss[at]))


def _translation_part(
    split: Split, estimate: Estimate, measured: Array, offset: Array, space: Space
) -> tuple[Array, Array]:
    """tau (|W|^2 + (2 w^^T w - |w^|^2) / 12 - k |u0|^2 u) as a matrix on (R_i, R_j, p) and a constant.

    Where the loss is infinite (the fallback) only tau |e|^2 is kept.
    """
    rows = space.rows
    first, second, point = slice(0, rows), slice(rows, 2 * rows), slice(2 * rows, 2 * rows + 1)
    count = len(split.tau)
    u0 = space.vectors(split.u0)
    turned_u0 = transform(measured, u0)
    residual = np.concatenate([-(offset + turned_u0 / 2), -u0 / 2, np.ones((count, 1))], axis=1)
    matrix = split.tau[:, None, None] * residual.conj()[:, :, None] * residual[:, None, :]
    _, w = translation_residuals(estimate, u0)
    tangent = np.isfinite(split.loss)
    w = np.where(tangent[:, None], w, 0.0)
    share = split.tau / 6
    turned_w = transform(measured, w)
    scaled = share[:, None].astype(space.dtype)
    # w^^T e - w^^T E^T e - w^^T E u0 + w^^T E^T u0, each a product of two rows
    put(matrix, first, point, (scaled * turned_w.conj())[:, :, None])
    put(matrix, second, point, -(scaled * w.conj())[:, :, None])
    on_pair = (scaled * (offset + turned_u0))[:, :, None].conj() * w[:, None, :]
    on_pair -= (scaled * turned_w)[:, :, None].conj() * u0[:, None, :]
    put(matrix, first, second, on_pair)
    squared_w = np.sum(np.abs(w) ** 2, axis=1)
    constant = -share * np.real(np.sum(turned_w.conj() * offset, axis=1)) - share / 2 * squared_w
    bend = split.tau * np.where(tangent, estimate.curvature, 0.0) * np.sum(split.u0**2, axis=1)
    share_u = 1.0 if space.dimension == 2 else 0.5
    put(matrix, first, second, (bend * share_u)[:, None, None] * measured.conj())
    constant -= bend * (1.0 if space.dimension == 2 else 1.5)
    return matrix, constant
