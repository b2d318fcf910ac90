"""The ladder of methods behind `solve` and `refine`: the best values, the best proof, and the steps that led there."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Literal

import gtsam
import numpy as np

from gtsam_sdp.backends.choose import BackendChoice, choose_backend
from gtsam_sdp.certification.conclude import certify_problem
from gtsam_sdp.deadline import until
from gtsam_sdp.errors import GtsamSdpError, InvalidGraphError, ProblemTooLargeError, SolveFailedError
from gtsam_sdp.lift.problem import Problem
from gtsam_sdp.linalg.array import Array
from gtsam_sdp.lowrank.descent import descend
from gtsam_sdp.lowrank.quadratic import Quadratic
from gtsam_sdp.lowrank.staircase import climb, rounded
from gtsam_sdp.progress import Clock, report_step
from gtsam_sdp.proof.bound import verify_bound
from gtsam_sdp.proof.multipliers import closed_form_multipliers
from gtsam_sdp.reading.checks import check_tolerance, some_keys
from gtsam_sdp.reading.graph import OnUnsupported, Reading, read, reread
from gtsam_sdp.relaxation.relaxation import LiftChoice, Relaxation, check_lift
from gtsam_sdp.relaxation.tree import OrderingChoice, check_ordering
from gtsam_sdp.results.certificate import Certificate
from gtsam_sdp.results.notes import Note, NoteKind, Remedy
from gtsam_sdp.results.sdp_solution import SdpSolution
from gtsam_sdp.results.solution import Proof, Solution, Stage, with_bound
from gtsam_sdp.search.budget import Budget
from gtsam_sdp.search.continuation import Weights, continued
from gtsam_sdp.search.local import Ending, optimise
from gtsam_sdp.search.multilateration import placed_by_ranges
from gtsam_sdp.search.start import ChordalStart, starting_values, with_hard_values, zero_values
from gtsam_sdp.terms.terms import Exactness, Terms, are_exact, convex
from gtsam_sdp.tolerances import FAR_FROM_OPTIMUM, MAX_FLOPS_FIRST, SAME_COST, WORTH_A_STEP

SolveMethod = Literal["auto", "local", "staircase", "chordal"]

_DESCENT = 3e-7
"""Relative decrease at which a descent ends, if the tolerance asks for no less: a hundredth of it may be left."""

_ROUGH_DESCENT = 1e-4
"""The same where the graph itself is optimised afterwards."""

_HOPELESS = 10.0
"""A local optimisation that is at so many times the best cost after `_PATIENCE` iterations is given up."""

_PATIENCE = 20

_PROMISE = 10.0
"""All later steps of an optimisation gain at most so many times what the last one did, as is assumed."""

_MOST = 0.5
"""Share of the cost above which dropped factors make a bound useless."""

_IN_VAIN = "values like these cannot be certified, and no global method is tried"

_SHARE = 0.9
"""Share of the time left that a global method gets: what it finds is to be optimised and certified."""

_RELAXATION = "the relaxation on cliques"

_STAIRCASES = 4
"""Staircases with tangents at better and better values."""


@dataclass(frozen=True)
class Options:
    """What `solve` and `refine` were asked for, checked."""

    method: SolveMethod
    lift: LiftChoice
    ordering: OrderingChoice
    backend: BackendChoice
    tolerance: float
    time_limit: float | None
    seed: int
    on_unsupported: OnUnsupported = "raise"

    def __post_init__(self) -> None:
        if self.method not in ("auto", "local", "staircase", "chordal"):
            raise ValueError(f'method must be "auto", "local", "staircase" or "chordal", not {self.method!r}.')
        if self.time_limit is not None and not self.time_limit >= 0:
            raise ValueError(f"time_limit must be a number of seconds or None, not {self.time_limit!r}.")
        check_tolerance(self.tolerance)
        check_lift(self.lift)
        check_ordering(self.ordering)
        choose_backend(self.backend)


@dataclass(frozen=True)
class Rung:
    """A global method and its name."""

    name: str
    climb: Callable[[], None]


@dataclass
class Search:
    """The state of a ladder: the best values so far, the best bound, and the steps that led there."""

    graph: gtsam.NonlinearFactorGraph
    options: Options
    budget: Budget = field(init=False)
    stages: list[Stage] = field(default_factory=list)
    values: gtsam.Values | None = None
    certificate: Certificate | None = None
    method: str = ""
    given_cost: float = math.nan
    proof: Proof | None = None
    relaxation: SdpSolution | None = None
    reading: Reading | None = None
    exact_terms: Sequence[Terms] | None = None
    given: gtsam.Values | None = None
    was_cut_short: bool = False

    @property
    def best(self) -> Certificate:
        """Certificate of the best values, with the best bound."""
        assert self.certificate is not None, "nothing was judged yet"
        return with_bound(self.certificate, self.proof)

    def __post_init__(self) -> None:
        self.budget = Budget(self.options.time_limit)

    @property
    def is_over(self) -> bool:
        """Whether nothing is to be begun any more."""
        return bool(self.best) or self.budget.remaining <= 0

    @property
    def gains_by_a_step(self) -> bool:
        """Whether one more step from the best values gains a part of the gap that is worth it."""
        known = self.best
        if known.zero_cost or not known.stationarity > SAME_COST:
            return False
        return known.stationarity * known.cost > WORTH_A_STEP * known.gap

    @property
    def far_from_optimum(self) -> bool:
        """Whether the best values are no local optimum."""
        return not self.best and self.best.stationarity > FAR_FROM_OPTIMUM

    def _record(self, name: str, began: float, cost: float, lower_bound: float, note: str) -> None:
        stage = Stage(name, time.perf_counter() - began, cost, lower_bound, note)
        self.stages.append(stage)
        numbers = {"cost": cost, "bound": lower_bound}
        known = [f"{what} {number:.8g}" for what, number in numbers.items() if math.isfinite(number)]
        report_step(name, ", ".join(part for part in (*known, note) if part), stage.seconds)

    def _keep(self, proof: Proof) -> None:
        """Keeps the best proof."""
        if self.proof is None or proof.lower_bound > self.proof.lower_bound:
            self.proof = proof

    def judge(self, values: gtsam.Values, name: str, method: str) -> None:
        """Certifies values, and keeps them if they are the best."""
        began = time.perf_counter()
        reading = self._read(values)
        with until(self.budget.proof_ends) as deadline:
            problem = Problem.build(reading) if self.exact_terms is None else Problem(reading, self.exact_terms)
            certificate = certify_problem(self.graph, values, problem, Clock(), tolerance=self.options.tolerance)
        if deadline.was_felt:
            self.budget.leave("the whole proof at the values")
        self._record(name, began, certificate.cost, certificate.lower_bound, certificate.status.name)
        self.budget.certified_in(self.stages[-1].seconds)
        self._keep(Proof.of_certificate(certificate))
        if method == "given":
            self.given_cost = certificate.cost
        known = math.inf if self.certificate is None else self.certificate.cost
        if self.certificate is None or certificate.cost < known:
            self.values, self.certificate = values, certificate
        if not self.method or certificate.cost < known * (1 - SAME_COST):
            self.method = method

    def optimise(self, start: gtsam.Values, name: str, method: str) -> None:
        """Optimises the user's graph with GTSAM, and judges the result if it is news."""
        began = time.perf_counter()
        reading = self._read(start, at_any_values=True)
        if reading.hard:
            start = self._completed(reading.layout.unlift(with_hard_values(reading).estimate), start)
        cost = self.graph.error(start)
        if method == "local" and math.isnan(self.given_cost):
            self.given_cost = cost
        found, note = self._local_optimum(start)
        found_cost = self.graph.error(found)
        self._record(name, began, found_cost, -math.inf, f"from {cost:.6g}{note}")
        self.budget.optimising = self.stages[-1].seconds
        is_known = self.certificate is not None and not self.far_from_optimum
        is_lost = self.certificate is not None and not math.isfinite(found_cost)
        if not is_lost and (not is_known or found_cost < self.best.cost * (1 - SAME_COST)):
            self.judge(found, "certify", method)

    def _local_optimum(self, start: gtsam.Values) -> tuple[gtsam.Values, str]:
        """Where Levenberg-Marquardt ends, and why if it did not converge; the start itself where it fails."""
        try:
            found = optimise(self.graph, start, ends=self.budget.ends, go_on=self._hope())
        except (RuntimeError, ValueError) as error:  # GTSAM throws both
            return start, f"; the optimizer failed: {str(error).strip().splitlines()[0]}"
        if not np.isfinite(found.cost):
            return start, "; the optimizer diverged"
        self.was_cut_short = found.ending in (Ending.LIMIT, Ending.NO_STEP)
        return found.values, found.note

    def _hope(self) -> Callable[[int, float], bool]:
        """Whether an optimisation may still find something: not if it is far above the best, or comes back to it."""
        best = math.inf if self.certificate is None else self.certificate.cost
        enough = best * (1 - self.options.tolerance / 10)
        before = math.inf

        def go_on(iterations: int, cost: float) -> bool:
            nonlocal before
            promised, before = cost - _PROMISE * (before - cost), cost
            return iterations < _PATIENCE or (cost <= _HOPELESS * best and (cost <= best or promised < enough))

        return go_on

    def solve(self, initial: gtsam.Values | None) -> Solution:
        """The whole ladder, from values or none."""
        self.given = initial
        if initial is not None:
            self._tell_of_dropped(initial)
        first, *others = self._starts(initial)
        first()
        for start in (self._step_up_weights, *others):
            is_unfinished = self.was_cut_short and start == self._step_up_weights  # which may take few more iterations
            if not self.is_over or (is_unfinished and self.budget.remaining > 0):
                start()
        return self.climb()

    def refine(self, values: gtsam.Values) -> Solution:
        """The whole ladder, as far as the values given are not good enough."""
        self.given = values
        self.judge(values, "certify", "given")
        self._tell_of_dropped(values)
        if (self.far_from_optimum or self.gains_by_a_step) and self.budget.remaining > 0:
            self.optimise(values, "optimise", "local")
        if self.options.method == "auto":
            for start in (self._step_up_weights, self.start_without_values):
                if not self.is_over:
                    start()
        return self.climb()

    def _tell_of_dropped(self, values: gtsam.Values) -> None:
        """Says that the bound will leave a gap where most of the cost is that of dropped factors."""
        reading = self._read(values, at_any_values=True)
        at = np.searchsorted(reading.table.index, [offender.index for offender in reading.dropped])
        dropped, cost = float(reading.costs[at].sum()), float(reading.costs.sum())
        if dropped > _MOST * cost:
            what = f"{len(at)} factors cost {dropped:.4g} of {cost:.4g} and count as 0 in the bound: {_IN_VAIN}"
            report_step("dropped", what, 0.0)

    @property
    def _is_in_vain(self) -> bool:
        """Whether no bound can be near the best cost, because dropped factors make up most of it."""
        terms = self.best.terms
        dropped = terms.cost[terms.exactness == Exactness.DROPPED].sum()
        return not self.best and bool(dropped > _MOST * self.best.cost)

    def _notes(self) -> tuple[Note, ...]:
        """Those of the best certificate, less advice that was followed, and what became of it."""
        notes = [note for note in self.best.notes if note.remedy not in (Remedy.REFINE, Remedy.OPTIMISE)]
        if self.far_from_optimum:
            ended = "the time ended before the optimizer" if self.budget.remaining <= 0 else "no step led to one"
            notes.append(Note(f"the values are not a local optimum: {ended}", NoteKind.ADVICE))
        elif math.isnan(self.best.stationarity) and not self.best:
            text = "the time ended before it was known whether the values are a local optimum"
            notes.append(Note(text, NoteKind.ADVICE))
        if self._is_in_vain:
            notes.append(Note(f"the dropped factors make up most of the cost: {_IN_VAIN}", NoteKind.ADVICE))
        return tuple(notes)

    def _starts(self, initial: gtsam.Values | None) -> Sequence[Callable[[], None]]:
        """Local optimisations from the values given and from the chordal initialisation, the lower cost first."""
        if initial is None:
            return (self.start_without_values,)
        given = partial(self.optimise, initial, "optimise", "local")
        if self.options.method != "auto" or self.budget.remaining <= 0:
            return (given,)
        self._read(initial, at_any_values=True)
        if not self.budget.fits_an_initialisation:
            self.budget.leave("the chordal initialisation")
            return (given,)
        self.given_cost = self.graph.error(initial)
        starts = (given, self.start_without_values)
        costs = [cost if math.isfinite(cost) else math.inf for cost in (self.given_cost, self._initialisation[1])]
        return starts if costs[0] < costs[1] else starts[::-1]

    @cached_property
    def _initialisation(self) -> tuple[ChordalStart, float]:
        """The chordal initialisation and its cost."""
        began = time.perf_counter()
        reading = self.reading or self._read(zero_values(self.graph, self.options.on_unsupported), at_any_values=True)
        start = ChordalStart.build(self._problem(reading, at_measurements=True))
        if self.exact_terms and start.quadratic is not None:
            cost = start.quadratic.qcqp.cost(start.Y)
        else:
            cost = float(self.graph.error(self._completed(start.values(start.Y))))
        self._record("chordal initialisation", began, cost, -math.inf, "")
        return start, cost

    def start_without_values(self) -> None:
        """Optimises from the chordal initialisation: in the lifted problem, and the graph itself where they differ."""
        start, cost = self._initialisation
        if self.certificate is None and self.budget.remaining <= 0:
            self.judge(self._completed(start.values(start.Y)), "certify", "chordal initialisation")
            return
        began = time.perf_counter()
        values = self._completed(start.values(self._descend(start.quadratic, start.Y)))
        descended = self.graph.error(values)
        self._record("descent", began, descended, -math.inf, f"from {cost:.6g}")
        if self.exact_terms:
            self.judge(values, "certify", "chordal initialisation")
        if not self.exact_terms or (self.far_from_optimum and self.budget.remaining > 0):
            values = values if descended <= cost else self._completed(start.values(start.Y))
            self.optimise(values, "optimise", "chordal initialisation")

    def _step_up_weights(self) -> None:
        """Optimises the graph with small weights first, where they span many decades."""
        if self.options.method != "auto":
            return
        began = time.perf_counter()
        weights = Weights.of(self.graph)
        if not weights.span_decades:
            return
        values = continued(weights, self._soft_starts, began + _SHARE * self.budget.remaining)
        note = f"weights in {len(weights.caps)} steps"
        self._record("continuation", began, self.graph.error(values), -math.inf, note)
        self.optimise(values, "optimise", "continuation")

    def _soft_starts(self, graph: gtsam.NonlinearFactorGraph) -> Sequence[gtsam.Values]:
        """The best values, and the chordal initialisation of a graph with other weights."""
        assert self.values is not None
        try:
            return (self._completed(starting_values(graph, self.options.on_unsupported)), self.values)
        except GtsamSdpError:
            return (self.values,)

    def _completed(self, values: gtsam.Values, known: gtsam.Values | None = None) -> gtsam.Values:
        """Values from the lifted problem; for keys that it does not have, because no term is about them, those known.

        Raises:
            InvalidGraphError: none are known.
        """
        assert self.reading is not None
        keys = self.reading.table.distinct_keys.tolist()
        if values.size() == len(keys):
            return values
        missing = [key for key in keys if not values.exists(key)]
        known = known or self.values or self.given
        if known is None:
            raise InvalidGraphError(
                f"Only dropped factors hold {some_keys(missing)}, so that nothing tells where to start. "
                "Give initial values."
            )
        kept = gtsam.Values(known)
        for key in set(kept.keys()).difference(missing):
            kept.erase(key)
        values.insert(kept)
        return values

    def _descend(self, quadratic: Quadratic | None, Y: Array) -> Array:
        """A local minimum of the lifted cost."""
        if quadratic is None:
            return Y
        tolerance = min(_DESCENT, self.options.tolerance / 3) if self.exact_terms else _ROUGH_DESCENT
        return descend(quadratic, Y, tolerance, ends=self.budget.ends).Y

    def climb(self) -> Solution:
        """The global methods, as far as they are needed, and the solution."""
        self._climb_rungs()
        certificate = replace(self.best, notes=self._notes())
        assert self.values is not None
        gain = self.given_cost - certificate.cost
        return Solution(
            values=self.values,
            cost=certificate.cost,
            certificate=certificate,
            method=self.method,
            stages=tuple(self.stages),
            improvement=gain if math.isfinite(gain) else 0.0,
            relaxation=self.relaxation,
            untried=tuple(self.budget.untried) if not certificate else (),
        )

    def _climb_rungs(self) -> None:
        """The global methods, as long as they are worth it."""
        if self.best or self.options.method == "local":
            return
        if self.options.method == "auto" and self._is_in_vain:
            return
        if self.budget.remaining <= 0:
            self.budget.leave("the global methods")
            return
        rungs = list(self._rungs())
        while rungs and not self.best:
            gap = max(self.best.gap, 1e-300)
            rungs.pop(0).climb()
            if rungs and not self.best and self.budget.is_spent(1 - self.best.gap / gap):
                for rung in rungs:
                    self.budget.leave(rung.name)
                return

    def _rungs(self) -> Sequence[Rung]:
        """The global methods, the cheaper one first."""
        staircase = Rung("the staircase", self._climb_staircase)
        if self.options.method != "auto":
            return (staircase if self.options.method == "staircase" else Rung(_RELAXATION, self._relax),)
        problem = self._at_best(at_measurements=True)
        if not problem.terms:
            return ()
        relaxation = self._relaxation(problem)
        cost = relaxation.predicted_cost
        relax = Rung(_RELAXATION, partial(self._relax, relaxation))
        if cost.fits and any(batch.distances is not None for batch in problem.terms):
            return (relax,)  # which chooses the tangents of ranges; the staircase has to take flat ones
        if cost.fits and cost.flops <= MAX_FLOPS_FIRST:
            return (relax, staircase)
        return (staircase, replace(relax, climb=self._relax))

    def _read(self, values: gtsam.Values, *, at_any_values: bool = False) -> Reading:
        """The graph at some values; its factors are read once."""
        if self.reading is None:
            began = time.perf_counter()
            self.reading = read(self.graph, values, self.options.on_unsupported, at_any_values=at_any_values)
            self.budget.reading = time.perf_counter() - began
        else:
            self.reading = reread(self.reading, self.graph, values, at_any_values=at_any_values)
        return self.reading

    def _at_best(self, *, at_measurements: bool) -> Problem:
        """The graph at the best values, lifted."""
        assert self.values is not None
        return self._problem(self._read(self.values), at_measurements=at_measurements)

    def _problem(self, reading: Reading, *, at_measurements: bool) -> Problem:
        """The lifted problem; terms that are the graph's cost and do not depend on the values are built once."""
        if self.exact_terms is not None:
            return Problem(reading, self.exact_terms)
        problem = Problem.build(reading, at_measurements=at_measurements)
        if not reading.user_factors and not reading.dropped and are_exact(problem.terms):
            self.exact_terms = problem.terms
        return problem

    def _climb_staircase(self) -> None:
        """The staircase with terms that touch each cost at zero error, then at better and better values."""
        for round_ in range(_STAIRCASES):
            problem = self._at_best(at_measurements=round_ == 0)
            if not problem.terms:
                return
            cost = self.best.cost
            self._climb_once(problem, for_bound=round_ > 0)
            improves = self.best.cost < cost * (1 - self.options.tolerance)
            if self.is_over or not _has_tangents(problem.terms) or not (improves or round_ == 0):
                return
            if self.budget.is_spent(float(improves)):
                self.budget.leave("the staircase with tangents at the solution")
                return

    def _climb_once(self, problem: Problem, *, for_bound: bool) -> None:
        """One staircase from the best values; with tangents there it is climbed for its bound rather than its point."""
        began = time.perf_counter()
        # other tangents of ranges may leave the lifted cost without a minimum
        space = problem.layout.space
        flat_terms = [batch if batch.distances is None else convex(batch, space.rows) for batch in problem.terms]
        problem = problem.with_terms(flat_terms)
        qcqp, columns = problem.qcqp, 2 * space.dimension + 2
        quadratic = Quadratic(qcqp)
        ends = time.perf_counter() + _SHARE * self.budget.for_a_rung
        climbed = climb(quadratic, problem.Y, max_columns=columns, ends=ends, seed=self.options.seed)
        if climbed.was_late:
            self.budget.leave("the staircase to its end")
        flat = rounded(qcqp, climbed.Y)
        bound = verify_bound(qcqp, closed_form_multipliers(qcqp, climbed.Y), flat)
        values = self._completed(qcqp.unlift(flat))
        note = f"{climbed.columns} columns{'' if climbed.is_second_order else ', stopped early'}, rounded"
        self._record("staircase", began, self.graph.error(values), max(bound.value, 0.0), note)
        self._keep(Proof.of(bound, "staircase", self.stages[-1].seconds))
        if not (climbed.was_late and for_bound):
            self.optimise(values, "optimise", "staircase")

    def _relax(self, relaxation: Relaxation | None = None) -> None:
        """The relaxation with terms that touch each cost at zero error, then at the best values."""
        if relaxation is None:
            problem = self._at_best(at_measurements=True)
            if not problem.terms:
                return
            relaxation = self._relaxation(problem)
        if not self._is_worth_it(relaxation):
            return
        values = self._solve_sdp(relaxation, "relaxation")
        if values is None or (self.budget.remaining <= 0 and self.options.method == "auto"):
            return
        seconds = self.stages[-1].seconds
        terms = relaxation.lift.terms
        self.optimise(self._placed(values, terms), "optimise", "chordal")
        if self.is_over or not _has_tangents(terms):
            return
        if self.budget.allows(f"{_RELAXATION} with tangents at the solution", seconds, self._tolerances):
            self._solve_sdp(self._relaxation(self._at_best(at_measurements=False)), "relaxation at the solution")

    def _is_worth_it(self, relaxation: Relaxation) -> bool:
        """Whether a relaxation is begun: it is where that was asked for, and where it is refused for its size."""
        cost = relaxation.predicted_cost
        if self.options.method != "auto" or not cost.fits:
            return True
        return self.budget.allows(_RELAXATION, cost.seconds, self._tolerances)

    @property
    def _tolerances(self) -> float:
        """The gap, counted in tolerances."""
        return self.best.relative_gap / max(self.options.tolerance, 1e-300)

    def _placed(self, values: gtsam.Values, terms: Sequence[Terms]) -> gtsam.Values:
        """Values with positions that only ranges hold where these meet, if that is better."""
        if all(batch.distances is None for batch in terms):
            return values
        reading = self._read(values, at_any_values=True)
        placed = self._completed(reading.layout.unlift(placed_by_ranges(reading, terms, reading.estimate)))
        return placed if self.graph.error(placed) < self.graph.error(values) else values

    def _relaxation(self, problem: Problem) -> Relaxation:
        return Relaxation.build(problem, lift=self.options.lift, ordering=self.options.ordering)

    def _solve_sdp(self, relaxation: Relaxation, name: str) -> gtsam.Values | None:
        """Solves a relaxation and keeps its bound; its values, None if it is too large or the solver found no point."""
        began = time.perf_counter()
        limit = max(_SHARE * self.budget.for_a_relaxation, 1e-3)
        try:
            solution = relaxation.solve(self.options.backend, time_limit=limit)
        except (ProblemTooLargeError, SolveFailedError) as error:
            if self.options.method == "chordal":
                raise
            self._record(name, began, math.inf, -math.inf, str(error).split(". ")[0])
            return None
        values = self._completed(solution.recover())
        self._record(name, began, self.graph.error(values), solution.lower_bound, solution.summary)
        self._keep(Proof.of(solution.bound, "chordal SDP", self.stages[-1].seconds))
        self.relaxation = solution
        return values


def _has_tangents(terms: Sequence[Terms]) -> bool:
    """Whether terms depend on the values; the relaxation takes tangents of distances where they are best."""
    return any((b.exactness == int(Exactness.TANGENT)).any() for b in terms if b.distances is None)
