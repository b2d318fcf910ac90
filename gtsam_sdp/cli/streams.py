"""Where text goes: the answer alone to standard output, all else to standard error."""

from __future__ import annotations

import io
import os
import shutil
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from rich.console import Console
from rich.table import Table

from gtsam_sdp.errors import SuspiciousInputWarning
from gtsam_sdp.progress import tell, tell_above_the_line

_WIDE = 10_000
"""Characters: in a pipe no column is cut."""


class AnswerLostError(Exception):
    """Standard output takes nothing: closed by who reads it, or on a disk that is full.

    Attributes:
        was_closed: the reader has seen enough, as in `gtsam-sdp certify w100 | head -1`.
    """

    def __init__(self, error: OSError) -> None:
        self.was_closed = isinstance(error, BrokenPipeError)
        super().__init__(f"standard output cannot be written: {error.strerror}")


def write(text: str) -> None:
    """Writes a part of the answer.

    Raises:
        AnswerLostError: it cannot be written.
    """
    try:
        if sys.stdout.isatty() and tell_above_the_line(text):
            return
        sys.stdout.write(text + "\n")
        sys.stdout.flush()
    except OSError as error:
        discard_output()
        raise AnswerLostError(error) from None


def discard_output() -> None:
    """What is left of standard output goes nowhere, so that the interpreter's end does not complain."""
    with suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def tell_error(text: str) -> None:
    """Writes an error to standard error."""
    tell(f"gtsam-sdp: error: {text}")


def table_text(table: Table) -> str:
    """A table as text: as wide as the terminal, or as it needs to be."""
    wide = shutil.get_terminal_size().columns if sys.stdout.isatty() else _WIDE
    text = io.StringIO()
    Console(file=text, width=wide, highlight=False).print(table)
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines())


@contextmanager
def warnings_as_lines() -> Iterator[None]:
    """Shows warnings about the input as one line each, without Python's source lines."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", SuspiciousInputWarning)
        usual = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
            if issubclass(category, SuspiciousInputWarning):
                tell(f"warning: {message}")
            else:
                usual(message, category, *place, **more)

        warnings.showwarning = show
        yield
