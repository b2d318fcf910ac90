"""Small random graphs of one factor type, and the best of many starts."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import gtsam
import numpy as np

from tests import problems
from tests.factors.cases import Case, random_value

LANDMARK_TYPES = (
    "BearingRangeFactor", "RangeFactor", "QuadraticRangeFactor", "WnoaMotionFactor", "GPSFactor",
    "PoseTranslationPrior", "VectorNormFactor",
)  # fmt: skip
"""Beginnings of the names of factors of landmarks, ranges, motion and positions."""


def random_graph(case: Case, rng: np.random.Generator) -> tuple[gtsam.NonlinearFactorGraph, gtsam.Values]:
    """Five random factors of a type among few variables, which contradict each other, and a weak prior on each."""
    pools: dict[str, list[int]] = {}
    graph, values = gtsam.NonlinearFactorGraph(), gtsam.Values()
    for number, kind in enumerate(dict.fromkeys(case.kinds)):
        pools[kind] = [10 * number + k for k in range(max(3, case.kinds.count(kind)))]
        for key in pools[kind]:
            values.insert(key, random_value(kind, rng))
            if kind != "Unit3":
                for prior in _weak_priors(kind, key, rng):
                    graph.add(prior)
    for _ in range(5):
        chosen = {kind: rng.permutation(pool).tolist() for kind, pool in pools.items()}
        keys = [chosen[kind].pop() for kind in case.kinds]
        noise = case.noises[rng.integers(len(case.noises))]
        graph.add(case.make(keys, noise(case.noise_dimension, rng), rng))
    for key in set(values.keys()) - set(graph.keyVector()):  # directions, which have no prior
        values.erase(key)
    return graph, values


def _weak_priors(kind: str, key: int, rng: np.random.Generator) -> list[Any]:
    """Pulls a value weakly to a random place."""
    g: Any = gtsam
    mean, d = random_value(kind, rng), int(kind[-1])
    if kind in ("Double1", "ConstantBias6"):
        return [getattr(g, f"PriorFactor{kind[:-1]}")(key, mean, gtsam.noiseModel.Isotropic.Sigma(d, 3.0))]
    if kind.startswith("Vector"):
        return [getattr(g, f"PriorFactorPoint{d}")(key, mean, gtsam.noiseModel.Isotropic.Sigma(d, 3.0))]
    turn = gtsam.noiseModel.Isotropic.Sigma(2 * d - 3, 2.0)
    if kind.startswith("Rot"):
        return [getattr(g, f"PriorFactor{kind}")(key, mean, turn)]
    return [
        getattr(g, f"PoseRotationPrior{d}D")(key, mean.rotation(), turn),
        getattr(g, f"PoseTranslationPrior{d}D")(key, mean.translation(), gtsam.noiseModel.Isotropic.Sigma(d, 3.0)),
    ]


def best_of_starts(
    case: Case, graph: gtsam.NonlinearFactorGraph, values: gtsam.Values, rng: np.random.Generator, starts: int
) -> tuple[gtsam.Values, float]:
    """Where the first start ends, and the lowest cost of all."""
    kinds = list(dict.fromkeys(case.kinds))
    results = [values]
    for k in range(starts):
        start = values if not k else problems.to_values((q, random_value(kinds[q // 10], rng)) for q in values.keys())
        with suppress(RuntimeError):
            results.append(problems.optimize(graph, start))
    finite = [r for r in results if np.isfinite(graph.error(r))]
    end = results[1] if len(results) > 1 and np.isfinite(graph.error(results[1])) else finite[0]
    return end, min(graph.error(r) for r in finite)
