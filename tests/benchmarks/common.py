"""What benchmarks share: starts, optimisation, timing, memory, and the description of the machine."""

from __future__ import annotations

import os
import platform
import resource
import statistics
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import TypeVar

import gtsam
import numpy as np

from gtsam_sdp import load_g2o
from gtsam_sdp.lift.build import build_terms
from gtsam_sdp.lift.coordinates import centred_coordinates
from gtsam_sdp.lift.qcqp import Qcqp
from gtsam_sdp.lowrank.descent import descend
from gtsam_sdp.lowrank.quadratic import Quadratic
from gtsam_sdp.reading.graph import read
from gtsam_sdp.search.start import starting_values

T = TypeVar("T")

SPACE = {"tinyGrid3D", "smallGrid3D", "sphere2500", "torus3D", "parking-garage", "cubicle", "sphere_bignoise_vertex3"}

CHORDAL_OPTIMA = {
    "tinyGrid3D": 18.5193664213,
    "smallGrid3D": 1025.39805563,
    "sphere2500": 1687.00581433,
    "torus3D": 24227.0455584,
    "parking-garage": 1.26252442702,
    "cubicle": 717.125990751,
    "sphere_bignoise_vertex3": 2961756.49029,
    "intel": 52.348227286,
    "manhattan": 6431.39138721,
    "CSAIL": 31.7037158837,
    "MIT": 61.1541155248,
    "kitti_00": 125.693514545,
    "kitti_02": 108.35113897,
    "kitti_05": 276.5143788,
    "city10000": 638.624619651,
    "ais2klinik": 188.501805621,
}
"""Optima of the chordal cost, found by a Riemannian staircase from many starts."""


def parameters(tolerance: float = 1e-10, iterations: int = 100) -> gtsam.LevenbergMarquardtParams:
    result = gtsam.LevenbergMarquardtParams()
    result.setRelativeErrorTol(tolerance)
    result.setAbsoluteErrorTol(0.0)
    result.setMaxIterations(iterations)
    return result


def optimize(graph: gtsam.NonlinearFactorGraph, start: gtsam.Values, iterations: int = 100) -> gtsam.Values:
    return gtsam.LevenbergMarquardtOptimizer(graph, start, parameters(iterations=iterations)).optimize()


def lift(graph: gtsam.NonlinearFactorGraph, values: gtsam.Values) -> tuple[Qcqp, np.ndarray]:
    reading = read(graph, values, "raise")
    terms = build_terms(reading)
    qcqp = Qcqp.assemble(terms, reading.layout, centred_coordinates(reading, terms))
    return qcqp, qcqp.coordinates.reduce(reading.estimate)


def good_start(path: Path) -> gtsam.Values:
    """Chordal initialisation of a file's chordal graph: no value of the file is used."""
    return starting_values(load_g2o(path, cost="chordal")[0])


def newton(graph: gtsam.NonlinearFactorGraph, values: gtsam.Values) -> gtsam.Values:
    """Riemannian Newton steps on a graph whose lift is exact, until they gain nothing."""
    for _ in range(20):
        qcqp, Y = lift(graph, values)
        end = descend(Quadratic(qcqp), Y, 1e-11, near=True)
        values = qcqp.unlift(end.Y)
        if end.decrease <= 1e-13 * graph.error(values):
            break
    return values


def median_seconds(run: Callable[[], T], repeats: int = 5) -> tuple[float, T]:
    """Median time of `run` and its last result."""
    times: list[float] = []
    results: list[T] = []
    for _ in range(repeats):
        start = time.perf_counter()
        results = [run()]
        times.append(time.perf_counter() - start)
    return statistics.median(times), results[0]


def peak_megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def say(*words: object) -> None:
    """Progress, on stderr."""
    print(*words, file=sys.stderr, flush=True)


def machine(*others: str) -> str:
    """One line on the machine and the versions, those of some more packages too."""
    names = ("gtsam", "numpy", "scipy", "qdldl", *others)
    versions = ", ".join(f"{name} {version(name)}" for name in names)
    return f"{os.cpu_count()} cores ({platform.machine()}), Python {platform.python_version()}, {versions}"


def table(head: list[str], rows: list[list[str]]) -> str:
    """A Markdown table, first column left, the others right."""
    lines = ["| " + " | ".join(head) + " |", "|" + "|".join(["---"] + ["---:"] * (len(head) - 1)) + "|"]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])
