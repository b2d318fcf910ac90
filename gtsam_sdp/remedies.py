"""What texts advise: named as Python says it, unless who shows the text has words of its own."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Self


class Remedy(Enum):
    """Something to do, in the words of a user of Python."""

    OPTIMISE = "optimise first"
    REFINE = "gtsam_sdp.refine"
    RELAX = 'method="sdp"'
    STAIRCASE = 'method="staircase"'
    VECTOR_LIFT = 'lift="vector"'
    DROP = 'on_unsupported="drop"'
    TIME = "time_limit="
    """Seconds follow."""


class Advice(str):
    """A sentence that knows which of its parts are remedies.

    Attributes:
        parts: the sentence, in order.
    """

    parts: tuple[str | Remedy, ...]

    def __new__(cls, *parts: str | Remedy) -> Self:
        """The sentence of some parts, which may be sentences with remedies themselves."""
        advice = super().__new__(cls, "".join(part.value if isinstance(part, Remedy) else part for part in parts))
        advice.parts = tuple(p for part in parts for p in (part.parts if isinstance(part, Advice) else (part,)))
        return advice

    @property
    def remedy(self) -> Remedy | None:
        """The first remedy; None if there is none."""
        return next((part for part in self.parts if isinstance(part, Remedy)), None)

    def said(self, words: Mapping[Remedy, str]) -> str:
        """The sentence with other words for remedies."""
        return "".join(words.get(p, p.value) if isinstance(p, Remedy) else p for p in self.parts)
