"""Problems for the tests of backends, what every backend has to return, and whether there is a MOSEK licence."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from gtsam_sdp import relax
from gtsam_sdp.backends.base import BackendResult, SolverStatus
from gtsam_sdp.backends.conic import ConicProblem
from gtsam_sdp.backends.mosek_ import MosekBackend
from gtsam_sdp.linalg.svec import smat
from tests import problems

TOLERANCE = 1e-7
"""Of solvers: all of them reach it on the rings."""

OPTIMUM = 1e-5
"""Relative difference of optima that are found with it."""


@cache
def conic(d: int, count: int = 6) -> ConicProblem:
    graph, truth = problems.ring(d, count, 0.1, 0.1)
    return relax(graph, problems.optimize(graph, truth)).conic


@cache
def is_licensed() -> bool:
    return MosekBackend.is_licensed()


def check_solution(problem: ConicProblem, result: BackendResult) -> None:
    """y and z are feasible and their objectives agree: what every backend has to return."""
    assert result.status is SolverStatus.SOLVED
    assert result.objective == pytest.approx(problem.b @ result.y, rel=1e-9)
    assert problem.c @ result.z == pytest.approx(result.objective, rel=OPTIMUM)
    np.testing.assert_allclose(problem.A.T @ result.z, problem.b, atol=1e-5)
    slack = problem.c - problem.A @ result.y
    for k, n in enumerate(problem.sizes.tolist()):
        for part in (slack, result.z):
            block = smat(part[problem.starts[k] : problem.starts[k + 1]], n)
            assert np.linalg.eigvalsh(block)[0] > -1e-5
    assert result.iterations > 0
    assert result.seconds > 0
