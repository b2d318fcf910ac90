"""The tables of the race."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tests.benchmarks import common
from tests.benchmarks.race.entrants import OURS, SE_SYNC, Limits, Run, best_cost, is_false, run_entrant
from tests.benchmarks.race.finish import Finish
from tests.benchmarks.race.graphs import Start, Subject
from tests.benchmarks.relaxation.apart import Outcome

TOLERANCES = {"ais2klinik": 1e-4}
"""Of `solve`, where 1e-6 is more than rounding allows to prove."""

HEAD = [
    "file", "start", "entrant", "verdict", "cost / best - 1", "proven gap", "time [s]", "/ ours", "CPU [s]",
    "peak [GB]", "",
]  # fmt: skip


@dataclass(frozen=True)
class Section:
    """A table of the document.

    Attributes:
        name: for the command line.
        heading: in the document.
        text: what is compared and how.
        subject: poses or rotations.
        files: names of files, and what their weights are multiplied by.
        entrants: without SE-Sync, which takes part where poses and weights are those of the file.
        starts: where from.
    """

    name: str
    heading: str
    text: str
    subject: Subject
    files: Sequence[tuple[str, float]]
    entrants: Sequence[str]
    starts: Sequence[Start]


def tables(
    section: Section, before: str, folder: Path, names: Sequence[str], limits: Limits, se_sync: Path | None
) -> Iterator[str]:
    """The table of a section after each of its files that is named; other files keep the rows that they had before."""
    rows = rows_of(before)
    for name, weight in section.files:
        if name in names:
            runs = _runs(section, folder / f"{name}.g2o", weight, se_sync)
            rows[_label(name, weight)] = _file_rows(runs, limits)
            known = [rows[label] for label in (_label(*file) for file in section.files) if label in rows]
            yield common.table(HEAD, [row for group in known for row in group])


def rows_of(text: str) -> dict[str, list[list[str]]]:
    """Rows of a table in a text, by their first cell."""
    rows: dict[str, list[list[str]]] = {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        if line.startswith("| ") and len(cells) == len(HEAD) and cells != HEAD:
            rows.setdefault(cells[0], []).append(cells)
    return rows


def _label(name: str, weight: float) -> str:
    return name if weight == 1 else f"{name}, weights times {weight:g}"


def _runs(section: Section, path: Path, weight: float, se_sync: Path | None) -> list[Run]:
    """All runs on a file; `solve` is the first from each start."""
    tolerance = TOLERANCES.get(path.stem, Run.tolerance)
    runs = [
        Run(entrant, path, section.subject, start, weight, tolerance)
        for start in section.starts
        for entrant in section.entrants
    ]
    if se_sync is not None and section.subject == "poses" and weight == 1 and "none" in section.starts:
        runs.insert(len(section.entrants), replace(runs[0], entrant=SE_SYNC, se_sync=se_sync))
    return runs


def _file_rows(runs: Sequence[Run], limits: Limits) -> list[list[str]]:
    outcomes: list[Outcome[Finish]] = []
    for run in runs:
        outcomes.append(run_entrant(run, limits))
        words = outcomes[-1].value or outcomes[-1].note
        common.say(run.path.stem, run.weight, run.subject, run.start, f"{run.entrant}:", words)
    best = _best(runs[0], outcomes)
    ours = {run.start: outcome for run, outcome in zip(runs, outcomes, strict=True) if run.entrant == OURS}
    return [_row(run, outcome, ours[run.start], best) for run, outcome in zip(runs, outcomes, strict=True)]


def _best(run: Run, outcomes: Sequence[Outcome[Finish]]) -> float:
    """The optimum that is known, or else the lowest cost that was found."""
    if run.subject == "poses":
        return common.CHORDAL_OPTIMA[run.path.stem] * run.weight
    return best_cost([outcome.value for outcome in outcomes if outcome.value is not None])


def _row(run: Run, outcome: Outcome[Finish], ours: Outcome[Finish], best: float) -> list[str]:
    name = _label(run.path.stem, run.weight)
    peak = f"{outcome.megabytes / 1024:.2f}" if outcome.megabytes else "-"
    finish = outcome.value
    if finish is None:
        note = " ".join(outcome.note.split()).rstrip(":")
        return [name, run.start, run.entrant, note, "-", "-", "-", _ratio(run, outcome, ours), "-", peak, ""]
    return [
        name,
        run.start,
        run.entrant,
        finish.verdict,
        _number(finish.cost / best - 1, "+.0e"),
        _number(finish.gap, ".0e"),
        f"{finish.seconds.elapsed:.2f}",
        _ratio(run, outcome, ours),
        _number(finish.seconds.computing, ".2f"),
        peak,
        "FALSE" if is_false(finish, best) else "",
    ]


def _ratio(run: Run, outcome: Outcome[Finish], ours: Outcome[Finish]) -> str:
    """Time by ours from the same start; of a process that was stopped, the least that it can be."""
    if run.entrant == OURS or ours.value is None:
        return ""
    seconds = ours.value.seconds.elapsed
    if outcome.value is not None:
        return f"{outcome.value.seconds.elapsed / seconds:.1f}"
    if outcome.megabytes:  # it ended by itself
        return ""
    before = ours.seconds - seconds  # Python, libraries and the graph
    return f"> {(outcome.seconds - before) / seconds:.0f}"


def _number(value: float, form: str) -> str:
    return format(value, form) if math.isfinite(value) else "-"


POSES = Section(
    "poses",
    "Pose graphs",
    'The chordal cost of a file, with the weights of `load_g2o(cost="chordal")`, as `FrobeniusBetweenFactorRot2/3` on '
    "rotations and `RelativeTranslationFactor2/3` on rotations and positions: a graph that "
    "`gtsam.RiemannianStaircaseOptimizer` takes. The best cost is the known optimum.",
    "poses",
    [
        (name, 1.0)
        for name in (
            "smallGrid3D", "intel", "parking-garage", "manhattan", "sphere2500", "torus3D", "city10000",
            "sphere_bignoise_vertex3", "ais2klinik",
        )
    ],
    [OURS, "staircase, BCL", "staircase, Aggressive"],
    ["none", "file"],
)  # fmt: skip

ROTATIONS = Section(
    "rotations",
    "Rotation averaging",
    "The rotations of the same files alone, `FrobeniusBetweenFactorRot2/3` with the same weights. The best cost is the "
    "lowest that an entrant found.",
    "rotations",
    [(name, 1.0) for name in ("smallGrid3D", "intel", "parking-garage", "manhattan", "sphere2500", "torus3D")],
    [OURS, "staircase, BCL", "staircase, Aggressive", "Shonan"],
    ["none", "file"],
)

UNITS = Section(
    "units",
    "Units",
    "Pose graphs with all weights multiplied by a number, which changes neither the solution nor its quality. The "
    "starts are the values of the file and the chordal initialisation of this package, which is not part of the time.",
    "poses",
    [("parking-garage", 1e-3), ("sphere2500", 1e-6)],
    [OURS, "staircase, BCL", "staircase, Aggressive"],
    ["file", "chordal"],
)

SECTIONS = {section.name: section for section in (POSES, ROTATIONS, UNITS)}
