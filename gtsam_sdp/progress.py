"""Progress of long work: log messages of the package, shown on request."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def showing_progress(verbose: bool) -> Iterator[None]:
    """Shows the package's log messages on standard error while `verbose` work is done."""
    if not verbose:
        yield
        return
    logger = logging.getLogger("gtsam_sdp")
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("gtsam_sdp: %(message)s"))
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


def report_step(name: str, what: str, seconds: float) -> None:
    """Logs a step of a long computation."""
    logging.getLogger(__name__).info("%s: %s (%.1f s)", name, what, seconds)


class Clock:
    """Seconds of the steps, reported as each is done."""

    def __init__(self) -> None:
        self._last = time.perf_counter()
        self.seconds: dict[str, float] = {}

    def done(self, step: str, what: str) -> None:
        """Ends a step."""
        now = time.perf_counter()
        self.seconds[step] = self.seconds.get(step, 0.0) + now - self._last
        logging.getLogger(__name__).info("%s: %s (%.0f ms)", step, what, 1e3 * (now - self._last))
        self._last = now
