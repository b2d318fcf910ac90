"""Clarabel: its points, limits, statuses, progress, Ctrl-C."""

from __future__ import annotations

import logging
import signal
import time
from typing import Any

import clarabel
import pytest

from gtsam_sdp.backends import clarabel_
from gtsam_sdp.backends.base import SolverStatus
from gtsam_sdp.backends.clarabel_ import ClarabelBackend
from tests.backends.cases import TOLERANCE, check_solution, conic


@pytest.mark.parametrize("d", [2, 3])
def test_clarabel(d: int) -> None:
    problem = conic(d)
    check_solution(problem, ClarabelBackend().solve(problem, tolerance=TOLERANCE, time_limit=None, verbose=False))


def test_clarabel_stops_at_its_time_limit() -> None:
    result = ClarabelBackend().solve(conic(3, 20), tolerance=TOLERANCE, time_limit=1e-6, verbose=False)
    assert result.status is SolverStatus.LIMIT
    assert result.message == "MaxTime"


def test_statuses_of_clarabel() -> None:
    """Its names are those that we map, and every other one is a failure."""
    solver: Any = clarabel
    names = {name for name in dir(solver.SolverStatus) if name[0].isupper()}
    assert set(clarabel_._STATUS) <= names
    failed = names - set(clarabel_._STATUS)
    almost = {"AlmostPrimalInfeasible", "AlmostDualInfeasible"}
    assert failed == {"PrimalInfeasible", "DualInfeasible", "NumericalError", "Unsolved", *almost}
    for name in (*failed, "a status of a later version"):
        assert clarabel_.status_of(name) is SolverStatus.FAILED
    assert clarabel_.status_of("AlmostSolved") is SolverStatus.INACCURATE


def test_progress_is_shown_on_request(capsys: pytest.CaptureFixture[str]) -> None:
    backend = ClarabelBackend()
    backend.solve(conic(2), tolerance=TOLERANCE, time_limit=None, verbose=False)
    assert capsys.readouterr() == ("", "")
    result = backend.solve(conic(2), tolerance=TOLERANCE, time_limit=None, verbose=True)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("Clarabel: iteration") >= result.iterations


def test_clarabel_stops_at_an_interrupt() -> None:
    """Ctrl-C at the first iteration: the solver has stopped when KeyboardInterrupt arrives, long before the end."""
    problem = conic(3, 150)
    iterations = []

    class Interrupting(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if not iterations:
                signal.raise_signal(signal.SIGINT)
            iterations.append(record.getMessage())

    logger, handler = logging.getLogger("gtsam_sdp.backends.clarabel_"), Interrupting()
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        with pytest.raises(KeyboardInterrupt):
            ClarabelBackend().solve(problem, tolerance=TOLERANCE, time_limit=None, verbose=False)
        stopped = len(iterations)
        time.sleep(0.2)
        assert len(iterations) == stopped, "the solver still runs"
    finally:
        logger.removeHandler(handler)
        logger.setLevel(logging.NOTSET)
    full = ClarabelBackend().solve(problem, tolerance=TOLERANCE, time_limit=None, verbose=False)
    assert stopped < full.iterations
