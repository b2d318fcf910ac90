"""Robust losses on public files: cost, gap, radius and time of certify, without and with seeded false loop closures.

`python -m tests.benchmarks.robust FOLDER [--files intel MIT] [--false 0 10] [--limit 60] [--output FILE]`

Loop closures (edges whose keys are not consecutive) get a robust loss; the values are Levenberg-Marquardt's on the
robust graph from the optimum of the Gaussian one.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import gtsam
import numpy as np

from gtsam_sdp import certify, load_g2o
from tests.benchmarks.common import SPACE, good_start, machine, optimize, say, table

ESTIMATORS: Any = gtsam.noiseModel.mEstimator
FILES = ("intel", "CSAIL", "MIT", "manhattan", "sphere2500", "torus3D", "parking-garage", "city10000")
LOSSES = (
    ("Huber", 1.345), ("Cauchy", 2.385), ("Cauchy", 5.0), ("GemanMcClure", 5.0), ("TruncatedLeastSquares", 4.0),
)  # fmt: skip
HEAD = [
    "file, loss",
    "false loops",
    "cost",
    "gap",
    "status",
    "radius",
    "kept",
    "outliers",
    "doubtful",
    "s",
    "s Gaussian",
]
TOGETHER = 5
"""False loop closures of one group agree with each other."""


def is_loop(factor: Any) -> bool:
    keys = factor.keys()
    return len(keys) == 2 and abs(keys[1] - keys[0]) != 1


def robust(graph: gtsam.NonlinearFactorGraph, loss: Any) -> gtsam.NonlinearFactorGraph:
    """The graph with a robust loss on its loop closures."""
    result = gtsam.NonlinearFactorGraph()
    for k in range(graph.size()):
        factor: Any = graph.at(k)
        noise = gtsam.noiseModel.Robust.Create(loss, factor.noiseModel()) if is_loop(factor) else None
        result.add(factor if noise is None else factor.cloneWithNewNoiseModel(noise))
    return result


def add_false_loops(
    graph: gtsam.NonlinearFactorGraph, keys: list[int], count: int, d: int, *, together: bool, seed: int = 0
) -> None:
    """Between factors of random pairs, or groups of consecutive pairs that agree on one wrong relative pose."""
    rng = np.random.default_rng(seed)
    factors: list[Any] = [graph.at(index) for index in range(graph.size())]
    noise = next(factor.noiseModel() for factor in factors if is_loop(factor))
    pose: Any = gtsam.Pose2 if d == 2 else gtsam.Pose3
    between: Any = gtsam.BetweenFactorPose2 if d == 2 else gtsam.BetweenFactorPose3
    size, group = d * (d + 1) // 2, TOGETHER if together else 1
    edges = {tuple(f.keys()): f.measured() for f in factors if len(f.keys()) == 2}
    made = 0
    while made < count:
        i, j = (int(x) for x in rng.choice(len(keys) - group, 2, replace=False))
        measured = pose.Expmap(rng.normal(size=size))
        for k in range(group):
            first, second = keys[i + k], keys[j + k]
            if made < count and abs(i - j) > group:
                graph.add(between(first, second, measured, noise))
                made += 1
            step_i, step_j = edges.get((first, keys[i + k + 1])), edges.get((second, keys[j + k + 1]))
            if step_i is None or step_j is None:
                break
            measured = step_i.inverse().compose(measured).compose(step_j)


def row(
    name: str, graph: gtsam.NonlinearFactorGraph, start: gtsam.Values, loss: tuple[str, float], false: str, plain: float
) -> list[str]:
    whole = robust(graph, getattr(ESTIMATORS, loss[0]).Create(loss[1]))
    values = optimize(whole, start)
    began = time.perf_counter()
    found = certify(whole, values)
    seconds = time.perf_counter() - began
    region = found.region
    assert region is not None
    counts = [str(int(chosen.sum())) for chosen in (region.is_kept, region.is_outlier, region.is_doubtful)]
    radius = "no condition" if region.is_unconditional else f"{region.radius:.3g}"
    return [
        f"{name}, {loss[0]} {loss[1]:g}", false, f"{found.cost:.6g}", f"{found.relative_gap:.1e}", found.status.name,
        radius, *counts, f"{seconds:.2f}", f"{plain:.2f}",
    ]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--files", nargs="*", default=FILES)
    parser.add_argument("--false", nargs="*", type=int, default=[0, 10, 100], help="numbers of false loop closures")
    parser.add_argument(
        "--limit", type=float, default=60.0, help="seconds after which a file's other rows are left out"
    )
    parser.add_argument("--output", type=Path, default=Path("docs/benchmarks-robust.md"))
    arguments = parser.parse_args()
    rows: list[list[str]] = []
    skipped: list[str] = []
    for name in arguments.files:
        began = time.perf_counter()
        path, d = arguments.folder / f"{name}.g2o", 3 if name in SPACE else 2
        best = optimize(load_g2o(path)[0], good_start(path))
        keys = sorted(best.keys())
        timed = time.perf_counter()
        certify(load_g2o(path)[0], best)
        plain = time.perf_counter() - timed
        for number in arguments.false:
            for together in (False, True) if number else (False,):
                graph = load_g2o(path)[0]
                add_false_loops(graph, keys, number, d, together=together)
                how = f"{number} {'in groups' if together else 'random'}" if number else "0"
                for loss in LOSSES:
                    if time.perf_counter() - began > arguments.limit:
                        skipped.append(f"{name}, {loss[0]} {loss[1]:g}, {how}")
                        continue
                    rows.append(row(name, graph, best, loss, how, plain))
                    say(*rows[-1])
        arguments.output.write_text(page(rows, skipped))


def page(rows: list[list[str]], skipped: list[str]) -> str:
    left_out = f"\nLeft out, to keep to the time: {len(skipped)} of these rows.\n" if skipped else ""
    return f"""# Benchmarks with robust losses

Made by `python -m tests.benchmarks.robust FOLDER`. Machine: {machine()}, one thread, shared with other work: read times
as upper ends.

Loop closures have a robust loss, odometry has Gaussian noise. Values: Levenberg-Marquardt on the robust graph from the
optimum of the graph without robust losses and without false loops. The gap is relative to the cost; the radius is in
sigmas; `s` is the time of `certify`, `s Gaussian` that on the file as it is. False loops are random pairs of poses with
random measurements, or groups of {TOGETHER} that agree with each other.

{table(HEAD, rows)}
{left_out}"""


if __name__ == "__main__":
    main()
