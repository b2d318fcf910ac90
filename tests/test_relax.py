"""`relax` with and without values."""

from __future__ import annotations

import pytest

from gtsam_sdp import InvalidGraphError, UnsupportedFactorError, relax
from tests import problems


@pytest.mark.parametrize("d", [2, 3])
def test_without_values_the_bound_is_below_every_solution(d: int) -> None:
    graph, start = problems.small_graph(d, count=8, loops=4, seed=1)
    best = graph.error(problems.optimize(graph, start))
    bound = relax(graph).solve().lower_bound
    assert 0.9 * best < bound <= best * (1 + 1e-9)
    assert bound == relax(graph).solve().lower_bound


def test_without_values_a_weaker_cost_is_touched_where_it_is_zero() -> None:
    """Noise that differs along the axes of the world: only the vector lift holds it, the Gram lift something below."""
    graph, truth = problems.localisation_chain(20, seed=0)
    best = graph.error(problems.optimize(graph, truth))
    assert 0.1 * best < relax(graph).solve().lower_bound < 0.9 * best
    assert relax(graph, lift="vector").solve().lower_bound == pytest.approx(best, rel=1e-6)
    assert relax(graph, truth).solve().lower_bound < 0.1 * best  # touches where nobody wants to know


@pytest.mark.parametrize("d", [2, 3])
def test_ranges_and_hard_values_without_values(d: int) -> None:
    graph, truth = problems.beacon_flight(d, 20)
    best = graph.error(problems.optimize(graph, truth))
    assert 0.9 * best < relax(graph).solve().lower_bound <= best * (1 + 1e-9)


def test_unsupported_factors_without_values() -> None:
    graph, _ = problems.small_graph(2, count=8, loops=4, seed=1)
    alone = relax(graph).solve().lower_bound
    graph.add(problems.distance_factor(0, 3, 1.0, d=2))
    with pytest.raises(UnsupportedFactorError, match="CustomFactor"):
        relax(graph)
    assert relax(graph, on_unsupported="drop").solve().lower_bound == pytest.approx(alone, rel=1e-5)
    graph.add(problems.distance_factor(0, 77, 1.0, d=2))
    with pytest.raises(InvalidGraphError, match=r"type of 77 is not known without .*Give initial values"):
        relax(graph, on_unsupported="drop")
