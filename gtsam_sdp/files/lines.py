"""Text files of one record a line: words and numbers, with errors that name the line."""

from __future__ import annotations

import codecs
import gzip
import math
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import numpy as np

from gtsam_sdp.errors import DatasetError
from gtsam_sdp.linalg.array import Array

Number = TypeVar("Number", int, float)
_SMALLEST_QUATERNION = 1e-12  # squared length
STANDARD_INPUT = "standard input"
_GZIP = b"\x1f\x8b"
_MARK = "\ufeff"
_SAMPLE = 16  # characters: pairs of bytes that are 16 letters of ASCII in UTF-16 are no UTF-8 text
_SPELLINGS = [
    (",", ".", "decimals have a point (the program that wrote the file ran with another locale)"),
    ("D", "E", "exponents have an E"),
    ("d", "e", "exponents have an e"),
    ("\u2212", "-", "a minus sign is a hyphen"),
]
_WIDE: Mapping[str, bytes] = {  # UTF-32 first: its little-endian mark begins with that of UTF-16
    "utf-32-le": codecs.BOM_UTF32_LE,
    "utf-32-be": codecs.BOM_UTF32_BE,
    "utf-16-le": codecs.BOM_UTF16_LE,
    "utf-16-be": codecs.BOM_UTF16_BE,
}


def read_text(path: Path) -> str:
    """The text of a file, unpacked if it is gzip data.

    Raises:
        DatasetError: it is missing, a folder, empty or not text.
    """
    if not path.exists():
        raise DatasetError(f"There is no file {path}.")
    if path.is_dir():
        raise DatasetError(f"{path} is a folder; give a g2o file in it.")
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DatasetError(f"{path} cannot be read: {error.strerror}.") from None
    return decode(path, content)


def standard_input() -> str:
    """What is piped into the program, unpacked if it is gzip data.

    Raises:
        DatasetError: it is a terminal, empty, damaged or not text.
    """
    if sys.stdin is None or sys.stdin.isatty():
        raise DatasetError(
            "- reads a graph from standard input, and nothing is piped into it here: pipe a graph, as in "
            "`xzcat map.g2o.xz | gtsam-sdp info -`, or give a file."
        )
    content = sys.stdin.buffer.read()
    if not content.strip():
        raise DatasetError(f"{STANDARD_INPUT} is empty: pipe a graph into it; did the command before it fail?")
    return decode(Path(STANDARD_INPUT), content)


def decode(path: Path, content: bytes) -> str:
    """The text of what a file holds, without byte order marks; gzip data is told by its first two bytes.

    Raises:
        DatasetError: the content is empty, damaged or not text.
    """
    if content.startswith(_GZIP):
        content = _unpacked(path, content)
    _refuse_wide_text(path, content)
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DatasetError(_not_text(path, error.start)) from None
    if "\0" in text:
        raise DatasetError(_not_text(path, text.index("\0")))
    text = text.lstrip(_MARK).replace(f"\n{_MARK}", "\n")  # inside a text where files were joined
    if not text.strip():
        raise DatasetError(f"{path} is empty.")
    return text


def _unpacked(path: Path, content: bytes) -> bytes:
    try:
        return gzip.decompress(content)
    except (OSError, EOFError, zlib.error) as error:
        raise DatasetError(
            f"{path} is damaged gzip data ({error}). Copy or download it again, or give the unpacked file."
        ) from None


def _refuse_wide_text(path: Path, content: bytes) -> None:
    """Raises where a text has two or four bytes a character, with or without a byte order mark."""
    for encoding, mark in _WIDE.items():
        with_mark = content.startswith(mark)
        if not with_mark:
            try:
                letters = content[: _SAMPLE * len(mark)].decode(encoding)
            except UnicodeDecodeError:
                continue
            if not letters or not letters.isascii() or "\0" in letters:
                continue
        name = encoding.removesuffix("-le").removesuffix("-be").upper()
        raise DatasetError(
            f"{path} is {name} text; g2o and PyFG files are read as UTF-8. Save it as UTF-8, for example with "
            f"`iconv -f {name if with_mark else name + encoding[-2:].upper()} -t UTF-8`."
        )


def _not_text(path: Path, place: int) -> str:
    return (
        f"{path} is not a text file: byte {place} belongs to no text. "
        "Give a g2o or PyFG file with one vertex or edge a line; gzip is the only compression that is read."
    )


def numbered_words(text: str) -> Iterator[tuple[int, list[str]]]:
    """Number and words of each line that holds some; remarks begin with # or //, and end with the line."""
    for number, line in enumerate(text.split("\n"), start=1):
        words = line.partition("#")[0].partition("//")[0].split()
        if words:
            yield number, words


def given_before(where: str, what: str, line: int) -> DatasetError:
    """The error for what two lines define."""
    return DatasetError(
        f"{where}: {what} was given in line {line} before. Take one of the lines out; "
        "where two maps were joined, number them apart."
    )


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
    for key in keys:
        if not 0 <= key < 2**64:
            raise DatasetError(
                f"{where}: a vertex number is not between 0 and 2^64 - 1: {key}. Number the vertices from 0 on."
            )
    return keys


def parse_numbers(where: str, words: Sequence[str]) -> list[float]:
    """Finite numbers."""
    numbers = _parsed(where, words, float, "a number")
    for word, number in zip(words, numbers, strict=True):
        if not math.isfinite(number):
            raise DatasetError(
                f"{where}: a number is not finite: {word[:40]}. Correct it; if what wrote the file diverged, take the "
                "VERTEX lines out, and the values follow from the measurements."
            )
    return numbers


def _parsed(where: str, words: Sequence[str], kind: Callable[[str], Number], what: str) -> list[Number]:
    numbers = []
    for word in words:
        try:
            numbers.append(kind(word))
        except ValueError:
            raise DatasetError(f"{where}: {word[:40]!r} is not {what}{_spelling(word, kind)}") from None
        if "_" in word or not word.isascii():  # Python reads 1_000, C++ reads 1
            raise DatasetError(f"{where}: {word[:40]!r} is not {what}{_spelling(word, kind)}")
    return numbers


def _spelling(word: str, kind: Callable[[str], int | float]) -> str:
    """How a word would be a number, as the end of a sentence."""
    short = word[:40]
    if kind is int:
        with suppress(ValueError, OverflowError):
            if float(word).is_integer() and "_" not in word:
                return f": write {float(word):.0f}."
        return ": correct it."
    for wrong, right, reason in _SPELLINGS:
        changed = short.replace(wrong, right)
        with suppress(ValueError):
            if changed != short and word.count(wrong) == 1 and math.isfinite(float(changed)):
                return f": {reason}, {changed}."
    return ": correct it."


def check_quaternion(where: str, quaternion: Sequence[float]) -> None:
    """Raises where a quaternion has no direction."""
    if sum(x * x for x in quaternion) < _SMALLEST_QUATERNION:
        raise DatasetError(f"{where}: the quaternion is zero. That of no rotation is 0 0 0 1 (x y z w).")


def symmetric(upper: Sequence[float]) -> Array:
    """The symmetric matrix (k, k) whose upper triangle is given row by row."""
    size = int(np.sqrt(2 * len(upper)))
    rows, columns = np.triu_indices(size)
    matrix = np.zeros((size, size))
    matrix[rows, columns] = matrix[columns, rows] = upper
    return matrix


def positive_definite(where: str, what: str, upper: Sequence[float]) -> Array:
    """The symmetric matrix (k, k) whose upper triangle is given row by row, checked to be positive definite."""
    matrix = symmetric(upper)
    scale = np.sqrt(np.abs(np.diag(matrix)))
    scale = np.where(scale > 0, scale, 1.0)
    smallest = np.linalg.eigvalsh(matrix / np.outer(scale, scale))[0]
    if (np.diag(matrix) <= 0).any() or smallest < 1e-12:
        size = len(matrix)
        order = " ".join(f"{i + 1}{j + 1}" for i, j in zip(*np.triu_indices(size), strict=True))
        raise DatasetError(
            f"{where}: the {what} matrix is not positive definite. Its numbers are the upper triangle, row by row"
            f"{f' ({order})' if size > 1 else ''}; correct them, or take the line out."
        )
    return matrix
