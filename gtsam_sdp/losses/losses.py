"""GTSAM's robust losses rho(r) of the whitened residual's length r >= 0 (`gtsam.noiseModel.mEstimator`).

All of them rise with r, and their second derivative falls up to one place, `turn`, and rises from there on: this is all
that the proof of a minorant asks for (docs/maths/robust.md). A slope that jumps counts as a second derivative without
bound there. GTSAM is the oracle: every loss that is read is compared with the wheel's own numbers.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import gtsam
import numpy as np

from gtsam_sdp.linalg.array import Array

_SAMPLES = np.array([0.0, 0.1, 0.5, 0.9, 1.1, 1.7, 3.0, 10.0, 100.0])
"""Residuals, relative to the loss's constant, at which GTSAM's loss and ours have to agree."""

_AGREEMENT = 1e-9

_OF_THE_LENGTH = "1"
"""GTSAM's number for ReweightScheme.Block."""


@dataclass(frozen=True)
class Loss(ABC):
    """A robust loss.

    Attributes:
        constant: its parameter, as given to GTSAM's `Create`, usually in sigmas.
    """

    constant: float
    is_convex: ClassVar[bool] = False
    """Whether the slope never falls: then residuals of any size count."""

    @property
    def threshold(self) -> float:
        """Residual from which on a factor counts for less than a Gaussian one [sigmas]."""
        return self.constant

    @property
    def limit(self) -> float:
        """The loss of an infinite residual."""
        return math.inf

    @property
    @abstractmethod
    def turn(self) -> float:
        """Where the second derivative stops falling: 0 if it only rises, infinite if it only falls."""

    @abstractmethod
    def value(self, r: Array) -> Array:
        """rho(r)."""

    @abstractmethod
    def weight(self, r: Array) -> Array:
        """rho'(r) / r; from the left where the slope jumps."""

    @abstractmethod
    def bend(self, r: Array) -> Array:
        """rho''(r), the smaller one of both sides where it jumps."""

    def share_of_square(self, end: Array) -> Array:
        """The largest w with rho(r) >= w r^2 / 2 for all r up to an end: weights fall with r."""
        return np.where(end > 0, 2 * self.value(end) / np.where(end > 0, end, 1.0) ** 2, 0.0)

    def _relative(self, r: Array) -> Array:
        return (r / self.constant) ** 2


class _Convex(Loss):
    """A loss whose slope never falls; its second derivative only falls."""

    is_convex = True

    @property
    def turn(self) -> float:
        """Where the second derivative stops falling."""
        return math.inf


class _Saturating(Loss):
    """A loss of at most c^2 / 2."""

    @property
    def turn(self) -> float:
        """Where the second derivative stops falling."""
        return self.constant

    @property
    def limit(self) -> float:
        """The loss of an infinite residual."""
        return self.constant**2 / 2


class Null(_Convex):
    """r^2 / 2: no loss at all."""

    @property
    def turn(self) -> float:
        """Where the second derivative stops falling."""
        return 0.0

    def value(self, r: Array) -> Array:
        """rho(r)."""
        return r**2 / 2

    def weight(self, r: Array) -> Array:
        """rho'(r) / r."""
        return np.ones_like(r)

    def bend(self, r: Array) -> Array:
        """rho''(r)."""
        return np.ones_like(r)


class Huber(_Convex):
    """r^2 / 2 up to k, then k r - k^2 / 2."""

    def value(self, r: Array) -> Array:
        """rho(r)."""
        return np.where(r <= self.constant, r**2 / 2, self.constant * (r - self.constant / 2))

    def weight(self, r: Array) -> Array:
        """rho'(r) / r."""
        return self.constant / np.maximum(r, self.constant)

    def bend(self, r: Array) -> Array:
        """rho''(r)."""
        return np.where(r < self.constant, 1.0, 0.0)


class Fair(_Convex):
    """c^2 (r / c - log(1 + r / c))."""

    def value(self, r: Array) -> Array:
        """rho(r)."""
        return self.constant**2 * (r / self.constant - np.log1p(r / self.constant))

    def weight(self, r: Array) -> Array:
        """rho'(r) / r."""
        return 1 / (1 + r / self.constant)

    def bend(self, r: Array) -> Array:
        """rho''(r)."""
        return 1 / (1 + r / self.constant) ** 2


class L2WithDeadZone(_Convex):
    """0 up to k, then (r - k)^2 / 2."""

    @property
    def turn(self) -> float:
        """Where the second derivative stops falling."""
        return 0.0

    def value(self, r: Array) -> Array:
        """rho(r)."""
        return np.maximum(r - self.constant, 0.0) ** 2 / 2

    def share_of_square(self, end: Array) -> Array:
        """None: residuals in the dead zone cost nothing."""
        return np.zeros_like(end)

    def weight(self, r: Array) -> Array:
        """rho'(r) / r."""
        return np.maximum(r - self.constant, 0.0) / np.where(r > 0, r, 1.0)

    def bend(self, r: Array) -> Array:
        """rho''(r)."""
        return np.where(r > self.constant, 1.0, 0.0)


class Cauchy(Loss):
    """k^2 / 2 log(1 + (r / k)^2)."""

    @property
    def turn(self) -> float:
        """Where the second derivative stops falling."""
        return math.sqrt(3) * self.constant

    def value(self, r: Array) -> Array:
        """rho(r)."""
        return self.constant**2 / 2 * np.log1p(self._relative(r))

    def weight(self, r: Array) -> Array:
        """rho'(r) / r."""
        return 1 / (1 + self._relative(r))

    def bend(self, r: Array) -> Array:
        """rho''(r)."""
        return (1 - self._relative(r)) / (1 + self._relative(r)) ** 2


class AsymmetricCauchy(Cauchy):
    """Cauchy's, for residuals that are never negative."""


class GemanMcClure(_Saturating):
    """c^2 r^2 / (2 (c^2 + r^2))."""

    def value(self, r: Array) -> Array:
        """rho(r)."""
        return r**2 / (2 * (1 + self._relative(r)))

    def weight(self, r: Array) -> Array:
        """rho'(r) / r."""
        return 1 / (1 + self._relative(r)) ** 2

    def bend(self, r: Array) -> Array:
        """rho''(r)."""
        return (1 - 3 * self._relative(r)) / (1 + self._relative(r)) ** 3


class Welsch(_Saturating):
    """c^2 / 2 (1 - exp(-(r / c)^2))."""

    @property
    def turn(self) -> float:
        """Where the second derivative stops falling."""
        return math.sqrt(1.5) * self.constant

    def value(self, r: Array) -> Array:
        """rho(r)."""
        return -(self.constant**2) / 2 * np.expm1(-self._relative(r))

    def weight(self, r: Array) -> Array:
        """rho'(r) / r."""
        return np.exp(-self._relative(r))

    def bend(self, r: Array) -> Array:
        """rho''(r)."""
        return (1 - 2 * self._relative(r)) * np.exp(-self._relative(r))


class Tukey(Loss):
    """c^2 / 6 (1 - (1 - (r / c)^2)^3) up to c, then c^2 / 6."""

    @property
    def turn(self) -> float:
        """Where the second derivative stops falling."""
        return math.sqrt(0.6) * self.constant

    @property
    def limit(self) -> float:
        """The loss of an infinite residual."""
        return self.constant**2 / 6

    def value(self, r: Array) -> Array:
        """rho(r)."""
        s = np.minimum(self._relative(r), 1.0)
        return self.constant**2 / 6 * s * (3 - 3 * s + s**2)

    def weight(self, r: Array) -> Array:
        """rho'(r) / r."""
        return np.maximum(1 - self._relative(r), 0.0) ** 2

    def bend(self, r: Array) -> Array:
        """rho''(r)."""
        s = np.minimum(self._relative(r), 1.0)
        return (1 - s) * (1 - 5 * s)


class AsymmetricTukey(Tukey):
    """Tukey's, for residuals that are never negative."""


class DCS(Loss):
    """Dynamic covariance scaling: r^2 / 2 up to the root of c, then c (3 r^2 - c) / (2 (c + r^2))."""

    @property
    def threshold(self) -> float:
        """Residual from which on a factor counts for less than a Gaussian one [sigmas]."""
        return math.sqrt(self.constant)

    @property
    def turn(self) -> float:
        """Where the second derivative stops falling."""
        return self.threshold

    @property
    def limit(self) -> float:
        """The loss of an infinite residual."""
        return 1.5 * self.constant

    def value(self, r: Array) -> Array:
        """rho(r)."""
        far = self.constant * (3 * r**2 - self.constant) / (2 * (self.constant + r**2))
        return np.where(r**2 <= self.constant, r**2 / 2, far)

    def weight(self, r: Array) -> Array:
        """rho'(r) / r."""
        return np.minimum(2 * self.constant / (self.constant + r**2), 1.0) ** 2

    def bend(self, r: Array) -> Array:
        """rho''(r)."""
        far = 4 * self.constant**2 * (self.constant - 3 * r**2) / (self.constant + r**2) ** 3
        return np.where(r**2 < self.constant, 1.0, far)


class TruncatedLeastSquares(_Saturating):
    """r^2 / 2 up to c, then c^2 / 2."""

    def value(self, r: Array) -> Array:
        """rho(r)."""
        return np.minimum(r, self.constant) ** 2 / 2

    def weight(self, r: Array) -> Array:
        """rho'(r) / r."""
        return np.where(r <= self.constant, 1.0, 0.0)

    def bend(self, r: Array) -> Array:
        """rho''(r)."""
        return np.where(r < self.constant, 1.0, 0.0)


LOSSES: dict[str, type[Loss]] = {
    kind.__name__: kind
    for kind in (
        Null, Huber, Fair, L2WithDeadZone, Cauchy, AsymmetricCauchy, GemanMcClure, Welsch, Tukey, AsymmetricTukey, DCS,
        TruncatedLeastSquares,
    )
}  # fmt: skip


def loss_of(model: Any) -> Loss | str:
    """The loss of a GTSAM `mEstimator`, or why it cannot be used."""
    name = type(model).__name__
    if name not in LOSSES:
        return f"the robust loss {name} is not known: use one of {', '.join(LOSSES)}"
    by_number, constant = _parameters(model)
    if by_number and name != "Null":
        return (
            f"the robust loss {name} is one of each number of the residual (ReweightScheme.Scalar): "
            "make it one of the residual's length (ReweightScheme.Block)"
        )
    return _known(name, constant)


@lru_cache(maxsize=1024)
def _known(name: str, constant: float) -> Loss | str:
    """The loss, compared with GTSAM's."""
    if not (math.isfinite(constant) and constant > 0):
        return f"the constant of the robust loss {name} is {constant:g}; it must be a positive number"
    loss, kind = LOSSES[name](constant), getattr(gtsam.noiseModel.mEstimator, name)
    model: Any = kind.Create() if name == "Null" else kind.Create(constant)
    samples = loss.threshold * _SAMPLES
    theirs = np.array([model.loss(float(r)) for r in samples])
    if not np.allclose(theirs, loss.value(samples), rtol=_AGREEMENT, atol=1e-300):
        return f"the robust loss {name} of this gtsam is not the one that is known"
    return loss


def _parameters(model: Any) -> tuple[bool, float]:
    """Whether GTSAM sums the loss over the residual's numbers, and the constant; only the serialized text tells."""
    scheme, *numbers = model.serialize().split("\n")[1].split()[3:]
    return scheme != _OF_THE_LENGTH, float(numbers[0]) if numbers else 1.0
