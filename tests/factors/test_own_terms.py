"""Terms that users register for factors of their own, and the checks that keep them honest."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gtsam
import numpy as np
import pytest

from gtsam_sdp import (
    Exactness,
    InvalidTermError,
    Residual,
    Term,
    UnsupportedFactorError,
    certify,
    check_term,
    register_term,
    relax,
    unregister_term,
)
from tests import problems
from tests.registering import term_for

SIGMA = 0.1
ARMS: dict[tuple[int, ...], np.ndarray] = {}
"""Arms of the factors that tests make, by their keys: a CustomFactor does not give away what it holds."""


def add_same_point(graph: gtsam.NonlinearFactorGraph, values: gtsam.Values, i: int = 2, j: int = 9) -> None:
    """Adds a factor that says: `arm` in the body of i is the origin of j; the arm is true within its sigma."""
    d = 2 if gtsam.utilities.allPose2s(values).size() else 3
    at: Any = values.atPose2 if d == 2 else values.atPose3
    arm = at(i).transformTo(at(j).translation()) + SIGMA * np.array([0.5, -0.7, 0.3])[:d]
    ARMS[i, j] = arm

    def error(this: gtsam.CustomFactor, values: gtsam.Values, jacobians: Any) -> np.ndarray:
        at = values.atPose2 if d == 2 else values.atPose3
        first, second = at(this.keys()[0]), at(this.keys()[1])
        if jacobians is not None:
            R1, R2 = first.rotation().matrix(), second.rotation().matrix()
            if d == 2:
                turned = R1 @ np.array([-arm[1], arm[0]])
                jacobians[0] = np.column_stack([R1, turned])
                jacobians[1] = np.column_stack([-R2, np.zeros(2)])
            else:
                skew = np.cross(np.eye(3), arm)
                jacobians[0] = np.column_stack([-R1 @ skew, R1])
                jacobians[1] = np.column_stack([np.zeros((3, 3)), -R2])
        return first.transformFrom(arm) - second.translation()

    graph.add(gtsam.CustomFactor(gtsam.noiseModel.Isotropic.Sigma(d, SIGMA), [i, j], error))


def same_point_term(factor: Any, values: gtsam.Values) -> Term | None:
    i, j = factor.keys()
    return Term([Residual(SIGMA**-2, rotation={i: ARMS[i, j]}, translation={i: 1, j: -1})])


@pytest.fixture
def registered() -> Iterator[None]:
    with term_for(gtsam.CustomFactor, same_point_term):
        yield


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.usefixtures("registered")
def test_graph_with_a_custom_factor_is_certified(d: int) -> None:
    graph, truth = problems.small_graph(d, seed=5, sigma_rotation=0.02)
    add_same_point(graph, truth)
    result = problems.optimize(graph, truth)
    certificate = certify(graph, result, tolerance=1e-3)
    assert certificate
    last = certificate.terms[25]
    assert (last.type, last.keys, last.exactness) == ("CustomFactor", (2, 9), Exactness.EXACT)
    assert last.contribution == pytest.approx(0.0, abs=1e-9)
    at = result.atPose2 if d == 2 else result.atPose3
    assert check_term(graph.at(25), problems.to_values((k, at(k)) for k in (2, 9))) < 1e-9


def test_without_registration_it_is_unsupported() -> None:
    graph, truth = problems.small_graph(3, seed=5)
    graph.add(problems.distance_factor(2, 9, 3.0))
    with pytest.raises(UnsupportedFactorError, match=r"1 x CustomFactor: no term is known .* its error is not linear"):
        certify(graph, truth)


def test_functions_are_asked_in_turn_and_may_decline() -> None:
    graph, truth = problems.small_graph(3, seed=5, sigma_rotation=0.02)
    add_same_point(graph, truth)
    result = problems.optimize(graph, truth)

    @register_term(gtsam.CustomFactor)
    def declines(factor: Any, values: gtsam.Values) -> None:
        return None

    register_term(gtsam.CustomFactor)(same_point_term)
    try:
        assert certify(graph, result, tolerance=1e-3)
    finally:
        unregister_term(declines)
        unregister_term(same_point_term)


@pytest.mark.parametrize(
    ("term", "message"),
    [
        (lambda f, v: Term([Residual(2 * SIGMA**-2, {2: ARMS[2, 9]}, {2: 1, 9: -1})]), "above the factor's cost"),
        (
            lambda f, v: Term([Residual(SIGMA**-2, {2: ARMS[2, 9]}, {2: 1, 9: -1})], constant=1.0),
            "above the factor's cost",
        ),
        (lambda f, v: "a term", "must return a Term or None, not str"),
        (lambda f, v: Term([Residual(np.nan, {2: ARMS[2, 9]}, {2: 1, 9: -1})]), "not finite"),
        (lambda f, v: Term([Residual(1.0, {4: ARMS[2, 9]}, {2: 1, 9: -1})]), "key 4, which is none of the factor's"),
        (lambda f, v: Term([Residual(1.0, {2: ARMS[2, 9][:2]}, {2: 1, 9: -1})]), "needs 3 numbers"),
    ],
)
def test_terms_that_would_lie_are_refused(term: Any, message: str) -> None:
    graph, truth = problems.small_graph(3, seed=5)
    add_same_point(graph, truth)
    values = truth.retract(problems_delta(truth))
    with term_for(gtsam.CustomFactor, term), pytest.raises(InvalidTermError, match=message):
        certify(graph, values)


def problems_delta(values: gtsam.Values) -> gtsam.VectorValues:
    rng = np.random.default_rng(0)
    zero = values.zeroVectors()
    delta = gtsam.VectorValues()
    for key in values.keys():
        delta.insert(key, 0.1 * rng.normal(size=zero.at(key).shape))
    return delta


def test_check_term_finds_what_holds_only_near_the_estimate() -> None:
    """A linearisation touches the cost at the estimate and is above it elsewhere: certify cannot see that alone."""
    factor = gtsam.RangeFactorPose3(0, 1, 2.0, gtsam.noiseModel.Unit.Create(1))
    values = problems.to_values([(0, gtsam.Pose3()), (1, gtsam.Pose3(gtsam.Rot3(), np.array([3.0, 0, 0])))])

    def too_high(factor: Any, values: gtsam.Values) -> Term:
        return Term([Residual(1.0, translation={0: -1, 1: 1})], constant=-4.0, exactness=Exactness.TANGENT)

    with term_for(gtsam.RangeFactorPose3, too_high), pytest.raises(InvalidTermError, match="is above its cost"):
        check_term(factor, values)


def test_check_term_finds_what_is_too_high_where_the_cost_is_high() -> None:
    """Below the cost at the estimate and less, above it beyond: a solution that is better as a whole may go there."""
    estimate = problems.to_values([(0, np.array([0.1, 0.0]))])
    factor = gtsam.PriorFactorPoint2(0, np.zeros(2), gtsam.noiseModel.Unit.Create(2))

    def too_steep(factor: Any, values: gtsam.Values) -> Term:
        constant = -0.9 * factor.error(values)
        return Term([Residual(1.9, translation={0: 1.0})], constant=constant, exactness=Exactness.TANGENT)

    with term_for(gtsam.PriorFactorPoint2, too_steep), pytest.raises(InvalidTermError, match="is above its cost"):
        check_term(factor, estimate)


def test_terms_for_what_may_be_negative_are_refused() -> None:
    linear: Any = gtsam.HessianFactor
    estimate = problems.to_values([(0, np.zeros(2))])
    graph = gtsam.NonlinearFactorGraph()
    graph.add(gtsam.LinearContainerFactor(linear(0, np.eye(2), np.zeros(2), -10.0), estimate))

    def honest(factor: Any, values: gtsam.Values) -> Term:
        return Term([Residual(1.0, translation={0: 1.0})], constant=-5.0)

    with (
        term_for(gtsam.LinearContainerFactor, honest),
        pytest.raises(InvalidTermError, match="its cost may be negative"),
    ):
        certify(graph, estimate)


def test_a_registered_term_takes_part_in_the_world_frame() -> None:
    """A custom absolute factor: the world frame appears, and the gauge is held by it alone."""
    rng = np.random.default_rng(0)
    poses = problems.random_poses(3, 5, rng)
    graph, truth = problems.pose_graph(poses, [*problems.ring_edges(5), (0, 2)], 0.02, 0.1, rng)
    target = np.array([1.0, 2.0, 3.0])

    def error(this: gtsam.CustomFactor, values: gtsam.Values, jacobians: Any) -> np.ndarray:
        pose = values.atPose3(this.keys()[0])
        if jacobians is not None:
            jacobians[0] = np.column_stack([np.zeros((3, 3)), pose.rotation().matrix()])
        return pose.translation() - target

    def at_target(factor: Any, values: gtsam.Values) -> Term:
        return Term([Residual(1.0, translation={factor.keys()[0]: 1}, world=-target)])

    graph.add(gtsam.CustomFactor(gtsam.noiseModel.Unit.Create(3), [0], error))
    with term_for(gtsam.CustomFactor, at_target):
        certificate = certify(graph, problems.optimize(graph, truth), tolerance=1e-3)
    assert certificate


def test_register_term_takes_factor_classes_only() -> None:
    with pytest.raises(InvalidTermError, match="takes a class of gtsam factors"):
        register_term(gtsam.Pose3)
    with pytest.raises(InvalidTermError, match="takes a class of gtsam factors"):
        register_term("CustomFactor")  # type: ignore[arg-type]


SEEN: dict[tuple[int, ...], np.ndarray] = {}
"""Directions that poses see, by the keys of pose and direction."""


def common_direction(i: int, k: int, seen: np.ndarray) -> gtsam.CustomFactor:
    """A factor that says: pose i sees the direction k as the vector `seen` in its body frame."""
    SEEN[i, k] = seen

    def error(this: gtsam.CustomFactor, values: gtsam.Values, jacobians: Any) -> np.ndarray:
        R, u = values.atPose3(this.keys()[0]).rotation().matrix(), values.atUnit3(this.keys()[1])
        if jacobians is not None:
            jacobians[0] = np.column_stack([R @ np.cross(np.eye(3), seen), np.zeros((3, 3))])
            jacobians[1] = u.basis()
        return u.unitVector() - R @ seen

    return gtsam.CustomFactor(gtsam.noiseModel.Isotropic.Sigma(3, SIGMA), [i, k], error)


def common_direction_term(factor: Any, values: gtsam.Values) -> Term | None:
    i, k = factor.keys()
    return Term([Residual(SIGMA**-2, rotation={i: -SEEN[i, k]}, direction={k: 1.0})])


@pytest.mark.parametrize("seed", range(3))
def test_a_term_of_a_direction(seed: int) -> None:
    """An unknown direction that several poses see: certified, also by the relaxations, in agreement with the costs."""
    rng = np.random.default_rng(seed)
    graph, values = problems.small_graph(3, seed=seed, sigma_rotation=0.02)
    down = gtsam.Unit3(rng.normal(size=3))
    values.insert(900, down)
    for i in (0, 3, 5):
        R = values.atPose3(i).rotation().matrix()
        graph.add(common_direction(i, 900, R.T @ down.unitVector() + SIGMA * rng.normal(size=3)))
    with term_for(gtsam.CustomFactor, common_direction_term):
        last = graph.at(graph.size() - 1)
        assert check_term(last, problems.to_values([(5, values.atPose3(5)), (900, down)])) < 1e-9
        result = problems.optimize(graph, values)
        certificate = certify(graph, result)
        assert certificate
        for lift in ("gram", "vector") if seed == 1 else ("gram",):  # the vector lift takes ten seconds
            bound = relax(graph, result, lift=lift).solve().bound.value
            assert (1 - 1e-3) * certificate.cost <= bound <= certificate.cost * (1 + 1e-9)


def test_a_term_may_use_directions_of_directions_only() -> None:
    values = problems.to_values([(0, gtsam.Pose3()), (1, gtsam.Unit3())])
    factor = common_direction(0, 1, np.array([1.0, 0.0, 0.0]))
    for wrong, what in (
        (Residual(1.0, direction={0: 1.0}), "the direction of 0, which has none"),
        (Residual(1.0, rotation={1: np.ones(3)}), "the rotation of 1, which has none"),
        (Residual(1.0, translation={1: 1.0}), "the position of 1, which has none"),
        (Residual(1.0, direction={1: np.nan}), "a number that is not finite"),
    ):
        with (
            term_for(gtsam.CustomFactor, lambda factor, values, own=wrong: Term([own])),
            pytest.raises(InvalidTermError, match=what),
        ):
            check_term(factor, values)
