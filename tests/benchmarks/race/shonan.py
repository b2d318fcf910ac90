"""GTSAM's Shonan averaging, run as its tests run it."""

from __future__ import annotations

from typing import Any

import gtsam
import numpy as np

from tests.benchmarks.race.finish import Finish, timed
from tests.benchmarks.race.graphs import Edge, RaceGraph, rotation_key


def race_shonan(race: RaceGraph) -> Finish:
    """Runs Shonan averaging from GTSAM's random rotations or from the start given; it raises if it cannot certify."""
    d = race.dimension
    measurements = [_measurement(race, edge) for edge in race.edges]
    parameters = getattr(gtsam, f"ShonanAveragingParameters{d}")(gtsam.LevenbergMarquardtParams.CeresDefaults())

    def run() -> gtsam.Values | None:
        shonan = getattr(gtsam, f"ShonanAveraging{d}")(measurements, parameters)
        initial = shonan.initializeRandomly() if race.initial is None else _numbered(race, race.initial)
        try:
            return shonan.run(initial, d, 10)[0]
        except RuntimeError as error:
            if "did not converge" in str(error):
                return None
            raise

    found, seconds = timed(run)
    if found is None:
        return Finish(seconds, False, "not certified, no values")
    at = found.atRot2 if d == 2 else found.atRot3
    values = gtsam.Values()
    for number in range(race.poses):
        values.insert(rotation_key(number), at(number))
    return Finish(seconds, True, "certified", race.graph.error(values))


def _measurement(race: RaceGraph, edge: Edge) -> Any:
    """In 2D Shonan takes poses, and uses their rotations."""
    noise, rotation = race.rotation_noise(edge), edge.measured.rotation()
    if race.dimension == 3:
        return gtsam.BinaryMeasurementRot3(edge.i, edge.j, rotation, noise)
    noise = gtsam.noiseModel.Isotropic.Sigma(3, noise.sigma())
    return gtsam.BetweenFactorPose2(edge.i, edge.j, gtsam.Pose2(rotation, np.zeros(2)), noise)


def _numbered(race: RaceGraph, values: gtsam.Values) -> gtsam.Values:
    at = values.atRot2 if race.dimension == 2 else values.atRot3
    result = gtsam.Values()
    for number in range(race.poses):
        result.insert(number, at(rotation_key(number)))
    return result
