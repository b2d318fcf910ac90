"""Factors without an adapter: read by evaluating their error, if that is linear in rotations and positions."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import gtsam
import numpy as np
import pytest

from gtsam_sdp import Exactness, InvalidTermError, UnsupportedFactorError, certify, check_term, refine, relax, solve
from gtsam_sdp.lift.build import build_terms
from gtsam_sdp.reading.graph import read
from tests import problems
from tests.factors.cases import diagonal, gaussian, isotropic, random_pose, to_values
from tests.factors.test_soundness import lift, value_and_size

Error = Callable[[gtsam.Values], Any]
A, B, W = np.array([0.3, -1.2, 0.7]), np.array([1.0, 0.5, -0.25]), np.array([4.0, -5.0, 6.0])


def custom(error: Error, noise: Any, keys: tuple[int, ...] = (1, 2)) -> gtsam.CustomFactor:
    def function(this: gtsam.CustomFactor, values: gtsam.Values, jacobians: Any) -> np.ndarray:
        for place, key in enumerate(keys if jacobians is not None else ()):
            size = values.zeroVectors().at(key).size
            columns = [moved(values, key, step) - moved(values, key, -step) for step in 1e-6 * np.eye(size)]
            jacobians[place] = np.array(columns).T / 2e-6  # pyright: ignore[reportOptionalSubscript]
        return np.atleast_1d(error(values))

    def moved(values: gtsam.Values, key: int, step: np.ndarray) -> np.ndarray:
        delta, zeros = gtsam.VectorValues(), values.zeroVectors()
        for k in values.keys():
            delta.insert(k, step if k == key else zeros.at(k))
        return np.atleast_1d(error(values.retract(delta)))

    return gtsam.CustomFactor(noise, list(keys), function)


def pose(values: gtsam.Values, key: int, d: int) -> Any:
    return values.atPose2(key) if d == 2 else values.atPose3(key)


LINEAR: dict[str, tuple[Callable[[gtsam.Values, int], Any], Callable[[int], int]]] = {
    "joint": (lambda v, d: pose(v, 1, d).transformFrom(A[:d]) - pose(v, 2, d).transformFrom(B[:d]), lambda d: d),
    "place": (lambda v, d: pose(v, 1, d).transformFrom(A[:d]) - W[:d], lambda d: d),
    "middle": (lambda v, d: (pose(v, 1, d).translation() + pose(v, 2, d).translation()) / 2 - W[:d], lambda d: d),
    "two vectors": (
        lambda v, d: np.concatenate([
            pose(v, 1, d).translation() - pose(v, 2, d).translation(),
            pose(v, 1, d).rotation().matrix() @ A[:d] - pose(v, 2, d).rotation().matrix() @ A[:d],
        ]),
        lambda d: 2 * d,
    ),
    "height": (lambda v, d: pose(v, 1, d).translation()[-1] - 2.5, lambda d: 1),
    "slope": (lambda v, d: pose(v, 1, d).translation()[-1] - 0.1 * pose(v, 2, d).translation()[-1], lambda d: 1),
    "axis": (lambda v, d: (pose(v, 1, d).rotation().matrix() @ A[:d])[0] - 0.3, lambda d: 1),
    "reversed": (lambda v, d: (pose(v, 1, d).translation() - pose(v, 2, d).translation())[::-1], lambda d: d),
}  # fmt: skip


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("name", LINEAR)
@pytest.mark.parametrize("noise", [isotropic, diagonal, gaussian], ids=lambda n: n.__name__)
def test_linear_errors_are_read(d: int, name: str, noise: Any) -> None:
    """The term is below the cost at random values, equal at the estimate, everywhere where a Gram matrix holds it."""
    function, size = LINEAR[name]
    rng = np.random.default_rng(0)
    for _ in range(3):
        factor = custom(lambda v: function(v, d), noise(size(d), rng))
        values: dict[int, Any] = {1: random_pose(d, rng), 2: random_pose(d, rng)}
        assert check_term(factor, to_values(values), samples=60) < 1e-8
        reading, terms = lift(factor, values)
        exact = size(d) % d == 0 and noise is isotropic and name != "reversed"
        assert (terms[0].exactness == (Exactness.EXACT if exact else Exactness.TANGENT)).all()
        value, magnitude = value_and_size(reading, terms, values)
        assert value == pytest.approx(factor.error(to_values(values)), rel=1e-9, abs=1e-10 * magnitude)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (lambda v: np.linalg.norm(v.atPose3(1).translation()), "is not linear"),
        (lambda v: v.atPose3(1).transformTo(v.atPose3(2).translation())[0], "is not linear"),
        (lambda v: v.atPose3(1).translation()[0] ** 2, "is not linear"),
        (lambda v: max(0.0, v.atPose3(1).translation()[0] - 100.0), "is not linear"),
        (lambda v: abs(v.atPose3(1).translation()[0] + 50.0), "is not linear"),
        (lambda v: np.sin(1e-2 * v.atPose3(1).translation()[0]), "is not linear"),
        (lambda v: v.atPose3(1).translation()[0] + 1e-6 * v.atPose3(1).rotation().roll(), "is not linear"),
        (lambda v: np.nan, "is not linear"),
        (lambda v: np.zeros(2), "as many numbers"),
        (lambda v: 1 / 0, "division by zero"),
    ],
)
def test_other_errors_are_refused(error: Error, reason: str) -> None:
    graph = gtsam.NonlinearFactorGraph()
    graph.add(custom(error, gtsam.noiseModel.Unit.Create(1)))
    values = to_values({1: gtsam.Pose3(), 2: gtsam.Pose3()})
    with pytest.raises(UnsupportedFactorError, match=reason) as caught:
        read(graph, values, "raise")
    assert "no term is known for this factor type" in str(caught.value)


def test_noise_that_is_not_gaussian_is_refused() -> None:
    huber = gtsam.noiseModel.Robust.Create(
        gtsam.noiseModel.mEstimator.Huber.Create(1.0), gtsam.noiseModel.Unit.Create(3)
    )
    for noise, reason in ((huber, "its noise is robust"), (gtsam.noiseModel.Constrained.All(3), "its noise is hard")):
        graph = gtsam.NonlinearFactorGraph()
        graph.add(custom(lambda v: v.atPose3(1).translation() - W, noise, (1,)))
        with pytest.raises(UnsupportedFactorError, match=reason):
            certify(graph, to_values({1: gtsam.Pose3()}))


def test_a_wheel_factor_without_an_adapter() -> None:
    """AttitudeFactorRot3 measures where down is: two numbers, linear in the rotation."""
    graph = gtsam.NonlinearFactorGraph()
    down = gtsam.Unit3(0.0, 0.0, -1.0)
    seen = gtsam.Unit3(0.1, 0.2, -1.0)
    graph.add(gtsam.AttitudeFactorRot3(1, down, gtsam.noiseModel.Isotropic.Sigma(2, 0.1), seen))
    values = to_values({1: gtsam.Rot3.Ypr(0.3, 0.2, 0.1)})
    assert check_term(graph.at(0), values) < 1e-9


@pytest.mark.parametrize("d", [2, 3])
def test_graph_with_custom_factors_is_certified_and_says_so(d: int) -> None:
    graph, truth = problems.small_graph(d, seed=5, sigma_rotation=0.02)
    for i, j in ((0, 7), (2, 9)):
        arm = pose(truth, i, d).transformTo(pose(truth, j, d).translation())

        def joined(values: gtsam.Values, i: int = i, j: int = j, arm: Any = arm) -> Any:
            return pose(values, i, d).transformFrom(arm) - pose(values, j, d).translation()

        graph.add(custom(joined, gtsam.noiseModel.Isotropic.Sigma(d, 0.3), (i, j)))
    plain = gtsam.NonlinearFactorGraph()
    for k in range(graph.size() - 2):
        plain.add(graph.at(k))
    result = problems.optimize(plain, truth)
    certificate = certify(graph, result)
    assert certificate.terms.counts()["EXACT"] == 2
    first = graph.size() - 2
    assert certificate.assumptions == tuple(note for note in certificate.notes if "is linear" in note) != ()
    assert f"the error of factor {first} (CustomFactor on 0, 7) and 1 more is linear" in certificate.assumptions[0]
    assert " under an assumption: no solution is better" in str(certificate)
    assert "proven for all values, under the assumption below" in str(certificate)
    assert certificate.to_dict()["assumptions"] == list(certificate.assumptions)
    reread = build_terms(read(graph, truth, "raise"))
    assert sum(len(t.factor) for t in reread) == graph.size()


def test_what_is_linear_at_the_size_of_the_start_only_is_refused() -> None:
    """Read at zeros, an error looks linear that is cut off where the solution is."""

    def cut(v: gtsam.Values) -> np.ndarray:
        return np.clip(v.atPoint2(0), -2e5, 2e5)

    graph = gtsam.NonlinearFactorGraph()
    graph.add(gtsam.PriorFactorPoint2(0, np.array([1e7, 0.0]), gtsam.noiseModel.Isotropic.Sigma(2, 10.0)))
    graph.add(custom(cut, gtsam.noiseModel.Isotropic.Sigma(2, 1.0), (0,)))
    with pytest.raises(UnsupportedFactorError, match="not linear"):
        solve(graph)
    with pytest.raises(UnsupportedFactorError, match="not linear"):
        refine(graph, to_values({0: np.zeros(2)}))


def test_what_is_linear_at_random_values_only_is_refused() -> None:
    """An error that is another function at the very values that are certified."""
    values = to_values({1: gtsam.Pose3(gtsam.Rot3(), np.array([1.0, 2.0, 3.0]))})

    def error(v: gtsam.Values) -> np.ndarray:
        position = v.atPose3(1).translation()
        return position * (0.5 if np.allclose(position, [1.0, 2.0, 3.0]) else 1.0)

    graph = gtsam.NonlinearFactorGraph()
    graph.add(custom(error, gtsam.noiseModel.Unit.Create(3), (1,)))
    with pytest.raises(InvalidTermError, match="Its error looked linear elsewhere but is not"):
        certify(graph, values)


@pytest.mark.parametrize("far", [1.0, 1e3, 1e6])
@pytest.mark.parametrize("lift_name", ["gram", "vector"])
@pytest.mark.parametrize("whole", [True, False])
def test_bounds_against_exact_arithmetic(far: float, lift_name: Any, whole: bool) -> None:
    """Two measurements of one position, as vectors or as a height: the minimum is a rational number."""
    rng = np.random.default_rng(0)
    sigmas = np.array([0.5, 0.5, 0.5]) if whole else np.array([0.25])
    for _ in range(3):
        measured = [far + rng.normal(size=3) for _ in range(2)]
        graph = gtsam.NonlinearFactorGraph()
        for w in measured:

            def error(values: gtsam.Values, w: Any = w) -> Any:
                off = values.atPoint3(1) - w
                return off if whole else off[2]

            graph.add(custom(error, gtsam.noiseModel.Diagonal.Sigmas(sigmas), (1,)))
        middle = (measured[0] + measured[1]) / 2
        if not whole:
            graph.add(gtsam.PriorFactorPoint3(1, middle, gtsam.noiseModel.Isotropic.Sigma(3, 64.0)))
        values = to_values({1: middle})
        parts = range(3) if whole else (2,)
        minimum = sum((Fraction(float(measured[0][a])) - Fraction(float(measured[1][a]))) ** 2 for a in parts) / 4
        minimum /= Fraction(float(sigmas[0])) ** 2
        if not whole:  # the prior adds at least nothing: 0 at the middle, and rounding of the middle
            minimum += Fraction(1, 10**9)
        bound = relax(graph, values, lift=lift_name).solve().bound.value
        assert Fraction(float(bound)) <= minimum
        assert bound >= float(minimum) * (1 - 1e-5) - 1e-8 * far / sigmas[0]
