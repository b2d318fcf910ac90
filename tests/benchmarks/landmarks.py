"""Benchmark of graphs with landmarks, ranges and motion priors.

    OMP_NUM_THREADS=1 python -m tests.benchmarks.landmarks [--sections NAME ...] [--write FILE]

Sections that are not run keep what the file says of them.
"""

from __future__ import annotations

import argparse
import re
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import gtsam
import numpy as np

from gtsam_sdp import Solution, certify, load_pyfg, refine, relax, solve
from gtsam_sdp.errors import GtsamSdpError
from tests import problems
from tests.benchmarks import common
from tests.factors.cases import CASES, Case
from tests.factors.graphs import LANDMARK_TYPES, best_of_starts, random_graph

_REPEATS = 3
_STARTS = 20
_RANGES = (0.01, 0.1, 1.0)
_BEARINGS = (0.001, 0.014, 0.2)
_SEEDS = 5
_STATES = (250, 500, 1000, 2000, 4000)
_GRAPHS = 200
_RESTARTS = 6


def timed(run: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds and result of one run."""
    began = time.perf_counter()
    result = run()
    return time.perf_counter() - began, result


def outcome(solution: Solution) -> list[str]:
    """Cost, bound, relative gap, status."""
    c = solution.certificate
    return [f"{c.cost:.8g}", f"{c.lower_bound:.8g}", f"{c.relative_gap:.1e}", c.status.name]


def victoria() -> str:
    """Victoria Park: from no start, certify after LM, refine from where LM ends from the file's odometry."""
    graph, odometry = gtsam.load2D(gtsam.findExampleDataFile("victoria_park.txt"))
    head = ["", "cost", "bound", "gap", "status", "seconds"]
    seconds, solution = common.median_seconds(lambda: solve(graph), _REPEATS)
    rows = [["`solve(graph)`, no start", *outcome(solution), f"{seconds:.2f}"]]
    good = solve(graph, method="local").stages[1].cost
    near = common.optimize(graph, solution.values)
    at_best, certificate = common.median_seconds(lambda: certify(graph, near), _REPEATS)
    rows.append(
        ["`certify` there", f"{certificate.cost:.8g}", f"{certificate.lower_bound:.8g}",
         f"{certificate.relative_gap:.1e}", certificate.status.name, f"{at_best:.2f}"]
    )  # fmt: skip
    parameters = gtsam.LevenbergMarquardtParams()
    lm, stuck = timed(lambda: gtsam.LevenbergMarquardtOptimizer(graph, odometry, parameters).optimize())
    rows.append(["LM from the file's odometry", f"{graph.error(stuck):.8g}", "", "", "", f"{lm:.2f}"])
    seconds, refined = timed(lambda: refine(graph, stuck))
    rows.append(["`refine` from there", *outcome(refined), f"{seconds:.2f}"])
    chordal = next(s for s in solution.stages if s.name == "optimise")
    text = (
        f"LM from the chordal initialisation (cost {good:.6g} after the descent) takes {chordal.seconds:.2f} s inside "
        f"`solve`; `certify` takes {at_best / chordal.seconds:.1f} times that."
    )
    return f"{common.table(head, rows)}\n\n{text}"


def goats() -> str:
    """Goats: the best cost of many starts, and the best bound that was proven."""
    rows = []
    for name in ("goats_15", "goats_16"):
        graph, values = load_pyfg(gtsam.findExampleDataFile(f"{name}.pyfg"))
        rng = np.random.default_rng(0)
        results = [common.optimize(graph, values)]
        for _ in range(_STARTS - 1):
            with suppress(RuntimeError):
                results.append(common.optimize(graph, _scattered(values, rng, 10 ** rng.uniform(0, 2.5))))
        costs = [graph.error(r) for r in results]
        best = results[int(np.argmin(costs))]
        seconds, solution = timed(lambda graph=graph, best=best: refine(graph, best, time_limit=60))
        cost = min(min(costs), solution.cost)
        bound = solution.certificate.lower_bound
        assert bound <= cost * (1 + 1e-9)
        same = sum(c < min(costs) * (1 + 1e-6) for c in costs)
        rows.append(
            [name, f"{values.size()}", f"{graph.size()}", f"{graph.error(results[0]):.8g}", f"{min(costs):.8g}",
             f"{same}/{len(costs)}", f"{solution.cost:.8g}", f"{bound:.6g}", f"{(cost - bound) / cost:.1e}",
             f"{seconds:.1f}"]
        )  # fmt: skip
        common.say(*rows[-1])
    head = ["file", "keys", "factors", "LM from the file", f"best of {_STARTS} starts", "reached by", "`refine`",
            "bound", "gap", "seconds"]  # fmt: skip
    return common.table(head, rows)


def _scattered(values: gtsam.Values, rng: np.random.Generator, size: float) -> gtsam.Values:
    """Every value moved, positions by `size` metres, headings by up to half a turn."""
    delta, zeros = gtsam.VectorValues(), values.zeroVectors()
    for key in values.keys():
        moved = size * rng.normal(size=zeros.at(key).shape)
        if len(moved) == 3:
            moved[2] = rng.uniform(-np.pi, np.pi) * min(size / 30, 1)
        delta.insert(key, moved)
    return values.retract(delta)


def slam() -> str:
    """Landmark SLAM over noise: gaps, and the share that is certified."""
    rows = []
    for d in (2, 3):
        for ranging in _RANGES:
            for bearing in _BEARINGS:
                rows.append(_slam_row(d, ranging, bearing))
                common.say(*rows[-1])
    head = ["", "sigma range [m]", "sigma bearing [rad]", "certified at 1e-3", "median gap", "largest gap",
            "as good as from the truth", "seconds"]  # fmt: skip
    return common.table(head, rows)


def _slam_row(d: int, ranging: float, bearing: float) -> list[str]:
    gaps, seconds, good = [], [], 0
    for seed in range(_SEEDS):
        graph, truth = problems.landmark_loop(d, 500, 100, ranging, bearing, seed)
        taken, solution = timed(lambda graph=graph: solve(graph, method="local", tolerance=1e-3))
        gaps.append(solution.certificate.relative_gap)
        seconds.append(taken)
        good += solution.cost <= graph.error(common.optimize(graph, truth)) * (1 + 1e-6)
    certified = sum(gap <= 1e-3 for gap in gaps)
    return [
        f"{d}D", f"{ranging:g}", f"{bearing:g}", f"{certified}/{_SEEDS}", f"{np.median(gaps):.1e}", f"{max(gaps):.1e}",
        f"{good}/{_SEEDS}", f"{np.median(seconds):.2f}",
    ]  # fmt: skip


def flight() -> str:
    """Constant velocity and ranges to four beacons, over the number of states."""
    rows = []
    for d in (2, 3):
        for count in _STATES:
            graph, truth = problems.beacon_flight(d, count)
            start = gtsam.Values(truth)
            for i in range(count):  # a start that knows nothing but where the beacons are
                start.update(gtsam.symbol("x", i), np.array([20.0, 20.0, 3.0])[:d])
                start.update(gtsam.symbol("v", i), np.zeros(d))
            taken, solution = timed(lambda graph=graph, start=start: solve(graph, start, time_limit=5))
            best = graph.error(common.optimize(graph, truth))
            rows.append(
                [f"{d}D", str(count), f"{solution.cost / best - 1:+.0e}", *outcome(solution), solution.method,
                 f"{taken:.2f}"]
            )  # fmt: skip
            common.say(*rows[-1])
    head = ["", "states", "cost / from the truth - 1", "cost", "bound", "gap", "status", "found by", "seconds"]
    return common.table(head, rows)


def soundness() -> str:
    """Small random graphs of every factor type: no bound is above the best of many restarts."""
    rows = []
    for case in CASES:
        if case.name.startswith(LANDMARK_TYPES):
            rows.append(_soundness_row(case))
            common.say(*rows[-1])
    head = ["factor type", "graphs", "bounds above the best", "largest bound / best - 1", "certified",
            "median gap"]  # fmt: skip
    return common.table(head, rows)


def _soundness_row(case: Case) -> list[str]:
    above, largest, gaps = 0, -np.inf, []
    for seed in range(_GRAPHS):
        graph, values = random_graph(case, np.random.default_rng(seed))
        result, best = best_of_starts(case, graph, values, np.random.default_rng(seed), _RESTARTS)
        bounds = [certify(graph, result).lower_bound]
        if seed % 20 == 0:
            with suppress(GtsamSdpError):
                bounds.append(min(relax(graph, result).solve().bound.value, graph.error(result)))
        excess = max(bounds) / max(best, 1e-12) - 1
        above += max(bounds) > best * (1 + 1e-9) + 1e-12
        largest = max(largest, excess)
        gaps.append((best - bounds[0]) / max(best, 1e-12))
    certified = sum(gap <= 1e-4 for gap in gaps)
    return [f"`{case.name}`", str(_GRAPHS), str(above), f"{largest:+.0e}", f"{certified}", f"{np.median(gaps):.1e}"]


SECTIONS: dict[str, tuple[str, str, Callable[[], str]]] = {
    "victoria": (
        "Victoria Park",
        "`gtsam.load2D`: 6,969 poses, 151 landmarks, 3,640 bearings with ranges. Tolerance 1e-4.",
        victoria,
    ),
    "goats": (
        "Goats: odometry and ranges to beacons",
        "`load_pyfg`. LM from the file's values and from values scattered by 1 to 300 m, then `refine` from the best "
        "(60 s). The relaxation chooses where the tangents of ranges touch; a beacon that nothing but ranges holds may "
        "leave the plane in it, so that a gap is left even where the cost may be the optimum.",
        goats,
    ),
    "slam": (
        "Landmark SLAM over noise",
        "`tests.problems.landmark_loop`: a loop of 500 poses with odometry (0.05 m, 0.02 rad), 100 landmarks, the four "
        'nearest seen from each pose; five seeds. `solve(graph, method="local")`: from no start, without any SDP. '
        "The middle of the grid is the median noise (geometric).",
        slam,
    ),
    "flight": (
        "Constant velocity and ranges to four known beacons",
        "`tests.problems.beacon_flight`: ten states a second, every one with four ranges (0.1 m). All positions start "
        "in the middle between the beacons, all velocities at zero; no step is begun after 5 s.",
        flight,
    ),
    "soundness": (
        "Soundness",
        "Small random graphs: five factors of one type whose random measurements contradict each other, with noise "
        "models of every kind, and a weak prior on each variable. `certify` where LM ends from the first start, for "
        "every twentieth graph the relaxation too, against the best of six starts. Large gaps are expected; a bound "
        "above the best by more than 1e-9 of it would be a bug. (The priors are on rotations and positions apart: "
        "GTSAM's own log map of poses in the plane is off by 1e-7 of the cost at angles of 1e-9, as higher precision "
        "shows, and optimizers find such points.)",
        soundness,
    ),
}

HEAD = """# Benchmarks with landmarks, ranges and motion priors

Made by `python -m tests.benchmarks.landmarks [--sections {names}]`. Machine: {machine}, one thread, shared with other
work: read times as upper ends.
"""


def main() -> None:
    """Runs sections and writes them in their places."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sections", nargs="+", choices=list(SECTIONS), default=list(SECTIONS))
    parser.add_argument("--write", type=Path, default=Path("docs/benchmarks-landmarks.md"))
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in arguments.sections:
        title, what, run = SECTIONS[name]
        text = f"{what}\n\n{run()}"
        written = arguments.write.read_text() if arguments.write.exists() else ""
        parts = dict(re.findall(r"^## (.*?)\n\n(.*?)\n*(?=^## |\Z)", written, re.MULTILINE | re.DOTALL))
        parts[title] = text
        head = HEAD.format(names=" ".join(SECTIONS), machine=common.machine())
        body = [f"## {title}\n\n{parts[title]}\n" for title, _, _ in SECTIONS.values() if title in parts]
        arguments.write.write_text("\n".join([head, *body]))


if __name__ == "__main__":
    main()
