"""The clique-decomposed relaxation: tree, coordinates, conic problem, recovery, verified bounds."""

from __future__ import annotations

from typing import Any

import clarabel
import gtsam
import numpy as np
import pytest
import scipy.sparse as sp

from gtsam_sdp import InvalidGraphError, ProblemTooLargeError, certify, relax
from gtsam_sdp.backends.base import Backend, BackendResult, SolverStatus
from gtsam_sdp.linalg.svec import smat, svec, svec_place
from gtsam_sdp.relaxation.gram import GramLift, positive_part
from gtsam_sdp.relaxation.hull import HULL, hull_adjoint
from tests import problems

SPLIT_RING = {20: 2.7017995359, 100: 1.3461771256}
"""Published optima of the split ring."""


def with_priors(d: int, seed: int = 3) -> tuple[gtsam.NonlinearFactorGraph, gtsam.Values]:
    graph, truth = problems.small_graph(d, sigma_rotation=0.05, seed=seed)
    prior: Any = gtsam.PriorFactorPose2 if d == 2 else gtsam.PriorFactorPose3
    at = truth.atPose2 if d == 2 else truth.atPose3
    model = problems.noise_model(d, 0.1, 0.2)
    for key in (2, 7):
        graph.add(prior(key, at(key).retract(0.1 * np.ones(model.dim())), model))
    return graph, truth


@pytest.mark.parametrize("ordering", ["metis", "colamd"])
def test_tree_of_a_real_graph(ordering: Any) -> None:
    graph, values = gtsam.load2D(gtsam.findExampleDataFile("w100.graph"))
    tree = relax(graph, values, ordering=ordering).tree
    tree.check()
    assert sum(len(c.frontals) for c in tree.cliques) == 100
    assert (tree.home[:100] >= 0).all()
    assert "cliques" in str(tree)
    for index, clique in enumerate(tree.cliques):
        assert clique.parent < index


def test_tree_of_a_long_chain_and_of_a_forest() -> None:
    """No recursion: a chain of 20,000 poses; every component has a root."""
    rng = np.random.default_rng(0)
    poses = [gtsam.Pose2(float(i), 0.0, 0.0) for i in range(20000)]
    graph, truth = problems.pose_graph(poses, [(i, i + 1) for i in range(19999)], 0.01, 0.1, rng)
    other, more = problems.pose_graph(poses[:5], [(0, 1), (1, 2), (2, 3), (3, 4)], 0.01, 0.1, rng, first_key=30000)
    graph.push_back(other)
    truth.insert(more)
    relaxation = relax(graph, truth)
    natural = gtsam.Ordering()
    for key in relaxation.reading.layout.keys.tolist():
        natural.push_back(key)
    for ordering in ("metis", natural):
        tree = relaxation.lift.tree(ordering)
        tree.check()
        assert sum(c.parent < 0 for c in tree.cliques) == 2
        assert tree.sizes.max() <= 3
    assert tree.depth > 19990


def test_ordering_that_misses_keys() -> None:
    graph, truth = problems.ring(2, 6)
    ordering = gtsam.Ordering()
    for key in (0, 1, 2, 3):
        ordering.push_back(key)
    with pytest.raises(InvalidGraphError, match=r"ordering misses 2 key\(s\) of the graph, the first is 4"):
        relax(graph, truth, ordering=ordering)
    with pytest.raises(ValueError, match=r'"metis", "colamd" or a gtsam\.Ordering'):
        relax(graph, truth, ordering="natural")  # type: ignore[arg-type]


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("absolute", [False, True])
@pytest.mark.parametrize("lift", ["gram", "vector"])
def test_clique_coordinates_and_their_inverse(d: int, absolute: bool, lift: Any) -> None:
    """Rows come back up to a common shift, and a separator has the same coordinates seen from either clique."""
    graph, truth = with_priors(d) if absolute else problems.small_graph(d, seed=3)
    relaxation = relax(graph, truth, lift=lift)
    lifted, rng = relaxation.lift, np.random.default_rng(0)
    Y = rng.normal(size=(lifted.size, 3)) + (1j * rng.normal(size=(lifted.size, 3)) if d == 2 else 0)
    for clique in relaxation.tree.cliques:
        own = lifted.coordinates(clique.members)
        x = own.inverse @ Y[own.rows]
        np.testing.assert_allclose(own.inverse @ own.basis, np.eye(own.size), atol=1e-9)
        assert len(lifted.real_map(np.eye(own.size), own, own)) == lifted.clique_size(clique.members)
        back = own.basis @ x - Y[own.rows]
        free = np.zeros(len(own.rows), dtype=bool)
        if isinstance(lifted, GramLift):
            free = lifted.maker.shiftable[own.rows] >= 0
        np.testing.assert_allclose(back[~free], 0, atol=1e-9)
        np.testing.assert_allclose(back[free], np.broadcast_to(back[free][:1], back[free].shape), atol=1e-9)
        if clique.separator:
            part = lifted.coordinates(clique.separator)
            parent = lifted.coordinates(relaxation.tree.cliques[clique.parent].members)
            np.testing.assert_allclose(own.map_to(part) @ x, part.inverse @ Y[part.rows], atol=1e-9)
            seen = parent.map_to(part) @ (parent.inverse @ Y[parent.rows])
            np.testing.assert_allclose(seen, part.inverse @ Y[part.rows], atol=1e-9)


def test_hull_of_rotations() -> None:
    """I + K(E) has eigenvalues 0, 0, 0, 4 on SO(3) and a negative one at reflections; K* is its adjoint."""
    rng = np.random.default_rng(0)
    for _ in range(50):
        E = gtsam.Rot3.Expmap(rng.normal(size=3)).matrix()
        for sign, lowest in ((1, 0.0), (-1, -0.9)):
            K = np.zeros((4, 4))
            for a in range(4):
                for b in range(a, 4):
                    K[a, b] = K[b, a] = sum(c * sign * E[i, j] for i, j, c in HULL[a, b])
            eigenvalues = np.linalg.eigvalsh(np.eye(4) + K)
            assert eigenvalues[0] <= lowest + 1e-12
            if sign == 1:
                np.testing.assert_allclose(eigenvalues, [0, 0, 0, 4], atol=1e-12)
            W = rng.normal(size=(4, 4))
            W = W + W.T
            assert np.sum(hull_adjoint(W[None]).value[0] * sign * E) == pytest.approx(np.sum(W * K))


def test_svec_of_a_matrix() -> None:
    M = np.random.default_rng(0).normal(size=(5, 5))
    M = M + M.T
    vector = svec(M)
    np.testing.assert_allclose(smat(vector, 5), M)
    assert vector @ vector == pytest.approx(np.sum(M * M))
    assert vector[svec_place(np.array(1), np.array(3))] == pytest.approx(np.sqrt(2) * M[1, 3])


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("kind", ["small", "ring", "priors", "noisy ring"])
@pytest.mark.parametrize("ordering", ["metis", "colamd"])
def test_bound_meets_the_optimum(d: int, kind: str, ordering: Any) -> None:
    """Tight relaxations: the verified bound is at the cost, and the recovered values are the optimum."""
    graph, truth = {
        "small": lambda: problems.small_graph(d, sigma_rotation=0.05, seed=3),
        "ring": lambda: problems.ring(d, 20, 0.1, 0.1, seed=1),
        "priors": lambda: with_priors(d),
        "noisy ring": lambda: problems.ring(d, 20, 0.5, 0.3, seed=1),
    }[kind]()
    best = problems.optimize(graph, truth)
    solution = relax(graph, best, ordering=ordering).solve()
    cost = graph.error(best)
    assert cost * (1 - 1e-4) <= solution.lower_bound <= cost * (1 + 1e-12)
    assert (solution.eigenvalue_ratios > 1e3).all()
    assert graph.error(problems.optimize(graph, solution.recover())) == pytest.approx(cost, rel=1e-8)
    assert graph.error(solution.recover()) == pytest.approx(cost, rel=1e-3)
    assert f"verified bound {solution.lower_bound:.10g}" in str(solution)
    certificate = certify(graph, best, method="sdp", tolerance=1e-3)
    assert certificate
    assert certificate.method == "sdp"


@pytest.mark.parametrize("count", [20, 100])
def test_published_ring(count: int) -> None:
    graph, truth = problems.split_ring(count)
    solution = relax(graph, truth).solve()
    optimum = SPLIT_RING[count]
    assert solution.lower_bound == pytest.approx(optimum, rel=1e-7)
    assert solution.lower_bound <= optimum * (1 + 1e-9)
    assert (solution.eigenvalue_ratios > 1e5).all()
    values = solution.recover()
    assert graph.error(values) == pytest.approx(optimum, rel=1e-7)
    assert certify(graph, values, tolerance=1e-6)


def test_tightening_closes_a_gap() -> None:
    """A noisy ring on which the plain relaxation leaves a gap that the convex hull of SO(3) closes."""
    rng = np.random.default_rng(0)
    poses = problems.ring_poses(3, 10)
    graph, truth = problems.pose_graph(poses, problems.ring_edges(10), 0.7, 0.3, rng)
    graph2 = gtsam.NonlinearFactorGraph()
    for k in range(graph.size()):  # exact terms: the gap is the relaxation's
        factor: Any = graph.at(k)
        i, j = factor.keys()
        graph2.add(gtsam.FrobeniusBetweenFactorPose3(i, j, factor.measured(), gtsam.noiseModel.Isotropic.Sigma(6, 0.5)))
    plain = relax(graph2, truth, tighten=False).solve()
    tight = relax(graph2, truth, tighten=True).solve()
    best = min(
        graph2.error(problems.optimize(graph2, start))
        for start in (truth, tight.recover(), *(problems.random_start(truth, rng) for _ in range(5)))
    )
    assert plain.lower_bound <= tight.lower_bound * (1 + 1e-6)
    assert tight.lower_bound <= best * (1 + 1e-9)
    assert tight.lower_bound == pytest.approx(best, rel=1e-4)


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("seed", range(3))
def test_bound_is_below_every_local_minimum(d: int, seed: int) -> None:
    graph, truth = problems.ring(d, 8, 1.0, 0.5, seed=seed)
    rng = np.random.default_rng(seed)
    costs = [graph.error(problems.optimize(graph, problems.random_start(truth, rng), 1e-9)) for _ in range(30)]
    solution = relax(graph, problems.optimize(graph, truth)).solve()
    assert solution.lower_bound <= min(costs) * (1 + 1e-9)


def test_trees_and_single_poses() -> None:
    rng = np.random.default_rng(0)
    poses = problems.random_poses(3, 5, rng)
    graph, truth = problems.pose_graph(poses, [(0, 1), (1, 2), (1, 3), (3, 4)], 0.1, 0.1, rng)
    graph.add(graph.at(0))  # a repeated factor
    best = problems.optimize(graph, truth)
    assert relax(graph, best).solve().lower_bound <= graph.error(best) + 1e-9
    single = gtsam.NonlinearFactorGraph()
    single.addPriorPose3(0, gtsam.Pose3(), gtsam.noiseModel.Unit.Create(6))
    values = problems.to_values([(0, gtsam.Pose3(gtsam.Rot3.Rx(0.1), np.ones(3)))])
    assert relax(single, values).solve().lower_bound <= 1e-6


def test_a_graph_with_two_components() -> None:
    graph, values = problems.ring(3, 6, 0.05, 0.1, seed=0)
    rng = np.random.default_rng(8)
    other, more = problems.pose_graph(
        problems.random_poses(3, 6, rng), [*problems.ring_edges(6), (0, 3)], 0.02, 0.1, rng, first_key=100
    )
    graph.push_back(other)
    values.insert(more)
    best = problems.optimize(graph, values)
    for ordering in ("metis", "colamd"):  # either component may come out mirrored
        solution = relax(graph, best, ordering=ordering).solve()
        assert solution.lower_bound == pytest.approx(graph.error(best), rel=1e-3)
        assert graph.error(solution.recover()) == pytest.approx(graph.error(best), rel=1e-3)


def test_too_large_problems_are_refused_at_once() -> None:
    graph, _ = gtsam.load3D(gtsam.findExampleDataFile("sphere2500.txt"))
    values = problems.to_values((k, gtsam.Pose3()) for k in graph.keyVector())
    relaxation = relax(graph, values)
    assert relaxation.predicted_cost.largest_clique > 60
    with pytest.raises(ProblemTooLargeError, match=r"largest clique \d+ variables"):
        relaxation.solve()


class Stopped(Backend):
    """A solver that stops at once, with a point that means nothing."""

    def __init__(self, value: float) -> None:
        self.value = value

    def solve(self, problem: Any, *, tolerance: float, time_limit: float | None, verbose: bool) -> BackendResult:
        y = np.full(len(problem.b), self.value)
        return BackendResult(SolverStatus.SOLVED, "lies", 1e9, y, np.full(len(problem.c), self.value), 0, 0.0)


@pytest.mark.parametrize("value", [0.0, 1.0, -5.0])
@pytest.mark.parametrize("d", [2, 3])
def test_a_solver_that_lies_proves_nothing(d: int, value: float) -> None:
    graph, truth = problems.ring(d, 8, 0.1, 0.1)
    best = problems.optimize(graph, truth)
    solution = relax(graph, best).solve(Stopped(value))
    assert solution.lower_bound <= graph.error(best)


def test_pair_multipliers_are_positive_semidefinite() -> None:
    W = positive_part(np.random.default_rng(0).normal(size=(50, 10)))
    assert W.shape == (50, 4, 4)
    assert np.linalg.eigvalsh(W).min() >= 0


def test_conic_problem_is_what_clarabel_solves() -> None:
    """The blocks of the dual slack at the solution are positive semidefinite, and the objectives agree."""
    graph, truth = problems.ring(3, 6, 0.1, 0.1)
    problem = relax(graph, problems.optimize(graph, truth)).conic
    solver: Any = clarabel
    settings = solver.DefaultSettings()
    settings.verbose = False
    settings.chordal_decomposition_enable = False
    cones = [solver.PSDTriangleConeT(int(n)) for n in problem.sizes]
    size = len(problem.b)
    solution = solver.DefaultSolver(
        sp.csc_matrix((size, size)), -problem.b, sp.csc_matrix(problem.A), problem.c, cones, settings
    ).solve()
    slack = problem.c - problem.A @ np.array(solution.x)
    for k, n in enumerate(problem.sizes.tolist()):
        block = smat(slack[problem.starts[k] : problem.starts[k + 1]], n)
        assert np.linalg.eigvalsh(block)[0] > -1e-6
    assert problem.b @ np.array(solution.x) == pytest.approx(problem.c @ np.array(solution.z), rel=1e-5)


def test_recovery_far_from_what_is_known_of_the_world() -> None:
    """Errors of alignment must not grow along a chain: arms to the world frame are a hundred metres long here."""
    graph, truth = problems.localisation_chain(100, seed=0)
    values = relax(graph, problems.optimize(graph, truth)).solve().recover()
    errors = [np.linalg.norm(values.atPose2(k).translation() - truth.atPose2(k).translation()) for k in range(100)]
    assert np.mean(errors) < 1.0
    assert graph.error(problems.optimize(graph, values)) == pytest.approx(17.689238, rel=1e-6)
