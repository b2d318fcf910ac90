"""The options of the command, and its help."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

from gtsam_sdp._version import VERSION
from gtsam_sdp.renamed import renamed

_MAX_ITERATIONS = 50  # the public pose graphs whose optimum is found from the file's values take 4 to 10

_FORMATS = """\
FILE is a graph of poses and landmarks in g2o, TORO or PyFG format (2D or 3D; PyFG has ranges too), plain or packed
with gzip; a folder or a pattern such as 'maps/*.g2o' stands for all graphs in it, - for standard input. NAME is a data
set that ships with GTSAM, such as w100, w10000, pose3example-grid, victoria_park or goats_15: `gtsam-sdp list`.
"""
_EXAMPLES = {
    "certify": """\
  gtsam-sdp certify pose3example-grid              optimise, then prove how good the result is
  gtsam-sdp certify map.g2o --output best.g2o      and keep the optimised poses
  gtsam-sdp certify best.g2o --no-optimize         certify the values that a file holds
  gtsam-sdp certify map.g2o --cost chordal         the cost of SE-Sync instead of GTSAM's own
  gtsam-sdp certify map.g2o --tolerance 1e-6       ask for a gap of at most 0.0001%
  gtsam-sdp certify map.g2o --json | jq .certificate.relative_gap
  gtsam-sdp certify maps --csv > maps.csv          all graphs of a folder, a row each
  gtsam-sdp certify map.g2o --report map.html      verdict, tables and pictures on one page
""",
    "solve": """\
  gtsam-sdp solve map.g2o --output best.g2o        search for the best poses, from any start
  gtsam-sdp solve map.g2o --no-initial             and without looking at the file's own values
  gtsam-sdp solve victoria_park --no-initial       poses and landmarks, from no start
  gtsam-sdp solve goats_15.pyfg --output best.pyfg ranges to beacons, which PyFG files hold
  gtsam-sdp solve map.g2o --plot map.png           and draw the result
""",
    "info": """\
  gtsam-sdp info map.g2o                           what the file holds
  xzcat map.g2o.xz | gtsam-sdp info -              the same of standard input
""",
    "list": """\
  gtsam-sdp list                                   the data sets that ship with GTSAM
""",
}
_STATUS = """\
exit status: 0 certified (or info shown), 1 not certified, 2 bad input or a result that cannot be written,
130 interrupted with Ctrl-C (what was found until then is reported, and written to --output); of many files the worst.
Long work shows on standard error what it does; standard output has the answer and nothing else.
"""
_HELP = {
    "certify": "optimise and certify graphs",
    "solve": "find and certify the best solutions",
    "info": "show what graphs hold",
    "list": "show the data sets that ship with GTSAM",
}


def build_parser() -> argparse.ArgumentParser:
    """The options of the command."""
    parser = argparse.ArgumentParser(
        prog="gtsam-sdp",
        description="Is the solution of a pose graph the best there is? Optimises or searches, and proves a bound.",
        epilog=_epilog(*_EXAMPLES),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"gtsam-sdp {VERSION} (GTSAM {version('gtsam')})")
    commands = parser.add_subparsers(dest="command", required=True, metavar=f"{{{','.join(_HELP)}}}")
    for name, add_options in _OPTIONS.items():
        add_options(
            commands.add_parser(
                name,
                help=_HELP[name],
                epilog=_epilog(name),
                formatter_class=argparse.RawDescriptionHelpFormatter,
            )
        )
    return parser


def _epilog(*commands: str) -> str:
    examples = "".join(_EXAMPLES[command] for command in commands)
    return f"{_FORMATS}\nexamples:\n{examples}\n{_STATUS}"


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
        type=renamed,
        choices=("auto", "local", "staircase", "sdp"),
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


def _add_common_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "files",
        nargs="+",
        metavar="FILE|NAME|-",
        help="g2o, TORO or PyFG files (gzip too), folders or patterns of them, data sets that ship with GTSAM, "
        "or - for standard input",
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument(
        "--json", action="store_true", help="write JSON to standard output; of many files a line each, as it is done"
    )
    form.add_argument("--csv", action="store_true", help="write a table as CSV, a row for each file as it is done")
    parser.add_argument(
        "--cost",
        choices=("geodesic", "chordal"),
        default="geodesic",
        help="geodesic: GTSAM's BetweenFactors (default); chordal: the cost of SE-Sync, as Frobenius factors",
    )


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
        "--plot", type=Path, metavar="FILE", help="draw the result, coloured by cost: .png, .svg or .pdf"
    )
    parser.add_argument(
        "--report",
        type=Path,
        metavar="FILE",
        help="write an HTML page with verdicts, tables and pictures, all in one file",
    )
    parser.add_argument(
        "--drop-unsupported",
        action="store_true",
        help="count factors that cannot be certified as 0 in the bound (it stays valid) instead of refusing them; "
        "lines of a file that cannot be read are refused all the same",
    )
    parser.add_argument("--verbose", action="store_true", help="show the steps on standard error")


def _add_list_options(parser: argparse.ArgumentParser) -> None:
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="write JSON, and nothing else, to standard output")
    form.add_argument("--csv", action="store_true", help="write the table as CSV")


_OPTIONS: dict[str, Callable[[argparse.ArgumentParser], None]] = {
    "certify": _add_certify_options,
    "solve": _add_solve_options,
    "info": _add_common_options,
    "list": _add_list_options,
}


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
