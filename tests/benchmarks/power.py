"""The power curve: how anisotropic noise may be for `certify` to prove an optimum. Writes docs/benchmarks-power.md.

Pose graphs whose noise is drawn from the covariance that they state. Covariances are diag(sigmas) K diag(sigmas), the
eigenvalues of K geometrically spaced around 1 with ratio kappa, each factor with its own K: diagonal in random order
("aligned"), or turned by a random orthogonal matrix.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import gtsam
import numpy as np

from gtsam_sdp import GtsamSdpError, certify, relax
from gtsam_sdp.lift.build import build_terms
from gtsam_sdp.reading.graph import read
from tests import problems
from tests.benchmarks import common

SIGMAS = ((0.01, 0.02), (0.05, 0.1), (0.1, 0.3))
"""Of rotations [rad] and of translations [m]."""

KINDS = ((1.0, False), (10.0, False), (100.0, False), (10.0, True), (100.0, True), (1e4, True))
"""kappa, and whether the axes are turned."""

TOLERANCE = 1e-4


@dataclass(frozen=True)
class Cell:
    """One cell of the table."""

    dimension: int
    sigmas: tuple[float, float]
    kappa: float
    turned: bool

    def covariance(self, rng: np.random.Generator) -> np.ndarray:
        """A covariance in GTSAM's order of the tangent space, (3, 3) or (6, 6)."""
        d = self.dimension
        turn = [self.sigmas[0]] * (1 if d == 2 else 3)
        move = [self.sigmas[1]] * d
        scale = np.array(move + turn if d == 2 else turn + move)
        spread = rng.permutation(self.kappa ** np.linspace(-0.5, 0.5, len(scale)))
        axes = np.linalg.qr(rng.normal(size=(len(scale), len(scale))))[0] if self.turned else np.eye(len(scale))
        covariance = scale[:, None] * (axes * spread @ axes.T) * scale
        return (covariance + covariance.T) / 2

    def graph(self, seed: int, poses: int, closures: int) -> tuple[gtsam.NonlinearFactorGraph, gtsam.Values]:
        """Odometry along a random walk of steps of 1 m, loop closures between random poses, and the true poses."""
        rng = np.random.default_rng(seed)
        truth = _walk(self.dimension, poses, rng)
        edges = [(i, i + 1) for i in range(poses - 1)]
        edges += [tuple(sorted(rng.choice(poses, 2, replace=False).tolist())) for _ in range(closures)]
        factor: Any = gtsam.BetweenFactorPose2 if self.dimension == 2 else gtsam.BetweenFactorPose3
        graph = gtsam.NonlinearFactorGraph()
        for i, j in edges:
            covariance = self.covariance(rng)
            noise = np.linalg.cholesky(covariance) @ rng.normal(size=len(covariance))
            measured = truth[i].between(truth[j]).retract(noise)
            graph.add(factor(i, j, measured, gtsam.noiseModel.Gaussian.Covariance(covariance)))
        return graph, problems.to_values(enumerate(truth))


def _walk(d: int, count: int, rng: np.random.Generator) -> list[Any]:
    """Poses that drive a metre each and turn a little."""
    poses = [problems.identity(d)]
    for _ in range(count - 1):
        turn = rng.normal(size=1 if d == 2 else 3) * 0.4
        step = np.array([1.0, 0.0, *turn]) if d == 2 else np.array([*turn, 1.0, 0.0, 0.0])
        poses.append(poses[-1].compose(type(poses[-1]).Expmap(step)))
    return poses


@dataclass(frozen=True)
class Measured:
    """One graph: relative gaps of `certify`, the relaxation and of the terms alone, methods and seconds."""

    gap: float
    relaxation_gap: float
    terms_gap: float
    seconds: float
    relaxation_seconds: float


def measure(cell: Cell, seed: int, poses: int, closures: int, with_relaxation: bool) -> Measured:
    """Optimises from the truth, certifies, and relaxes."""
    graph, truth = cell.graph(seed, poses, closures)
    result = problems.optimize(graph, truth)
    start = time.perf_counter()
    certificate = certify(graph, result, tolerance=TOLERANCE)
    seconds = time.perf_counter() - start
    reading = read(graph, result, "raise")
    world = reading.layout.world
    kept = sum(float(t.value(reading.estimate, world).sum()) for t in build_terms(reading))
    gap, taken = np.nan, np.nan
    if with_relaxation:
        start = time.perf_counter()
        try:
            gap = 1 - relax(graph, result).solve().lower_bound / certificate.cost
        except GtsamSdpError:
            gap = 1.0
        taken = time.perf_counter() - start
    terms_gap = 1 - kept / certificate.cost
    return Measured(certificate.relative_gap, min(gap, 1.0), terms_gap, seconds, taken)


def row(cell: Cell, seeds: int, poses: int, closures: int, with_relaxation: bool) -> list[str]:
    """One line of the table."""
    results = [measure(cell, seed, poses, closures, with_relaxation) for seed in range(seeds)]

    def median(name: str) -> float:
        return float(np.median([getattr(result, name) for result in results]))

    certified = sum(result.gap <= TOLERANCE for result in results)
    kind = f"{cell.kappa:g}" + (" turned" if cell.turned else " aligned" if cell.kappa > 1 else "")
    more = [f"{median('relaxation_gap'):.0e}", f"{median('relaxation_seconds'):.2f}"] if with_relaxation else []
    return [
        f"{cell.dimension}D", "{:g} rad, {:g} m".format(*cell.sigmas), kind, f"{certified}/{seeds}",
        f"{median('gap'):.0e}", f"{max(median('terms_gap'), 0):.0e}", f"{median('seconds'):.2f}", *more,
    ]  # fmt: skip


HEAD = """# The power curve: noise that differs along axes

Made by `python -m tests.benchmarks.power {arguments}`. Machine: {machine}, one thread, shared
with other work: read times as upper ends.

Pose graphs whose noise is drawn from the covariance that they state: `tests/benchmarks/power.py`. Sigmas are those of
rotation and translation; kappa is the ratio of the extreme eigenvalues of the covariance in their units, geometrically
around 1 (the loosest axis has a sigma kappa^(1/4) times as large). Every factor has a covariance of its own, along the
axes of the body in random order, or turned with all correlations. Certified: by `certify` at {tolerance:g} at the
optimum that is found from the truth. Terms: what the first terms together lose at the values, before they are
tightened. Relaxation: of the first terms, by `relax`. Gaps are relative, medians.
"""


def section(title: str, poses: int, closures: int, cells: list[Cell], seeds: int, with_relaxation: bool) -> str:
    """A table of one size of graphs."""
    head = ["", "sigmas", "kappa", "certified", "gap", "terms", "`certify` [s]"]
    if with_relaxation:
        head += ["relaxation: gap", "[s]"]
    rows = []
    for cell in cells:
        rows.append(row(cell, seeds, poses, closures, with_relaxation))
        common.say(*rows[-1])
    return f"## {title}\n\n{poses} poses, {closures} loop closures, {seeds} seeds.\n\n{common.table(head, rows)}\n"


def main() -> None:
    """Measures the table and writes it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--dimensions", type=int, nargs="+", default=[2, 3])
    parser.add_argument("--sigmas", type=int, nargs="+", default=[0, 1, 2], help="which pairs")
    parser.add_argument("--kinds", type=int, nargs="+", default=list(range(len(KINDS))), help="which covariances")
    parser.add_argument("--large", action="store_true", help="also 300 poses with 150 closures")
    parser.add_argument("--write", type=Path, default=Path("docs/benchmarks-power.md"))
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    cells = [
        Cell(d, SIGMAS[sigmas], *KINDS[kind])
        for d, sigmas, kind in product(arguments.dimensions, arguments.sigmas, arguments.kinds)
    ]
    parts = [HEAD.format(arguments=" ".join(sys.argv[1:]), machine=common.machine("clarabel"), tolerance=TOLERANCE)]
    parts.append(section("Small graphs", 30, 15, cells, arguments.seeds, True))
    if arguments.large:
        parts.append(section("Larger graphs", 300, 150, cells, min(arguments.seeds, 5), False))
    arguments.write.write_text("\n".join(parts))


if __name__ == "__main__":
    main()
