"""A graph at its values as proofs and searches see it: terms, coordinates, lifted cost and point, each made once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from gtsam_sdp.lift.build import build_terms
from gtsam_sdp.lift.coordinates import Coordinates, centred_coordinates
from gtsam_sdp.lift.qcqp import Qcqp
from gtsam_sdp.lift.robust import Intervals, robust_terms_of
from gtsam_sdp.linalg.array import Array
from gtsam_sdp.reading.graph import Reading
from gtsam_sdp.terms.terms import Terms
from gtsam_sdp.values.layout import Layout


@dataclass(frozen=True)
class Problem:
    """The lifted problem of a reading; its parts are made when they are first asked for.

    Attributes:
        reading: the graph at the values.
        terms: of its factors.
        inside: translations are counted from a pose in place of the world frame.
        intervals: where the terms of factors with a robust loss hold; None: there are no such factors.
        touching: as in `Lifting`.
    """

    reading: Reading
    terms: Sequence[Terms]
    inside: bool = False
    intervals: Intervals | None = None
    touching: bool = True

    @classmethod
    def build(
        cls,
        reading: Reading,
        *,
        at_measurements: bool = False,
        gaps: tuple[float, ...] = (),
        intervals: Intervals | None = None,
        touching: bool = True,
    ) -> Problem:
        """The problem of a reading; where its terms touch, and hold, is as in `build_terms`."""
        terms = build_terms(reading, at_measurements=at_measurements, gaps=gaps, intervals=intervals, touching=touching)
        return cls(reading, terms, intervals=intervals, touching=touching)

    def rebuilt(self, *, reading: Reading | None = None, gaps: tuple[float, ...] = ()) -> Problem:
        """Terms made once more in the same way: of other weights, or with the gaps that they left (see `Lifting`)."""
        return Problem.build(reading or self.reading, gaps=gaps, intervals=self.intervals, touching=self.touching)

    def at(self, Y: Array) -> Problem:
        """The same terms seen from another point, raw rows as in `Layout.lift`."""
        return replace(self, reading=replace(self.reading, estimate=Y))

    def with_terms(self, terms: Sequence[Terms]) -> Problem:
        """Other terms at the same values."""
        return replace(self, terms=terms)

    def on(self, intervals: Intervals) -> Problem:
        """The same terms, but for factors with a robust loss those that hold on other intervals."""
        robust = np.concatenate([group.index for group in self.reading.robust])
        terms = [batch for batch in self.terms if not np.isin(batch.factor[:1], robust).any()]
        terms += robust_terms_of(self.reading, intervals)
        return replace(self, terms=terms, intervals=intervals)

    @property
    def layout(self) -> Layout:
        """Rows of the variables."""
        return self.reading.layout

    @cached_property
    def coordinates(self) -> Coordinates:
        """Centred at the values.

        Raises:
            InvalidGraphError: a key that no term constrains, unless the reading drops what has no term.
        """
        return centred_coordinates(self.reading, self.terms, inside=self.inside)

    @cached_property
    def qcqp(self) -> Qcqp:
        """The lifted cost in these coordinates."""
        return Qcqp.assemble(self.terms, self.layout, self.coordinates)

    @cached_property
    def Y(self) -> Array:
        """The values in these coordinates, (n, rank)."""
        return self.coordinates.reduce(self.reading.estimate)
