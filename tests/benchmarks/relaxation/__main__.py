"""Benchmark of the clique-decomposed relaxation.

    python -m tests.benchmarks.relaxation FOLDER [--only SECTION ...] [--write docs/benchmarks-relaxation.md]

FOLDER holds the g2o files. A section that is run replaces itself in the document, the others stay as they are.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from tests.benchmarks import common
from tests.benchmarks.relaxation.document import filled, with_section
from tests.benchmarks.relaxation.files import FILES
from tests.benchmarks.relaxation.noisy import NOISY
from tests.benchmarks.relaxation.rings import LARGE_RING, RING
from tests.benchmarks.relaxation.settings import Section, Settings
from tests.benchmarks.relaxation.speed import SPEED
from tests.benchmarks.relaxation.wrong_minima import REFINE

SECTIONS = {section.name: section for section in (RING, LARGE_RING, NOISY, FILES, SPEED, REFINE)}


def run(section: Section, settings: Settings, path: Path) -> None:
    """Runs a section and writes it into the document."""
    common.say(f"== {section.name}")
    started = time.perf_counter()
    body = section.run(settings)
    seconds = time.perf_counter() - started
    machine = filled(f"Machine: {common.machine('clarabel')}. The section took {seconds:.0f} s.")
    text = path.read_text() if path.exists() else ""
    order = [known.heading for known in SECTIONS.values()]
    path.write_text(with_section(text, section.heading, f"{body}\n\n{machine}", order))


def main() -> None:
    """Runs the sections that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", nargs="+", choices=SECTIONS, default=list(SECTIONS), metavar="SECTION")
    parser.add_argument("--write", type=Path, default=Path("docs/benchmarks-relaxation.md"))
    defaults = Settings(Path())
    for name in ("instances", "starts", "poses", "largest"):
        parser.add_argument(f"--{name}", type=int, default=getattr(defaults, name))
    parser.add_argument("--files", nargs="+", default=defaults.files)
    parser.add_argument("--time-limit", type=float, default=defaults.time_limit)
    arguments = vars(parser.parse_args())
    only, path = arguments.pop("only"), arguments.pop("write")
    for name in dict.fromkeys(only):
        run(SECTIONS[name], Settings(**arguments), path)


if __name__ == "__main__":
    main()
