"""What a search is about: the graph, what was asked for, and the readings and terms that all methods share."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

import gtsam

from gtsam_sdp.backends.choose import BackendChoice, choose_backend
from gtsam_sdp.errors import InvalidGraphError
from gtsam_sdp.lift.problem import Problem
from gtsam_sdp.progress import report_now
from gtsam_sdp.reading.checks import check_tolerance, some_keys
from gtsam_sdp.reading.graph import OnUnsupported, Reading, read, reread
from gtsam_sdp.relaxation.relaxation import LiftChoice, Relaxation, check_lift
from gtsam_sdp.relaxation.tree import OrderingChoice, check_ordering
from gtsam_sdp.terms.terms import Exactness, Terms, are_exact

SolveMethod = Literal["auto", "local", "staircase", "sdp"]


class Strategy(StrEnum):
    """How far to search: `SolveMethod` by name."""

    AUTO = "auto"
    LOCAL = "local"
    STAIRCASE = "staircase"
    SDP = "sdp"


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
        if self.method not in tuple(Strategy):
            raise ValueError(f'method must be "auto", "local", "staircase" or "sdp", not {self.method!r}.')
        if self.time_limit is not None and not self.time_limit >= 0:
            raise ValueError(f"time_limit must be a number of seconds or None, not {self.time_limit!r}.")
        check_tolerance(self.tolerance)
        check_lift(self.lift)
        check_ordering(self.ordering)
        choose_backend(self.backend)


@dataclass
class Task:
    """A graph to solve; its factors are read once.

    Attributes:
        graph: the graph.
        options: what was asked for.
        given: the user's values, None if there are none.
        reading: the graph at the values read last; None if none were.
        reading_seconds: time of the first reading [s].
        exact_terms: of the graph if they are its cost and depend on no values.
    """

    graph: gtsam.NonlinearFactorGraph
    options: Options
    given: gtsam.Values | None
    reading: Reading | None = None
    reading_seconds: float = 0.0
    exact_terms: Sequence[Terms] | None = None

    def read(self, values: gtsam.Values, *, at_any_values: bool = False) -> Reading:
        """The graph at some values."""
        report_now("reading the graph")
        if self.reading is None:
            began = time.perf_counter()
            self.reading = read(self.graph, values, self.options.on_unsupported, at_any_values=at_any_values)
            self.reading_seconds = time.perf_counter() - began
        else:
            self.reading = reread(self.reading, self.graph, values, at_any_values=at_any_values)
        return self.reading

    def problem(self, values: gtsam.Values, *, at_measurements: bool) -> Problem:
        """The lifted graph at some values, its terms as `lift`."""
        return self.lift(self.read(values), at_measurements=at_measurements)

    def lift(self, reading: Reading, *, at_measurements: bool) -> Problem:
        """The lifted graph; its terms touch each cost at zero error or at the values, exact ones are built once."""
        if self.exact_terms is not None:
            return Problem(reading, self.exact_terms)
        problem = Problem.build(reading, at_measurements=at_measurements)
        if not reading.user_factors and not reading.dropped and are_exact(problem.terms):
            self.exact_terms = problem.terms
        return problem

    def relaxation(self, problem: Problem) -> Relaxation:
        """The relaxation that was asked for."""
        return Relaxation.build(problem, lift=self.options.lift, ordering=self.options.ordering)

    def completed(self, values: gtsam.Values, known: gtsam.Values | None) -> gtsam.Values:
        """Values from the lifted problem; for keys that it does not have, because no term is about them, those known.

        Raises:
            InvalidGraphError: none are known, nor given.
        """
        assert self.reading is not None
        keys = self.reading.table.distinct_keys.tolist()
        if values.size() == len(keys):
            return values
        missing = [key for key in keys if not values.exists(key)]
        known = known or self.given
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


def have_tangents(terms: Sequence[Terms]) -> bool:
    """Whether terms depend on the values; the relaxation takes tangents of distances where they are best."""
    return any((b.exactness == int(Exactness.TANGENT)).any() for b in terms if b.distances is None)
