"""A solved relaxation: what the solver said, what was verified, and the way back to values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import gtsam
import numpy as np

from gtsam_sdp.backends.base import SolverStatus
from gtsam_sdp.linalg.array import Array
from gtsam_sdp.proof.bound import VerifiedBound
from gtsam_sdp.shown import Shown
from gtsam_sdp.values.layout import Layout


@dataclass(frozen=True, repr=False, eq=False)
class SdpSolution(Shown):
    """Solution of the clique-decomposed relaxation.

    Attributes:
        status: how the solver ended; it proves nothing.
        message: the solver's own word for it.
        objective: the solver's value of the relaxation, in the unit of graph.error; not verified.
        bound: the verified lower bound, with what it gave away: from the solver's multipliers or, in the Gram lift,
            from those in closed form at the recovered point or at the values given, whichever is best.
        clique_matrices: Gram matrices of the cliques in real clique coordinates.
        eigenvalue_ratios: lambda_r / lambda_(r+1) of each, r the lift's rank, large where it is tight, (c,).
        multipliers: of the lift's constraints by group, in the order of `ConicProblem.groups`.
        size: of the terms before they cancel, see `Certificate.relative_gap`.
        Y: recovered matrix, raw rows, rotations projected, (raw, rows).
        layout: rows of the variables.
        iterations: of the solver.
        lift: "gram" or "vector".
        timings: seconds of each step.
    """

    status: SolverStatus
    message: str
    objective: float
    bound: VerifiedBound
    clique_matrices: tuple[Array, ...]
    eigenvalue_ratios: Array
    multipliers: tuple[Array, ...]
    size: float
    Y: Array
    layout: Layout
    iterations: int
    lift: str
    timings: Mapping[str, float]

    @property
    def lower_bound(self) -> float:
        """Proven, rounding errors included: no values cost less than this, or than the values that the terms touch.

        At least 0, which no sum of squares is below.
        """
        return max(float(self.bound.value), 0.0)

    @property
    def is_tight(self) -> bool:
        """Whether every clique matrix has the lift's rank up to 1e-5."""
        return self.tight == len(self.eigenvalue_ratios)

    @property
    def tight(self) -> int:
        """Number of tight cliques."""
        return int(np.count_nonzero(self.eigenvalue_ratios > 1e5))

    @property
    def summary(self) -> str:
        """How the solver ended, and how many cliques are tight."""
        return f"{self.message}, {self.tight} of {len(self.eigenvalue_ratios)} cliques tight"

    def recover(self) -> gtsam.Values:
        """Values nearest to the relaxation's solution; optimise the graph from them."""
        return self.layout.unlift(self.Y)
