"""`refine` from wrong minima of real files."""

from __future__ import annotations

import time

import numpy as np

from gtsam_sdp import Solution, load_g2o, refine
from tests import problems
from tests.benchmarks import common
from tests.benchmarks.relaxation.settings import Section, Settings

NAMES = ("MIT", "CSAIL", "kitti_05")


def run_refine(settings: Settings) -> str:
    """LM from a bad start, then refine: MIT from its file's values, the others from random poses."""
    rows = []
    for name in NAMES:
        if name not in settings.files:
            continue
        graph, values = load_g2o(settings.folder / f"{name}.g2o")
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
        common.say("refine", *rows[-1])
    return common.table(["file", "LM's cost", "refined", "status", "gap / cost", "seconds"], rows)


REFINE = Section("refine", "`refine` from wrong minima, log-map cost", run_refine)
