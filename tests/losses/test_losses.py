"""Losses against GTSAM's own, and parabolas below them."""

from __future__ import annotations

from typing import Any

import gtsam
import numpy as np
import pytest

from gtsam_sdp.losses.losses import LOSSES, Loss, loss_of
from gtsam_sdp.losses.minorant import curvature, widest

ESTIMATORS: Any = gtsam.noiseModel.mEstimator
NAMES = [name for name in LOSSES if name != "Null"]


def made(name: str, constant: float) -> tuple[Any, Loss]:
    model = getattr(ESTIMATORS, name).Create(constant)
    loss = loss_of(model)
    assert isinstance(loss, Loss)
    return model, loss


@pytest.mark.parametrize("name", NAMES)
def test_losses_are_those_of_gtsam(name: str) -> None:
    rng = np.random.default_rng(0)
    for constant in (1 / 3, 1.0, 2.385, 40.0):
        model, loss = made(name, constant)
        assert loss.constant == constant
        r = np.concatenate([[0.0, loss.threshold], loss.threshold * 10 ** rng.uniform(-3, 3, 300)])
        theirs = np.array([model.loss(float(x)) for x in r])
        assert loss.value(r) == pytest.approx(theirs, rel=1e-10, abs=1e-300)
        inner = r[np.abs(r - loss.threshold) > 1e-9]
        # GTSAM has the weight of DCS and of the others as rho' / r
        weights = np.array([model.weight(float(x)) for x in inner])
        assert loss.weight(inner) == pytest.approx(weights, rel=1e-9, abs=1e-15)
        assert (loss.value(r) <= loss.limit).all()


@pytest.mark.parametrize("name", LOSSES)
def test_derivatives_and_the_turn(name: str) -> None:
    """rho'' falls up to the turn and rises from there on."""
    loss = LOSSES[name](1.7)
    r = np.linspace(1e-3, 12, 4001)
    h = r[1] - r[0]
    smooth = np.abs(r - loss.threshold) > 2 * h
    slope = (loss.value(r + 1e-6) - loss.value(r - 1e-6)) / 2e-6
    assert slope[smooth] == pytest.approx((loss.weight(r) * r)[smooth], abs=1e-6)
    step = 1e-4
    bend = (loss.value(r + step) - 2 * loss.value(r) + loss.value(r - step)) / step**2
    assert bend[smooth] == pytest.approx(loss.bend(r)[smooth], abs=1e-4)
    change = np.diff(loss.bend(r))
    assert (change[r[1:] < loss.turn] <= 1e-12).all()
    assert (change[r[:-1] > loss.turn] >= -1e-12).all()


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("seed", range(10))
def test_parabolas_are_below_the_loss_and_tight(name: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    loss = LOSSES[name](10 ** rng.uniform(-1, 1))
    r0 = loss.threshold * 10 ** rng.uniform(-2, 1, 300)
    low = r0 * rng.choice([0.0, 0.5, 0.99], 300)
    high = r0 * (1 + 10 ** rng.uniform(-3, 2, 300))
    mu = curvature(loss, r0, low, high)
    weight = loss.weight(r0)
    r = low[:, None] + (high - low)[:, None] * np.linspace(0, 1, 20_001)
    r = np.concatenate([r, np.clip([[loss.threshold, loss.turn]], low[:, None], high[:, None])], axis=1)
    line = loss.value(r0)[:, None] + (weight * r0)[:, None] * (r - r0[:, None])
    excess = loss.value(r) - line - mu[:, None] / 2 * (r - r0[:, None]) ** 2
    assert (excess >= -1e-12 * loss.value(r)).all()
    with np.errstate(invalid="ignore", divide="ignore"):
        least = 2 * (loss.value(r) - line) / (r - r0[:, None]) ** 2
    least = np.where(np.abs(r / r0[:, None] - 1) > 1e-3, least, np.inf).min(axis=1)
    found = np.minimum(least, np.minimum(weight, np.where(np.isfinite(loss.bend(r0)), loss.bend(r0), np.inf)))
    assert (mu <= weight).all()
    steep = np.abs(high / r0 - 1) > 0.01
    if name not in ("TruncatedLeastSquares", "DCS"):
        assert mu[steep] == pytest.approx(np.minimum(found, weight)[steep], abs=0.02)


@pytest.mark.parametrize("name", ["Huber", "Fair"])
def test_convex_losses_have_a_parabola_on_every_interval(name: str) -> None:
    loss = LOSSES[name](1.345)
    r0 = np.array([0.0, 0.5, 1.345, 3.0, 50.0])
    assert (curvature(loss, r0, 0 * r0, 0 * r0 + 1e4) >= 0).all()
    assert (curvature(loss, r0, 0 * r0, 0 * r0 + np.inf) == 0).all()
    assert (widest(loss, r0, 0 * r0 + np.inf, 0.0) == np.inf).all()


@pytest.mark.parametrize("name", LOSSES)
def test_widest_intervals(name: str) -> None:
    loss = LOSSES[name](2.0)
    r0 = np.array([0.1, 0.5, 0.9, 1.2, 1.9, 2.5, 8.0])
    high = np.full(7, 20.0)
    for share in (0.0, 0.3):
        found = widest(loss, r0, high, share)
        inside = found > 0
        assert (found <= high).all()
        assert (found[inside] >= r0[inside]).all()
        assert (curvature(loss, r0, 0 * r0, found) >= share * loss.weight(r0))[inside].all()
        more = inside & (found < high)
        farther = curvature(loss, r0, 0 * r0, 1.01 * found)
        assert (farther[more] < share * loss.weight(r0)[more] + 1e-6).all()


def test_unknown_losses_say_why() -> None:
    custom = ESTIMATORS.Custom.Create(lambda r: 1.0, lambda r: r * r / 2)
    assert "Custom" in str(loss_of(custom))
    assert "must be a positive number" in str(loss_of(ESTIMATORS.DCS.Create(-1.0)))
