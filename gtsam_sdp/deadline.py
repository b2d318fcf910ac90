"""A time after which no long step of a proof is begun: what is not proven by then stays unproven."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass
class Deadline:
    """When to end, and what is known about the steps, which cannot be interrupted.

    Attributes:
        ends: reading of `time.perf_counter` [s].
        longest: time of the longest step so far [s].
        was_felt: whether a step was not begun.
    """

    ends: float
    longest: float = 0.0
    was_felt: bool = False


_current: ContextVar[Deadline | None] = ContextVar("deadline", default=None)


@contextmanager
def until(ends: float) -> Iterator[Deadline]:
    """Within it no step is begun that is predicted to end after this reading of `time.perf_counter` [s]."""
    deadline = Deadline(ends)
    token = _current.set(deadline)
    try:
        yield deadline
    finally:
        _current.reset(token)


def has_time(steps: float = 1.0, seconds: float = 0.0) -> bool:
    """Whether work that takes as long as so many of the longest step, or so many seconds, may be begun."""
    deadline = _current.get()
    if deadline is None or time.perf_counter() + max(steps * deadline.longest, seconds) <= deadline.ends:
        return True
    deadline.was_felt = True
    return False


@contextmanager
def timed() -> Iterator[None]:
    """Takes down how long a step takes."""
    began = time.perf_counter()
    try:
        yield
    finally:
        deadline = _current.get()
        if deadline is not None:
            deadline.longest = max(deadline.longest, time.perf_counter() - began)
