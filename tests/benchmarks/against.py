"""Time of `certify` on public pose graphs against that of another checkout of this package.

    git worktree add ../before 55cbd16
    OMP_NUM_THREADS=1 python -m tests.benchmarks.against FOLDER ../before [--write docs/benchmarks-time.md]

FOLDER holds the g2o files of `tests.benchmarks.certify_datasets`. Values are optimised once and handed to both, which
take turns, each time in a process of its own; CPU seconds, the least of all runs.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import gtsam
import numpy as np

TITLE = "# Time against an earlier version"
_TURNS = 3
_REPEATS = 5


def certified(path: Path, values: Path) -> dict[str, Any]:
    """Least CPU seconds of `certify`, status and gap: run in a process that imports either checkout."""
    from gtsam_sdp import certify, load_g2o

    graph, start = load_g2o(path)
    poses = np.load(values)
    result = gtsam.Values()
    for key, pose in zip(start.keys(), poses, strict=True):
        result.insert(key, gtsam.Pose2(*pose) if pose.shape == (3,) else gtsam.Pose3(pose))
    seconds, certificate = [], None
    for _ in range(_REPEATS):
        began = time.process_time()
        certificate = certify(graph, result)
        seconds.append(time.process_time() - began)
    assert certificate is not None
    return {"seconds": min(seconds), "status": certificate.status.name, "gap": certificate.relative_gap}


def compare(path: Path, checkouts: list[Path]) -> list[str]:
    """One line of the table: both gaps, statuses and times, and their ratio."""
    from tests.benchmarks import common

    graph, _ = common.load_g2o(path)
    values = common.optimize(graph, common.good_start(path))
    if path.stem in common.SPACE:
        poses = [values.atPose3(key).matrix() for key in values.keys()]
    else:
        poses = [[p.x(), p.y(), p.theta()] for p in map(values.atPose2, values.keys())]
    with tempfile.TemporaryDirectory() as folder:
        saved = Path(folder) / "values.npy"
        np.save(saved, np.array(poses))
        runs: list[list[dict[str, Any]]] = [[] for _ in checkouts]
        for _ in range(_TURNS):
            for checkout, found in zip(checkouts, runs, strict=True):
                found.append(_run(checkout, path, saved))
    before, after = (min(found, key=lambda run: run["seconds"]) for found in runs)
    ratio = after["seconds"] / before["seconds"]
    return [
        path.stem, before["status"], f"{before['gap']:.1e}", after["status"], f"{after['gap']:.1e}",
        f"{1e3 * before['seconds']:.0f}", f"{1e3 * after['seconds']:.0f}", f"{ratio:.2f}",
    ]  # fmt: skip


def _run(checkout: Path, path: Path, values: Path) -> dict[str, Any]:
    command = [sys.executable, __file__, "--one", str(path.resolve()), str(values)]
    environment = {**os.environ, "PYTHONPATH": str(checkout.resolve()), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=checkout)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return json.loads(done.stdout)


def report(folder: Path, other: Path, only: list[str] | None) -> str:
    """The page as Markdown."""
    from tests.benchmarks import common

    here = Path(__file__).parents[2]
    files = [f for f in folder.glob("*.g2o") if f.stem in (only or common.CHORDAL_OPTIMA)]
    rows = []
    for path in sorted(files, key=lambda p: p.stem.lower()):
        rows.append(compare(path, [other, here]))
        common.say(*rows[-1])
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=other, capture_output=True, text=True)
    text = (
        f"Made by `python -m tests.benchmarks.against FOLDER CHECKOUT`: `certify` before ({commit.stdout.strip()}) and "
        f"now, where LM ends from the chordal initialisation. Machine: {common.machine()}, one thread. CPU time, the "
        f"least of {_TURNS * _REPEATS} runs that take turns."
    )
    head = ["file", "before", "gap", "now", "gap", "before [ms]", "now [ms]", "ratio"]
    return f"{TITLE}\n\n{text}\n\n{common.table(head, rows)}\n"


def main() -> None:
    """Runs one measurement (`--one`) or all of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("other", nargs="?", type=Path, help="the other checkout")
    parser.add_argument("--files", nargs="+", help="only these")
    parser.add_argument("--write", type=Path, default=Path("docs/benchmarks-time.md"))
    parser.add_argument("--one", nargs=2, type=Path)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    if arguments.one:
        print(json.dumps(certified(*arguments.one)))
        return
    if arguments.folder is None or arguments.other is None:
        parser.error("give a folder of g2o files and another checkout")
    arguments.write.write_text(report(arguments.folder, arguments.other, arguments.files))


if __name__ == "__main__":
    main()
