"""The time of a search: what is left of a limit, what is worth beginning without one, and what was not begun."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field

_FIRST_RESERVE = 0.2
"""Share of the limit that is kept for the first certification, whose time nothing tells."""

_WORK = 12.0
"""A certification, or a chordal initialisation, takes at least so many times what reading the graph does."""

_GRACE = 0.05
_GRACE_SECONDS = 0.5
"""Proofs may take so much longer than the limit, by its share and [s]."""

_RESERVE = 1.3
"""Later ones get so many times what the longest took."""

LONG = 30.0
"""A rung predicted to take longer is not begun without a time limit, and the staircase ends then [s]."""

_SHORT = 5.0
"""The same where the gap is nearly closed [s]."""

_NEARLY = 10.0
"""Gaps of fewer tolerances than this are nearly closed."""

_PATIENCE = 20.0
"""After so long without a limit only a gain lets another rung begin [s]."""

_GAIN = 0.05
"""Share of the gap that a rung has to close for that."""

_MORE = 1 / 3
"""Share of the time used so far that the staircase gets beyond half a minute."""

_LONGER = 4.0
"""So many times what the search took is advised where nothing predicts the time of what was left out."""

_TYPICAL = 2.5
"""Solving a relaxation takes about so many times what is predicted, where its weights are uneven."""


@dataclass
class Budget:
    """What is left of the time of a search.

    Attributes:
        limit: what was asked for [s].
        started: when the search began, by `time.perf_counter` [s].
        certifying: longest time of a certification so far [s].
        reading: time of reading the graph [s].
        optimising: time of the last optimisation [s].
        untried: what was not begun, and how long it may take.
    """

    limit: float | None
    started: float = field(default_factory=time.perf_counter)
    certifying: float | None = None
    reading: float = 0.0
    optimising: float = 0.0
    untried: list[str] = field(default_factory=list)

    @property
    def elapsed(self) -> float:
        """Seconds since the search began."""
        return time.perf_counter() - self.started

    @property
    def remaining(self) -> float:
        """Seconds left to search, so that what is found can still be certified."""
        if self.limit is None:
            return math.inf
        reserve = max(_FIRST_RESERVE * self.limit, _WORK * self.reading)
        if self.certifying is not None:
            reserve = _RESERVE * self.certifying
        return self.limit - self.elapsed - reserve

    @property
    def proof_ends(self) -> float:
        """When proofs have to end, by `time.perf_counter` [s]."""
        return math.inf if self.limit is None else self.started + (1 + _GRACE) * self.limit + _GRACE_SECONDS

    @property
    def fits_an_initialisation(self) -> bool:
        """Whether the chordal initialisation is worth beginning where another start is known."""
        return self.remaining > _WORK * self.reading

    @property
    def ends(self) -> float:
        """When searching has to end, by `time.perf_counter` [s]."""
        return time.perf_counter() + self.remaining

    @property
    def for_a_rung(self) -> float:
        """Seconds that a global method gets: without a limit the rest of half a minute, or a part of what was used.

        Of half a minute a part is kept to optimise and certify what is found.
        """
        if self.limit is not None:
            return self.remaining
        return max(LONG - self.elapsed - self.optimising - _RESERVE * (self.certifying or 0.0), _MORE * self.elapsed)

    @property
    def for_a_relaxation(self) -> float:
        """The same for a relaxation, which is worth nothing before it ends."""
        return _TYPICAL * LONG if self.limit is None else self.remaining

    def certified_in(self, seconds: float) -> None:
        """Takes down how long a certification took."""
        self.certifying = max(seconds, self.certifying or 0.0)

    def allows(self, what: str, predicted: float, gap: float) -> bool:
        """Whether a step of a predicted time [s] is begun; `gap` is counted in tolerances. If not, it is remembered."""
        allowed = self.remaining if self.limit is not None else _SHORT if gap < _NEARLY else LONG
        if predicted <= allowed:
            return True
        seconds = math.ceil(self.elapsed + _TYPICAL * predicted)
        longest = math.ceil(_TYPICAL * predicted)
        self.leave(f"{what} (about {predicted:.0f} to {longest} s: time_limit={seconds})")
        return False

    def leave(self, what: str) -> None:
        """Remembers what was not begun."""
        if not what.endswith(")"):
            what += f" (time_limit={math.ceil(max(2 * LONG, _LONGER * self.elapsed))})"
        if what not in self.untried:
            self.untried.append(what)

    def is_spent(self, closed: float) -> bool:
        """Whether to end, after a rung that closed this share of the gap."""
        if self.limit is not None:
            return self.remaining <= 0
        return self.elapsed > _PATIENCE and closed < _GAIN
