"""Information matrices as g2o writes them."""

from __future__ import annotations

import numpy as np


def definite(size: int) -> np.ndarray:
    root = np.random.default_rng(size).normal(size=(size, size))
    return root @ root.T + np.eye(size)


def upper(matrix: np.ndarray) -> str:
    return " ".join(repr(float(x)) for x in matrix[np.triu_indices(len(matrix))])
