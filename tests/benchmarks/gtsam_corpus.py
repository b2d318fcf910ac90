"""Certifies what GTSAM's own examples and tests optimise.

    OMP_NUM_THREADS=1 python -m tests.benchmarks.gtsam_corpus [--only NAME ...] [--write FILE]

Each file of `gtsam/examples` and `gtsam/tests` that comes with the wheel runs in a process of its own, in which the
optimizers hand over every graph with its result. Each is certified as it is, without dropping factors.
"""

from __future__ import annotations

import argparse
import json
import os
import runpy
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable
from contextlib import redirect_stdout, suppress
from pathlib import Path
from typing import Any

import gtsam

from gtsam_sdp import certify
from gtsam_sdp.errors import GtsamSdpError, UnsupportedFactorError, UnsupportedNoiseError
from tests.benchmarks import common

_BATCH = (
    "LevenbergMarquardtOptimizer",
    "GaussNewtonOptimizer",
    "DoglegOptimizer",
    "NonlinearConjugateGradientOptimizer",
)
_GNC = ("GncLMOptimizer", "GncGaussNewtonOptimizer")
_MOST = 8
"""Graphs of one file that are certified: the first ones of different sizes, and the last."""

_RUN_SECONDS = 240
_ORDER = ("CERTIFIED", "BOUNDED", "INCONCLUSIVE", "refused", "failed")

Caught = list[tuple[str, gtsam.NonlinearFactorGraph, gtsam.Values]]


def _catching(name: str, caught: Caught) -> type:
    """An optimizer of GTSAM that notes its graph with each result."""
    base: Any = getattr(gtsam, name)

    class Catching(base):
        def __init__(self, graph: gtsam.NonlinearFactorGraph, *rest: Any, **named: Any) -> None:
            super().__init__(graph, *rest, **named)
            self.caught_graph = gtsam.NonlinearFactorGraph(graph)

        def _note(self, values: gtsam.Values) -> gtsam.Values:
            caught.append((name, self.caught_graph, gtsam.Values(values)))
            return values

        def optimize(self) -> gtsam.Values:
            return self._note(super().optimize())

        def optimizeSafely(self) -> gtsam.Values:
            return self._note(super().optimizeSafely())

    return Catching


def _catching_isam(caught: Caught) -> type:
    """ISAM2 that notes its factors with each estimate, the last one of each instance in the end."""
    base: Any = gtsam.ISAM2

    class Catching(base):
        def _note(self, values: gtsam.Values) -> gtsam.Values:
            graph = gtsam.NonlinearFactorGraph(self.getFactorsUnsafe())
            entry = ("ISAM2", graph, gtsam.Values(values))
            place = getattr(self, "caught_place", None)
            if place is None:
                self.caught_place = len(caught)
                caught.append(entry)
            else:
                caught[place] = entry
            return values

        def calculateEstimate(self, *arguments: Any) -> Any:
            found = super().calculateEstimate(*arguments)
            if not arguments:
                self._note(found)
            return found

        def calculateBestEstimate(self) -> gtsam.Values:
            return self._note(super().calculateBestEstimate())

    return Catching


def _run(path: Path, caught: Caught) -> str:
    """Runs a file as a program, pictures off; says how it failed, if it did."""
    with suppress(ImportError):
        import matplotlib
        import matplotlib.pyplot as plt

        matplotlib.use("Agg")
        plt.show = plt.pause = lambda *_, **__: None
    for name in (*_BATCH, *_GNC):
        if hasattr(gtsam, name):
            setattr(gtsam, name, _catching(name, caught))
    gtsam.ISAM2 = _catching_isam(caught)  # pyright: ignore[reportAttributeAccessIssue]
    sys.argv = [str(path)]
    sys.path.insert(0, str(path.parent))
    try:
        runpy.run_path(str(path), run_name="__main__")
    except SystemExit:
        return ""
    except BaseException as error:  # whatever the file raises: what was caught until then counts
        return f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else ''}"
    return ""


def _matching(graph: gtsam.NonlinearFactorGraph, values: gtsam.Values) -> gtsam.Values:
    """The values without keys that no factor holds."""
    kept = gtsam.Values(values)
    held = set(graph.keyVector())
    for key in set(values.keys()) - held:
        kept.erase(key)
    return kept


def _chosen(caught: Caught) -> Caught:
    """At most `_MOST` graphs of different factor counts."""
    by_size = {(name, graph.size(), values.size()): (name, graph, values) for name, graph, values in caught}
    distinct = list(by_size.values())
    return distinct if len(distinct) <= _MOST else [*distinct[: _MOST - 1], distinct[-1]]


def _judged(name: str, graph: gtsam.NonlinearFactorGraph, values: gtsam.Values) -> dict[str, Any]:
    """What `certify` says of one result."""
    row: dict[str, Any] = {"optimizer": name, "factors": graph.nrFactors(), "status": "failed", "why": ""}
    begun = time.process_time()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            certificate = certify(graph, _matching(graph, values))
        row |= {"status": certificate.status.name, "cost": certificate.cost, "gap": certificate.relative_gap}
        row["assumed"] = bool(certificate.assumptions)
    except (UnsupportedFactorError, UnsupportedNoiseError) as error:
        kinds = Counter(offender.type_name for offender in error.offenders)
        row |= {"status": "refused", "why": ", ".join(f"{kind} ({count})" for kind, count in kinds.most_common(4))}
    except GtsamSdpError as error:
        row["why"] = str(error).splitlines()[0][:120]
    row["seconds"] = time.process_time() - begun
    return row


def _child(path: Path, out: Path) -> None:
    caught: Caught = []
    with Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere):
        failure = _run(path, caught)
    rows = [_judged(*entry) for entry in _chosen(caught)]
    out.write_text(json.dumps({"failure": failure, "caught": len(caught), "rows": rows}))


def _files() -> list[Path]:
    """Examples, and tests that are not copies of them."""
    root = Path(gtsam.__file__).parent
    examples = sorted((root / "examples").glob("[!_]*.py"))
    return examples + sorted((root / "tests").glob("test_*.py"))


def _measured(path: Path) -> dict[str, Any]:
    """Runs one file in a process and a folder of its own."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "result.json"
        command = [sys.executable, "-m", "tests.benchmarks.gtsam_corpus", "--child", str(path), str(out)]
        environment = {**os.environ, "PYTHONPATH": str(Path.cwd()), "MPLBACKEND": "Agg"}
        try:
            subprocess.run(
                command, cwd=folder, env=environment, capture_output=True, timeout=_RUN_SECONDS, check=False
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return {"failure": f"more than {_RUN_SECONDS} s", "caught": 0, "rows": []}
        if not out.exists():
            return {"failure": "the process ended without a result", "caught": 0, "rows": []}
        return json.loads(out.read_text())


def _line(path: Path, found: dict[str, Any]) -> list[str]:
    """One row of the table: how many graphs of which outcome, the largest gap, what was refused."""
    rows = found["rows"]
    counts = Counter(row["status"] for row in rows)
    outcome = ", ".join(f"{counts[status]} {status}" for status in _ORDER if counts[status])
    gaps = [row["gap"] for row in rows if "gap" in row]
    reasons = dict.fromkeys(row["why"] for row in rows if row["why"])
    assumed = " (under an assumption)" if any(row.get("assumed") for row in rows) else ""
    return [
        f"`{path.parent.name}/{path.stem}`", str(found["caught"]), outcome + assumed,
        f"{max(gaps):.0e}" if gaps else "", "; ".join(reasons),
    ]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", help="names of files without .py")
    parser.add_argument("--write", type=Path, help="Markdown file to write")
    parser.add_argument("--child", nargs=2, type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        _child(*arguments.child)
        return
    table, whole, some = [], 0, 0
    is_wanted: Callable[[Path], bool] = lambda p: not arguments.only or p.stem in arguments.only  # noqa: E731
    for path in filter(is_wanted, _files()):
        found = _measured(path)
        common.say(path.stem, found["failure"], *[(r["status"], r.get("gap"), r["why"]) for r in found["rows"]])
        if not found["rows"]:
            continue
        table.append(_line(path, found))
        whole += all(row["status"] == "CERTIFIED" for row in found["rows"])
        some += any(row["status"] not in ("refused", "failed") for row in found["rows"])
    text = (
        f"# GTSAM's own examples\n\n{(__doc__ or '').strip().splitlines()[0]} Written by "
        "`python -m tests.benchmarks.gtsam_corpus --write docs/benchmarks-gtsam.md`: each file of `gtsam/examples` and "
        "`gtsam/tests` that comes with the wheel runs, the optimizers (Levenberg-Marquardt, Gauss-Newton, Dogleg, "
        "conjugate gradients, GNC, ISAM2) hand over every graph with its result, and `certify` has to answer as it is, "
        f"no factor dropped. Of one file at most {_MOST} graphs of different sizes count. A result of a test need not "
        "be an optimum.\n\n"
        f"**{len(table)} files hand something to an optimizer. In {some} at least one graph gets an answer, in {whole} "
        "all are CERTIFIED.**\n\n"
        + common.table(["file", "graphs", "outcome", "largest gap", "refused or failed because of"], table)
        + f"\n\n{common.machine()}.\n"
    )
    if arguments.write:
        arguments.write.write_text(text)
    else:
        print(text)


if __name__ == "__main__":
    main()
