"""Pictures are drawn on the axes given, at both ends of sizes."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import gtsam
import matplotlib as mpl
import numpy as np
import pytest

from gtsam_sdp import MatplotlibNotInstalledError, Qcqp, certify, plot, refine, relax, solve
from gtsam_sdp.plot.marks import colours
from gtsam_sdp.plot.relaxation import smallest_eigenvalues
from gtsam_sdp.plot.trajectory import positions, sorts_of
from gtsam_sdp.proof.multipliers import certificate_matrix, closed_form_multipliers
from gtsam_sdp.results.notes import percent
from tests import problems

mpl.use("Agg")
plt = pytest.importorskip("matplotlib.pyplot")


@pytest.fixture
def ax() -> Iterator[Any]:
    figure, ax = plt.subplots()
    yield ax
    figure.canvas.draw()
    plt.close(figure)


@pytest.fixture
def space() -> Iterator[Any]:
    figure, ax = plt.subplots(subplot_kw={"projection": "3d"})
    yield ax
    figure.canvas.draw()
    plt.close(figure)


def test_tree_of_a_small_graph_names_its_keys(ax: Any) -> None:
    graph, values = problems.small_graph(3, count=12, loops=5, seed=3)
    relaxation = relax(graph, values)
    assert plot.plot_tree(relaxation.tree, relaxation.reading.layout, ax) is ax
    places = ax.collections[0].get_offsets()
    assert len(places) == len(relaxation.tree.cliques)
    np.testing.assert_array_equal(-places[:, 1], relaxation.tree.depths)
    names = {name for text in ax.texts for name in text.get_text().split(", ")}
    assert names == {str(k) for k in range(12)}


def test_tree_of_a_long_chain(ax: Any) -> None:
    """Thousands of cliques, no recursion, no names."""
    graph = gtsam.NonlinearFactorGraph()
    model = gtsam.noiseModel.Unit.Create(3)
    for k in range(3000):
        graph.add(gtsam.BetweenFactorPose2(k, k + 1, gtsam.Pose2(1.0, 0.0, 0.0), model))
    values = problems.to_values((k, gtsam.Pose2(float(k), 0.0, 0.0)) for k in range(3001))
    relaxation = relax(graph, values, ordering="metis")
    plot.plot_tree(relaxation.tree, relaxation.reading.layout, ax)
    assert len(ax.texts) == 0
    assert np.isfinite(ax.collections[0].get_offsets()).all()
    assert "of 1 to 3" in str(relaxation.tree)


@pytest.mark.parametrize("by", ["cost", "gap"])
def test_trajectory_colours_factors_by_their_share(ax: Any, by: Any) -> None:
    graph, start = problems.small_graph(2, count=9, loops=4, seed=3)
    graph.add(gtsam.PriorFactorPose2(0, gtsam.Pose2(), gtsam.noiseModel.Unit.Create(3)))
    values = problems.optimize(graph, start)
    certificate = certify(graph, values)
    assert plot.plot_trajectory(graph, values, certificate, by=by, ax=ax) is ax
    lines = ax.collections[0]
    assert len(lines.get_segments()) == graph.size()
    whole = certificate.cost if by == "cost" else certificate.gap
    share = (certificate.terms.cost if by == "cost" else certificate.terms.contribution) / whole
    np.testing.assert_allclose(lines.get_array(), np.sort(share))
    with pytest.raises(ValueError, match='by must be "cost" or "gap"'):
        plot.plot_trajectory(graph, values, certificate, by="time", ax=ax)  # type: ignore[arg-type]


def test_trajectory_tells_how_few_factors_cost_most(ax: Any) -> None:
    graph, values = problems.ring(2, 9)
    values = problems.optimize(graph, values)
    bad = gtsam.Pose2(3.0, 3.0, 0.5)
    graph.add(gtsam.PriorFactorPose2(0, values.atPose2(0).compose(bad), gtsam.noiseModel.Unit.Create(3)))
    graph.add(gtsam.PriorFactorPose2(0, values.atPose2(0), gtsam.noiseModel.Unit.Create(3)))
    certificate = certify(graph, values)
    plot.plot_trajectory(graph, values, certificate, ax=ax)
    assert ax.get_title().endswith(f"\ncost {certificate.cost:.6g}: 1 of 11 factors make up half of it")


def test_trajectory_does_not_show_rounding_as_shares(ax: Any) -> None:
    graph, values = problems.beacon_flight(2, 9)
    values = problems.optimize(graph, values)
    certificate = certify(graph, values)
    assert certificate.terms.contribution.sum() < 1e-9 * certificate.gap
    plot.plot_trajectory(graph, values, certificate, by="gap", ax=ax)
    assert "0% of it in the factors' terms" in ax.get_title()
    assert ax.collections[0].norm(ax.collections[0].get_array()).max() == 0  # all in the lowest colour


def test_certificates_that_do_not_fit(ax: Any) -> None:
    """A solution stands for its certificate; one of another graph is refused, and what is none too."""
    graph, values = problems.small_graph(2, count=9, loops=4, seed=3)
    solution = solve(graph)
    graph.remove(0)
    graph.add(gtsam.PriorFactorPose2(0, gtsam.Pose2(), gtsam.noiseModel.Unit.Create(3)))
    with pytest.raises(ValueError, match="of another graph: its factors are of other keys"):
        plot.plot_trajectory(graph, values, solution, ax=ax)
    refined = refine(graph, values)
    assert plot.plot_trajectory(graph, values, refined, by="gap", ax=ax) is ax
    assert len(ax.collections[0].get_segments()) == graph.size() - 1
    graph.remove(3)
    with pytest.raises(ValueError, match=r"its factors are 12, this graph 11.* of this graph and values"):
        plot.plot_trajectory(graph, values, refined.certificate, ax=ax)
    nothing: Any = "certified"
    with pytest.raises(ValueError, match="must be a Certificate or a Solution, not str"):
        plot.plot_trajectory(graph, values, nothing, ax=ax)
    with pytest.raises(ValueError, match="plot_stages needs a Solution, of solve or refine, not Certificate"):
        plot.plot_stages(refined.certificate, ax)  # type: ignore[arg-type]


def test_trajectory_in_space_and_from_above(ax: Any, space: Any) -> None:
    graph, values = problems.ring(3, 9)
    for axes in (ax, space):
        assert plot.plot_trajectory(graph, values, ax=axes) is axes
    assert space.get_zlabel() == "z [m]"
    made = plot.plot_trajectory(graph, values)
    assert made.name == "3d"
    plt.close(made.figure)


def test_trajectory_of_costs_that_are_zero(ax: Any) -> None:
    graph, values = (
        gtsam.NonlinearFactorGraph(),
        problems.to_values([(0, gtsam.Pose2()), (1, gtsam.Pose2(1.0, 0.0, 0.0))]),
    )
    graph.add(gtsam.BetweenFactorPose2(0, 1, gtsam.Pose2(1.0, 0.0, 0.0), gtsam.noiseModel.Isotropic.Sigma(3, 0.1)))
    plot.plot_trajectory(graph, values, certify(graph, values), by="gap", ax=ax)
    np.testing.assert_array_equal(ax.collections[0].get_array(), [0.0])
    assert ax.get_title() == "CERTIFIED: no solution is better by more than rounding\nno gap"


def test_missing_matplotlib_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, values = problems.ring(2, 5)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(MatplotlibNotInstalledError, match=r'pip install "gtsam-sdp\[plot\]"'):
        plot.plot_trajectory(graph, values)


def test_positions_of_all_kinds_of_values() -> None:
    rotations_apart = problems.split_ring(5)[1]
    keys, places = positions(rotations_apart)
    assert keys.tolist() == [5, 6, 7, 8, 9]
    np.testing.assert_array_equal(places[1], rotations_apart.atVector(6))
    mixed = problems.to_values([(7, gtsam.Pose2(1.0, 2.0, 0.3)), (3, np.array([4.0, 5.0])), (9, np.zeros(4))])
    keys, places = positions(mixed)
    assert keys.tolist() == [3, 7]
    np.testing.assert_allclose(places, [[4, 5], [1, 2]])
    assert positions(gtsam.Values())[1].shape == (0, 2)


def test_velocities_are_no_positions(ax: Any) -> None:
    graph, values = problems.beacon_flight(2, 9)
    keys, _ = positions(values)
    assert {chr(key >> 56) for key in keys.tolist()} == {"a", "x"}
    plot.plot_comparison(graph, values, values, ax=ax)
    assert len(ax.collections[0].get_segments()) == 8  # the path, from the motion between neighbours


@pytest.mark.parametrize("d", [2, 3])
def test_comparison_moves_what_has_the_same_shape_onto_it(ax: Any, space: Any, d: int) -> None:
    graph, values = problems.ring(d, 9)
    axes = ax if d == 2 else space
    motion = gtsam.Pose2(3.0, 4.0, 1.0) if d == 2 else gtsam.Pose3(gtsam.Rot3.RzRyRx(1.0, 2.0, 3.0), np.ones(3))
    at: Any = values.atPose2 if d == 2 else values.atPose3
    moved = problems.to_values((k, motion.compose(at(k))) for k in range(9))
    assert plot.plot_comparison(graph, moved, values, names=("old", "new"), ax=axes) is axes
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["old", "new"]
    if d == 2:
        first, second = (c.get_segments() for c in ax.collections if hasattr(c, "get_segments"))
        np.testing.assert_allclose(np.array(first), np.array(second), atol=1e-9)


def test_sight_lines_are_pale_but_for_those_that_matter(ax: Any) -> None:
    values = problems.beacon_flight(2, 30)[1]
    robot = gtsam.Values()
    for key in values.keys():
        if chr(key >> 56) == "x":
            robot.insert(key, gtsam.Pose2(0.0, values.atPoint2(key)))
        elif chr(key >> 56) == "a":
            robot.insert(key, values.atPoint2(key))
    poses = [key for key in robot.keys() if chr(key >> 56) == "x"]
    beacons = [key for key in robot.keys() if chr(key >> 56) == "a"]
    seen, unit = gtsam.NonlinearFactorGraph(), gtsam.noiseModel.Unit.Create(3)
    for first, second in pairwise(poses):
        seen.add(gtsam.BetweenFactorPose2(first, second, robot.atPose2(first).between(robot.atPose2(second)), unit))
    random, wrong = np.random.default_rng(0), (poses[4], beacons[1])
    for pose in poses:
        for beacon in beacons:
            distance = float(np.linalg.norm(robot.atPose2(pose).translation() - robot.atPoint2(beacon)))
            error = 3.0 if (pose, beacon) == wrong else 0.1 * random.normal()
            model = gtsam.noiseModel.Isotropic.Sigma(1, 0.1)
            seen.add(gtsam.RangeFactor2D(pose, beacon, max(distance + error, 0.01), model))
    keys, places = positions(robot)
    assert set(sorts_of(seen, robot, keys).tolist()) == {"pose", "beacon"}
    plot.plot_trajectory(seen, robot, certify(seen, robot), ax=ax)
    path, coloured, pale = ax.collections[:3]
    assert len(path.get_segments()) == len(poses) - 1
    assert len(coloured.get_segments()) == 1  # the wrong range
    ends = np.array(coloured.get_segments()[0])
    np.testing.assert_allclose(ends, [places[keys == key][0] for key in sorted(wrong, reverse=True)])
    assert len(pale.get_segments()) == len(poses) * len(beacons) - 1
    assert pale.get_linewidths()[0] < path.get_linewidths()[0] / 2
    names = [text.get_text() for text in ax.get_legend().get_texts()]
    assert names == ["stand out", "sight lines", f"{len(poses)} poses", f"{len(beacons)} beacons"]


def test_landmarks_that_are_seen_are_no_beacons() -> None:
    graph, values = gtsam.NonlinearFactorGraph(), problems.to_values([(0, gtsam.Pose2()), (1, np.ones(2))])
    model = gtsam.noiseModel.Unit.Create(2)
    graph.add(gtsam.BearingRangeFactor2D(0, 1, gtsam.Rot2(), 1.0, model))
    assert sorts_of(graph, values, positions(values)[0]).tolist() == ["pose", "landmark"]


@pytest.mark.parametrize(("low", "high"), [(1.0, 100.0), (0.7, 1.0), (1.0, 1.0)])
def test_colours_span_what_differs(low: float, high: float) -> None:
    share = np.linspace(low, high, 400)
    share /= share.sum()
    _, norm = colours(share)
    assert norm.vmax == share.max()
    assert norm.vmin == min(np.quantile(share, 0.05), share.max() / 2)


def test_titles_conclude_at_a_wrong_minimum_too(ax: Any) -> None:
    graph, values = problems.ring(2, 20)
    right, wrong = (problems.optimize(graph, problems.with_turns(values, 20, k)) for k in (0, 1))
    certificate = certify(graph, wrong, method="multipliers")
    plot.plot_trajectory(graph, wrong, certificate, by="gap", ax=ax)
    assert ax.get_title().startswith(f"{certificate.status.name}: a better solution may exist")
    assert ax.get_title().endswith("the rest: a wrong minimum, or a bound that is not tight")
    plot.plot_comparison(graph, wrong, right, names=("wrong", "right"), ax=ax)
    assert re.match(r"right costs [\d.]+% less than wrong: ", ax.get_title())
    plot.plot_comparison(graph, right, right, ax=ax)
    assert ax.get_title() == f"both cost {graph.error(right):.6g}"


def test_spectrum_tells_a_wrong_minimum(ax: Any) -> None:
    graph, values = problems.ring(2, 20)
    right = problems.optimize(graph, values)
    wrong = problems.optimize(graph, problems.with_turns(values, 20, 1))
    for found, negative in ((right, 0), (wrong, 1)):
        assert plot.plot_spectrum(Qcqp.from_graph(graph, found), found, ax=ax) is ax
        assert ax.get_title().startswith(f"{negative} negative")


@pytest.mark.parametrize("d", [2, 3])
def test_spectrum_of_a_certified_optimum_has_the_zeros_it_must_have(ax: Any, d: int) -> None:
    """Y's columns and the shift, though the values are optimal for the factors and not quite for their terms."""
    graph, start = problems.small_graph(d, count=9, loops=4, seed=3)
    values = problems.optimize(graph, start)
    assert certify(graph, values)
    plot.plot_spectrum(Qcqp.from_graph(graph, values), values, ax=ax)
    assert ax.get_title().startswith(f"0 negative, {2 if d == 2 else 4} zero")


@pytest.mark.parametrize("d", [2, 3])
def test_smallest_eigenvalues_of_large_matrices(d: int) -> None:
    graph, values = problems.ring(d, 201 if d == 2 else 101)
    wrong = problems.optimize(graph, problems.with_turns(values, 201, 1)) if d == 2 else values
    qcqp = Qcqp.from_graph(graph, wrong)
    S = certificate_matrix(qcqp, closed_form_multipliers(qcqp, qcqp.lift(wrong)))
    expected = np.linalg.eigvalsh(S.toarray())[:8]
    assert expected[0] < -1e-6
    np.testing.assert_allclose(smallest_eigenvalues(S, 8), expected, atol=1e-9, rtol=1e-5)


def test_smallest_eigenvalues_where_more_are_negative_than_asked_for() -> None:
    graph, values = problems.ring(3, 101)
    start = problems.random_start(values, np.random.default_rng(0))
    qcqp = Qcqp.from_graph(graph, start)
    S = certificate_matrix(qcqp, closed_form_multipliers(qcqp, qcqp.lift(start)))
    every = np.linalg.eigvalsh(S.toarray())
    assert (every < 0).sum() > 8
    np.testing.assert_allclose(smallest_eigenvalues(S, 8), every[:8], rtol=1e-7)


def test_ratios_show_every_clique(ax: Any) -> None:
    graph, values = problems.small_graph(2, count=9, loops=4, seed=3)
    solved = relax(graph, values).solve()
    assert plot.plot_eigenvalue_ratios(solved, ax) is ax
    count = len(solved.eigenvalue_ratios)
    assert sum(len(dots.get_offsets()) for dots in ax.collections) == count
    assert ax.get_title().startswith(f"{count} of {count} cliques are tight")


@pytest.mark.parametrize("lift", ["gram", "vector"])
@pytest.mark.parametrize("ordering", ["metis", "colamd"])
def test_sparsity_lies_in_the_boxes(ax: Any, lift: Any, ordering: Any) -> None:
    graph, values = problems.localisation_chain(8)
    assert plot.plot_sparsity(relax(graph, values, lift=lift, ordering=ordering), ax) is ax
    shared, frontal, entries = ax.collections
    boxes = [path.get_extents() for path in (*shared.get_paths(), *frontal.get_paths())]
    middles = np.array([path.get_extents().get_points().mean(axis=0) for path in entries.get_paths()])
    inside = [
        (b.x0 < middles[:, 0]) & (middles[:, 0] < b.x1) & (b.y0 < middles[:, 1]) & (middles[:, 1] < b.y1) for b in boxes
    ]
    assert np.any(inside, axis=0).all()
    assert len(ax.get_xticks()) == 8 + 1  # the world frame too


def test_sparsity_of_a_large_graph_is_a_picture(ax: Any) -> None:
    plot.plot_sparsity(relax(*problems.manhattan_grid(900)), ax)
    assert len(ax.images) == 1


@pytest.mark.parametrize("method", ["auto", "chordal"])
def test_stages_end_at_the_cost(ax: Any, method: Any) -> None:
    graph, values = problems.ring(2, 20)
    solution = refine(graph, problems.optimize(graph, problems.with_turns(values, 20, 1)), method=method)
    assert plot.plot_stages(solution, ax) is ax
    cost, bound = (line.get_ydata() for line in ax.lines[:2])
    assert (np.diff(cost) <= 0).all()
    assert (np.diff(bound) >= 0).all()
    assert cost[-1] == pytest.approx(solution.cost)
    assert f"gap {percent(solution.certificate.relative_gap)} of the cost" in ax.get_title(loc="left")
