"""What the work on one file gives, as plain types: it may come from another process."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gtsam_sdp.errors import GtsamSdpError
from gtsam_sdp.remedies import Advice, Remedy

CERTIFIED, NOT_CERTIFIED, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130


@dataclass(frozen=True)
class Answer:
    """The answer about one file.

    Attributes:
        name: the file, as it was given.
        status: exit status for it.
        text: the report for people; empty if there is none.
        facts: the same for machines.
        errors: what went wrong, a sentence each.
        section: the report as HTML, if that was asked for.
    """

    name: str
    status: int
    text: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)
    errors: tuple[str, ...] = ()
    section: str = ""


def failed(arguments: argparse.Namespace, name: str, error: GtsamSdpError) -> Answer:
    """The answer where a file cannot be used."""
    told = error.args[0] if error.args else ""
    text = told.said(words(name)) if isinstance(told, Advice) else str(told)
    return Answer(name, BAD_INPUT, facts={"file": name, "error": text}, errors=(text,))


def words(name: str) -> Mapping[Remedy, str]:
    """What remedies are called on the command line, where that differs from Python."""
    return {
        Remedy.REFINE: solve_command(name),
        Remedy.RELAX: "--method sdp",
        Remedy.STAIRCASE: "--method staircase",
        Remedy.VECTOR_LIFT: "--lift vector",
        Remedy.DROP: "--drop-unsupported",
        Remedy.TIME: "--time-limit ",
    }


def solve_command(name: str) -> str:
    """The command that searches on for a file."""
    return f"`gtsam-sdp solve {shlex.quote(name)}`"
