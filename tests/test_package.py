"""Importing the package is quick: what only some of its functions need is imported there; no module imports itself."""

from __future__ import annotations

import ast
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import gtsam_sdp


def test_what_importing_the_package_does_not_import() -> None:
    heavy = ["matplotlib", "mosek", "scipy", "clarabel", "qdldl", "gtsam_sdp.factors", "gtsam_sdp.backends"]
    code = f"import sys, gtsam_sdp; print([name for name in {heavy} if name in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert run.stdout.strip() == "[]"


@pytest.mark.parametrize("first", ["certify", "solve", "relax"])
def test_functions_are_not_their_modules(first: str) -> None:
    """Names are imported when they are used; a module of a function's name never takes its place."""
    code = f"import gtsam_sdp, gtsam_sdp.{first}; assert callable(gtsam_sdp.{first}); print(gtsam_sdp.plot.__all__[0])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert run.stdout.strip() == "plot_comparison"


def test_every_public_name_is_there() -> None:
    assert {"certify", "solve", "refine", "relax", "plot", "Certificate", "load_g2o"} <= set(gtsam_sdp.__all__)
    assert all(getattr(gtsam_sdp, name) is not None for name in gtsam_sdp.__all__)
    assert set(gtsam_sdp.__all__) <= set(dir(gtsam_sdp))
    with pytest.raises(AttributeError, match="certifi"):
        gtsam_sdp.certifi  # type: ignore[attr-defined]  # noqa: B018


def test_first_call_sets_nothing_up_while_the_clock_runs() -> None:
    """All modules that certifying a graph takes are there before its first step is timed."""
    code = """
import sys, gtsam, gtsam_sdp
from gtsam_sdp.certification import conclude
from gtsam_sdp.certify import certify
graph, values = gtsam.NonlinearFactorGraph(), gtsam.Values()
for k in range(5):
    values.insert(k, gtsam.Pose3())
    graph.add(gtsam.BetweenFactorPose3(k, (k + 1) % 5, gtsam.Pose3(), gtsam.noiseModel.Unit.Create(6)))
import gtsam_sdp.certification.robust, gtsam_sdp.certification.stationarity, gtsam_sdp.reading.checks
before = set(sys.modules)
assert certify(graph, values)
packages = ("scipy", "clarabel", "qdldl", "gtsam_sdp")
print(sorted(name for name in set(sys.modules) - before if name.split(".")[0] in packages))
"""
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
    rooms: dict[str, set[str]] = {}
    for name, found in graph.items():
        rooms.setdefault(room_of(name), set()).update({room_of(other) for other in found} - {room_of(name)})
    assert len(rooms) > 30
    tuple(TopologicalSorter(rooms).static_order())


def room_of(name: str) -> str:
    """The folder of a module; one in the package's own folder is a room of its own."""
    return ".".join(name.split(".")[:2])
