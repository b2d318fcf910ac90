"""Terms below robust losses, with GTSAM's own error as the judge: never above it on the intervals, and touching it."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import gtsam
import numpy as np
import pytest

from gtsam_sdp.certification.robust import default_intervals
from gtsam_sdp.errors import InvalidGraphError, UnsupportedNoiseError
from gtsam_sdp.lift.build import build_terms
from gtsam_sdp.lift.robust import Intervals, robust_terms_of
from gtsam_sdp.linalg.array import Array
from gtsam_sdp.losses.losses import LOSSES, Loss
from gtsam_sdp.reading.graph import Reading, read, reread
from gtsam_sdp.terms.terms import Terms, convex
from tests.factors.cases import random_pose

ESTIMATORS: Any = gtsam.noiseModel.mEstimator
FAMILIES = ("BetweenFactorPose2", "BetweenFactorPose3", "PriorFactorPose2", "PriorFactorPose3")
NOISES = ("isotropic", "correlated")
FACTORS = 12
ROUNDING = 1e-10
"""Relative to the cost and the outcome of the term's numbers before they cancel."""

TOUCH = 1e-6
"""Share of the cost that a kept factor's term may be below it at the values."""


def estimator(name: str, constant: float) -> Any:
    return ESTIMATORS.Null.Create() if name == "Null" else getattr(ESTIMATORS, name).Create(constant)


def gaussian(kind: str, size: int, rng: np.random.Generator, *, small: bool = False) -> Any:
    """Isotropic noise, or a covariance with all correlations and a condition of up to 100."""
    sigma = 10 ** (rng.uniform(-2.5, -1.5) if small else rng.uniform(-2, -0.3))
    if kind == "isotropic":
        return gtsam.noiseModel.Isotropic.Sigma(size, sigma)
    basis, _ = np.linalg.qr(rng.normal(size=(size, size)))
    covariance = basis * sigma**2 * 10 ** rng.uniform(-1, 1, size) @ basis.T
    return gtsam.noiseModel.Gaussian.Covariance((covariance + covariance.T) / 2)


@dataclass(frozen=True)
class Batch:
    """Factors of one family with one loss, each on keys of its own."""

    graph: gtsam.NonlinearFactorGraph
    reading: Reading
    bases: list[Any]
    roots: Array
    loss: Loss
    keys: list[int]

    @classmethod
    def random(
        cls, name: str, family: str, noise: str, rng: np.random.Generator, count: int = FACTORS, *, small: bool = False
    ) -> Batch:
        """Residuals at the values from a tenth of the loss's threshold to three times of it."""
        d = int(family[-1])
        size, pose = d * (d + 1) // 2, gtsam.Pose2 if d == 2 else gtsam.Pose3
        robust = estimator(name, 10 ** rng.uniform(-0.3, 0.8))
        graph, values, bases, roots, keys = gtsam.NonlinearFactorGraph(), gtsam.Values(), [], [], []
        for k in range(count):
            inner = gaussian(noise, size, rng, small=small)
            model: Any = gtsam.noiseModel.Robust.Create(robust, inner)
            measured, first = random_pose(d, rng), pose()
            if family.startswith("Between"):
                first = random_pose(d, rng)
                values.insert(1000 + k, first)
                graph.add(getattr(gtsam, family)(1000 + k, k, measured, model))
            else:
                graph.add(getattr(gtsam, family)(k, measured, model))
            bases.append(first.compose(measured))
            roots.append(inner.R())
            values.insert(k, bases[-1])
            keys.append(k)
        batch = cls(graph, read_quietly(graph, values), bases, np.array(roots), loss_of_graph(graph, values), keys)
        lengths = batch.loss.threshold * 10 ** rng.uniform(-1, 0.5, count)
        start = batch.values(batch.residuals(lengths, rng))
        return replace(batch, reading=read_quietly(graph, start))

    def residuals(self, lengths: Array, rng: np.random.Generator) -> Array:
        """Random residuals with whitened lengths [sigmas], but with rotations of less than pi, (m, k)."""
        size = self.roots.shape[1]
        free = np.linalg.solve(self.roots, rng.normal(size=(len(lengths), size))[:, :, None])[:, :, 0]
        if rng.random() < 0.3:  # along one axis only
            free *= np.arange(size) == rng.integers(size)
        whitened = np.einsum("kij,kj->ki", self.roots, free)
        residual = free * (lengths / np.linalg.norm(whitened, axis=1))[:, None]
        turn = residual[:, 2:] if size == 3 else residual[:, :3]
        angle = np.linalg.norm(turn, axis=1)
        return residual * np.minimum(1, 3.1 / np.maximum(angle, 1e-300))[:, None]

    def values(self, residuals: Array) -> gtsam.Values:
        """Values at which the factors have these residuals, (m, k)."""
        values = gtsam.Values()
        pose: Any = type(self.bases[0])
        for key, base, residual in zip(self.keys, self.bases, residuals, strict=True):
            values.insert(key, base.compose(pose.Expmap(residual)))
        if self.graph.at(0).size() == 2:
            for key in self.keys:
                values.insert(1000 + key, self.reading_first(key))
        return values

    def reading_first(self, key: int) -> Any:
        """The first pose of a between factor, which stays where it is."""
        measured: Any = self.graph.at(key)
        return self.bases[key].compose(measured.measured().inverse())

    def at(self, values: gtsam.Values) -> Reading:
        return reread(self.reading, self.graph, values, at_any_values=True)


def read_quietly(graph: gtsam.NonlinearFactorGraph, values: gtsam.Values) -> Reading:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return read(graph, values, "raise")


def loss_of_graph(graph: gtsam.NonlinearFactorGraph, values: gtsam.Values) -> Loss:
    (group,) = read_quietly(graph, values).robust
    assert group.loss is not None
    return group.loss


def random_intervals(batch: Batch, rng: np.random.Generator) -> Intervals:
    """Those of a certificate, or others around the residuals: from 0 or near them, short or long, now and then without
    an end."""
    reading, count = batch.reading, len(batch.keys)
    if rng.random() < 0.5:
        found = default_intervals(reading, 10 ** rng.uniform(-0.5, 1), 1e-4)
        return replace(found, loosened=rng.choice([0.0, 0.5]))
    r0 = reading.lengths
    low = r0 * rng.choice([0.0, 0.5, 0.9, 1.0], count)
    high = r0 * (1 + 10 ** rng.uniform(-2, 1.5, count))
    high[rng.random(count) < 0.1] = np.inf
    return Intervals(low, high, rng.random(count) < 0.2, np.zeros(count, dtype=bool))


def by_factor(terms: list[Terms], reading: Reading) -> tuple[Array, Array]:
    """Value of each factor's terms and the size of what cancels in them, (m,) each."""
    value, size = np.zeros(len(reading.costs)), np.zeros(len(reading.costs))
    for term in terms:
        np.add.at(value, term.factor, term.value(reading.estimate, reading.layout.world))
        np.add.at(size, term.factor, term.size(reading.estimate, reading.layout.world))
    return value, size


def is_inside(batch: Batch, intervals: Intervals, reading: Reading) -> Array:
    """Where the residuals are in the intervals, but for rounding of them."""
    r = reading.lengths
    return (r >= intervals.low * (1 + 1e-12)) & (r <= intervals.high * (1 - 1e-12))


def margins(terms: list[Terms], reading: Reading) -> Array:
    """Cost less term, with what rounding may take, (m,)."""
    value, size = by_factor(terms, reading)
    return reading.costs - value + ROUNDING * reading.costs + 1e-13 * size + 1e-12


def check_sound(name: str, family: str, noise: str, seed: int, rounds: int) -> int:
    """How many random values inside the intervals were checked."""
    rng = np.random.default_rng(seed)
    batch = Batch.random(name, family, noise, rng)
    intervals = random_intervals(batch, rng)
    terms = robust_terms_of(batch.reading, intervals)
    high = np.where(np.isfinite(intervals.high), intervals.high, batch.reading.lengths + 30 * batch.loss.threshold)
    assert set(np.concatenate([term.factor for term in terms])) == set(range(len(batch.keys)))
    checked = 0
    for k in range(rounds):
        near_an_end = 10 ** rng.uniform(-4, 0, FACTORS)
        span = (rng.random(FACTORS), near_an_end, 1 - near_an_end)[k % 3]
        lengths = intervals.low + (high - intervals.low) * span
        reading = batch.reading if k == 0 else batch.at(batch.values(batch.residuals(lengths, rng)))
        inside = is_inside(batch, intervals, reading)
        assert (margins(terms, reading)[inside] >= 0).all()
        checked += int(inside.sum())
    return checked


cases = pytest.mark.parametrize("noise", NOISES)
families = pytest.mark.parametrize("family", FAMILIES)
losses = pytest.mark.parametrize("name", LOSSES)


@losses
@families
@cases
def test_terms_are_never_above_the_cost_inside(name: str, family: str, noise: str) -> None:
    checked = sum(check_sound(name, family, noise, seed, 20) for seed in range(2))
    assert checked > 0.5 * 2 * 20 * FACTORS


def search(batch: Batch, intervals: Intervals, rng: np.random.Generator, steps: int) -> Array:
    """What an adversary finds, a random descent of cost less term inside the intervals from four starts, (m,)."""
    terms = robust_terms_of(batch.reading, intervals)
    far = batch.reading.lengths + 10 * batch.loss.threshold
    ends = np.minimum(intervals.high, far)
    best, at, step = np.full(len(batch.keys), np.inf), np.zeros((len(batch.keys), batch.roots.shape[1])), 1.0
    whiten = np.linalg.inv(batch.roots)
    size, least = np.full(len(batch.keys), step), best.copy()
    for k in range(steps):
        if k % (steps // 4) == 0:  # another start
            best[:] = np.inf
            size[:] = 1.0
        if np.isinf(best).any():
            lengths = intervals.low + (ends - intervals.low) * rng.random(len(ends))
            tried = np.where(np.isinf(best)[:, None], batch.residuals(lengths, rng), at)
        else:
            moves = rng.normal(size=at.shape) * (size * batch.loss.threshold)[:, None]
            tried = at + np.einsum("kij,kj->ki", whiten, moves)
        reading = batch.at(batch.values(tried))
        inside = is_inside(batch, intervals, reading)
        margin = margins(terms, reading)
        least = np.where(inside, np.minimum(margin, least), least)
        better = inside & (margin < best)
        size = np.where(better, 1.5 * size, 0.85 * size)
        best, at = np.where(better, margin, best), np.where(better[:, None], tried, at)
    return least


@losses
@families
def test_a_search_for_violations_finds_none(name: str, family: str) -> None:
    rng = np.random.default_rng(100)
    batch = Batch.random(name, family, "correlated", rng)
    found = search(batch, random_intervals(batch, rng), rng, 60)
    assert np.isfinite(found).mean() > 0.5
    assert (found >= 0).all()


@losses
@families
@cases
def test_kept_factors_touch_in_value_and_slope(name: str, family: str, noise: str) -> None:
    """Small residuals that the loss counts in full or nearly: what is lost is of higher order."""
    rng = np.random.default_rng(7)
    batch = Batch.random(name, family, noise, rng, small=True)
    residuals = batch.residuals(0.3 * batch.loss.threshold * rng.random(FACTORS), rng)
    batch = replace(batch, reading=batch.at(batch.values(residuals)))
    ends = np.full(FACTORS, 0.42 * batch.loss.threshold)
    none = np.zeros(FACTORS, dtype=bool)
    terms = robust_terms_of(batch.reading, Intervals(np.zeros(FACTORS), ends, none, none))
    value, size = by_factor(terms, batch.reading)
    cost = batch.reading.costs
    lost = (cost - value) / np.maximum(cost, 1e-6)
    slack = TOUCH + 1e-12 * size / np.maximum(cost, 1e-6)
    assert (np.abs(lost) <= slack).all()
    # cost less term is flat there: of second order in a small step, and as large on both sides of it
    for _ in range(4):
        free = np.linalg.solve(batch.roots, rng.normal(size=residuals.shape)[:, :, None])[:, :, 0]
        left, right = (
            (reading.costs - by_factor(terms, reading)[0])
            for reading in (batch.at(batch.values(residuals + sign * 1e-3 * free)) for sign in (-1, 1))
        )
        slope = (right - left) / 2e-3
        scale = np.maximum(batch.reading.lengths, 0.1)
        assert (np.abs(slope) <= 30 * np.sqrt(TOUCH) * scale + 1e-9 * size).all()


@losses
def test_outliers_are_the_constant_that_the_loss_is_not_below(name: str) -> None:
    rng = np.random.default_rng(3)
    batch = Batch.random(name, "BetweenFactorPose2", "isotropic", rng)
    r0 = batch.reading.lengths
    low = r0 * rng.uniform(0, 1, FACTORS)
    all_of_them = np.ones(FACTORS, dtype=bool)
    terms = robust_terms_of(batch.reading, Intervals(low, np.full(FACTORS, np.inf), all_of_them, ~all_of_them))
    assert all(convex(term, 1) is term for term in terms)
    expected = [estimator(name, batch.loss.constant).loss(float(r)) for r in low]
    for reading in (batch.reading, batch.at(batch.values(batch.residuals(r0 + 1, rng)))):
        value, _ = by_factor(terms, reading)
        assert value == pytest.approx(expected, rel=1e-9)
        assert (value <= reading.costs + 1e-12).all()


@losses
def test_a_loss_of_each_number_is_refused(name: str) -> None:
    """GTSAM sums such a loss over the residual's numbers, which is more or less than the loss of the length."""
    create = getattr(ESTIMATORS, name).Create
    values = gtsam.Values()
    values.insert(0, gtsam.Pose2(0.1, 0.2, 0.05))
    for scheme in ("Block", "Scalar"):
        how = getattr(ESTIMATORS.Base.ReweightScheme, scheme)
        model = create() if name == "Null" else create(1.7, how)
        graph = gtsam.NonlinearFactorGraph()
        noise = gtsam.noiseModel.Robust.Create(model, gtsam.noiseModel.Isotropic.Sigma(3, 0.1))
        graph.add(gtsam.PriorFactorPose2(0, gtsam.Pose2(), noise))
        if scheme == "Scalar" and name != "Null":
            reason = rf"the robust loss {name} is one of each number .*Scalar.*factor 0 on 0"
            with pytest.raises(UnsupportedNoiseError, match=reason):
                read(graph, values, "raise")
            continue
        reading = read(graph, values, "raise")
        (group,) = reading.robust
        assert group.loss is not None
        assert group.loss.constant == (1.0 if name == "Null" else 1.7)
        assert reading.costs == pytest.approx(group.loss.value(reading.lengths), rel=1e-12)


def test_terms_without_intervals_are_refused() -> None:
    rng = np.random.default_rng(0)
    batch = Batch.random("Huber", "BetweenFactorPose3", "isotropic", rng)
    with pytest.raises(InvalidGraphError, match=r"factor 0 \(BetweenFactorPose3 on 1000, 0\) has a robust loss"):
        build_terms(batch.reading)


@pytest.mark.benchmark
@losses
@families
@cases
def test_a_million_values_of_each_loss(name: str, family: str, noise: str) -> None:
    checked, seed = 0, 1000
    while checked < 1_000_000 / (len(FAMILIES) * len(NOISES)):
        checked += check_sound(name, family, noise, seed, 100)
        seed += 1
