"""Progress of long work: log messages of the package, and on request what is done now, in a line that lives.

What is begun and what is known of it travels as a log record with a `State`. In a terminal the line is drawn by a
process of its own (`progress_line.py`), because GTSAM and SciPy may hold the interpreter for many seconds.
"""

from __future__ import annotations

import json
import logging
import math
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

_BEFORE_THE_LINE = 0.4
"""Work that is shorter shows no line [s]; the line's process draws nothing for a little longer than that."""

_BEFORE_A_REPORT, _BETWEEN_REPORTS = 5.0, 10.0
"""The same where standard error is no terminal, and from one line to the next [s]."""

_LINE = Path(__file__).with_name("progress_line.py")
_ENDING = 2.0
"""How long the line's process may take to clear it [s]."""


@dataclass(frozen=True)
class State:
    """What is done now.

    Attributes:
        step: by name; empty: the one before goes on.
        cost: of values of the graph, NaN if none is told.
        bound: a verified lower bound of it, NaN if none is told.
        done: how many tasks of a batch are done.
        total: how many there are; 0 where that is not known.
        task: one of the batch, by name; a new one forgets what was known of the one before.
    """

    step: str = ""
    cost: float = math.nan
    bound: float = math.nan
    done: int = 0
    total: int = 0
    task: str = ""

    def then(self, new: State) -> State:
        """What is known after another report: the lowest cost, and the best bound."""
        if new.task and new.task != self.task:
            return new
        cost, bound = _best(min, self.cost, new.cost), _best(max, self.bound, new.bound)
        return State(new.step or self.step, cost, bound, self.done, self.total, self.task)

    @property
    def text(self) -> str:
        """In words: `Levenberg-Marquardt, iteration 7, cost 12.5, bound 12.4`."""
        parts = [self.task, self.step]
        parts += [f"{name} {number:.8g}" for name, number in (("cost", self.cost), ("bound", self.bound)) if number > 0]
        return ", ".join(part for part in parts if part)


def _best(choose: Callable[[float, float], float], known: float, new: float) -> float:
    if math.isnan(known) or math.isnan(new):
        return known if math.isnan(new) else new
    return choose(known, new)


def report_now(
    step: str = "", *, cost: float = math.nan, bound: float = math.nan, done: int = 0, total: int = 0
) -> None:
    """Says what begins, or goes on, and what is known: see `State`."""
    _log(State(step, cost, bound))


def report_task(task: str, done: int, total: int) -> None:
    """Says which of many tasks begins, and how many are done."""
    _log(State("", done=done, total=total, task=task))


def _log(state: State) -> None:
    logger = logging.getLogger(__name__)
    if logger.isEnabledFor(logging.DEBUG):
        logger.debug("%s", state.text, extra={"state": state})


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


def tell(text: str) -> None:
    """Writes a line to standard error, above the line that lives if there is one."""
    if not tell_above_the_line(text):
        _write(text)


def tell_above_the_line(text: str) -> bool:
    """Writes a line above the one that lives in the terminal; False if there is none."""
    shown = [handler for handler in logging.getLogger("gtsam_sdp").handlers if isinstance(handler, _Shown)]
    return any(handler.say(text) for handler in shown)


def _write(text: str) -> None:
    with suppress(OSError, ValueError, AttributeError):  # nobody reads it: closed, full or none
        sys.stderr.write(text + "\n")
        sys.stderr.flush()


@contextmanager
def showing_progress(verbose: bool, *, live: bool | None = None) -> Iterator[None]:
    """Shows on standard error how far the work within is; inside another one it changes nothing.

    Args:
        verbose: a line for each step that is done.
        live: a line that says what is done now, in a terminal at least once a second; None: as `verbose`.
    """
    logger = logging.getLogger("gtsam_sdp")
    live = verbose if live is None else live
    if not (verbose or live) or any(isinstance(handler, _Shown) for handler in logger.handlers):
        yield
        return
    handler, level = _Shown(verbose, live), logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG if live else logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        handler.end()


class _Shown(logging.Handler):
    """Log messages as lines, and the latest state in a line that lives, or now and then in one more line."""

    def __init__(self, lines: bool, live: bool) -> None:
        super().__init__(logging.DEBUG)
        self._lines, self._began, self._state = lines, time.time(), State()
        self._ended = threading.Event()
        self._process = _start_line() if live and _is_terminal() else None
        self._send({"state": self._fields()})
        if live and self._process is None:
            threading.Thread(target=self._report, name="gtsam_sdp progress", daemon=True).start()

    def emit(self, record: logging.LogRecord) -> None:
        """Takes a record."""
        state = getattr(record, "state", None)
        if state is not None:
            self._state = self._state.then(state)
            self._send({"state": self._fields()})
        elif self._lines and record.levelno >= logging.INFO:
            text = f"gtsam_sdp: {record.getMessage()}"
            if not self.say(text):
                _write(text)

    def say(self, text: str) -> bool:
        """Writes a line above the one that lives; False if none is drawn."""
        with self.lock or threading.RLock():
            return self._is_drawn() and self._send({"say": text})

    def end(self) -> None:
        """Clears the line that lives."""
        self._ended.set()
        with self.lock or threading.RLock():
            process, self._process = self._process, None
        if process is None or process.stdin is None:
            return
        if not self._is_drawn():
            process.kill()
        with suppress(OSError):
            process.stdin.close()
        try:
            process.wait(_ENDING)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _is_drawn(self) -> bool:
        return time.time() - self._began >= _BEFORE_THE_LINE

    def _fields(self) -> dict[str, object]:
        known = {name: value for name, value in asdict(self._state).items() if value == value}  # NaN is no JSON
        return {**known, "began": self._began}

    def _send(self, message: dict[str, object]) -> bool:
        """Whether the line's process took a message."""
        if self._process is None or self._process.stdin is None:
            return False
        try:
            self._process.stdin.write(json.dumps(message) + "\n")
            self._process.stdin.flush()
        except (OSError, ValueError):
            return False
        return True

    def _report(self) -> None:
        """Writes a line now and then."""
        wait = _BEFORE_A_REPORT
        while not self._ended.wait(wait):
            wait = _BETWEEN_REPORTS
            state = self._state
            part = f"{state.done} of {state.total}, " if state.total else ""
            _write(f"gtsam_sdp: {time.time() - self._began:.0f} s: {part}{state.text or 'at work'}")


def _start_line() -> subprocess.Popen[str] | None:
    """Starts the process that draws the line: at once, because what comes next may hold the interpreter."""
    with suppress(OSError, ValueError, AttributeError):
        if sys.executable:
            return subprocess.Popen(
                [sys.executable, "-I", str(_LINE), str(_BEFORE_THE_LINE + 0.1)],
                stdin=subprocess.PIPE, stdout=sys.stderr.fileno(), stderr=subprocess.DEVNULL, text=True,
            )  # fmt: skip
    return None


def _is_terminal() -> bool:
    try:
        return sys.stderr.isatty()
    except (AttributeError, ValueError):
        return False
