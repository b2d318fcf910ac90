"""Certificates of graphs with robust losses: what they say is true of every better solution that can be found."""

from __future__ import annotations

import json
import math
from functools import lru_cache
from typing import Any

import gtsam
import numpy as np
import pytest
from scipy.optimize import minimize

from gtsam_sdp import Certificate, UnsupportedFactorError, UnsupportedNoiseError, certify
from gtsam_sdp.certification.robust import default_intervals
from gtsam_sdp.keys import KeyLists
from gtsam_sdp.lift.problem import Problem
from gtsam_sdp.reading.graph import read
from gtsam_sdp.results.region import RobustRegion
from tests import problems

ESTIMATORS: Any = gtsam.noiseModel.mEstimator
SIGMAS = (0.02, 0.05)
CONSTANTS = {
    "Huber": 1.345, "Fair": 1.4, "L2WithDeadZone": 0.5, "Cauchy": 2.385, "AsymmetricCauchy": 2.385, "GemanMcClure": 5.0,
    "Tukey": 4.685, "AsymmetricTukey": 4.685, "Welsch": 3.0, "DCS": 5.0, "TruncatedLeastSquares": 4.0,
}  # fmt: skip
CONVEX = ("Huber", "Fair", "L2WithDeadZone")

losses = pytest.mark.parametrize("name", CONSTANTS)
dimensions = pytest.mark.parametrize("d", [2, 3])


def made(name: str) -> Any:
    return getattr(ESTIMATORS, name).Create(CONSTANTS[name])


def robust_graph(
    d: int, loss: Any, seed: int, false: int = 0, loops: int = 6, count: int = 10, *, together: bool = False
) -> tuple[gtsam.NonlinearFactorGraph, gtsam.Values]:
    """A ring with robust loop closures, the first ones false: each by itself, or all moved alike."""
    graph, truth = problems.ring(d, count, *SIGMAS, seed=seed)
    rng = np.random.default_rng(seed)
    inner = problems.noise_model(d, *SIGMAS)
    model = gtsam.noiseModel.Robust.Create(loss, inner)
    pose: Any = gtsam.Pose2 if d == 2 else gtsam.Pose3
    at: Any = truth.atPose2 if d == 2 else truth.atPose3
    between: Any = gtsam.BetweenFactorPose2 if d == 2 else gtsam.BetweenFactorPose3
    wrong = pose.Expmap(rng.normal(size=inner.dim()))
    for k in range(loops):
        i = k % 2 if together else int(rng.integers(count))
        j = (i + count // 2) % count if together else (i + int(rng.integers(2, count - 2))) % count
        measured = at(i).between(at(j)).retract(rng.normal(size=inner.dim()) * inner.sigmas())
        if k < false:
            measured = measured.compose(wrong if together else pose.Expmap(rng.normal(size=inner.dim())))
        graph.add(between(i, j, measured, model))
    return graph, truth


def lengths(graph: gtsam.NonlinearFactorGraph, region: RobustRegion, values: gtsam.Values) -> np.ndarray:
    """Whitened residuals of the robust factors [sigmas], as GTSAM has them."""
    found = []
    for index in region.index.tolist():
        factor: Any = graph.at(index)
        found.append(np.linalg.norm(factor.noiseModel().noise().whiten(factor.unwhitenedError(values))))
    return np.array(found)


def is_in_region(graph: gtsam.NonlinearFactorGraph, region: RobustRegion, values: gtsam.Values) -> bool:
    r = lengths(graph, region, values)
    inside = (r >= region.low * (1 + 1e-9)) & (r <= region.high * (1 - 1e-9))
    return region.is_unconditional or bool(inside.all())


def changed(graph: gtsam.NonlinearFactorGraph, region: RobustRegion, values: gtsam.Values) -> int:
    """How many kept factors left their intervals."""
    return int((lengths(graph, region, values) > region.high)[region.low == 0].sum())


def starts(
    graph: gtsam.NonlinearFactorGraph, truth: gtsam.Values, rng: np.random.Generator, count: int
) -> list[gtsam.Values]:
    """The truth, random values, and optima of the graph with some robust factors believed and the others left out."""
    found = [truth, *(problems.random_start(truth, rng) for _ in range(count))]
    for _ in range(count):
        some = gtsam.NonlinearFactorGraph()
        for k in range(graph.size()):
            factor: Any = graph.at(k)
            if isinstance(factor.noiseModel(), gtsam.noiseModel.Robust):
                if rng.random() < 0.5:
                    some.add(factor.cloneWithNewNoiseModel(factor.noiseModel().noise()))
            else:
                some.add(factor)
        found.append(problems.optimize(some, truth))
    return found


def check_claims(graph: gtsam.NonlinearFactorGraph, certificate: Certificate, others: list[gtsam.Values]) -> int:
    """Every better solution leaves the region; how many there are."""
    region, better = certificate.region, 0
    assert region is not None
    for values in others:
        cost = graph.error(values)
        if cost < certificate.lower_bound * (1 - 1e-9):
            assert not is_in_region(graph, region, values)
            assert changed(graph, region, values) <= region.most_violations
            better += 1
    return better


@lru_cache(maxsize=64)
def minima(d: int, name: str, seed: int, false: int, together: bool) -> tuple[Any, list[gtsam.Values]]:
    graph, truth = robust_graph(d, made(name), seed, false, together=together)
    rng = np.random.default_rng(seed + 50)
    return graph, [problems.optimize(graph, start, 1e-9) for start in starts(graph, truth, rng, 3)]


@losses
@dimensions
@pytest.mark.parametrize("together", [False, True])
def test_better_solutions_leave_the_region(name: str, d: int, together: bool) -> None:
    """Graphs with several minima: each of them is certified, and the others are what better solutions are."""
    graph, found = minima(d, name, 0, 3, together)
    for values in (found[0], found[2], found[-1]):
        check_claims(graph, certify(graph, values, method="multipliers"), found)


@pytest.mark.parametrize("name", ["TruncatedLeastSquares", "GemanMcClure", "DCS", "Welsch", "Tukey"])
@dimensions
def test_a_wrong_sorting_is_certified_with_its_condition_only(name: str, d: int) -> None:
    """Two robust priors at one place, three at another: where the two are believed, the three are outliers."""
    graph, truth = problems.ring(d, 8, *SIGMAS, seed=3)
    pose: Any = gtsam.Pose2 if d == 2 else gtsam.Pose3
    prior: Any = gtsam.PriorFactorPose2 if d == 2 else gtsam.PriorFactorPose3
    model = gtsam.noiseModel.Robust.Create(made(name), problems.noise_model(d, *SIGMAS))
    shift = pose.Expmap(np.r_[np.zeros(d * (d - 1) // 2), np.full(d, 30.0)] if d == 3 else np.array([30.0, 30.0, 0.0]))
    at: Any = truth.atPose2 if d == 2 else truth.atPose3
    for k in range(5):
        graph.add(prior(0, at(0) if k < 2 else shift.compose(at(0)), model))
    moved = problems.to_values((key, shift.compose(at(key))) for key in truth.keys())
    wrong, right = problems.optimize(graph, truth), problems.optimize(graph, moved)
    assert graph.error(right) < 0.9 * graph.error(wrong)
    certificate = certify(graph, wrong)
    region = certificate.region
    assert region is not None
    assert region.index[region.is_outlier].tolist() == [10, 11, 12]
    assert certificate.relative_gap <= certificate.tolerance
    assert check_claims(graph, certificate, [right]) == 1
    assert "believes one of the 3 that are outliers now" in str(certificate)
    better = certify(graph, right)
    assert better.region is not None
    assert better.region.index[better.region.is_outlier].tolist() == [8, 9]
    assert check_claims(graph, better, [wrong, truth]) == 0


@losses
@dimensions
def test_no_search_inside_the_region_finds_a_violation(name: str, d: int) -> None:
    """An adversary minimises GTSAM's error with a penalty for leaving the region."""
    graph, truth = robust_graph(d, made(name), 1, 1, loops=3, count=5)
    values = problems.optimize(graph, truth)
    certificate = certify(graph, values, method="multipliers")
    region = certificate.region
    assert region is not None
    rng = np.random.default_rng(0)
    size = 3 if d == 2 else 6
    high = np.minimum(region.high, 1e9)

    def moved(x: np.ndarray) -> gtsam.Values:
        delta = gtsam.VectorValues()
        for k, key in enumerate(values.keys()):
            delta.insert(key, x[size * k : size * (k + 1)])
        return values.retract(delta)

    def objective(x: np.ndarray) -> float:
        other = moved(x)
        r = lengths(graph, region, other)
        outside = np.maximum(r - high, 0) + np.maximum(region.low - r, 0)
        return graph.error(other) + (0.0 if region.is_unconditional else 100 * float(np.sum(outside)))

    for scale in (0.01, 0.1, 1.0):
        start = scale * rng.normal(size=size * len(truth.keys()))
        found = minimize(objective, start, method="L-BFGS-B", options={"maxiter": 30}).x
        for share in (1.0, 0.9, 0.5):  # the way back to the values too
            other = moved(share * found)
            if is_in_region(graph, region, other):
                assert graph.error(other) >= certificate.lower_bound * (1 - 1e-9)


@pytest.mark.parametrize("name", CONVEX)
@dimensions
def test_convex_losses_hold_without_a_condition(name: str, d: int) -> None:
    """No values below the bound, wherever they are; also not from values that are no optimum."""
    unconditional = 0
    for seed in range(4):
        graph, truth = robust_graph(d, made(name), seed)
        rng = np.random.default_rng(seed)
        best = problems.optimize(graph, truth)
        others = [problems.optimize(graph, start, 1e-6) for start in starts(graph, truth, rng, 3)]
        for values in (best, truth):
            certificate = certify(graph, values, method="multipliers")
            region = certificate.region
            assert region is not None
            if region.is_unconditional:
                unconditional += 1
                assert region.radius == math.inf
                assert region.is_trusted
                assert region.most_violations == 0
                assert all(graph.error(other) >= certificate.lower_bound * (1 - 1e-9) for other in [*others, best])
                assert "unless" not in str(certificate)
                assert "no condition" in str(certificate)
            check_claims(graph, certificate, others)
    if name != "Huber":
        assert unconditional >= 2


def clear_graph(name: str) -> tuple[gtsam.NonlinearFactorGraph, gtsam.Values]:
    """A graph without outliers whose optimum fits all of it well, and the optimum."""
    for seed in range(100):
        graph, truth = robust_graph(2, made(name), seed)
        values = problems.optimize(graph, truth)
        region = certify(graph, values, method="multipliers").region
        assert region is not None
        if region.residual.max() < 0.5 * region.threshold[0]:
            return graph, values
    raise AssertionError("no seed makes such a graph")


@pytest.mark.parametrize("name", ["Cauchy", "GemanMcClure", "DCS", "TruncatedLeastSquares"])
def test_what_a_certificate_says(name: str) -> None:
    graph, values = clear_graph(name)
    certificate = certify(graph, values)
    region = certificate.region
    assert region is not None
    assert certificate
    assert certificate.cost == graph.error(values)
    assert region.is_trusted
    assert region.radius >= region.threshold.min()
    text = str(certificate)
    assert text.startswith(f"CERTIFIED up to {region.radius:.3g} sigmas: no solution is better by more than")
    assert "unless it throws out one of the 6 robust factors that are kept now" in text
    assert "proven for all values" not in text
    told = json.loads(certificate.to_json())["region"]
    assert told == region.to_dict()
    assert told["robust_factors"] == 6
    assert told["kept"] + len(told["outliers"]) + len(told["doubtful"]) == 6
    assert told["unconditional"] is False
    assert told["radius"] == pytest.approx(region.radius)
    assert told["most_violations"] == region.most_violations


def test_outliers_are_named() -> None:
    graph, truth = robust_graph(2, made("TruncatedLeastSquares"), 1, false=2)
    certificate = certify(graph, problems.optimize(graph, truth))
    told = certificate.to_dict()["region"]
    assert [entry["index"] for entry in told["outliers"]] == [10, 11]
    for entry in told["outliers"]:
        assert entry["keys"] == list(graph.at(entry["index"]).keys())
        assert entry["names"] == [str(key) for key in entry["keys"]]
        assert 0 < entry["from"] <= entry["residual"]
        assert entry["to"] is None
    assert "or believes one of the 2 that are outliers now" in str(certificate)
    assert "4 kept, 2 outliers" in str(certificate)


def test_a_region_that_is_asked_for() -> None:
    graph, values = clear_graph("Cauchy")
    largest = certify(graph, values)
    small = certify(graph, values, region=1.5)
    assert largest.region is not None
    assert small.region is not None
    assert largest.region.radius >= small.region.radius
    assert small.region.radius == pytest.approx(1.5)
    assert small.relative_gap <= small.tolerance
    assert not small.region.is_trusted
    assert not small  # below the threshold of the loss nothing is promised
    rng = np.random.default_rng(0)
    check_claims(graph, small, [problems.optimize(graph, start) for start in starts(graph, values, rng, 3)])


@dimensions
def test_a_factor_that_was_read_by_probing_beside_robust_ones(d: int) -> None:
    """Terms moved to another region are those made there, in the same order: tightening compares them."""
    graph, truth = robust_graph(d, made("Cauchy"), 0)
    pose: Any = gtsam.Pose2 if d == 2 else gtsam.Pose3

    def error(this: Any, at: gtsam.Values, jacobians: Any) -> np.ndarray:
        ends: list[Any] = [(at.atPose2 if d == 2 else at.atPose3)(key) for key in this.keys()]
        if jacobians is not None:
            for number, end in enumerate(ends):
                jacobians[number] = np.zeros((d, pose().dim()))
                turn = slice(0, d) if d == 2 else slice(3, 6)
                jacobians[number][:, turn] = (-1) ** (1 - number) * end.rotation().matrix()
        return np.asarray(ends[1].translation()) - np.asarray(ends[0].translation())

    graph.add(gtsam.CustomFactor(gtsam.noiseModel.Isotropic.Sigma(d, 5.0), [0, 1], error))
    values = problems.optimize(graph, truth)
    reading = read(graph, values, "raise")
    assert reading.fitted
    near, far = (default_intervals(reading, multiple, 1e-4) for multiple in (0.5, 2.0))
    moved, made_there = Problem.build(reading, intervals=near).on(far), Problem.build(reading, intervals=far)
    for one, other in zip(moved.terms, made_there.terms, strict=True):
        assert (one.factor == other.factor).all()
        assert (one.matrix == other.matrix).all()
        assert (one.constant == other.constant).all()
    bent = Problem.build(reading, intervals=near, touching=False).on(far)
    assert not bent.touching
    assert certify(graph, values)


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("name", ["Cauchy", "GemanMcClure", "TruncatedLeastSquares"])
def test_the_radius_found_is_the_best_of_those_asked_for(name: str, d: int) -> None:
    """No radius that a search leaves out is a proof on more, or with fewer doubtful factors."""
    for seed in range(3):
        graph, truth = robust_graph(d, made(name), seed)
        values = problems.optimize(graph, truth)
        found = certify(graph, values, method="multipliers")
        assert found.region is not None
        if not found:
            continue
        threshold = float(found.region.threshold.min())
        for multiple in (1.0, 2.0, 4.0):
            asked = certify(graph, values, method="multipliers", region=multiple * threshold)
            assert asked.region is not None
            is_more = asked.region.radius > 1.06 * found.region.radius
            assert not (is_more and asked and asked.region.is_doubtful.sum() <= found.region.is_doubtful.sum())


def region_of(residual: list[float], low: list[float], high: list[float], doubtful: list[bool]) -> RobustRegion:
    count = len(residual)
    return RobustRegion(
        index=np.arange(count), keys=KeyLists.of((k, k + 1) for k in range(count)), residual=np.array(residual),
        low=np.array(low), high=np.array(high), threshold=np.full(count, 2.0), is_doubtful=np.array(doubtful),
        is_unconditional=False, most_violations=3,
    )  # fmt: skip


def test_regions() -> None:
    region = region_of([0.5, 9.0, 1.9], [0.0, 5.0, 0.0], [2.0, np.inf, 2.1], [False, False, True])
    assert region.is_kept.tolist() == [True, False, False]
    assert region.is_outlier.tolist() == [False, True, False]
    assert region.radius == 2.0
    assert region.is_trusted
    assert not region_of([0.5], [0.0], [1.9], [False]).is_trusted
    only_doubtful = region_of([1.5], [0.0], [1.6], [True])
    assert only_doubtful.radius == 1.6
    assert not only_doubtful.is_trusted
    only_outliers = region_of([9.0], [5.0], [np.inf], [False])
    assert only_outliers.radius == math.inf
    assert not only_outliers.is_trusted
    assert only_outliers.to_dict()["radius"] is None
    assert str(region) == "3 factors, up to 2 sigmas: 1 kept, 1 outliers, 1 doubtful"
    assert repr(only_outliers) == "<RobustRegion: 1 factors, 1 outliers>"
    assert "doubtful" in region._repr_html_()


def test_losses_that_are_not_known() -> None:
    """The factor and its keys are named, and what can be done."""
    graph, truth = problems.ring(2, 6)
    inner = gtsam.noiseModel.Isotropic.Sigma(3, 0.1)
    custom = ESTIMATORS.Custom.Create(lambda r: 1.0, lambda r: r * r / 2)
    for loss, reason in (
        (custom, "the robust loss Custom is not known: use one of Null, Huber"),
        (ESTIMATORS.DCS.Create(-1.0), "the constant of the robust loss DCS is -1; it must be a positive number"),
        (problems.loss_of_numbers(1.0), "one of each number of the residual"),
    ):
        bad = gtsam.NonlinearFactorGraph(graph)
        bad.add(gtsam.BetweenFactorPose2(0, 3, gtsam.Pose2(), gtsam.noiseModel.Robust.Create(loss, inner)))
        with pytest.raises(UnsupportedNoiseError) as caught:
            certify(bad, truth)
        assert reason in str(caught.value)
        assert "(factor 6 on 0, 3)" in str(caught.value)


def test_robust_noise_where_it_cannot_be_used() -> None:
    graph, truth = problems.ring(2, 6)
    huber = ESTIMATORS.Huber.Create(1.0)
    robust: Any = gtsam.noiseModel.Robust.Create
    rotation = gtsam.PoseRotationPrior2D(2, truth.atPose2(2), robust(huber, gtsam.noiseModel.Unit.Create(1)))
    hard = gtsam.BetweenFactorPose2(0, 3, gtsam.Pose2(), robust(huber, gtsam.noiseModel.Constrained.All(3)))
    twice = gtsam.BetweenFactorPose2(0, 3, gtsam.Pose2(), robust(huber, robust(huber, gtsam.noiseModel.Unit.Create(3))))
    for factor, reason, where in (
        (rotation, "a robust loss is supported on", "(factor 6 on 2)"),
        (hard, "robust noise around Constrained noise is not supported", "(factor 6 on 0, 3)"),
        (twice, "robust noise around Robust noise is not supported", "(factor 6 on 0, 3)"),
    ):
        bad = gtsam.NonlinearFactorGraph(graph)
        bad.add(factor)
        with pytest.raises((UnsupportedNoiseError, UnsupportedFactorError)) as caught:
            certify(bad, truth)
        assert reason in str(caught.value)
        assert where in str(caught.value)
