"""The error of log-map factors on poses, written for many values at once, and their terms on the same values."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gtsam_sdp.factors.geometry import exp_rotation, transform
from gtsam_sdp.factors.rotation_form import LocalForm
from gtsam_sdp.linalg.array import Array
from gtsam_sdp.values.space import Space

COVARIANCES = ("isotropic", "diagonal", "mild", "turned", "stiff", "correlated")


def exp_translation(omega: Array, v: Array) -> Array:
    """e = V(omega) v for vectors of space, (..., 3); series near zero."""
    theta = np.linalg.norm(omega, axis=-1, keepdims=True)
    safe = np.where(theta > 1e-2, theta, 1.0)
    second = np.where(theta > 1e-2, (1 - np.cos(safe)) / safe**2, 0.5 - theta**2 / 24 + theta**4 / 720)
    third = np.where(theta > 1e-2, (safe - np.sin(safe)) / safe**3, 1 / 6 - theta**2 / 120 + theta**4 / 5040)
    turned = np.cross(omega, v)
    return v + second * turned + third * np.cross(omega, turned)


def random_covariance(kind: str, d: int, rng: np.random.Generator) -> Array:
    """A covariance of (omega, v), in the units of a robot."""
    turn, move = 10 ** rng.uniform(-2.3, -0.7), 10 ** rng.uniform(-2, 0)
    size = 3 if d == 2 else 6
    sigmas = np.array([turn] * (size - d) + [move] * d)
    if kind == "isotropic":
        return np.diag(sigmas**2)
    if kind == "diagonal":
        return np.diag((sigmas * 10 ** rng.uniform(-0.5, 0.5, size)) ** 2)
    if kind == "correlated":
        root = np.linalg.qr(rng.normal(size=(size, size)))[0] * np.append(rng.uniform(0.05, 0.3), np.ones(size - 1))
        return sigmas[:, None] * (root @ root.T) * sigmas
    decades = {"mild": 0.5, "turned": 1.0, "stiff": 2.0}[kind]
    axes = np.linalg.qr(rng.normal(size=(size, size)))[0]
    spread = 10 ** rng.uniform(-decades, decades, size)
    return sigmas[:, None] * (axes * spread @ axes.T) * sigmas


@dataclass(frozen=True)
class Batch:
    """Factors between poses, m of them, at estimates of some sigmas.

    Attributes:
        space: the plane or space.
        information: L, rotation first, (m, k, k).
        r: r^ = (omega^, v^), (m, k).
        measured: R~, (m, rows, rows).
        offset: t~, (m, rows) [m].
    """

    space: Space
    information: Array
    r: Array
    measured: Array
    offset: Array

    @classmethod
    def random(cls, d: int, kinds: list[str], rng: np.random.Generator) -> Batch:
        """A factor of each of the kinds."""
        space = Space(d)
        covariance = np.array([random_covariance(kind, d, rng) for kind in kinds])
        count, size = covariance.shape[:2]
        information = np.linalg.inv(covariance)
        r = np.einsum("kij,kj->ki", np.linalg.cholesky(covariance), rng.normal(size=(count, size)))
        r *= 10 ** rng.uniform(-1.5, 0.3, size=(count, 1))
        turns = np.linalg.norm(r[:, : size - d], axis=1, keepdims=True)
        r *= np.minimum(1.0, 2.5 / turns)
        measured = exp_rotation(rng.uniform(-1.7, 1.7, size=(count, size - d)), space)
        offset = space.vectors(rng.normal(size=(count, d)) * 2)
        return cls(space, (information + information.swapaxes(1, 2)) / 2, r, measured, offset)

    @property
    def angles(self) -> int:
        return self.r.shape[1] - self.space.dimension

    def relative(self, r: Array) -> tuple[Array, Array]:
        """E and e at r, (m, n, k): (m n, rows, rows) and (m n, rows)."""
        flat = r.reshape(-1, r.shape[-1])
        E = exp_rotation(flat[:, : self.angles], self.space)
        if self.space.dimension == 3:
            return E, exp_translation(flat[:, :3], flat[:, 3:])
        zeros = np.zeros((len(flat), 1))
        turn = np.concatenate([zeros, zeros, flat[:, :1]], axis=1)
        return E, self.space.vectors(exp_translation(turn, np.concatenate([flat[:, 1:], zeros], axis=1))[:, :2])

    def cost(self, r: Array) -> Array:
        """1/2 r^T L r, (m, n)."""
        return np.einsum("kni,kij,knj->kn", r, self.information, r, optimize=True) / 2

    def value(self, form: LocalForm, r: Array) -> tuple[Array, Array]:
        """The terms and the sizes of their summands at r, (m, n); the first pose is at the origin."""
        count, samples = r.shape[:2]
        E, e = self.relative(r)
        measured, offset = np.repeat(self.measured, samples, axis=0), np.repeat(self.offset, samples, axis=0)
        rotation = measured @ E
        point = offset + transform(measured, e)
        rows = self.space.rows
        first = np.broadcast_to(np.eye(rows, dtype=self.space.dtype), rotation.shape)
        # the lifted rows of a rotation are its transpose, without conjugate: one complex number is its own
        local = np.concatenate([first, rotation.swapaxes(1, 2), point[:, None, :]], axis=1)
        local = local.reshape(count, samples, 2 * rows + 1, rows)
        value = np.einsum("knia,kij,knja->kn", local.conj(), form.matrix, local, optimize=True).real
        size = np.linalg.norm(local, axis=3)
        sizes = np.abs(form.matrix) if form.magnitude is None else form.magnitude
        return (
            value + form.constant[:, None],
            np.einsum("kni,kij,knj->kn", size, sizes, size, optimize=True) + np.abs(form.constant)[:, None],
        )

    def samples(self, count: int, max_cost: float, rng: np.random.Generator) -> Array:
        """Random r, (m, count, k), of angles up to pi: most of them cost up to `max_cost`, some along whitened axes."""
        m, k = self.r.shape
        y = rng.normal(size=(m, count, k))
        y *= rng.random(size=(m, count, 1)) ** rng.choice([0.0, 0.3], size=(1, count, 1)) / np.linalg.norm(
            y, axis=2, keepdims=True
        )
        sparse = rng.random(size=(1, count, 1)) < 0.3
        y = np.where(sparse & (np.abs(y) < 0.4), 0.05 * y, y)
        y /= np.maximum(1.0, np.linalg.norm(y, axis=2, keepdims=True))
        eigenvalues, axes = np.linalg.eigh(self.information)
        root = axes / np.sqrt(eigenvalues)[:, None, :]
        r = np.sqrt(2 * max_cost) * (y @ root.swapaxes(1, 2)) * rng.choice([1.0, 1.0, 0.3, 2.0], size=(1, count, 1))
        near = rng.random(size=(1, count, 1)) < 0.3
        r = np.where(near, self.r[:, None, :] + 0.3 * r * rng.random(size=(1, count, 1)) ** 2, r)
        turn = np.linalg.norm(r[:, :, : self.angles], axis=2, keepdims=True)
        r[:, :, : self.angles] *= np.where(turn > np.pi, np.pi * rng.random(turn.shape) / np.maximum(turn, 1e-9), 1.0)
        return r
