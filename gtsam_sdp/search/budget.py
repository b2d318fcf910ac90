"""The time of a search: what is left of a limit, what is worth beginning without one, and what was not begun."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from gtsam_sdp.deadline import until
from gtsam_sdp.remedies import Advice, Remedy
from gtsam_sdp.results.solution import StageName

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

_SHARE = 0.9
"""Share of the time left that a global method gets: what it finds is to be optimised and certified."""

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
        lap: when the last stage ended, by `time.perf_counter` [s].
    """

    limit: float | None
    started: float = field(default_factory=time.perf_counter)
    certifying: float | None = None
    reading: float = 0.0
    optimising: float = 0.0
    untried: list[Advice] = field(default_factory=list)
    lap: float = field(default_factory=time.perf_counter)

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

    def ends_with(self, seconds: float) -> float:
        """When a method that gets so many seconds has to end, to leave time for what it finds."""
        return time.perf_counter() + _SHARE * seconds

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

    @contextmanager
    def proving(self) -> Iterator[None]:
        """Within it the proof of a certificate is kept from taking too long, and it is remembered if it was."""
        with until(self.proof_ends) as deadline:
            yield
        if deadline.was_felt:
            self.leave("the whole proof at the values")

    def took(self, stage: StageName) -> float:
        """Ends a stage; the time since the one before it [s]."""
        now = time.perf_counter()
        seconds, self.lap = now - self.lap, now
        if stage is StageName.CERTIFY:
            self.certifying = max(seconds, self.certifying or 0.0)
        if stage is StageName.OPTIMISE:
            self.optimising = seconds
        return seconds

    def allows(self, what: str, predicted: float, gap: float) -> bool:
        """Whether a step of a predicted time [s] is begun; `gap` is counted in tolerances. If not, it is remembered."""
        allowed = self.remaining if self.limit is not None else _SHORT if gap < _NEARLY else LONG
        if predicted <= allowed:
            return True
        longest = math.ceil(_TYPICAL * predicted)
        seconds = math.ceil(self.elapsed + _TYPICAL * predicted)
        self.leave(what, seconds, f"about {predicted:.0f} to {longest} s: ")
        return False

    def leave(self, what: str, seconds: int | None = None, remark: str = "") -> None:
        """Remembers what was not begun, and the time limit that lets it be [s]."""
        if seconds is None:
            seconds = math.ceil(max(2 * LONG, _LONGER * self.elapsed))
        advice = Advice(f"{what} ({remark}", Remedy.TIME, f"{seconds})")
        if advice not in self.untried:
            self.untried.append(advice)

    def is_spent(self, closed: float) -> bool:
        """Whether to end, after a rung that closed this share of the gap."""
        if self.limit is not None:
            return self.remaining <= 0
        return self.elapsed > _PATIENCE and closed < _GAIN
