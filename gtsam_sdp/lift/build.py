"""All terms of a reading: adapters for the package's factors, the user's own terms, hard values of variables."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gtsam_sdp.errors import InvalidGraphError
from gtsam_sdp.factors.families import ADAPTERS
from gtsam_sdp.factors.registry import Lifting
from gtsam_sdp.lift.robust import Intervals, robust_terms_of
from gtsam_sdp.linalg.array import Array
from gtsam_sdp.reading.graph import Reading
from gtsam_sdp.terms.terms import Terms


def build_terms(
    reading: Reading,
    *,
    at_measurements: bool = False,
    gaps: tuple[float, ...] = (),
    intervals: Intervals | None = None,
    touching: bool = True,
) -> Sequence[Terms]:
    """Terms of all factors that are not dropped and not hard.

    They touch the cost at the reading's estimate, or, `at_measurements`, where each factor's error is zero. With the
    `gaps` that terms at this estimate left before they are tighter (see `Lifting`). Those of factors with a robust loss
    need to hold on `intervals` only. `touching` is as in `Lifting`.
    """
    lifting = Lifting(
        reading.layout, reading.estimate, reading.cost, at_measurements, gaps, touching=touching, held=_held(reading)
    )  # fmt: skip
    terms = [ADAPTERS[group.type_name].build(group, lifting) for group in reading.groups if group.loss is None]
    terms += [group.build(lifting) for group in reading.fitted]
    terms += [user.term.to_terms(user.index, user.keys, reading.layout) for user in reading.user_factors]
    if reading.robust:
        if intervals is None:
            group = reading.robust[0]
            named = reading.table.name(int(np.searchsorted(reading.table.index, group.index[0])))
            raise InvalidGraphError(
                f"{named} has a robust loss, and its term holds on a region only: certify and solve say on which one. "
                "Give it Gaussian noise for what is to hold everywhere."
            )
        terms += robust_terms_of(reading, intervals, at_measurements=at_measurements)
    return terms


def _held(reading: Reading) -> Array | None:
    """The estimate with hard vectors as they are prescribed, if a factor needs to know one."""
    if not any(ADAPTERS[group.type_name].known for group in reading.groups):
        return None
    held, layout = reading.estimate.copy(), reading.layout
    for group in reading.hard:
        fix = ADAPTERS[group.type_name].fix
        assert fix is not None
        vectors = fix(group, layout, reading.estimate).translations
        if vectors is not None:
            held[layout.translation[group.numbers[:, :1]] + np.arange(vectors.shape[1])] = vectors
    return held
