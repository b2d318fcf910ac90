"""Benchmark of `solve` from no start and from random starts, on public files.

    python -m tests.benchmarks.global_solve FOLDER [--files NAME ...] [--write docs/benchmarks-global.md]

Chordal cost against the known optima, log-map cost against the best costs known. Reading the Python factors is timed
apart. Times are single runs.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import gtsam
import numpy as np

from gtsam_sdp import Solution, load_g2o, solve
from gtsam_sdp.reading.graph import read
from tests import problems
from tests.benchmarks import common

LOG_MAP = {
    "sphere2500": 675.70096,
    "torus3D": 12117.63688,
    "parking-garage": 0.634192,
    "city10000": 255.993725,
    "MIT": 20.603474,
    "manhattan": 1774.520535,
    "intel": 22.502117,
    "CSAIL": 20.275442,
    "kitti_00": 49.161069,
    "smallGrid3D": 517.925332,
}
"""Best costs known of the log-map cost with the files' covariances."""

SE_SYNC = {
    "sphere2500": 0.48,
    "torus3D": 0.89,
    "parking-garage": 0.48,
    "cubicle": 1.2,
    "sphere_bignoise_vertex3": 0.69,
    "manhattan": 0.17,
    "kitti_00": 0.19,
    "city10000": 0.96,
    "ais2klinik": 5.8,
    "intel": 0.06,
    "smallGrid3D": 0.02,
}
"""Seconds of SE-Sync's C++ program without reading the file, measured once on a machine of this kind."""


@dataclass(frozen=True)
class Run:
    """A solved file."""

    solution: Solution
    seconds: float
    reading: float


def run(graph: gtsam.NonlinearFactorGraph, initial: gtsam.Values | None, tolerance: float, given: gtsam.Values) -> Run:
    """`solve`, and the time it takes to read the factors once."""
    began = time.perf_counter()
    solution = solve(graph, initial, tolerance=tolerance)
    seconds = time.perf_counter() - began
    began = time.perf_counter()
    read(graph, given, "raise")
    return Run(solution, seconds, time.perf_counter() - began)


def chordal_rows(folder: Path, names: Sequence[str]) -> list[list[str]]:
    """From no start and from random poses, chordal cost."""
    rows = []
    for name in names:
        graph, values = load_g2o(folder / f"{name}.g2o", cost="chordal")
        optimum = common.CHORDAL_OPTIMA[name]
        for start in ("none", "random"):
            initial = None if start == "none" else problems.random_start(values, np.random.default_rng(0))
            done = run(graph, initial, 1e-4 if name == "ais2klinik" else 1e-6, values)
            own = done.seconds - done.reading
            reference = SE_SYNC.get(name)
            rows.append(
                [
                    name,
                    start,
                    done.solution.certificate.status.name,
                    f"{done.solution.cost / optimum - 1:+.0e}",
                    f"{done.solution.certificate.relative_gap:.0e}",
                    done.solution.method,
                    f"{own:.2f}",
                    f"{done.reading:.2f}",
                    f"{own / reference:.1f}" if reference and start == "none" else "",
                ]
            )
            print(*rows[-1], file=sys.stderr, flush=True)
    return rows


def log_map_rows(folder: Path, names: Sequence[str]) -> list[list[str]]:
    """From no start, log-map cost with the files' covariances."""
    rows = []
    for name in names:
        if name not in LOG_MAP:
            continue
        graph, values = load_g2o(folder / f"{name}.g2o")
        done = run(graph, None, 1e-4, values)
        rows.append(
            [
                name,
                done.solution.certificate.status.name,
                f"{done.solution.cost:.9g}",
                f"{done.solution.cost / LOG_MAP[name] - 1:+.0e}",
                f"{done.solution.certificate.relative_gap:.0e}",
                done.solution.method,
                f"{done.seconds:.2f}",
            ]
        )
        print("log-map", *rows[-1], file=sys.stderr, flush=True)
    return rows


TEXT = """# Benchmarks of the global solve

Made by `python -m tests.benchmarks.global_solve FOLDER --files {files}`. Machine: {machine}. Single runs.

## Chordal cost, from no start and from random poses

`solve(graph)` and `solve(graph, random values)`, tolerance 1e-6 (ais2klinik 1e-4). Cost by the optimum known, relative
gap, what found it, seconds without and of reading the Python factors once. The last column is the time from no start
by that of SE-Sync's C++ program, which was measured once on a machine of this kind.

{chordal}

## Log-map cost with the files' covariances, from no start

{log_map}
"""


def main() -> None:
    """Runs all and writes the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--files", nargs="+", default=list(common.CHORDAL_OPTIMA))
    parser.add_argument("--write", type=Path, default=Path("docs/benchmarks-global.md"))
    arguments = parser.parse_args()
    chordal = common.table(
        ["file", "start", "status", "cost / optimum - 1", "gap", "found by", "solve [s]", "reading [s]", "/ SE-Sync"],
        chordal_rows(arguments.folder, arguments.files),
    )
    log_map = common.table(
        ["file", "status", "cost", "cost / best known - 1", "gap", "found by", "seconds"],
        log_map_rows(arguments.folder, arguments.files),
    )
    text = TEXT.format(machine=common.machine(), files=" ".join(arguments.files), chordal=chordal, log_map=log_map)
    arguments.write.write_text(text)


if __name__ == "__main__":
    main()
