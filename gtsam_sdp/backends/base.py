"""What a backend is: it takes a conic problem and returns a point, which nobody believes before it is verified."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import Enum

from gtsam_sdp.backends.conic import ConicProblem
from gtsam_sdp.linalg.array import Array


class SolverStatus(Enum):
    """How a solver ended."""

    SOLVED = "solved to the tolerance"
    INACCURATE = "stopped near a solution, short of the tolerance"
    LIMIT = "stopped at its limit of time or iterations"
    FAILED = "failed: numerical trouble or an infeasible problem"


@dataclass(frozen=True)
class BackendResult:
    """A solver's point.

    Attributes:
        status: how it ended.
        message: the solver's own word for it.
        objective: b^T y as the solver reports it.
        y: variables of the conic problem.
        z: multipliers of the cones, stacked svec.
        iterations: of the interior-point method.
        seconds: spent in the solver.
    """

    status: SolverStatus
    message: str
    objective: float
    y: Array
    z: Array
    iterations: int
    seconds: float


class Backend(ABC):
    """A solver for conic problems."""

    @abstractmethod
    def solve(
        self, problem: ConicProblem, *, tolerance: float, time_limit: float | None, verbose: bool
    ) -> BackendResult:
        """Solves max b^T y, svec(C) - A y in the cone."""
