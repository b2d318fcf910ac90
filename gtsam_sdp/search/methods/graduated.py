"""Graduated non-convexity: which factors with a robust loss fit and which do not, found from starts that do not know.

The loss of all these factors is replaced by truncated least squares, made nearly convex at first and true step by step
(`gtsam.GncLMOptimizer` does the same). Here each factor has a threshold of its own, factors of any kind may be in the
graph, and the time is kept. What it finds is a start for the user's own graph, and nothing else depends on it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import gtsam
import numpy as np
from scipy.special import chdtri

from gtsam_sdp.errors import GtsamSdpError
from gtsam_sdp.lift.problem import Problem
from gtsam_sdp.linalg.array import Array
from gtsam_sdp.reading.graph import Reading
from gtsam_sdp.results.solution import FoundBy, StageName
from gtsam_sdp.search.budget import Budget
from gtsam_sdp.search.findings import Finding, Incumbent, Method, only_if
from gtsam_sdp.search.local import levenberg_marquardt
from gtsam_sdp.search.methods.local import optimised
from gtsam_sdp.search.start import ChordalStart, starting_values, zero_values
from gtsam_sdp.search.task import Strategy, Task

_OUTSIDE = 0.01
"""Share of true measurements that may be beyond the threshold: that of a chi-square distribution is the least one."""

_STEP = 1.4
"""By which the control parameter grows."""

_LAST = 1e4
"""Control parameter at which truncated least squares is all but reached."""

_ITERATIONS = 10
_SETTLED = 1e-4
"""A step of the control parameter ends after so many iterations, or when one gains no more than this share."""

_LEAST_WEIGHT = 1e-10
"""Weight of what is thrown out: more than none, so that all values are held by something."""

_SAME_END = 1e-6
"""Relative difference of costs up to which two optimisations ended at the same values."""

_SAME_WEIGHT = 1e-3
"""Weights that differ by less are the same."""


def starts(task: Task, known: Incumbent, budget: Budget) -> Finding:
    """Graduated non-convexity from the chordal initialisation, from what is not robust alone, and from the values.

    With method="local" the user's own graph is optimised from the values given, or from the initialisation.
    """
    reading = task.reading or task.read(any_values(task), at_any_values=True)
    given = known.values or task.given
    if task.options.method == Strategy.LOCAL:
        if given is not None:
            return Finding(then=(partial(optimised, given, FoundBy.LOCAL),))
        values = _initialisation(task, reading)
        then = (partial(optimised, values, FoundBy.INITIALISATION),)
        return Finding(StageName.INITIALISATION, cost=task.graph.error(values), then=then)
    if given is not None and budget.remaining <= 0:
        budget.leave("graduated non-convexity")
        return Finding(then=_unless_certified(known, given))
    sources: list[tuple[str, Callable[[], gtsam.Values]]] = []
    if given is None or budget.fits_an_initialisation:
        sources.append(("the chordal initialisation", partial(_initialisation, task, reading)))
        sources.append(("the factors without a robust loss", partial(_initialisation_without, task, reading)))
    else:
        budget.leave("the chordal initialisation")
    alone = _unless_certified(known, given)
    if given is not None:
        sources.insert(1, ("the values given", lambda: given))
    sorting = Sorting.of(reading)
    runs = (partial(_graduated, sorting, *source) for source in sources)
    return Finding(then=tuple(only_if(_is_needed, run) for run in (*runs, *alone)))


def _is_needed(known: Incumbent, budget: Budget) -> bool:
    """Whether another start may lead to something else."""
    if known.certificate is None:
        return True
    same = [
        stage for stage in known.stages
        if stage.name == StageName.OPTIMISE and stage.cost <= known.cost * (1 + _SAME_END)
    ]  # fmt: skip
    return not is_settled(known) and not (known.certificate and len(same) > 1)


def _unless_certified(known: Incumbent, given: gtsam.Values | None) -> tuple[Method, ...]:
    """The optimisation from the values given, if there are any and they are not known yet."""
    return () if given is None or known.certificate is not None else (partial(optimised, given, FoundBy.LOCAL),)


def any_values(task: Task) -> gtsam.Values:
    """The values given, or some of the right types."""
    return task.given or zero_values(task.graph, task.options.on_unsupported)


def _graduated(
    sorting: Sorting, source: str, start: Callable[[], gtsam.Values], task: Task, known: Incumbent, budget: Budget
) -> Finding:
    """One run from one start, then the user's own graph; not where no time is left."""
    if known.certificate is not None and budget.remaining <= 0:
        budget.leave(f"graduated non-convexity from {source}")
        return Finding()
    try:
        values = start()
    except (GtsamSdpError, np.linalg.LinAlgError):
        return Finding()
    before = task.graph.error(values)
    found = sorting.sorted(values, budget.ends_with(budget.remaining))
    cost = task.graph.error(found.values)
    note = f"from {source} ({before:.6g}), {found.steps} steps, {found.outliers} of {sorting.count} thrown out"
    values = found.values if cost <= before else values
    return Finding(
        StageName.GRADUATED, note + ("" if found.ended else ", stopped early"), cost,
        then=(partial(optimised, values, FoundBy.GRADUATED),),
    )  # fmt: skip


def is_settled(known: Incumbent) -> bool:
    """Whether nothing can be better than the best values, whatever is thrown out."""
    certificate = known.certificate
    return bool(certificate) and (certificate.region is None or certificate.region.is_unconditional)


def _initialisation(task: Task, reading: Reading) -> gtsam.Values:
    """The chordal initialisation of the graph without its losses."""
    start = ChordalStart.build(Problem.build(reading.gaussian, at_measurements=True))
    return task.completed(start.values(start.Y), task.given)


def _initialisation_without(task: Task, reading: Reading) -> gtsam.Values:
    """The chordal initialisation of the graph without its robust factors, if the others hold all variables.

    Raises:
        GtsamSdpError: they do not.
    """
    robust = {int(index) for group in reading.robust for index in group.index}
    rest = gtsam.NonlinearFactorGraph()
    for index in range(task.graph.size()):
        factor: Any = task.graph.at(index)
        if factor is not None and index not in robust:
            rest.push_back(factor)
    if rest.size() == 0 or len(robust) == 0:
        raise GtsamSdpError("no factor is without a robust loss")
    return task.completed(starting_values(rest, task.options.on_unsupported), task.given)


@dataclass(frozen=True)
class Sorted:
    """Where a run ended.

    Attributes:
        values: local optimum of the last step.
        weights: of the robust factors, (m,).
        steps: of the control parameter that were optimised.
        ended: whether the last step was reached, and not the end of the time.
    """

    values: gtsam.Values
    weights: Array
    steps: int
    ended: bool

    @property
    def outliers(self) -> int:
        """Number of factors that count for less than half."""
        return int((self.weights < 0.5).sum())


@dataclass(frozen=True)
class Sorting:
    """The robust factors of a graph, ready to be weighted.

    Attributes:
        certain: the other factors.
        factors: the robust factors with their Gaussian noise.
        models: these noise models.
        limit: squares of the thresholds, in squares of whitened residuals, (m,).
    """

    certain: gtsam.NonlinearFactorGraph
    factors: Sequence[Any]
    models: Sequence[Any]
    limit: Array

    @classmethod
    def of(cls, reading: Reading) -> Sorting:
        """From a reading."""
        certain, factors, models, limit = gtsam.NonlinearFactorGraph(), [], [], []
        robust: dict[int, float] = {}
        for group in reading.robust:
            assert group.loss is not None
            least = float(chdtri(group.information.shape[1], _OUTSIDE))
            robust |= dict.fromkeys(group.index.tolist(), max(group.loss.threshold**2, least))
        for index, factor in zip(reading.table.index.tolist(), reading.table.factors, strict=True):
            if index not in robust:
                certain.push_back(factor)
                continue
            models.append(factor.noiseModel().noise())
            factors.append(factor.cloneWithNewNoiseModel(models[-1]))
            limit.append(robust[index])
        return cls(certain, factors, models, np.array(limit))

    @property
    def count(self) -> int:
        """Number of robust factors."""
        return len(self.factors)

    def squares(self, values: gtsam.Values) -> Array:
        """Squares of the whitened residuals, (m,)."""
        return np.array([2 * factor.error(values) for factor in self.factors])

    def weighted(self, weights: Array) -> gtsam.NonlinearFactorGraph:
        """The graph with each robust factor's information times a weight, (m,)."""
        graph = gtsam.NonlinearFactorGraph(self.certain)
        for factor, model, weight in zip(self.factors, self.models, weights.tolist(), strict=True):
            graph.push_back(factor if weight == 1 else factor.cloneWithNewNoiseModel(_weaker(model, weight)))
        return graph

    def sorted(self, start: gtsam.Values, ends: float = math.inf) -> Sorted:
        """Graduated non-convexity from a start; no iteration is begun that would end late [s of perf_counter]."""
        values, squares = start, self.squares(start)
        control = _first_control(squares / self.limit)
        weights, done = np.full(self.count, -1.0), 0
        while True:
            new = _weights(squares / self.limit, control)
            if np.abs(new - weights).max(initial=0.0) > _SAME_WEIGHT:
                weights, done = new, done + 1
                values = _optimum(self.weighted(weights), values, ends)
                squares = self.squares(values)
            elif _are_sorted(weights):
                return Sorted(values, weights, done, ended=True)
            if control >= _LAST:
                return Sorted(values, weights, done, ended=True)
            if time.perf_counter() > ends:
                return Sorted(values, weights, done, ended=False)
            control *= _STEP


def _are_sorted(weights: Array) -> bool:
    """Whether each factor counts fully or not at all."""
    return bool((np.minimum(weights, 1 - weights) < _SAME_WEIGHT).all())


def _first_control(ratio: Array) -> float:
    """Where no residual is beyond the truncation yet; the last one where all are below the threshold."""
    largest = float(ratio.max(initial=0.0))
    return min(1 / (2 * largest - 1), _LAST) if largest > 0.5 else _LAST


def _weights(ratio: Array, control: float) -> Array:
    """Weights for squares of residuals relative to those of the thresholds, (m,)."""
    between = np.sqrt(control * (control + 1) / np.maximum(ratio, 1e-300)) - control
    return np.clip(between, _LEAST_WEIGHT, 1.0)


def _weaker(model: Any, weight: float) -> Any:
    """A Gaussian noise model with the information times a weight."""
    if type(model).__name__ == "Gaussian":
        return gtsam.noiseModel.Gaussian.SqrtInformation(math.sqrt(weight) * model.R())
    return gtsam.noiseModel.Diagonal.Sigmas(model.sigmas() / math.sqrt(weight))


def _optimum(graph: gtsam.NonlinearFactorGraph, values: gtsam.Values, ends: float) -> gtsam.Values:
    """Near where Levenberg-Marquardt ends; the values themselves where it fails."""
    before = math.inf

    def go_on(iterations: int, cost: float) -> bool:
        nonlocal before
        last, before = before, cost
        return not last - cost <= _SETTLED * last

    try:
        found = levenberg_marquardt(graph, values, _ITERATIONS, ends, go_on)
    except (RuntimeError, ValueError):
        return values
    return found.values if math.isfinite(found.cost) else values
