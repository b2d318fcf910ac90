"""The entrants by name, and one run of one of them in a process of its own."""

from __future__ import annotations

import math
import resource
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from gtsam_sdp import solve
from tests.benchmarks.race.finish import Finish, timed
from tests.benchmarks.race.graphs import RaceGraph, Start, Subject, build_race_graph
from tests.benchmarks.race.se_sync import race_se_sync
from tests.benchmarks.race.shonan import race_shonan
from tests.benchmarks.race.staircase import race_staircase
from tests.benchmarks.relaxation.apart import Outcome, run_apart

OURS = "gtsam_sdp"
SE_SYNC = "SE-Sync"


@dataclass(frozen=True)
class Run:
    """What one entrant has to do.

    Attributes:
        entrant: its name.
        path: the g2o file.
        subject: poses or rotations.
        start: where from.
        weight: all weights are multiplied by it.
        tolerance: of `solve`.
        se_sync: SE-Sync's program, if that is the entrant.
    """

    entrant: str
    path: Path
    subject: Subject
    start: Start
    weight: float = 1.0
    tolerance: float = 1e-6
    se_sync: Path | None = None


@dataclass(frozen=True)
class Limits:
    """Of a process: seconds in all, and gigabytes of address space."""

    seconds: float
    gigabytes: float


def _race_ours(race: RaceGraph, tolerance: float) -> Finish:
    solution, seconds = timed(lambda: solve(race.graph, race.initial, tolerance=tolerance))
    certificate = solution.certificate
    verdict = f"{certificate.status.name}, {solution.method}"
    return Finish(seconds, bool(certificate), verdict, race.graph.error(solution.values), certificate.relative_gap)


ENTRANTS: Mapping[str, Callable[[RaceGraph, Run], Finish]] = {
    OURS: lambda race, run: _race_ours(race, run.tolerance),
    "staircase, BCL": lambda race, _: race_staircase(race, "BCL"),
    "staircase, Aggressive": lambda race, _: race_staircase(race, "Aggressive"),
    "Shonan": lambda race, _: race_shonan(race),
}
"""All that solve a GTSAM graph."""


def run_entrant(run: Run, limits: Limits) -> Outcome[Finish]:
    """Runs an entrant in a process of its own; the peak is that of the process, or of the program it started."""
    outcome = run_apart(_work, run, limits, seconds=limits.seconds)
    if outcome.value is not None and outcome.value.megabytes:
        return replace(outcome, megabytes=outcome.value.megabytes)
    return outcome


def _work(run: Run, limits: Limits) -> Finish:
    bytes_ = int(limits.gigabytes * 2**30)
    resource.setrlimit(resource.RLIMIT_AS, (bytes_, bytes_))
    warnings.simplefilter("ignore")
    if run.se_sync is not None:
        return race_se_sync(run.se_sync, run.path, 0.9 * limits.seconds)
    return ENTRANTS[run.entrant](build_race_graph(run.path, run.subject, run.start, run.weight), run)


def is_false(finish: Finish, best: float) -> bool:
    """Whether it was called certified and is more than 1e-6 above the best cost known."""
    return finish.certified and finish.cost > best * (1 + 1e-6 + finish.rounding)


def best_cost(finishes: list[Finish]) -> float:
    """The lowest cost of all entrants."""
    return min((finish.cost for finish in finishes if math.isfinite(finish.cost)), default=math.nan)
