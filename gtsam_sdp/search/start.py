"""A start for graphs that come without values: kinds of variables from the factors, then chordal initialisation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import gtsam
import numpy as np

from gtsam_sdp.errors import InvalidGraphError, Offender, UnsupportedFactorError, format_factor, format_key
from gtsam_sdp.factors.families import ADAPTERS, UNSUPPORTED
from gtsam_sdp.factors.registry import Adapter, has_user_terms
from gtsam_sdp.lift.problem import Problem
from gtsam_sdp.linalg.array import Array
from gtsam_sdp.lowrank.initialise import chordal_initialisation
from gtsam_sdp.lowrank.quadratic import Quadratic
from gtsam_sdp.reading.graph import OnUnsupported, Reading, read
from gtsam_sdp.search.multilateration import placed_by_ranges
from gtsam_sdp.terms.terms import Terms, are_exact, convex

_WEAK = 1e-6
"""Share of the weight of ranges that a start takes."""


def starting_values(graph: gtsam.NonlinearFactorGraph, on_unsupported: OnUnsupported = "raise") -> gtsam.Values:
    """Chordal initialisation of a graph, without its robust losses; no values are needed.

    Raises:
        InvalidGraphError: a key whose type no supported factor tells.
        GtsamSdpError: as `certify`.
    """
    reading = read(graph, zero_values(graph, on_unsupported), on_unsupported, at_any_values=True)
    start = ChordalStart.build(Problem.build(reading.gaussian, at_measurements=True))
    return start.values(start.Y)


@dataclass(frozen=True)
class ChordalStart:
    """The lifted cost with terms that depend on no values, and its chordal initialisation.

    Attributes:
        problem: the graph, lifted; what its values are does not matter.
        quadratic: the lifted cost, None for a graph without soft factors.
        Y: the initialisation, (n, rank).
    """

    problem: Problem
    quadratic: Quadratic | None
    Y: Array

    @classmethod
    def build(cls, problem: Problem) -> ChordalStart:
        """From terms at the measurements; log-map terms are made convex, those of ranges next to nothing."""
        reading, count = problem.reading, problem.layout.space.rows
        origin = np.zeros_like(reading.estimate)
        for group in reading.layout.groups:
            origin[group.rows] = np.eye(count)[: group.count]
        reading = with_hard_values(replace(reading, estimate=origin))
        problem = Problem(reading, [_started(batch, count) for batch in problem.terms])
        if not problem.terms:
            return cls(problem, None, reading.estimate)
        quadratic = Quadratic(problem.qcqp)
        try:
            return cls(problem, quadratic, chordal_initialisation(quadratic))
        except np.linalg.LinAlgError:
            return cls(problem, quadratic, problem.Y)

    def values(self, Y: Array) -> gtsam.Values:
        """Values of a point; positions that only ranges hold are placed where these meet."""
        lifted = Y if self.quadratic is None else self.problem.coordinates.expand(Y)
        return self.problem.layout.unlift(placed_by_ranges(self.problem.reading, self.problem.terms, lifted))


def _started(batch: Terms, count: int) -> Terms:
    """Convex terms for the start. Ranges tell no direction: they only hold what nothing else does."""
    if are_exact([batch]):
        return batch
    batch = convex(batch, count)
    return batch if batch.distances is None else replace(batch, matrix=_WEAK * batch.matrix)


def zero_values(graph: gtsam.NonlinearFactorGraph, on_unsupported: OnUnsupported = "raise") -> gtsam.Values:
    """Identities and zero vectors for the keys of supported factors.

    Raises:
        InvalidGraphError: a key whose type no supported factor tells.
        UnsupportedFactorError: the same, because of factors that are not supported at any values.
    """
    values = gtsam.Values()
    unknown: list[Offender] = []
    for index in range(graph.size()):
        factor: Any = graph.at(index)
        if factor is None:
            continue
        name = type(factor).__name__
        adapter = ADAPTERS.get(name)
        if adapter is None:
            unknown.append(Offender(index, name, tuple(factor.keys()), UNSUPPORTED.get(name, "")))
            continue
        for key, kind in zip(factor.keys(), adapter.kinds, strict=True):
            if not values.exists(key):
                values.insert(key, kind.identity(_length(factor, adapter) if kind.has_length else 0))
    missing = list(dict.fromkeys(key for o in unknown for key in o.keys if not values.exists(key)))
    if missing:
        _raise_missing(missing, unknown, on_unsupported)
    return values


def _raise_missing(missing: Sequence[int], unknown: Sequence[Offender], on_unsupported: OnUnsupported) -> None:
    """Says which factors keep the types of keys from being known, and what helps."""
    hopeless = [o for o in unknown if o.reason and not has_user_terms(o.type_name)]
    if hopeless and on_unsupported == "raise":
        raise UnsupportedFactorError(hopeless)
    first = next(o for o in unknown if missing[0] in o.keys)
    what = f"The type of {format_key(missing[0])} is not known without initial values ({len(missing)} such key(s)): "
    name = format_factor(first.index, first.type_name, first.keys)
    if on_unsupported == "drop" or has_user_terms(first.type_name):
        raise InvalidGraphError(f"{what}{name} does not tell it. Give initial values.")
    named = ", ".join(f"{count} {kind}" for kind, count in Counter(o.type_name for o in unknown).items())
    raise InvalidGraphError(
        f"{what}{name} is not of a supported type ({named} in the graph). Remove or replace these factors; if their "
        "errors are linear in rotations and positions, or you register a term for them, give initial values."
    )


def _length(factor: Any, adapter: Adapter) -> int:
    """Length of the vectors that a factor is about."""
    return adapter.vector_length or factor.noiseModel().dim()


def with_hard_values(reading: Reading) -> Reading:
    """The reading with hard values in their places."""
    layout, estimate = reading.layout, reading.estimate.copy()
    for group in reading.hard:
        fix = ADAPTERS[group.type_name].fix
        assert fix is not None
        fixed = fix(group, layout, estimate)
        numbers = group.numbers[:, 0]
        if fixed.rotations is not None:
            rows = layout.rotation[numbers][:, None] + np.arange(layout.space.rows)
            estimate[rows] = fixed.rotations.swapaxes(1, 2)
        if fixed.translations is not None:
            rows = layout.translation[numbers][:, None] + np.arange(fixed.translations.shape[1])
            estimate[rows] = fixed.translations
    return replace(reading, estimate=estimate)
