"""Whether a cost is zero to the digits of the data: measurements that agree but for how they were written down.

Residuals are compared with what they were measured against, factor by factor and without weights, so that neither a
stiff factor nor a long arm makes another one's cost look like rounding (docs/maths/, section 3.9).
"""

from __future__ import annotations

import gtsam
import numpy as np

from gtsam_sdp.lift.structure import translation_rows
from gtsam_sdp.linalg.array import Array
from gtsam_sdp.reading.graph import Reading
from gtsam_sdp.tolerances import DIGITS, WHOLE_TURN

_UNCHANGED = 1e-9
"""Change of a residual up to which it does not depend on positions: it is an angle, or an entry of a rotation."""


def is_zero(reading: Reading, values: gtsam.Values, tolerance: float) -> bool:
    """Whether the data cannot tell the cost of the values from zero.

    Every residual has to be below `DIGITS` of its measurement, angles together below `WHOLE_TURN`, and the cost below
    `tolerance` times what noise alone would make it.

    Args:
        reading: the graph at the values.
        values: the values.
        tolerance: relative, as `certify` has it.
    """
    dropped = {o.index for o in reading.dropped}
    left_out = np.isin(reading.table.index, [*dropped, *(i for group in reading.hard for i in group.index)])
    if reading.costs[left_out].any():
        return False
    factors = [reading.table.factors[k] for k in np.flatnonzero(~left_out).tolist()]
    if reading.cost > tolerance * sum(factor.dim() for factor in factors) / 2:
        return False
    moved = _moved(reading)
    sizes: dict[str, list[tuple[float, float, float]]] = {}
    for factor in factors:
        residual = factor.unwhitenedError(values)
        change = np.abs(factor.unwhitenedError(moved) - residual)
        angles = change <= _UNCHANGED
        angle, length, size = (float(np.linalg.norm(x)) for x in (residual[angles], residual[~angles], change))
        sizes.setdefault(type(factor).__name__, []).append((angle, length, size))
    tables = [np.array(own) for own in sizes.values()]
    return sum(table[:, 0].sum() for table in tables) <= WHOLE_TURN and all(map(_is_exact, tables))


def _is_exact(table: Array) -> bool:
    """Whether residuals are next to nothing for factors of one type: (angle, length, size of the lengths), (m, 3).

    A file may have as many decimals for all its numbers: a short measurement is no more exact than others.
    """
    angle, length, size = table.T
    return bool(((angle <= DIGITS) & (length <= DIGITS * np.maximum(size, np.median(size)))).all())


def _moved(reading: Reading) -> gtsam.Values:
    """The values with the map twice as large and turned about its centre, but not its rotations.

    Residuals then change by as much as they measure: a range by itself, a bearing by a radian.
    """
    layout = reading.layout
    lifted = reading.estimate.copy()
    positions = np.flatnonzero(translation_rows(layout))
    if layout.space.dimension == 2:
        turn: Array = np.array([[2 * np.exp(1j)]])
    else:
        turn = 2 * np.array([[0.36, 0.48, -0.8], [-0.8, 0.6, 0.0], [0.48, 0.64, 0.6]])
    if len(positions):
        centre = lifted[positions].mean(axis=0)
        lifted[positions] = centre + (lifted[positions] - centre) @ turn
    return layout.unlift(lifted)
