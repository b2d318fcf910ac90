"""Bad input: clear errors that name factor and key, before anything is computed."""

from __future__ import annotations

from typing import Any

import gtsam
import numpy as np
import pytest

from gtsam_sdp import (
    Exactness,
    InvalidGraphError,
    InvalidTermError,
    Qcqp,
    Residual,
    Term,
    UnsupportedFactorError,
    UnsupportedNoiseError,
    certify,
    refine,
    relax,
)
from gtsam_sdp.errors import format_key
from tests import problems
from tests.registering import term_for

B, V, X = gtsam.symbol_shorthand.B, gtsam.symbol_shorthand.V, gtsam.symbol_shorthand.X
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
    assert_refused(
        graph,
        gtsam.Values(),
        r"nothing for 0, 1, 2, 3, 4 and 15 more keys; the first is needed by factor 0 \(BetweenFactorPose2 on 0, 1\)\.",
    )
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
    assert_refused(graph, values, rf"factor 0 \(BetweenFactorPose3 on x0, x1\) needs a Pose3 at x1.*a {kind}")


def test_wrong_dimension_of_the_last_value() -> None:
    graph, values = problems.small_graph(2, count=4, loops=0)
    values.erase(3)
    values.insert(3, gtsam.Pose3())
    assert_refused(
        graph, values, r"factor 2 \(BetweenFactorPose2 on 2, 3\) needs a Pose2 at 3, where the values hold a Pose3"
    )


def test_graph_of_two_dimensions() -> None:
    graph, values = two_poses()
    graph.add(gtsam.PriorFactorPose2(X(2), gtsam.Pose2(), gtsam.noiseModel.Unit.Create(3)))
    values.insert(X(2), gtsam.Pose2())
    assert_refused(graph, values, r"mixes 2D and 3D variables: x2 \(Pose2\) and x0 \(Pose3\). Certify the two parts")


def test_supported_factor_on_a_value_of_an_unsupported_type() -> None:
    graph, values = two_poses()
    values.erase(X(1))
    values.insert(X(1), gtsam.Cal3_S2())
    message = r"factor 0 \(BetweenFactorPose3 on x0, x1\) needs a Pose3 at x1.* a value of a type that is not supported"
    assert_refused(graph, values, message)
    robust = gtsam.noiseModel.Robust.Create(gtsam.noiseModel.mEstimator.Huber.Create(1.0), MODEL)
    graph.replace(0, gtsam.BetweenFactorPose3(X(0), X(1), gtsam.Pose3(), robust))
    with pytest.raises(InvalidGraphError, match=message):
        certify(graph, values, on_unsupported="drop")


def pulled_poses() -> tuple[gtsam.NonlinearFactorGraph, gtsam.Values]:
    """Priors pull apart what a factor holds together."""
    graph, values = two_poses()
    for k, place in enumerate((0.0, 0.5)):
        graph.add(gtsam.PriorFactorPose3(X(k), gtsam.Pose3(gtsam.Rot3(), np.array([place, 0, 0])), MODEL))
    return graph, values


def calibrated() -> tuple[gtsam.NonlinearFactorGraph, gtsam.Values]:
    """A camera that is calibrated as it looks at a point."""
    graph, values = pulled_poses()
    graph.add(
        gtsam.GeneralSFMFactor2Cal3_S2(
            np.array([330.0, 240]), gtsam.noiseModel.Unit.Create(2), X(0), 7, gtsam.symbol("k", 0)
        )
    )
    graph.add(gtsam.PriorFactorCal3_S2(gtsam.symbol("k", 0), gtsam.Cal3_S2(), gtsam.noiseModel.Unit.Create(5)))
    values.insert(7, np.array([0, 0, 5.0]))
    values.insert(gtsam.symbol("k", 0), gtsam.Cal3_S2(500, 500, 0, 320, 240))
    return graph, values


def inertial(combined: bool) -> tuple[gtsam.NonlinearFactorGraph, gtsam.Values]:
    """Poses joined by an inertial factor too, with velocities and biases."""
    bias = gtsam.imuBias.ConstantBias()
    kind: Any = gtsam.PreintegrationCombinedParams if combined else gtsam.PreintegrationParams
    parameters = kind.MakeSharedU(9.81)
    parameters.setAccelerometerCovariance(1e-3 * np.eye(3))
    parameters.setGyroscopeCovariance(1e-4 * np.eye(3))
    parameters.setIntegrationCovariance(1e-6 * np.eye(3))
    kind = gtsam.PreintegratedCombinedMeasurements if combined else gtsam.PreintegratedImuMeasurements
    measured: Any = kind(parameters, bias)
    for _ in range(10):
        measured.integrateMeasurement(np.array([0.1, 0, 9.81]), np.array([0, 0, 0.1]), 0.1)
    graph, values = pulled_poses()
    if combined:
        graph.add(gtsam.CombinedImuFactor(X(0), V(0), X(1), V(1), B(0), B(1), measured))
        values.insert(B(1), bias)
    else:
        graph.add(gtsam.ImuFactor(X(0), V(0), X(1), V(1), B(0), measured))
    graph.add(gtsam.PriorFactorConstantBias(B(0), bias, gtsam.noiseModel.Isotropic.Sigma(6, 0.1)))
    values.insert(B(0), bias)
    for k in range(2):
        values.insert(V(k), np.zeros(3))
    return graph, values


@pytest.mark.parametrize("make", [calibrated, lambda: inertial(False), lambda: inertial(True)])
def test_unsupported_factors_and_values(make: Any) -> None:
    """Listed, or dropped with what only they hold; the bound holds for GTSAM's own optimum."""
    graph, values = make()
    of_type = make is calibrated
    with pytest.raises(UnsupportedFactorError) as caught:
        certify(graph, values)
    unsupported = [o.index for o in caught.value.offenders]
    assert unsupported == ([3, 4] if of_type else [3])
    message = str(caught.value)
    for offender in caught.value.offenders:
        why = "no term is known for this factor type, and the value of" if of_type else "its bias is unknown"
        assert f"1 x {offender.type_name}: {why}" in message
    assert ("is of a type that is not supported (supported: Rot2" in message) == of_type
    assert 'on_unsupported="drop"' in message

    best = problems.optimize(graph, values)
    certificate = certify(graph, best, on_unsupported="drop")
    assert certificate.cost == graph.error(best)
    assert certificate.terms.counts()["DROPPED"] == len(unsupported)
    kept = gtsam.NonlinearFactorGraph()
    for k in range(3):
        kept.add(graph.at(k))
    needed = problems.to_values((key, best.atPose3(key)) for key in (X(0), X(1)))
    alone = certify(kept, problems.optimize(kept, needed))
    assert certificate.lower_bound <= alone.cost * (1 + 1e-12) <= graph.error(best) * (1 + 1e-9)
    assert certificate.lower_bound > 0.9 * alone.lower_bound
    assert "unsupported factor(s) dropped" in str(certificate)


def test_keys_of_dropped_factors_are_left_out() -> None:
    """No values of theirs, none in the lifted problem; an ordering may name them."""
    graph, values = inertial(False)
    relaxation = relax(graph, values, on_unsupported="drop")
    assert relaxation.reading.layout.keys.tolist() == [B(0), X(0), X(1)]
    assert relaxation.solve().recover().keys() == [B(0), X(0), X(1)]
    ordering = gtsam.Ordering()
    for key in values.keys():
        ordering.push_back(key)
    ordering.push_back(gtsam.symbol("z", 9))
    relax(graph, values, on_unsupported="drop", ordering=ordering)
    graph, values = two_poses()
    graph.add(problems.distance_factor(X(1), 7, 1.0))
    values.insert(7, gtsam.Pose3(gtsam.Rot3(), np.array([1.5, 0, 0])))
    assert certify(graph, values, on_unsupported="drop").cost == graph.error(values)


def test_all_factors_dropped() -> None:
    graph, values = gtsam.NonlinearFactorGraph(), gtsam.Values()
    graph.add(gtsam.PriorFactorCal3_S2(0, gtsam.Cal3_S2(1, 1, 0, 1, 0), gtsam.noiseModel.Unit.Create(5)))
    values.insert(0, gtsam.Cal3_S2())
    certificate = certify(graph, values, on_unsupported="drop")
    assert (certificate.status.name, certificate.lower_bound) == ("INCONCLUSIVE", 0.0)
    assert certificate.cost == graph.error(values) > 0
    with pytest.raises(InvalidGraphError, match="all factors are hard constraints or were dropped"):
        Qcqp.from_graph(graph, values, on_unsupported="drop")


def test_dropped_factor_that_cannot_be_evaluated() -> None:
    graph, values = calibrated()
    values.erase(7)
    values.insert(7, gtsam.Pose3())
    with pytest.raises(
        InvalidGraphError,
        match=r"cost of factor 3 \(GeneralSFMFactor2Cal3_S2 on .*\) cannot be evaluated at the values",
    ):
        certify(graph, values, on_unsupported="drop")


def test_term_for_a_factor_with_a_value_of_an_unsupported_type() -> None:
    """It may use the other keys; what no term is about begins at the values given."""
    graph, values = calibrated()
    graph.remove(graph.size() - 1)

    def looks_ahead(factor: Any, values: gtsam.Values) -> Term:
        return Term([Residual(weight=0.0, translation={7: 1.0, X(0): -1.0})], exactness=Exactness.LOWER_BOUND)

    def uses_calibration(factor: Any, values: gtsam.Values) -> Term:
        return Term([Residual(weight=0.0, translation={factor.keys()[2]: 1.0})])

    graph.add(gtsam.PriorFactorPoint3(7, np.array([0, 0, 5.0]), gtsam.noiseModel.Unit.Create(3)))
    with term_for(gtsam.GeneralSFMFactor2Cal3_S2, looks_ahead):
        assert 0 < certify(graph, values).lower_bound < graph.error(values)
        refined = refine(graph, values)
        assert refined.certificate.lower_bound <= refined.cost <= graph.error(values)
    refused = pytest.raises(InvalidTermError, match="term of factor 3 uses k0, whose type of value is not supported")
    with term_for(gtsam.GeneralSFMFactor2Cal3_S2, uses_calibration), refused:
        certify(graph, values)


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
