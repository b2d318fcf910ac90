"""The semidefinite relaxation of a graph on the cliques of its Bayes tree, with every intermediate object."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np

from gtsam_sdp.backends.base import BackendResult
from gtsam_sdp.backends.choose import BackendChoice, choose_backend
from gtsam_sdp.errors import InvalidGraphError, ProblemTooLargeError, SolveFailedError
from gtsam_sdp.lift.problem import Problem
from gtsam_sdp.lift.qcqp import Qcqp
from gtsam_sdp.linalg.array import Array
from gtsam_sdp.reading.graph import Reading
from gtsam_sdp.relaxation.conic import build_conic
from gtsam_sdp.relaxation.gram import GramLift
from gtsam_sdp.relaxation.problem import CliqueProblem
from gtsam_sdp.relaxation.recentring import Recentred, is_accurate, recentre
from gtsam_sdp.relaxation.recovery import clique_matrices
from gtsam_sdp.relaxation.tree import CliqueTree, OrderingChoice, check_ordering
from gtsam_sdp.relaxation.vector import VectorLift, VectorQcqp, is_better_than_gram
from gtsam_sdp.remedies import Advice, Remedy
from gtsam_sdp.results.sdp_solution import SdpSolution
from gtsam_sdp.shown import Shown
from gtsam_sdp.tolerances import MEMORY_FACTOR, MEMORY_SHARE

LiftChoice = Literal["gram", "vector", "auto"]


_MARGINS = (1e-8, 1e-7)
"""What cones of a recentred problem lose, so that an inexact solution is within them; more where the bound is far below
the solver's objective."""

_LOST = 1e-3
"""Share of the cost that the bound of a recentred problem may be below the solver's objective."""

_IMPRECISE = 1e-3
"""Share of the gap by which the solver's objective and the verified bound differ where ranges are too accurate for the
problem as it is."""

_CLOSED = 1e-6
"""Share of the cost below which there is no gap left that a more precise solution would close."""

Restore = Callable[[Array, Array], tuple[Array, Array]]
"""From the point (y, z) of a problem in other unknowns to that of the original one."""

_ITERATIONS = 20
"""Usual number of interior-point iterations."""


def check_lift(lift: LiftChoice) -> None:
    """Raises ValueError for what is no lift."""
    if lift not in ("gram", "vector", "auto"):
        raise ValueError(f'lift must be "gram", "vector" or "auto", not {lift!r}.')


@dataclass(frozen=True)
class PredictedCost:
    """What an interior-point method will cost: sums over the cones of n svec entries of n^3 / 3 and n^2.

    Attributes:
        flops: of one iteration.
        bytes: of the dense blocks and what a solver makes of them, `MEMORY_FACTOR` times as much.
        largest_clique: in variables.
        largest_cone: side of its matrix.
    """

    flops: float
    bytes: float
    largest_clique: int
    largest_cone: int

    @property
    def fits(self) -> bool:
        """Whether a solver may be started on this machine."""
        return self.bytes <= MEMORY_SHARE * _machine_bytes()

    @property
    def seconds(self) -> float:
        """Rough time of a solve, from runs of Clarabel on cones of 8 to 50 rows on one core of a server [s]."""
        entries = self.bytes / (8 * MEMORY_FACTOR)
        return _ITERATIONS * (1e-7 * entries + 5e-10 * self.flops)

    def __str__(self) -> str:
        return (
            f"{self.flops:.1e} flops an iteration, {self.bytes / 1e9:.2g} GB, "
            f"largest clique {self.largest_clique} variables (a matrix of {self.largest_cone} rows)"
        )


def _machine_bytes() -> float:
    """Physical memory, or a guess where the system does not tell."""
    try:
        return float(os.sysconf("SC_PHYS_PAGES")) * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return 16e9


@dataclass(frozen=True, repr=False, eq=False)
class Relaxation(Shown):
    """The semidefinite relaxation of a graph on the cliques of its Bayes tree.

    Attributes:
        lift: rows, terms and constraints.
        tree: the cliques.
        tighten: whether redundant constraints are added: the convex hull of SO(d) for pairs of rotations in the Gram
            lift, R R^T = I and cross products in the vector lift.
    """

    lift: GramLift | VectorLift
    tree: CliqueTree
    tighten: bool

    @classmethod
    def build(
        cls,
        problem: Problem,
        *,
        lift: LiftChoice = "gram",
        tighten: bool = True,
        ordering: OrderingChoice = "auto",
    ) -> Relaxation:
        """The relaxation of a problem; "auto" takes the vector lift where only that holds all costs, and it fits."""
        check_lift(lift)
        check_ordering(ordering)
        if not problem.terms:
            raise InvalidGraphError(
                "Nothing is left to relax: all factors are hard constraints or were dropped. Add factors with a cost."
            )
        if lift == "vector" or (lift == "auto" and is_better_than_gram(problem.terms)):
            relaxation = cls._ordered(VectorLift.build(problem), tighten, ordering)
            if lift == "vector" or relaxation.predicted_cost.fits:
                return relaxation
        return cls._ordered(GramLift.build(problem), tighten, ordering)

    @classmethod
    def _ordered(cls, lift: GramLift | VectorLift, tighten: bool, ordering: OrderingChoice) -> Relaxation:
        """The relaxation on the cliques of an ordering; "auto" takes the cheaper of METIS and COLAMD."""
        if ordering != "auto":
            return cls(lift, lift.tree(ordering), tighten)
        tried = [cls(lift, lift.tree(choice), tighten) for choice in ("colamd", "metis")]
        return min(tried, key=lambda relaxation: relaxation.predicted_cost.flops)

    @property
    def reading(self) -> Reading:
        """The graph and values as arrays."""
        return self.lift.reading

    @property
    def qcqp(self) -> Qcqp | VectorQcqp:
        """The lifted problem, positions counted from the values."""
        return self.lift.qcqp

    @cached_property
    def conic(self) -> CliqueProblem:
        """The relaxation's dual as a block linear matrix inequality."""
        return build_conic(self.lift, self.tree, tighten=self.tighten)

    @cached_property
    def predicted_cost(self) -> PredictedCost:
        """Cost of an interior-point iteration, known before anything is built."""
        sides = np.array([self.lift.clique_size(clique.members) for clique in self.tree.cliques])
        entries = sides * (sides + 1.0) / 2
        return PredictedCost(
            flops=float((entries**3).sum() / 3),
            bytes=float(8 * MEMORY_FACTOR * (entries**2).sum()),
            largest_clique=int(self.tree.sizes.max(initial=0)),
            largest_cone=int(sides.max(initial=0)),
        )

    def monolithic(self) -> Relaxation:
        """The same relaxation on one clique of all variables: without decomposition, as a reference."""
        return replace(self, tree=self.tree.monolithic())

    def solve(
        self,
        backend: BackendChoice = "clarabel",
        *,
        tolerance: float = 1e-9,
        time_limit: float | None = None,
        verbose: bool = False,
    ) -> SdpSolution:
        """Solves the relaxation and verifies the bound that its multipliers give.

        Args:
            backend: "clarabel", "mosek", or an instance of a `Backend`.
            tolerance: relative tolerance of the solver.
            time_limit: of building the problem and solving it [s]; verification comes on top.
            verbose: show the solver's progress.

        Raises:
            ProblemTooLargeError: the predicted cost is beyond this machine.
            SolveFailedError: the solver found no point at all.
            BackendNotInstalledError, LicenseError: of the solver's package.
        """
        if not self.predicted_cost.fits:
            what = f"The relaxation is too large for an interior-point method: {self.predicted_cost}. "
            other = ", or certify on a solution from a good start: they need no interior-point method."
            raise ProblemTooLargeError(Advice(what, "Use solve or refine with ", Remedy.STAIRCASE, other))
        solver = choose_backend(backend)
        started = time.perf_counter()
        problem = self.conic
        built = time.perf_counter() - started

        def attempt(posed: CliqueProblem, restore: Restore | None = None) -> SdpSolution:
            began = time.perf_counter()
            left = None if time_limit is None else max(time_limit - (began - started), 1e-3)
            result = solver.solve(posed, tolerance=tolerance, time_limit=left, verbose=verbose)
            return self._verified(problem, posed, result, restore, (built, time.perf_counter() - began))

        best = attempt(problem)
        recentred = None if self._is_precise(best, problem) else self._recentred(problem)
        for margin in _MARGINS:
            if recentred is None or (time_limit is not None and time.perf_counter() - started >= time_limit):
                break
            try:
                found = attempt(recentred.with_margin(margin), recentred.restore)
            except SolveFailedError:
                continue
            best = max(best, found, key=lambda solution: solution.bound.value)
            if best.bound.value >= found.objective - _LOST * self.lift.reading.cost:
                break
        return best

    def _is_precise(self, solution: SdpSolution, problem: CliqueProblem) -> bool:
        """Whether the bound is the solver's own objective, or could hardly be better in other unknowns."""
        cost, bound = self.lift.reading.cost, solution.bound.value
        off, gap = abs(solution.objective - bound), cost - bound
        return not is_accurate(problem) or gap <= _CLOSED * cost or off <= _IMPRECISE * gap

    def _recentred(self, problem: CliqueProblem) -> Recentred | None:
        """The problem in units of its noise; None where there is no such thing."""
        if not isinstance(self.lift, GramLift) or not self.lift.reading.cost > 0:
            return None
        try:
            return recentre(problem, self.lift)
        except (RuntimeError, np.linalg.LinAlgError):  # a singular system
            return None

    def _verified(
        self,
        problem: CliqueProblem,
        posed: CliqueProblem,
        result: BackendResult,
        restore: Restore | None,
        seconds: tuple[float, float],
    ) -> SdpSolution:
        """A solver's point of a problem that was posed for another one, back in the latter's unknowns, and verified.

        Raises:
            SolveFailedError: there is no point.
        """
        started = time.perf_counter()
        if not np.isfinite(result.y).all():
            raise SolveFailedError(
                f"The solver ended with {result.message!r} and without a point, so that there is nothing to verify. "
                "Try another ordering, backend or tolerance; the error's `problem` can be exported with to_cbf.",
                posed,
                result,
            )
        y, z = result.y, np.nan_to_num(result.z, nan=0.0, posinf=0.0, neginf=0.0)
        y, z = (y, z) if restore is None else restore(y, z)
        z = problem.weights * z
        recovered = self.lift.recover(problem, z)
        bound, size = self.lift.verify(problem, y, recovered.Y)
        return SdpSolution(
            status=result.status,
            message=result.message,
            objective=result.objective / posed.scale + posed.offset,
            bound=bound,
            clique_matrices=tuple(clique_matrices(problem, z)),
            eigenvalue_ratios=recovered.eigenvalue_ratios,
            multipliers=tuple(problem.parameters(y, k) for k in range(len(problem.groups))),
            size=size,
            Y=recovered.Y,
            layout=self.lift.layout,
            iterations=result.iterations,
            lift="gram" if isinstance(self.lift, GramLift) else "vector",
            timings={
                "building": seconds[0],
                "solving": seconds[1],
                "recovery and verification": time.perf_counter() - started,
            },
        )
