"""Pictures are drawn on the axes given, at both ends of sizes."""

from __future__ import annotations

import gtsam
import matplotlib as mpl
import numpy as np
import pytest

from gtsam_sdp import relax
from gtsam_sdp.plot import plot_tree
from tests import problems

mpl.use("Agg")
plt = pytest.importorskip("matplotlib.pyplot")


def test_tree_of_a_small_graph_names_its_keys() -> None:
    graph, values = problems.small_graph(3, count=12, loops=5, seed=3)
    relaxation = relax(graph, values)
    figure, ax = plt.subplots()
    assert plot_tree(relaxation.tree, relaxation.reading.layout, ax) is ax
    places = ax.collections[0].get_offsets()
    assert len(places) == len(relaxation.tree.cliques)
    np.testing.assert_array_equal(-places[:, 1], relaxation.tree.depths)
    names = {name for text in ax.texts for name in text.get_text().split(", ")}
    assert names == {str(k) for k in range(12)}
    plt.close(figure)


def test_tree_of_a_long_chain() -> None:
    """Thousands of cliques, no recursion, no names."""
    graph = gtsam.NonlinearFactorGraph()
    model = gtsam.noiseModel.Unit.Create(3)
    for k in range(3000):
        graph.add(gtsam.BetweenFactorPose2(k, k + 1, gtsam.Pose2(1.0, 0.0, 0.0), model))
    values = problems.to_values((k, gtsam.Pose2(float(k), 0.0, 0.0)) for k in range(3001))
    relaxation = relax(graph, values, ordering="metis")
    ax = plot_tree(relaxation.tree, relaxation.reading.layout)
    assert len(ax.texts) == 0
    assert np.isfinite(ax.collections[0].get_offsets()).all()
    plt.close(ax.figure)
    assert "of 1 to 3" in str(relaxation.tree)
