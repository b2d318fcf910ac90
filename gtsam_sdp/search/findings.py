"""What a method finds, and the best of all that was found: the only state that goes from one method to the next."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

import gtsam

from gtsam_sdp.proof.bound import VerifiedBound
from gtsam_sdp.results.certificate import Certificate
from gtsam_sdp.results.sdp_solution import SdpSolution
from gtsam_sdp.results.solution import FoundBy, Stage, StageName
from gtsam_sdp.search.budget import Budget
from gtsam_sdp.search.task import Task
from gtsam_sdp.terms.terms import Exactness
from gtsam_sdp.tolerances import FAR_FROM_OPTIMUM, SAME_COST, WORTH_A_STEP

_MOST = 0.5
"""Share of the cost above which dropped factors make a bound useless."""


@dataclass(frozen=True)
class Finding:
    """What a method found; nothing by default.

    Attributes:
        stage: what was done, None if nothing was.
        note: how it ended.
        cost: of the values that it found.
        values: these, if they are of use to the ladder.
        certificate: of the values, if they were certified.
        found_by: how the values were found.
        bound: a verified lower bound of the graph.
        bound_by: how the bound was found.
        relaxation: that was solved.
        was_cut_short: an optimizer stopped before its end, for another reason than the time.
        then: what follows from it, to be done next.
    """

    stage: StageName | None = None
    note: str = ""
    cost: float = math.inf
    values: gtsam.Values | None = None
    certificate: Certificate | None = None
    found_by: FoundBy = FoundBy.GIVEN
    bound: VerifiedBound | None = None
    bound_by: str = ""
    relaxation: SdpSolution | None = None
    was_cut_short: bool = False
    then: tuple[Method, ...] = ()

    @property
    def lower_bound(self) -> float:
        """What was verified, minus infinity if nothing was; no sum of squares is below 0."""
        if self.certificate is not None:
            return self.certificate.lower_bound
        return -math.inf if self.bound is None else max(float(self.bound.value), 0.0)


@dataclass(frozen=True)
class Incumbent:
    """The best that is known.

    Attributes:
        values: the best values, None before any were certified.
        certificate: of these, with the best bound of all stages.
        found_by: how the values were found.
        stages: the steps that led there.
        relaxation: the last one that was solved.
        was_cut_short: as that of the last optimisation.
    """

    values: gtsam.Values | None = None
    certificate: Certificate | None = None
    found_by: FoundBy = FoundBy.GIVEN
    stages: tuple[Stage, ...] = ()
    relaxation: SdpSolution | None = None
    was_cut_short: bool = False

    @property
    def best_values(self) -> gtsam.Values:
        """The best values, once some were certified."""
        assert self.values is not None, "nothing was certified yet"
        return self.values

    @property
    def best_certificate(self) -> Certificate:
        """Their certificate."""
        assert self.certificate is not None, "nothing was certified yet"
        return self.certificate

    @property
    def cost(self) -> float:
        """The lowest cost; infinite if none is known."""
        return math.inf if self.certificate is None else self.certificate.cost

    def is_final(self, budget: Budget) -> bool:
        """Whether nothing is to be begun any more."""
        return bool(self.certificate) or budget.remaining <= 0

    @property
    def gains_by_a_step(self) -> bool:
        """Whether one more step from the best values gains a part of the gap that is worth it."""
        known = self.best_certificate
        if known.zero_cost or not known.stationarity > SAME_COST:
            return False
        return known.stationarity * known.cost > WORTH_A_STEP * known.gap

    @property
    def is_far_from_optimum(self) -> bool:
        """Whether the best values are no local optimum."""
        known = self.best_certificate
        return not known and known.stationarity > FAR_FROM_OPTIMUM

    @property
    def is_in_vain(self) -> bool:
        """Whether no bound can be near the best cost, because dropped factors make up most of it."""
        known = self.best_certificate
        dropped = known.terms.cost[known.terms.exactness == Exactness.DROPPED].sum()
        return not known and is_most(dropped, known.cost)

    def joined(self, finding: Finding, seconds: float) -> Incumbent:
        """The best of both, and one more stage if anything was done."""
        if finding.stage is None:
            return self
        known, by = self._judged(finding) if finding.certificate is not None else self, finding.bound_by
        if (bound := finding.bound) is not None:
            proven = finding.lower_bound, bound.shift, bound.rounding, by, {by: seconds}
            known = replace(known, certificate=self.best_certificate.with_bound(*proven))
        is_optimised = finding.stage is StageName.OPTIMISE
        stage = Stage(finding.stage.value, seconds, finding.cost, finding.lower_bound, finding.note)
        return replace(
            known,
            stages=(*self.stages, stage),
            relaxation=finding.relaxation or self.relaxation,
            was_cut_short=finding.was_cut_short if is_optimised else self.was_cut_short,
        )

    def _judged(self, finding: Finding) -> Incumbent:
        """The values that cost less, with the better bound of both certificates."""
        best, other = finding.certificate, self.certificate
        assert best is not None
        if other is None or best.region is not None:  # a bound on a region is one of these values only
            if other is not None and not best.cost < other.cost:
                return self
            return replace(self, values=finding.values, certificate=best, found_by=finding.found_by)
        is_better, is_other = best.cost < other.cost, best.cost < other.cost * (1 - SAME_COST)
        if not is_better:
            best, other = other, best
        bound = other.lower_bound, other.shift, other.rounding, other.method, other.timings
        return replace(
            self,
            values=finding.values if is_better else self.values,
            certificate=best.with_bound(*bound),
            found_by=finding.found_by if is_other else self.found_by,
        )


def is_most(dropped: float, cost: float) -> bool:
    """Whether dropped factors make a bound useless."""
    return bool(dropped > _MOST * cost)


Method: TypeAlias = Callable[[Task, Incumbent, Budget], Finding]
"""A step of a search: what it finds for the task, from the best that is known, in the time that is left."""


def only_if(condition: Callable[[Incumbent, Budget], bool], method: Method) -> Method:
    """The method, done where a condition holds when its turn comes."""
    return lambda task, known, budget: method(task, known, budget) if condition(known, budget) else Finding()
