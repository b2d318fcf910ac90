"""Notes of a certificate: sentences that know what kind they are and what they advise."""

from __future__ import annotations

from enum import Enum


class NoteKind(Enum):
    """What a note is about."""

    FACT = "fact"
    """Something about the graph or the bound."""
    ASSUMPTION = "assumption"
    """What the bound rests on and no evaluation can prove."""
    ADVICE = "advice"
    """Why the certificate is not better, and what helps: of no use once it is."""


class Remedy(Enum):
    """What a note advises."""

    OPTIMISE = "optimise first"
    REFINE = "gtsam_sdp.refine"
    RELAX = 'method="chordal"'


class Note(str):
    """A sentence for the user.

    Attributes:
        kind: what it is about.
        remedy: what it advises, None if nothing.
    """

    kind: NoteKind
    remedy: Remedy | None

    def __new__(cls, text: str, kind: NoteKind = NoteKind.FACT, remedy: Remedy | None = None) -> Note:
        """The sentence."""
        note = super().__new__(cls, text)
        note.kind, note.remedy = kind, remedy
        return note


def percent(fraction: float) -> str:
    """A relative gap as a percentage that keeps its leading digits: `0.0016%`, `1.6e-06%`."""
    if fraction == 0:
        return "0%"
    value = 100 * fraction
    return f"{value:.2g}%" if value < 1e-4 else f"{float(f'{value:.2g}'):g}%"
