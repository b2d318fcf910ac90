"""Graduated non-convexity: which factors with a robust loss fit and which do not, found from starts that do not know.

The loss of all these factors is replaced by truncated least squares, made nearly convex at first and true step by step
(`gtsam.GncLMOptimizer` does the same). Here each factor has a threshold of its own, factors of any kind may be in the
graph, and the time is kept. What it finds is a start for the user's own graph, and nothing else depends on it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

import gtsam
import numpy as np
from scipy.special import chdtri

from gtsam_sdp.errors import GtsamSdpError
from gtsam_sdp.lift.problem import Problem
from gtsam_sdp.linalg.array import Array
from gtsam_sdp.progress import report_now
from gtsam_sdp.reading.graph import Reading
from gtsam_sdp.results.solution import FoundBy, StageName
from gtsam_sdp.search.budget import LONG, Budget
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

_PARTS = 10
"""In so many parts the robust factors are taken in, where that is done in order."""

_AGAIN = 4
"""Runs from the best values, as long as they gain."""

_SAME_END = 1e-6
"""Relative difference of costs up to which two optimisations ended at the same values."""

_SAME_WEIGHT = 0.02
"""Relative change of weights after which their graph is not optimised again."""


_Start: TypeAlias = tuple[str, Callable[[gtsam.Values | None], gtsam.Values | None]]
"""Where a run starts, by name: a function of the best values that are known."""


def starts(task: Task, known: Incumbent, budget: Budget) -> Finding:
    """Graduated non-convexity from what is not robust alone, from the values, and from the chordal initialisation.

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
    alone = _unless_certified(known, given)
    sorting = Sorting.of(reading)
    truncated, smooth = sorting.truncated, sorting.smooth
    runs = []
    if given is None or budget.fits_an_initialisation:
        without: _Start = ("what is not robust", lambda _: _initialisation_without(task, reading))
        runs = [
            partial(_graduated, truncated, without),
            partial(_graduated, smooth, ("what is not robust, with a smooth loss", without[1])),
            partial(_graduated, sorting.in_order, ("what is not robust, in the order of the keys", without[1])),
            partial(_graduated, truncated, ("the chordal initialisation", lambda _: _initialisation(task, reading))),
        ]
    else:
        budget.leave("the chordal initialisation")
    if given is not None:
        runs.insert(1, partial(_graduated, truncated, ("the values given", lambda _: given)))
    again = partial(_graduated, truncated, ("the best values", lambda best: best))
    runs += [again, *(only_if(_has_gained, again),) * (_AGAIN - 1)]
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


def _graduated(run: _Run, source: _Start, task: Task, known: Incumbent, budget: Budget) -> Finding:
    """One run from one start, then the user's own graph; not where no time is left."""
    name, start = source
    if known.certificate is not None and not _is_worth_it(known, budget):
        budget.leave(f"graduated non-convexity from {name}")
        return Finding()
    try:
        values = start(known.values)
    except GtsamSdpError:
        return Finding()
    if values is None:
        return Finding()
    before = task.graph.error(values)
    found = run(values, budget.ends_with(budget.remaining))
    cost = task.graph.error(found.values)
    note = f"from {name} ({before:.6g}), {found.steps} steps, {found.outliers} thrown out"
    # what is worse for the user's losses may be the better start all the same, but not after half a run
    values = found.values if found.ended or cost <= before else values
    return Finding(
        StageName.GRADUATED, note + ("" if found.ended else ", stopped early"), cost,
        then=(partial(optimised, values, FoundBy.GRADUATED),),
    )  # fmt: skip


def _is_worth_it(known: Incumbent, budget: Budget) -> bool:
    """Whether there is time for one more run: without a limit half a minute, and longer where the last one gained."""
    if budget.limit is not None:
        return budget.remaining > 0
    return budget.elapsed < LONG or _has_gained(known, budget)


def _has_gained(known: Incumbent, budget: Budget) -> bool:
    """Whether the last run led to better values: only these are certified."""
    return known.stages[-1].name == StageName.CERTIFY


def is_settled(known: Incumbent) -> bool:
    """Whether the best values are certified, whatever is thrown out."""
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


_Run: TypeAlias = Callable[[gtsam.Values, float], Sorted]
"""Graduated non-convexity from values, up to a reading of `time.perf_counter` [s]."""


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

    def smoothed(self, scale: float) -> gtsam.NonlinearFactorGraph:
        """The graph with the loss of Geman and McClure, each constant a multiple of the threshold."""
        graph, noises = gtsam.NonlinearFactorGraph(self.certain), {}
        for factor, model, limit in zip(self.factors, self.models, self.limit.tolist(), strict=True):
            if (id(model), limit) not in noises:
                loss = gtsam.noiseModel.mEstimator.GemanMcClure.Create(scale * math.sqrt(limit))
                noises[id(model), limit] = gtsam.noiseModel.Robust.Create(loss, model)
            graph.push_back(factor.cloneWithNewNoiseModel(noises[id(model), limit]))
        return graph

    def smooth(self, start: gtsam.Values, ends: float = math.inf) -> Sorted:
        """As `truncated`, with a loss that throws out nothing for good: its constant falls to the threshold."""
        values, done = start, 0
        square = max(2 * float((self.squares(start) / self.limit).max(initial=0.0)), 1.0)
        while True:
            values, done = _optimum(self.smoothed(math.sqrt(square)), values, ends), done + 1
            if square == 1 or time.perf_counter() > ends:
                weights = (1 + self.squares(values) / (self.limit * square)) ** -2.0
                return Sorted(values, weights, done, ended=square == 1)
            square = max(square / _STEP, 1.0)

    def in_order(self, start: gtsam.Values, ends: float = math.inf) -> Sorted:
        """As `truncated`, with more and more of the factors in the order of their keys, as they were measured usually.

        Where odometry drifts far, the first factors bring back the map before the later ones are judged.
        """
        order = np.argsort([max(factor.keys()) for factor in self.factors], kind="stable")
        parts = min(_PARTS, self.count)
        found, steps = Sorted(start, np.ones(0), 0, ended=True), 0
        for part in range(1, parts + 1):
            chosen = np.sort(order[: self.count * part // parts]).tolist()
            factors, models = ([own[k] for k in chosen] for own in (self.factors, self.models))
            found = Sorting(self.certain, factors, models, self.limit[chosen]).truncated(found.values, ends)
            steps += found.steps
            if not found.ended or time.perf_counter() > ends:
                return replace(found, steps=steps, ended=found.ended and part == parts)
        return replace(found, steps=steps)

    def truncated(self, start: gtsam.Values, ends: float = math.inf) -> Sorted:
        """Graduated non-convexity from a start; no iteration is begun that would end late [s of perf_counter]."""
        values, squares = start, self.squares(start)
        control = _first_control(squares / self.limit)
        weights, done = np.zeros(self.count), 0
        while True:
            new = _weights(squares / self.limit, control)
            if (np.abs(new - weights) > _SAME_WEIGHT * weights).any():
                weights, done = new, done + 1
                values = _optimum(self.weighted(weights), values, ends)
                squares = self.squares(values)
            if _are_sorted(squares / self.limit, control) or control >= _LAST:
                return Sorted(values, weights, done, ended=True)
            if time.perf_counter() > ends:
                return Sorted(values, weights, done, ended=False)
            control *= _STEP


def _are_sorted(ratio: Array, control: float) -> bool:
    """Whether each factor counts fully or not at all, for squares of residuals relative to those of the thresholds."""
    bend = control / (control + 1)
    return not ((ratio > bend) & (ratio * bend < 1)).any()


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

    report_now("graduated non-convexity")
    try:
        found = levenberg_marquardt(graph, values, _ITERATIONS, ends, go_on)
    except (RuntimeError, ValueError):
        return values
    return found.values if math.isfinite(found.cost) else values
