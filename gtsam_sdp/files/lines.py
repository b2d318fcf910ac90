"""Text files of one record a line: words and numbers, with errors that name the line."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np

from gtsam_sdp.errors import DatasetError
from gtsam_sdp.variables import Array

Number = TypeVar("Number", int, float)
_SMALLEST_QUATERNION = 1e-12  # squared length


def read_text(path: Path) -> str:
    """The text of a file.

    Raises:
        DatasetError: it is missing, a folder, empty or not text.
    """
    if not path.exists():
        raise DatasetError(f"There is no file {path}.")
    if path.is_dir():
        raise DatasetError(f"{path} is a folder; give a g2o file in it.")
    try:
        text = path.read_bytes().decode("utf-8")
    except OSError as error:
        raise DatasetError(f"{path} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError as error:
        raise DatasetError(_not_text(path, error.start)) from None
    if "\0" in text:
        raise DatasetError(_not_text(path, text.index("\0")))
    if not text.strip():
        raise DatasetError(f"{path} is empty.")
    return text


def _not_text(path: Path, place: int) -> str:
    return (
        f"{path} is not a text file: byte {place} belongs to no text. "
        "Give an uncompressed g2o file with one vertex or edge a line."
    )


def numbered_words(text: str) -> Iterator[tuple[int, list[str]]]:
    """Number and words of each line that holds some; remarks begin with # or //, and end with the line."""
    for number, line in enumerate(text.split("\n"), start=1):
        words = line.partition("#")[0].partition("//")[0].split()
        if words:
            yield number, words


def wrong_count(
    where: str, words: Sequence[str], needed: int, what: str, lack: str = "The file may be truncated."
) -> DatasetError:
    """The error for a line that has more or fewer words after its tag than it needs."""
    count = len(words) - 1
    many = "one too many" if count == needed + 1 else f"{count - needed} too many"
    reason = f": {many}." if count > needed else f". {lack}"
    return DatasetError(f"{where}: {words[0]} needs {needed} {what}, this line has {count}{reason}")


def parse_integers(where: str, words: Sequence[str]) -> list[int]:
    """Vertex numbers."""
    keys = _parsed(where, words, int, "a vertex number (a whole number from 0 on)")
    if any(not 0 <= key < 2**64 for key in keys):
        raise DatasetError(f"{where}: a vertex number is not between 0 and 2^64 - 1.")
    return keys


def parse_numbers(where: str, words: Sequence[str]) -> list[float]:
    """Finite numbers."""
    numbers = _parsed(where, words, float, "a number")
    if not np.isfinite(numbers).all():
        raise DatasetError(f"{where}: a number is not finite.")
    return numbers


def _parsed(where: str, words: Sequence[str], kind: Callable[[str], Number], what: str) -> list[Number]:
    numbers = []
    for word in words:
        try:
            numbers.append(kind(word))
        except ValueError:
            raise DatasetError(f"{where}: {word[:40]!r} is not {what}.") from None
        if "_" in word or not word.isascii():  # Python reads 1_000, C++ reads 1
            raise DatasetError(f"{where}: {word[:40]!r} is not {what}.")
    return numbers


def check_quaternion(where: str, quaternion: Sequence[float]) -> None:
    """Raises where a quaternion has no direction."""
    if sum(x * x for x in quaternion) < _SMALLEST_QUATERNION:
        raise DatasetError(f"{where}: the quaternion is zero.")


def positive_definite(where: str, what: str, upper: Sequence[float]) -> Array:
    """The symmetric matrix (k, k) whose upper triangle is given row by row, checked to be positive definite."""
    size = int(np.sqrt(2 * len(upper)))
    rows, columns = np.triu_indices(size)
    matrix = np.zeros((size, size))
    matrix[rows, columns] = matrix[columns, rows] = upper
    scale = np.sqrt(np.abs(np.diag(matrix)))
    scale = np.where(scale > 0, scale, 1.0)
    smallest = np.linalg.eigvalsh(matrix / np.outer(scale, scale))[0]
    if (np.diag(matrix) <= 0).any() or smallest < 1e-12:
        raise DatasetError(f"{where}: the {what} matrix is not positive definite.")
    return matrix
