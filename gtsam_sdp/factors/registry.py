"""The registry: which function turns which GTSAM factor type into terms.

Adapters of the package are registered with `adapter`; users register a function for a factor of their own with
`register_term`. Both need the type once and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import gtsam
import numpy as np

from gtsam_sdp.errors import InvalidGraphError, InvalidTermError, format_factor
from gtsam_sdp.linalg.array import Array
from gtsam_sdp.linalg.stack import stack
from gtsam_sdp.losses.losses import Loss
from gtsam_sdp.terms.terms import Terms
from gtsam_sdp.terms.user import Term
from gtsam_sdp.tolerances import MANIFOLD_TOLERANCE
from gtsam_sdp.values.kind import Kind
from gtsam_sdp.values.kinds import KINDS
from gtsam_sdp.values.layout import WORLD, Layout
from gtsam_sdp.values.space import Space


@dataclass(frozen=True)
class FactorGroup:
    """Factors of one type and one noise dimension, as arrays.

    Attributes:
        type_name: class name in GTSAM.
        factors: the GTSAM factors, m of them.
        index: their places in the graph, (m,).
        keys: their keys, (m, s).
        numbers: the variables' numbers in the layout, (m, s).
        information: information matrices R^T R of their noise models, (m, k, k); zero where the noise is hard.
        loss: the robust loss of the whitened residual's length; None: half of its square.
        kept: the part of the information whose cost keeps its curvature, (m, k, k); what the rest of it costs goes by
            its tangent at the estimate. None: all of it.
    """

    type_name: str
    factors: Sequence[Any]
    index: Array
    keys: Array
    numbers: Array
    information: Array
    loss: Loss | None = None
    kept: Array | None = None

    def gather(self, read: Callable[[Any], Any]) -> Array:
        """`read` of every factor, stacked; raises InvalidGraphError where it is not finite."""
        table = stack(read(f) for f in self.factors)
        bad = np.flatnonzero(~np.isfinite(table.reshape(len(table), -1)).all(axis=1))
        if len(bad):
            k = bad[0]
            raise InvalidGraphError(
                f"The measurement of {format_factor(int(self.index[k]), self.type_name, self.keys[k])} is not finite "
                f"({len(bad)} such factor(s) of this type). Remove the factor or repair its measurement."
            )
        return table

    def rotations(self, matrices: Array, space: Space) -> Array:
        """Measured rotation matrices (m, d, d) in the sense of the space, put back on SO(d).

        Raises:
            InvalidGraphError: one of them is not a rotation.
        """
        rotations, off = space.refine_rotations(space.rotations(matrices))
        bad = np.flatnonzero(~(off <= MANIFOLD_TOLERANCE))
        if len(bad):
            k = bad[0]
            raise InvalidGraphError(
                f"The measured rotation of {format_factor(int(self.index[k]), self.type_name, self.keys[k])} is off "
                f"SO({space.dimension}) by {off[k]:.1e}. Normalise it (gtsam.Rot3.normalized) before making the factor."
            )
        return rotations

    def select(self, chosen: Array) -> FactorGroup:
        """The factors where `chosen` is true."""
        kept = [f for f, keep in zip(self.factors, chosen, strict=True) if keep]
        return FactorGroup(
            self.type_name, kept, self.index[chosen], self.keys[chosen], self.numbers[chosen],
            self.information[chosen], self.loss, None if self.kept is None else self.kept[chosen],
        )  # fmt: skip


@dataclass(frozen=True)
class Lifting:
    """What adapters may look at: the layout, the estimate in lifted form and the cost that bounds all others.

    Attributes:
        layout: rows of every variable.
        estimate: Y of the user's values, (size, rows).
        max_cost: cost of the user's values: a term has to be a lower bound only where no factor costs more. For factors
            with a robust loss one for each, (m,).
        at_measurements: touch each factor's cost where its error is zero, and not at the estimate: for a search that
            must not depend on where it starts.
        gaps: of the bounds that terms at the same estimate proved before, the first without any gap, the second with
            the first one, ...: at values that are better than the estimate no factor's cost is further above its term.
        touching: prefer the gradient of each cost at the estimate to its curvature, as is best at an optimum.
        share: of each factor's cost that keeps its curvature; the rest is its tangent at the estimate, (m,) or 1.
    """

    layout: Layout
    estimate: Array
    max_cost: float | Array
    at_measurements: bool = False
    gaps: tuple[float, ...] = ()
    share: Array | float = 1.0
    touching: bool = True

    def rotations(self, numbers: Array) -> Array:
        """R of variables (WORLD: the identity), (m, rows, rows)."""
        rows = self.layout.rotation_rows(numbers)
        return self.estimate[rows[:, None] + np.arange(self.layout.space.rows)].swapaxes(1, 2)

    def translations(self, numbers: Array) -> Array:
        """t of variables in the rows of the space, (m, rows)."""
        return self.estimate[self.layout.translation[numbers]]


@dataclass(frozen=True)
class FixedValues:
    """Hard values of variables: rotations (m, rows, rows) or None, translation rows (m, q, rows) or None."""

    rotations: Array | None
    translations: Array | None


BuildTerms = Callable[[FactorGroup, Lifting], Terms]
FixValues = Callable[[FactorGroup, Layout, Array], FixedValues]
"""(group, layout, estimate) -> the values that the factors prescribe."""


@dataclass(frozen=True)
class Adapter:
    """How factors of one type become terms.

    Attributes:
        type_name: class name in GTSAM.
        kinds: kinds of its variables, one for each key.
        absolute: whether its terms need the world frame.
        build: makes the terms.
        fix: reads the value that a hard noise model prescribes; None if hard noise is not supported.
        unit_dimension: noise dimension at which unit noise is suspicious (GTSAM replaces models silently).
        vector_length: numbers in its vectors; None: as many as its noise has.
        robust: whether its terms heed `Lifting.share`, so that the noise may have a robust loss.
        bends: whether its terms heed `FactorGroup.kept`.
    """

    type_name: str
    kinds: tuple[Kind, ...]
    absolute: bool
    build: BuildTerms
    fix: FixValues | None = None
    unit_dimension: int | None = None
    vector_length: int | None = None
    robust: bool = False
    bends: bool = False


ADAPTERS: dict[str, Adapter] = {}


def adapter(
    type_name: str,
    kinds: Sequence[str],
    *,
    absolute: bool = False,
    fix: FixValues | None = None,
    unit_dimension: int | None = None,
    vector_length: int | None = None,
    robust: bool = False,
    bends: bool = False,
) -> Callable[[BuildTerms], BuildTerms]:
    """Registers the decorated function as the adapter of a GTSAM factor type, `kinds` by their names in `KINDS`."""
    needed = tuple(KINDS[name] for name in kinds)

    def register(build: BuildTerms) -> BuildTerms:
        ADAPTERS[type_name] = Adapter(
            type_name, needed, absolute, build, fix, unit_dimension, vector_length, robust, bends
        )
        return build

    return register


UNSUPPORTED: dict[str, str] = {}


def unsupported(type_name: str, reason: str) -> None:
    """States why a factor type cannot be lifted, for the error message."""
    UNSUPPORTED[type_name] = reason


UserTerm = Callable[[Any, gtsam.Values], Term | None]
_USER_TERMS: dict[str, list[UserTerm]] = {}


def register_term(factor_type: type) -> Callable[[UserTerm], UserTerm]:
    """Registers a term for a factor type of your own, `gtsam.CustomFactor` included.

    The decorated function takes the factor and the values and returns a `Term` that is never above the factor's
    cost, or None if the factor is not one of its kind (then the next function registered for the type is asked).
    `check_term` tests a term against the factor; `certify` refuses a term that is above its factor's cost at the
    values it is given.

    Args:
        factor_type: a class of GTSAM factors, as `type(graph.at(k))` gives it.
    """
    if not (isinstance(factor_type, type) and issubclass(factor_type, gtsam.NonlinearFactor)):
        raise InvalidTermError(f"register_term takes a class of gtsam factors, not {factor_type!r}.")

    def register(function: UserTerm) -> UserTerm:
        _USER_TERMS.setdefault(factor_type.__name__, []).append(function)
        return function

    return register


def unregister_term(function: UserTerm) -> None:
    """Takes back what `register_term` registered."""
    for functions in _USER_TERMS.values():
        if function in functions:
            functions.remove(function)


def has_user_terms(type_name: str) -> bool:
    """Whether a user registered a function for a factor type."""
    return bool(_USER_TERMS.get(type_name))


def user_term(factor: Any, values: gtsam.Values) -> Term | None:
    """The term that a user's function gives for a factor, or None."""
    for function in _USER_TERMS.get(type(factor).__name__, ()):
        term = function(factor, values)
        if term is not None:
            if not isinstance(term, Term):
                raise InvalidTermError(f"{function.__name__} must return a Term or None, not {type(term).__name__}.")
            return term
    return None


def world_numbers(count: int) -> Array:
    """The world frame, once for each of `count` factors."""
    return np.full(count, WORLD)
