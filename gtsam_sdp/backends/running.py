"""Running a solver so that Ctrl-C stops it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
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
    stop = threading.Event()
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="gtsam_sdp solver") as executor:
        try:
            future = executor.submit(work, stop)
            while not future.done():
                wait([future], timeout=_SECONDS_BETWEEN_LOOKS)
            return future.result()
        except BaseException:  # a handler of another signal may raise what it likes
            stop.set()
            raise
