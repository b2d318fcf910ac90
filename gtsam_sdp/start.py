"""A start for graphs that come without values: kinds of variables from the factors, then chordal initialisation."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import gtsam
import numpy as np

from gtsam_sdp.coordinates import centred_coordinates
from gtsam_sdp.errors import InvalidGraphError, format_key
from gtsam_sdp.factors.build import build_terms
from gtsam_sdp.factors.registry import ADAPTERS
from gtsam_sdp.lowrank.initialise import chordal_initialisation
from gtsam_sdp.qcqp import Qcqp
from gtsam_sdp.reading.graph import Reading, read
from gtsam_sdp.terms import convex


def starting_values(graph: gtsam.NonlinearFactorGraph) -> gtsam.Values:
    """Chordal initialisation of a graph; no values are needed.

    Raises:
        InvalidGraphError: a key whose type no supported factor tells.
        GtsamSdpError: as `certify`.
    """
    return chordal_start(read(graph, zero_values(graph), "raise", at_any_values=True))


def chordal_start(reading: Reading) -> gtsam.Values:
    """Chordal initialisation of a graph that was read; what its values are does not matter."""
    count = reading.layout.space.rows
    origin = np.zeros_like(reading.estimate)
    origin[reading.layout.blocks[:, None] + np.arange(count)] = np.eye(count)
    reading = with_hard_values(replace(reading, estimate=origin))
    terms = build_terms(reading, at_measurements=True)
    if not terms:
        return reading.layout.unlift(reading.estimate)
    terms = [convex(batch, reading.layout.space.rows) for batch in terms]
    qcqp = Qcqp.assemble(terms, reading.layout, centred_coordinates(reading, terms))
    try:
        return qcqp.unlift(chordal_initialisation(qcqp))
    except np.linalg.LinAlgError:
        return reading.layout.unlift(reading.estimate)


def zero_values(graph: gtsam.NonlinearFactorGraph) -> gtsam.Values:
    """Identities and zero vectors for the keys of supported factors.

    Raises:
        InvalidGraphError: a key whose type no supported factor tells.
    """
    values = gtsam.Values()
    unknown: dict[int, int] = {}
    for index in range(graph.size()):
        factor: Any = graph.at(index)
        if factor is None:
            continue
        adapter = ADAPTERS.get(type(factor).__name__)
        if adapter is None:
            unknown.update((key, index) for key in factor.keys())
            continue
        for key, kind in zip(factor.keys(), adapter.kinds, strict=True):
            if not values.exists(key):
                values.insert(key, np.zeros(_length(factor)) if kind == "Vector" else getattr(gtsam, kind)())
    missing = [key for key in unknown if not values.exists(key)]
    if missing:
        raise InvalidGraphError(
            f"The type of {format_key(missing[0])} is not known from factor {unknown[missing[0]]} "
            f"({len(missing)} such key(s)). Give initial values."
        )
    return values


def _length(factor: Any) -> int:
    """Length of the vectors that a factor is about."""
    return len(factor.measured()) if hasattr(factor, "weight") else factor.noiseModel().dim()


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
