"""The graphs of the race: rotations and positions of a pose graph file are keys of their own, as GTSAM wants them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import gtsam
import numpy as np

from gtsam_sdp.files.datasets import read_pose_graph
from tests.benchmarks import common

Subject = Literal["poses", "rotations"]
Start = Literal["none", "file", "chordal"]


class Edge(NamedTuple):
    """A measurement between poses, by number."""

    i: int
    j: int
    measured: Any
    kappa: float
    tau: float


def rotation_key(number: int) -> int:
    return gtsam.symbol("R", number)


def position_key(number: int) -> int:
    return gtsam.symbol("t", number)


@dataclass(frozen=True)
class RaceGraph:
    """A graph that all entrants solve.

    Its error is sum kappa |R_j - R_i R~|_F^2 + tau |t_j - t_i - R_i t~|^2, without the second part if rotations alone
    are sought.

    Attributes:
        dimension: 2 or 3.
        poses: how many.
        edges: the measurements, weights multiplied already.
        graph: FrobeniusBetweenFactorRot2/3 and, for poses, RelativeTranslationFactor2/3.
        initial: where to start, None for nowhere.
    """

    dimension: int
    poses: int
    edges: Sequence[Edge]
    graph: gtsam.NonlinearFactorGraph
    initial: gtsam.Values | None

    @property
    def has_positions(self) -> bool:
        """Whether positions are sought too."""
        return self.graph.size() > len(self.edges)

    def rotation_noise(self, edge: Edge) -> Any:
        """Noise of a rotation whose Frobenius cost is kappa |.|^2."""
        return gtsam.noiseModel.Isotropic.Sigma(2 * self.dimension - 3, (2 * edge.kappa) ** -0.5)


def build_race_graph(path: Path, subject: Subject, start: Start, weight: float = 1.0) -> RaceGraph:
    """The chordal cost of a file, all weights multiplied by a number."""
    file = read_pose_graph(path, cost="chordal")
    numbers = {key: number for number, key in enumerate(sorted(file.initial.keys()))}
    edges = []
    for k in range(file.graph.size()):
        measured: Any = file.measured.at(k)
        weighted: Any = file.graph.at(k)
        i, j = (numbers[key] for key in measured.keys())
        kappa, tau = weight / (2 * weighted.noiseModel().sigmas()[[0, -1]] ** 2)  # rotation first, translation last
        edges.append(Edge(i, j, measured.measured(), float(kappa), float(tau)))
    initial = None
    if start != "none":
        poses = file.initial if start == "file" else common.good_start(path)
        initial = _separate(poses, file.dimension, numbers, subject)
    race = RaceGraph(file.dimension, len(numbers), edges, gtsam.NonlinearFactorGraph(), initial)
    _add_factors(race, subject)
    return race


def _separate(poses: gtsam.Values, dimension: int, numbers: dict[int, int], subject: Subject) -> gtsam.Values:
    """Rotations, and positions if they are sought, of poses."""
    at = poses.atPose2 if dimension == 2 else poses.atPose3
    values = gtsam.Values()
    for key, number in numbers.items():
        values.insert(rotation_key(number), at(key).rotation())
        if subject == "poses":
            values.insert(position_key(number), np.array(at(key).translation()))
    return values


def _add_factors(race: RaceGraph, subject: Subject) -> None:
    between = getattr(gtsam, f"FrobeniusBetweenFactorRot{race.dimension}")
    translation = getattr(gtsam, f"RelativeTranslationFactor{race.dimension}")
    for edge in race.edges:
        i, j = rotation_key(edge.i), rotation_key(edge.j)
        race.graph.add(between(i, j, edge.measured.rotation(), race.rotation_noise(edge)))
        if subject == "poses":
            ends = position_key(edge.i), position_key(edge.j)
            race.graph.add(translation(i, *ends, np.array(edge.measured.translation()), 2 * edge.tau))
