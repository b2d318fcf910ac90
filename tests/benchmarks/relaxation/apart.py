"""Runs in a process of their own: their peak memory is known, and they can be stopped."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, Generic, TypeVar

from tests.benchmarks.common import peak_megabytes

T = TypeVar("T")


@dataclass(frozen=True)
class Outcome(Generic[T]):
    """How a run ended.

    Attributes:
        value: what it returned, None if it did not.
        note: why not.
        megabytes: peak memory of the process, 0 if unknown.
        seconds: from its start to its end.
    """

    value: T | None
    note: str
    megabytes: float
    seconds: float


def run_apart(work: Callable[..., T], *arguments: object, seconds: float) -> Outcome[T]:
    """Calls work(*arguments) in a new process, and kills it after some seconds."""
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(sender, work, arguments))
    started = time.perf_counter()
    process.start()
    sender.close()
    value, note, megabytes = _answer(receiver, seconds)
    process.kill()
    process.join()
    return Outcome(value, note, megabytes, time.perf_counter() - started)


def _work(sender: Connection, work: Callable[..., Any], arguments: tuple[object, ...]) -> None:
    try:
        value, note = work(*arguments), ""
    except Exception as error:  # whatever it is, the benchmark reports it and goes on
        value, note = None, f"{type(error).__name__}: {error}"
    sender.send((value, note, peak_megabytes()))


def _answer(receiver: Connection, seconds: float) -> tuple[Any, str, float]:
    if not receiver.poll(seconds):
        return None, f"stopped after {seconds:.0f} s", 0.0
    try:
        return receiver.recv()
    except EOFError:
        return None, "the process died, perhaps for lack of memory", 0.0
