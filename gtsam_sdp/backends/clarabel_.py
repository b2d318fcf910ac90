"""Clarabel (Goulart, Chen, "Clarabel: an interior-point solver for conic programs with quadratic objectives", 2024)."""

from __future__ import annotations

import time
from typing import Any

import clarabel
import numpy as np
import scipy.sparse as sp

from gtsam_sdp.backends.base import Backend, BackendResult, SolverStatus
from gtsam_sdp.chordal.conic import ConicProblem

_CLARABEL: Any = clarabel  # its stubs do not know the classes

_STATUS = {
    "Solved": SolverStatus.SOLVED,
    "AlmostSolved": SolverStatus.INACCURATE,
    "InsufficientProgress": SolverStatus.INACCURATE,
    "MaxIterations": SolverStatus.LIMIT,
    "MaxTime": SolverStatus.LIMIT,
}
"""Everything else is a failure."""


class ClarabelBackend(Backend):
    """The default backend."""

    def solve(
        self, problem: ConicProblem, *, tolerance: float, time_limit: float | None, verbose: bool
    ) -> BackendResult:
        """Clarabel's form is min q^T x, A x + s = b, s in the cone: q = -b, and its dual gives the multipliers."""
        settings = _CLARABEL.DefaultSettings()
        settings.verbose = verbose
        settings.chordal_decomposition_enable = False  # the problem is decomposed already
        settings.presolve_enable = False
        settings.direct_solve_method = "faer"
        settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = tolerance
        if time_limit is not None:
            settings.time_limit = time_limit
        cones = [_CLARABEL.PSDTriangleConeT(int(size)) for size in problem.sizes]
        count = len(problem.b)
        started = time.perf_counter()
        solver = _CLARABEL.DefaultSolver(
            sp.csc_matrix((count, count)), -problem.b, sp.csc_matrix(problem.A), problem.c, cones, settings
        )
        solution = solver.solve()
        message = str(solution.status)
        return BackendResult(
            status=_STATUS.get(message, SolverStatus.FAILED),
            message=message,
            objective=-float(solution.obj_val),
            y=np.array(solution.x),
            z=np.array(solution.z),
            iterations=int(solution.iterations),
            seconds=time.perf_counter() - started,
        )
