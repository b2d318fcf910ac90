"""The graph whose cost graduated non-convexity minimises in the end: truncated least squares as robust noise models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gtsam
import numpy as np
from scipy.special import chdtri

from gtsam_sdp.errors import InvalidGraphError, format_factor
from gtsam_sdp.linalg.array import Array

_GAUSSIAN = {"Unit", "Isotropic", "Diagonal", "Gaussian"}
_OUTSIDE = 0.01
"""Share of true measurements beyond GTSAM's own threshold."""


def truncated_least_squares(
    graph: gtsam.NonlinearFactorGraph,
    *,
    thresholds: float | Sequence[float] | Array | None = None,
    known_inliers: Sequence[int] = (),
    known_outliers: Sequence[int] = (),
) -> gtsam.NonlinearFactorGraph:
    """The graph with `noiseModel.mEstimator.TruncatedLeastSquares`, as `gtsam.GncLMOptimizer` with TLS sees it.

    Each factor costs the smaller one of 1/2 |whitened residual|^2 and its threshold b, which is the loss with the
    constant sqrt(2 b). `certify`, `solve` and `refine` take the graph as it is:

        optimizer = gtsam.GncLMOptimizer(graph, initial, parameters)
        result = optimizer.optimize()
        robust = truncated_least_squares(
            graph, thresholds=optimizer.getInlierCostThresholds(), known_inliers=inliers
        )
        print(certify(robust, result))

    Args:
        graph: as it was given to GTSAM; it is not changed. Robust losses in it are left out, as GTSAM does.
        thresholds: costs 1/2 |whitened residual|^2 up to which factors are inliers, one for all or one for each place
            in the graph, `optimizer.getInlierCostThresholds()`; None: GTSAM's own, half the 99% quantile of chi-square
            for the residual's dimension.
        known_inliers: places of factors that keep their Gaussian noise.
        known_outliers: places of factors that are left out; their places stay empty.

    Returns:
        A graph with the same factors at the same places. Factors without a noise model stay as they are.

    Raises:
        InvalidGraphError: a factor with hard noise that is no known inlier, or one that GTSAM cannot copy.
        ValueError: thresholds that are not positive, or not as many as factors; places that are not in the graph.
    """
    count = graph.size()
    inliers, outliers = ({int(place) for place in places} for places in (known_inliers, known_outliers))
    if any(place not in range(count) for place in inliers | outliers):
        raise ValueError(f"Known inliers and outliers are places in the graph, 0 to {count - 1}.")
    if inliers & outliers:
        raise ValueError(f"Factor {min(inliers & outliers)} is a known inlier and a known outlier.")
    given = None if thresholds is None else np.broadcast_to(_checked(thresholds, count), count)
    robust = gtsam.NonlinearFactorGraph(graph)
    noises: dict[tuple[int, float], Any] = {}
    models: list[Any] = []  # kept alive, so that no two get the same number
    for place in range(count):
        factor: Any = graph.at(place)
        if factor is None or not isinstance(factor, gtsam.NoiseModelFactor):
            continue
        if place in outliers:
            robust.remove(place)
            continue
        model = factor.noiseModel()
        name = type(model).__name__
        inner: Any = model.noise() if isinstance(model, gtsam.noiseModel.Robust) else model
        models.append(inner)
        if place in inliers:
            if inner is not model:
                robust.replace(place, _copied(factor, inner, place))
            continue
        if type(inner).__name__ not in _GAUSSIAN:
            raise InvalidGraphError(
                f"{_name(factor, place)} has {name} noise, which cannot be truncated: make it a known inlier."
            )
        cost = float(chdtri(inner.dim(), _OUTSIDE)) / 2 if given is None else float(given[place])
        if (id(inner), cost) not in noises:
            loss = gtsam.noiseModel.mEstimator.TruncatedLeastSquares.Create(float(np.sqrt(2 * cost)))
            noises[id(inner), cost] = gtsam.noiseModel.Robust.Create(loss, inner)
        robust.replace(place, _copied(factor, noises[id(inner), cost], place))
    return robust


def _checked(thresholds: float | Sequence[float] | Array, count: int) -> Array:
    """Thresholds as numbers, one or as many as factors."""
    given = np.asarray(thresholds, dtype=float)
    if given.shape not in ((), (count,)):
        raise ValueError(f"thresholds must be one number or {count}, one for each place, not {given.shape}.")
    if not (np.isfinite(given) & (given > 0)).all():
        raise ValueError("thresholds must be positive numbers.")
    return given


def _copied(factor: Any, noise: Any, place: int) -> Any:
    """The factor with another noise model."""
    try:
        return factor.cloneWithNewNoiseModel(noise)
    except RuntimeError as error:
        raise InvalidGraphError(
            f"{_name(factor, place)} cannot be copied by GTSAM: make it a known inlier, or a factor of another type."
        ) from error


def _name(factor: Any, place: int) -> str:
    return format_factor(place, type(factor).__name__, tuple(factor.keys()))
