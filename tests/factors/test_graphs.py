"""Small random graphs of every factor type of landmarks, ranges, motion and positions: bounds are below all minima."""

from __future__ import annotations

import numpy as np
import pytest

from gtsam_sdp import certify
from tests.factors.cases import CASES, Case
from tests.factors.graphs import LANDMARK_TYPES, best_of_starts, random_graph

_CASES = [case for case in CASES if case.name.startswith(LANDMARK_TYPES)]


@pytest.mark.parametrize("case", _CASES, ids=lambda case: case.name)
def test_bounds_are_below_the_best_of_many_starts(case: Case) -> None:
    for seed in range(1000, 1020):
        graph, values = random_graph(case, np.random.default_rng(seed))
        result, best = best_of_starts(case, graph, values, np.random.default_rng(seed), 4)
        assert certify(graph, result).lower_bound <= best * (1 + 1e-9) + 1e-12
