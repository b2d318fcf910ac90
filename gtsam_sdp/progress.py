"""Progress of long work: log messages of the package, shown on request."""

from __future__ import annotations

import logging
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
