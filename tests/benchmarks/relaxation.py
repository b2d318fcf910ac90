"""Benchmark of the clique-decomposed relaxation: the published ring, and `refine` from wrong minima of real files.

    python -m tests.benchmarks.relaxation FOLDER [--write docs/benchmarks-relaxation.md]

FOLDER holds MIT.g2o, CSAIL.g2o and kitti_05.g2o. Times are single runs on a shared machine.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np

from gtsam_sdp import Solution, load_g2o, refine, relax
from tests import problems
from tests.benchmarks import common

RING = {20: 2.7017995359, 100: 1.3461771256, 1000: 1.3062630662}
"""Published optima of the split ring."""


def ring_rows() -> list[list[str]]:
    """The split ring, plain and tightened."""
    rows = []
    for count, optimum in RING.items():
        graph, truth = problems.split_ring(count)
        for tighten in (False, True):
            solution = relax(graph, truth, tighten=tighten).solve()
            rows.append(
                [
                    str(count),
                    "tightened" if tighten else "plain",
                    solution.message,
                    f"{solution.lower_bound:.9g}",
                    f"{solution.lower_bound / optimum - 1:+.0e}",
                    f"{np.count_nonzero(solution.eigenvalue_ratios > 1e5)} of {len(solution.eigenvalue_ratios)}",
                    f"{graph.error(solution.recover()):.9g}",
                    f"{solution.timings['building']:.2f}",
                    f"{solution.timings['solving']:.2f}",
                ]
            )
            print("ring", *rows[-1], file=sys.stderr, flush=True)
    return rows


def refine_rows(folder: Path) -> list[list[str]]:
    """LM from a bad start, then refine: MIT from its file's values, the others from random poses."""
    rows = []
    for name in ("MIT", "CSAIL", "kitti_05"):
        graph, values = load_g2o(folder / f"{name}.g2o")
        start = values if name == "MIT" else problems.random_start(values, np.random.default_rng(0))
        wrong = common.optimize(graph, start)
        began = time.perf_counter()
        solution: Solution = refine(graph, wrong)
        rows.append(
            [
                name,
                f"{graph.error(wrong):.6g}",
                f"{solution.cost:.8g}",
                solution.certificate.status.name,
                f"{solution.certificate.gap / solution.cost:.1e}",
                f"{time.perf_counter() - began:.1f}",
            ]
        )
        print("refine", *rows[-1], file=sys.stderr, flush=True)
    return rows


TEXT = """# Benchmarks of the relaxation

Made by `python -m tests.benchmarks.relaxation FOLDER`. Machine: {machine}, clarabel {clarabel}. Single runs on a shared
machine.

## The split ring

`FrobeniusBetweenFactorRot3` and `RelativeTranslationFactor3` between neighbours, seed 42; optima 2.7017995359,
1.3461771256, 1.3062630662. METIS ordering; a clique counts as tight if lambda_3 / lambda_4 > 1e5.

{ring}

## `refine` from wrong minima, log-map cost

{refine}
"""


def main() -> None:
    """Runs all and writes the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--write", type=Path, default=Path("docs/benchmarks-relaxation.md"))
    arguments = parser.parse_args()
    ring = common.table(
        [
            "poses",
            "",
            "solver says",
            "verified bound",
            "by optimum",
            "tight cliques",
            "rounded cost",
            "build [s]",
            "solve [s]",
        ],
        ring_rows(),
    )
    refined = common.table(
        ["file", "LM's cost", "refined", "status", "gap / cost", "seconds"], refine_rows(arguments.folder)
    )
    text = TEXT.format(machine=common.machine(), clarabel=common.version("clarabel"), ring=ring, refine=refined)
    arguments.write.write_text(text)


if __name__ == "__main__":
    main()
