"""Clarabel (Goulart, Chen, "Clarabel: an interior-point solver for conic programs with quadratic objectives", 2024)."""

from __future__ import annotations

import logging
import math
import threading
import time
from dataclasses import replace
from typing import Any

import clarabel
import numpy as np
import scipy

from gtsam_sdp.backends.base import Backend, BackendResult, SolverStatus
from gtsam_sdp.backends.conic import ConicProblem
from gtsam_sdp.backends.running import run_interruptible
from gtsam_sdp.progress import report_now, showing_progress

_CLARABEL: Any = clarabel  # its stubs do not know the classes

_log = logging.getLogger(__name__)

_STATUS = {
    "Solved": SolverStatus.SOLVED,
    "AlmostSolved": SolverStatus.INACCURATE,
    "InsufficientProgress": SolverStatus.INACCURATE,
    "MaxIterations": SolverStatus.LIMIT,
    "MaxTime": SolverStatus.LIMIT,
    "CallbackTerminated": SolverStatus.LIMIT,
}
"""Everything else is a failure."""


class ClarabelBackend(Backend):
    """The default backend."""

    def solve(
        self, problem: ConicProblem, *, tolerance: float, time_limit: float | None, verbose: bool
    ) -> BackendResult:
        """Clarabel's form is min q^T x, A x + s = b, s in the cone: q = -b, and its dual gives the multipliers.

        Ctrl-C stops it within an iteration.
        """
        settings = _settings(tolerance, time_limit)
        settings.equilibrate_enable = not problem.is_balanced

        def work(stop: threading.Event) -> BackendResult:
            started = time.perf_counter()
            solver = _solver(problem, settings)
            pace = Pace(time_limit)
            solver.set_termination_callback(lambda info: _look(info, stop) or pace.is_too_slow(info.solve_time))
            solution = solver.solve()
            result = _result(solution, time.perf_counter() - started)
            is_late = result.message == "CallbackTerminated" and not stop.is_set()
            return replace(result, message="MaxTime") if is_late else result

        with showing_progress(verbose):
            return run_interruptible(work)


class Pace:
    """Whether the next iteration would end after a limit, if it takes as long as the longest one so far."""

    def __init__(self, limit: float | None) -> None:
        self._limit = math.inf if limit is None else limit
        self._last: float | None = None
        self._longest = 0.0

    def is_too_slow(self, seconds: float) -> bool:
        """After an iteration, at a time since the start [s]; after the limit the solver stops by itself."""
        if self._last is not None:  # what came before the first one is no iteration
            self._longest = max(self._longest, seconds - self._last)
        self._last = seconds
        return seconds <= self._limit < seconds + self._longest


def status_of(message: str) -> SolverStatus:
    """The status for Clarabel's name of it."""
    return _STATUS.get(message, SolverStatus.FAILED)


def _settings(tolerance: float, time_limit: float | None) -> Any:
    settings = _CLARABEL.DefaultSettings()
    settings.verbose = False  # iterations are logged instead
    settings.chordal_decomposition_enable = False  # the problem is decomposed already
    settings.presolve_enable = False
    settings.direct_solve_method = "faer"
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = tolerance
    if time_limit is not None:
        settings.time_limit = time_limit
    return settings


def _solver(problem: ConicProblem, settings: Any) -> Any:
    cones = [_CLARABEL.PSDTriangleConeT(size) for size in problem.sizes.tolist()]
    count = len(problem.b)
    nothing, A = scipy.sparse.csc_matrix((count, count)), scipy.sparse.csc_matrix(problem.A)
    return _CLARABEL.DefaultSolver(nothing, -problem.b, A, problem.c, cones, settings)


def _look(info: Any, stop: threading.Event) -> bool:
    """Called once an iteration: logs it, and says whether to stop. What it raised would be lost."""
    _log.info(
        "Clarabel: iteration %2d, objective %.9e, gap %.1e, residuals %.1e and %.1e, %.1f s",
        info.iterations,
        -info.cost_primal,
        info.gap_rel,
        info.res_primal,
        info.res_dual,
        info.solve_time,
    )
    report_now(f"relaxation, iteration {info.iterations}, gap {info.gap_rel:.1e}")
    return stop.is_set()


def _result(solution: Any, seconds: float) -> BackendResult:
    message = str(solution.status)
    return BackendResult(
        status=status_of(message),
        message=message,
        objective=-float(solution.obj_val),
        y=np.array(solution.x),
        z=np.array(solution.z),
        iterations=int(solution.iterations),
        seconds=seconds,
    )
