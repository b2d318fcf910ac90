"""Benchmark of `solve` from no start and from random starts, on public files.

    OMP_NUM_THREADS=1 python -m tests.benchmarks.global_solve FOLDER [--files NAME ...] [--write FILE]

Chordal cost against the known optima, log-map cost against the best costs known. Reading the Python factors is timed
apart.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import gtsam
import numpy as np

from gtsam_sdp import Solution, load_g2o, solve
from gtsam_sdp.lift.build import build_terms
from gtsam_sdp.reading.graph import read
from gtsam_sdp.search.start import zero_values
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


SMALL = ("tinyGrid3D", "smallGrid3D", "MIT", "CSAIL", "intel", "kitti_05")
"""Files that are solved from many random starts."""

_REPEATS = 3
_STARTS = 20
_TOLERANCES = {"ais2klinik": 1e-4}


@dataclass(frozen=True)
class Run:
    """A solved file: the last solution, the median time, that of reading the factors, and the peak memory."""

    solution: Solution
    seconds: float
    reading: float
    megabytes: float

    @property
    def row(self) -> list[str]:
        """Status, relative gap, method."""
        certificate = self.solution.certificate
        return [certificate.status.name, f"{certificate.relative_gap:.0e}", self.solution.method]


def run(graph: gtsam.NonlinearFactorGraph, initial: gtsam.Values | None, tolerance: float) -> Run:
    """`solve` a few times, and the time it takes to turn the Python factors into arrays."""
    seconds, solution = common.median_seconds(lambda: solve(graph, initial, tolerance=tolerance), _REPEATS)
    reading, _ = common.median_seconds(lambda: _read(graph), _REPEATS)
    return Run(solution, seconds, reading, common.peak_megabytes())


def _read(graph: gtsam.NonlinearFactorGraph) -> None:
    build_terms(read(graph, zero_values(graph), "raise", at_any_values=True), at_measurements=True)


def chordal_row(folder: Path, name: str) -> list[str]:
    """From no start and from random poses, chordal cost."""
    graph, values = load_g2o(folder / f"{name}.g2o", cost="chordal")
    optimum, tolerance = common.CHORDAL_OPTIMA[name], _TOLERANCES.get(name, 1e-6)
    row = [name]
    done = run(graph, None, tolerance)
    own = done.seconds - done.reading
    row += [f"{done.solution.cost / optimum - 1:+.0e}", *done.row[:2], f"{own:.2f}", f"{done.reading:.2f}"]
    reference = SE_SYNC.get(name)
    row += [f"{part / reference:.1f}" if reference else "" for part in (own, done.seconds)]
    random = run(graph, problems.random_start(values, np.random.default_rng(0)), tolerance)
    row += [f"{random.solution.cost / optimum - 1:+.0e}", *random.row[:2], f"{random.seconds:.2f}"]
    return [*row, f"{random.megabytes:.0f}"]


def starts_row(folder: Path, name: str) -> list[str]:
    """From many random starts."""
    graph, values = load_g2o(folder / f"{name}.g2o", cost="chordal")
    optimum = common.CHORDAL_OPTIMA[name]
    rng = np.random.default_rng(1)
    found = [solve(graph, problems.random_start(values, rng), tolerance=1e-6) for _ in range(_STARTS)]
    staircase = [
        solve(graph, problems.random_start(values, rng), method="staircase", tolerance=1e-6) for _ in range(_STARTS)
    ]
    row = [name]
    for solutions in (found, staircase):
        certified = sum(bool(s.certificate) for s in solutions)
        row += [f"{certified}/{len(solutions)}", f"{max(abs(s.cost / optimum - 1) for s in solutions):.0e}"]
    return row


def log_map_row(folder: Path, name: str) -> list[str]:
    """From no start, log-map cost with the files' covariances."""
    graph, _ = load_g2o(folder / f"{name}.g2o")
    done = run(graph, None, 1e-4)
    cost = done.solution.cost
    return [
        name, f"{cost:.9g}", f"{cost / LOG_MAP[name] - 1:+.0e}", *done.row[:2], f"{done.seconds:.2f}",
        f"{done.megabytes:.0f}",
    ]  # fmt: skip


ROWS = {"chordal": chordal_row, "starts": starts_row, "log-map": log_map_row}


def rows(kind: str, folder: Path, names: Sequence[str]) -> list[list[str]]:
    """Rows of a table, each from a process of its own, so that its peak memory is that of its file."""
    found = []
    for name in names:
        command = [sys.executable, "-m", "tests.benchmarks.global_solve", str(folder), "--row", kind, name]
        output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        found.append(json.loads(output))
        common.say(kind, *found[-1])
    return found


TEXT = """# Benchmarks of the global solve

Made by `python -m tests.benchmarks.global_solve FOLDER`. Machine: {machine}, one thread. Every row is a process of its
own, times are medians of three runs.

## Chordal cost, from no start and from random poses

`solve(graph)` and `solve(graph, random values)`, tolerance 1e-6 (ais2klinik 1e-4): the cost by the optimum known, the
relative gap, the seconds of the whole call, and apart from them the share of turning the Python factors into arrays.
The columns by SE-Sync are the time from no start, without and with that share, by the time of SE-Sync's C++ program
without reading its file, which was measured once on a machine of this kind. The peak is that of the whole process,
gtsam and the file included. Random rotations are uniform, positions anywhere in the map; the start with the lower cost
is tried first, and that is the chordal initialisation.

{chordal}

## Small files from {starts} random starts

How many are certified, and the largest distance to the optimum, for `solve` and for `solve(method="staircase")`, which
optimises from the random start and climbs from there.

{small}

## Log-map cost with the files' covariances, from no start

Tolerance 1e-4; seconds of the whole call, reading included.

{log_map}
"""


def main() -> None:
    """Runs all and writes the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--files", nargs="+", default=list(common.CHORDAL_OPTIMA))
    parser.add_argument("--row", nargs=2, metavar=("TABLE", "NAME"), help="print one row of one table")
    parser.add_argument("--write", type=Path, default=Path("docs/benchmarks-global.md"))
    arguments = parser.parse_args()
    if arguments.row:
        kind, name = arguments.row
        print(json.dumps(ROWS[kind](arguments.folder, name)))
        return
    files = arguments.files
    once = ["cost / optimum - 1", "status", "gap"]
    head = ["file", *once, "solve [s]", "reading [s]", "/ SE-Sync", "with reading", *once, "[s]", "peak [MB]"]
    chordal = common.table(head, rows("chordal", arguments.folder, files))
    head = ["file", "certified", "largest distance", "staircase certified", "largest distance"]
    small = common.table(head, rows("starts", arguments.folder, [n for n in files if n in SMALL]))
    head = ["file", "cost", "cost / best known - 1", "status", "gap", "seconds", "peak [MB]"]
    log_map = common.table(head, rows("log-map", arguments.folder, [n for n in files if n in LOG_MAP]))
    text = TEXT.format(machine=common.machine(), starts=_STARTS, chordal=chordal, small=small, log_map=log_map)
    arguments.write.write_text(text)


if __name__ == "__main__":
    main()
