"""Importing the package is quick: what only some of its functions need is imported there; no module imports itself."""

from __future__ import annotations

import ast
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import gtsam_sdp


def test_what_importing_the_package_does_not_import() -> None:
    heavy = ["matplotlib", "mosek", "scipy.sparse", "scipy.spatial"]
    code = f"import sys, gtsam_sdp; print([name for name in {heavy} if name in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert run.stdout.strip() == "[]"


def imports_of(path: Path, modules: set[str]) -> set[str]:
    """Modules of the package that one imports, for types too; the package itself where it is imported from."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "gtsam_sdp":
            inner = {f"{node.module}.{alias.name}" for alias in node.names} & modules
            found |= inner if inner and node.module != "gtsam_sdp" else {node.module}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if alias.name.split(".")[0] == "gtsam_sdp"}
    return found


def test_no_circles_of_imports() -> None:
    root = Path(gtsam_sdp.__file__).parent
    names = {
        ".".join(path.relative_to(root.parent).with_suffix("").parts).removesuffix(".__init__"): path
        for path in root.rglob("*.py")
    }
    graph = {name: imports_of(path, set(names)) - {name} for name, path in names.items()}
    assert len(graph) > 100
    order = tuple(TopologicalSorter(graph).static_order())  # raises CycleError, which names the circle
    assert set(names) <= set(order)
