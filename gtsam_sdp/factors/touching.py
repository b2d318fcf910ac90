"""On which region a touching term is proven not to be above its cost, and how much curvature that takes (section 2.5).

The region is an ellipsoid around the estimate, r^ + N z with |z| <= 1: every r of a better solution is in it. A term is
sound there where one symmetric matrix, of at most six rows, is positive semidefinite.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from gtsam_sdp.factors.rotation_form import LocalForm
from gtsam_sdp.factors.touching_form import LARGEST_ESTIMATE, Contact, Curvature, touching_matrix
from gtsam_sdp.factors.weights import smallest_eigenvalue, symmetric
from gtsam_sdp.linalg.array import Array
from gtsam_sdp.terms.terms import Exactness
from gtsam_sdp.values.space import Space

_SPARE = 1e-4
"""Share of the whitened matrices that is kept back for the rounding of whitening and of inverses."""

_LARGEST_CONDITION = 1e9
"""Condition number of the information, its diagonal scaled to one, up to which that is enough."""

_SHARES = (0.03, 0.08, 0.15, 0.25, 0.4, 0.6)
"""Shares of the curvature that may be given up for the term to be sound."""

_BENT_DOWN = (0.02, 0.05, 0.1, 0.2, 0.4, 0.8)
"""Shares of the weight by which a term with a share of the cost's curvature, or none, bends down more than that."""

_TRANSLATION = (0.9, 0.6, 0.3, 0.97)
"""Shares of the information of the translation alone that tau is."""

_LARGEST_METRIC = 1e9
"""Largest trace of a metric of a region against that of the region before, whose digits it must not take."""

_IN_BOTH = (0.0, 0.3, 0.6, 0.9)
"""Weights of a second ellipsoid against that of the region, in an ellipsoid around what both have in common."""


@dataclass(frozen=True)
class Region:
    """Ellipsoids of r = (omega, v) around the estimate, r^ + N z, |z| <= 1, in GTSAM's space or plane.

    Attributes:
        root: N, (m, k, k).
        theta: largest angle in it [rad], (m,).
        length: largest |v| in it [m], (m,).
    """

    root: Array
    theta: Array
    length: Array

    @classmethod
    def below_cost(cls, information: Array, r: Array, max_cost: Array, angles: int) -> tuple[Region, Array]:
        """Where 1/2 r^T L r <= max_cost, and for which factors the numbers allow to say so, (m,).

        Args:
            information: L, rotation first, (m, k, k).
            r: r^, (m, k).
            max_cost: at all points in question each factor costs no more than this, (m,).
            angles: numbers of omega.
        """
        scale = 1 / np.sqrt(np.maximum(np.einsum("kii->ki", information), np.finfo(float).tiny))
        scaled = information * scale[:, :, None] * scale[:, None, :]
        usable = np.isfinite(scaled).all(axis=(1, 2)) & np.isfinite(max_cost)
        scaled = np.where(usable[:, None, None], scaled, np.eye(scaled.shape[-1]))
        usable &= smallest_eigenvalue(scaled) > 1 / _LARGEST_CONDITION
        scaled = np.where(usable[:, None, None], scaled, np.eye(scaled.shape[-1]))
        radius = np.sqrt(2 * np.minimum(max_cost, 1e300)) * (1 + 1e-6)
        own = np.sqrt(np.maximum(np.einsum("ki,kij,kj->k", r, information, r), 0.0)) * (1 + 1e-6)
        root = scale[:, :, None] * np.linalg.inv(np.linalg.cholesky(scaled)).swapaxes(1, 2)
        theta, length = _reach(root, angles)
        radius = np.broadcast_to(radius, theta.shape)
        usable &= own <= radius
        region = cls(root * (radius + own)[:, None, None], np.minimum(radius * theta, np.pi), radius * length)
        return region, usable

    def within(self, excess: Array, gap: float, r: Array, angles: int) -> Region:
        """A region around the part where the excess of cost over term, 1/2 z^T A z at least, is no more than a gap.

        Args:
            excess: A, (m, k, k), positive semidefinite but for rounding.
            gap: the gap.
            r: r^, (m, k).
            angles: numbers of omega.
        """
        identity = np.eye(excess.shape[-1])
        trace = np.maximum(np.trace(excess, axis1=1, axis2=2), 0.0)
        lifted = np.maximum(-smallest_eigenvalue(excess), 0.0) + 1e-12 * trace
        allowed = 2 * max(gap, 0.0) * (1 + 1e-6) + lifted
        # A and what is allowed scaled down to numbers that leave the rest of the metric its digits
        share = 1 / np.maximum(allowed, np.maximum(trace, lifted) / _LARGEST_METRIC + np.finfo(float).tiny)
        return self._shrunk(share[:, None, None] * (excess + lifted[:, None, None] * identity), r, angles)

    def turning_less(self, theta: Array, r: Array, angles: int) -> Region:
        """A region around the part with angles of at most theta [rad], (m,)."""
        reach = (theta + np.linalg.norm(r[:, :angles], axis=1)) * (1 + 1e-6)
        turning = self.root[:, :angles] / reach[:, None, None]
        limited = replace(self, theta=np.minimum(self.theta, theta))
        return limited._shrunk(turning.swapaxes(1, 2) @ turning, r, angles)

    def _shrunk(self, metric: Array, r: Array, angles: int) -> Region:
        """The smallest of some ellipsoids around the part of the region where z^T metric z <= 1."""
        eigenvalues, axes = np.linalg.eigh(symmetric(metric))
        mixed = np.stack([share * np.maximum(eigenvalues, 0.0) + (1 - share) for share in _IN_BOTH])
        smallest = np.argmax(np.sum(np.log(mixed), axis=2), axis=0)
        chosen = np.take_along_axis(mixed, smallest[None, :, None], axis=0)[0]
        rounding = np.where(smallest > 0, 1 + 1e-3, 1.0)
        root = self.root @ (axes * (rounding[:, None] / np.sqrt(chosen))[:, None, :])
        theta, length = _reach(root, angles)
        theta = np.linalg.norm(r[:, :angles], axis=1) + theta
        length = np.linalg.norm(r[:, angles:], axis=1) + length
        return Region(root, np.minimum(theta, self.theta), np.minimum(length, self.length))

    def select(self, at: Array) -> Region:
        """Those of some of the factors."""
        return Region(self.root[at], self.theta[at], self.length[at])


def _reach(root: Array, angles: int) -> tuple[Array, Array]:
    """Largest norms of the two parts of N z, |z| <= 1."""
    parts = (root[:, :angles], root[:, angles:])
    theta, length = (np.linalg.norm(part, axis=(1, 2), ord=2) * (1 + 1e-6) for part in parts)
    return theta, length


@dataclass(frozen=True)
class Touching:
    """Terms that touch, for the factors that have one.

    Attributes:
        applies: which have, (m,).
        curvature: what they keep.
        contact: the coefficients of the rest.
        excess: A, (m, k, k): cost less term is at least 1/2 z^T A z at r^ + N z in the region.
        charge: what rounding may cost, (m,).
    """

    applies: Array
    curvature: Curvature
    contact: Contact
    excess: Array
    charge: Array

    def select(self, at: Array) -> Touching:
        """Those of some of the factors."""
        curvature, contact = self.curvature.select(at), self.contact.select(at)
        return Touching(self.applies[at], curvature, contact, self.excess[at], self.charge[at])


def touching(information: Array, share: Array, r: Array, region: Region, angles: int, least: Array) -> Touching:
    """For each factor the term that keeps most of the curvature among those that are proven on the region.

    Args:
        information: L, rotation first, (m, k, k).
        share: of the cost that is not its tangent at r^, (m,).
        r: r^ = (omega^, v^), (m, k).
        region: where the terms have to hold.
        angles: numbers of omega.
        least: kappa tau that a term has to exceed, (m,).
    """
    count, size = r.shape
    bent = share[:, None, None] * information
    places = np.arange(6) if angles == 3 else np.array([2, 3, 4])
    in_space = np.zeros((count, 6, 6))
    in_space[:, places[:, None], places] = information
    vector = np.zeros((count, 6))
    vector[:, places] = r
    usable = np.linalg.norm(vector[:, :3], axis=1) < LARGEST_ESTIMATE
    curvature = Curvature(np.zeros(count), np.zeros((count, 3, 3)), np.zeros(count))
    contact = Contact.none(count)
    excess, applies = np.zeros((count, size, size)), np.zeros(count, dtype=bool)

    def prove(at: Array, part: Curvature) -> None:
        """Gives a term with this curvature to the factors for which it is proven."""
        touch = Contact.at(in_space[at], part, vector[at, :3], vector[at, 3:])
        found = _excess(bent[at], part, touch, vector[at], region.select(at), places)
        good = smallest_eigenvalue(found) > 0
        excess[at[good]], applies[at[good]] = found[good], True
        for mine, theirs in ((curvature, part), (contact, touch)):
            for name in mine.__dataclass_fields__:
                getattr(mine, name)[at[good]] = getattr(theirs, name)[good]

    largest = _largest_curvature(bent, angles)
    candidates = Curvature.stack([whole.scaled(np.full(count, 1 - part)) for whole in largest for part in _SHARES])
    possible = (candidates.kappa > 0) & (candidates.tau > 0) & ~_is_hopeless(bent, candidates, region, angles)
    value = np.where(possible & usable, candidates.kappa * candidates.tau, 0.0)
    # the one that keeps most first: it is good enough for most factors
    for chosen in np.argsort(-value, axis=0, kind="stable") if possible.any() else ():
        at = np.flatnonzero(~applies & (value[chosen, np.arange(count)] > least))
        if not len(at):
            break
        prove(at, candidates.select((chosen[at], at)))
    if (share < 1).any():
        whole = _curvature_above(information, angles)
        for given_up in _BENT_DOWN:
            at = np.flatnonzero(usable & ~applies & (share < 1))
            prove(at, whole.scaled(share - given_up).select(at))
    reach = np.linalg.norm(region.root, axis=2)
    charge = contact.value_error + np.sum(contact.slope_error[:, places] * reach, axis=1)
    return Touching(applies, curvature, contact, excess, charge)


def _largest_curvature(information: Array, angles: int) -> list[Curvature]:
    """Curvature with L - blkdiag(kappa I + M, tau I) >= 0, tau each share of what holds the translation alone."""
    rr, rt, tt = information[:, :angles, :angles], information[:, :angles, angles:], information[:, angles:, angles:]
    coupled = rt.any()
    alone = tt - rt.swapaxes(1, 2) @ np.linalg.pinv(rr, hermitian=True) @ rt if coupled else tt
    smallest = smallest_eigenvalue(symmetric(alone))
    if not coupled:
        turning = _largest_turning(rr)
        return [Curvature(*turning, share * smallest) for share in _TRANSLATION]
    result = []
    for share in _TRANSLATION:
        tau = share * smallest
        x = tt - tau[:, None, None] * np.eye(tt.shape[-1])
        x = np.where((smallest > 0)[:, None, None], x, np.eye(tt.shape[-1]))
        kept = symmetric(rr - rt @ np.linalg.solve(x, rt.swapaxes(1, 2)))
        result.append(Curvature(*_largest_turning(kept), tau))
    return result


def _largest_turning(kept: Array) -> tuple[Array, Array]:
    """kappa and M with kappa I + M below weights of rotations, (m, k, k)."""
    if kept.shape[-1] == 1:
        return kept[:, 0, 0], np.zeros((len(kept), 3, 3))
    eigenvalues, axes = np.linalg.eigh(kept)
    least = eigenvalues[:, 0]
    rest = eigenvalues - least[:, None]
    # 1/2 tr(kappa I + M) I - kappa I - M >= 0: no axis is held more stiffly than the other two together
    rest[:, 2] = np.minimum(rest[:, 2], 0.99 * (rest[:, 1] + 2 * least) - least)
    rest = np.maximum(rest, 0.0)
    return least, (axes * rest[:, None, :]) @ axes.swapaxes(1, 2)


def _curvature_above(information: Array, angles: int) -> Curvature:
    """Curvature that is nowhere below L: blkdiag(kappa I, tau I) - L >= 0."""
    rr, rt, tt = information[:, :angles, :angles], information[:, :angles, angles:], information[:, angles:, angles:]
    twice = np.where(rt.any(axis=(1, 2)), 2.0, 1.0)  # L is at most twice its diagonal blocks
    kappa, tau = (twice * np.linalg.norm(block, axis=(1, 2), ord=2) for block in (rr, tt))
    return Curvature(kappa, np.zeros((len(kappa), 3, 3)), tau)


def _bend_of_e(tau: Array, region: Region) -> tuple[Array, Array]:
    """What tau |e|^2 / 2 bends by at most, on omega and on v."""
    theta = region.theta
    return tau * region.length**2 * (1 / 12 + theta**2 / 360 + theta**4 / 1811), tau * (1 + theta**2 / 12)


def _is_hopeless(information: Array, curvature: Curvature, region: Region, angles: int) -> Array:
    """Whether a term bends more than its cost in the mean of all axes: nothing else makes up for that."""
    by_e, by_v = _bend_of_e(curvature.tau, region)
    diagonal = np.einsum("kii->ki", information)
    turned = curvature.kappa + np.trace(curvature.rest, axis1=-2, axis2=-1) / 3 + by_e
    return (turned >= np.mean(diagonal[:, :angles], axis=1)) | (by_v >= np.mean(diagonal[:, angles:], axis=1))


def _excess(
    information: Array, curvature: Curvature, contact: Contact, r: Array, region: Region, places: Array
) -> Array:
    """A of the region's z: cost less term is at least 1/2 z^T A z at r^ + N z if A >= 0, (m, k, k)."""
    root = np.zeros((len(r), 6, len(places)))
    root[:, places] = region.root
    theta, length = region.theta, region.length
    third = _third_derivative(contact)
    inner = np.einsum("kijl,kl->kij", third, r)
    flat = np.zeros_like(inner)
    turn = np.arange(3)
    # what is linear in Z bends no more than this
    bend = 1 + theta**2 / 3 / np.maximum(1 - theta**2 / 5, 1e-2)
    flat[:, :3, :3] = bend[:, None, None] * curvature.rest
    by_e, by_v = _bend_of_e(curvature.tau, region)
    # with a minus they bend down less: 1 - cos(theta) by cos(theta) at least, and |e|^2 / 2 is |v|^2 / 2 but for what
    # bends by no more than a quarter of theta^2 and |v|^2 (docs/maths/robust.md)
    down = curvature.tau < 0
    by_e = np.where(down, -curvature.tau * length**2 / 4, by_e)
    by_v = np.where(down, curvature.tau * (1 - theta**2 / 4), by_v)
    turned = np.where(curvature.kappa < 0, curvature.kappa * np.cos(np.minimum(theta, np.pi)), curvature.kappa)
    flat[:, turn, turn] += (turned + by_e)[:, None]
    flat[:, turn + 3, turn + 3] += by_v[:, None]
    whole = np.zeros_like(inner)
    whole[:, places[:, None], places] = information
    J = symmetric(root.swapaxes(1, 2) @ (whole - inner - flat) @ root)
    identity = np.eye(len(places))
    largest = np.linalg.norm(root.swapaxes(1, 2) @ (whole + flat) @ root, axis=(1, 2))
    rest = _fifth_order(contact, r, root, theta, length) + _SPARE * largest * 1e-2
    J = J - rest[:, None, None] * identity
    positive = smallest_eigenvalue(J) > _SPARE * largest * 1e-2
    positive &= (theta < 1.9) | ~(curvature.rest.any(axis=(1, 2)) | down)
    J = np.where(positive[:, None, None], J, identity)
    T = np.einsum("kijl,kia->kajl", third, root)
    T = np.einsum("kajl,kjb->kabl", T, root)
    T = np.einsum("kabl,klc->kabc", T, root)
    inverse = symmetric(np.linalg.inv(J))
    W = symmetric(np.sum(T @ inverse[:, None] @ T.swapaxes(2, 3), axis=1))
    A = J / 2 - W * (1 + _SPARE) / 18
    return np.where(positive[:, None, None], A, -identity)


def _constant_tensors() -> tuple[Array, Array]:
    """Third derivatives of -b.w |w|^2 / 6 and of -(|w|^2 c.v - (w.c) (w.v)) / 6, by entries of b, c, (3, 6, 6, 6)."""
    turn, move = np.eye(6)[:3], np.eye(6)[3:]
    square = np.einsum("ai,aj->ij", turn, turn)
    product = np.einsum("ai,aj->ij", turn, move)

    def symmetrised(tensor: Array) -> Array:
        orders = ((1, 2, 3), (1, 3, 2), (2, 1, 3), (2, 3, 1), (3, 1, 2), (3, 2, 1))
        return sum((tensor.transpose(0, *order) for order in orders), np.zeros_like(tensor))

    by_b = symmetrised(np.einsum("ai,jl->aijl", turn, square))
    by_c = symmetrised(np.einsum("ai,jl->aijl", move, square) - np.einsum("ai,jl->aijl", turn, product))
    return -by_b / 6, -by_c / 6


_BY_B, _BY_C = _constant_tensors()


def _third_derivative(contact: Contact) -> Array:
    """Of the cubic part of b . s(E) + c . (e + E^T e) / 2, (m, 6, 6, 6)."""
    return np.einsum("ka,aijl->kijl", contact.b, _BY_B) + np.einsum("ka,aijl->kijl", contact.c, _BY_C)


def _fifth_order(contact: Contact, r: Array, root: Array, theta: Array, length: Array) -> Array:
    """Bound of the second derivative, by z, of what b . s(E) + c . (e + E^T e) / 2 has beyond the cubic part, (m,)."""
    turning, moving = np.linalg.norm(root[:, :3], axis=(1, 2)), np.linalg.norm(root[:, 3:], axis=(1, 2))
    along = np.linalg.norm(np.einsum("kia,ki->ka", root[:, :3], contact.b), axis=1)
    most = np.minimum(np.abs(np.sum(contact.b * r[:, :3], axis=1)) + along, np.linalg.norm(contact.b, axis=1) * theta)
    by_b = 2 * along * turning * theta**3 / 30 + most * turning**2 * theta**2 / 10
    by_c = turning**2 * length / 10 + theta * turning * moving / 15
    return by_b + np.linalg.norm(contact.c, axis=1) * theta**2 * by_c


@dataclass(frozen=True)
class Found:
    """The terms that touch, of the factors `at`, (n,), and which of all factors, (m,), miss one."""

    at: Array
    terms: Touching
    missing: Array

    @property
    def touches(self) -> Array:
        """Which of all factors have a term that touches, (m,)."""
        result = np.zeros(len(self.missing), dtype=bool)
        result[self.at[self.terms.applies]] = True
        return result

    def replace(self, form: LocalForm, measured: Array, offset: Array, space: Space) -> LocalForm:
        """The forms of all factors, those that touch in place of what they were."""
        good = np.flatnonzero(self.terms.applies)
        if not len(good):
            return form
        at, terms = self.at[good], self.terms.select(good)
        matrix, constant, size = touching_matrix(terms.curvature, terms.contact, measured[at], offset[at], space)
        magnitude = np.abs(form.matrix) if form.magnitude is None else form.magnitude.copy()
        whole, constants, exactness = form.matrix.copy(), form.constant.copy(), form.exactness.copy()
        whole[at], constants[at], magnitude[at] = matrix, constant - terms.charge, size
        exactness[at] = int(Exactness.TANGENT)
        return LocalForm(whole, constants, exactness, magnitude)


@dataclass(frozen=True)
class Nearness:
    """How far from the estimate a better solution can be, for each factor.

    Attributes:
        information: L, rotation first, (m, k, k).
        share: of the cost that is not its tangent at r^, (m,).
        r: r^, (m, k).
        region: where (omega, v) of every better solution is.
        usable: whether that is known, (m,).
        angles: numbers of omega.
    """

    information: Array
    share: Array
    r: Array
    region: Region
    usable: Array
    angles: int

    @classmethod
    def below_cost(cls, information: Array, r: Array, max_cost: Array, share: Array, space: Space) -> Nearness:
        """Where each factor costs no more than its `max_cost`, (m,)."""
        angles = information.shape[-1] - space.dimension
        return cls(information, share, r, *Region.below_cost(information, r, max_cost, angles), angles)

    @property
    def theta(self) -> Array:
        """Largest angle [rad], (m,)."""
        return np.where(self.usable, self.region.theta, np.pi)

    def touching(self, wanted: Array, least: Array | None = None) -> Found:
        """The terms that touch, of the factors where `wanted`, (m,), if they keep more than `least` kappa tau, (m,)."""
        least = np.zeros(len(wanted)) if least is None else least
        at = np.flatnonzero(wanted & self.usable)
        terms = touching(
            self.information[at], self.share[at], self.r[at], self.region.select(at), self.angles, least[at]
        )
        missing = wanted.copy()
        missing[at[terms.applies]] = False
        return Found(at, terms, missing)

    def within(self, found: Found, gap: float, theta: Array, linear: Array) -> Nearness:
        """Nearer, as no cost is further above its term than the gap.

        Args:
            found: the terms that touch.
            gap: the gap.
            theta: the largest angle [rad], (m,).
            linear: of the other terms, a matrix B with cost less term at least 1/2 d^T B d at r^ + d, (m, k, k).
        """
        root = self.region.root
        excess = symmetric(root.swapaxes(1, 2) @ linear @ root)
        good = np.flatnonzero(found.terms.applies)
        touched = found.at[good]
        excess[touched] = found.terms.excess[good]
        region = self.region.within(excess, gap, self.r, self.angles).turning_less(theta, self.r, self.angles)
        return replace(self, region=region)
