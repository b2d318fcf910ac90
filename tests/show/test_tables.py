"""What Jupyter shows: well-formed, escaped, and with the answers in it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import gtsam
import numpy as np
import pytest

from gtsam_sdp import Certificate, Qcqp, certify, refine, relax
from gtsam_sdp.relaxation.relaxation import PredictedCost, Relaxation
from gtsam_sdp.results.notes import Note
from gtsam_sdp.results.sdp_solution import SdpSolution
from tests import problems


class _Text(HTMLParser):
    """Texts of cells and lines; fails on tags that do not match."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: list[str] = []
        self.feed(page)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def shown(thing: Any) -> str:
    return "\n".join(_Text(thing._repr_html_()).texts)


@pytest.fixture(scope="module")
def wrong() -> Iterator[tuple[gtsam.NonlinearFactorGraph, gtsam.Values]]:
    graph, values = problems.ring(2, 12)
    yield graph, problems.optimize(graph, problems.with_turns(values, 12, 1))


def test_certificate_that_is_certified() -> None:
    graph, values = problems.ring(2, 12)
    text = shown(certify(graph, problems.optimize(graph, values)))
    assert text.startswith("CERTIFIED: no solution is better")
    assert "next" not in text
    assert "limits" not in text


def test_certificate_that_is_not_certified_names_factors_and_the_next_step() -> None:
    graph, truth = problems.localisation_chain(12)
    certificate = certify(graph, problems.optimize(graph, truth), tolerance=1e-12)
    text = shown(certificate)
    assert text.startswith("BOUNDED")
    assert "what limits the gap: terms below their factor's cost" in text
    assert "next: gtsam_sdp.refine(graph, values)" in text
    assert str(certificate.terms.largest(1)[0].index) in text


def test_what_limits_the_gap_depends_on_whether_the_values_are_settled(wrong: Any) -> None:
    graph, values = wrong
    assert "the rest 100%: a minimum that is not the best" in shown(certify(graph, values))
    start = problems.random_start(values, np.random.default_rng(0))
    assert "values that are not optimal" in shown(certify(graph, start))


def test_facts_in_the_notes_do_not_replace_the_next_step() -> None:
    graph, values = problems.ring(2, 9)
    graph.add(problems.distance_factor(0, 4, 3.0, 2))
    certificate = certify(graph, problems.optimize(graph, values), on_unsupported="drop")
    assert certificate.notes
    assert "next: give the dropped factors a term" in shown(certificate)
    graph, truth = problems.localisation_chain(12)
    bounded = certify(graph, problems.optimize(graph, truth), tolerance=1e-12)
    noted: Certificate = replace(bounded, notes=(Note("4 hard constraint(s)"),))
    assert "next: gtsam_sdp.refine" in shown(noted)


def test_terms_are_counted_and_the_largest_named() -> None:
    graph, truth = problems.localisation_chain(12)
    terms = certify(graph, problems.optimize(graph, truth), tolerance=1e-12).terms
    largest = terms.largest(1)[0]
    text = shown(terms)
    assert text.startswith(f"{len(terms)} factors: ")
    for name, count in terms.type_counts().items():
        assert f"{name}\n{count}\n" in text
    assert f"{largest.index}\n{largest.type}\n{', '.join(largest.names)}\n" in text
    exact = replace(terms, contribution=np.zeros(len(terms)))
    assert "largest" not in shown(exact)


def test_everything_is_escaped() -> None:
    graph, truth = problems.localisation_chain(12)
    certificate = certify(graph, problems.optimize(graph, truth), tolerance=1e-12)
    nasty = "<b>&'\""
    terms = replace(certificate.terms, types=[nasty] * len(certificate.terms))
    changed: Certificate = replace(certificate, notes=(Note(nasty),), method=nasty, terms=terms)
    assert "<b>" not in changed._repr_html_()
    assert shown(changed).count(nasty) >= 2
    assert "<b>" not in terms._repr_html_()


def test_solution_shows_its_stages(wrong: Any) -> None:
    solution = refine(*wrong)
    text = shown(solution)
    assert all(stage.name in text for stage in solution.stages)
    assert "below the values given" in text
    assert "next" not in text
    assert "below the values given" not in shown(replace(solution, improvement=1e-13))
    hopeless = refine(*wrong, tolerance=1e-13)
    assert f"next: {hopeless.advice}" in shown(hopeless)


def test_relaxation_and_what_it_gives(wrong: Any) -> None:
    relaxation = relax(*wrong)
    assert "next: .solve()" in shown(relaxation)
    assert f"{relaxation.tree.sizes.max()} variables" in shown(relaxation.tree)
    solved = relaxation.solve()
    assert "Tight relaxation" in shown(solved)
    assert f"{solved.lower_bound:.10g}" in shown(solved)
    assert "0\ntrivial" in shown(solved)  # its tangents touch at a wrong minimum
    loose: SdpSolution = replace(solved, eigenvalue_ratios=np.full(4, 10.0))
    assert "0 of 4" in shown(loose)
    assert "not tight" in shown(loose)


def test_bound_of_a_relaxation_and_what_was_lost_in_proving_it() -> None:
    solved = relax(*problems.ring(2, 12)).solve()
    assert f"{solved.lower_bound:.10g}\nproven for all values" in shown(solved)
    assert "more than can be proven" not in shown(solved)
    poor: SdpSolution = replace(solved, objective=solved.lower_bound / 0.9)
    assert "not verified: 10% more than can be proven" in shown(poor)


def test_relaxation_that_does_not_fit(wrong: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Relaxation, "predicted_cost", PredictedCost(1e20, 1e20, 500, 2000))
    assert 'method="staircase"' in shown(relax(*wrong))


@pytest.mark.parametrize("d", [2, 3])
def test_lifted_problems(d: int) -> None:
    graph, values = problems.ring(d, 7)
    assert ("complex" if d == 2 else "real") in shown(Qcqp.from_graph(graph, values))
    assert "Y\n" in shown(relax(graph, values, lift="vector").qcqp)


def test_tree_of_many_sizes() -> None:
    tree = relax(*problems.small_graph(2, 60, 80)).tree
    many = replace(tree, cliques=tree.cliques)
    many.__dict__["sizes"] = np.arange(1, 41)
    assert "up to 28\n28" in shown(many)


def luminance(colour: str) -> float:
    """Relative luminance of `#rrggbb`, as the guidelines for accessible pages define it."""
    parts = np.array([int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)])
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def test_verdicts_can_be_read_on_any_theme() -> None:
    """Text and ground are both given, with a contrast of 4.5 : 1."""
    graph, values = problems.ring(2, 12)
    right, wrong = (problems.optimize(graph, problems.with_turns(values, 12, k)) for k in (0, 1))
    certified = certify(graph, right)
    shown_ones: list[Any] = [
        certified,
        certify(graph, wrong, method="multipliers"),
        certified.terms,
        relax(graph, right),
    ]
    shown_ones += [replace(certified, tolerance=0.0), relax(graph, right).solve(), refine(graph, right)]
    grounds = set()
    for result in shown_ones:
        page = result._repr_html_()
        found = re.findall(r"color:(#\w{6});background:(#\w{6})", page)
        assert len(re.findall("color:", page)) == len(found) > 0  # no colour that relies on the theme's ground
        for text, ground in found:
            lighter, darker = sorted((luminance(text), luminance(ground)), reverse=True)
            assert (lighter + 0.05) / (darker + 0.05) >= 4.5
            grounds.add(ground)
    assert len(grounds) == 3
