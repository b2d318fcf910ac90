"""Running a solver so that Ctrl-C stops it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

_SECONDS_BETWEEN_LOOKS = 0.1
"""On Windows a wait cannot be interrupted, only end."""


def run_interruptible(work: Callable[[threading.Event], T]) -> T:
    """Runs `work(stop)` in a thread of its own while the caller's thread waits, and returns its result.

    Solvers release the interpreter, but Python raises KeyboardInterrupt in the main thread only and between its own
    instructions; an exception raised inside a solver's callback is lost. So the main thread waits here, and on Ctrl-C
    sets `stop`, which the solver's callback has to look at once an iteration. The interrupt goes on when the solver
    has stopped.

    Raises:
        KeyboardInterrupt: Ctrl-C; whatever `work` raises.
    """
    stop, ended = threading.Event(), threading.Event()
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work(stop))
        except BaseException as error:
            errors.append(error)
        finally:
            ended.set()

    thread = threading.Thread(target=run, name="gtsam_sdp solver")
    try:
        thread.start()
        while not ended.wait(_SECONDS_BETWEEN_LOOKS):
            pass
    except BaseException:  # a handler of another signal may raise what it likes
        stop.set()
        if thread.ident is not None:  # it runs already, even if `start` was interrupted
            ended.wait()
        raise
    if errors:
        raise errors[0]
    return results[0]
