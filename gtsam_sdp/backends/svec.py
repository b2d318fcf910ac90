"""Which entry of which block each row of a stacked svec is, for solvers and formats with other orders."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gtsam_sdp.variables import Array

if TYPE_CHECKING:
    from gtsam_sdp.chordal.conic import ConicProblem


@dataclass(frozen=True)
class SvecRows:
    """The rows of a stacked svec: entry (row <= column) of a block.

    Attributes:
        block: (m,).
        row: (m,).
        column: (m,).
        scale: sqrt(2) for off-diagonal entries, 1 for diagonal ones, (m,).
    """

    block: Array
    row: Array
    column: Array
    scale: Array


def svec_rows(problem: ConicProblem) -> SvecRows:
    """The entries that the rows of A and c stand for."""
    sizes, starts = np.asarray(problem.sizes, dtype=np.int64), np.asarray(problem.starts, dtype=np.int64)
    block = np.repeat(np.arange(len(sizes)), np.diff(starts))
    place = np.arange(starts[-1]) - starts[block]
    column = ((np.sqrt(8.0 * place + 1) - 1) / 2).astype(np.int64)  # exact: roots of squares below 2^53
    row = place - column * (column + 1) // 2
    return SvecRows(block, row, column, np.where(row == column, 1.0, np.sqrt(2.0)))


def lower_triangle_places(problem: ConicProblem) -> Array:
    """Where each row goes if blocks list their lower triangle column by column instead, (m,)."""
    rows = svec_rows(problem)
    size = np.asarray(problem.sizes, dtype=np.int64)[rows.block]
    start = np.asarray(problem.starts, dtype=np.int64)[rows.block]
    return start + rows.row * size - rows.row * (rows.row - 1) // 2 + rows.column - rows.row
