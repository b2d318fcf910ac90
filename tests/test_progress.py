"""The line that lives: drawn in time whatever holds the interpreter, cleared at the end, plain lines in a pipe."""

from __future__ import annotations

import logging
import os
import re
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field

import pytest

import gtsam_sdp
from gtsam_sdp import progress
from gtsam_sdp.progress import State, report_now, report_task, showing_progress, tell

pty = pytest.importorskip("pty")

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")

_HOLDS = """
import ctypes, sys, time
from gtsam_sdp.progress import report_now, report_task, showing_progress, tell
hold = ctypes.PyDLL(None).usleep  # unlike CDLL it keeps the interpreter
with showing_progress(False, live=True):
    {work}
"""

_SLOW = """
import sys, time
from gtsam_sdp import cli
from gtsam_sdp.cli import certifying
real = certifying.certify
certifying.certify = lambda *words, **options: (time.sleep({seconds}), real(*words, **options))[1]
sys.exit(cli.main(sys.argv[1:]))
"""


@dataclass
class Seen:
    """What a terminal got, and when [s]."""

    status: int = 0
    out: str = ""
    parts: list[tuple[float, str]] = field(default_factory=list)

    @property
    def text(self) -> str:
        return _ESCAPES.sub("", "".join(part for _, part in self.parts))


def in_terminal(words: list[str], *, interrupt_at: str = "", both: bool = False) -> Seen:
    """Runs a program whose standard error is a terminal; Ctrl-C as soon as a text is seen."""
    here, there = pty.openpty()
    seen = Seen()
    process = subprocess.Popen(
        words, stdout=there if both else subprocess.PIPE, stderr=there, text=True, start_new_session=True,
        env=os.environ | {"TERM": "xterm", "COLUMNS": "120"},
    )  # fmt: skip
    os.close(there)

    def follow() -> None:
        wanted = interrupt_at
        while True:
            try:
                part = os.read(here, 10_000)
            except OSError:
                return
            seen.parts.append((time.monotonic(), part.decode()))
            if wanted and wanted in seen.text:
                os.killpg(process.pid, signal.SIGINT)
                wanted = ""

    thread = threading.Thread(target=follow)
    thread.start()
    seen.out = process.communicate(timeout=120)[0] or ""
    thread.join(20)
    os.close(here)
    seen.status = process.returncode
    return seen


def program(work: str) -> list[str]:
    return [sys.executable, "-c", _HOLDS.format(work=work)]


def test_the_line_lives_while_the_interpreter_is_held() -> None:
    work = 'report_now("holding", cost=12.5); hold(3_500_000); report_now(bound=11.0); hold(900_000)'
    seen = in_terminal(program(work))
    assert seen.status == 0
    assert "holding" in seen.text
    assert "cost 12.5" in seen.text
    assert "bound 11" in seen.text
    assert {"2", "3"} <= set(re.findall(r"0:0(\d)", seen.text))
    assert "".join(part for _, part in seen.parts).rstrip().endswith("\x1b[2K")  # cleared


def test_what_is_told_stays_above_the_line() -> None:
    work = 'tell("early"); report_task("map [7].g2o", 2, 5); hold(1_500_000); tell("a [b] c"); hold(300_000)'
    seen = in_terminal(program(work))
    lines = [line.strip() for line in seen.text.replace("\r", "\n").splitlines()]
    assert lines.count("early") == 1
    assert lines.count("a [b] c") == 1
    assert "2 of 5" in seen.text
    assert "map [7].g2o" in seen.text


def test_short_work_shows_no_line() -> None:
    seen = in_terminal(program('report_now("short")'))
    assert (seen.status, seen.text) == (0, "")


def test_a_command_shows_what_it_does_and_ctrl_c_reaches_it_alone() -> None:
    slow = _SLOW.format(seconds=60)
    seen = in_terminal([sys.executable, "-c", slow, "certify", "w100_30"], interrupt_at="cost 0")
    assert seen.status == 130
    assert "Levenberg-Marquardt, iteration" in seen.text
    assert "Traceback" not in seen.text
    assert seen.out.endswith("interrupted: not certified\n")


def test_rows_of_many_files_are_whole_in_a_terminal() -> None:
    slow = _SLOW.format(seconds=0.8)
    seen = in_terminal([sys.executable, "-c", slow, "certify", "w100_30", "noisyToyGraph", "--csv"], both=True)
    lines = [line.strip() for line in seen.text.replace("\r", "\n").splitlines()]
    assert seen.status == 0
    assert sum(line.startswith(("w100_30,30,59,", "noisyToyGraph,4,5,")) for line in lines) == 2


def test_plain_lines_in_a_pipe(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("_BEFORE_A_REPORT", "_BETWEEN_REPORTS"):
        monkeypatch.setattr(progress, name, 0.05)
    with showing_progress(False, live=True):
        report_task("map.g2o", 1, 3)
        report_now("factorising", cost=3.0)
        time.sleep(0.3)
        tell("told")
    written = capsys.readouterr()
    assert written.out == ""
    assert "gtsam_sdp: 0 s: 1 of 3, map.g2o, factorising, cost 3\n" in written.err
    assert written.err.count("told\n") == 1
    assert logging.getLogger("gtsam_sdp").handlers == []


def test_states_keep_the_best() -> None:
    state = State("a", cost=3.0, bound=1.0).then(State("b", cost=4.0, bound=2.0)).then(State())
    assert (state.step, state.cost, state.bound) == ("b", 3.0, 2.0)
    assert state.then(State(task="next", done=1, total=2)).cost != 3.0


def test_verbose_writes_lines_and_gives_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    graph, values = gtsam_sdp.load_g2o("noisyToyGraph")
    quiet, loud = gtsam_sdp.certify(graph, values), gtsam_sdp.certify(graph, values, verbose=True)
    assert quiet.lower_bound == loud.lower_bound
    assert "gtsam_sdp: reading: 5 factors" in capsys.readouterr().err
