"""The answer of `certify`: how much better than the given values any other solution can be at most."""

from __future__ import annotations

import importlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, overload

import numpy as np

from gtsam_sdp.errors import PandasNotInstalledError, format_key
from gtsam_sdp.keys import KeyLists
from gtsam_sdp.linalg.array import Array
from gtsam_sdp.plain import finite_or_none
from gtsam_sdp.results.notes import Note, NoteKind
from gtsam_sdp.results.region import RobustRegion
from gtsam_sdp.shown import Shown
from gtsam_sdp.terms.terms import Exactness


class CertificateStatus(Enum):
    """What is known about the values; none of these says that they are wrong."""

    CERTIFIED = "certified"
    """No solution is better by more than the tolerance: relative_gap <= tolerance."""
    BOUNDED = "bounded"
    """A positive lower bound is proven, and the gap is larger than the tolerance."""
    INCONCLUSIVE = "inconclusive"
    """Nothing better than the trivial bound 0 is proven."""


@dataclass(frozen=True, repr=False, eq=False)
class FactorTerm(Shown):
    """One factor in the bound: its place in the graph, its cost, and how much its term lies below that."""

    index: int
    type: str
    keys: tuple[int, ...]
    exactness: Exactness
    cost: float
    contribution: float

    @property
    def names(self) -> tuple[str, ...]:
        """The keys by name: `x12` for a symbol, the plain number otherwise."""
        return tuple(format_key(key) for key in self.keys)

    def to_dict(self) -> dict[str, Any]:
        """The term as plain types: keys as numbers, which some readers of JSON round above 2^53, and by name."""
        return {
            "index": int(self.index),
            "type": self.type,
            "keys": [int(key) for key in self.keys],
            "names": list(self.names),
            "exactness": self.exactness.name,
            "cost": float(self.cost),
            "contribution": float(self.contribution),
        }


@dataclass(frozen=True, repr=False, eq=False)
class FactorTerms(Shown):
    """The terms of all factors: iterate or index for `FactorTerm`s, take slices, or use the arrays.

    Attributes:
        index: places in the graph, (f,).
        types: class names in GTSAM.
        keys: keys(place) are those of the factor at a place of these arrays.
        exactness: `Exactness` of each term, (f,).
        cost: factor.error(values), (f,).
        contribution: cost minus the term at the values, 0 at least: what the factor adds to the gap, (f,).
    """

    index: Array
    types: Sequence[str]
    keys: KeyLists
    exactness: Array
    cost: Array
    contribution: Array

    def __len__(self) -> int:
        return len(self.index)

    @overload
    def __getitem__(self, place: int) -> FactorTerm: ...
    @overload
    def __getitem__(self, place: slice) -> FactorTerms: ...
    def __getitem__(self, place: int | slice) -> FactorTerm | FactorTerms:
        if isinstance(place, slice):
            return FactorTerms(
                self.index[place], self.types[place], self.keys[place], self.exactness[place], self.cost[place],
                self.contribution[place],
            )  # fmt: skip
        place = range(len(self))[place]
        return FactorTerm(
            int(self.index[place]), self.types[place], self.keys(place), Exactness(self.exactness[place]),
            float(self.cost[place]), float(self.contribution[place]),
        )  # fmt: skip

    def __iter__(self) -> Iterator[FactorTerm]:
        return (self[place] for place in range(len(self)))

    def largest(self, count: int = 5) -> list[FactorTerm]:
        """The factors that contribute most to the gap."""
        return [self[i] for i in np.argsort(-self.contribution, kind="stable")[:count].tolist()]

    def to_frame(self) -> Any:
        """A pandas DataFrame with a row for each factor: index, type, keys by name, exactness, cost, contribution.

        Raises:
            PandasNotInstalledError: pandas is not installed.
        """
        try:
            pandas = importlib.import_module("pandas")
        except ImportError as error:
            raise PandasNotInstalledError("to_frame needs pandas: pip install pandas.") from error
        named = [tuple(format_key(key) for key in self.keys(place)) for place in range(len(self))]
        columns = {
            "type": list(self.types),
            "keys": named,
            "exactness": [Exactness(kind).name for kind in self.exactness.tolist()],
            "cost": self.cost,
            "contribution": self.contribution,
        }
        return pandas.DataFrame(columns, index=pandas.Index(self.index, name="index"))

    def counts(self) -> dict[str, int]:
        """Number of terms of each exactness, by name."""
        found = np.bincount(self.exactness, minlength=len(Exactness))
        return {e.name: int(found[e]) for e in Exactness if found[e]}

    def type_counts(self) -> dict[str, int]:
        """Number of factors of each type, the most frequent first."""
        return dict(Counter(self.types).most_common())


@dataclass(frozen=True, repr=False, eq=False)
class Certificate(Shown):
    """A verified lower bound of the cost, and what it says about the values.

    `bool(certificate)` is True if it is CERTIFIED. `print(certificate)` shows a report.

    Attributes:
        cost: graph.error(values).
        lower_bound: no values that satisfy the hard constraints cost less; proven, rounding errors included.
        tolerance: largest relative gap that counts as CERTIFIED.
        method: where the bound is from: multipliers in closed form ("multipliers", "multipliers, polished"), the
            semidefinite relaxation ("chordal SDP") or the "staircase".
        shift: what had to be added to the diagonal of the certificate matrix, in the unit of the cost.
        stationarity: relative decrease of the cost that one more step from the values brings: of Newton, as the proof
            predicts it, if that is next to nothing, else of Levenberg-Marquardt; large if the values are not the
            result of an optimisation; NaN if the time limit of a search ended before.
        rounding: part of the gap that was given away to floating-point errors.
        terms: every factor's part in the bound.
        timings: seconds of each step.
        notes: remarks for the user, with their `kind` and `remedy`.
        zero_cost: the values are CERTIFIED because their cost is zero to the digits of the data: every residual is
            below 1e-5 of what was measured.
        region: the condition of the bound where factors have robust losses; None where there is no such factor.
    """

    cost: float
    lower_bound: float
    tolerance: float
    method: str
    shift: float
    stationarity: float
    rounding: float
    terms: FactorTerms
    timings: Mapping[str, float]
    notes: tuple[Note, ...]
    zero_cost: bool = False
    region: RobustRegion | None = None

    def __bool__(self) -> bool:
        return self.status is CertificateStatus.CERTIFIED and (self.region is None or self.region.is_trusted)

    @property
    def status(self) -> CertificateStatus:
        """CERTIFIED, BOUNDED or INCONCLUSIVE."""
        if self.relative_gap <= self.tolerance:
            return CertificateStatus.CERTIFIED
        return CertificateStatus.BOUNDED if self.lower_bound > 0 else CertificateStatus.INCONCLUSIVE

    @property
    def gap(self) -> float:
        """The cost less the lower bound, in the unit of graph.error."""
        return self.cost - self.lower_bound

    @property
    def relative_gap(self) -> float:
        """Gap / cost, or 0 if that is above the tolerance and the cost is zero to the digits of the data."""
        return 0.0 if self.gap <= 0 or self.zero_cost else self.gap / self.cost

    def with_bound(
        self, lower_bound: float, shift: float, rounding: float, method: str, timings: Mapping[str, float]
    ) -> Certificate:
        """The certificate with a verified bound of the same graph where that one is better and something to gain.

        A certificate with a region stays as it is: its bound is about these values only.
        """
        if self.region is not None or not (lower_bound > self.lower_bound and self.relative_gap):
            return self
        return replace(
            self, lower_bound=min(lower_bound, self.cost), shift=shift, rounding=rounding, method=method,
            timings=timings, notes=tuple(note for note in self.notes if note.kind is not NoteKind.ADVICE),
        )  # fmt: skip

    @property
    def assumptions(self) -> tuple[str, ...]:
        """The notes about what the bound rests on and no evaluation can prove; none where all factors have adapters."""
        return tuple(note for note in self.notes if note.kind is NoteKind.ASSUMPTION)

    def to_dict(self) -> dict[str, Any]:
        """The certificate as plain types: numbers, the largest contributions, counts, timings and notes.

        Numbers that are not finite are None. Keys are there as numbers ("keys") and by name ("names").
        """
        return {
            "status": self.status.value,
            "cost": float(self.cost),
            "lower_bound": float(self.lower_bound),
            "gap": float(self.gap),
            "relative_gap": float(self.relative_gap),
            "tolerance": float(self.tolerance),
            "method": self.method,
            "shift": finite_or_none(self.shift),
            "stationarity": finite_or_none(self.stationarity),
            "rounding": float(self.rounding),
            "zero_cost": self.zero_cost,
            "region": None if self.region is None else self.region.to_dict(),
            "factors": len(self.terms),
            "exactness": self.terms.counts(),
            "largest_contributions": [term.to_dict() for term in self.terms.largest()],
            "assumptions": list(self.assumptions),
            "timings": {step: float(seconds) for step, seconds in self.timings.items()},
            "notes": list(self.notes),
        }

    def to_json(self, indent: int | None = 2) -> str:
        """`to_dict` as JSON."""
        return json.dumps(self.to_dict(), indent=indent, allow_nan=False)
