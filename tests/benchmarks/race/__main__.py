"""The race of `solve` against the certifying solvers of the gtsam wheel, side by side on the same graphs.

    python -m tests.benchmarks.race FOLDER [--sections NAME ...] [--files NAME ...] [--write docs/benchmarks-race.md]

FOLDER holds the g2o files. A file that is run replaces its rows in the document, the others stay as they are. With
--se-sync and the path of SE-Sync's program it takes part too.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from tests.benchmarks import common
from tests.benchmarks.race.entrants import Limits
from tests.benchmarks.race.sections import SECTIONS, Section, tables
from tests.benchmarks.relaxation.document import filled, sections_of

TITLE = """# Benchmarks: the race

Made by `python -m tests.benchmarks.race FOLDER`, all at once or by `--sections` and `--files`; all rows of a file are
of one run. The entrants have the same graph, each in a process of its own, one after another:

* `gtsam_sdp`: `solve`, tolerance 1e-6 (ais2klinik 1e-4). From no start it makes its chordal initialisation.
* `staircase`: `gtsam.RiemannianStaircaseOptimizer` with the parameters of GTSAM's example
  `CertifiablePoseGraphOptimization`, and either update policy of its augmented Lagrangian; BCL is the default. From no
  start it has the rotations of `gtsam.fastSyncRot2/3` and random positions, as in that example. It certifies where the
  smallest eigenvalue of its certificate matrix is above -1e-3, a number that is not relative to the weights.
* `Shonan`: `gtsam.ShonanAveraging2/3` with the parameters of GTSAM's tests. From no start it has its own random
  rotations. It certifies where the smallest eigenvalue is above -1e-4.
* `SE-Sync`: its command line program, if one was given, with the time and the cost that it prints.

The start `file` is the values of the file; `solve` begins from these or from its chordal initialisation, whichever
costs less, and its verdict says which ("local" or "chordal initialisation"). The time is
that from the graph to the verdict, start included where none
is given. Nothing is pinned; the CPU time is that of all threads. The peak is that of the process, Python and
libraries included. The cost is `graph.error` of the values returned; matrices of the staircase are turned into the
nearest rotations, which is not part of the time. `proven gap` is the relative gap that is verified, which only
`gtsam_sdp` has. FALSE: called certified, with a cost more than 1e-6 above the best known. A process that is stopped
leaves the least that its time can be, by ours. Times are single runs.

FALSE says how far a certificate can be trusted, and does not tell two cases apart. Rows of 1e-6 to 1e-4 are runs that
stopped early, near the right solution; rows above that are other solutions, or far from any. The solvers run as GTSAM's
examples and tests run them: other parameters may do better."""


def compose(sections: dict[str, str]) -> str:
    """The document: known sections in their order."""
    headings = [section.heading for section in SECTIONS.values() if section.heading in sections]
    return "\n\n".join([TITLE, *(f"## {heading}\n\n{sections[heading]}" for heading in headings)]) + "\n"


def run(section: Section, arguments: argparse.Namespace) -> None:
    """Runs a section, and writes it into the document after each file."""
    limits = Limits(arguments.seconds, arguments.gigabytes)
    path: Path = arguments.write
    sections = sections_of(path.read_text()) if path.exists() else {}
    before = sections.get(section.heading, "")
    machine = (
        f"Machine: {common.machine('clarabel')}. A process has {limits.seconds:.0f} s and {limits.gigabytes:.0f} GB of "
        "address space."
    )
    for table in tables(section, before, arguments.folder, arguments.files, limits, arguments.se_sync):
        body = "\n\n".join([filled(section.text), table, filled(machine)])
        path.write_text(compose({**sections, section.heading: body}))


def main() -> None:
    """Runs the sections that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--files", nargs="+", default=list(common.CHORDAL_OPTIMA))
    parser.add_argument("--sections", nargs="+", choices=SECTIONS, default=list(SECTIONS), metavar="SECTION")
    parser.add_argument("--se-sync", type=Path)
    parser.add_argument("--seconds", type=float, default=300.0, help="limit of a process")
    parser.add_argument("--gigabytes", type=float, default=18.0, help="limit of the address space of a process")
    parser.add_argument("--write", type=Path, default=Path("docs/benchmarks-race.md"))
    arguments = parser.parse_args()
    for name in dict.fromkeys(arguments.sections):
        run(SECTIONS[name], arguments)


if __name__ == "__main__":
    main()
