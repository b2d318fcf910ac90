"""Bad input: clear errors that name factor and key, before anything is computed."""

from __future__ import annotations

from typing import Any

import gtsam
import numpy as np
import pytest

from gtsam_sdp import InvalidGraphError, UnsupportedFactorError, UnsupportedNoiseError, certify
from gtsam_sdp.errors import format_key
from tests import problems

X = gtsam.symbol_shorthand.X
MODEL = gtsam.noiseModel.Isotropic.Sigma(6, 0.1)


def two_poses() -> tuple[gtsam.NonlinearFactorGraph, gtsam.Values]:
    graph = gtsam.NonlinearFactorGraph()
    graph.add(gtsam.BetweenFactorPose3(X(0), X(1), gtsam.Pose3(), MODEL))
    return graph, problems.to_values([(X(0), gtsam.Pose3()), (X(1), gtsam.Pose3())])


def assert_refused(graph: Any, values: Any, message: str, error: type[Exception] = InvalidGraphError) -> None:
    with pytest.raises(error, match=message):
        certify(graph, values)


def test_missing_value() -> None:
    graph, values = two_poses()
    values.erase(X(1))
    assert_refused(graph, values, r"nothing for x1, which factor 0 \(BetweenFactorPose3 on x0, x1\) needs")


def test_many_missing_values_are_counted() -> None:
    graph, values = problems.ring(2, 20)
    assert_refused(graph, gtsam.Values(), "nothing for 0, 1, 2, 3, 4 and 15 more keys")
    assert values.size() == 20


def test_value_that_no_factor_needs() -> None:
    graph, values = two_poses()
    values.insert(X(7), gtsam.Pose3())
    assert_refused(graph, values, "No factor of the graph holds x7")


@pytest.mark.parametrize(("value", "kind"), [(gtsam.Rot3(), "Rot3"), (gtsam.Pose2(), "Pose2"), (np.zeros(3), "Vector")])
def test_wrong_type_of_value(value: Any, kind: str) -> None:
    graph, values = two_poses()
    values.erase(X(1))
    values.insert(X(1), value)
    if kind == "Pose2":
        assert_refused(graph, values, r"mixes 2D and 3D variables: x1 \(Pose2\) and x0 \(Pose3\)")
    else:
        assert_refused(graph, values, rf"factor 0 \(BetweenFactorPose3 on x0, x1\) needs a Pose3 at x1.*a {kind}")


def test_value_of_an_unknown_type() -> None:
    graph = gtsam.NonlinearFactorGraph()
    graph.add(gtsam.PriorFactorCal3_S2(X(0), gtsam.Cal3_S2(), gtsam.noiseModel.Unit.Create(5)))
    values = gtsam.Values()
    values.insert(X(0), gtsam.Cal3_S2())
    assert_refused(graph, values, "value of x0 has a type that cannot be lifted; supported are Rot2")


def test_wrong_length_of_a_vector() -> None:
    graph = gtsam.NonlinearFactorGraph()
    graph.add(gtsam.BetweenFactorVector(0, 1, np.zeros(3), gtsam.noiseModel.Unit.Create(3)))
    values = problems.to_values([(0, np.zeros(3)), (1, np.zeros(4))])
    assert_refused(
        graph, values, r"factor 0 \(BetweenFactorVector on 0, 1\) needs a vector of 3 numbers at 1.*one of 4"
    )


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_value_that_is_not_finite(bad: float) -> None:
    graph, values = two_poses()
    values.update(X(1), gtsam.Pose3(gtsam.Rot3(), np.array([0.0, bad, 0.0])))
    assert_refused(graph, values, "values of x1 are not finite")


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_measurement_that_is_not_finite(bad: float) -> None:
    graph, values = two_poses()
    graph.add(gtsam.BetweenFactorPose3(X(0), X(1), gtsam.Pose3(gtsam.Rot3(), np.array([bad, 0, 0])), MODEL))
    assert_refused(graph, values, r"factor 1 \(BetweenFactorPose3 on x0, x1\)")


def test_noise_that_is_not_finite() -> None:
    graph, values = two_poses()
    model = gtsam.noiseModel.Gaussian.SqrtInformation(np.diag([1.0, 1, 1, 1, 1, np.nan]))
    graph.add(gtsam.BetweenFactorPose3(X(0), X(1), gtsam.Pose3(), model))
    assert_refused(graph, values, r"noise model of factor 1 \(BetweenFactorPose3 on x0, x1\) is not finite")


def test_infinite_weight_is_a_partial_constraint() -> None:
    """GTSAM turns an infinite weight into a constraint on one direction, which is not supported."""
    graph, values = two_poses()
    model = gtsam.noiseModel.Gaussian.SqrtInformation(np.diag([1.0, 1, 1, 1, 1, np.inf]))
    graph.add(gtsam.BetweenFactorPose3(X(0), X(1), gtsam.Pose3(), model))
    assert_refused(graph, values, "5 of 6 sigmas not zero", UnsupportedNoiseError)


def test_empty_graphs() -> None:
    assert_refused(gtsam.NonlinearFactorGraph(), gtsam.Values(), "holds no factors")
    graph, values = two_poses()
    graph.remove(0)
    assert_refused(graph, values, "holds no factors")


def test_arguments_of_another_type() -> None:
    graph, values = two_poses()
    assert_refused([], values, "graph must be a gtsam.NonlinearFactorGraph, not list")
    assert_refused(values, graph, "graph must be a gtsam.NonlinearFactorGraph, not Values")
    assert_refused(graph, {}, "values must be a gtsam.Values .*, not dict")
    assert_refused(graph, None, "values must be a gtsam.Values .*, not NoneType")


def test_keys_that_nothing_constrains() -> None:
    graph = gtsam.NonlinearFactorGraph()
    graph.add(gtsam.GPSFactor(X(0), np.zeros(3), gtsam.noiseModel.Isotropic.Sigma(3, 1.0)))
    values = problems.to_values([(X(0), gtsam.Pose3())])
    assert_refused(graph, values, "No factor constrains the rotation of x0")
    graph = gtsam.NonlinearFactorGraph()
    graph.add(gtsam.PoseRotationPrior3D(X(0), gtsam.Rot3(), gtsam.noiseModel.Isotropic.Sigma(3, 1.0)))
    assert_refused(graph, values, "No factor constrains the position of x0")


def test_all_unsupported_factors_are_listed() -> None:
    graph, values = two_poses()
    for _ in range(5):
        graph.add(problems.distance_factor(X(0), X(1), 1.0))
    with pytest.raises(UnsupportedFactorError) as caught:
        certify(graph, values)
    assert [o.index for o in caught.value.offenders] == [1, 2, 3, 4, 5]
    assert caught.value.offenders[0].keys == (X(0), X(1))
    assert "5 x CustomFactor" in str(caught.value)
    assert "factor 1 on x0, x1; factor 2 on x0, x1; factor 3 on x0, x1; and 2 more" in str(caught.value)


def test_names_of_keys() -> None:
    assert format_key(X(12)) == "x12"
    assert format_key(gtsam.symbol("l", 0)) == "l0"
    assert format_key(7) == "7"
    assert format_key(2**64 - 1) == str(2**64 - 1)
