"""The command `gtsam-sdp`: reads a graph, optimises it with GTSAM or searches, and certifies the result."""

from __future__ import annotations

import argparse
import json
import math
import os
import shlex
import sys
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import gtsam

from gtsam_sdp._version import VERSION
from gtsam_sdp.certify import certify
from gtsam_sdp.errors import DatasetError, GtsamSdpError, InvalidGraphError, SuspiciousInputWarning
from gtsam_sdp.files.datasets import PoseGraphFile, find_dataset, read_pose_graph
from gtsam_sdp.files.info import describe, info_text, key_types
from gtsam_sdp.files.lines import STANDARD_INPUT, standard_input
from gtsam_sdp.files.output import check_writable, output_format, write_result
from gtsam_sdp.plain import finite_or_none
from gtsam_sdp.reading.graph import OnUnsupported, read
from gtsam_sdp.remedies import Advice, Remedy
from gtsam_sdp.results.certificate import Certificate
from gtsam_sdp.results.notes import Note
from gtsam_sdp.results.solution import Solution
from gtsam_sdp.search.local import Optimization, optimise
from gtsam_sdp.show.rows import row_lines
from gtsam_sdp.show.text import solution_text
from gtsam_sdp.solve import solve

CERTIFIED, NOT_CERTIFIED, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130
_MAX_ITERATIONS = 50  # the public pose graphs whose optimum is found from the file's values take 4 to 10
_MANY_ITERATIONS = 20
_LONG_FILE = 500_000  # bytes: reading takes about a second from a few times this on
_LONG_GRAPH = 2_000  # factors: optimising takes about a second from here on
_SECONDS_BETWEEN_REPORTS = 5.0

_FORMATS = """\
FILE is a graph of poses and landmarks in g2o, TORO or PyFG format (2D or 3D; PyFG has ranges too), plain or packed
with gzip; - reads standard input. NAME is a data set that ships with GTSAM, such as w100, w10000,
pose3example-grid, victoria_park or goats_15.
"""
_EXAMPLES = {
    "certify": """\
  gtsam-sdp certify pose3example-grid              optimise, then prove how good the result is
  gtsam-sdp certify map.g2o --output best.g2o      and keep the optimised poses
  gtsam-sdp certify best.g2o --no-optimize         certify the values that a file holds
  gtsam-sdp certify map.g2o --cost chordal         the cost of SE-Sync instead of GTSAM's own
  gtsam-sdp certify map.g2o --tolerance 1e-6       ask for a gap of at most 0.0001%
  gtsam-sdp certify map.g2o --json | jq .certificate.relative_gap
""",
    "solve": """\
  gtsam-sdp solve map.g2o --output best.g2o        search for the best poses, from any start
  gtsam-sdp solve map.g2o --no-initial             and without looking at the file's own values
  gtsam-sdp solve victoria_park --no-initial       poses and landmarks, from no start
  gtsam-sdp solve goats_15.pyfg --output best.pyfg ranges to beacons, which PyFG files hold
""",
    "info": """\
  gtsam-sdp info map.g2o                           what the file holds
  xzcat map.g2o.xz | gtsam-sdp info -              the same of standard input
""",
}
_STATUS = "exit status: 0 certified (or info shown), 1 not certified, 2 bad input."


def _epilog(*commands: str) -> str:
    examples = "".join(_EXAMPLES[command] for command in commands)
    return f"{_FORMATS}\nexamples:\n{examples}\n{_STATUS}"


def main(argv: list[str] | None = None) -> int:
    """Runs the command; returns the exit status (0 certified, 1 not certified, 2 bad input, 130 interrupted)."""
    arguments = build_parser().parse_args(argv)
    try:
        with _warnings_as_lines():
            return _COMMANDS[arguments.command](arguments)
    except GtsamSdpError as error:
        told = error.args[0] if error.args else ""
        _tell(f"gtsam-sdp: error: {told.said(_words(arguments)) if isinstance(told, Advice) else told}")
        return BAD_INPUT
    except BrokenPipeError:  # the reader has seen enough, as in `gtsam-sdp certify w100 | head -1`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return NOT_CERTIFIED
    except KeyboardInterrupt:
        return INTERRUPTED


def build_parser() -> argparse.ArgumentParser:
    """The options of the command."""
    parser = argparse.ArgumentParser(
        prog="gtsam-sdp",
        description="Is the solution of a pose graph the best there is? Optimises or searches, and proves a bound.",
        epilog=_epilog(*_COMMANDS),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"gtsam-sdp {VERSION} (GTSAM {version('gtsam')})")
    commands = parser.add_subparsers(dest="command", required=True, metavar="{certify,solve,info}")
    helps = {
        "certify": "optimise and certify a pose graph",
        "solve": "find and certify the best solution",
        "info": "show what a pose graph holds",
    }
    for name, add_options in _OPTIONS.items():
        add_options(
            commands.add_parser(
                name,
                help=helps[name],
                epilog=_epilog(name),
                formatter_class=argparse.RawDescriptionHelpFormatter,
            )
        )
    return parser


def _add_common_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file",
        metavar="FILE|NAME|-",
        help="a g2o, TORO or PyFG file (gzip too), a data set that ships with GTSAM, or - for standard input",
    )
    parser.add_argument("--json", action="store_true", help="write JSON, and nothing else, to standard output")
    parser.add_argument(
        "--cost",
        choices=("geodesic", "chordal"),
        default="geodesic",
        help="geodesic: GTSAM's BetweenFactors (default); chordal: the cost of SE-Sync, as Frobenius factors",
    )


def _add_certify_options(parser: argparse.ArgumentParser) -> None:
    _add_common_options(parser)
    _add_result_options(parser)
    parser.add_argument("--no-optimize", action="store_true", help="certify the file's own values")
    parser.add_argument(
        "--max-iterations",
        type=_count,
        default=_MAX_ITERATIONS,
        metavar="N",
        help=f"at most so many of Levenberg-Marquardt (default: {_MAX_ITERATIONS})",
    )


def _add_solve_options(parser: argparse.ArgumentParser) -> None:
    _add_common_options(parser)
    _add_result_options(parser)
    parser.add_argument(
        "--method",
        choices=("auto", "local", "staircase", "chordal"),
        default="auto",
        help="how far to search (default: auto, as far as it is needed)",
    )
    parser.add_argument(
        "--lift",
        choices=("auto", "gram", "vector"),
        default="auto",
        help="of the relaxation; vector is larger and can be tighter (default: auto, vector where noise asks for it)",
    )
    parser.add_argument("--no-initial", action="store_true", help="do not start from the file's own values")
    parser.add_argument("--time-limit", type=_positive, metavar="SECONDS", help="end the search after this time")


def _add_result_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--tolerance",
        type=_positive,
        default=1e-4,
        metavar="X",
        help="largest relative gap that counts as certified (default: 1e-4)",
    )
    parser.add_argument(
        "--output",
        type=Path,
        metavar="FILE",
        help="write the result and the measurements, in the format that its name says: .g2o, .pyfg, either with .gz",
    )
    parser.add_argument(
        "--drop-unsupported",
        action="store_true",
        help="count factors that cannot be certified as 0 in the bound (it stays valid) instead of refusing them; "
        "lines of a file that cannot be read are refused all the same",
    )
    parser.add_argument("--verbose", action="store_true", help="show the steps on standard error")


def _positive(text: str) -> float:
    """A finite positive number, for argparse."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not (math.isfinite(number) and number > 0):
        raise argparse.ArgumentTypeError(f"{text} is not a positive number")
    return number


def _count(text: str) -> int:
    """A positive whole number, for argparse."""
    if not (text.isdecimal() and int(text) > 0):
        raise argparse.ArgumentTypeError(f"{text} is not a positive whole number")
    return int(text)


def run_certify(arguments: argparse.Namespace) -> int:
    """`gtsam-sdp certify`: read, optimise, certify, report."""
    file = _read_for_result(arguments)
    _check_graph(file, _on_unsupported(arguments))
    optimization = None if arguments.no_optimize else _optimise(file, arguments)
    values = optimization.values if optimization else _own_values(file)
    if not arguments.json:
        _write(_certify_head(arguments, file, optimization))
    if file.graph.size() > _LONG_GRAPH:
        _tell("certifying ...")
    certificate = certify(
        file.graph,
        values,
        tolerance=arguments.tolerance,
        on_unsupported=_on_unsupported(arguments),
        verbose=arguments.verbose,
    )
    notes = tuple(Note(note.said(_words(arguments)), kind=note.kind) for note in certificate.notes)
    certificate = replace(certificate, notes=notes)
    if arguments.output is not None:
        write_result(arguments.output, file, values)
    _write(_certify_json(file, optimization, certificate) if arguments.json else str(certificate))
    return CERTIFIED if certificate else NOT_CERTIFIED


def run_solve(arguments: argparse.Namespace) -> int:
    """`gtsam-sdp solve`: read, search, report."""
    file = _read_for_result(arguments)
    _check_graph(file, _on_unsupported(arguments))
    solution = solve(
        file.graph,
        None if arguments.no_initial or not file.has_values else file.initial,
        method=arguments.method,
        lift=arguments.lift,
        tolerance=arguments.tolerance,
        time_limit=arguments.time_limit,
        on_unsupported=_on_unsupported(arguments),
        verbose=arguments.verbose or file.graph.size() > _LONG_GRAPH,
    )
    if arguments.output is not None:
        write_result(arguments.output, file, solution.values)
    head = f"{file.path.name}: {file.initial.size()} {_nouns(file)}, {file.graph.size()} factors, {file.dimension}D"
    _write(_solve_json(file, solution) if arguments.json else f"{head}\n{solution_text(solution, _words(arguments))}")
    return CERTIFIED if solution.certificate else NOT_CERTIFIED


def _solve_json(file: PoseGraphFile, solution: Solution) -> str:
    facts = {
        "file": str(file.path),
        "dimension": file.dimension,
        "keys": file.initial.size(),
        "factors": file.graph.size(),
        **solution.to_dict(),
    }
    return json.dumps(facts, indent=2, allow_nan=False)


def run_info(arguments: argparse.Namespace) -> int:
    """`gtsam-sdp info`: what a pose graph holds."""
    facts = describe(_read(arguments))
    _write(json.dumps(facts, indent=2, allow_nan=False) if arguments.json else info_text(facts))
    return 0


_COMMANDS = {"certify": run_certify, "solve": run_solve, "info": run_info}
_OPTIONS = {"certify": _add_certify_options, "solve": _add_solve_options, "info": _add_common_options}


def _read_for_result(arguments: argparse.Namespace) -> PoseGraphFile:
    """The graph; refuses what cannot be written before the long work starts."""
    if arguments.output is None:
        return _read(arguments)
    output_format(arguments.output)
    file = _read(arguments)
    check_writable(arguments.output, file)
    return file


def _read(arguments: argparse.Namespace) -> PoseGraphFile:
    if arguments.file == "-":
        return read_pose_graph(STANDARD_INPUT, cost=arguments.cost, text=standard_input())
    path = find_dataset(arguments.file)
    if path.stat().st_size > _LONG_FILE:
        _tell(f"reading {path} ...")
    return read_pose_graph(path, cost=arguments.cost)


def _words(arguments: argparse.Namespace) -> Mapping[Remedy, str]:
    """What remedies are called on the command line, where that differs from Python."""
    return {
        Remedy.REFINE: _solve(arguments),
        Remedy.RELAX: "--method chordal",
        Remedy.STAIRCASE: "--method staircase",
        Remedy.VECTOR_LIFT: "--lift vector",
        Remedy.DROP: "--drop-unsupported",
        Remedy.TIME: "--time-limit ",
    }


def _solve(arguments: argparse.Namespace) -> str:
    return f"`gtsam-sdp solve {shlex.quote(arguments.file)}`"


def _on_unsupported(arguments: argparse.Namespace) -> OnUnsupported:
    return "drop" if arguments.drop_unsupported else "raise"


def _own_values(file: PoseGraphFile) -> gtsam.Values:
    if not file.has_values:
        raise DatasetError(f"{file.path} does not hold a value for every key: --no-optimize has nothing to certify.")
    return file.initial


def _check_graph(file: PoseGraphFile, on_unsupported: OnUnsupported) -> None:
    """Refuses what cannot be certified before it is optimised; `certify` repeats the warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SuspiciousInputWarning)
        read(file.graph, file.initial, on_unsupported)


def _optimise(file: PoseGraphFile, arguments: argparse.Namespace) -> Optimization:
    """Levenberg-Marquardt from the file's values; tells how far it is."""
    if file.graph.size() > _LONG_GRAPH:
        _tell(f"optimising {file.initial.size()} poses and {file.graph.size()} factors with Levenberg-Marquardt ...")
    reported, hinted = time.perf_counter(), False

    def tell(iterations: int, cost: float) -> bool:
        nonlocal reported, hinted
        if arguments.verbose or time.perf_counter() - reported > _SECONDS_BETWEEN_REPORTS:
            reported = time.perf_counter()
            _tell(f"  iteration {iterations}: cost {cost:.10g}")
            if iterations >= _MANY_ITERATIONS and not hinted:
                hinted = True
                _tell(f"  {_slow(iterations, arguments)}; it ends after {arguments.max_iterations} iterations")
        return True

    try:
        return optimise(file.graph, file.initial, max_iterations=arguments.max_iterations, go_on=tell)
    except RuntimeError as error:
        raise InvalidGraphError(f"GTSAM cannot optimise {file.path}: {error}") from error


def _slow(iterations: int, arguments: argparse.Namespace) -> str:
    return (
        f"Levenberg-Marquardt from this start has not converged after {iterations} iterations: "
        f"{_solve(arguments)} starts from the chordal initialisation"
    )


def _certify_head(arguments: argparse.Namespace, file: PoseGraphFile, optimization: Optimization | None) -> str:
    """Where the values come from."""
    head = f"{file.path.name}: {file.initial.size()} {_nouns(file)}, {file.graph.size()} factors, {file.dimension}D"
    what, notes = "no, as asked for", []
    if optimization is not None:
        what = (
            f"cost {optimization.initial_cost:.6g} -> {optimization.cost:.10g}, "
            f"{optimization.iterations} iterations of Levenberg-Marquardt, {optimization.seconds:.2f} s"
        )
        if not optimization.converged:
            slow = _slow(optimization.iterations, arguments)
            notes = [f"  note: {slow}; --max-iterations lets it go on"]
    return "\n".join([head, *row_lines([("start", file.start, ""), ("optimised", what, "")]), *notes])


def _nouns(file: PoseGraphFile) -> str:
    types = key_types(file)
    return "poses" if len(types) == 1 and "landmarks" not in types else "variables"


def _certify_json(file: PoseGraphFile, optimization: Optimization | None, certificate: Certificate) -> str:
    facts: dict[str, Any] = {
        "file": str(file.path),
        "dimension": file.dimension,
        "keys": file.initial.size(),
        "factors": file.graph.size(),
        "start": file.start,
        "optimization": None,
        "certificate": certificate.to_dict(),
    }
    if optimization is not None:
        facts["optimization"] = {
            "initial_cost": finite_or_none(optimization.initial_cost),
            "cost": finite_or_none(optimization.cost),
            "iterations": optimization.iterations,
            "converged": optimization.converged,
            "seconds": optimization.seconds,
        }
    return json.dumps(facts, indent=2, allow_nan=False)


def _write(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _tell(text: str) -> None:
    """Progress, warnings and errors: on standard error, so that standard output holds the answer alone."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


@contextmanager
def _warnings_as_lines() -> Iterator[None]:
    """Shows warnings about the input as one line each, without Python's source lines."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", SuspiciousInputWarning)
        usual = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
            if issubclass(category, SuspiciousInputWarning):
                _tell(f"warning: {message}")
            else:
                usual(message, category, *place, **more)

        warnings.showwarning = show
        yield
