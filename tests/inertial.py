"""A lidar-inertial graph with simulated data: odometry, IMU, GPS, loop closures, biases that wander."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import gtsam
import numpy as np
from gtsam.symbol_shorthand import B, V, X

GTSAM: Any = gtsam
GRAVITY = 9.81
STEP = 0.5
"""Seconds between two states."""

_SAMPLES = 25
_ACCELEROMETER, _GYROSCOPE = 1e-3, 1e-4
"""Noise densities [m/s^2/sqrt(Hz)], [rad/s/sqrt(Hz)]."""

_WALK = np.repeat([1e-3, 1e-4], 3)
"""By how much biases change from one state to the next [m/s^2], [rad/s]."""


def parameters(combined: bool) -> Any:
    kind = GTSAM.PreintegrationCombinedParams if combined else GTSAM.PreintegrationParams
    made = kind.MakeSharedU(GRAVITY)
    made.setAccelerometerCovariance(np.eye(3) * _ACCELEROMETER**2)
    made.setGyroscopeCovariance(np.eye(3) * _GYROSCOPE**2)
    made.setIntegrationCovariance(np.eye(3) * 1e-8)
    if combined:
        made.setBiasAccCovariance(np.eye(3) * _WALK[0] ** 2 / STEP)
        made.setBiasOmegaCovariance(np.eye(3) * _WALK[3] ** 2 / STEP)
    return made


def bias_of(numbers: np.ndarray) -> gtsam.imuBias.ConstantBias:
    return gtsam.imuBias.ConstantBias(numbers[:3], numbers[3:])


@dataclass(frozen=True)
class Problem:
    """Attributes: the graph with unknown biases, and values from dead reckoning by odometry."""

    graph: gtsam.NonlinearFactorGraph
    start: gtsam.Values

    def holding(self, biases: gtsam.Values) -> gtsam.NonlinearFactorGraph:
        """The graph with the biases held at given values."""
        graph = gtsam.NonlinearFactorGraph(self.graph)
        for key in biases.keys():
            if gtsam.symbolChr(key) == ord("b"):
                graph.add(gtsam.NonlinearEqualityConstantBias(key, biases.atConstantBias(key)))
        return graph


def _turned(rng: np.random.Generator, sigma: float) -> gtsam.Pose3:
    """Noise of odometry and loop closures."""
    return gtsam.Pose3.Expmap(np.concatenate([rng.normal(size=3) * sigma / 5, rng.normal(size=3) * sigma]))


def lidar_inertial(states: int, rng: np.random.Generator, *, combined: bool = False) -> Problem:
    """A vehicle on circles that wobble: each lap of 40 states closes loops with the one before.

    Args:
        states: how many.
        rng: of the noise.
        combined: `CombinedImuFactor` in place of `ImuFactor` and a random walk.
    """
    made = parameters(combined)
    kind = GTSAM.PreintegratedCombinedMeasurements if combined else GTSAM.PreintegratedImuMeasurements
    graph, start = gtsam.NonlinearFactorGraph(), gtsam.Values()
    model = gtsam.noiseModel.Diagonal.Sigmas(np.repeat([0.01, 0.05], 3))
    gps, walk = gtsam.noiseModel.Diagonal.Sigmas([1.0, 1.0, 3.0]), gtsam.noiseModel.Diagonal.Sigmas(_WALK)
    rate = 2 * np.pi / (40 * STEP)
    state = gtsam.NavState(gtsam.Pose3(), np.array([5.0, 0, 0]))
    bias, truth = np.array([0.05, -0.03, 0.02, 0.002, -0.001, 0.003]), [state]
    estimate = gtsam.Pose3()
    graph.add(gtsam.PriorFactorPose3(X(0), gtsam.Pose3(), gtsam.noiseModel.Diagonal.Sigmas(np.repeat([0.01, 0.1], 3))))
    graph.add(gtsam.PriorFactorVector(V(0), state.velocity(), gtsam.noiseModel.Isotropic.Sigma(3, 0.5)))
    sigmas = np.repeat([0.02, 0.002], 3)
    guess = bias + rng.normal(size=6) * sigmas
    graph.add(gtsam.PriorFactorConstantBias(B(0), bias_of(guess), gtsam.noiseModel.Diagonal.Sigmas(sigmas)))
    start.insert(X(0), estimate)
    start.insert(V(0), state.velocity())
    start.insert(B(0), bias_of(guess))
    for k in range(states - 1):
        clean, noisy = kind(made, bias_of(bias * 0)), kind(made, bias_of(guess))
        for sample in range(_SAMPLES):
            t = (k + sample / _SAMPLES) * STEP
            turn = np.array([0.1 * np.sin(2.1 * t), 0.1 * np.cos(1.7 * t), rate])
            pull = np.array([0.3 * np.sin(0.9 * t), 5 * rate, 0.2 * np.cos(1.3 * t)])
            up = truth[-1].attitude().unrotate(np.array([0, 0, GRAVITY]))  # of the last state: it may swing a little
            dt, spread = STEP / _SAMPLES, np.sqrt(_SAMPLES / STEP)
            clean.integrateMeasurement(pull + up, turn, dt)
            accelerometer = pull + up + bias[:3] + rng.normal(size=3) * _ACCELEROMETER * spread
            noisy.integrateMeasurement(accelerometer, turn + bias[3:] + rng.normal(size=3) * _GYROSCOPE * spread, dt)
        truth.append(clean.predict(truth[-1], bias_of(bias * 0)))
        keys = (X(k), V(k), X(k + 1), V(k + 1), B(k), *([B(k + 1)] if combined else []))
        graph.add((GTSAM.CombinedImuFactor if combined else GTSAM.ImuFactor)(*keys, noisy))
        if not combined:
            graph.add(gtsam.BetweenFactorConstantBias(B(k), B(k + 1), gtsam.imuBias.ConstantBias(), walk))
        bias = bias + rng.normal(size=6) * _WALK
        step = truth[-2].pose().between(truth[-1].pose()).compose(_turned(rng, 0.05))
        graph.add(gtsam.BetweenFactorPose3(X(k), X(k + 1), step, model))
        if k % 5 == 0:
            graph.add(gtsam.GPSFactor(X(k + 1), truth[-1].position() + rng.normal(size=3) * [1, 1, 3], gps))
        if k >= 40 and k % 4 == 0:
            loop = truth[k - 39].pose().between(truth[-1].pose()).compose(_turned(rng, 0.05))
            graph.add(gtsam.BetweenFactorPose3(X(k - 39), X(k + 1), loop, model))
        estimate = estimate.compose(step)
        start.insert(X(k + 1), estimate)
        start.insert(V(k + 1), truth[-1].velocity() + rng.normal(size=3) * 0.3)
        start.insert(B(k + 1), bias_of(guess))
    return Problem(graph, start)


def optimized(graph: gtsam.NonlinearFactorGraph, start: gtsam.Values) -> gtsam.Values:
    settings = gtsam.LevenbergMarquardtParams()
    settings.setRelativeErrorTol(1e-12)
    return gtsam.LevenbergMarquardtOptimizer(graph, start, settings).optimize()
