"""What `solve` and `refine` return: the best values, what is proven about them, and the steps that led there."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import gtsam

from gtsam_sdp.proof.bound import VerifiedBound
from gtsam_sdp.results.certificate import Certificate, finite_or_none, verdict
from gtsam_sdp.results.notes import NoteKind
from gtsam_sdp.results.sdp_solution import SdpSolution
from gtsam_sdp.shown import Shown
from gtsam_sdp.terms.terms import Exactness


@dataclass(frozen=True)
class Stage:
    """One step of a solve: what was done, how long it took, and what was known after it.

    Attributes:
        name: the step.
        seconds: its time.
        cost: of the values that it found, infinite if it found none.
        lower_bound: that it verified, minus infinity if it verified none.
        note: how it ended.
    """

    name: str
    seconds: float
    cost: float
    lower_bound: float
    note: str

    def to_dict(self) -> dict[str, Any]:
        """The stage as plain types; None where cost or bound is not known."""
        return {
            "name": self.name,
            "seconds": float(self.seconds),
            "cost": finite_or_none(self.cost),
            "lower_bound": finite_or_none(self.lower_bound),
            "note": self.note,
        }


@dataclass(frozen=True, repr=False)
class Solution(Shown):
    """The best values that were found, and what is proven about them.

    Attributes:
        values: the best values.
        cost: graph.error(values).
        certificate: of these values, with the best lower bound of all stages.
        method: how the values were found: "given", "local", "chordal initialisation", "continuation" in the weights,
            "staircase" or "chordal".
        stages: the steps, in order.
        improvement: how much lower the cost is than that of the values given; 0 if none were.
        relaxation: the last relaxation that was solved, None if none was needed.
        untried: what was not begun because of the time, and what it may take.
    """

    values: gtsam.Values
    cost: float
    certificate: Certificate
    method: str
    stages: tuple[Stage, ...]
    improvement: float
    relaxation: SdpSolution | None
    untried: tuple[str, ...] = ()

    @property
    def advice(self) -> str:
        """Why the values are not certified, and what to try; empty if they are."""
        if self.certificate:
            return ""
        terms = self.certificate.terms
        if terms.cost[terms.exactness == Exactness.DROPPED].sum() > self.certificate.gap / 2:
            return "most of the gap is what the dropped factors cost, which count as 0 in the bound"
        if self.untried:
            return f"with more time it would be tried: {'; '.join(self.untried)}"
        if self.relaxation is None and any(stage.name == "relaxation" for stage in self.stages):
            return "the relaxation on cliques could not be solved here, and the bound of the other steps leaves the gap"
        if self.relaxation is None:
            return 'no relaxation on cliques was solved: try method="chordal", or more time'
        tight, count = self.relaxation.tight, len(self.relaxation.eigenvalue_ratios)
        if tight < count:
            other = "" if self.relaxation.lift == "vector" else ': try lift="vector"'
            return (
                f"{tight} of {count} cliques of the last relaxation are tight, so that the gap may be its own "
                f"and the values optimal all the same{other}"
            )
        return "the last relaxation is tight, but the solver's accuracy or the terms' tangents leave a gap"

    def to_dict(self) -> dict[str, Any]:
        """The certificate, how the values were found, and the stages, as plain types.

        The values themselves are not in it: save poses with `gtsam.writeG2o(graph, solution.values, path)`, or all
        values with pickle.
        """
        return {
            "method": self.method,
            "improvement": float(self.improvement),
            "stages": [stage.to_dict() for stage in self.stages],
            "untried": list(self.untried),
            "certificate": self.certificate.to_dict(),
        }

    def to_json(self, indent: int | None = 2) -> str:
        """`to_dict` as JSON."""
        return json.dumps(self.to_dict(), indent=indent, allow_nan=False)


@dataclass(frozen=True)
class Proof:
    """A verified lower bound, what it took, how it was found, and the seconds of the steps."""

    lower_bound: float
    shift: float
    rounding: float
    method: str
    timings: Mapping[str, float]

    @classmethod
    def of(cls, bound: VerifiedBound, method: str, seconds: float) -> Proof:
        """What a verified bound proves of a sum of squares."""
        return cls(max(float(bound.value), 0.0), bound.shift, bound.rounding, method, {method: seconds})

    @classmethod
    def of_certificate(cls, known: Certificate) -> Proof:
        """What a certificate proves."""
        return cls(known.lower_bound, known.shift, known.rounding, known.method, known.timings)


def with_bound(certificate: Certificate, proof: Proof | None) -> Certificate:
    """A certificate with a better verified lower bound of the same graph."""
    if proof is None or proof.lower_bound <= certificate.lower_bound or not certificate.relative_gap:
        return certificate
    lower_bound = min(proof.lower_bound, certificate.cost)
    status, gap, relative_gap = verdict(certificate.cost, lower_bound, certificate.tolerance)
    return replace(
        certificate,
        status=status,
        lower_bound=lower_bound,
        gap=gap,
        relative_gap=relative_gap,
        method=proof.method,
        shift=proof.shift,
        rounding=proof.rounding,
        timings=proof.timings,
        notes=tuple(note for note in certificate.notes if note.kind is not NoteKind.ADVICE),
    )
