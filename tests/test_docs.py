"""The Python blocks and commands of the documents run as they stand and print what the documents show."""

from __future__ import annotations

import contextlib
import io
import math
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from gtsam_sdp.factors import registry

_ROOT = Path(__file__).parent.parent
_DOCUMENTS = [
    name
    for name in ("README.md", "docs/own-factors.md", "docs/own-backend.md", "docs/maths/index.md")
    if (_ROOT / name).exists()
]
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?")
_MACHINE_DEPENDENT = (
    (re.compile(r"\d+(?:\.\d+)? ms\b"), "# ms"),
    (re.compile(r"\d+(?:\.\d+)? s\b"), "# s"),
    (re.compile(r"\d+ iterations"), "# iterations"),
    (re.compile(r"own objective [\d.e+-]+"), "own objective #"),
    (re.compile(r"[\d.e+-]+%"), "#%"),  # gaps are differences of nearly equal numbers
    (re.compile(r"^( *gap +)[\d.e+-]+", re.MULTILINE), r"\1#"),
)
_RELATIVE_DIFFERENCE = 1e-5
"""Costs depend on where an optimizer stops, and on the machine's linear algebra, in their last digits."""


def _blocks(text: str) -> list[tuple[str, str | None]]:
    """Python blocks, each with the text block that follows it before any other block, or None."""
    fences = [(m.group(1), m.group(2)) for m in _FENCE.finditer(text)]
    following = [*fences[1:], ("", "")]
    return [
        (body, after[1] if after[0] == "text" else None)
        for (language, body), after in zip(fences, following, strict=True)
        if language == "python"
    ]


def _same(shown: str, printed: str) -> bool:
    """Whether two outputs agree: every word, and every number that does not depend on the machine."""
    for pattern, replacement in _MACHINE_DEPENDENT:
        shown, printed = pattern.sub(replacement, shown), pattern.sub(replacement, printed)
    numbers = [[float(n) for n in _NUMBER.findall(t)] for t in (shown, printed)]
    words = [" ".join(_NUMBER.sub("#", t).split()) for t in (shown, printed)]
    return words[0] == words[1] and all(
        math.isclose(a, b, rel_tol=_RELATIVE_DIFFERENCE, abs_tol=1e-12) for a, b in zip(*numbers, strict=True)
    )


@pytest.fixture
def own_terms(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a document registers is gone after it."""
    monkeypatch.setattr(registry, "_USER_TERMS", {})


@pytest.mark.parametrize("name", _DOCUMENTS)
def test_blocks_print_what_the_document_shows(
    name: str, own_terms: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = _blocks((_ROOT / name).read_text())
    assert blocks, "the document has no Python block"
    namespace: dict[str, object] = {"__name__": "__main__"}
    for number, (code, shown) in enumerate(blocks):
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            exec(compile(code, f"{name}, block {number}", "exec"), namespace)
        if shown is not None:
            assert _same(shown, output.getvalue()), f"{name}, block {number} printed:\n{output.getvalue()}"


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        ("cost 1.25, 3 ms", "cost  1.25, 17 ms", True),
        ("cost 1.25", "cost 1.26", False),
        ("CERTIFIED: 0.1%", "BOUNDED: 0.1%", False),
        ("gap 6.8e-08 1e-05% of it", "gap 7.1e-08 2e-05% of it", True),
        ("one line", "one line\nand another", False),
    ],
)
def test_comparison_ignores_only_what_depends_on_the_machine(shown: str, printed: str, same: bool) -> None:
    assert _same(shown, printed) is same


_COMMANDS = [line.strip() for line in re.findall(r"^    .*", (_ROOT / "README.md").read_text(), re.MULTILINE)]
"""Lines of README that are for a shell."""


@pytest.mark.parametrize("line", [line for line in _COMMANDS if re.search(r"(^|\| )gtsam-sdp ", line)])
def test_commands_end_as_the_readme_says(line: str, tmp_path: Path) -> None:
    """In a clone, in the environment that `make demo` makes: with status 0 unless the line says another one."""
    shutil.copytree(_ROOT / "data", tmp_path / "data")
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    pythonpath = os.pathsep.join([str(_ROOT), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PATH": path, "PYTHONPATH": pythonpath}
    run = subprocess.run(
        ["bash", "-o", "pipefail", "-c", line],
        capture_output=True, text=True, cwd=tmp_path, env=environment, timeout=300, check=False,
    )  # fmt: skip
    said = re.search(r"exit status (\d)$", line)
    assert run.returncode == (int(said.group(1)) if said else 0), run.stderr
    if word := re.search("CERTIFIED|BOUNDED|INCONCLUSIVE", line):
        assert word.group() in run.stdout


def test_targets_of_make_exist() -> None:
    named = {target for line in _COMMANDS for target in re.findall(r"\bmake (\w+)", line)}
    named |= set(re.findall(r"`make (\w+)", (_ROOT / "README.md").read_text()))
    assert "demo" in named
    assert named <= set(re.findall(r"^(\w+):", (_ROOT / "Makefile").read_text(), re.MULTILINE))


def test_what_a_wheel_says_of_itself_has_no_dead_link() -> None:
    """README as it is put into wheels: without pictures and links to files, which only the repository has."""
    project = tomllib.loads((_ROOT / "pyproject.toml").read_text())
    text = (_ROOT / "README.md").read_text()
    assert "](docs/" in text
    for change in project["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]["substitutions"]:
        text = re.sub(change["pattern"], change["replacement"], text)
    links = re.findall(r"\]\(([^)]*)\)", text)
    assert links == [link for link in links if link.startswith("https://")]
    assert "register a term (`docs/own-factors.md`)" in text
    assert "![" not in text


def test_section_numbers_of_docstrings_exist() -> None:
    pages = "".join(path.read_text() for path in sorted((_ROOT / "docs" / "maths").glob("*.md")))
    headings = re.findall(r"^#+ (\d(?:\.\d+)?)", pages, re.MULTILINE)
    assert len(headings) == len(set(headings))
    sources = "".join(path.read_text() for path in (_ROOT / "gtsam_sdp").rglob("*.py"))
    referred = set(re.findall(r"(?:sections? |docs/maths/,? )(\d(?:\.\d+)?)\b", sources))
    assert len(referred) > 3
    assert referred <= set(headings)
