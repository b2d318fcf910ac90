"""Where a bound of a graph with robust losses holds: intervals of the residuals of these factors."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from gtsam_sdp.errors import format_key
from gtsam_sdp.keys import KeyLists
from gtsam_sdp.linalg.array import Array
from gtsam_sdp.shown import Shown


@dataclass(frozen=True, repr=False, eq=False)
class RobustRegion(Shown):
    """What a better solution would have to do: take the residual of one of these factors out of its interval.

    Residuals are lengths of whitened residuals, in sigmas of the noise inside the robust one. A factor is *kept* if its
    interval is [0, radius] or more, an *outlier* if it begins above 0, and *doubtful* in between: the loss allows for a
    smaller interval only, and the measurement is worth a look.

    Attributes:
        index: places of the factors with a robust loss in the graph, (m,).
        keys: keys(k) are those of the k-th of them.
        residual: at the values [sigmas], (m,).
        low, high: ends of the intervals [sigmas], (m,).
        threshold: residual from which on the loss counts a factor for less than a Gaussian one [sigmas], (m,).
        is_doubtful: factors with a smaller interval than was tried, (m,).
        is_unconditional: every better solution is in the region, so that the bound holds for all values.
        most_violations: no better solution has more kept factors outside their intervals, because these alone would
            cost as much as the values do.
    """

    index: Array
    keys: KeyLists
    residual: Array
    low: Array
    high: Array
    threshold: Array
    is_doubtful: Array
    is_unconditional: bool
    most_violations: int

    @property
    def is_outlier(self) -> Array:
        """Factors that the values throw out, (m,)."""
        return self.low > 0

    @property
    def is_kept(self) -> Array:
        """Factors that the values fit, (m,)."""
        return ~self.is_outlier & ~self.is_doubtful

    @property
    def radius(self) -> float:
        """The certified radius: up to which all kept factors may go [sigmas]; infinite if there is no condition.

        If none is kept, that of the doubtful ones.
        """
        return math.inf if self.is_unconditional else float(self.high[self._counting].min(initial=math.inf))

    @property
    def is_trusted(self) -> bool:
        """Whether there is no condition, or some factors are kept, each up to the threshold of its loss at least."""
        inside = self.high >= self.threshold * (1 - 1e-9)
        counting = self._counting
        return self.is_unconditional or bool(counting.any() and inside[counting].all())

    @property
    def _counting(self) -> Array:
        """The factors that the radius is of, (m,)."""
        return self.is_kept if self.is_kept.any() else self.is_doubtful

    def to_dict(self) -> dict[str, Any]:
        """The region as plain types; factors are listed if they are outliers or doubtful."""

        def listed(chosen: Array) -> list[dict[str, Any]]:
            return [
                {
                    "index": int(self.index[k]),
                    "keys": [int(key) for key in self.keys(k)],
                    "names": [format_key(key) for key in self.keys(k)],
                    "residual": float(self.residual[k]),
                    "from": float(self.low[k]),
                    "to": float(self.high[k]) if math.isfinite(self.high[k]) else None,
                }
                for k in np.flatnonzero(chosen).tolist()
            ]

        return {
            "unconditional": self.is_unconditional,
            "radius": float(self.radius) if math.isfinite(self.radius) else None,
            "robust_factors": len(self.index),
            "kept": int(self.is_kept.sum()),
            "outliers": listed(self.is_outlier),
            "doubtful": listed(self.is_doubtful),
            "most_violations": self.most_violations,
        }
