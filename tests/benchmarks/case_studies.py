"""Two case studies over the number of poses: a 3D ring, and 2D localisation with absolute measurements.

    python -m tests.benchmarks.case_studies [--sizes 10 100 1000] [--runs 5] [--time-limit 45] [--folder docs]

After the studies of Subramanian, Holmes, Barfoot, Dellaert, Duembgen, "Exploiting Chordal Sparsity for Globally Optimal
Estimation with Factor Graphs" (arXiv 2605.30617). Writes case-study-*.csv, case-study-*.png and case-studies.md, and
stops with an error if a verified bound is above a cost. A relaxation is left out at a size if one solution is predicted
to take longer than the time limit, and has fewer runs where all of them would. Needs matplotlib.
"""

from __future__ import annotations

import argparse
import csv
import math
import statistics
import sys
import textwrap
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import gtsam
import numpy as np

from gtsam_sdp import relax
from gtsam_sdp.relaxation.relaxation import LiftChoice, Relaxation
from tests import problems
from tests.benchmarks import common

SIZES = (5, 10, 15, 20, 50, 100, 300, 1000)
COMPARED_SIZE = 100
"""Poses at which the relaxation is also solved from random values."""
FIRST_RATE = 4e-9
"""Seconds for each predicted flop of an iteration, where a method has not been measured yet."""
COST_ROUNDING = 1e-12
"""Relative rounding error granted to graph.error when a bound is compared with it."""
SAME_COST = 1e-6
"""Relative difference up to which a cost counts as the best one."""
GAP_FLOOR = 1e-10
"""Smaller relative gaps are drawn here: below, rounding and the solver's tolerance decide."""

LM_TRUTH, LM_RANDOM = "LM from the truth", "LM from random values"
COLOURS = {
    "cliques (Gram)": "#0072B2",
    "cliques (vector)": "#D55E00",
    "monolithic (Gram)": "#009E73",
    LM_TRUTH: "#555555",
    LM_RANDOM: "#CC79A7",
}
"""The methods, and a colour of Okabe and Ito's palette for each."""


@dataclass(frozen=True)
class Problem:
    """A graph, the values that its measurements were made from, and random values to start from."""

    graph: gtsam.NonlinearFactorGraph
    truth: gtsam.Values
    start: gtsam.Values


@dataclass(frozen=True)
class Study:
    """A family of problems.

    Attributes:
        name: in file names.
        title: of the figure.
        make: the problem of a number of poses and a seed.
        poses: of values.
        free: whether the poses are determined up to a common motion only.
        seed: of the first run; the others follow.
    """

    name: str
    title: str
    make: Callable[[int, int], Problem]
    poses: Callable[[gtsam.Values], list[Any]]
    free: bool
    seed: int


@dataclass(frozen=True)
class Row:
    """A run of a method, a row of the CSV file; what was not run has no numbers.

    Attributes:
        poses: their number.
        run: number of the run.
        seed: of the problem.
        method: one of COLOURS.
        status: what the solver said, or why the method was not run.
        solver_seconds: of the interior-point method or of LM alone.
        total_seconds: from the graph to the verified bound and the values.
        pose_error: mean |log(T_truth^-1 T)|, metres and radians together.
        cost: graph.error of the values; a relaxation's are rounded and not optimised.
        lower_bound: verified.
    """

    poses: int
    run: int
    seed: int
    method: str
    status: str
    solver_seconds: float | None = None
    total_seconds: float | None = None
    pose_error: float | None = None
    cost: float | None = None
    lower_bound: float | None = None


class BoundAboveCostError(RuntimeError):
    """A verified lower bound is above the cost of some values: a bug of the package."""


def ring(count: int, seed: int) -> Problem:
    """The split ring in 3D; seed 42 is the published one."""
    graph, truth = problems.split_ring(count, seed=seed)
    start = problems.split_values(problems.random_poses(3, count, np.random.default_rng(seed)))
    return Problem(graph, truth, start)


def ring_poses(values: gtsam.Values) -> list[Any]:
    """Poses of rotations and positions under keys of their own."""
    count = values.size() // 2
    return [gtsam.Pose3(values.atRot3(k), values.atVector(count + k)) for k in range(count)]


def localisation(count: int, seed: int) -> Problem:
    """The chain with absolute measurements in 2D."""
    graph, truth = problems.localisation_chain(count, seed=seed)
    return Problem(graph, truth, problems.random_start(truth, np.random.default_rng(seed)))


def localisation_poses(values: gtsam.Values) -> list[Any]:
    """Poses in the order of their keys."""
    return [values.atPose2(k) for k in range(values.size())]


STUDIES = (
    Study("ring", "3D ring of relative poses", ring, ring_poses, free=True, seed=42),
    Study("localisation", "2D localisation with absolute measurements", localisation, localisation_poses, False, 0),
)


def pose_error(study: Study, truth: gtsam.Values, values: gtsam.Values) -> float:
    """Mean |log(T_truth^-1 T)|; free poses are moved so that the first is the true one."""
    true, found = study.poses(truth), study.poses(values)
    if study.free:
        motion = true[0].compose(found[0].inverse())
        found = [motion.compose(pose) for pose in found]
    errors = [np.linalg.norm(type(a).Logmap(a.between(b))) for a, b in zip(true, found, strict=True)]
    return float(np.mean(errors))


def build_relaxation(method: str, problem: Problem, values: gtsam.Values | None = None) -> Relaxation:
    """The relaxation of one of the first three methods."""
    lift: LiftChoice = "vector" if "vector" in method else "gram"
    relaxation = relax(problem.graph, values, lift=lift)
    return relaxation.monolithic() if method.startswith("monolithic") else relaxation


def solve_relaxation(study: Study, problem: Problem, row: Row, values: gtsam.Values | None = None) -> Row:
    """The row with the numbers of a solved relaxation, its values rounded and not optimised."""
    started = time.perf_counter()
    solution = build_relaxation(row.method, problem, values).solve()
    recovered = solution.recover()
    return replace(
        row,
        status=f"{solution.message}, {solution.iterations} iterations",
        solver_seconds=solution.timings["solving"],
        total_seconds=time.perf_counter() - started,
        pose_error=pose_error(study, problem.truth, recovered),
        cost=problem.graph.error(recovered),
        lower_bound=solution.lower_bound,
    )


def solve_locally(study: Study, problem: Problem, row: Row) -> Row:
    """The row with the numbers of Levenberg-Marquardt."""
    started = time.perf_counter()
    values = common.optimize(problem.graph, problem.truth if row.method == LM_TRUTH else problem.start)
    seconds = time.perf_counter() - started
    return replace(
        row,
        status="done",
        solver_seconds=seconds,
        total_seconds=seconds,
        pose_error=pose_error(study, problem.truth, values),
        cost=problem.graph.error(values),
    )


class Budget:
    """Decides what is still run: the time of a relaxation is predicted from the last one of its method."""

    def __init__(self, limit: float) -> None:
        self._limit = limit
        self._rate: dict[str, float] = {}
        self._spent: dict[tuple[str, int], float] = defaultdict(float)

    def refusal(self, method: str, count: int, relaxation: Relaxation) -> str | None:
        """Why not to run a method once more at a size, or None."""
        cost = relaxation.predicted_cost
        if not cost.fits:
            return f"not run: {cost.bytes / 1e9:.1g} GB"
        seconds = self._rate.get(method, FIRST_RATE) * cost.flops
        if self._spent[method, count] + seconds <= self._limit:
            return None
        return "not run: time limit reached" if self._spent[method, count] else f"not run: {seconds:.1g} s predicted"

    def spend(self, method: str, count: int, relaxation: Relaxation, seconds: float) -> None:
        """Remembers how long a solution took."""
        self._rate[method] = seconds / relaxation.predicted_cost.flops
        self._spent[method, count] += seconds


def run_methods(study: Study, count: int, run: int, budget: Budget) -> list[Row]:
    """All methods on one problem."""
    seed = study.seed + run
    problem = study.make(count, seed)
    rows = []
    for method in COLOURS:
        row = Row(count, run, seed, method, status="")
        if method in (LM_TRUTH, LM_RANDOM):
            row = solve_locally(study, problem, row)
        else:
            relaxation = build_relaxation(method, problem)
            refusal = budget.refusal(method, count, relaxation)
            if refusal is None:
                row = solve_relaxation(study, problem, row)
                budget.spend(method, count, relaxation, row.total_seconds or 0.0)
            else:
                row = replace(row, status=refusal)
        rows.append(row)
        print(study.name, *asdict(row).values(), file=sys.stderr, flush=True)
    return rows


def check_bounds(study: Study, rows: Iterable[Row]) -> None:
    """No verified bound of a problem is above the cost of any values of it."""
    for (poses, seed), group in grouped(rows, lambda row: (row.poses, row.seed)).items():
        best = best_cost(group)
        for row in group:
            if row.lower_bound is not None and row.lower_bound > best * (1 + COST_ROUNDING):
                raise BoundAboveCostError(
                    f"{study.name} of {poses} poses, seed {seed}: the bound of {row.method}, {row.lower_bound!r}, is "
                    f"above a cost, {best!r}."
                )


def grouped(rows: Iterable[Row], key: Callable[[Row], Any]) -> dict[Any, list[Row]]:
    """Rows by a key, in order."""
    groups: dict[Any, list[Row]] = defaultdict(list)
    for row in rows:
        groups[key(row)].append(row)
    return groups


def best_cost(rows: Iterable[Row]) -> float:
    """The lowest cost of some rows."""
    return min(row.cost for row in rows if row.cost is not None)


def bounds_and_costs(rows: Iterable[Row]) -> list[tuple[Row, float, float]]:
    """Each row that was run with the best bound and the best cost of its problem."""
    result = []
    for group in grouped(rows, lambda row: (row.poses, row.seed)).values():
        best_bound = max((row.lower_bound for row in group if row.lower_bound is not None), default=0.0)
        result += [(row, best_bound, best_cost(group)) for row in group if row.cost is not None]
    return result


def write_csv(path: Path, rows: Iterable[Row]) -> None:
    """All rows."""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(Row)], lineterminator="\n")
        writer.writeheader()
        writer.writerows(asdict(row) for row in rows)


def plot_study(study: Study, rows: Sequence[Row], path: Path) -> None:
    """Time, pose error and gap over the number of poses: runs as dots, medians as lines."""
    from matplotlib.figure import Figure  # pyright: ignore[reportMissingImports]
    from matplotlib.ticker import LogLocator  # pyright: ignore[reportMissingImports]

    figure = Figure(figsize=(12, 4.4), layout="constrained")
    axes = figure.subplots(1, 3)
    panels = (
        (axes[0], "solver time [s]", [(row, row.solver_seconds) for row in rows]),
        (axes[1], "mean pose error [m and rad]", [(row, row.pose_error) for row in rows]),
        (axes[2], "(cost - best bound) / best bound", [(row, relative_gap(*item)) for row, *item in gaps(rows)]),
    )
    sizes, runs = sorted({row.poses for row in rows}), len({row.run for row in rows})
    for ax, label, points in panels:
        plot_medians(ax, [(row, value) for row, value in points if value is not None], runs if ax is not axes[0] else 1)
        ax.set(xscale="log", yscale="log", xlabel="poses", ylabel=label)
        ax.set_xticks(sizes, ["" if size == 15 else str(size) for size in sizes])
        ax.minorticks_off()
        if ax is axes[1]:  # it spans a decade or less
            ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            ax.yaxis.set_major_formatter("{x:g}")
        ax.grid(True, which="major", color="#dddddd", linewidth=0.6)
        ax.set_axisbelow(True)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(COLOURS), frameon=False)
    figure.suptitle(study.title)
    figure.savefig(path, dpi=100)


def gaps(rows: Iterable[Row]) -> list[tuple[Row, float, float]]:
    """Rows that were run, with their cost and the best bound of their problem."""
    return [(row, row.cost or 0.0, bound) for row, bound, _ in bounds_and_costs(rows)]


def relative_gap(cost: float, bound: float) -> float | None:
    """(cost - bound) / bound, at least GAP_FLOOR; None if there is no bound."""
    return max((cost - bound) / bound, GAP_FLOOR) if bound > 0 else None


def plot_medians(ax: Any, points: Sequence[tuple[Row, float]], least: int) -> None:
    """A dot for each run and a line through the medians of at least so many, one colour a method."""
    for place, (method, colour) in enumerate(COLOURS.items()):
        values: dict[int, list[float]] = defaultdict(list)
        for row, value in points:
            if row.method == method:
                values[row.poses].append(value)
        style = {"linestyle": (0, (3, 3)) if method.startswith("LM") else "-", "zorder": 3 + 0.1 * place}
        medians = {poses: statistics.median(v) for poses, v in values.items() if len(v) >= least}
        ax.plot(list(medians), list(medians.values()), color=colour, label=method, **style)
        x = [poses for poses, v in values.items() for _ in v]
        ax.scatter(x, [value for v in values.values() for value in v], s=13, color=colour, alpha=0.6, linewidths=0)


def median_rows(rows: Iterable[Row]) -> list[list[str]]:
    """Median solver time and pose error of each method and size, and the number of runs if it is not that of LM."""
    table = []
    for poses, group in grouped(rows, lambda row: row.poses).items():
        methods = grouped((row for row in group if row.cost is not None), lambda row: row.method)
        table.append([str(poses), *(median_cell(methods[method], len(methods[LM_TRUTH])) for method in COLOURS)])
    return table


def median_cell(rows: Sequence[Row], runs: int) -> str:
    """Median time and error of runs."""
    if not rows:
        return ""
    seconds = statistics.median(row.solver_seconds or 0.0 for row in rows)
    error = statistics.median(row.pose_error or 0.0 for row in rows)
    return f"{seconds:.2g} s, {error:.3g}" + (f" ({len(rows)} of {runs})" if len(rows) < runs else "")


def gap_rows(rows: Sequence[Row]) -> list[list[str]]:
    """The largest gap of each relaxation's bound to the best cost, and how many runs of LM have the best cost."""
    table = []
    items = bounds_and_costs(rows)
    for poses in grouped(rows, lambda row: row.poses):
        cells = [str(poses)]
        for method in COLOURS:
            mine = [(row, best) for row, _, best in items if row.poses == poses and row.method == method]
            bounded = [1 - row.lower_bound / best for row, best in mine if row.lower_bound is not None]
            if method.startswith("LM"):
                good = sum((row.cost or 0.0) <= best * (1 + SAME_COST) for row, best in mine)
                cells.append(f"{good} of {len(mine)}")
            else:
                cells.append(f"{max(bounded):.0e}" if bounded else "")
        table.append(cells)
    return table


def endings(rows: Iterable[Row]) -> str:
    """How often a solver ended with another word than Solved."""
    solved = [row for row in rows if row.lower_bound is not None]
    others = grouped(
        (row for row in solved if not row.status.startswith("Solved")),
        lambda row: (row.method, row.poses, row.status.partition(",")[0]),
    )
    items = [f"{method}, {poses} poses: {word} ({len(g)})" for (method, poses, word), g in sorted(others.items())]
    return f"Of {len(solved)} relaxations the solver did not call these solved: {'; '.join(items) or 'none'}."


def value_rows(study: Study) -> list[list[str]]:
    """The clique relaxations of one problem without values, at the truth, at the optimum and at random values."""
    table = []
    problem = study.make(COMPARED_SIZE, study.seed)
    for method in ("cliques (Gram)", "cliques (vector)"):
        if build_relaxation(method, problem).predicted_cost.flops * FIRST_RATE > 1:
            continue
        optimum = common.optimize(problem.graph, problem.truth)
        for name, values in (("none", None), ("truth", problem.truth), ("optimum", optimum), ("random", problem.start)):
            row = solve_relaxation(study, problem, Row(COMPARED_SIZE, 0, study.seed, method, status=""), values)
            cells = (f"{row.solver_seconds:.2g}", f"{row.lower_bound:.8g}", f"{row.pose_error:.4g}")
            table.append([study.name, method, name, row.status, *cells])
            print("values", *table[-1], file=sys.stderr, flush=True)
    return table


TEXT = """# Case studies

Made by `python -m tests.benchmarks.case_studies` in {minutes:.0f} minutes.
Machine: {machine}, clarabel {clarabel}.
It was shared with other work, so times are to be read as orders of magnitude. Problems after Subramanian, Holmes,
Barfoot, Dellaert, Duembgen, "Exploiting Chordal Sparsity for Globally Optimal Estimation with Factor Graphs" (arXiv
2605.30617).

{runs} problems of each size, seeds from {ring_seed} (ring) and {localisation_seed} (localisation). *Cliques (Gram)* is
`relax(graph)`, *cliques (vector)* `relax(graph, lift="vector")`, *monolithic (Gram)* `relax(graph).monolithic()`, the
first without its decomposition: none is told any values. Those that they find are rounded, not optimised
afterwards; a bound is verified whatever the solver says of itself. LM ends at a relative decrease of 1e-10 or after 100
iterations; random values have uniformly distributed rotations and positions with a standard deviation of 5 m. A
relaxation is left out where one solution was predicted to take more than {limit:.0f} s (or 8 GB), and has fewer runs,
so a median of fewer problems, where together they would. The prediction is in proportion to the flops, from the run
before; for one large clique that is too high. Dots are runs, lines are medians, of errors and gaps only where a method
has all runs; gaps below 1e-10 are drawn there, and the best bound is that of what was run on the problem. The script
stops if a verified bound is above the cost of any method; none was.

The pose error is the mean of |log(T_truth^-1 T)|, metres and radians together. The best values of a noisy problem have
an error too, that of LM from the truth wherever it ends in the best minimum.

## A 3D ring

![Time, pose error and gap over the number of poses of the ring](case-study-ring.png)

`FrobeniusBetweenFactorRot3` and `RelativeTranslationFactor3` between neighbours; the first pose is moved to the true
one before errors are taken. Every relaxation is tight, so that they differ in time only: cliques grow no larger with
the ring, one clique of everything does. (Of the longest rings one has rounded values too far off to be polished; the
bound is that of the solver's multipliers alone, and 3e-4 lower.) LM needs a fraction of the time and is right from the
truth; from random values it may end in a wrong minimum, without a way to know.

Median solver time and pose error:

{ring_medians}

Largest distance of the verified bound below the best cost known, relative to it; for LM the number of runs that found
that cost:

{ring_gaps}

{ring_endings}

[All runs](case-study-ring.csv)

## 2D localisation

![Time, pose error and gap over the number of poses of the chain](case-study-localisation.png)

`FrobeniusBetweenFactorPose2` with one sigma between neighbours; at every fifth pose and the last one
`FrobeniusPriorPose2` or `PoseTranslationPrior2D` with sigmas of 0.1 m along one axis of the world and 1 m along the
other. The Gram lift has to weaken these factors to the smaller weight: its bound is valid and far from the cost, its
values are those of a weaker problem. The vector lift holds them exactly.

Median solver time and pose error:

{localisation_medians}

Largest distance of the verified bound below the best cost known, relative to it; for LM the number of runs that found
that cost:

{localisation_gaps}

{localisation_endings}

[All runs](case-study-localisation.csv)

## What the values are for

Values that `relax` is given are the centre and the scale of its coordinates, and where terms touch costs that they do
not hold exactly. Exact terms and their bounds do not depend on them, the solver's conditioning does; the Gram lift's
terms of the absolute measurements do: near an optimum they prove more than from no values, elsewhere less. One problem
of {compared} poses, without values, with the truth, with the optimum that LM finds from there, and with random values:

{values}
"""


def page(results: dict[str, list[Row]], values: list[list[str]], limit: float, minutes: float) -> str:
    """The Markdown page."""
    head = ["poses", *COLOURS]
    tables = {f"{name}_medians": common.table(head, median_rows(rows)) for name, rows in results.items()}
    tables |= {f"{name}_gaps": common.table(head, gap_rows(rows)) for name, rows in results.items()}
    tables |= {f"{name}_endings": textwrap.fill(endings(rows), 120) for name, rows in results.items()}
    tables |= {f"{study.name}_seed": str(study.seed) for study in STUDIES}
    return TEXT.format(
        **tables,
        minutes=minutes,
        machine=common.machine(),
        clarabel=common.version("clarabel"),
        runs=1 + max(row.run for rows in results.values() for row in rows),
        limit=limit,
        compared=COMPARED_SIZE,
        values=common.table(["", "method", "values", "solver", "time [s]", "verified bound", "pose error"], values),
    )


def main() -> None:
    """Runs all and writes the files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--time-limit", type=float, default=45.0, help="of a method at a size [s]")
    parser.add_argument("--folder", type=Path, default=Path("docs"))
    arguments = parser.parse_args()
    started = time.perf_counter()
    results: dict[str, list[Row]] = {}
    values: list[list[str]] = []
    for study in STUDIES:
        budget, rows = Budget(arguments.time_limit), []
        for count in sorted(arguments.sizes):
            for run in range(arguments.runs):
                rows += run_methods(study, count, run, budget)
        write_csv(arguments.folder / f"case-study-{study.name}.csv", rows)
        check_bounds(study, rows)
        plot_study(study, rows, arguments.folder / f"case-study-{study.name}.png")
        results[study.name] = rows
        values += value_rows(study)
    minutes = math.ceil((time.perf_counter() - started) / 60)
    (arguments.folder / "case-studies.md").write_text(page(results, values, arguments.time_limit, minutes))


if __name__ == "__main__":
    main()
