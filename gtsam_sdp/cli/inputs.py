"""Which graphs a command is about, and how one of them is read."""

from __future__ import annotations

import argparse
import glob
import warnings
from collections.abc import Sequence
from pathlib import Path

from gtsam_sdp.errors import DatasetError, SuspiciousInputWarning
from gtsam_sdp.files.datasets import PoseGraphFile, find_dataset, read_pose_graph
from gtsam_sdp.files.info import key_types
from gtsam_sdp.files.lines import STANDARD_INPUT, standard_input
from gtsam_sdp.progress import report_now
from gtsam_sdp.reading.graph import OnUnsupported, read

_ENDINGS = (".g2o", ".pyfg", ".graph", ".toro", ".txt")
"""Of the files of a folder that are taken for graphs, each also with .gz."""


def expanded(given: Sequence[str]) -> tuple[list[str], bool]:
    """The files that arguments name, each once and in order, and whether they are many: a row each.

    A folder stands for the graphs in it, a pattern that no shell expanded for what it matches.

    Raises:
        DatasetError: a folder or a pattern without a file; standard input among others.
    """
    found: dict[str, None] = {}
    for word in given:
        found |= dict.fromkeys(_named(word))
    if "-" in found and len(found) > 1:
        raise DatasetError("- reads one graph from standard input: give no other files with it.")
    is_one = len(given) == 1 and list(found) == list(given)
    return list(found), not is_one


def _named(word: str) -> list[str]:
    path = Path(word)
    if word.strip() and path.is_dir():
        inside = sorted(str(file) for file in path.iterdir() if file.is_file() and _looks_like_a_graph(file))
        if not inside:
            raise DatasetError(f"{word} is a folder without files that end with {', '.join(_ENDINGS)}.")
        return inside
    if glob.has_magic(word) and not path.exists():
        found = glob.glob(word, recursive=True)  # noqa: PTH207  (Path.glob takes no absolute pattern)
        matches = sorted(file for file in found if Path(file).is_file())
        if not matches:
            raise DatasetError(f"No file matches {word}.")
        return matches
    return [word]


def _looks_like_a_graph(path: Path) -> bool:
    return path.name.lower().removesuffix(".gz").endswith(_ENDINGS) and not path.name.startswith(".")


def read_file(arguments: argparse.Namespace, name: str) -> PoseGraphFile:
    """The graph of a file, of a data set that ships with GTSAM, or of standard input."""
    report_now("reading the file")
    if name == "-":
        return read_pose_graph(STANDARD_INPUT, cost=arguments.cost, text=standard_input())
    return read_pose_graph(find_dataset(name), cost=arguments.cost)


def on_unsupported(arguments: argparse.Namespace) -> OnUnsupported:
    """What to do with factors that cannot be certified."""
    return "drop" if arguments.drop_unsupported else "raise"


def check_graph(file: PoseGraphFile, arguments: argparse.Namespace) -> None:
    """Refuses what cannot be certified before it is optimised; `certify` repeats the warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SuspiciousInputWarning)
        read(file.graph, file.initial, on_unsupported(arguments))


def head(file: PoseGraphFile) -> str:
    """The size of a graph in one line."""
    return f"{file.path.name}: {file.initial.size()} {nouns(file)}, {file.graph.size()} factors, {file.dimension}D"


def nouns(file: PoseGraphFile) -> str:
    """What its keys are."""
    types = key_types(file)
    return "poses" if len(types) == 1 and "landmarks" not in types else "variables"


def size_facts(file: PoseGraphFile) -> dict[str, object]:
    """The size of a graph for machines."""
    return {
        "file": str(file.path),
        "dimension": file.dimension,
        "keys": file.initial.size(),
        "factors": file.graph.size(),
    }
