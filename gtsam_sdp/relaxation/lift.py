"""What a lift is: rows, quadratic forms on them, and constraints; the cliques and the cones are the same for all."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from gtsam_sdp.lift.problem import Problem
from gtsam_sdp.linalg.array import Array
from gtsam_sdp.proof.bound import VerifiedBound
from gtsam_sdp.reading.graph import Reading
from gtsam_sdp.relaxation.clique_coordinates import CliqueCoordinates
from gtsam_sdp.relaxation.forms import Forms
from gtsam_sdp.relaxation.problem import CliqueProblem, MultiplierGroup
from gtsam_sdp.relaxation.tree import CliqueTree, OrderingChoice
from gtsam_sdp.terms.terms import Terms
from gtsam_sdp.values.layout import Layout

_FARTHER = 10.0 ** np.arange(-12, -2)
"""Shares by which tangents of distances are tried to touch farther away, the first that improves the bound no more."""


@dataclass(frozen=True)
class Recovered:
    """A point of the lift.

    Attributes:
        Y: raw rows as in `Layout.lift`, rotations projected, (raw, rows).
        eigenvalue_ratios: lambda_r / lambda_(r+1) of each clique matrix, r the lift's rank, (c,).
    """

    Y: Array
    eigenvalue_ratios: Array


@dataclass(frozen=True)
class Lift(ABC):
    """A lift of a graph: a matrix with one block of rows for each variable, and a cost linear in its Gram matrix.

    Attributes:
        problem: the graph and values as arrays, and the terms of its factors.
        forms: the terms on the rows of the lift.
        size: rows of the lift.
        owner: the variable of each row; the number of variables stands for the world frame, (size,).
    """

    problem: Problem
    forms: Sequence[Forms]
    size: int
    owner: Array

    @property
    def reading(self) -> Reading:
        """The graph and values as arrays."""
        return self.problem.reading

    @property
    def terms(self) -> Sequence[Terms]:
        """The terms of the graph's factors."""
        return self.problem.terms

    @property
    def layout(self) -> Layout:
        """Rows of the variables."""
        return self.problem.layout

    @property
    def stiffness_forms(self) -> Sequence[Forms] | None:
        """The terms made convex, which tells how stiffly cliques are held; None: not worth knowing."""
        return None

    @property
    @abstractmethod
    def rank(self) -> int:
        """Rank of the real clique matrices where the relaxation is tight."""

    @property
    @abstractmethod
    def columns(self) -> int:
        """Columns of the lifted matrix."""

    @abstractmethod
    def tree(self, ordering: OrderingChoice) -> CliqueTree:
        """The cliques."""

    @abstractmethod
    def coordinates(self, members: Sequence[int]) -> CliqueCoordinates:
        """Coordinates of the rows of some variables."""

    @abstractmethod
    def multipliers(self, tree: CliqueTree, *, tighten: bool) -> Sequence[MultiplierGroup]:
        """Multipliers of the constraints, and of redundant ones if `tighten`."""

    @abstractmethod
    def clique_size(self, members: Sequence[int]) -> int:
        """Side of the real cone of a clique."""

    def real_labels(self, coordinates: CliqueCoordinates) -> Array:
        """The real row that each leading real coordinate is, (k,)."""
        return coordinates.rows[: coordinates.turning]

    def real_terms(
        self, local: Array, matrix: Array, turning: int, coordinates: CliqueCoordinates
    ) -> tuple[Array, Array]:
        """Local rows of terms as combinations of real coordinates, (m, r, n), and their real matrices, (m, r, r)."""
        return local, matrix

    def real_map(self, matrix: Array, part: CliqueCoordinates, whole: CliqueCoordinates) -> Array:
        """A map between coordinates as a map between real coordinates."""
        return matrix

    def factors(self, matrix: Array, coordinates: CliqueCoordinates) -> tuple[list[Array], float]:
        """Candidates for the best factor of the lift's rank of a clique matrix, and its eigenvalue ratio."""
        factor, ratio = best_factor(matrix, self.rank)
        return [factor], ratio

    @abstractmethod
    def recover(self, problem: CliqueProblem, z: Array) -> Recovered:
        """Values from the multipliers z of the cones."""

    @abstractmethod
    def verify(self, problem: CliqueProblem, y: Array, Y: Array) -> tuple[VerifiedBound, float]:
        """The bound that multipliers y prove, and the size of the terms; Y is a point near the optimum."""


def best_touching(
    problem: CliqueProblem, terms: Sequence[Terms], y: Array, prove: Callable[[Sequence[Terms]], VerifiedBound]
) -> VerifiedBound:
    """The best bound of the solver's multipliers; terms of distances touch where the solver says, or a little farther.

    A tangent that touches farther away has more curvature: nothing else makes up for what S lacks on positions.
    """
    best = prove(problem.touching(terms, y))
    if not any(len(own.members) for own in problem.slopes):
        return best
    for less in _FARTHER:
        bound = prove(problem.touching(terms, y, less))
        if bound.value <= best.value and np.isfinite(best.value):
            break
        best = max(best, bound, key=lambda bound: bound.value)
    return best


def best_factor(matrix: Array, rank: int) -> tuple[Array, float]:
    """Best factor of a rank of a symmetric matrix, and lambda_rank / lambda_(rank+1)."""
    eigenvalues, vectors = np.linalg.eigh(matrix)
    largest = np.maximum(eigenvalues[::-1], 0.0)
    factor = vectors[:, ::-1][:, :rank] * np.sqrt(largest[:rank])
    if factor.shape[1] < rank:
        factor = np.pad(factor, ((0, 0), (0, rank - factor.shape[1])))
    rest = largest[rank] if len(largest) > rank else 0.0
    return factor, float(largest[min(rank, len(largest)) - 1] / max(rest, 1e-300))


def projected(Y: Array, layout: Layout) -> Array:
    """Raw rows with their rotations and directions projected, turned so that the world frame is the identity."""
    Y = layout.projected(Y)
    return Y if layout.world < 0 else Y @ Y[layout.world : layout.world + layout.space.rows].conj().T
