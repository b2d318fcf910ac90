"""relax: the semidefinite relaxation of a graph with every intermediate object, to solve or to explore."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import gtsam
import numpy as np
import scipy.sparse as sp

from gtsam_sdp.backends.base import Backend
from gtsam_sdp.backends.clarabel_ import ClarabelBackend
from gtsam_sdp.bound import PairTerms, VerifiedBound, verify_bound
from gtsam_sdp.chordal.conic import ConicProblem, build_conic, hull_adjoint
from gtsam_sdp.chordal.coordinates import CoordinateMaker
from gtsam_sdp.chordal.recovery import clique_matrices, pair_multipliers, recover, rotation_multipliers
from gtsam_sdp.chordal.solution import SdpSolution
from gtsam_sdp.chordal.tree import CliqueTree, OrderingChoice
from gtsam_sdp.coordinates import centred_coordinates
from gtsam_sdp.errors import ProblemTooLargeError
from gtsam_sdp.factors.build import build_terms
from gtsam_sdp.qcqp import Qcqp
from gtsam_sdp.reading.graph import OnUnsupported, Reading, read
from gtsam_sdp.terms import Terms
from gtsam_sdp.tolerances import MAX_CONIC_BYTES
from gtsam_sdp.variables import Array


@dataclass(frozen=True)
class PredictedCost:
    """What an interior-point iteration will cost: sums over the cones of n svec entries of n^3 / 3 and n^2."""

    flops: float
    bytes: float
    largest_clique: int

    def __str__(self) -> str:
        return (
            f"{self.flops:.1e} flops an iteration, {self.bytes / 1e9:.2g} GB, "
            f"largest clique {self.largest_clique} variables"
        )


@dataclass(frozen=True)
class Relaxation:
    """The semidefinite relaxation of a graph on the cliques of its Bayes tree.

    Attributes:
        reading: the graph and values as arrays.
        terms: the terms of the factors.
        tree: the cliques.
        tighten: whether pairs of rotations are held in the convex hull of SO(3).
    """

    reading: Reading
    terms: Sequence[Terms]
    tree: CliqueTree
    tighten: bool

    @cached_property
    def qcqp(self) -> Qcqp:
        """The lifted problem, in coordinates centred at the values."""
        coordinates = centred_coordinates(self.reading, self.terms, allow_free=False)
        return Qcqp.assemble(self.terms, self.reading.layout, coordinates)

    @cached_property
    def _maker(self) -> CoordinateMaker:
        return CoordinateMaker(self.reading.layout, self.reading.estimate, self.qcqp.coordinates.anchor)

    @cached_property
    def conic(self) -> ConicProblem:
        """The relaxation's dual as a block linear matrix inequality."""
        return build_conic(self.terms, self.reading.layout, self.tree, self._maker, tighten=self.tighten)

    @cached_property
    def predicted_cost(self) -> PredictedCost:
        """Cost of an interior-point iteration, known before anything is built."""
        space = self.reading.layout.space
        rows = np.array([self._rows(c.members) for c in self.tree.cliques]) * (2 if space.dimension == 2 else 1)
        entries = rows * (rows + 1.0) / 2
        return PredictedCost(
            float((entries**3).sum() / 3), float(8 * (entries**2).sum()), int(self.tree.sizes.max(initial=0))
        )

    def _rows(self, members: Sequence[int]) -> int:
        layout = self.reading.layout
        world = len(layout.keys)
        rotations = sum(v == world or layout.rotation[v] >= 0 for v in members)
        return rotations * layout.space.rows + sum(len(layout.translation_rows(v)) for v in members if v != world)

    def solve(
        self,
        backend: Backend | None = None,
        *,
        tolerance: float = 1e-9,
        time_limit: float | None = None,
        verbose: bool = False,
    ) -> SdpSolution:
        """Solves the relaxation and verifies the bound that its multipliers give.

        Args:
            backend: the solver, Clarabel if None.
            tolerance: relative tolerance of the solver.
            time_limit: of the solver [s].
            verbose: show the solver's progress.

        Raises:
            ProblemTooLargeError: the predicted cost is beyond this machine.
        """
        if self.predicted_cost.bytes > MAX_CONIC_BYTES:
            raise ProblemTooLargeError(
                f"The relaxation is too large for an interior-point method: {self.predicted_cost}. "
                "Use certify, whose multipliers need no SDP, on a solution from a good start."
            )
        started = time.perf_counter()
        problem = self.conic
        built = time.perf_counter()
        result = (backend or ClarabelBackend()).solve(
            problem, tolerance=tolerance, time_limit=time_limit, verbose=verbose
        )
        solved = time.perf_counter()
        layout = self.reading.layout
        recovered = recover(problem, result.z, self.tree, layout, self._maker)
        Y = self._projected(recovered.Y)
        multipliers = rotation_multipliers(problem, result.y, layout)
        bound, size = self._verify(problem, result.y, multipliers, Y)
        return SdpSolution(
            status=result.status,
            message=result.message,
            objective=result.objective / problem.scale + problem.offset,
            bound=bound,
            clique_matrices=tuple(clique_matrices(problem, result.z, layout)),
            eigenvalue_ratios=recovered.eigenvalue_ratios,
            multipliers=multipliers,
            size=size,
            Y=Y,
            layout=layout,
            iterations=result.iterations,
            timings={
                "building": built - started,
                "solving": solved - built,
                "recovery and verification": time.perf_counter() - solved,
            },
        )

    def _projected(self, Y: Array) -> Array:
        layout = self.reading.layout
        Y = Y.copy()
        at = layout.blocks[:, None] + np.arange(layout.space.rows)
        if len(at):
            Y[at] = layout.space.nearest_rotations(Y[at])
        return Y

    def _verify(
        self, problem: ConicProblem, y: Array, multipliers: dict[int, Array], Y: Array
    ) -> tuple[VerifiedBound, float]:
        """The verified bound and the size of the terms, in coordinates centred at the recovered point."""
        if not (np.isfinite(y).all() and np.isfinite(Y).all()):
            return VerifiedBound(-np.inf, np.inf, np.inf, 0.0, 0), 0.0
        reading = replace(self.reading, estimate=Y)
        coordinates = centred_coordinates(reading, self.terms, allow_free=False)
        qcqp = Qcqp.assemble(self.terms, reading.layout, coordinates)
        blocks = coordinates.kept[qcqp.blocks]
        ordered = np.array([multipliers[int(b)] for b in blocks])
        reduced = coordinates.reduce(Y)
        pairs = _pair_terms(problem, y, qcqp) if len(problem.pairs) else None
        return verify_bound(qcqp, ordered, reduced, pairs=pairs), qcqp.term_size(reduced)


def _pair_terms(problem: ConicProblem, y: Array, qcqp: Qcqp) -> PairTerms:
    W = pair_multipliers(problem, y)
    adjoint = hull_adjoint(W) / 2
    first, second = (qcqp.coordinates.position[problem.pairs[:, k]] for k in (0, 1))
    rows = np.repeat(first[:, None] + np.arange(3), 3, axis=1).ravel()
    columns = np.tile(second[:, None] + np.arange(3), (1, 3)).ravel()
    upper = sp.coo_array((adjoint.ravel(), (rows, columns)), shape=qcqp.Q.shape)
    return PairTerms((upper + upper.T).tocsc(), float(np.trace(W, axis1=1, axis2=2).sum()))


def relax(
    graph: gtsam.NonlinearFactorGraph,
    values: gtsam.Values,
    *,
    tighten: bool = True,
    ordering: OrderingChoice = "metis",
    on_unsupported: OnUnsupported = "raise",
) -> Relaxation:
    """The semidefinite relaxation of a graph on the cliques of GTSAM's Bayes tree, nothing solved yet.

    Args:
        graph: the graph; it is not changed.
        values: where terms touch the cost, and the scale of the coordinates.
        tighten: hold every pair of rotations in a clique in the convex hull of SO(3).
        ordering: "metis", "colamd" or an ordering of the graph's keys.
        on_unsupported: as in `certify`.

    Raises:
        GtsamSdpError: as `certify`; InvalidGraphError for an ordering that misses keys.
    """
    reading = read(graph, values, on_unsupported)
    terms = build_terms(reading)
    return Relaxation(reading, terms, CliqueTree.build(terms, reading.layout, ordering), tighten)
