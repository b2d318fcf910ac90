"""Benchmark of `certify` on public pose graphs: gaps, time against LM, memory, units, growth.

    python -m tests.benchmarks.certify_datasets FOLDER [--write docs/benchmarks.md]

FOLDER holds g2o files (CSAIL, MIT, intel, manhattan, kitti_00/02/05, city10000, ais2klinik, tinyGrid3D, smallGrid3D,
sphere2500, torus3D, parking-garage, cubicle, sphere_bignoise_vertex3, as distributed with SE-Sync). Each measurement
runs in a process of its own, one after another; times are medians of five in one run and to be read as ratios.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gtsam

from gtsam_sdp import Certificate, certify, load_g2o
from tests import problems
from tests.benchmarks import common

STEPS = ("reading", "terms", "assembly", "verification", "polishing")


def geodesic(path: Path) -> dict[str, Any]:
    """The file's own between factors: LM from the chordal initialisation, then certify."""
    start = common.good_start(path)
    graph, _ = load_g2o(path)
    lm_seconds, result = common.median_seconds(lambda: common.optimize(graph, start))
    seconds, certificate = common.median_seconds(lambda: certify(graph, result))
    return {**_row(path, certificate), "poses": result.size(), "lm": lm_seconds, "certify": seconds}


def chordal(path: Path) -> dict[str, Any]:
    """The chordal cost: LM from the chordal initialisation, Newton steps to the end, then certify."""
    graph, _ = load_g2o(path, cost="chordal")
    result = common.newton(graph, common.optimize(graph, common.good_start(path), iterations=300))
    certificate = certify(graph, result)
    optimum = common.CHORDAL_OPTIMA[path.stem]
    return {**_row(path, certificate), "difference": certificate.cost / optimum - 1}


def rotations(path: Path) -> dict[str, Any]:
    """Rotation averaging with BetweenFactorRot3 and isotropic noise: the rotation parts of a 3D file."""
    poses, _ = load_g2o(path)
    start = common.good_start(path)
    graph, initial = gtsam.NonlinearFactorGraph(), gtsam.Values()
    model = gtsam.noiseModel.Isotropic.Sigma(3, 0.1)
    for k in range(poses.size()):
        factor: Any = poses.at(k)
        i, j = factor.keys()
        graph.add(gtsam.BetweenFactorRot3(i, j, factor.measured().rotation(), model))
    for key in start.keys():
        initial.insert(key, start.atPose3(key).rotation())
    result = gtsam.LevenbergMarquardtOptimizer(graph, initial, common.parameters(1e-15)).optimize()
    return _row(path, certify(graph, result))


def units(path: Path) -> dict[str, Any]:
    """Relative gaps with information times 1e-9 ... 1e9, and lengths times 1e-3 and 1e3."""
    graph, _ = load_g2o(path)
    result = common.optimize(graph, common.good_start(path))
    cases = {"": (graph, result)}
    for exponent in (-9, -6, -3, 3, 6, 9):
        cases[f"information 1e{exponent}"] = (problems.scaled_information(graph, 10.0**exponent), result)
    for exponent in (-3, 3):
        cases[f"lengths 1e{exponent}"] = problems.scaled_lengths(graph, result, 10.0**exponent)
    gaps = {}
    for name, case in cases.items():
        certificate = certify(*case)
        gaps[name] = certificate.gap / certificate.cost
    return {"name": path.stem, "gaps": gaps}


def growth(count: int) -> dict[str, Any]:
    """A 2D grid from this project's generator: seconds of certify for each pose."""
    graph, truth = problems.manhattan_grid(count)
    result = common.optimize(graph, truth)
    seconds, certificate = common.median_seconds(lambda: certify(graph, result), repeats=3)
    return {**_row(Path(str(count)), certificate), "poses": count, "factors": graph.size(), "certify": seconds}


def _row(path: Path, certificate: Certificate) -> dict[str, Any]:
    return {
        "name": path.stem,
        "status": certificate.status.name,
        "cost": certificate.cost,
        "gap": certificate.gap / certificate.cost,
        "rounding": certificate.rounding / certificate.cost,
        "timings": dict(certificate.timings),
        "megabytes": common.peak_megabytes(),
    }


MEASUREMENTS: dict[str, Callable[[Any], dict[str, Any]]] = {
    "geodesic": geodesic,
    "chordal": chordal,
    "rotations": rotations,
    "units": units,
    "growth": growth,
}


def _measure(what: str, argument: Path | int) -> dict[str, Any]:
    """One measurement in a process of its own."""
    command = [sys.executable, "-m", "tests.benchmarks.certify_datasets", "--one", what, str(argument)]
    started = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{what} {argument} failed:\n{done.stderr}")
    print(
        f"{what:10} {Path(str(argument)).stem:24} {time.perf_counter() - started:6.1f} s", file=sys.stderr, flush=True
    )
    return json.loads(done.stdout)


def _geodesic_section(files: list[Path]) -> str:
    rows = []
    for path in files:
        r = _measure("geodesic", path)
        total = sum(r["timings"].values())
        shares = [f"{100 * r['timings'].get(step, 0.0) / total:.0f}%" for step in STEPS]
        rows.append(
            [r["name"], f"{r['poses']}", f"{r['cost']:.7g}", r["status"], f"{r['gap']:.1e}", f"{r['rounding']:.0e}",
             f"{1e3 * r['lm']:.0f}", f"{1e3 * r['certify']:.0f}", f"{r['certify'] / r['lm']:.2f}", *shares,
             f"{r['megabytes']:.0f}"]
        )  # fmt: skip
    head = ["file", "poses", "cost", "status", "gap / cost", "of it rounding", "LM [ms]", "certify [ms]", "ratio"]
    return common.table([*head, *STEPS, "peak [MB]"], rows)


def _chordal_section(files: list[Path]) -> str:
    rows = []
    for path in files:
        r = _measure("chordal", path)
        rows.append([r["name"], f"{r['cost']:.10g}", f"{r['difference']:+.0e}", r["status"], f"{r['gap']:.1e}"])
    return common.table(["file", "cost", "cost / F* - 1", "status", "gap / cost"], rows)


def _rotation_section(files: list[Path]) -> str:
    rows = []
    for path in files:
        r = _measure("rotations", path)
        rows.append([r["name"], f"{r['cost']:.8g}", r["status"], f"{r['gap']:.1e}"])
    return common.table(["file", "cost", "status", "gap / cost"], rows)


def _units_section(files: list[Path]) -> str:
    measured = [_measure("units", path) for path in files]
    names = list(measured[0]["gaps"])
    rows = [[name or "as in the file", *(f"{m['gaps'][name]:.2e}" for m in measured)] for name in names]
    return common.table(["", *(m["name"] for m in measured)], rows)


def _growth_section() -> str:
    rows = []
    for count in (1000, 10000, 100000):
        r = _measure("growth", count)
        each = 1e6 * r["certify"] / r["poses"]
        rows.append(
            [f"{count}", f"{r['factors']}", r["status"], f"{r['gap']:.1e}", f"{1e3 * r['certify']:.0f}", f"{each:.1f}",
             f"{r['megabytes']:.0f}"]
        )  # fmt: skip
    return common.table(["poses", "factors", "status", "gap / cost", "certify [ms]", "a pose [us]", "peak [MB]"], rows)


def report(folder: Path) -> str:
    """All sections as one Markdown text."""
    files = sorted(folder.glob("*.g2o"), key=lambda p: p.stem.lower())
    files = [f for f in files if f.stem in common.CHORDAL_OPTIMA]

    def named(*names: str) -> list[Path]:
        return [f for f in files if f.stem in names]

    return TEXT.format(
        machine=common.machine(),
        geodesic=_geodesic_section(files),
        rotations=_rotation_section(named("tinyGrid3D", "smallGrid3D", "sphere2500", "torus3D")),
        chordal=_chordal_section(files),
        units=_units_section(named("parking-garage", "sphere2500", "MIT")),
        growth=_growth_section(),
    )


TEXT = """# Benchmarks

Made by `make bench DATA=folder`, which runs `tests/benchmarks/certify_datasets.py` on a folder of public g2o files (as
distributed with SE-Sync). Machine: {machine}. Each line is a process of its own; times are medians of five in one run,
on a shared machine: read them as ratios. Gaps here are divided by the cost itself.
Other tables: [from no start and from random starts](benchmarks-global.md), [the race against the solvers of the gtsam
wheel](benchmarks-race.md), [landmarks, ranges and motion priors](benchmarks-landmarks.md), [the relaxation, SDP solvers
and the published formulation](benchmarks-relaxation.md).

## Log-map cost, the files' own information matrices

LM (relative tolerance 1e-10) from the chordal initialisation, then `certify`; `ratio` is the time of `certify` by
that of LM, the columns after it are the shares of its steps. The peak is that of the whole process, LM included.

{geodesic}

cubicle's file holds 5,021 indefinite information matrices. GTSAM turns them into weights that leave directions of
the translation free; a term for those keeps nothing of the translation, and no useful bound is left.

## Rotation averaging, `BetweenFactorRot3` with isotropic noise

{rotations}

## Chordal cost, `load_g2o(path, cost="chordal")`

LM and Riemannian Newton steps, then `certify`. F* are the optima that a Riemannian staircase finds from many starts.

{chordal}

## Units

Gap by cost after all information matrices, or all lengths, were multiplied.

{units}

## Growth

2D grids of the project's own generator.

{growth}
"""


def main() -> None:
    """Runs one measurement (`--one`) or all of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--write", type=Path, default=Path("docs/benchmarks.md"))
    parser.add_argument("--one", nargs=2)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    if arguments.one:
        what, argument = arguments.one
        print(json.dumps(MEASUREMENTS[what](int(argument) if what == "growth" else Path(argument))))
        return
    if arguments.folder is None or not arguments.folder.is_dir():
        parser.error("give a folder of g2o files")
    arguments.write.write_text(report(arguments.folder))


if __name__ == "__main__":
    main()
