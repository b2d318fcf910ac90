"""The chordal cost of public files, each in a process of its own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gtsam_sdp import ProblemTooLargeError, load_g2o, relax
from tests.benchmarks import common
from tests.benchmarks.relaxation.apart import Outcome, run_apart
from tests.benchmarks.relaxation.document import filled
from tests.benchmarks.relaxation.settings import Section, Settings

LARGE_CLIQUES = {"ais2klinik", "parking-garage"}
"""Files on which the solver has a time limit."""

LONGEST = 3600.0
"""A process is stopped after this time beyond the solver's limit [s]: the solver looks once an iteration."""


@dataclass(frozen=True)
class FileRun:
    """A solved relaxation of a file; message alone if it was refused."""

    poses: int
    flops: float
    gigabytes: float
    clique: int
    message: str
    iterations: int = 0
    bound: float = float("nan")
    building: float = float("nan")
    solving: float = float("nan")


def solve_file(path: Path, time_limit: float | None) -> FileRun:
    """Builds and solves the relaxation of a file's chordal cost."""
    graph, values = load_g2o(path, cost="chordal")
    relaxation = relax(graph, values, ordering="colamd")
    cost = relaxation.predicted_cost
    known = (values.size(), cost.flops, cost.bytes / 1e9, cost.largest_clique)
    try:
        solution = relaxation.solve(time_limit=time_limit)
    except ProblemTooLargeError:
        return FileRun(*known, "refused as too large")
    seconds = solution.timings
    bound = solution.lower_bound
    return FileRun(*known, solution.message, solution.iterations, bound, seconds["building"], seconds["solving"])


def run_files(settings: Settings) -> str:
    """One row a file."""
    rows = []
    for name in settings.files:
        limit = settings.time_limit if name in LARGE_CLIQUES else None
        path = settings.folder / f"{name}.g2o"
        outcome = run_apart(solve_file, path, limit, seconds=(limit or 0.0) + LONGEST)
        rows.append(_row(name, outcome))
        common.say("files", *rows[-1])
    head = [
        "file", "poses", "flops an iteration", "predicted [GB]", "peak [GB]", "largest clique", "solver says",
        "iterations", "bound / optimum - 1", "build [s]", "solve [s]",
    ]  # fmt: skip
    text = (
        '`load_g2o(cost="chordal")`, tightened Gram lift at the values of the file, COLAMD ordering; optima of a '
        f"Riemannian staircase. The solver has {settings.time_limit:.0f} s on ais2klinik and parking-garage. Peak "
        "memory is that of a process of its own."
    )
    return f"{filled(text)}\n\n{common.table(head, rows)}"


def _row(name: str, outcome: Outcome[FileRun]) -> list[str]:
    run = outcome.value
    if run is None:
        return [name, *["-"] * 5, outcome.note, *["-"] * 4]
    cells = [
        name, f"{run.poses}", f"{run.flops:.1e}", f"{run.gigabytes:.2g}", f"{outcome.megabytes / 1024:.2g}",
        f"{run.clique}", run.message,
    ]  # fmt: skip
    if not run.iterations:
        return [*cells, *["-"] * 4]
    difference = run.bound / common.CHORDAL_OPTIMA[name] - 1
    return [*cells, f"{run.iterations}", f"{difference:+.1e}", f"{run.building:.1f}", f"{run.solving:.1f}"]


FILES = Section("files", "Public files, chordal cost", run_files)
