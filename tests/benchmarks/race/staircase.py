"""GTSAM's own Riemannian staircase, run as its example CertifiablePoseGraphOptimization runs it."""

from __future__ import annotations

from typing import Any, Literal

import gtsam
import numpy as np

from tests.benchmarks.race.finish import Finish, timed
from tests.benchmarks.race.graphs import RaceGraph, position_key, rotation_key

Policy = Literal["BCL", "Aggressive"]
"""How the augmented Lagrangian inside updates its multipliers and penalty; BCL is GTSAM's default."""


def staircase_parameters(dimension: int, policy: Policy) -> gtsam.RiemannianStaircaseParams:
    """Parameters of GTSAM's example, the others are the defaults: eta is 1e-3."""
    inner = gtsam.AugmentedLagrangianParams()
    inner.maxIterations = 50
    inner.absoluteViolationTolerance = 1e-8
    inner.updatePolicy = getattr(gtsam.AugmentedLagrangianUpdatePolicy, policy)
    result = gtsam.RiemannianStaircaseParams()
    result.pMin = dimension
    result.pMax = 10
    result.setAlmParams(inner)
    return result


def race_staircase(race: RaceGraph, policy: Policy) -> Finish:
    """Runs the staircase; without a start from FastSync rotations and random positions, as the example does."""
    parameters = staircase_parameters(race.dimension, policy)

    def run() -> Any:
        initial = _fast_sync(race) if race.initial is None else race.initial
        return gtsam.RiemannianStaircaseOptimizer(race.graph, _matrices(race, initial), parameters).optimize()

    result, seconds = timed(run)
    values = _values(race, result.roundedValues() if result.hasRoundedSolution() else result.values)
    verdict = f"{'' if result.certified else 'not '}certified, {result.finalRank} columns"
    return Finish(seconds, result.certified, verdict, race.graph.error(values))


def _fast_sync(race: RaceGraph) -> gtsam.Values:
    values = getattr(gtsam, f"fastSyncRot{race.dimension}")(race.graph)
    if race.has_positions:
        positions = np.random.default_rng(0).normal(size=(race.poses, race.dimension))
        for number, position in enumerate(positions):
            values.insert(position_key(number), position)
    return values


def _matrices(race: RaceGraph, values: gtsam.Values) -> gtsam.Values:
    """Values as the staircase takes them: rotations transposed, positions as rows."""
    rotation = values.atRot2 if race.dimension == 2 else values.atRot3
    result = gtsam.Values()
    for number in range(race.poses):
        key = rotation_key(number)
        result.insert(key, np.array(rotation(key).matrix().T))
        if race.has_positions:
            key = position_key(number)
            result.insert(key, np.array(values.atVector(key)).reshape(1, -1))
    return result


def _values(race: RaceGraph, matrices: gtsam.Values) -> gtsam.Values:
    """The nearest rotations, and the positions, of the staircase's matrices in their d leading directions."""
    d = race.dimension
    turns = np.array([matrices.atMatrix(rotation_key(n)) for n in range(race.poses)])  # (n, d, columns)
    axes = np.linalg.svd(turns.reshape(-1, turns.shape[2]), full_matrices=False)[2][:d].T
    if np.median(np.linalg.det(turns @ axes)) < 0:
        axes[:, -1] *= -1  # the staircase does not know a rotation from a reflection
    left, _, right = np.linalg.svd((turns @ axes).swapaxes(1, 2))
    left[:, :, -1] *= np.linalg.det(left @ right)[:, None]
    values = gtsam.Values()
    for number, rotation in enumerate(left @ right):
        made = gtsam.Rot3(rotation) if d == 3 else gtsam.Rot2.fromCosSin(rotation[0, 0], rotation[1, 0])
        values.insert(rotation_key(number), made)
        if race.has_positions:
            key = position_key(number)
            values.insert(key, (matrices.atMatrix(key) @ axes)[0])
    return values
