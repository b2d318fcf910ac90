"""The time of a search: reserves, what is worth beginning, and what a result says was left out."""

from __future__ import annotations

import json
import math
import time
from typing import Any

import gtsam
import numpy as np
import pytest
import scipy

from gtsam_sdp import CertificateStatus, certify, deadline, refine, solve
from gtsam_sdp.backends.clarabel_ import Pace
from gtsam_sdp.linalg.factorisation import Factorisation
from gtsam_sdp.linalg.real import real_upper
from gtsam_sdp.relaxation.relaxation import PredictedCost
from gtsam_sdp.results.solution import StageName
from gtsam_sdp.search.budget import Budget
from tests import problems


def test_a_reserve_is_kept_for_the_proof() -> None:
    budget = Budget(100.0)
    assert 79 < budget.remaining <= 80
    for seconds in (10.0, 4.0):
        budget.lap = time.perf_counter() - seconds
        assert seconds <= budget.took(StageName.CERTIFY) < seconds + 0.1
    assert 86 < budget.remaining <= 87
    budget = Budget(100.0, reading=5.0)
    assert 39 < budget.remaining <= 40
    assert not budget.fits_an_initialisation
    assert 105 < budget.proof_ends - budget.started < 106
    free = Budget(None)
    assert free.remaining == free.ends == free.proof_ends == math.inf
    assert free.fits_an_initialisation


def test_what_is_worth_beginning_without_a_limit() -> None:
    free = Budget(None)
    assert free.allows("this", 20.0, gap=1e4)
    assert not free.allows("this", 20.0, gap=3.0)
    assert not free.allows("that", 60.0, gap=1e4)
    assert free.untried == ["this (about 20 to 50 s: time_limit=51)", "that (about 60 to 150 s: time_limit=151)"]
    assert free.for_a_rung > 29
    assert not free.is_spent(0.0)
    late = Budget(None, started=time.perf_counter() - 300)
    assert late.is_spent(0.01)
    assert not late.is_spent(0.5)
    assert 99 < late.for_a_rung < 101
    late.leave("the staircase")
    late.leave("the staircase")
    assert len(late.untried) == 1
    assert "time_limit=12" in late.untried[0]


def test_what_fits_a_limit() -> None:
    budget = Budget(100.0)
    assert budget.allows("this", 60.0, gap=3.0)
    assert not budget.allows("this", 90.0, gap=1e4)
    assert not budget.is_spent(0.0)
    assert Budget(100.0, started=time.perf_counter() - 99).is_spent(1.0)


def test_an_iteration_that_would_end_too_late() -> None:
    pace = Pace(10.0)
    assert [pace.is_too_slow(seconds) for seconds in (5.0, 6.0, 8.5)] == [False, False, True]
    assert not Pace(None).is_too_slow(1e9)


def test_no_long_step_is_begun_after_a_deadline() -> None:
    """A proof that is not begun is none: nothing wrong follows."""
    graph, truth = problems.ring(3, 8)
    upper = real_upper(identity_matrix(5))
    assert Factorisation.of(upper) is not None
    with deadline.until(time.perf_counter() - 1) as late:
        assert Factorisation.of(upper) is None
    assert late.was_felt
    assert Factorisation.of(upper) is not None
    with deadline.until(time.perf_counter() + 100) as early:
        assert Factorisation.of(upper) is not None
        assert not deadline.has_time(1e12)
    assert early.longest > 0
    solution = solve(graph, truth, time_limit=0.0)
    assert 0 <= solution.certificate.lower_bound <= solution.cost


def test_a_certificate_after_its_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Says that nothing is proven, nor known about a further step."""
    graph, truth = problems.ring(3, 8)
    best = problems.optimize(graph, truth)
    with deadline.until(time.perf_counter() + 100):
        assert deadline.has_time(seconds=99.0)
        assert not deadline.has_time(seconds=101.0)
        assert certify(graph, best).lower_bound == pytest.approx(certify(graph, best).cost, rel=1e-4)
    with deadline.until(-math.inf) as late:
        certificate = certify(graph, best)
    assert late.was_felt
    assert certificate.status is CertificateStatus.INCONCLUSIVE
    assert certificate.lower_bound == 0
    assert math.isnan(certificate.stationarity)
    assert json.loads(certificate.to_json())["stationarity"] is None
    monkeypatch.setattr(Budget, "proof_ends", property(lambda self: -math.inf))
    solution = solve(graph, best, time_limit=0.0)
    assert "the time ended before it was known whether the values are a local optimum" in str(solution)
    assert "the whole proof at the values" in solution.advice


def identity_matrix(size: int) -> Any:
    """A sparse identity."""
    return scipy.sparse.csc_array(np.eye(size))


def test_a_long_relaxation_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """And it is said how much time it takes."""
    graph, _ = problems.ring(3, 8, 1.5, 1.0, seed=0)
    monkeypatch.setattr("gtsam_sdp.search.budget.LONG", 1e-6)
    solution = solve(graph, tolerance=1e-9)
    assert not solution.certificate
    assert "relaxation" not in [stage.name for stage in solution.stages]
    assert solution.advice.startswith("with more time it would be tried: the relaxation on cliques (about 0 to")
    assert solution.to_dict()["untried"] == list(solution.untried)
    asked = solve(graph, tolerance=1e-9, time_limit=60.0)
    assert "relaxation" in [stage.name for stage in asked.stages]


def test_a_staircase_that_the_time_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Is told of, and one with tangents at the values is not optimised from."""
    graph, _ = problems.ring(3, 8, 1.5, 1.0, seed=0)
    monkeypatch.setattr(Budget, "for_a_rung", property(lambda self: 0.0))
    solution = solve(graph, method="staircase", tolerance=1e-9)
    assert not solution.certificate
    assert "the staircase to its end (time_limit=" in solution.advice
    names = [stage.name for stage in solution.stages]
    assert names.count("staircase") == 2
    assert names[-1] == "staircase"
    assert 0 <= solution.certificate.lower_bound <= solution.cost


def test_time_is_kept_for_what_a_rung_finds() -> None:
    budget = Budget(None)
    for stage, seconds in ((StageName.CERTIFY, 2.0), (StageName.OPTIMISE, 3.0)):
        budget.lap = time.perf_counter() - seconds
        budget.took(stage)
    assert 24 < budget.for_a_rung < 24.5


def test_no_advice_to_solve_what_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """The relaxation's time is told where it is long, and not where it is refused for its size."""
    graph, truth = problems.ring(3, 8, 1.5, 1.0, seed=0)
    best = problems.optimize(graph, truth)
    monkeypatch.setattr("gtsam_sdp.certification.evidence.SHORT_RELAXATION", 0.0)
    assert 'method="sdp"' in str(certify(graph, best, tolerance=1e-9))
    monkeypatch.setattr(PredictedCost, "fits", property(lambda self: False))
    assert 'method="sdp"' not in str(certify(graph, best, tolerance=1e-9))


def test_rungs_without_a_gain_end_the_climb(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, _ = problems.ring(3, 8, 1.5, 1.0, seed=0)
    names = [stage.name for stage in solve(graph, tolerance=1e-9).stages]
    assert {"relaxation", "staircase"} <= set(names)
    monkeypatch.setattr("gtsam_sdp.search.budget._PATIENCE", 0.0)
    monkeypatch.setattr("gtsam_sdp.search.budget._GAIN", 2.0)
    solution = solve(graph, tolerance=1e-9)
    assert "staircase" not in [stage.name for stage in solution.stages]
    assert "the staircase (time_limit=" in solution.advice


@pytest.mark.parametrize("limit", [1.0, 3.0])
def test_a_limit_is_kept(limit: float) -> None:
    """Generously: other work may keep the machine busy."""
    graph, truth = problems.manhattan_grid(10000, 0.3, 0.5)
    start = problems.random_start(truth, np.random.default_rng(0))
    began = time.perf_counter()
    solution = solve(graph, start, time_limit=limit)
    assert time.perf_counter() - began < 3 * limit + 3
    assert solution.cost == graph.error(solution.values)
    assert "optimise first" not in str(solution)


def test_a_step_that_closes_the_gap_is_taken() -> None:
    """Values of an optimizer with a loose tolerance are CERTIFIED, and the gap is what one more step gains."""
    graph, truth = problems.ring(3, 16, 0.05, 0.1, seed=0)
    parameters = gtsam.LevenbergMarquardtParams()
    parameters.setRelativeErrorTol(1e-3)
    loose = gtsam.LevenbergMarquardtOptimizer(graph, truth, parameters).optimize()
    solution = refine(graph, loose)
    assert solution.stages[0].note == "CERTIFIED"
    assert solution.method == "local"
    assert solution.improvement > 0
    assert solution.certificate.gap < 0.1 * (solution.stages[0].cost - solution.stages[0].lower_bound)
    again = refine(graph, solution.values)
    assert again.method == "given"
    assert [stage.name for stage in again.stages] == ["certify"]
    assert refine(graph, loose, time_limit=0.0).method == "given"


def test_no_advice_that_was_followed() -> None:
    graph, truth = problems.ring(3, 20, 0.05, 0.1, seed=1)
    start = problems.random_start(truth, np.random.default_rng(0))
    stopped = refine(graph, start, method="local", time_limit=0.0)
    assert stopped.certificate.stationarity > 1e-3
    assert "optimise first" not in str(stopped)
    assert "not a local optimum: the time ended before the optimizer" in str(stopped)


def test_dropped_factors_that_cost_most(caplog: pytest.LogCaptureFixture) -> None:
    """No global method is tried in vain, and that is said before the search begins."""
    graph, truth = problems.ring(3, 8, 0.05, 0.1, seed=0)
    wide = problems.loss_of_numbers(1e9)
    noise = gtsam.noiseModel.Robust.Create(wide, gtsam.noiseModel.Isotropic.Sigma(6, 0.05))
    for k in range(4):
        measured = truth.atPose3(k).between(truth.atPose3(k + 4)).retract(np.full(6, 0.5))
        graph.add(gtsam.BetweenFactorPose3(k, k + 4, measured, noise))
    best = problems.optimize(graph, truth)
    for search in (solve, refine):
        caplog.clear()
        with caplog.at_level("INFO", logger="gtsam_sdp"):
            solution = search(graph, best, on_unsupported="drop")
        assert any(record.getMessage().startswith("dropped: 4 factors cost") for record in caplog.records)
        assert not {"relaxation", "staircase"} & {stage.name for stage in solution.stages}
        assert "dropped factors make up most of the cost: values like these cannot be certified" in str(solution)
        assert "most of the gap is what the dropped factors cost" in solution.advice
        assert 0 <= solution.certificate.lower_bound <= solution.cost
    asked = refine(graph, best, method="staircase", on_unsupported="drop")
    assert "staircase" in [stage.name for stage in asked.stages]
