"""Notes of a certificate: sentences that know what kind they are and what they advise."""

from __future__ import annotations

from enum import Enum
from typing import Self

from gtsam_sdp.remedies import Advice, Remedy


class NoteKind(Enum):
    """What a note is about."""

    FACT = "fact"
    """Something about the graph or the bound."""
    ASSUMPTION = "assumption"
    """What the bound rests on and no evaluation can prove."""
    ADVICE = "advice"
    """Why the certificate is not better, and what helps: of no use once it is."""


class Note(Advice):
    """A sentence for the user.

    Attributes:
        kind: what it is about.
        remedy: what it advises, None if nothing.
    """

    kind: NoteKind

    def __new__(cls, *parts: str | Remedy, kind: NoteKind = NoteKind.FACT) -> Self:
        """The sentence, in parts."""
        note = super().__new__(cls, *parts)
        note.kind = kind
        return note


def percent(fraction: float) -> str:
    """A relative gap as a percentage that keeps its leading digits: `0.0016%`, `1.6e-06%`."""
    if fraction == 0:
        return "0%"
    value = 100 * fraction
    return f"{value:.2g}%" if value < 1e-4 else f"{float(f'{value:.2g}'):g}%"
