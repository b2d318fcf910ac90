"""Terms that touch: never above the cost where a better solution can be, with its value and gradient at the values."""

from __future__ import annotations

from dataclasses import replace

import gtsam
import numpy as np
import pytest

from gtsam_sdp.factors.geometry import transform
from gtsam_sdp.factors.pose_form import pose_form
from gtsam_sdp.factors.rotation_form import LocalForm
from gtsam_sdp.factors.touching import Nearness
from gtsam_sdp.terms.terms import Exactness
from tests.factors.log_map import COVARIANCES, Batch

SAMPLES = 400
"""Random values of each factor; the slow test has 5,000 of 100 factors, a million for each kind and dimension."""


def form_of(batch: Batch, max_cost: float, gaps: tuple[float, ...] = (), share: np.ndarray | float = 1.0) -> LocalForm:
    relative, e = batch.relative(batch.r[:, None, :])
    return pose_form(batch.information, batch.measured, batch.offset, relative, e, max_cost, batch.space, gaps, share)


def check_sound(d: int, kind: str, seed: int, factors: int, samples: int) -> tuple[float, float]:
    """Terms of the first pass and of two tightenings; the share of factors that touch and the closest approach."""
    rng = np.random.default_rng(seed)
    batch = Batch.random(d, [kind] * factors, rng)
    max_cost = float(np.quantile(batch.cost(batch.r[:, None, :]), 0.9)) + 10 ** rng.uniform(0, 2)
    r = batch.samples(samples, max_cost, rng)
    cost = batch.cost(r)
    inside = cost <= max_cost
    assert 0.1 < inside.mean() < 0.95  # values inside and outside: outside the cost itself exceeds that of the estimate
    gap = max_cost * 10 ** rng.uniform(-4, -0.5)
    gaps = (gap, gap * 10 ** rng.uniform(-2, -0.2))
    touching, least = 0.0, np.inf
    for used in range(3):
        form = form_of(batch, max_cost, gaps[:used])
        value, size = batch.value(form, r)
        allowed = 1e-9 * cost + 1e-13 * size + 1e-12
        assert (value <= cost + allowed)[inside].all()
        at_estimate, _ = batch.value(form, batch.r[:, None, :])
        lost = 1 - at_estimate[:, 0] / batch.cost(batch.r[:, None, :])[:, 0]
        touching = max(touching, float(np.mean(lost < 1e-7)))
        least = min(least, float((cost - value)[inside].min()))
        if used < 2:
            # the values themselves are within the gap: what terms without a tangent rely on
            within = batch.cost(batch.r[:, None, :])[:, 0] - at_estimate[:, 0] <= gaps[used]
            within |= form.exactness == int(Exactness.TANGENT)
            inside &= (cost - value <= gaps[used]) & within[:, None]
    return touching, least


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("kind", COVARIANCES)
@pytest.mark.parametrize("seed", range(6))
def test_sound_in_the_region(d: int, kind: str, seed: int) -> None:
    check_sound(d, kind, seed, 20, SAMPLES)


@pytest.mark.parametrize("kind", COVARIANCES)
@pytest.mark.parametrize("seed", range(3))
def test_sound_with_less_curvature_on_stiff_axes(kind: str, seed: int) -> None:
    """Some axes are stiff, and a part of the information keeps its curvature: no term is above the whole cost."""
    rng = np.random.default_rng(seed)
    batch = Batch.random(3, [kind] * 20, rng)
    stiff = np.where(rng.random((20, 6)) < 0.5, 1.0, 10.0 ** rng.uniform(1, 3, (20, 6)))
    information = batch.information * stiff[:, :, None] * stiff[:, None, :]
    softer = information * 10.0 ** -rng.uniform(0, 4, (20, 1, 1))
    batch = replace(batch, information=information, r=batch.r / stiff)
    max_cost = float(np.quantile(batch.cost(batch.r[:, None, :]), 0.9)) + 10 ** rng.uniform(0, 2)
    r = batch.samples(SAMPLES, max_cost, rng)
    cost = batch.cost(r)
    inside = cost <= max_cost
    relative, e = batch.relative(batch.r[:, None, :])
    for kept in (softer, 0.1 * information):
        form = pose_form(information, batch.measured, batch.offset, relative, e, max_cost, batch.space, kept=kept)
        value, size = batch.value(form, r)
        allowed = 1e-9 * cost + 1e-13 * size + 1e-12
        assert (value <= cost + allowed)[inside].all()


@pytest.mark.parametrize("seed", range(3))
def test_what_keeps_less_curvature_still_touches(seed: int) -> None:
    rng = np.random.default_rng(seed)
    batch = Batch.random(3, ["diagonal", "turned"] * 20, rng)
    at = batch.r[:, None, :]
    cost = batch.cost(at)[:, 0]
    relative, e = batch.relative(at)
    form = pose_form(
        batch.information, batch.measured, batch.offset, relative, e, float(np.quantile(cost, 0.9)) + 3, batch.space,
        kept=0.1 * batch.information,
    )  # fmt: skip
    value, _ = batch.value(form, at)
    assert np.mean(np.abs(value[:, 0] - cost) < 1e-6 * cost) > 0.5


@pytest.mark.parametrize("d", [2, 3])
def test_the_own_log_map_is_that_of_gtsam(d: int) -> None:
    rng = np.random.default_rng(0)
    batch = Batch.random(d, [kind for kind in COVARIANCES for _ in range(30)], rng)
    r = batch.samples(20, 30.0, rng)
    cost = batch.cost(r)
    E, e = batch.relative(r)
    rotation = np.repeat(batch.measured, 20, axis=0) @ E
    point = np.repeat(batch.offset, 20, axis=0) + transform(np.repeat(batch.measured, 20, axis=0), e)
    own, theirs = [], []
    for k in range(len(rotation)):
        factor = k // 20
        information = batch.information[factor]
        if d == 2:
            order = [1, 2, 0]
            model = gtsam.noiseModel.Gaussian.Information(information[np.ix_(order, order)])
            offset = batch.offset[factor, 0]
            measured = gtsam.Pose2(offset.real, offset.imag, float(np.angle(batch.measured[factor, 0, 0])))
            other = gtsam.Pose2(point[k, 0].real, point[k, 0].imag, float(np.angle(rotation[k, 0, 0])))
            error = gtsam.BetweenFactorPose2(0, 1, measured, model).error
            start = gtsam.Pose2()
        else:
            model = gtsam.noiseModel.Gaussian.Information(information)
            measured = gtsam.Pose3(gtsam.Rot3(batch.measured[factor]), batch.offset[factor])
            other = gtsam.Pose3(gtsam.Rot3(rotation[k]), point[k])
            error = gtsam.BetweenFactorPose3(0, 1, measured, model).error
            start = gtsam.Pose3()
        values = gtsam.Values()
        values.insert(0, start)
        values.insert(1, other)
        own.append(cost.ravel()[k])
        theirs.append(error(values))
    turn = np.linalg.norm(r.reshape(-1, r.shape[-1])[:, : batch.angles], axis=1)
    good = (turn < 3.1) & (turn > 1e-4)  # GTSAM's own log map is inaccurate near pi, and near 0 in the plane
    assert good.sum() > 2000
    assert np.allclose(np.array(own)[good], np.array(theirs)[good], rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("seed", range(5))
def test_value_and_gradient_are_those_of_the_cost(d: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    batch = Batch.random(d, [kind for kind in COVARIANCES for _ in range(5)], rng)
    near = Nearness.below_cost(
        batch.information, batch.information, batch.r, np.full(len(batch.r), 25.0), np.ones(len(batch.r)), batch.space
    )
    found = near.touching(np.ones(len(batch.r), dtype=bool))
    touch = found.at[found.terms.applies]
    assert len(touch) > 10
    form = found.replace(form_of(batch, 25.0), batch.measured, batch.offset, batch.space)
    scale = 1 / np.sqrt(np.einsum("kii->ki", batch.information))
    value, size = batch.value(form, batch.r[:, None, :])
    cost = batch.cost(batch.r[:, None, :])
    assert (np.abs(cost - value) <= 1e-11 * size)[touch].all()
    for i in range(batch.r.shape[1]):
        step = np.zeros_like(batch.r)
        step[:, i] = 1e-4 * scale[:, i]
        ends = np.stack([batch.r + step, batch.r - step], axis=1)
        excess = batch.cost(ends) - batch.value(form, ends)[0]
        slope = (excess[:, 0] - excess[:, 1]) / 2e-4
        assert (np.abs(slope) <= 1e-6 + 1e-11 * size[:, 0] / 1e-4)[touch].all()


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("kind", COVARIANCES)
def test_the_excess_and_the_region_are_as_claimed(d: int, kind: str) -> None:
    """Cost less term is at least 1/2 z^T A z, and points below cost and gap are in the smaller region."""
    rng = np.random.default_rng(1)
    batch = Batch.random(d, [kind] * 40, rng)
    max_cost = float(batch.cost(batch.r[:, None, :]).max()) + 3
    near = Nearness.below_cost(
        batch.information,
        batch.information,
        batch.r,
        np.full(len(batch.r), max_cost),
        np.ones(len(batch.r)),
        batch.space,
    )
    found = near.touching(np.ones(len(batch.r), dtype=bool))
    form = found.replace(form_of(batch, max_cost), batch.measured, batch.offset, batch.space)
    good = found.terms.applies
    touch = found.at[good]
    r = batch.samples(SAMPLES, max_cost, rng)
    cost = batch.cost(r)
    value, size = batch.value(form, r)
    inside = cost <= max_cost
    move = (r - batch.r[:, None, :])[touch]
    z = np.linalg.solve(near.region.root[touch][:, None], move[..., None])[..., 0]
    assert (np.linalg.norm(z, axis=2) <= 1)[inside[touch]].all()
    least = np.einsum("kni,kij,knj->kn", z, found.terms.excess[good], z) / 2
    excess = (cost - value)[touch] + 1e-12 + 1e-13 * size[touch] + 1e-9 * cost[touch]
    assert (excess >= least)[inside[touch]].all()
    gap = max_cost / 20
    smaller = near.within(found, gap, np.full(len(batch.r), np.pi), np.zeros_like(batch.information))
    z = np.linalg.solve(smaller.region.root[touch][:, None], move[..., None])[..., 0]
    assert (np.linalg.norm(z, axis=2) <= 1)[(inside & (cost - value <= gap))[touch]].all()
    angles = np.linalg.norm(r[touch][:, :, : batch.angles], axis=2)
    assert (angles <= smaller.theta[touch][:, None])[(inside & (cost - value <= gap))[touch]].all()


@pytest.mark.benchmark
@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("kind", COVARIANCES)
def test_sound_at_a_million_values(d: int, kind: str) -> None:
    shares = [check_sound(d, kind, 100 + seed, 50, 1000)[0] for seed in range(20)]
    assert np.mean(shares) > 0.2 or kind == "stiff"


def test_terms_of_an_own_estimate_touch_where_the_first_bound_is_good() -> None:
    """Of 45 poses' factors of one sigma nearly all touch at a cost as that of a graph, all after a tightening."""
    rng = np.random.default_rng(2)
    batch = Batch.random(3, ["mild"] * 45, rng)
    max_cost = 50.0
    cost = batch.cost(batch.r[:, None, :])[:, 0]
    for gaps, share in (((), 0.5), ((0.5, 0.05), 0.7)):
        value = batch.value(form_of(batch, max_cost, gaps), batch.r[:, None, :])[0][:, 0]
        assert np.mean(cost - value <= 1e-9 * max_cost) >= share


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("seed", range(3))
def test_terms_without_a_tangent_are_tightened_too(d: int, seed: int) -> None:
    """Their part of L that is left out limits where better values are: soundly, and some lose less."""
    rng = np.random.default_rng(seed)
    batch = Batch.random(d, ["stiff"] * 800, rng)
    max_cost = float(np.quantile(batch.cost(batch.r[:, None, :]), 0.9)) + 10
    form = form_of(batch, max_cost)
    at_estimate = batch.cost(batch.r[:, None, :])
    lost = (at_estimate - batch.value(form, batch.r[:, None, :])[0])[:, 0]
    gap = 0.3
    at = np.flatnonzero((form.exactness == int(Exactness.LOWER_BOUND)) & (lost <= gap) & (lost > 1e-3))
    assert len(at)
    first = lost
    r = batch.samples(SAMPLES, max_cost, rng)
    cost, value = batch.cost(r), batch.value(form, r)[0]
    inside = (cost <= max_cost) & (cost - value <= gap)
    gaps = (gap,)
    for _ in range(2):
        form = form_of(batch, max_cost, gaps)
        value, size = batch.value(form, r)
        assert (value <= cost + 1e-9 * cost + 1e-13 * size + 1e-12)[at][inside[at]].all()
        inside &= cost - value <= gap / 2
        lost = (at_estimate - batch.value(form, batch.r[:, None, :])[0])[:, 0]
        at = at[lost[at] <= gap / 2]
        gaps = (gap, gap / 2)
    assert (lost[at] < 0.9 * first[at]).any()


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("kind", COVARIANCES)
@pytest.mark.parametrize("share", [0.9, 0.3, 0.05, 0.0, -0.05, -0.3])
def test_a_share_of_the_curvature(d: int, kind: str, share: float) -> None:
    """Terms of robust losses: a share of the cost, also a negative one, and the rest of it by its tangent."""
    rng = np.random.default_rng(3)
    batch = Batch.random(d, [kind] * 40, rng)
    max_cost = float(batch.cost(batch.r[:, None, :]).max()) + 3
    shares = np.full(len(batch.r), share)
    form = form_of(batch, max_cost, share=shares)
    claimed = form.exactness == int(Exactness.TANGENT)  # the others are terms of the whole cost only
    r = np.concatenate([batch.samples(SAMPLES, max_cost, rng), batch.r[:, None, :]], axis=1)
    inside = batch.cost(r) <= max_cost
    slope = np.einsum("kij,kj->ki", batch.information, batch.r)
    tangent = np.einsum("kni,ki->kn", r, slope) - np.einsum("ki,ki->k", slope, batch.r)[:, None] / 2
    target = share * batch.cost(r) + (1 - share) * tangent
    value, size = batch.value(form, r)
    assert (value <= target + 1e-11 * size)[inside & claimed[:, None]].all()
    assert (np.abs(value - target)[claimed, -1] <= 1e-9 * size[claimed, -1]).mean() > 0.5  # the last one is r^
