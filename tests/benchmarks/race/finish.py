"""How an entrant ended, and the clock that all of them run against."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

T = TypeVar("T")


class Seconds(NamedTuple):
    """Time that passed, and time that all threads of the process spent computing in it."""

    elapsed: float
    computing: float


@dataclass(frozen=True)
class Finish:
    """How an entrant ended.

    Attributes:
        seconds: from the graph to the verdict.
        certified: its own verdict.
        verdict: in its own words.
        cost: graph.error of its values, NaN if it returned none.
        gap: relative gap that it proved, NaN if it proves none.
        rounding: relative error of the cost, where it was printed with few digits.
        megabytes: peak of a program that it started, 0 if none.
    """

    seconds: Seconds
    certified: bool
    verdict: str
    cost: float = math.nan
    gap: float = math.nan
    rounding: float = 0.0
    megabytes: float = 0.0


def timed(run: Callable[[], T]) -> tuple[T, Seconds]:
    """The result of a call, and its time."""
    elapsed, computing = time.perf_counter(), time.process_time()
    result = run()
    return result, Seconds(time.perf_counter() - elapsed, time.process_time() - computing)
