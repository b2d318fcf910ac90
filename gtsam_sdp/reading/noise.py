"""GTSAM noise models as information matrices, each model read once however many factors share it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gtsam_sdp.variables import Array

_GAUSSIAN = {"Unit", "Isotropic", "Diagonal", "Gaussian"}

HARD = "hard"
"""Verdict on a model all of whose sigmas are zero."""


def judge_noise(model: Any) -> str | None:
    """None for Gaussian noise, HARD for a full constraint, otherwise the reason why it is not supported."""
    name = type(model).__name__
    if name in _GAUSSIAN:
        return None
    if name == "Constrained":
        sigmas = model.sigmas()
        if not sigmas.any():
            return HARD
        free = int(np.count_nonzero(sigmas))
        return f"{name} noise with {free} of {len(sigmas)} sigmas not zero; all of them must be zero, or none"
    if name == "Robust":
        return "Robust noise is not quadratic"
    if model is None:
        return "it has no noise model"
    return f"noise model {name} is not Gaussian"


def information_matrices(models: Sequence[Any]) -> Array:
    """R^T R of Gaussian noise models of equal dimension, (m, k, k)."""
    position: dict[int, int] = {}
    unique: list[Any] = []
    places = np.empty(len(models), dtype=np.intp)
    for place, model in enumerate(models):
        at = position.setdefault(id(model), len(unique))
        if at == len(unique):
            unique.append(model)
        places[place] = at
    roots = np.array([model.R() for model in unique])
    information = roots.swapaxes(1, 2) @ roots
    return information if len(unique) == len(models) else information[places]
