"""Terms that need to hold where no cost is further above its first term than a gap."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import gtsam
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gtsam_sdp import certify
from gtsam_sdp.certification.softening import softened
from gtsam_sdp.lift.build import build_terms
from gtsam_sdp.reading.graph import read
from tests import problems
from tests.benchmarks.power import Cell
from tests.factors.cases import CASES, to_values
from tests.factors.test_soundness import lift, near_optimum, others, value_and_size

NAMES = ["BetweenFactorPose2", "BetweenFactorPose3", "PriorFactorPose2", "PriorFactorPose3"]


@pytest.mark.parametrize("noise", CASES[3].noises, ids=lambda n: n.__name__)
@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=30, deadline=None, derandomize=True)
@given(seed=st.integers(0, 2**32 - 1))
def test_sound_where_the_first_terms_leave_no_more_than_the_gap(name: str, noise: Callable, seed: int) -> None:
    case = next(c for c in CASES if c.name == name)
    rng = np.random.default_rng(seed)
    factor, values = case.sample(noise, rng)
    values = near_optimum(factor, values, rng)
    max_cost = factor.error(to_values(values)) * 10 ** rng.uniform(0, 2)
    reading, first = lift(factor, values, max_cost=max_cost)
    gap = max_cost * 10 ** rng.uniform(-4, 0)
    second = list(build_terms(reading, gaps=(gap,)))
    third = list(build_terms(reading, gaps=(gap, gap / 2)))
    for other in others(case, values, rng, 20):
        cost = factor.error(to_values(other))
        value, size = value_and_size(reading, first, other)
        if cost > max_cost or cost - value > gap:
            continue
        tighter, _ = value_and_size(reading, second, other)
        assert tighter <= cost * (1 + 1e-9) + 1e-13 * size + 1e-12
        if cost - tighter <= gap / 2:
            assert value_and_size(reading, third, other)[0] <= cost * (1 + 1e-9) + 1e-13 * size + 1e-12


def test_terms_of_anisotropic_noise_lose_nothing() -> None:
    """Noise of 0.1 rad and 0.3 m whose covariances are anisotropic: all terms touch at once."""
    rng = np.random.default_rng(0)
    poses = problems.ring_poses(2, 30, radius=6.0)
    graph = gtsam.NonlinearFactorGraph()
    noise = gtsam.noiseModel.Diagonal.Sigmas(np.array([0.3, 0.03, 0.1]))
    for i, j in [*problems.ring_edges(30), *((k, k + 9) for k in range(0, 18, 3))]:
        measured = poses[i].between(poses[j]).retract(noise.sigmas() * rng.normal(size=3))
        graph.add(gtsam.BetweenFactorPose2(i, j, measured, noise))
    result = problems.optimize(graph, problems.to_values(enumerate(poses)))
    reading = read(graph, result, "raise")
    assert abs(_loss(reading, ())) < 1e-9 * reading.cost
    assert certify(graph, result, tolerance=1e-6).relative_gap < 1e-7


@pytest.mark.parametrize("turned", [False, True])
def test_the_gap_tightens_the_bound(turned: bool) -> None:
    """In space, noise of 0.1 rad and 0.3 m, eigenvalues of the covariances 1 to 10: the first terms lose 5e-4."""
    graph, truth = Cell(3, (0.1, 0.3), 10.0, turned).graph(0, 30, 15)
    result = problems.optimize(graph, truth)
    reading = read(graph, result, "raise")
    assert _loss(reading, ()) > 1e-4 * reading.cost
    assert certify(graph, result, tolerance=1e-6).relative_gap < 1e-6


def _loss(reading, gaps: tuple[float, ...]) -> float:
    terms = build_terms(reading, gaps=gaps)
    return reading.cost - sum(float(t.value(reading.estimate, reading.layout.world).sum()) for t in terms)


@pytest.mark.parametrize("noise", CASES[3].noises, ids=lambda n: n.__name__)
@pytest.mark.parametrize("name", NAMES)
def test_less_weight_never_costs_more(name: str, noise: Callable) -> None:
    """Capped information matrices are below those of the noise models, up to what rounding leaves of them."""
    case = next(c for c in CASES if c.name == name)
    rng = np.random.default_rng(0)
    tried = 0
    for _ in range(20):
        factors = [case.sample(noise, rng) for _ in range(3)]
        graph = gtsam.NonlinearFactorGraph()
        values: dict = {}
        for factor, own in factors:
            graph.add(factor)
            values |= own
        reading = read(graph, to_values(values), "raise")
        stiff = [replace(g, information=g.information * 10.0 ** rng.integers(0, 13, (len(g.index), 1, 1)))
                 for g in reading.groups]  # fmt: skip
        for cap, softer in softened(replace(reading, groups=stiff), touching=False):
            tried += 1
            for before, after in zip(stiff, softer.groups, strict=True):
                rest = before.information - after.information
                size = np.abs(before.information).max()
                assert np.linalg.eigvalsh(rest)[:, 0].min() >= -1e-14 * size
                assert np.linalg.eigvalsh(after.information)[:, 0].min() >= -1e-14 * size
            assert cap >= 1
    assert tried > 10
