"""On which region a touching term is proven not to be above its cost, and how much curvature that takes (section 2.5).

The region is an ellipsoid around the estimate, r^ + N z with |z| <= 1: every r of a better solution is in it. A term is
sound there where one symmetric matrix, of at most six rows, is positive semidefinite.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from gtsam_sdp.factors.ellipsoid import WEIGHTS, Region
from gtsam_sdp.factors.rotation_form import LocalForm
from gtsam_sdp.factors.touching_form import LARGEST_ESTIMATE, Contact, Curvature, touching_matrix
from gtsam_sdp.factors.weights import smallest_eigenvalue, symmetric
from gtsam_sdp.linalg.array import Array
from gtsam_sdp.terms.terms import Exactness
from gtsam_sdp.values.space import Space

_SPARE = 1e-4
"""Share of the whitened matrices that is kept back for the rounding of whitening and of inverses."""

_SHARES = (0.03, 0.08, 0.15, 0.25, 0.4, 0.6)
"""Shares of the curvature that may be given up for the term to be sound."""

_BENT_DOWN = (0.02, 0.05, 0.1, 0.2, 0.4, 0.8)
"""Shares of the weight by which a term with a share of the cost's curvature, or none, bends down more than that."""

_TRANSLATION = (0.9, 0.6, 0.3, 0.97)
"""Shares of the information of the translation alone that tau is."""


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


def touching(
    information: Array, bent: Array, share: Array, r: Array, region: Region, angles: int, least: Array
) -> Touching:
    """For each factor the term that keeps most of the curvature among those that are proven on the region.

    Args:
        information: L, rotation first, (m, k, k).
        bent: the part of L whose cost is not its tangent at r^, (m, k, k).
        share: of L that it is, (m,); 1 where it is another part.
        r: r^ = (omega^, v^), (m, k).
        region: where the terms have to hold.
        angles: numbers of omega.
        least: kappa tau that a term has to exceed, (m,).
    """
    count, size = r.shape
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
            if not len(at):
                break
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
    by_c = np.linalg.norm(contact.c, axis=1) * theta**2 * by_c
    return by_b + np.minimum(by_c, _along_axes(contact.c, r, root, theta))


def _along_axes(c: Array, r: Array, root: Array, theta: Array) -> Array:
    """The part of c where the region is thin along some axes: of (omega x c) . (omega x v) by its three products."""
    omega, v, turn, move = r[:, :3], r[:, 3:], root[:, :3], root[:, 3:]
    turning = np.linalg.norm(turn, axis=(1, 2), ord=2)

    def reach(value: Array, slope: Array) -> tuple[Array, Array]:
        """Largest size of a linear function in the ellipsoid, and its slope by z."""
        steep = np.linalg.norm(slope, axis=1)
        return np.abs(value) + steep, steep

    c_v, c_v_slope = reach(np.sum(c * v, axis=1), np.einsum("kia,ki->ka", move, c))
    c_omega, c_omega_slope = reach(np.sum(c * omega, axis=1), np.einsum("kia,ki->ka", turn, c))
    bend = np.einsum("kia,kib->kab", turn, move)
    bend = np.linalg.norm(bend + bend.swapaxes(1, 2), axis=(1, 2), ord=2)
    both, both_slope = reach(
        np.sum(omega * v, axis=1), np.einsum("kia,ki->ka", turn, v) + np.einsum("kia,ki->ka", move, omega)
    )
    both, both_slope = both + bend / 2, both_slope + bend
    value = theta**2 * c_v + c_omega * both
    slope = 2 * theta * turning * c_v + theta**2 * c_v_slope + c_omega_slope * both + c_omega * both_slope
    second = 2 * turning**2 * c_v + 4 * theta * turning * c_v_slope + 2 * c_omega_slope * both_slope + c_omega * bend
    return (turning**2 * value + 2 * theta * turning * slope + theta**2 * second / 2) / 60 * (1 + 1e-6)


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
        bent: the part of L whose cost is not its tangent at r^, (m, k, k).
        share: of L that it is, (m,); 1 where it is another part.
        r: r^, (m, k).
        region: where (omega, v) of every better solution is.
        usable: whether that is known, (m,).
        angles: numbers of omega.
    """

    information: Array
    bent: Array
    share: Array
    r: Array
    region: Region
    usable: Array
    angles: int

    @classmethod
    def below_cost(
        cls, information: Array, bent: Array, r: Array, max_cost: Array, share: Array, space: Space
    ) -> Nearness:
        """Where each factor costs no more than its `max_cost`, (m,)."""
        angles = information.shape[-1] - space.dimension
        return cls(information, bent, share, r, *Region.below_cost(information, r, max_cost, angles), angles)

    @property
    def theta(self) -> Array:
        """Largest angle [rad], (m,)."""
        return np.where(self.usable, self.region.theta, np.pi)

    def touching(self, wanted: Array, least: Array | None = None) -> Found:
        """The terms that touch, of the factors where `wanted`, (m,), if they keep more than `least` kappa tau, (m,)."""
        least = np.zeros(len(wanted)) if least is None else least
        at = np.flatnonzero(wanted & self.usable)
        terms = touching(
            self.information[at], self.bent[at], self.share[at], self.r[at], self.region.select(at), self.angles,
            least[at],
        )  # fmt: skip
        missing = wanted.copy()
        missing[at[terms.applies]] = False
        return Found(at, terms, missing)

    def within(self, found: Found, gap: float, theta: Array, linear: Array, most: float = 1.0) -> Nearness:
        """Nearer, as no cost is further above its term than the gap.

        Args:
            found: the terms that touch.
            gap: the gap.
            theta: the largest angle [rad], (m,).
            linear: of the other terms, a matrix B with cost less term at least 1/2 d^T B d at r^ + d, (m, k, k).
            most: weight of that against the region, at most.
        """
        root = self.region.root
        excess = symmetric(root.swapaxes(1, 2) @ linear @ root)
        good = np.flatnonzero(found.terms.applies)
        touched = found.at[good]
        excess[touched] = found.terms.excess[good]
        region = self.region.within(excess, gap, self.r, self.angles, most)
        return replace(self, region=region.turning_less(theta, self.r, self.angles))

    def until_it_touches(
        self, found: Found, gap: float, theta: Array, linear: Array, wanted: Array, least: Array
    ) -> Nearness:
        """`within`, where a term is `wanted` and none touches on the smallest region with one that is less long.

        The smallest ellipsoid around what two have in common is longer than both where neither is short.
        """
        result, left = self.within(found, gap, theta, linear), wanted
        for most in WEIGHTS[::-1]:
            other = self.within(found, gap, theta, linear, most)
            touches = other.touching(left, least).touches
            if touches.any():
                merged = {name: getattr(result.region, name).copy() for name in Region.__dataclass_fields__}
                for name, mine in merged.items():
                    mine[touches] = getattr(other.region, name)[touches]
                result = replace(result, region=Region(**merged))
            left = left & ~touches
            if not left.any():
                break
        return result
