"""Every notebook runs from top to bottom."""

from __future__ import annotations

from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).parent.parent / "notebooks").glob("*.ipynb"))


@pytest.mark.filterwarnings("ignore")  # of Jupyter's own packages; the notebook is a process of its own
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_runs(path: Path) -> None:
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    notebook = nbformat.read(path, as_version=4)
    assert all(cell.outputs or not cell.execution_count for cell in notebook.cells if "print(" in cell.source)
    nbclient.NotebookClient(notebook, timeout=180, resources={"metadata": {"path": str(path.parent)}}).execute()
