"""Files that the command writes, and places that cannot be written: before the work, after it, and standard output."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from html.parser import HTMLParser
from pathlib import Path

import pytest

from gtsam_sdp.cli import results
from tests.cli.conftest import Run
from tests.cli.test_command import write_ring

FULL = Path("/dev/full")
needs_full = pytest.mark.skipif(not FULL.exists(), reason="no /dev/full here")
COMMAND = [sys.executable, "-m", "gtsam_sdp"]


class Page(HTMLParser):
    """Checks that tags are closed, and collects what a page loads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.loaded: list[str] = []
        self.count: dict[str, int] = {}
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.count[tag] = self.count.get(tag, 0) + 1
        self.loaded += [value or "" for name, value in attrs if name in ("src", "href")]
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.mark.parametrize("command", ["certify", "solve"])
def test_a_report_holds_all_in_one_page(run: Run, tmp_path: Path, command: str) -> None:
    wrong, page = write_ring(tmp_path / "wrong.g2o", turns=2), tmp_path / "out.html"
    status, out, _ = run(command, wrong, "--report", page, "--plot", tmp_path / "out.png")
    assert status == (1 if command == "certify" else 0)
    text = page.read_text()
    found = Page(text)
    assert found.count["img"] >= 3
    assert found.count["table"] >= 1
    assert all(source.startswith("data:image/png;base64,") for source in found.loaded)
    assert out.splitlines()[-1].strip()
    assert ("INCONCLUSIVE" if command == "certify" else "CERTIFIED") in text
    assert (tmp_path / "out.png").read_bytes().startswith(b"\x89PNG")


def test_a_report_of_many_files(run: Run, tmp_path: Path) -> None:
    page = tmp_path / "out.html"
    assert run("certify", "w100_30", "nosuchthing<b>", "--report", page)[0] == 2
    found = Page(page.read_text())
    assert found.count["details"] == 2
    assert "nosuchthing&lt;b&gt;" in page.read_text()
    assert "There is no file" in page.read_text()


def test_places_are_looked_at_before_the_work(run: Run, tmp_path: Path) -> None:
    for option, name in (("--report", "out.html"), ("--plot", "out.png"), ("--output", "out.g2o")):
        path = tmp_path / "none" / name
        status, out, err = run("certify", "noisyToyGraph", option, path)
        assert (status, out) == (2, "")
        assert f"{option} {path}: give a file in a folder that exists." in err
    status, out, err = run("certify", "noisyToyGraph", "--plot", tmp_path / "out.bmp")
    assert (status, out) == (2, "")
    assert "the name has to end with .png, .svg, .pdf" in err
    long = tmp_path / f"{'x' * 300}.g2o"
    assert f"--output {long} cannot be written: File name too long." in run("certify", "w100", "--output", long)[2]
    assert list(tmp_path.iterdir()) == []
    kept = tmp_path / "kept.g2o"
    kept.write_text("as it was")
    assert run("certify", "nosuchthing", "--output", kept)[0] == 2
    assert kept.read_text() == "as it was"


@needs_full
def test_the_report_comes_where_writing_fails_after_all(run: Run, tmp_path: Path) -> None:
    full = tmp_path / "full.g2o"
    full.symlink_to(FULL)
    status, out, err = run("certify", "w100_30", "--output", full)
    assert status == 2
    assert "CERTIFIED" in out
    assert f"gtsam-sdp: error: {full} cannot be written: No space left on device." in err
    page = tmp_path / "full.html"
    page.symlink_to(FULL)
    status, out, err = run("certify", "w100_30", "--report", page)
    assert status == 2
    assert "CERTIFIED" in out
    assert "No space left on device" in err


def test_a_picture_that_fails_keeps_the_answer(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise OSError(28, "No space left on device", "out.png")

    monkeypatch.setattr(results, "save_picture", fails)
    status, out, err = run("certify", "w100_30", "--plot", tmp_path / "out.png")
    assert status == 2
    assert "CERTIFIED" in out
    assert "out.png cannot be written: No space left on device." in err


@needs_full
@pytest.mark.parametrize(
    "words", [["certify", "w100_30"], ["--help"], ["list"], ["certify", "w100_30", "noisyToyGraph"]]
)
def test_a_full_disk_has_no_traceback(words: list[str]) -> None:
    with FULL.open("w") as full:
        done = subprocess.run([*COMMAND, *words], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
        assert "Traceback" not in done.stderr
        assert "Exception ignored" not in done.stderr
        if words != ["--help"]:  # argparse passes over it
            assert done.returncode == 2
            assert "standard output cannot be written: No space left on device." in done.stderr
        quiet = subprocess.run([*COMMAND, "certify", "nosuchthing"], stdout=full, stderr=full, check=False)
        assert quiet.returncode == 2


def test_a_closed_pipe_has_no_traceback() -> None:
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as closed:
        done = subprocess.run(
            [*COMMAND, "certify", "w100_30"], stdout=closed, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 1
    assert done.stderr == ""


_SLOW = """
import sys, time
from gtsam_sdp import cli
from gtsam_sdp.{module} import {name} as real
import gtsam_sdp.{module} as module
def slow(*words, **options):
    found = real(*words, **options)
    sys.stderr.write("here\\n"), sys.stderr.flush()
    time.sleep(60)
    return found
module.{name} = slow
sys.exit(cli.main(sys.argv[1:]))
"""


def interrupted(module: str, name: str, *words: object) -> tuple[int, str]:
    """Exit status and standard output of a command that gets Ctrl-C after a function that it calls."""
    script = _SLOW.format(module=module, name=name)
    process = subprocess.Popen(
        [sys.executable, "-c", script, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    for line in process.stderr:
        if line == "here\n":
            break
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert "Traceback" not in err
    return process.returncode, out


def test_ctrl_c_while_certifying_keeps_the_optimised_values(run: Run, tmp_path: Path) -> None:
    best = tmp_path / "best.g2o"
    status, out = interrupted("cli.certifying", "certify", "certify", "pose3example-grid", "--output", best)
    assert status == 130
    assert "optimised     cost 127.941 -> 43.4986" in out
    assert out.endswith("interrupted: not certified\n")
    assert run("certify", best, "--no-optimize")[0] == 0


def test_ctrl_c_in_a_search_keeps_the_best_that_was_certified(run: Run, tmp_path: Path) -> None:
    wrong, best = write_ring(tmp_path / "wrong.g2o", turns=2), tmp_path / "best.g2o"
    words = ("solve", wrong, "--output", best, "--method", "staircase", "--json")
    status, out = interrupted("search.methods.staircase", "climb", *words)
    assert status == 130
    answer = json.loads(out)
    assert answer["certificate"]["cost"] > 1
    assert answer["certificate"]["lower_bound"] <= answer["certificate"]["cost"]
    again = json.loads(run("certify", best, "--no-optimize", "--json")[1])["certificate"]
    assert again["cost"] == pytest.approx(answer["certificate"]["cost"], rel=1e-6)
