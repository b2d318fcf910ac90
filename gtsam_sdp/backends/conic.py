"""Block-diagonal semidefinite programs: what a backend solves."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import scipy

from gtsam_sdp.backends.export import write_cbf, write_sdpa
from gtsam_sdp.compared import Compared
from gtsam_sdp.linalg.array import Array
from gtsam_sdp.linalg.svec import svec_starts


@dataclass(frozen=True, eq=False)
class ConicProblem(Compared):
    """max b^T y subject to svec(C_k) - A_k y in the cone of positive semidefinite matrices, for every block k.

    svec lists the upper triangle column by column, off-diagonal entries times sqrt(2).

    Attributes:
        A: all A_k stacked, (sum of n_k (n_k + 1) / 2, variables).
        c: all svec(C_k) stacked.
        b: objective, (variables,).
        sizes: n_k of the blocks, (k,).
        offset: optimum / scale + offset is the bound in the unit of `graph.error`.
        scale: the costs were multiplied by this.
        is_balanced: the data are as large as 1 already, and solvers had better not rescale them.
    """

    A: scipy.sparse.csc_array
    c: Array
    b: Array
    sizes: Array
    offset: float
    scale: float
    is_balanced: bool = field(default=False, kw_only=True)

    @property
    def starts(self) -> Array:
        """Where each block starts in the stacked svec, (k + 1,)."""
        return svec_starts(self.sizes)

    def to_sdpa(self, path: str | os.PathLike[str]) -> None:
        """Writes the problem in SDPA sparse format, see `gtsam_sdp.backends.export`."""
        write_sdpa(Path(path), self.A, self.b, self.c, self.sizes, self._scaling)

    def to_cbf(self, path: str | os.PathLike[str]) -> None:
        """Writes the problem in Conic Benchmark Format, see `gtsam_sdp.backends.export`."""
        write_cbf(Path(path), self.A, self.b, self.c, self.sizes, self._scaling)

    @property
    def _scaling(self) -> str:
        return f"scale {self.scale:.17g} offset {self.offset:.17g}"

    def __str__(self) -> str:
        sizes, counts = np.unique(self.sizes, return_counts=True)
        blocks = ", ".join(f"{n} of {size}" for size, n in zip(sizes.tolist(), counts.tolist(), strict=True))
        return f"ConicProblem: {len(self.b)} variables, {self.A.nnz} entries\n  blocks by side: {blocks}"

    __repr__ = __str__
