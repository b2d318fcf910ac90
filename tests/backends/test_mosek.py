"""MOSEK: model, settings, statuses and errors without a licence; solutions with one."""

from __future__ import annotations

import logging
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gtsam_sdp import BackendNotInstalledError, GtsamSdpError, LicenseError
from gtsam_sdp.backends import mosek_
from gtsam_sdp.backends.base import SolverStatus
from gtsam_sdp.backends.choose import choose_backend
from gtsam_sdp.backends.clarabel_ import ClarabelBackend
from gtsam_sdp.backends.conic import ConicProblem
from gtsam_sdp.backends.mosek_ import MosekBackend
from gtsam_sdp.linalg.svec import smat
from tests.backends.cases import OPTIMUM, TOLERANCE, check_solution, conic, is_licensed

MOSEK: Any = pytest.importorskip("mosek")


@pytest.mark.mosek_licence
@pytest.mark.parametrize("d", [2, 3])
def test_mosek(d: int) -> None:
    """The same optimum as Clarabel's, and multipliers in our order and sign."""
    problem = conic(d)
    result = MosekBackend().solve(problem, tolerance=TOLERANCE, time_limit=60.0, verbose=False)
    check_solution(problem, result)
    other = ClarabelBackend().solve(problem, tolerance=TOLERANCE, time_limit=None, verbose=False)
    assert result.objective == pytest.approx(other.objective, rel=OPTIMUM)


@pytest.mark.mosek_licence
def test_mosek_stops_at_its_time_limit() -> None:
    result = MosekBackend().solve(conic(3, 20), tolerance=TOLERANCE, time_limit=1e-6, verbose=False)
    assert result.status is SolverStatus.LIMIT


def test_statuses_of_mosek() -> None:
    solutions = {repr(s) for s in MOSEK.solsta.members()}
    terminations = {repr(s) for s in MOSEK.rescode.members()}
    assert set(mosek_._SOLUTION) <= solutions
    assert set(mosek_._TERMINATION) <= terminations
    for solution in solutions - {"optimal", "prim_and_dual_feas"}:
        assert mosek_.status_of(solution, "ok") is SolverStatus.FAILED
        assert mosek_.status_of(solution, "trm_internal") is SolverStatus.FAILED
    assert mosek_.status_of("optimal", "ok") is SolverStatus.SOLVED
    assert mosek_.status_of("prim_and_dual_feas", "trm_max_time") is SolverStatus.INACCURATE
    assert mosek_.status_of("unknown", "trm_max_time") is SolverStatus.LIMIT
    assert mosek_.status_of("unknown", "trm_max_iterations") is SolverStatus.LIMIT
    assert mosek_.status_of("unknown", "trm_stall") is SolverStatus.INACCURATE
    assert mosek_.status_of("", "trm_max_time") is SolverStatus.LIMIT


def test_mosek_without_a_licence_says_what_to_do() -> None:
    if is_licensed():
        pytest.skip("there is a licence")
    with pytest.raises(
        LicenseError, match=r"(?s)licence.*mosek\.com/license.*mosek\.lic.*backend=\"clarabel\""
    ) as info:
        MosekBackend().solve(conic(2), tolerance=TOLERANCE, time_limit=None, verbose=False)
    assert isinstance(info.value, GtsamSdpError)
    assert isinstance(info.value.__cause__, MOSEK.Error)


def test_errors_of_mosek_that_are_about_the_licence() -> None:
    codes = {repr(code): int(code) for code in MOSEK.rescode.members()}
    ours = {name for name, code in codes.items() if mosek_.is_license_error(MOSEK.Error(MOSEK.rescode(code), ""))}
    assert {"err_missing_license_file", "err_license_expired", "err_license_max", "err_license_server"} <= ours
    assert {"err_size_license", "err_platform_not_licensed", "err_optimizer_license"} <= ours
    assert not ours & {"ok", "err_space", "err_file_open", "trm_max_time"}


def test_other_errors_of_mosek_stay_what_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: Any) -> None:
        raise MOSEK.Error(MOSEK.rescode.err_space, "out of space")

    monkeypatch.setattr(MOSEK.Task, "optimize", broken)
    with pytest.raises(MOSEK.Error, match="out of space"):
        MosekBackend().solve(conic(2), tolerance=TOLERANCE, time_limit=None, verbose=False)


def answer_for_mosek(monkeypatch: pytest.MonkeyPatch, problem: ConicProblem, solution: str, termination: str) -> None:
    """Makes a task answer as a licensed MOSEK does, in the order and with the signs that its manual defines."""
    exact = ClarabelBackend().solve(problem, tolerance=TOLERANCE, time_limit=None, verbose=False)
    lower = []
    for k, n in enumerate(problem.sizes.tolist()):
        Z = smat(exact.z[problem.starts[k] : problem.starts[k + 1]], n)
        lower += [Z[j, i] * (1 if i == j else np.sqrt(2)) for i in range(n) for j in range(i, n)]
    answers = {
        "optimize": getattr(MOSEK.rescode, termination),
        "solutiondef": solution != "",
        "getsolsta": getattr(MOSEK.solsta, solution or "unknown"),
        "getprimalobj": -exact.objective,
        "getxx": exact.y.tolist(),
        "getaccdotys": lower,
        "getintinf": exact.iterations,
    }
    for name, answer in answers.items():
        monkeypatch.setattr(MOSEK.Task, name, lambda *_, answer=answer: answer)


@pytest.mark.parametrize("d", [2, 3])
def test_mosek_result_is_put_into_our_order(d: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the answers of a licensed MOSEK put in its mouth."""
    problem = conic(d)
    answer_for_mosek(monkeypatch, problem, "optimal", "ok")
    result = MosekBackend().solve(problem, tolerance=TOLERANCE, time_limit=None, verbose=False)
    check_solution(problem, result)
    assert result.message == "optimal"


def test_mosek_without_a_point(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = conic(2)
    answer_for_mosek(monkeypatch, problem, "", "trm_max_time")
    result = MosekBackend().solve(problem, tolerance=TOLERANCE, time_limit=1.0, verbose=False)
    assert result.status is SolverStatus.LIMIT
    assert result.message == "trm_max_time"
    assert np.isnan(result.objective)
    assert not result.y.any()
    assert not result.z.any()


def test_settings_of_mosek(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, float] = {}

    def optimize(task: Any) -> None:
        for name in ("intpnt_co_tol_pfeas", "intpnt_co_tol_rel_gap", "intpnt_co_tol_near_rel", "optimizer_max_time"):
            seen[name] = task.getdouparam(getattr(MOSEK.dparam, name))
        raise MOSEK.Error(MOSEK.rescode.err_license_expired, "expired")

    monkeypatch.setattr(MOSEK.Task, "optimize", optimize)
    with pytest.raises(LicenseError, match="expired"):
        MosekBackend().solve(conic(2), tolerance=1e-7, time_limit=3.0, verbose=False)
    assert list(seen.values()) == [1e-7, 1e-7, 1.0, 3.0]


def test_mosek_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mosek", None)
    assert not MosekBackend.is_installed()
    assert not MosekBackend.is_licensed()
    with pytest.raises(BackendNotInstalledError, match=r'pip install "gtsam-sdp\[mosek\]"') as info:
        choose_backend("mosek")
    assert isinstance(info.value, GtsamSdpError)


def test_mosek_log_goes_to_logging(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "gtsam_sdp"):
        mosek_._log_lines("\nITE PFEAS\n0   1.0e+00 \n")
    assert [record.getMessage() for record in caplog.records] == ["MOSEK: ITE PFEAS", "MOSEK: 0   1.0e+00"]


def test_mosek_is_told_to_stop_at_an_interrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    """The callback that MOSEK asks once an iteration answers 0, and 1 after Ctrl-C."""
    answers: list[int] = []
    callbacks: list[Callable[..., int]] = []

    def optimize(task: Any) -> Any:
        ask = callbacks[0]
        answers.append(ask(MOSEK.callbackcode.intpnt, [], [], []))
        signal.raise_signal(signal.SIGINT)
        deadline = time.monotonic() + 20
        while not (answer := ask(MOSEK.callbackcode.intpnt, [], [], [])) and time.monotonic() < deadline:
            time.sleep(0.01)
        answers.append(answer)
        return MOSEK.rescode.trm_user_callback

    monkeypatch.setattr(MOSEK.Task, "set_InfoCallback", lambda task, callback: callbacks.append(callback))
    monkeypatch.setattr(MOSEK.Task, "optimize", optimize)
    with pytest.raises(KeyboardInterrupt):
        MosekBackend().solve(conic(2), tolerance=TOLERANCE, time_limit=None, verbose=False)
    assert answers == [0, 1]
