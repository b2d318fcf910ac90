"""GTSAM noise models as information matrices, each model read once however many factors share it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gtsam_sdp.linalg.array import Array
from gtsam_sdp.linalg.stack import stack
from gtsam_sdp.losses.losses import Loss, loss_of

_GAUSSIAN = {"Unit", "Isotropic", "Diagonal", "Gaussian"}

HARD = "hard"
"""Verdict on a model all of whose sigmas are zero."""


def judge_noise(model: Any) -> str | Loss | None:
    """None for Gaussian noise, a loss around it, HARD for a full constraint, else why it is not supported."""
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
        if judge_noise(model.noise()) is not None:
            return (
                f"robust noise around {type(model.noise()).__name__} noise is not supported, only around Gaussian noise"
            )
        return loss_of(model.robust())
    if model is None:
        return "it has no noise model"
    return f"noise model {name} is not Gaussian"


def gaussian(model: Any) -> Any:
    """The Gaussian model inside a robust one; a Gaussian one itself."""
    return model.noise() if type(model).__name__ == "Robust" else model


@dataclass(frozen=True)
class NoiseModels:
    """Noise models of many factors, each distinct one once.

    Attributes:
        distinct: the distinct models.
        place: which of them each factor has, (m,).
    """

    distinct: Sequence[Any]
    place: Array

    @classmethod
    def collect(cls, models: Sequence[Any]) -> NoiseModels:
        """Finds the distinct models; two Python objects are one model if they are the same GTSAM object."""
        distinct = {id(model): model for model in models}
        if len(distinct) == len(models):
            return cls(models, np.arange(len(models)))
        places = {key: place for place, key in enumerate(distinct)}
        return cls(list(distinct.values()), np.array([places[id(model)] for model in models]))

    def select(self, chosen: Array) -> NoiseModels:
        """The models of the chosen factors."""
        return self if chosen.all() else NoiseModels(self.distinct, self.place[chosen])

    def information(self) -> Array:
        """R^T R of Gaussian models of equal dimension, (m, k, k)."""
        used = np.unique(self.place)
        roots = stack(gaussian(self.distinct[i]).R() for i in used.tolist())
        with np.errstate(all="ignore"):  # what is not finite is refused by the caller
            information = roots.swapaxes(1, 2) @ roots
        if len(used) == len(self.place):
            return information
        return information[np.searchsorted(used, self.place)]
