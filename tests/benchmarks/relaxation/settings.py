"""What a run of the benchmark may be told, and what a section of it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

FILES = ("MIT", "CSAIL", "kitti_02", "kitti_05", "kitti_00", "intel", "ais2klinik", "parking-garage")


@dataclass(frozen=True)
class Settings:
    """Sizes of the sections; the defaults are those of the document.

    Attributes:
        folder: of the g2o files.
        instances: noisy problems.
        starts: random starts of LM for each of them.
        poses: of the rings whose formulations are compared.
        largest: rings of more poses are left out.
        files: names of files to solve the relaxation of.
        time_limit: of the solver on files with large cliques, and of the solver without decomposition [s].
    """

    folder: Path
    instances: int = 100
    starts: int = 100
    poses: int = 50
    largest: int = 1000
    files: Sequence[str] = FILES
    time_limit: float = 300.0


@dataclass(frozen=True)
class Section:
    """One table of the document.

    Attributes:
        name: for the command line.
        heading: in the document; a new run replaces what stands under it.
        run: makes the text.
    """

    name: str
    heading: str
    run: Callable[[Settings], str]
