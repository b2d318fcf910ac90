"""Solvers in a thread of their own: Ctrl-C and errors."""

from __future__ import annotations

import signal
import threading
import time

import pytest

from gtsam_sdp import LicenseError
from gtsam_sdp.backends.running import run_interruptible


def interrupt_soon(seconds: float) -> threading.Timer:
    """Ctrl-C for this process."""
    timer = threading.Timer(seconds, signal.raise_signal, [signal.SIGINT])
    timer.start()
    return timer


def test_interrupt_sets_stop_and_waits_for_the_solver() -> None:
    ended = []

    def work(stop: threading.Event) -> None:
        assert stop.wait(20)
        time.sleep(0.05)
        ended.append(True)

    timer = interrupt_soon(0.1)
    with pytest.raises(KeyboardInterrupt):
        run_interruptible(work)
    timer.join()
    assert ended == [True]


def test_an_interrupt_while_the_thread_starts() -> None:
    """However early Ctrl-C comes, the solver has stopped when the interrupt goes on."""
    for _ in range(20):
        ended: list[bool] = []

        def work(stop: threading.Event, ended: list[bool] = ended) -> None:
            signal.raise_signal(signal.SIGINT)
            assert stop.wait(20)
            ended.append(True)

        with pytest.raises(KeyboardInterrupt):
            run_interruptible(work)
        assert ended == [True]


def test_errors_of_the_solver_come_through() -> None:
    def work(stop: threading.Event) -> None:
        raise LicenseError("none")

    with pytest.raises(LicenseError, match="none"):
        run_interruptible(work)
    assert run_interruptible(lambda stop: stop.is_set()) is False
