"""Continuation in the weights: the graph with all weights alike first, then with larger and larger ones.

Where weights differ by many decades the stiff factors are a thin curved valley, along which Levenberg-Marquardt creeps.
With weights cut at a cap the valley is wide, and its bottom hardly moves from one cap to the next (docs/maths/, 6.4).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import gtsam
import numpy as np

from gtsam_sdp.errors import GtsamSdpError
from gtsam_sdp.linalg.array import Array
from gtsam_sdp.progress import report_now
from gtsam_sdp.results.solution import FoundBy, StageName
from gtsam_sdp.search.budget import Budget
from gtsam_sdp.search.findings import Finding, Incumbent
from gtsam_sdp.search.local import levenberg_marquardt
from gtsam_sdp.search.methods.local import optimised
from gtsam_sdp.search.start import starting_values
from gtsam_sdp.search.task import Task

MANY_DECADES = 1e3
"""Largest weight by the usual soft ones, as square roots, from which on weights are stepped up to."""

_SOFT = 0.1
"""Share of the directions that may be softer than where the continuation starts."""

_STEP = 10.0
"""From one cap to the next, as square roots of weights."""

_MAX_CAPS = 12

_GAUSSIAN = {"Unit", "Isotropic", "Diagonal", "Gaussian"}

_ITERATIONS = 50
"""At each cap: each is a start for the next one only."""


def stepped_up(task: Task, known: Incumbent, budget: Budget) -> Finding:
    """The end of a continuation from the best values, and from the initialisation of the graph with small weights."""
    weights = Weights.of(task.graph)
    if not weights.span_decades:
        return Finding()
    best = known.best_values

    def starts(graph: gtsam.NonlinearFactorGraph) -> Sequence[gtsam.Values]:
        try:
            return (task.completed(starting_values(graph, task.options.on_unsupported), best), best)
        except GtsamSdpError:
            return (best,)

    values = continued(weights, starts, budget.ends_with(budget.remaining))
    then = (partial(optimised, values, FoundBy.CONTINUATION),)
    cost = task.graph.error(values)
    return Finding(StageName.CONTINUATION, f"weights in {len(weights.caps)} steps", cost, then=then)


@dataclass(frozen=True)
class Weights:
    """The Gaussian noise models of a graph, by their singular values.

    Attributes:
        graph: the graph.
        place: for each factor its model among `roots`, -1 for one whose weights stay as they are, (f,).
        roots: the distinct square root information matrices R.
    """

    graph: gtsam.NonlinearFactorGraph
    place: Array
    roots: Sequence[Array]

    @classmethod
    def of(cls, graph: gtsam.NonlinearFactorGraph) -> Weights:
        """Reads each distinct model once."""
        models: dict[int, Any] = {}
        places: dict[int, int] = {}
        place = np.full(graph.size(), -1)
        for index in range(graph.size()):
            factor: Any = graph.at(index)
            noise = getattr(factor, "noiseModel", None)
            if noise is None or not hasattr(factor, "cloneWithNewNoiseModel"):
                continue
            model = noise()
            if type(model).__name__ in _GAUSSIAN:
                place[index] = places.setdefault(id(model), len(places))
                models[id(model)] = model  # kept alive, so that no other model gets its number
        return cls(graph, place, [model.R() for model in models.values()])

    @cached_property
    def _spectra(self) -> Sequence[tuple[Array, Array]]:
        """Singular values and right singular vectors of the roots."""
        found = (np.linalg.svd(root) for root in self.roots)
        return [(values, right) for _, values, right in found]

    @cached_property
    def _extent(self) -> tuple[float, float]:
        """Of all factors' singular values a small one and the largest; equal if there are none."""
        counts = np.bincount(self.place[self.place >= 0], minlength=len(self.roots))
        repeated = [np.repeat(s[:, None], n, axis=1).ravel() for (s, _), n in zip(self._spectra, counts, strict=True)]
        values = np.concatenate([np.zeros(0), *repeated])
        values = values[(values > 0) & np.isfinite(values)]
        return (float(np.quantile(values, _SOFT)), float(values.max())) if len(values) else (1.0, 1.0)

    @property
    def span_decades(self) -> bool:
        """Whether a continuation may help."""
        soft, stiff = self._extent
        return stiff >= MANY_DECADES * soft

    @property
    def caps(self) -> Sequence[float]:
        """Largest square roots of weights, one after the other, all below those of the graph."""
        soft, stiff = self._extent
        step = max(_STEP, (stiff / soft) ** (1 / _MAX_CAPS))
        count = math.ceil(round(math.log(stiff / soft) / math.log(step), 6))
        return [soft * step**k for k in range(count)]

    def softer(self, cap: float) -> gtsam.NonlinearFactorGraph:
        """The graph with no weight above cap^2; the graph itself is not changed."""
        models = [
            gtsam.noiseModel.Gaussian.SqrtInformation(np.minimum(values, cap)[:, None] * right)
            if values.max(initial=0.0) > cap
            else None
            for values, right in self._spectra
        ]
        softer = gtsam.NonlinearFactorGraph()
        for index, place in enumerate(self.place.tolist()):
            factor: Any = self.graph.at(index)
            if factor is not None:
                softer.push_back(factor if place < 0 or models[place] is None else _with_noise(factor, models[place]))
        return softer


def _with_noise(factor: Any, model: Any) -> Any:
    """A copy of the factor with another noise model; the factor where GTSAM cannot copy it."""
    try:
        return factor.cloneWithNewNoiseModel(model)
    except RuntimeError:
        return factor


def continued(
    weights: Weights,
    start: Callable[[gtsam.NonlinearFactorGraph], Sequence[gtsam.Values]],
    ends: float = math.inf,
) -> gtsam.Values:
    """Values near the optimum of a graph, by those of the graph with smaller weights.

    Args:
        weights: of the graph; they span many decades.
        start: gives starts for the graph with the smallest weights; the best of its local optima is followed.
        ends: no iteration after the first at each cap begins after this reading of `time.perf_counter` [s].
    """
    graph = weights.softer(weights.caps[0])
    values = min((_optimum(graph, values, ends) for values in start(graph)), key=graph.error)
    for cap in weights.caps[1:]:
        if time.perf_counter() > ends:
            break
        values = _optimum(weights.softer(cap), values, ends)
    return values


def _optimum(graph: gtsam.NonlinearFactorGraph, values: gtsam.Values, ends: float) -> gtsam.Values:
    """Where Levenberg-Marquardt ends; the values themselves where it fails."""
    report_now("continuation in the weights")
    try:
        found = levenberg_marquardt(graph, values, _ITERATIONS, ends, by_diagonal=True)
    except (RuntimeError, ValueError):
        return values
    return found.values if math.isfinite(found.cost) else values
