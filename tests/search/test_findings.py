"""The best of what methods found: the lowest cost with the best verified bound, and one verdict on both."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from gtsam_sdp import Certificate, CertificateStatus, certify
from gtsam_sdp.proof.bound import VerifiedBound
from gtsam_sdp.results.solution import FoundBy, StageName
from gtsam_sdp.search.budget import Budget
from gtsam_sdp.search.findings import Finding, Incumbent, only_if
from tests import problems


def judged(certificate: Certificate, found_by: FoundBy) -> Finding:
    return Finding(StageName.CERTIFY, cost=certificate.cost, values=None, certificate=certificate, found_by=found_by)


def proven(value: float) -> Finding:
    return Finding(StageName.STAIRCASE, bound=VerifiedBound(value, 0.0, 0.0, 0.0, 1), bound_by="staircase")


@pytest.fixture(scope="module")
def certificates() -> tuple[Certificate, Certificate]:
    """Of the best values and of a wrong minimum."""
    graph, values = problems.ring(2, 12)
    wrong = problems.optimize(graph, problems.with_turns(values, 12, 1))
    return certify(graph, problems.optimize(graph, values)), certify(graph, wrong, method="multipliers")


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_lowest_cost_and_best_bound_in_any_order(
    certificates: tuple[Certificate, Certificate], order: tuple[int, int]
) -> None:
    by = (FoundBy.STAIRCASE, FoundBy.LOCAL)
    known = Incumbent()
    for k in order:
        known = known.joined(judged(certificates[k], by[k]), 1.0)
    assert known.certificate is not None
    assert (known.certificate.cost, known.found_by) == (certificates[0].cost, FoundBy.STAIRCASE)
    assert known.certificate.lower_bound == max(certificate.lower_bound for certificate in certificates)
    assert [stage.seconds for stage in known.stages] == [1.0, 1.0]


def test_a_bound_never_goes_down_nor_above_the_cost(certificates: tuple[Certificate, Certificate]) -> None:
    start = Incumbent().joined(judged(certificates[1], FoundBy.LOCAL), 1.0)
    cost = start.cost
    known, best = start, start.best_certificate.lower_bound
    for value in (*np.random.default_rng(0).uniform(-cost, cost, 20), math.nan, -math.inf, 2 * cost):
        known = known.joined(proven(float(value)), 1.0)
        best = max(best, min(float(value), cost)) if math.isfinite(value) else best
        found = known.best_certificate
        assert found.lower_bound == best
        assert found.gap == cost - best
        assert found.relative_gap == found.gap / cost
        assert bool(found) == (found.relative_gap <= found.tolerance)
    assert known.best_certificate.status is CertificateStatus.CERTIFIED
    assert known.best_certificate.method == "staircase"
    assert start.best_certificate.lower_bound == certificates[1].lower_bound


def test_nothing_found_changes_nothing(certificates: tuple[Certificate, Certificate]) -> None:
    known = Incumbent().joined(judged(certificates[1], FoundBy.LOCAL), 1.0)
    assert known.joined(Finding(), 1.0) is known
    never = only_if(lambda known, budget: False, lambda task, known, budget: proven(1.0))
    assert never(None, known, Budget(None)) == Finding()  # pyright: ignore[reportArgumentType]


def test_no_number_certifies_nothing(certificates: tuple[Certificate, Certificate]) -> None:
    """NaN in place of a bound is neither taken nor believed."""
    assert replace(certificates[0], lower_bound=math.nan).status is CertificateStatus.INCONCLUSIVE
    assert certificates[1].with_bound(math.nan, 0.0, 0.0, "none", {}) is certificates[1]
