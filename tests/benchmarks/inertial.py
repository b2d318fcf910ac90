"""A simulated lidar-inertial graph: time of `certify` with the biases held, against that of LM.

OMP_NUM_THREADS=1 python -m tests.benchmarks.inertial [--write docs/benchmarks-inertial.md]
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np

from gtsam_sdp import certify
from tests.benchmarks import common
from tests.inertial import lidar_inertial, optimized

_STATES = (100, 300, 1000)
_SEEDS = 3


def _row(states: int, combined: bool) -> list[str]:
    """Medians of times, the largest gap, how many of the seeds are certified."""
    certified, gaps, optimising, certifying, factors = 0, [], [], [], 0
    for seed in range(_SEEDS):
        problem = lidar_inertial(states, np.random.default_rng(seed), combined=combined)
        begun = time.process_time()
        best = optimized(problem.graph, problem.start)
        optimising.append(time.process_time() - begun)
        held = problem.holding(best)
        begun = time.process_time()
        certificate = certify(held, best)
        certifying.append(time.process_time() - begun)
        certified += bool(certificate)
        gaps.append(certificate.relative_gap)
        factors = problem.graph.size()
    common.say(states, combined, certified, gaps, optimising, certifying)
    return [
        "CombinedImuFactor" if combined else "ImuFactor, random walk", str(states), str(factors),
        f"{certified} of {_SEEDS}", f"{max(gaps):.0e}", f"{np.median(optimising):.2f}", f"{np.median(certifying):.2f}",
    ]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path, help="Markdown file to write")
    arguments = parser.parse_args()
    rows = [_row(states, combined) for combined in (False, True) for states in _STATES]
    head = ["inertial factors", "states", "factors", "certified", "largest gap", "LM [s]", "certify [s]"]
    text = (
        "# Lidar and IMU\n\nWritten by `python -m tests.benchmarks.inertial --write docs/benchmarks-inertial.md`: "
        "simulated graphs of a vehicle with odometry (0.05 m, 0.01 rad), IMU, GPS every fifth state and loop closures, "
        "two states a second (`tests/inertial.py`). Levenberg-Marquardt estimates poses, velocities and biases from "
        "dead reckoning. Then the biases are held at their estimates, and `certify` is asked for the poses and "
        "velocities: **the bound is one for these biases, not for all biases.** CPU time, one thread, median of "
        f"{_SEEDS} seeds.\n\n{common.table(head, rows)}\n\n{common.machine()}.\n"
    )
    if arguments.write:
        arguments.write.write_text(text)
    else:
        print(text)


if __name__ == "__main__":
    main()
