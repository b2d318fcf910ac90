"""Every notebook of the folder runs from top to bottom, and was saved with its outputs."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

_FOLDER = Path(__file__).parent.parent / "notebooks"
_NOTEBOOKS = sorted(_FOLDER.glob("*.ipynb"))
_SECONDS = 120
"""Longest time for a cell."""


def _read(path: Path) -> Any:
    return nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]


def _verdicts(notebook: Any) -> list[str]:
    """Every status that its outputs name, in their order."""
    text = json.dumps([cell.get("outputs", []) for cell in notebook.cells])
    return re.findall(r"\b(?:CERTIFIED|BOUNDED|INCONCLUSIVE)\b", text)


def test_there_are_notebooks() -> None:
    assert len(_NOTEBOOKS) >= 6


@pytest.mark.parametrize("path", _NOTEBOOKS, ids=lambda path: path.stem)
def test_outputs_are_saved(path: Path) -> None:
    cells = [cell for cell in _read(path).cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    assert not any(output.output_type == "error" for cell in cells for output in cell.outputs)
    assert any("image/png" in output.get("data", {}) for cell in cells for output in cell.outputs)


@pytest.mark.parametrize("path", _NOTEBOOKS, ids=lambda path: path.stem)
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning", "ignore::RuntimeWarning")
def test_runs_and_comes_to_what_was_saved(path: Path, tmp_path: Path) -> None:
    """In an empty folder, as a user who downloaded nothing else."""
    notebook = _read(path)
    saved = _verdicts(notebook)
    NotebookClient(notebook, timeout=_SECONDS, resources={"metadata": {"path": str(tmp_path)}}).execute()
    assert _verdicts(notebook) == saved
