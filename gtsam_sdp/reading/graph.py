"""Reads a NonlinearFactorGraph and its Values into plain arrays, and says clearly what cannot be used."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import gtsam
import numpy as np

from gtsam_sdp.errors import (
    InvalidGraphError,
    InvalidTermError,
    Offender,
    UnsupportedFactorError,
    UnsupportedNoiseError,
)
from gtsam_sdp.factors.families import ADAPTERS, UNSUPPORTED
from gtsam_sdp.factors.fitted import FittedGroup, find_vectors
from gtsam_sdp.factors.probing import Fit, Signature, Slots, fit_factors
from gtsam_sdp.factors.registry import Adapter, FactorGroup, has_user_terms, user_term
from gtsam_sdp.keys import KeyLists
from gtsam_sdp.linalg.array import Array
from gtsam_sdp.losses.losses import Loss
from gtsam_sdp.reading.checks import (
    check_finite_costs,
    check_finite_values,
    check_types,
    on_manifold,
    warn_of_unit_noise,
)
from gtsam_sdp.reading.noise import HARD, NoiseModels, judge_noise
from gtsam_sdp.reading.table import FactorTable
from gtsam_sdp.reading.values import (
    Variables,
    check_kinds,
    check_lengths,
    kept_variables,
    read_variables,
    unsupported_type,
)
from gtsam_sdp.terms.user import Term
from gtsam_sdp.values.kinds import by_kind
from gtsam_sdp.values.layout import Layout
from gtsam_sdp.values.space import Space

OnUnsupported = Literal["raise", "drop"]
NO_TERM = "no term is known for this factor type"


@dataclass(frozen=True)
class UserFactor:
    """A factor whose term comes from a user's function."""

    index: int
    type_name: str
    keys: tuple[int, ...]
    term: Term


@dataclass(frozen=True)
class Reading:
    """A graph and its values as arrays.

    Attributes:
        table: all live factors.
        groups: factors with Gaussian noise by type and noise dimension.
        hard: factors with hard noise by type and dimension.
        user_factors: factors with a term of the user's.
        dropped: factors that are left out of the bound.
        layout: rows of the variables.
        estimate: Y of the values, (layout.size, rows).
        cost: graph.error(values).
        costs: error of each factor of the table.
        drops: whether what has no term may be left out of the bound.
        fitted: factors without an adapter whose error was found to be linear.
        lengths: of the whitened residual of each factor with a robust loss [sigmas], 0 for others, (f,).
    """

    table: FactorTable
    groups: Sequence[FactorGroup]
    hard: Sequence[FactorGroup]
    user_factors: Sequence[UserFactor]
    dropped: Sequence[Offender]
    layout: Layout
    estimate: Array
    cost: float
    costs: Array
    drops: bool
    fitted: Sequence[FittedGroup] = ()
    lengths: Array = field(default_factory=lambda: np.zeros(0))

    @property
    def robust(self) -> Sequence[FactorGroup]:
        """The groups with a robust loss."""
        return [group for group in self.groups if group.loss is not None]

    @property
    def gaussian(self) -> Reading:
        """The same graph without its robust losses, at whatever values: for searches."""
        if not self.robust:
            return self
        return replace(self, groups=[replace(group, loss=None) for group in self.groups])


def read(
    graph: gtsam.NonlinearFactorGraph,
    values: gtsam.Values,
    on_unsupported: OnUnsupported,
    *,
    at_any_values: bool = False,
) -> Reading:
    """Reads a graph and values; `at_any_values` takes those that violate hard constraints too.

    Raises:
        InvalidGraphError: missing values, wrong types, numbers that are not finite, an empty graph.
        UnsupportedFactorError, UnsupportedNoiseError: factors without a term, unless `on_unsupported` is "drop".
    """
    check_types(graph, values)
    if on_unsupported not in ("raise", "drop"):
        raise ValueError(f'on_unsupported must be "raise" or "drop", not {on_unsupported!r}.')
    table = _list_factors(graph)
    variables = read_variables(table, values)
    sorted_factors = _sort_factors(table, values, variables)
    _fit_the_rest(table, values, sorted_factors, variables)
    if on_unsupported == "drop":
        _check_droppable(table, sorted_factors.offenders)
    if sorted_factors.offenders and on_unsupported == "raise":
        noise_only = all(o.type_name in ADAPTERS for o in sorted_factors.offenders)
        raise (UnsupportedNoiseError if noise_only else UnsupportedFactorError)(sorted_factors.offenders)
    absolute = (
        any(ADAPTERS[members.type_name].absolute for members in [*sorted_factors.soft, *sorted_factors.hard])
        or any(u.term.absolute for u in sorted_factors.user)
        or any(f.absolute for f in sorted_factors.fitted)
    )  # fmt: skip
    kept = kept_variables(table, variables, sorted_factors.offenders)
    held = variables.select(kept)
    layout = Layout.build(held.keys, held.kinds, held.lengths, world=absolute)
    place = np.cumsum(kept) - 1
    fitted = [replace(group, numbers=place[group.numbers]) for group in sorted_factors.fitted]
    groups = [_group(table, layout, members) for members in sorted_factors.soft]
    hard = [_group(table, layout, members, hard=True) for members in sorted_factors.hard]
    estimate = layout.lift(values)
    check_finite_values(layout, estimate)
    estimate = on_manifold(layout, estimate)
    warn_of_unit_noise(groups)
    costs = _factor_costs(table, values)
    if not at_any_values:
        check_finite_costs(table, costs)
    return Reading(
        table, groups, hard, sorted_factors.user, sorted_factors.offenders, layout, estimate,
        float(graph.error(values)), costs, on_unsupported == "drop", fitted, _residual_lengths(table, groups, values),
    )  # fmt: skip


def reread(
    reading: Reading, graph: gtsam.NonlinearFactorGraph, values: gtsam.Values, *, at_any_values: bool = False
) -> Reading:
    """The same graph at other values of the same keys and types; factors and noise models are not read again.

    Raises:
        InvalidGraphError: numbers that are not finite, rotations that are none.
    """
    if reading.user_factors or reading.fitted:  # their terms depend on the values, or on the size of the map
        return read(graph, values, "drop" if reading.drops else "raise", at_any_values=at_any_values)
    estimate = reading.layout.lift(values)
    check_finite_values(reading.layout, estimate)
    estimate = on_manifold(reading.layout, estimate)
    costs = _factor_costs(reading.table, values)
    if not at_any_values:
        check_finite_costs(reading.table, costs)
    lengths = _residual_lengths(reading.table, reading.groups, values)
    return replace(reading, estimate=estimate, cost=float(graph.error(values)), costs=costs, lengths=lengths)


def _residual_lengths(table: FactorTable, groups: Sequence[FactorGroup], values: gtsam.Values) -> Array:
    """Lengths of the whitened residuals of factors with a robust loss, (f,)."""
    lengths = np.zeros(len(table.index))
    for group in groups:
        if group.loss is not None:
            errors = np.array([factor.unwhitenedError(values) for factor in group.factors])
            squares = np.einsum("ki,kij,kj->k", errors, group.information, errors)
            lengths[np.searchsorted(table.index, group.index)] = np.sqrt(np.maximum(squares, 0.0))
    return lengths


def _factor_costs(table: FactorTable, values: gtsam.Values) -> Array:
    """Error of each factor, (f,)."""
    costs, position = np.zeros(len(table.index)), 0
    try:
        for position, factor in enumerate(table.factors):
            costs[position] = factor.error(values)
    except RuntimeError as error:  # a dropped factor may need values of other types
        raise InvalidGraphError(
            f"The cost of {table.name(position)} cannot be evaluated at the values: {str(error).strip()}"
        ) from error
    return costs


def _check_droppable(table: FactorTable, offenders: Sequence[Offender]) -> None:
    """Only a cost that is never negative may count as zero."""
    places = np.searchsorted(table.index, [o.index for o in offenders])
    reason = "its cost may be negative, so that it cannot be dropped either"
    kept = [replace(o, reason=reason) for o, p in zip(offenders, places, strict=True) if not _is_positive(table, p)]
    if kept:
        raise UnsupportedFactorError(kept)


_DISTANCES = 10.0 ** np.arange(-8, 13)
"""Whitened distances at which a robust loss must not be negative, as it is for parameters that make no sense."""


def _is_positive(table: FactorTable, position: int) -> bool:
    factor = table.factors[position]
    if not isinstance(factor, gtsam.NoiseModelFactor):
        return False
    model = factor.noiseModel()
    if not isinstance(model, gtsam.noiseModel.Robust):
        return True
    loss: Any = model.robust()
    return type(loss).__name__ != "Custom" and all(loss.loss(x) >= 0 for x in _DISTANCES)


def _list_factors(graph: gtsam.NonlinearFactorGraph) -> FactorTable:
    found = [(i, graph.at(i)) for i in range(graph.size())]
    live = [(i, f) for i, f in found if f is not None]
    if not live:
        raise InvalidGraphError("The graph holds no factors: there is no cost to bound. Add factors first.")
    factors = [f for _, f in live]
    return FactorTable(
        index=np.array([i for i, _ in live]),
        types=[type(f).__name__ for f in factors],
        factors=factors,
        keys=KeyLists.of(f.keys() for f in factors),
    )


@dataclass(frozen=True)
class Members:
    """Factors of one type with noise of one sort: positions in the table, and noise models."""

    type_name: str
    positions: Array
    models: NoiseModels
    loss: Loss | None = None


@dataclass(frozen=True)
class _Sorted:
    soft: list[Members]
    hard: list[Members]
    user: list[UserFactor]
    offenders: list[Offender]
    unknown: list[int]
    fitted: list[FittedGroup]


def _sort_factors(table: FactorTable, values: gtsam.Values, variables: Variables) -> _Sorted:
    """Positions in the table by (type, noise dimension), apart by what can be done with them."""
    by_type: dict[str, list[int]] = {}
    for position, name in enumerate(table.types):
        by_type.setdefault(name, []).append(position)
    result = _Sorted([], [], [], [], [], [])
    for name, members in by_type.items():
        if has_user_terms(name):
            members = _take_user_factors(table, values, name, members, result)
        adapter = ADAPTERS.get(name)
        if adapter is not None and members:
            check_kinds(table, variables, adapter, members)
            _sort_by_noise(table, variables, adapter, members, result)
            continue
        if name in UNSUPPORTED:
            result.offenders.extend(_offender(table, p, UNSUPPORTED[name]) for p in members)
        else:
            result.unknown.extend(members)
    result.offenders.sort(key=lambda o: o.index)
    return result


def _fit_the_rest(table: FactorTable, values: gtsam.Values, result: _Sorted, variables: Variables) -> None:
    """Reads factors of unknown types by probing their errors; files the others as offenders."""
    by_signature: dict[Signature, list[int]] = {}
    reasons: dict[str, str] = {}
    for position in result.unknown:
        factor, name = table.factors[position], table.types[position]
        reason = unsupported_type(variables, table.keys(position))
        if reason:  # one for each type, so that its factors are listed together
            result.offenders.append(_offender(table, position, reasons.setdefault(name, f"{NO_TERM}, and {reason}")))
            continue
        numbers = variables.numbers(np.array(table.keys(position), dtype=np.uint64))
        kinds = tuple(variables.kinds[n] for n in numbers)
        if not isinstance(factor, gtsam.NoiseModelFactor) or not all(kind.can_be_probed for kind in kinds):
            result.offenders.append(_offender(table, position, NO_TERM))
            continue
        verdict = judge_noise(factor.noiseModel())
        if verdict is not None:
            robust = "its noise is robust" if isinstance(verdict, Loss) else verdict
            reason = f"{NO_TERM}, and {'its noise is hard' if verdict == HARD else robust}"
            result.offenders.append(_offender(table, position, reason))
            continue
        lengths = tuple(int(variables.lengths[n]) for n in numbers)
        by_signature.setdefault(Signature(kinds, lengths, factor.noiseModel().dim()), []).append(position)
    if by_signature:
        space = Space(variables.dimension)
        scale = _scale(values, variables)
        for signature, positions in by_signature.items():
            fit = fit_factors([table.factors[p] for p in positions], signature, space, scale)
            for place in np.flatnonzero(~fit.fits).tolist():
                reason = f"{NO_TERM}, and {fit.reasons[place]}"
                result.offenders.append(_offender(table, positions[place], reason))
            result.fitted.extend(_fitted_groups(table, variables, positions, signature, space, fit))
    result.offenders.sort(key=lambda o: o.index)


def _fitted_groups(
    table: FactorTable, variables: Variables, positions: list[int], signature: Signature, space: Space, fit: Fit
) -> list[FittedGroup]:
    """Fits that are residual vectors, and those that are numbers only."""
    found = find_vectors(fit, Slots.build(signature, space), space, fit.fits)
    vectors, whole = (None, np.zeros(len(positions), dtype=bool)) if found is None else found
    groups = []
    for chosen, form in ((fit.fits & whole, vectors), (fit.fits & ~whole, None)):
        at = np.flatnonzero(chosen)
        if not len(at):
            continue
        own = [positions[k] for k in at]
        models = NoiseModels.collect([table.factors[p].noiseModel() for p in own])
        groups.append(
            FittedGroup(
                type_names=[table.types[p] for p in own],
                index=table.index[own],
                numbers=variables.numbers(table.key_table(own)),
                information=models.information(),
                signature=signature,
                space=space,
                fit=fit.select(at),
                vectors=None if form is None else form.select(at),
            )
        )
    return groups


def _scale(values: gtsam.Values, variables: Variables) -> float:
    """Size of the positions in the values, 1 at least [m]."""
    largest = 1.0
    for kind, own in by_kind(variables.kinds).items():
        if kind.translates:
            positions = [kind.positions(numbers) for numbers in kind.read(values, variables.keys[own])]
            sizes = np.array([np.abs(position).max(initial=0.0) for position in positions])
            largest = float(max(largest, sizes[np.isfinite(sizes)].max(initial=0.0)))
    return largest


def _offender(table: FactorTable, position: int, reason: str) -> Offender:
    return Offender(int(table.index[position]), table.types[position], table.keys(position), reason)


def _take_user_factors(
    table: FactorTable, values: gtsam.Values, name: str, members: list[int], result: _Sorted
) -> list[int]:
    """Files the factors for which a user's function gives a term; returns the others."""
    rest = []
    for position in members:
        term = user_term(table.factors[position], values)
        if term is None:
            rest.append(position)
        elif isinstance(table.factors[position], gtsam.LinearContainerFactor):
            raise InvalidTermError(
                f"{table.name(position)} has a registered term, but its cost may be negative, which bounds rule out. "
                "Put a factor with a noise model in its place."
            )
        else:
            result.user.append(UserFactor(int(table.index[position]), name, table.keys(position), term))
    return rest


def _sort_by_noise(
    table: FactorTable, variables: Variables, adapter: Adapter, members: list[int], result: _Sorted
) -> None:
    models = NoiseModels.collect([table.factors[p].noiseModel() for p in members])
    verdicts = [judge_noise(model) for model in models.distinct]
    dimensions = [0 if model is None else model.dim() for model in models.distinct]
    positions = np.array(members)
    sorts = dict.fromkeys(zip(verdicts, dimensions, strict=True))
    for verdict, dimension in sorts:
        chosen = np.ones(len(positions), dtype=bool)
        if len(sorts) > 1:
            match = np.array([sort == (verdict, dimension) for sort in zip(verdicts, dimensions, strict=True)])
            chosen = match[models.place]
        member = Members(adapter.type_name, positions[chosen], models.select(chosen))
        if isinstance(verdict, Loss) and not adapter.robust:
            verdict = "a robust loss is supported on poses and ranges only"
        if verdict in (None, HARD) or isinstance(verdict, Loss):
            check_lengths(table, variables, adapter, member.positions.tolist(), dimension)
        if verdict is None or isinstance(verdict, Loss):
            result.soft.append(replace(member, loss=verdict))
        elif verdict == HARD and adapter.fix is not None:
            result.hard.append(member)
        else:
            reason = "hard noise is supported on priors of one key only" if verdict == HARD else verdict
            result.offenders.extend(_offender(table, p, reason) for p in member.positions.tolist())


def _group(table: FactorTable, layout: Layout, members: Members, *, hard: bool = False) -> FactorGroup:
    places = members.positions.tolist()
    factors = [table.factors[p] for p in places]
    keys = table.key_table(places)
    dimension = members.models.distinct[members.models.place[0]].dim()
    information = np.zeros((len(places), dimension, dimension)) if hard else members.models.information()
    group = FactorGroup(
        members.type_name, factors, table.index[places], keys, np.searchsorted(layout.keys, keys), information,
        members.loss,
    )  # fmt: skip
    bad = np.flatnonzero(~np.isfinite(information.reshape(len(places), -1)).all(axis=1))
    if len(bad):
        raise InvalidGraphError(
            f"The noise model of {table.name(places[bad[0]])} is not finite ({len(bad)} such factor(s) of this "
            "type). Give it finite, positive sigmas, or a Constrained model if it is meant to be hard."
        )
    return group
