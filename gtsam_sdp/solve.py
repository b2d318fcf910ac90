"""refine: a global solve where a local solution is not certified, never worse than what it was given."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

import gtsam

from gtsam_sdp.certificate import Certificate, CertificateStatus
from gtsam_sdp.certify import certify
from gtsam_sdp.chordal.solution import SdpSolution
from gtsam_sdp.chordal.tree import OrderingChoice
from gtsam_sdp.factors.build import build_terms
from gtsam_sdp.progress import showing_progress
from gtsam_sdp.reading.graph import read
from gtsam_sdp.relax import Relaxation

T = TypeVar("T")


@dataclass(frozen=True)
class Stage:
    """One step of a solve: what was done, how long it took, and what was known after it."""

    name: str
    seconds: float
    cost: float
    lower_bound: float
    note: str


@dataclass(frozen=True)
class Solution:
    """The best values that were found, and what is proven about them.

    Attributes:
        values: the best values.
        cost: graph.error(values).
        certificate: of these values, with the best lower bound of all stages.
        method: how the values were found: "given" or "chordal".
        stages: the steps, in order.
        improvement: how much lower the cost is than that of the values given.
        relaxation: the solved relaxation, None if none was needed.
    """

    values: gtsam.Values
    cost: float
    certificate: Certificate
    method: str
    stages: tuple[Stage, ...]
    improvement: float
    relaxation: SdpSolution | None

    def __str__(self) -> str:
        lines = [str(self.certificate), f"  found by      {self.method}, {self.improvement:.6g} below the values given"]
        lines += [
            f"    {s.name:<22} {s.seconds:6.2f} s   cost {s.cost:<12.7g} bound {s.lower_bound:<12.7g} {s.note}"
            for s in self.stages
        ]
        return "\n".join(lines)


def refine(
    graph: gtsam.NonlinearFactorGraph,
    values: gtsam.Values,
    *,
    ordering: OrderingChoice = "metis",
    tolerance: float = 1e-4,
    time_limit: float | None = None,
    verbose: bool = False,
) -> Solution:
    """Certifies values, and where that fails solves the semidefinite relaxation, rounds, optimises and certifies again.

    The relaxation is made of terms that touch each factor's cost at zero error, so that it does not depend on the
    values given. The result is never worse than they are.

    Args:
        graph: the graph; it is not changed.
        values: a solution, good or not; it is not changed.
        ordering: elimination ordering of the cliques.
        tolerance: as in `certify`.
        time_limit: of the SDP solver [s].
        verbose: show the steps.

    Raises:
        GtsamSdpError: as `certify`; ProblemTooLargeError where the cliques are too large for an SDP.
    """
    stages: list[Stage] = []

    def run(name: str, work: Callable[[], T], report: Callable[[T], tuple[float, float, str]]) -> T:
        started = time.perf_counter()
        result = work()
        cost, bound, note = report(result)
        stages.append(Stage(name, time.perf_counter() - started, cost, bound, note))
        return result

    with showing_progress(verbose):
        given = run("certify", lambda: certify(graph, values, tolerance=tolerance), _of_certificate)
        if given:
            return Solution(values, given.cost, given, "given", tuple(stages), 0.0, None)
        solution = run(
            "relaxation",
            lambda: _relaxation(graph, values, ordering).solve(time_limit=time_limit),
            lambda s: (graph.error(s.recover()), s.lower_bound, f"{s.message}, rounded"),
        )
        found = run(
            "optimise",
            lambda: _optimise(graph, solution.recover()),
            lambda v: (graph.error(v), solution.lower_bound, "from the rounded relaxation"),
        )
        again = run("certify again", lambda: certify(graph, found, tolerance=tolerance), _of_certificate)
    best, values, method = (again, found, "chordal") if again.cost < given.cost else (given, values, "given")
    bound = max(given.lower_bound, again.lower_bound, solution.lower_bound)
    certificate = with_bound(best, bound)
    return Solution(values, best.cost, certificate, method, tuple(stages), given.cost - best.cost, solution)


def with_bound(certificate: Certificate, lower_bound: float) -> Certificate:
    """A certificate with a better verified lower bound of the same graph."""
    if lower_bound <= certificate.lower_bound or not certificate.relative_gap:
        return certificate
    lower_bound = min(lower_bound, certificate.cost)
    gap = certificate.cost - lower_bound
    relative_gap = gap / certificate.cost
    certified = relative_gap <= certificate.tolerance
    return replace(
        certificate,
        status=CertificateStatus.CERTIFIED if certified else CertificateStatus.BOUNDED,
        lower_bound=lower_bound,
        gap=gap,
        relative_gap=relative_gap,
        method="chordal SDP",
    )


def _relaxation(graph: gtsam.NonlinearFactorGraph, values: gtsam.Values, ordering: OrderingChoice) -> Relaxation:
    reading = read(graph, values, "raise")
    terms = build_terms(reading, at_measurements=True)
    return Relaxation.build(reading, terms, ordering=ordering)


def _optimise(graph: gtsam.NonlinearFactorGraph, start: gtsam.Values) -> gtsam.Values:
    parameters = gtsam.LevenbergMarquardtParams()
    parameters.setRelativeErrorTol(1e-10)
    parameters.setAbsoluteErrorTol(0.0)
    return gtsam.LevenbergMarquardtOptimizer(graph, start, parameters).optimize()


def _of_certificate(certificate: Certificate) -> tuple[float, float, str]:
    return certificate.cost, certificate.lower_bound, certificate.status.name
