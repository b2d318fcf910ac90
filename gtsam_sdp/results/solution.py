"""What `solve` and `refine` return: the best values, what is proven about them, and the steps that led there."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import gtsam

from gtsam_sdp.files.trajectories import write_kitti, write_tum
from gtsam_sdp.plain import finite_or_none
from gtsam_sdp.remedies import Advice, Remedy
from gtsam_sdp.results.certificate import Certificate
from gtsam_sdp.results.sdp_solution import SdpSolution
from gtsam_sdp.shown import Shown
from gtsam_sdp.terms.terms import Exactness


class StageName(StrEnum):
    """The steps of a search."""

    CERTIFY = "certify"
    OPTIMISE = "optimise"
    INITIALISATION = "chordal initialisation"
    DESCENT = "descent"
    CONTINUATION = "continuation"
    GRADUATED = "graduated non-convexity"
    STAIRCASE = "staircase"
    RELAXATION = "relaxation"
    RELAXATION_AGAIN = "relaxation at the solution"


class FoundBy(StrEnum):
    """How values were found."""

    GIVEN = "given"
    LOCAL = "local"
    INITIALISATION = "chordal initialisation"
    CONTINUATION = "continuation"
    GRADUATED = "graduated non-convexity"
    STAIRCASE = "staircase"
    RELAXATION = "chordal"


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


@dataclass(frozen=True, repr=False, eq=False)
class Solution(Shown):
    """The best values that were found, and what is proven about them.

    Attributes:
        values: the best values.
        cost: graph.error(values).
        certificate: of these values, with the best lower bound of all stages.
        method: how the values were found: "given", "local", "chordal initialisation", "continuation" in the weights,
            "graduated non-convexity", "staircase" or "chordal".
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
    untried: tuple[Advice, ...] = ()

    @property
    def advice(self) -> Advice:
        """Why the values are not certified for all values, and what to try; empty if there is nothing to be said."""
        region = self.certificate.region
        if self.certificate and (region is None or region.is_unconditional or not self.untried):
            return Advice("")
        terms = self.certificate.terms
        if terms.cost[terms.exactness == Exactness.DROPPED].sum() > self.certificate.gap / 2:
            return Advice("most of the gap is what the dropped factors cost, which count as 0 in the bound")
        if self.untried:
            listed = [part for what in self.untried for part in ("; ", what)]
            return Advice("with more time it would be tried: ", *listed[1:])
        if region is not None:
            doubtful = int(region.is_doubtful.sum())
            looked = f"look at the {doubtful} doubtful factor(s), " if doubtful else ""
            return Advice(f"no proof for the sorting found: {looked}try other starts, or a loss that throws out fully")
        if self.relaxation is None and any(stage.name == StageName.RELAXATION for stage in self.stages):
            text = "the relaxation on cliques could not be solved here, and the bound of the other steps leaves the gap"
            return Advice(text)
        if self.relaxation is None:
            return Advice("no relaxation on cliques was solved: try ", Remedy.RELAX, ", or more time")
        tight, count = self.relaxation.tight, len(self.relaxation.eigenvalue_ratios)
        if tight < count:
            text = (
                f"{tight} of {count} cliques of the last relaxation are tight, so that the gap may be its own "
                "and the values optimal all the same"
            )
            return Advice(text) if self.relaxation.lift == "vector" else Advice(text, ": try ", Remedy.VECTOR_LIFT)
        return Advice("the last relaxation is tight, but the solver's accuracy or the terms' tangents leave a gap")

    def to_dict(self) -> dict[str, Any]:
        """The certificate, how the values were found, and the stages, as plain types.

        The values themselves are not in it: `gtsam_sdp.write_g2o(path, graph, solution.values)` saves graph and
        poses, `to_tum` and `to_kitti` a trajectory, pickle all values.
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

    def to_tum(
        self, path: str | Path, keys: Iterable[int] | None = None, times: Mapping[int, float] | None = None
    ) -> None:
        """Writes the poses as a TUM file, `t x y z qx qy qz qw`, for example for evo.

        Args:
            path: the file; packed with gzip where its name ends with .gz.
            keys: the poses to write; None: all.
            times: time of each pose by key [s]; None: its number, 12 for x12.

        Raises:
            InvalidGraphError: there is no pose, or not those of `keys`; two poses have the same time, or one has none.
            DatasetError: the file cannot be written.
        """
        write_tum(path, self.values, keys, times)

    def to_kitti(self, path: str | Path, keys: Iterable[int] | None = None) -> None:
        """Writes the poses as a KITTI file, a line of the 12 numbers of [R | t] for each, in the order of their keys.

        Args:
            path: the file; packed with gzip where its name ends with .gz.
            keys: the poses to write, in this order; None: all.

        Raises:
            InvalidGraphError: there is no pose, or not those of `keys`.
            DatasetError: the file cannot be written.
        """
        write_kitti(path, self.values, keys)
