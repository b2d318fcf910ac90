"""A soundness check for terms: the same one that the package's own adapters pass, with GTSAM as the oracle."""

from __future__ import annotations

from typing import Any

import gtsam
import numpy as np

from gtsam_sdp.errors import InvalidTermError, format_factor
from gtsam_sdp.lift.build import build_terms
from gtsam_sdp.linalg.array import Array
from gtsam_sdp.linalg.real import of_parts, reals_per_number
from gtsam_sdp.reading.graph import Reading, read
from gtsam_sdp.terms.terms import Exactness
from gtsam_sdp.tolerances import EXACT_LOSS, TERM_VIOLATION
from gtsam_sdp.values.layout import Layout


def check_term(
    factor: gtsam.NonlinearFactor, values: gtsam.Values, *, samples: int = 200, spread: float = 3.0, seed: int = 0
) -> float:
    """Compares the term of a factor, registered or built in, with the factor's own cost at random values.

    Args:
        factor: the factor.
        values: the estimate at which the term is made; values of other keys are left alone.
        samples: how many other values to try: half of them near the estimate, half of them anywhere.
        spread: standard deviation of random translations and vectors around the estimate [m].
        seed: of the random values.

    Returns:
        The largest relative difference of term and cost at the estimate.

    Raises:
        InvalidTermError: the term is above the cost somewhere, or claims to be EXACT and is not. Where the cost is
            larger than at the estimate, a built-in term that is not EXACT may exceed it by as much as it is larger.
    """
    graph = gtsam.NonlinearFactorGraph()
    graph.add(factor)
    own = gtsam.Values(values)
    for key in set(values.keys()) - set(factor.keys()):
        own.erase(key)
    reading = read(graph, own, "raise")
    terms = build_terms(reading)
    exact = all((batch.exactness == Exactness.EXACT).all() for batch in terms)
    rng = np.random.default_rng(seed)

    def compare(other: gtsam.Values) -> tuple[float, float, float]:
        lifted = reading.layout.lift(other)
        world = reading.layout.world
        value = sum(float(batch.value(lifted, world).sum()) for batch in terms)
        size = sum(float(batch.size(lifted, world).sum()) for batch in terms)
        return value, factor.error(other), TERM_VIOLATION * size + 1e-9

    for sample in range(samples):
        other = _perturbed(reading, rng, anywhere=sample % 2 == 1, spread=spread * 10.0 ** rng.uniform(-2, 0.5))
        value, cost, slack = compare(other)
        if cost > reading.cost and not exact and not reading.user_factors:
            slack = max(slack, cost - reading.cost)  # built-in terms may hold only where no factor costs more than all
        if value > cost + slack:
            raise InvalidTermError(_message(factor, value, cost, "above"))
        if exact and cost - value > slack + EXACT_LOSS * cost:
            raise InvalidTermError(_message(factor, value, cost, "EXACT but different from"))
    value, cost, slack = compare(own)
    return abs(value - cost) / max(cost, slack)


def _message(factor: Any, value: float, cost: float, relation: str) -> str:
    name = format_factor(0, type(factor).__name__, factor.keys())
    exactness = "EXACT" if relation.startswith("EXACT") else "a lower bound"
    return f"The term of {name} is {relation} its cost ({value:.9g} against {cost:.9g}); it has to be {exactness}."


def _perturbed(reading: Reading, rng: np.random.Generator, *, anywhere: bool, spread: float) -> gtsam.Values:
    layout: Layout = reading.layout
    lifted, space = reading.estimate.copy(), layout.space

    def noise(rows: Array) -> Array:
        return of_parts(rng.normal(size=(2, *rows.shape, space.rows))[: reals_per_number(lifted)])

    for group in layout.groups:
        own = group.select(group.starts != layout.world)
        base = 0.0 if anywhere else lifted[own.rows] / min(spread, 1.0)
        lifted[own.rows] = group.block.nearest(base + noise(own.rows), space)
    free = np.flatnonzero(layout.is_free)
    lifted[free] += spread * noise(free)
    return layout.unlift(lifted)
