"""Soundness of every adapter with GTSAM as the oracle: a term is never above the factor's cost (docs/maths/, 4)."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import gtsam
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gtsam_sdp.errors import SuspiciousInputWarning
from gtsam_sdp.factors.registry import ADAPTERS
from gtsam_sdp.lift.build import build_terms
from gtsam_sdp.reading.graph import Reading, read
from gtsam_sdp.terms.terms import Exactness, Terms
from tests.factors.cases import CASES, Case, perturbed, random_value, to_values

RELATIVE = 1e-9
TANGENT_LOSS = {"Rot2": 1e-9, "other": 0.5}

parameters = [pytest.param(case, noise, id=f"{case.name}-{noise.__name__}") for case in CASES for noise in case.noises]


def lift(factor: Any, values: dict[int, Any], max_cost: float | None = None) -> tuple[Reading, list[Terms]]:
    graph = gtsam.NonlinearFactorGraph()
    graph.add(factor)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SuspiciousInputWarning)
        reading = read(graph, to_values(values), "raise")
    if max_cost is not None:
        reading = replace(reading, cost=max_cost)
    return reading, list(build_terms(reading))


def value_and_size(reading: Reading, terms: list[Terms], values: dict[int, Any]) -> tuple[float, float]:
    lifted = reading.layout.lift(to_values(values))
    world = reading.layout.world
    return (
        sum(float(t.value(lifted, world).sum()) for t in terms),
        sum(float(t.size(lifted, world).sum()) for t in terms),
    )


def others(case: Case, values: dict[int, Any], rng: np.random.Generator, count: int):
    """Other values: some near the estimate, some anywhere."""
    for sample in range(count):
        if sample % 2:
            size = 10 ** rng.uniform(-3, 0.5)
            yield {key: perturbed(value, rng, size) for key, value in values.items()}
        else:
            yield {key: random_value(kind, rng) for key, kind in zip(values, case.kinds, strict=True)}


@pytest.mark.parametrize(("case", "noise"), parameters)
@settings(max_examples=12, deadline=None, derandomize=True)
@given(seed=st.integers(0, 2**32 - 1), near=st.booleans())
def test_term_is_never_above_the_cost(case: Case, noise: Callable, seed: int, near: bool) -> None:
    rng = np.random.default_rng(seed)
    factor, values = case.sample(noise, rng)
    if near:  # an estimate near the measurement, where tangents are meant to be
        values = near_optimum(factor, values, rng)
    reading, terms = lift(factor, values, max_cost=np.inf)
    exact = all((t.exactness == Exactness.EXACT).all() for t in terms)
    assert exact == (noise in case.exact_for)
    for other in [values, *others(case, values, rng, 12)]:
        value, size = value_and_size(reading, terms, other)
        cost = gtsam.NonlinearFactor.error(factor, to_values(other))
        assert value <= cost * (1 + RELATIVE) + 1e-13 * size + 1e-12
        if exact:
            assert value == pytest.approx(cost, rel=RELATIVE, abs=1e-12 * size)


@pytest.mark.parametrize("noise", CASES[3].noises, ids=lambda n: n.__name__)
@pytest.mark.parametrize("name", ["BetweenFactorPose2", "BetweenFactorPose3", "PriorFactorPose2", "PriorFactorPose3"])
@settings(max_examples=40, deadline=None, derandomize=True)
@given(seed=st.integers(0, 2**32 - 1))
def test_angle_limit_holds_where_the_cost_is_lower(name: str, noise: Callable, seed: int) -> None:
    """Terms made with the limit on the angle that the cost gives are sound wherever the cost is below that."""
    case = next(c for c in CASES if c.name == name)
    rng = np.random.default_rng(seed)
    factor, values = case.sample(noise, rng)
    values = near_optimum(factor, values, rng)
    max_cost = gtsam.NonlinearFactor.error(factor, to_values(values)) * 10 ** rng.uniform(0, 1)
    reading, terms = lift(factor, values, max_cost=max_cost)
    for other in others(case, values, rng, 20):
        cost = gtsam.NonlinearFactor.error(factor, to_values(other))
        if cost <= max_cost:
            value, size = value_and_size(reading, terms, other)
            assert value <= cost * (1 + RELATIVE) + 1e-13 * size + 1e-12


@pytest.mark.parametrize(("case", "noise"), [p for p in parameters if "Frobenius" not in str(p.id)])
def test_tangent_terms_touch_the_cost_at_the_estimate(case: Case, noise: Callable) -> None:
    """Near an estimate with a small error the loss is of higher order: its share of the cost falls with the error."""
    rng = np.random.default_rng(5)
    for _ in range(5):
        factor, values = case.sample(noise, rng)
        losses = []
        for size in (0.01, 0.001):
            near = near_optimum(factor, values, np.random.default_rng(1), size)
            reading, terms = lift(factor, near)
            if any((t.exactness != Exactness.TANGENT).any() for t in terms):
                return
            value, _ = value_and_size(reading, terms, near)
            cost = gtsam.NonlinearFactor.error(factor, to_values(near))
            losses.append((cost - value) / cost)
        assert losses[1] <= max(5e-2 * losses[0], 2e-3)


def near_optimum(factor: Any, values: dict[int, Any], rng: np.random.Generator, size: float = 0.2) -> dict[int, Any]:
    """Values near a minimum of the factor's cost, found by LM."""
    graph = gtsam.NonlinearFactorGraph()
    graph.add(factor)
    parameters = gtsam.LevenbergMarquardtParams()
    parameters.setRelativeErrorTol(1e-14)
    result = gtsam.LevenbergMarquardtOptimizer(graph, to_values(values), parameters).optimize()
    readers = {"Rot2": result.atRot2, "Rot3": result.atRot3, "Pose2": result.atPose2, "Pose3": result.atPose3}
    readers |= {"Unit3": result.atUnit3, "float": result.atDouble, "ConstantBias": result.atConstantBias}
    found = {}
    for key, value in values.items():
        reader = readers.get(type(value).__name__, result.atVector)
        found[key] = perturbed(reader(key), rng, size)
    return found


def test_every_adapter_has_a_case() -> None:
    """Those of known biases need hard ones next to them: `test_inertial.py`."""
    without_terms = {name for name in ADAPTERS if name.startswith("NonlinearEquality") or ADAPTERS[name].known}
    assert {case.name for case in CASES} == set(ADAPTERS) - without_terms
