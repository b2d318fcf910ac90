"""The data sets that ship with GTSAM and that this package reads."""

from __future__ import annotations

import warnings
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import gtsam

from gtsam_sdp.errors import DatasetError, SuspiciousInputWarning
from gtsam_sdp.files.datasets import PoseGraphFile, find_dataset, read_dataset
from gtsam_sdp.files.g2o import TAGS
from gtsam_sdp.files.lines import numbered_words, read_text
from gtsam_sdp.progress import report_now

_ENDINGS = (".g2o", ".graph", ".txt", ".pyfg")


@dataclass(frozen=True)
class Shipped:
    """A data set that ships with GTSAM.

    Attributes:
        name: what `load_g2o`, `load_pyfg` and the command line take.
        dimension: 2 or 3.
        keys: poses and landmarks.
        factors: measurements.
        format: g2o, TORO or PyFG.
    """

    name: str
    dimension: int
    keys: int
    factors: int
    format: str

    def to_dict(self) -> dict[str, Any]:
        """The attributes as plain types."""
        return asdict(self)


def shipped_datasets() -> list[Shipped]:
    """All of them, in the order of their names: each is read to the end."""
    folder = Path(gtsam.findExampleDataFile("w100")).parent
    files = sorted(path for path in folder.iterdir() if path.suffix in _ENDINGS)
    return [shipped for path in files if (shipped := _described(path)) is not None]


def _described(path: Path) -> Shipped | None:
    """What a file holds; None if it is no graph that this package reads."""
    report_now(f"reading {path.name}")
    with warnings.catch_warnings(), suppress(DatasetError):
        warnings.simplefilter("ignore", SuspiciousInputWarning)
        file = read_dataset(path)
        return Shipped(_name(path), file.dimension, file.initial.size(), file.graph.size(), _format(file))
    return None


def _name(path: Path) -> str:
    """The shortest name that finds the file."""
    with suppress(DatasetError):
        if find_dataset(path.stem) == path:
            return path.stem
    return path.name


def _format(file: PoseGraphFile) -> str:
    """`PyFG`, `g2o` or `TORO`, which one word tells."""
    tags = (TAGS.get(words[0]) for _, words in numbered_words(read_text(file.path)))
    return "PyFG" if file.pyfg else next(tag.format for tag in tags if tag is not None)
