"""Everyday graphs: what `certify` and `solve` say of them; writes docs/benchmarks-everyday.md.

    python -m tests.benchmarks.everyday [FOLDER]

FOLDER: with dpgo_input_INTEL_g2o.g2o, vertigo_gt_ringCity.g2o and marine_true.pyfg, public files; left out without it.
"""

from __future__ import annotations

import platform
import sys
import time
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import gtsam
import numpy as np

from gtsam_sdp import certify, load_g2o, load_pyfg, solve
from gtsam_sdp.show.text import headline
from tests import problems
from tests.certification.test_exact_data import odometry_with_landmarks, written
from tests.certification.test_regions import GROUND, satellites
from tests.regressions.test_everyday_graphs import (
    LIO_SAM,
    joined_trajectories,
    lidar_trajectory,
    loop_with_beacons,
    planar_robot,
    with_diagonal_damping,
)

_PAGE = Path(__file__).parents[2] / "docs" / "benchmarks-everyday.md"
Problem = tuple[gtsam.NonlinearFactorGraph, gtsam.Values | None]


def _cases() -> Iterator[tuple[str, Problem, bool]]:
    """Name, graph and start, and whether it is to be solved too."""
    yield "tutorial: odometry, landmarks, exact", odometry_with_landmarks(), True
    for d in (2, 3):
        yield f"1,000 poses, {d}D, exact to 6 digits", written(d, 6, 1000), True
    yield "lidar, no prior", lidar_trajectory(0, None), False
    yield "lidar, weak prior", lidar_trajectory(0, LIO_SAM), False
    yield "lidar, weak prior, GPS", lidar_trajectory(0, LIO_SAM, "factor"), False
    yield "lidar, GPS", lidar_trajectory(0, None, "factor"), False
    yield "lidar, GPS as pose priors of 1e10 rad", lidar_trajectory(0, None, "1e10"), False
    for epochs in (1, 10, 50):
        yield f"satellites, {epochs} epoch(s)", satellites(epochs, 0, known=True, origin=np.zeros(3)), True
    yield "satellites with 1 m, 10 epochs", satellites(10, 0, known=False, origin=GROUND), True
    for weight in (1e6, 1e10, 1e14):
        yield f"rigid joints of weight {weight:.0e}", joined_trajectories(weight), True
    for stiff in (1e-2, 1e-3, 1e-5):
        yield f"planar robot in space, stiff {stiff:.0e}", planar_robot(stiff), True
    for sigma in (1e-1, 1e-2, 1e-3, 1e-4):
        yield f"ring with beacons, sigma {sigma:.0e}", loop_with_beacons(sigma, 1), False
    sphere, _ = gtsam.readG2o(gtsam.findExampleDataFile("sphere2500.txt"), True)
    yield "sphere2500.txt of the wheel, no start", (sphere, None), True


def _files(folder: Path) -> Iterator[tuple[str, Problem, bool]]:
    for name in ("dpgo_input_INTEL_g2o.g2o", "vertigo_gt_ringCity.g2o", "marine_true.pyfg"):
        yield name, (load_pyfg if name.endswith("pyfg") else load_g2o)(folder / name), True


def _row(name: str, problem: Problem, solved: bool) -> str:
    graph, start = problem
    if solved:
        began = time.perf_counter()
        solution = solve(graph, start)
        seconds, values = time.perf_counter() - began, solution.values
        found = f"{solution.cost:.8g}, {seconds:.2f} s"
    else:
        assert start is not None
        values, found = problems.optimize(graph, with_diagonal_damping(graph, start)), ""
    began = time.perf_counter()
    certificate = certify(graph, values)
    milliseconds = 1e3 * (time.perf_counter() - began)
    verdict = headline(certificate).replace("|", "/")
    numbers = f"{certificate.cost:.8g} | {certificate.lower_bound:.8g}"
    return f"| {name} | {found} | {numbers} | {verdict} | {milliseconds:.0f} |"


def main() -> None:
    cases = [*_cases(), *(_files(Path(sys.argv[1])) if len(sys.argv) > 1 else ())]
    certify(*odometry_with_landmarks())  # what is imported at the first use
    rows = [_row(*case) for case in cases]
    machine = f"{platform.machine()}, Python {platform.python_version()}, gtsam {version('gtsam')}"
    text = [
        "# Everyday graphs",
        "",
        "Written by `python -m tests.benchmarks.everyday FOLDER`. Graphs after public reports: exact data, weak",
        "priors, GPS, far satellites, weights over many decades, accurate ranges. `solve` starts from the values that",
        "come with the graph, if any do; `certify` is asked about its result, or about that of Levenberg-Marquardt.",
        "",
        f"{machine}, clarabel {version('clarabel')}, numpy {version('numpy')}; two shared cores of a server.",
        "",
        "| graph | solve: cost, time | cost | lower bound | certify | certify [ms] |",
        "|---|---|--:|--:|---|--:|",
        *rows,
        "",
    ]
    _PAGE.write_text("\n".join(text))
    print("\n".join(rows))


if __name__ == "__main__":
    main()
