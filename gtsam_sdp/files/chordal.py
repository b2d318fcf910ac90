"""The cost of SE-Sync for the edges and priors of a g2o file, as Frobenius factors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gtsam
import numpy as np

from gtsam_sdp.errors import DatasetError
from gtsam_sdp.files.g2o import PoseLines
from gtsam_sdp.linalg.array import Array

_SCALE = 2.0  # kappa and tau of SE-Sync give twice the log-map cost for small errors


def measurements(graph: gtsam.NonlinearFactorGraph, count: int) -> list[Any]:
    """What the first `count` factors measure."""
    factors: list[Any] = [graph.at(k) for k in range(count)]
    return [factor.measured() for factor in factors]


def chordal_graph(measured: gtsam.NonlinearFactorGraph, lines: PoseLines) -> gtsam.NonlinearFactorGraph:
    """Frobenius factors with the measurements of the between factors and priors and the weights kappa and tau.

    Priors of positions, whose squared distance needs no other form, keep their information, with the same factor 2
    between this cost and the log-map cost.
    """
    d = lines.dimension
    models = _Models(d)
    between: Any = gtsam.FrobeniusBetweenFactorPose3 if d == 3 else gtsam.FrobeniusBetweenFactorPose2
    prior_of: Any = gtsam.FrobeniusPriorPose3 if d == 3 else gtsam.FrobeniusPriorPose2
    result = gtsam.NonlinearFactorGraph()
    names = [lines.edge_name(k) for k in range(len(lines.ids))]
    weights = _weights(lines, lines.information, names)
    for (i, j), pose, weight in zip(lines.ids, measurements(measured, len(lines.ids)), weights, strict=True):
        result.add(between(i, j, pose, models(weight)))
    whole = lines.pose_priors
    weights = iter(_weights(lines, lines.prior_information, [prior.name for prior in whole]))
    for prior in lines.priors:
        if prior.kind == "pose":
            result.add(prior_of(prior.key, prior.measured.matrix(), models(next(weights))))
        else:
            result.add(prior.factor(_SCALE))
    return result


class _Models:
    """Noise models of pairs of weights, each made once."""

    def __init__(self, dimension: int) -> None:
        self._dimension = dimension
        self._known: dict[tuple[float, float], Any] = {}

    def __call__(self, weights: Array) -> Any:
        key = (float(weights[0]), float(weights[1]))
        if key not in self._known:
            d = self._dimension
            sigmas = 1 / np.sqrt(2 * np.repeat(key, [d * (d + 1), d + 1]))  # column by column
            self._known[key] = gtsam.noiseModel.Diagonal.Sigmas(sigmas)
        return self._known[key]


def _inverse_traces(matrices: Array) -> Array:
    """tr(M^-1) of symmetric matrices (m, k, k); infinite where one is singular."""
    with np.errstate(divide="ignore"):
        return (1 / np.linalg.eigvalsh(matrices)).sum(axis=1)


def _weights(lines: PoseLines, information: Array, names: Sequence[str]) -> Array:
    """kappa and tau of poses measured with the information (m, k, k), as (m, 2)."""
    d = lines.dimension
    tau = d / _inverse_traces(information[:, :d, :d])
    kappa = 3 / (2 * _inverse_traces(information[:, 3:, 3:])) if d == 3 else information[:, 2, 2]
    bad = np.flatnonzero(~((kappa > 0) & (tau > 0) & np.isfinite(kappa + tau)))
    if len(bad):
        raise DatasetError(
            f"{lines.path}, {names[int(bad[0])]}: the chordal weights are not positive; use cost='geodesic'."
        )
    return np.stack([kappa, tau], axis=1)
