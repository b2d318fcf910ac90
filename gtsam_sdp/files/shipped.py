"""The data sets that ship with GTSAM and that this package reads, told by the first words of their lines."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import gtsam

from gtsam_sdp.errors import DatasetError
from gtsam_sdp.files.datasets import find_dataset
from gtsam_sdp.files.g2o import TAGS
from gtsam_sdp.files.lines import numbered_words, read_text
from gtsam_sdp.files.pyfg import PYFG_TAGS, looks_like_pyfg

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
    """All of them, in the order of their names."""
    folder = Path(gtsam.findExampleDataFile("w100")).parent
    files = sorted(path for path in folder.iterdir() if path.suffix in _ENDINGS)
    return [shipped for path in files if (shipped := _described(path)) is not None]


def _described(path: Path) -> Shipped | None:
    """What a file holds; None if it is no graph that this package reads."""
    try:
        text = read_text(path)
    except DatasetError:
        return None
    found = _described_pyfg(text) if looks_like_pyfg(text) else _described_g2o(text)
    return None if found is None else Shipped(_name(path), *found)


def _name(path: Path) -> str:
    """The shortest name that finds the file."""
    with suppress(DatasetError):
        if find_dataset(path.stem) == path:
            return path.stem
    return path.name


def _described_pyfg(text: str) -> tuple[int, int, int, str] | None:
    tags = [words[0] for _, words in numbered_words(text)]
    if not set(tags) <= set(PYFG_TAGS):
        return None
    keys = sum(tag.startswith("VERTEX") and not tag.endswith("PRIOR") for tag in tags)
    return (3 if any("SE3" in tag or "XYZ" in tag for tag in tags) else 2), keys, len(tags) - keys, "PyFG"


def _described_g2o(text: str) -> tuple[int, int, int, str] | None:
    keys: set[str] = set()
    factors, first = 0, None
    for tag, words in _g2o_lines(text):
        if tag is None:
            return None
        first = first or tag
        if tag.kind in ("edge", "sighting", "landmark", "prior"):
            factors += 1
            ends = words[1:3] if tag.kind != "prior" else words[1:2]
            keys |= {ends[0], f"l{ends[1]}"} if tag.kind == "landmark" else set(ends)
    return None if first is None or not factors else (first.dimension, len(keys), factors, first.format)


def _g2o_lines(text: str) -> Iterator[tuple[Any, list[str]]]:
    for _, words in numbered_words(text):
        if words[0] not in ("FIX", "EQUIV"):
            yield (TAGS.get(words[0]) if len(words) > 1 else None), words
