"""Generators of test problems: rings, grids and small graphs, seeded."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import Any

import gtsam
import numpy as np


def optimize(graph: gtsam.NonlinearFactorGraph, initial: gtsam.Values, tolerance: float = 1e-12) -> gtsam.Values:
    """Levenberg-Marquardt with a tight relative tolerance."""
    parameters = gtsam.LevenbergMarquardtParams()
    parameters.setRelativeErrorTol(tolerance)
    parameters.setAbsoluteErrorTol(0.0)
    parameters.setMaxIterations(200)
    return gtsam.LevenbergMarquardtOptimizer(graph, initial, parameters).optimize()


def to_values(items: Iterable[tuple[int, Any]]) -> gtsam.Values:
    values = gtsam.Values()
    for key, value in items:
        values.insert(key, value)
    return values


def loss_of_numbers(constant: float) -> Any:
    """Huber's loss of each number of a residual, a robust loss that no term is known for."""
    estimators: Any = gtsam.noiseModel.mEstimator
    return estimators.Huber.Create(constant, estimators.Base.ReweightScheme.Scalar)


def identity(d: int) -> Any:
    return gtsam.Pose2() if d == 2 else gtsam.Pose3()


def random_poses(d: int, count: int, rng: np.random.Generator, scale: float = 5.0) -> list[Any]:
    if d == 2:
        return [gtsam.Pose2(rng.uniform(-np.pi, np.pi), rng.normal(size=2) * scale) for _ in range(count)]
    return [
        gtsam.Pose3(gtsam.Rot3.Quaternion(*_unit(rng.normal(size=4))), rng.normal(size=3) * scale) for _ in range(count)
    ]


def _unit(v: np.ndarray) -> np.ndarray:
    return v / np.linalg.norm(v)


def ring_poses(d: int, count: int, radius: float = 5.0) -> list[Any]:
    """Poses on a circle, looking along it."""
    poses = []
    for i in range(count):
        angle = 2 * np.pi * i / count
        x, y = radius * np.cos(angle), radius * np.sin(angle)
        if d == 2:
            poses.append(gtsam.Pose2(x, y, angle + np.pi / 2))
        else:
            poses.append(gtsam.Pose3(gtsam.Rot3.Rz(angle + np.pi / 2), np.array([x, y, 0.3 * np.sin(2 * angle)])))
    return poses


def noise_model(d: int, sigma_rotation: float, sigma_translation: float) -> gtsam.noiseModel.Diagonal:
    turn = [sigma_rotation] * (1 if d == 2 else 3)
    move = [sigma_translation] * d
    return gtsam.noiseModel.Diagonal.Sigmas(np.array(move + turn if d == 2 else turn + move))


def pose_graph(
    poses: Sequence[Any],
    edges: Iterable[tuple[int, int]],
    sigma_rotation: float,
    sigma_translation: float,
    rng: np.random.Generator,
    first_key: int = 0,
) -> tuple[gtsam.NonlinearFactorGraph, gtsam.Values]:
    """Between factors with noisy measurements, and the true poses as values."""
    d = 2 if isinstance(poses[0], gtsam.Pose2) else 3
    model = noise_model(d, sigma_rotation, sigma_translation)
    factor_type: Any = gtsam.BetweenFactorPose2 if d == 2 else gtsam.BetweenFactorPose3
    graph = gtsam.NonlinearFactorGraph()
    for i, j in edges:
        noise = rng.normal(size=model.dim()) * model.sigmas()
        measured = poses[i].between(poses[j]).retract(noise)
        graph.add(factor_type(first_key + i, first_key + j, measured, model))
    return graph, to_values((first_key + k, pose) for k, pose in enumerate(poses))


def ring_edges(count: int) -> list[tuple[int, int]]:
    return [(i, (i + 1) % count) for i in range(count)]


def ring(
    d: int, count: int = 20, sigma_rotation: float = 0.05, sigma_translation: float = 0.1, seed: int = 0
) -> tuple[gtsam.NonlinearFactorGraph, gtsam.Values]:
    """A ring of poses with noisy measurements, and the true poses."""
    rng = np.random.default_rng(seed)
    return pose_graph(ring_poses(d, count), ring_edges(count), sigma_rotation, sigma_translation, rng)


def small_graph(
    d: int, count: int = 12, loops: int = 14, sigma_rotation: float = 0.1, sigma_translation: float = 0.1, seed: int = 0
) -> tuple[gtsam.NonlinearFactorGraph, gtsam.Values]:
    """A chain of random poses with random loop closures."""
    rng = np.random.default_rng(seed)
    edges = [(i, i + 1) for i in range(count - 1)]
    edges += [tuple(sorted(rng.choice(count, 2, replace=False).tolist())) for _ in range(loops)]
    return pose_graph(random_poses(d, count, rng), edges, sigma_rotation, sigma_translation, rng)


def manhattan_grid(
    count: int, sigma_rotation: float = 0.02, sigma_translation: float = 0.05, seed: int = 0
) -> tuple[gtsam.NonlinearFactorGraph, gtsam.Values]:
    """A 2D robot that drives a square grid line by line, with loop closures to the line before."""
    rng = np.random.default_rng(seed)
    width = int(np.sqrt(count))
    poses, edges = [], []
    for i in range(count):
        row, column = divmod(i, width)
        x = column if row % 2 == 0 else width - 1 - column
        poses.append(gtsam.Pose2(float(x), float(row), 0.0 if row % 2 == 0 else np.pi))
        if i:
            edges.append((i - 1, i))
        above = i - 2 * column - 1
        if row and above >= 0 and column != 0 and rng.random() < 0.5:
            edges.append((above, i))
    return pose_graph(poses, edges, sigma_rotation, sigma_translation, rng)


def with_turns(values: gtsam.Values, count: int, turns: int) -> gtsam.Values:
    """The values of a 2D ring with extra full turns spread along it: the start of a wrong minimum."""
    twisted = gtsam.Values()
    position, heading = np.zeros(2), 0.0
    poses = [values.atPose2(k) for k in range(count)]
    for k in range(count):
        twisted.insert(k, gtsam.Pose2(position[0], position[1], heading))
        step = poses[k].between(poses[(k + 1) % count])
        moved = gtsam.Pose2(position[0], position[1], heading).compose(step)
        position, heading = moved.translation(), heading + step.theta() + 2 * np.pi * turns / count
    return twisted


def random_start(values: gtsam.Values, rng: np.random.Generator) -> gtsam.Values:
    """Random poses for the keys of values that hold poses of one type."""
    keys = list(values.keys())
    d = 2 if gtsam.utilities.allPose2s(values).size() else 3
    return to_values(zip(keys, random_poses(d, len(keys), rng), strict=True))


def scaled_information(graph: gtsam.NonlinearFactorGraph, factor: float) -> gtsam.NonlinearFactorGraph:
    """The same between factors with all information matrices multiplied by `factor`."""
    result = gtsam.NonlinearFactorGraph()
    for k in range(graph.size()):
        old: Any = graph.at(k)
        model = gtsam.noiseModel.Gaussian.SqrtInformation(old.noiseModel().R() * np.sqrt(factor))
        result.add(type(old)(*old.keys(), old.measured(), model))
    return result


def scaled_lengths(
    graph: gtsam.NonlinearFactorGraph, values: gtsam.Values, factor: float
) -> tuple[gtsam.NonlinearFactorGraph, gtsam.Values]:
    """The same problem in another unit of length: positions times `factor`, sigmas of positions too."""
    result, moved = gtsam.NonlinearFactorGraph(), gtsam.Values()
    for k in range(graph.size()):
        old: Any = graph.at(k)
        pose = old.measured()
        d = 2 if isinstance(pose, gtsam.Pose2) else 3
        scale = np.ones(old.noiseModel().dim())
        scale[slice(0, 2) if d == 2 else slice(3, 6)] = 1 / factor
        model = gtsam.noiseModel.Gaussian.SqrtInformation(old.noiseModel().R() * scale)
        result.add(type(old)(*old.keys(), _stretched(pose, factor), model))
    for key in values.keys():
        at = values.atPose2 if gtsam.utilities.allPose2s(values).size() else values.atPose3
        moved.insert(key, _stretched(at(key), factor))
    return result, moved


def _stretched(pose: Any, factor: float) -> Any:
    return type(pose)(pose.rotation(), pose.translation() * factor)


class LibstdcxxNormal:
    """std::normal_distribution<double> of libstdc++ on std::mt19937: the polar method on 53-bit uniforms."""

    def __init__(self, seed: int) -> None:
        self._bits = np.random.MT19937()
        self._bits._legacy_seeding(seed)  # type: ignore[attr-defined]
        self._saved: float | None = None

    def _uniform(self) -> float:
        low, high = (int(x) for x in self._bits.random_raw(2))
        return (low + high * 2.0**32) / 2.0**64

    def __call__(self) -> float:
        if self._saved is not None:
            value, self._saved = self._saved, None
            return value
        while True:
            x, y = 2 * self._uniform() - 1, 2 * self._uniform() - 1
            r2 = x * x + y * y
            if 0 < r2 <= 1:
                break
        factor = np.sqrt(-2 * np.log(r2) / r2)
        self._saved = x * factor
        return y * factor


def published_ring(count: int, kappa: float = 100.0, tau: float = 25.0, seed: int = 42) -> tuple[list[Any], list[Any]]:
    """Poses of a ring, and noisy measurements of the steps between neighbours; seed 42 is the published one."""
    normal = LibstdcxxNormal(seed)
    poses = []
    for i in range(count):
        a = 2 * np.pi * i / count
        turn = gtsam.Rot3.Rz(a + np.pi / 2).compose(gtsam.Rot3.Ry(0.12 * np.cos(2 * a)))
        turn = turn.compose(gtsam.Rot3.Rx(0.15 * np.sin(a)))
        poses.append(gtsam.Pose3(turn, np.array([5 * np.cos(a), 5 * np.sin(a), 0.5 * np.sin(2 * a)])))
    poses = [poses[0].between(pose) for pose in poses]
    measured = []
    for i, j in ring_edges(count):
        step = poses[i].between(poses[j])
        noise = np.array([[normal(), normal()] for _ in range(3)])  # axis by axis: rotation, then translation
        turn, move = noise[:, 0] / np.sqrt(2 * kappa), noise[:, 1] / np.sqrt(tau)
        measured.append(gtsam.Pose3(step.rotation().compose(gtsam.Rot3.Expmap(turn)), step.translation() + move))
    return poses, measured


def split_ring(
    count: int, kappa: float = 100.0, tau: float = 25.0, seed: int = 42
) -> tuple[gtsam.NonlinearFactorGraph, gtsam.Values]:
    """The ring of poses with rotations and positions under keys of their own (R: count keys, t: count keys).

    FrobeniusBetweenFactorRot3 and RelativeTranslationFactor3 between neighbours; seed 42 is the published one.
    """
    poses, measured = published_ring(count, kappa, tau, seed)
    graph = gtsam.NonlinearFactorGraph()
    model = gtsam.noiseModel.Isotropic.Variance(3, 1 / kappa)
    for (i, j), step in zip(ring_edges(count), measured, strict=True):
        graph.add(gtsam.FrobeniusBetweenFactorRot3(i, j, step.rotation(), model))
        graph.add(gtsam.RelativeTranslationFactor3(i, count + i, count + j, step.translation(), tau))
    return graph, split_values(poses)


def split_values(poses: Sequence[gtsam.Pose3]) -> gtsam.Values:
    """Rotations under keys 0, 1, ..., positions under the keys that follow."""
    rotations = [(k, pose.rotation()) for k, pose in enumerate(poses)]
    return to_values([*rotations, *((len(poses) + k, pose.translation()) for k, pose in enumerate(poses))])


def joined_ring(count: int, kappa: float = 100.0, tau: float = 25.0) -> tuple[gtsam.NonlinearFactorGraph, gtsam.Values]:
    """The published ring with one key a pose: the same cost as `split_ring`, in FrobeniusBetweenFactorPose3."""
    poses, measured = published_ring(count, kappa, tau)
    graph = gtsam.NonlinearFactorGraph()
    for (i, j), step in zip(ring_edges(count), measured, strict=True):
        graph.add(_frobenius_factor(i, j, step, 1 / np.sqrt(kappa), 1 / np.sqrt(tau)))
    return graph, to_values(enumerate(poses))


def _frobenius_factor(i: int, j: int, measured: Any, sigma_entry: float, sigma_translation: float) -> Any:
    """Residual vec(T_j - T_i M), column by column, with one sigma for entries of rotations and one for positions."""
    d = 2 if isinstance(measured, gtsam.Pose2) else 3
    sigmas = np.repeat([sigma_entry, sigma_translation], [d * (d + 1), d + 1])
    factor: Any = gtsam.FrobeniusBetweenFactorPose2 if d == 2 else gtsam.FrobeniusBetweenFactorPose3
    return factor(i, j, measured, gtsam.noiseModel.Diagonal.Sigmas(sigmas))


def as_frobenius(graph: gtsam.NonlinearFactorGraph) -> gtsam.NonlinearFactorGraph:
    """The between factors of `pose_graph` with chordal distances, equal to second order: every term is exact."""
    result = gtsam.NonlinearFactorGraph()
    for k in range(graph.size()):
        old: Any = graph.at(k)
        sigmas = old.noiseModel().sigmas()
        turn, move = (sigmas[2], sigmas[0]) if len(sigmas) == 3 else (sigmas[0], sigmas[3])
        i, j = old.keys()
        result.add(_frobenius_factor(i, j, old.measured(), np.sqrt(2) * turn, move))
    return result


def distance_factor(i: int, j: int, measured: float, d: int = 3) -> gtsam.CustomFactor:
    """A factor that no term is known for: a distance that GTSAM does not know to be one."""

    def error(this: gtsam.CustomFactor, values: gtsam.Values, jacobians: Any) -> np.ndarray:
        at: Any = values.atPose2 if d == 2 else values.atPose3
        first, second = (at(key) for key in this.keys())
        moved = second.translation() - first.translation()
        distance = np.linalg.norm(moved)
        if jacobians is not None:
            for k, (pose, sign) in enumerate(((first, -1.0), (second, 1.0))):
                row = sign * moved / distance @ pose.rotation().matrix()
                jacobians[k] = np.append(row, 0.0)[None] if d == 2 else np.append(np.zeros(3), row)[None]
        return np.array([distance - measured])

    return gtsam.CustomFactor(gtsam.noiseModel.Unit.Create(1), [i, j], error)


def localisation_chain(
    count: int, odometry: float = 0.2, fine: float = 0.1, coarse: float = 1.0, every: int = 5, seed: int = 0
) -> tuple[gtsam.NonlinearFactorGraph, gtsam.Values]:
    """A 2D robot on a winding path that measures where it is along one axis of the world better than along the other.

    FrobeniusBetweenFactorPose2 with one sigma between neighbours. Every so many poses an absolute measurement, sigma
    `fine` along y and `coarse` along x or the other way round in turn: of the whole pose (FrobeniusPriorPose2) at the
    first of three, of the position (PoseTranslationPrior2D) at the others. The last pose has one too.
    """
    rng = np.random.default_rng(seed)
    poses = [gtsam.Pose2()]
    for i in range(count - 1):
        poses.append(poses[-1].compose(gtsam.Pose2(1.0, 0.0, 0.3 * np.sin(2 * np.pi * i / 25))))
    graph = gtsam.NonlinearFactorGraph()
    model = gtsam.noiseModel.Isotropic.Sigma(9, odometry)
    for i in range(count - 1):
        x, y, turn = rng.normal(size=3) * odometry
        measured = poses[i].between(poses[i + 1]).compose(gtsam.Pose2(x, y, turn / np.sqrt(2)))
        graph.add(gtsam.FrobeniusBetweenFactorPose2(i, i + 1, measured, model))
    for number, i in enumerate(sorted({*range(0, count, every), count - 1})):
        sigmas = np.array([fine, coarse] if number % 2 else [coarse, fine])
        position = poses[i].translation() + rng.normal(size=2) * sigmas
        if number % 3 == 0:
            matrix = gtsam.Pose2(poses[i].theta() + rng.normal() * fine, position).matrix()
            whole = gtsam.noiseModel.Diagonal.Sigmas(np.tile([*sigmas, 1.0], 3))  # column by column
            graph.add(gtsam.FrobeniusPriorPose2(i, matrix, whole))
        else:
            graph.add(gtsam.PoseTranslationPrior2D(i, position, gtsam.noiseModel.Diagonal.Sigmas(sigmas)))
    return graph, to_values(enumerate(poses))


def sighting(
    i: int, landmark: int, q: np.ndarray, sigma_range: float, sigma_bearing: float, rng: np.random.Generator
) -> Any:
    """Bearing and range, with noise, of a landmark at q in the frame of pose i."""
    d = len(q)
    distance = max(np.linalg.norm(q) + sigma_range * rng.normal(), 0.05)
    if d == 2:
        direction: Any = gtsam.Rot2(np.arctan2(q[1], q[0]) + sigma_bearing * rng.normal())
    else:
        direction = gtsam.Unit3(q).retract(sigma_bearing * rng.normal(size=2))
    noise = gtsam.noiseModel.Diagonal.Sigmas(np.array([sigma_bearing] * (d - 1) + [sigma_range]))
    factor: Any = gtsam.BearingRangeFactor2D if d == 2 else gtsam.BearingRangeFactor3D
    return factor(i, landmark, direction, distance, noise)


def direction_graph(seed: int, held: str, offset: float = 0.0) -> tuple[gtsam.NonlinearFactorGraph, gtsam.Values]:
    """Five points and the directions between them, with ranges; the values are the truth.

    Args:
        seed: of the points and the noise.
        held: what holds them: "priors" of all points, "poses" that see them, or "nothing".
        offset: how far from the origin they are [m].
    """
    rng = np.random.default_rng(seed)
    places = 5 * rng.normal(size=(5, 3)) + offset
    graph, values = gtsam.NonlinearFactorGraph(), gtsam.Values()
    poses = ring_poses(3, 6)
    if held == "poses":
        graph, values = pose_graph(poses, ring_edges(6), 0.02, 0.05, rng, first_key=200)
    for k, place in enumerate(places):
        values.insert(k, place)
        if held == "priors":
            measured = place + 0.05 * rng.normal(size=3)
            graph.add(gtsam.PriorFactorPoint3(k, measured, gtsam.noiseModel.Isotropic.Sigma(3, 0.1)))
        elif held == "poses":
            for i, pose in enumerate(poses[:3]):
                graph.add(sighting(200 + i, k, pose.transformTo(place), 0.1, 0.02, rng))
    quadratic: Any = getattr(gtsam, "QuadraticRangeFactor3")  # noqa: B009
    for k, (i, j) in enumerate(combinations(range(5), 2)):
        away = places[i] - places[j]
        distance = float(np.linalg.norm(away) + 0.05 * rng.normal())
        graph.add(quadratic(j, i, 100 + k, distance, 25.0))
        values.insert(100 + k, gtsam.Unit3(away))
    return graph, values


def landmark_loop(
    d: int, count: int, landmarks: int, sigma_range: float, sigma_bearing: float, seed: int, seen: int = 4
) -> tuple[gtsam.NonlinearFactorGraph, gtsam.Values]:
    """A robot drives a loop in steps of a metre, with odometry, and sees its nearest landmarks by bearing and range.

    The landmarks (keys l0, l1, ...) are up to 8 m from the loop. Only the landmarks close it: the last pose has no
    edge to the first. The values are the truth.
    """
    rng = np.random.default_rng(seed)
    radius = count / (2 * np.pi)
    poses = ring_poses(d, count, radius)
    graph, values = pose_graph(poses, [(i, i + 1) for i in range(count - 1)], 0.02, 0.05, rng)
    angles, distances = rng.uniform(0, 2 * np.pi, landmarks), radius + rng.uniform(-8, 8, landmarks)
    places = np.column_stack([distances * np.cos(angles), distances * np.sin(angles), rng.normal(size=landmarks)])[
        :, :d
    ]
    used: set[int] = set()
    for i, pose in enumerate(poses):
        for j in np.argsort(np.linalg.norm(places - pose.translation(), axis=1))[:seen].tolist():
            graph.add(sighting(i, gtsam.symbol("l", j), pose.transformTo(places[j]), sigma_range, sigma_bearing, rng))
            used.add(j)
    for j in used:
        values.insert(gtsam.symbol("l", j), places[j])
    return graph, values


def beacon_flight(
    d: int, count: int, sigma_range: float = 0.1, density: float = 0.05, seed: int = 0
) -> tuple[gtsam.NonlinearFactorGraph, gtsam.Values]:
    """A body that moves on a smooth curve and measures its distance to four known beacons ten times a second.

    Positions x0, x1, ..., velocities v0, v1, ...; constant velocity but for white accelerations of power spectral
    density `density` [m^2/s^3] on each axis; beacons a0 ... a3 with hard values. The values are the truth.
    """
    rng = np.random.default_rng(seed)
    step = 0.1
    times = step * np.arange(count)
    curve = [20 + 12 * np.cos(0.08 * times), 20 + 9 * np.sin(0.13 * times), 3 + 2 * np.sin(0.05 * times)][:d]
    speed = [-0.96 * np.sin(0.08 * times), 1.17 * np.cos(0.13 * times), 0.1 * np.cos(0.05 * times)][:d]
    positions, velocities = np.column_stack(curve), np.column_stack(speed)
    beacons = np.array([[0.0, 0, 0], [40, 0, 6], [0, 40, 6], [40, 40, 0]])[:, :d]
    motion: Any = getattr(gtsam, f"WnoaMotionFactorPoint{d}")
    ranging: Any = getattr(gtsam, f"RangeFactor{d}")
    hard: Any = getattr(gtsam, f"PriorFactorPoint{d}")
    data: Any = gtsam.StateData  # pyright: ignore[reportAttributeAccessIssue]
    noise = gtsam.noiseModel.Isotropic.Sigma(1, sigma_range)
    graph, values = gtsam.NonlinearFactorGraph(), gtsam.Values()
    for k, beacon in enumerate(beacons):
        graph.add(hard(gtsam.symbol("a", k), beacon, gtsam.noiseModel.Constrained.All(d)))
        values.insert(gtsam.symbol("a", k), beacon)
    states = [data(gtsam.symbol("x", i), gtsam.symbol("v", i), float(times[i])) for i in range(count)]
    for i in range(count):
        values.insert(gtsam.symbol("x", i), positions[i])
        values.insert(gtsam.symbol("v", i), velocities[i])
        if i:
            graph.add(motion(states[i - 1], states[i], np.full(d, density)))
        for k, beacon in enumerate(beacons):
            distance = float(np.linalg.norm(positions[i] - beacon) + sigma_range * rng.normal())
            graph.add(ranging(gtsam.symbol("x", i), gtsam.symbol("a", k), distance, noise))
    return graph, values
