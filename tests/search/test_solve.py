"""solve and refine: from any start or none to the optimum, and never back."""

from __future__ import annotations

from typing import Any

import gtsam
import numpy as np
import pytest

from gtsam_sdp import (
    InvalidGraphError,
    ProblemTooLargeError,
    Residual,
    SolveFailedError,
    Term,
    UnsupportedFactorError,
    certify,
    refine,
    register_term,
    relax,
    solve,
    unregister_term,
)
from gtsam_sdp.backends.base import Backend, BackendResult, SolverStatus
from gtsam_sdp.backends.clarabel_ import ClarabelBackend
from gtsam_sdp.search.start import starting_values, zero_values
from tests import problems
from tests.factors.cases import CASES, Case
from tests.registering import term_for


def wrong_minimum(d: int) -> tuple[gtsam.NonlinearFactorGraph, gtsam.Values, float]:
    """A ring, a local minimum that is not the best, and the best cost."""
    graph, truth = problems.ring(d, 16, 0.05, 0.1, seed=2)
    best = graph.error(problems.optimize(graph, truth))
    if d == 2:
        wrong = problems.optimize(graph, problems.with_turns(truth, 16, 1))
    else:
        rng = np.random.default_rng(0)
        tries = [problems.optimize(graph, problems.random_start(truth, rng)) for _ in range(8)]
        wrong = max(tries, key=graph.error)
    assert graph.error(wrong) > 2 * best
    return graph, wrong, best


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("method", ["auto", "sdp"])
def test_refine_leaves_a_wrong_minimum(d: int, method: Any) -> None:
    graph, wrong, best = wrong_minimum(d)
    solution = refine(graph, wrong, method=method)
    assert solution.certificate
    assert solution.cost == pytest.approx(best, rel=1e-6)
    assert solution.cost == graph.error(solution.values)
    assert solution.improvement == pytest.approx(graph.error(wrong) - best, rel=1e-6)
    steps = {"auto": ("chordal initialisation", "descent"), "sdp": ("relaxation",)}
    assert solution.method == {"auto": "chordal initialisation", "sdp": "sdp"}[method]
    assert [s.name for s in solution.stages] == ["certify", *steps[method], "optimise", "certify"]
    assert str(steps[method][0]) in str(solution)
    assert solution.certificate.lower_bound <= best * (1 + 1e-12)
    assert (solution.relaxation is None) == (method == "auto")


def test_refine_returns_what_is_certified_already() -> None:
    graph, truth = problems.ring(3, 12, 0.05, 0.1, seed=2)
    best = problems.optimize(graph, truth)
    solution = refine(graph, best)
    assert solution.method == "given"
    assert solution.values.equals(best, 0.0)
    assert solution.relaxation is None
    assert solution.improvement == 0


def test_refine_optimises_what_is_no_minimum() -> None:
    graph, truth = problems.ring(3, 12, 0.05, 0.1, seed=2)
    solution = refine(graph, truth)
    assert solution.method == "local"
    assert solution.certificate
    assert [s.name for s in solution.stages] == ["certify", "optimise", "certify"]
    assert solution.improvement == pytest.approx(graph.error(truth) - solution.cost)


@pytest.mark.parametrize("seed", range(4))
def test_refine_never_returns_something_worse(seed: int) -> None:
    """Very noisy rings: whatever the relaxation rounds to."""
    graph, truth = problems.ring(3, 8, 1.5, 1.0, seed=seed)
    result = problems.optimize(graph, truth)
    solution = refine(graph, result, tolerance=1e-6)
    assert solution.cost <= graph.error(result) * (1 + 1e-12)
    assert solution.certificate.lower_bound <= solution.cost
    assert solution.certificate.lower_bound == max(0.0, *(s.lower_bound for s in solution.stages))


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("method", ["auto", "local", "sdp"])
def test_solve_from_no_start(d: int, method: Any) -> None:
    graph, truth = problems.small_graph(d, sigma_rotation=0.05, seed=3)
    solution = solve(graph, method=method, tolerance=1e-5)
    assert solution.certificate
    assert solution.cost == pytest.approx(graph.error(problems.optimize(graph, truth)), rel=1e-6)
    assert solution.improvement == 0


@pytest.mark.parametrize("d", [2, 3])
def test_solve_from_random_starts(d: int) -> None:
    graph, truth = problems.ring(d, 20, 0.05, 0.1, seed=1)
    best = graph.error(problems.optimize(graph, truth))
    for seed in range(3):
        start = problems.random_start(truth, np.random.default_rng(seed))
        solution = solve(graph, start)
        assert solution.certificate
        assert solution.cost == pytest.approx(best, rel=1e-6)
        assert solution.improvement == pytest.approx(graph.error(start) - best, rel=1e-6)


def test_solve_is_deterministic() -> None:
    graph, _ = problems.ring(3, 10, 0.8, 0.5, seed=5)
    first, second = solve(graph), solve(graph)
    assert first.cost == second.cost
    assert first.certificate.lower_bound == second.certificate.lower_bound


def test_a_graph_that_is_not_tight() -> None:
    """The relaxation at the solution is tried too; the bound is honest, and the report says what was done."""
    graph, truth = problems.ring(3, 8, 1.5, 1.0, seed=0)
    solution = solve(graph, tolerance=1e-7)
    rng = np.random.default_rng(0)
    best = min(graph.error(problems.optimize(graph, problems.random_start(truth, rng), 1e-9)) for _ in range(30))
    assert solution.certificate.lower_bound <= best * (1 + 1e-9)
    assert solution.cost <= best * (1 + 1e-6)
    assert "relaxation" in [s.name for s in solution.stages]
    if not solution.certificate:
        assert solution.advice in str(solution)
        assert solution.advice


def test_time_limit() -> None:
    graph, wrong, _ = wrong_minimum(3)
    for limit in (0.0, 1e-3):
        solution = refine(graph, wrong, time_limit=limit)
        assert [s.name for s in solution.stages] == ["certify"]
        assert solution.cost == graph.error(wrong)
        assert "more time" in str(solution)
    with pytest.raises(ValueError, match="time_limit"):
        refine(graph, wrong, time_limit=-1.0)
    stopped = refine(graph, wrong, method="sdp", time_limit=0.05)
    assert stopped.certificate.lower_bound <= stopped.cost


def test_arguments_are_checked() -> None:
    graph, truth = problems.ring(2, 6)
    with pytest.raises(ValueError, match='"auto", "local", "staircase" or "sdp"'):
        solve(graph, truth, method="global")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="clarabel"):
        refine(graph, truth, backend="sedumi")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match='"gram", "vector" or "auto"'):
        solve(problems.ring(2, 8, 1.5, 1.0)[0], lift="matrix", tolerance=1e-9)  # type: ignore[arg-type]


class Broken(Backend):
    """A solver without a point."""

    def solve(self, problem: Any, *, tolerance: float, time_limit: float | None, verbose: bool) -> BackendResult:
        nothing = np.full(len(problem.b), np.nan)
        return BackendResult(
            SolverStatus.FAILED, "NumericalError", np.nan, nothing, np.full(len(problem.c), np.nan), 0, 0
        )


class Counting(Backend):
    """Clarabel, and how often it was asked."""

    def __init__(self) -> None:
        self.calls = 0

    def solve(self, problem: Any, *, tolerance: float, time_limit: float | None, verbose: bool) -> BackendResult:
        self.calls += 1
        return ClarabelBackend().solve(problem, tolerance=tolerance, time_limit=time_limit, verbose=verbose)


def test_a_solver_that_fails() -> None:
    graph, wrong, _ = wrong_minimum(3)
    with pytest.raises(SolveFailedError, match=r"NumericalError.*nothing to verify") as caught:
        refine(graph, wrong, method="sdp", backend=Broken())
    assert caught.value.solution.status is SolverStatus.FAILED
    assert len(caught.value.problem.b)
    hard, _ = problems.ring(3, 8, 1.5, 1.0, seed=0)
    solution = solve(hard, tolerance=1e-9, backend=Broken())
    assert "nothing to verify" in str(solution)


def test_a_solver_of_ones_own() -> None:
    graph, wrong, best = wrong_minimum(2)
    backend = Counting()
    assert refine(graph, wrong, method="sdp", backend=backend).cost == pytest.approx(best)
    assert certify(graph, wrong, method="sdp", backend=backend).lower_bound <= best * (1 + 1e-9)
    assert backend.calls == 2


def test_too_large_a_relaxation() -> None:
    """ "sdp" refuses, "auto" returns the best it has."""
    graph, _ = problems.small_graph(3, count=150, loops=600, seed=0)
    with pytest.raises(ProblemTooLargeError, match="largest clique"):
        solve(graph, method="sdp", tolerance=1e-15)
    solution = solve(graph, tolerance=1e-15)
    assert "too large" in solution.stages[-1].note
    assert "could not be solved here" in solution.advice or solution.certificate
    assert solution.cost == graph.error(solution.values)


PARTIAL = {"GPSFactor", *(f"Pose{what}Prior{d}D" for what in ("Rotation", "Translation") for d in (2, 3))}
PARTIAL |= {"GPSFactorArm", *(f"BearingRangeFactorPose{d}" for d in (2, 3))}
"""Factors that leave a part of their variable free."""

DISTANCES = {"VectorNormFactor3"}
DISTANCES |= {f"RangeFactor{name}" for name in ("2", "3", "2D", "3D", "Pose2", "Pose3")}
DISTANCES |= {f"RangeFactorWithTransform{name}" for name in ("2D", "3D", "Pose2", "Pose3")}
"""Factors that tell nothing of where their variables are."""


@pytest.mark.parametrize("case", [c for c in CASES if c.name not in PARTIAL | DISTANCES], ids=lambda c: c.name)
def test_values_are_known_from_the_factors(case: Case) -> None:
    """Every supported factor tells the types of its keys; one factor alone is solved to cost zero."""
    rng = np.random.default_rng(0)
    factor, values = case.sample(case.noises[min(1, len(case.noises) - 1)], rng)
    graph = gtsam.NonlinearFactorGraph()
    graph.add(factor)
    zeros = zero_values(graph)
    for key, value in values.items():
        assert not isinstance(value, np.ndarray) or len(zeros.atVector(key)) == len(value)
    scale = np.nan_to_num(graph.error(zeros))  # no bearing to a landmark on top of the pose
    assert graph.error(starting_values(graph)) < 1e-12 * (1 + scale)


def test_a_start_where_only_positions_are_absolute() -> None:
    """The world frame must not be the only rotation that is not zero."""
    graph, truth = problems.small_graph(3, sigma_rotation=0.05, seed=3)
    graph.add(gtsam.GPSFactor(4, truth.atPose3(4).translation(), gtsam.noiseModel.Isotropic.Sigma(3, 0.1)))
    best = graph.error(problems.optimize(graph, truth))
    assert graph.error(starting_values(graph)) < 2 * best
    solution = solve(graph, tolerance=1e-5)
    assert solution.certificate
    assert solution.cost == pytest.approx(best, rel=1e-6)


def test_hard_values_without_a_start() -> None:
    for d in (2, 3):
        graph, truth = problems.small_graph(d, sigma_rotation=0.05, seed=3)
        hard: Any = gtsam.PriorFactorPose2 if d == 2 else gtsam.PriorFactorPose3
        at = truth.atPose2 if d == 2 else truth.atPose3
        for key in (0, 5):
            graph.add(hard(key, at(key), gtsam.noiseModel.Constrained.All(3 * d - 3)))
        for method in ("local", "sdp"):
            solution = solve(graph, method=method, tolerance=1e-5)
            assert solution.certificate
            found: Any = solution.values.atPose2(5) if d == 2 else solution.values.atPose3(5)
            assert found.equals(at(5), 1e-6)


def test_initial_values_are_asked_for() -> None:
    graph = gtsam.NonlinearFactorGraph()
    graph.add(gtsam.CustomFactor(gtsam.noiseModel.Unit.Create(1), [4], lambda this, values, jacobians: np.zeros(1)))
    with pytest.raises(
        InvalidGraphError, match=r"type of 4 .*factor 0 \(CustomFactor on 4\) is not of a supported type.*give initial"
    ):
        solve(graph)


def test_types_of_keys_that_only_unsupported_factors_hold() -> None:
    """The message is about the factors: with initial values they are not supported either."""
    graph = gtsam.NonlinearFactorGraph()
    graph.add(gtsam.PriorFactorPose3(0, gtsam.Pose3(), gtsam.noiseModel.Unit.Create(6)))
    camera = gtsam.symbol("k", 0)
    graph.add(gtsam.PriorFactorCal3_S2(camera, gtsam.Cal3_S2(), gtsam.noiseModel.Unit.Create(5)))
    message = r"k0 .*factor 1 \(PriorFactorCal3_S2 on k0\) is not of a supported type \(1 PriorFactorCal3_S2"
    with pytest.raises(InvalidGraphError, match=message):
        solve(graph)
    pixel = gtsam.noiseModel.Unit.Create(1)
    graph.add(gtsam.BearingFactor2D(8, 9, gtsam.Rot2(), pixel))
    with pytest.raises(UnsupportedFactorError, match=r"1 x BearingFactor2D: .*on 8, 9"):
        solve(graph)

    def nothing(factor: Any, values: gtsam.Values) -> Term:
        return Term([])

    refused = pytest.raises(InvalidGraphError, match=r"factor 1 \(.*\) does not tell it. Give initial values")
    with term_for(gtsam.PriorFactorCal3_S2, nothing), term_for(gtsam.BearingFactor2D, nothing), refused:
        solve(graph)


def test_hard_equalities_in_the_ladder() -> None:
    """From no start, and from one that violates them; the relaxation is rounded onto them."""
    graph, truth = problems.ring(3, 6, 1.5, 0.3, seed=0)
    for key in (0, 3):
        graph.add(gtsam.NonlinearEqualityPose3(key, truth.atPose3(key)))
    best = problems.optimize(graph, truth)
    off = problems.random_start(truth, np.random.default_rng(0))
    for solution in (
        solve(graph, tolerance=1e-7),
        solve(graph, off, tolerance=1e-7),
        refine(graph, best, method="sdp", tolerance=1e-12),
    ):
        assert solution.values.atPose3(3).equals(truth.atPose3(3), 1e-9)
        assert solution.certificate.lower_bound <= solution.cost <= graph.error(best) * (1 + 1e-9)


@pytest.mark.parametrize("lift", ["gram", "vector"])
def test_hard_positions_where_the_relaxation_is_not_tight(lift: Any) -> None:
    graph, truth = problems.ring(3, 6, 1.5, 1.0, seed=0)
    moved = gtsam.Values()
    for key in truth.keys():
        pose = truth.atPose3(key)
        moved.insert(key, gtsam.Pose3(pose.rotation(), pose.translation() + 100))
    for key in (0, 2, 4):
        position = moved.atPose3(key).translation()
        graph.add(gtsam.GPSFactor(key, position, gtsam.noiseModel.Constrained.All(3)))
    best = problems.optimize(graph, moved)
    solution = solve(graph, best, method="sdp", lift=lift, tolerance=1e-9)
    if solution.certificate.method == "sdp":  # the time is that of the proof
        assert list(solution.certificate.timings) == ["sdp"]
    assert 0 < solution.certificate.lower_bound <= solution.cost <= graph.error(best) * (1 + 1e-9)


def test_a_start_without_a_cost_comes_last() -> None:
    """Two opposite bearings: chordal initialisation puts the landmark where the pose is, and no bearing is known."""
    factor: Any = getattr(gtsam, "BearingRangeFactor3D")  # noqa: B009
    graph, values = gtsam.NonlinearFactorGraph(), gtsam.Values()
    graph.add(gtsam.PriorFactorPose3(0, gtsam.Pose3(), gtsam.noiseModel.Isotropic.Sigma(6, 0.1)))
    for side in (1.0, -1.0):
        seen = gtsam.Unit3(np.array([side, 0, 0]))
        graph.add(factor(0, 1, seen, 2.0, gtsam.noiseModel.Isotropic.Sigma(3, 0.1)))
    values.insert(0, gtsam.Pose3())
    values.insert(1, np.array([2.0, 0.1, 0]))
    for solution in (solve(graph, values), refine(graph, values)):
        assert 0 <= solution.certificate.lower_bound <= solution.cost <= graph.error(values)


def test_the_staircase_without_any_rotation() -> None:
    factor: Any = getattr(gtsam, "VectorNormFactor3")  # noqa: B009
    graph, values = gtsam.NonlinearFactorGraph(), gtsam.Values()
    for key, length in ((0, 1.0), (1, 2.0), (1, 5.0)):
        graph.add(factor(key, length, gtsam.noiseModel.Unit.Create(1)))
    for key in (0, 1):
        values.insert(key, np.array([1.0, 1.0, 0.0]))
    solution = solve(graph, values, method="staircase")
    assert 0 <= solution.certificate.lower_bound <= solution.cost == pytest.approx(2.25)


def test_points_alone() -> None:
    """Noise along the axes of the world, and measurements of zero: no rotation anywhere."""
    noise = gtsam.noiseModel.Diagonal.Sigmas(np.array([0.1, 1.0, 2.0]))
    rng = np.random.default_rng(0)
    graph = gtsam.NonlinearFactorGraph()
    for key in range(4):
        graph.add(gtsam.PriorFactorPoint3(key, rng.normal(size=3), noise))
    for key in range(3):
        graph.add(gtsam.BetweenFactorPoint3(key, key + 1, rng.normal(size=3), noise))
    solution = solve(graph)
    assert solution.certificate
    assert not solution.certificate.notes
    zero = gtsam.NonlinearFactorGraph()
    values = gtsam.Values()
    for key in range(3):
        values.insert(key, np.full(3, float(key)))
    for key in range(2):
        zero.add(gtsam.BetweenFactorPoint3(key, key + 1, np.zeros(3), gtsam.noiseModel.Unit.Create(3)))
    for ordering in ("metis", "colamd"):
        assert relax(zero, values, ordering=ordering).solve().lower_bound == 0


def test_a_factor_of_ones_own_in_the_ladder() -> None:
    """Its key is known from the values; other starts come from them too."""
    graph, truth = problems.ring(3, 8, 1.5, 1.0, seed=0)

    def error(this: Any, values: gtsam.Values, jacobians: Any) -> np.ndarray:
        if jacobians is not None:
            jacobians[0] = np.eye(3)
        return values.atPoint3(99) - np.ones(3)

    graph.add(gtsam.CustomFactor(gtsam.noiseModel.Unit.Create(3), [99], error))

    @register_term(gtsam.CustomFactor)
    def own(factor: Any, values: gtsam.Values) -> Term:
        return Term([Residual(1.0, translation={99: 1.0}, world=-np.ones(3))])

    try:
        values = gtsam.Values(truth)
        values.insert(99, np.zeros(3))
        solution = solve(graph, values, tolerance=1e-9)
        assert solution.certificate.lower_bound <= solution.cost
        np.testing.assert_allclose(solution.values.atPoint3(99), 1.0, atol=1e-6)
    finally:
        unregister_term(own)


def test_input_of_solve_is_checked_first() -> None:
    graph, truth = problems.ring(2, 4)
    half = gtsam.Values()
    half.insert(0, truth.atPose2(0))
    for bad in (half, "x"):
        with pytest.raises(InvalidGraphError):
            solve(graph, bad)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="ordering must be"):
        solve(graph, truth, ordering="foo")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="tolerance"):
        solve(graph, truth, tolerance=-1.0)
    only_hard = gtsam.NonlinearFactorGraph()
    only_hard.add(gtsam.PriorFactorPoint3(1, np.zeros(3), gtsam.noiseModel.Constrained.All(3)))
    point = problems.to_values([(1, np.zeros(3))])
    assert solve(only_hard, point).cost == 0
    with pytest.raises(InvalidGraphError, match="Nothing is left to relax"):
        relax(only_hard, point)


def test_a_certificate_says_nothing_stale() -> None:
    """Where a better bound certifies values, the advice of the first certificate is gone."""
    for seed in range(12):
        graph, truth = problems.ring(3, 8, 0.8, 0.3, seed=seed)
        result = problems.optimize(graph, truth)
        if not certify(graph, result):
            solution = refine(graph, result)
            if solution.certificate and solution.certificate.method != "multipliers":
                assert not solution.certificate.notes


def test_dropped_factors_reach_the_relaxation() -> None:
    graph, values = problems.ring(3, 5)
    values.insert(50, np.zeros(3))

    def error(this: Any, at: gtsam.Values, jacobians: Any) -> np.ndarray:
        if jacobians is not None:
            jacobians[0], jacobians[1] = np.zeros((1, 6)), 2 * at.atPoint3(50)[None]
        return np.array([np.square(at.atPoint3(50)).sum()])

    graph.add(gtsam.CustomFactor(gtsam.noiseModel.Unit.Create(1), [0, 50], error))
    quick = certify(graph, values, on_unsupported="drop")
    by_sdp = certify(graph, values, on_unsupported="drop", method="sdp")
    assert by_sdp.lower_bound >= quick.lower_bound * (1 - 1e-6)
