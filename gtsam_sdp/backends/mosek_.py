"""MOSEK (MOSEK ApS, "MOSEK Optimizer API for Python", version 11), a commercial solver; it needs a licence to solve."""

from __future__ import annotations

import importlib
import importlib.util
import logging
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

from gtsam_sdp.backends.base import Backend, BackendResult, SolverStatus
from gtsam_sdp.backends.conic import ConicProblem
from gtsam_sdp.backends.running import run_interruptible
from gtsam_sdp.errors import BackendNotInstalledError, LicenseError
from gtsam_sdp.linalg.svec import lower_triangle_places
from gtsam_sdp.progress import showing_progress

_log = logging.getLogger(__name__)

_TOLERANCES = ("pfeas", "dfeas", "rel_gap", "mu_red")
"""Parameters intpnt_co_tol_*: residuals of y and z, gap, complementarity."""

_SOLUTION = {
    "optimal": SolverStatus.SOLVED,
    "prim_and_dual_feas": SolverStatus.INACCURATE,
}
"""Status of the solution; where it says nothing, the reason of the termination does."""

_TERMINATION = {
    "trm_stall": SolverStatus.INACCURATE,
    "trm_max_time": SolverStatus.LIMIT,
    "trm_max_iterations": SolverStatus.LIMIT,
    "trm_user_callback": SolverStatus.LIMIT,
}
"""Everything else is a failure."""


class MosekBackend(Backend):
    """MOSEK's interior-point method for conic problems.

    Raises:
        BackendNotInstalledError: the package `mosek` is not installed. The licence is another question: it is asked
            for when a problem is solved.
    """

    def __init__(self) -> None:
        self._mosek = _import_mosek()

    @staticmethod
    def is_installed() -> bool:
        """Whether the package `mosek` is there."""
        return importlib.util.find_spec("mosek") is not None

    @staticmethod
    def is_licensed() -> bool:
        """Whether MOSEK is installed and gets a licence; that may mean asking a licence server."""
        if not MosekBackend.is_installed():
            return False
        mosek = _import_mosek()
        with mosek.Env() as environment:
            try:
                environment.checkoutlicense(mosek.feature.pton)
            except mosek.Error:
                return False
        return True

    def solve(
        self, problem: ConicProblem, *, tolerance: float, time_limit: float | None, verbose: bool
    ) -> BackendResult:
        """Solves the problem; Ctrl-C stops it within an iteration.

        Raises:
            LicenseError: MOSEK finds no valid licence.
        """

        def work(stop: threading.Event) -> BackendResult:
            with self.build(problem) as task:
                self._configure(task, tolerance, time_limit, stop)
                started = time.perf_counter()
                termination = self._optimize(task)
                return self._result(task, problem, termination, time.perf_counter() - started)

        with showing_progress(verbose):
            return run_interruptible(work)

    def build(self, problem: ConicProblem) -> Any:
        """The problem as a mosek.Task, not solved: min -b^T y, svec(C) - A y in svec domains, y free.

        As a minimisation, so that MOSEK's multipliers are in the cones and not in their negatives. Needs no licence.
        """
        mosek, count, rows = self._mosek, len(problem.b), len(problem.c)
        place = lower_triangle_places(problem.sizes)
        F = -problem.A.tocsr()[np.argsort(place)]
        g = np.empty(rows)
        g[place] = problem.c
        task = mosek.Task()
        task.appendvars(count)
        task.putvarboundsliceconst(0, count, mosek.boundkey.fr, -np.inf, np.inf)
        task.putclist(np.arange(count, dtype=np.int32), -problem.b)
        task.appendafes(rows)
        task.putafefrowlist(
            np.arange(rows, dtype=np.int64),
            np.diff(F.indptr).astype(np.int32),
            F.indptr[:-1].astype(np.int64),
            F.indices.astype(np.int32),
            F.data,
        )
        task.putafegslice(0, rows, g)
        sizes, block_size = np.unique(problem.sizes, return_inverse=True)
        domains = [task.appendsvecpsdconedomain(n * (n + 1) // 2) for n in sizes.tolist()]
        task.appendaccsseq(np.array(domains, dtype=np.int64)[block_size], rows, 0, None)
        return task

    def write(self, problem: ConicProblem, path: str | Path) -> None:
        """Writes MOSEK's model in a format of MOSEK's that the name ends in (.cbf, .task.gz ...); needs no licence.

        MOSEK's model is a minimisation: the file's optimum is that of the problem with its sign changed.
        """
        with self.build(problem) as task:
            task.writedata(str(path))

    def _configure(self, task: Any, tolerance: float, time_limit: float | None, stop: threading.Event) -> None:
        mosek = self._mosek
        for name in _TOLERANCES:
            task.putdouparam(getattr(mosek.dparam, f"intpnt_co_tol_{name}"), tolerance)
        # By default a stalled run is "optimal" within 1000 times the tolerance.
        task.putdouparam(mosek.dparam.intpnt_co_tol_near_rel, 1.0)
        if time_limit is not None:
            task.putdouparam(mosek.dparam.optimizer_max_time, time_limit)
        task.set_InfoCallback(lambda code, doubles, integers, longs: int(stop.is_set()))
        task.set_Stream(mosek.streamtype.log, _log_lines)

    def _optimize(self, task: Any) -> str:
        """Runs the optimizer; returns the name of the reason why it ended."""
        try:
            return repr(task.optimize())
        except self._mosek.Error as error:
            if not is_license_error(error):
                raise
            raise LicenseError(
                f"MOSEK cannot solve without a licence: {' '.join(str(error.msg).split())} ({error.errno!r}, "
                f"{int(error.errno)}). Get one at https://www.mosek.com/license/request/ (free for academic use, "
                "30 days for trials) and put the file where MOSEK looks: mosek/mosek.lic in your home folder, or a "
                'path that the environment variable MOSEKLM_LICENSE_FILE names. Or use backend="clarabel", which '
                "needs none."
            ) from error

    def _result(self, task: Any, problem: ConicProblem, termination: str, seconds: float) -> BackendResult:
        mosek = self._mosek
        point = mosek.soltype.itr
        if not task.solutiondef(point):  # stopped before the first iteration: zeros prove nothing, and harm nothing
            zeros = np.zeros(len(problem.b)), np.zeros(len(problem.c))
            return BackendResult(status_of("", termination), termination, np.nan, *zeros, 0, seconds)
        solution = repr(task.getsolsta(point))
        return BackendResult(
            status=status_of(solution, termination),
            message=solution if termination == "ok" else f"{solution}, {termination}",
            objective=-float(task.getprimalobj(point)),
            y=np.array(task.getxx(point)),
            z=np.array(task.getaccdotys(point))[lower_triangle_places(problem.sizes)],
            iterations=int(task.getintinf(mosek.iinfitem.intpnt_iter)),
            seconds=seconds,
        )


def status_of(solution: str, termination: str) -> SolverStatus:
    """The status for MOSEK's names of the solution's status and of the reason of the termination."""
    return _SOLUTION.get(solution) or _TERMINATION.get(termination, SolverStatus.FAILED)


def is_license_error(error: Any) -> bool:
    """Whether a mosek.Error is about the licence: missing, expired, too small, its server away ..."""
    return "license" in repr(error.errno)  # all have it in their names, and only they


def _import_mosek() -> Any:
    try:
        return importlib.import_module("mosek")
    except ImportError as error:
        raise BackendNotInstalledError(
            'backend="mosek" needs the package mosek, which cannot be imported. Install it with '
            '`pip install "gtsam-sdp[mosek]"`, or use backend="clarabel", which is always there.'
        ) from error


def _log_lines(text: str) -> None:
    for line in filter(str.strip, text.splitlines()):
        _log.info("MOSEK: %s", line.rstrip())
