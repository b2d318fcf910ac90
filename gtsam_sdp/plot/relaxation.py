"""Pictures of the relaxation: the spectrum of S, the cliques' eigenvalue ratios, the sparsity of Q."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import gtsam
import numpy as np

from gtsam_sdp.linalg.array import Array
from gtsam_sdp.plot.axes import BLUE, GREY, ORANGE, make_axes, variable_name

if TYPE_CHECKING:
    import scipy.sparse as sp

    from gtsam_sdp.lift.qcqp import Qcqp
    from gtsam_sdp.relaxation.relaxation import Relaxation
    from gtsam_sdp.results.sdp_solution import SdpSolution

_DENSE = 400
"""Rows up to which all eigenvalues are computed."""

_ROUNDING = 1e-13
"""Share of the largest diagonal entry of S below which eigenvalues are rounding."""

_SHIFT = 1e-11
"""Share of the largest diagonal entry of S that is added to its diagonal first, to have it positive definite."""

_FEW_ROWS = 600
"""Rows of Q up to which every entry is drawn as a square; beyond, a picture shows how many there are."""

_PIXELS = 400
"""Side of that picture."""

_NAMED = 30
"""Variables up to which their names stand along the sides."""

_TIGHT = 1e5
"""Ratio above which a clique counts as tight, as in `SdpSolution.is_tight`."""


def plot_spectrum(qcqp: Qcqp, values: gtsam.Values, *, count: int = 15, ax: Any = None) -> Any:
    """The smallest eigenvalues of S = Q - blkdiag(Lambda), Lambda the multipliers in closed form at the values.

    At a solution that can be certified none is negative, and as many as Y has columns are zero (plus one for positions
    that can be shifted together, in plain coordinates). A negative one is a direction in which the lifted cost falls.
    The columns of Y belong to the eigenvalue 0 only if nothing is left to optimise; what is left, |S V| with V an
    orthonormal basis of them, may move their eigenvalues by as much. So all that are as small count as zero, the small
    positive ones of long trajectories, which bend easily, among them.

    Args:
        qcqp: the lifted problem, of `Qcqp.from_graph` or of a `Relaxation` in the Gram lift.
        values: where the multipliers are taken.
        count: eigenvalues to show.
        ax: matplotlib axes; None: new ones.

    Returns:
        The axes.
    """
    from gtsam_sdp.proof.multipliers import certificate_matrix, closed_form_multipliers

    Y = qcqp.lift(values)
    S = certificate_matrix(qcqp, closed_form_multipliers(qcqp, Y))
    left = np.linalg.norm(S @ np.linalg.qr(Y)[0], 2)
    zero = float(max(left, _ROUNDING * np.abs(S.diagonal()).max(initial=1.0)))
    eigenvalues = smallest_eigenvalues(S, min(count, qcqp.size))
    ax = make_axes(ax)
    ax.axhspan(-zero, zero, color="0.9", zorder=0)
    ax.text(0.99, -zero, "counts as zero", transform=ax.get_yaxis_transform(), ha="right", va="bottom", color=GREY)
    colours = np.select([eigenvalues < -zero, eigenvalues > zero], [ORANGE, BLUE], GREY)
    ax.scatter(np.arange(1, len(eigenvalues) + 1), eigenvalues, c=colours, s=40, zorder=2)
    ax.set_yscale("symlog", linthresh=zero)
    ax.set_ylim(*(10 * end(*eigenvalues, -zero, zero) for end in (min, max)))
    ax.set_yticks(_decades(zero, *ax.get_ylim()))
    ax.yaxis.set_major_formatter(lambda value, _: f"{value:.0e}" if value else "0")
    ax.set_xlabel(f"the {len(eigenvalues)} smallest, by size")
    ax.set_ylabel("eigenvalue of S")
    ax.xaxis.get_major_locator().set_params(integer=True)
    negative, null = int((eigenvalues < -zero).sum()), int((np.abs(eigenvalues) <= zero).sum())
    meaning = (
        "these multipliers prove nothing: perhaps a wrong minimum"
        if negative
        else "no values are better, for the terms"
    )
    ax.set_title(f"{negative} negative, {null} zero to within {zero:.0e}\n{meaning}", fontsize="medium")
    return ax


def _decades(zero: float, low: float, high: float) -> list[float]:
    """Ticks for a symmetric logarithmic axis: zero, and at most five powers of ten on each side of it."""
    first = int(np.ceil(np.log10(zero))) + 1

    def powers(end: float) -> list[float]:
        last = int(np.floor(np.log10(max(end, zero))))
        return [10.0**k for k in range(first, last + 1, max(1, -(-(last - first + 1) // 5)))]

    return [*(-power for power in reversed(powers(-low))), 0.0, *powers(high)]


def smallest_eigenvalues(S: sp.csc_array, count: int) -> Array:
    """The smallest eigenvalues of a sparse Hermitian matrix, increasing, (count,)."""
    from scipy.sparse import linalg

    from gtsam_sdp.linalg.factorisation import Factorisation, add_to_diagonal
    from gtsam_sdp.linalg.real import real_upper

    size = len(S.indptr) - 1
    if size <= max(_DENSE, 2 * count):
        return np.linalg.eigvalsh(S.toarray())[:count]
    upper = real_upper(S)
    width = 2 if np.iscomplexobj(S.data) else 1
    shift = _SHIFT * float(np.abs(S.diagonal()).max())
    while (factor := Factorisation.of(add_to_diagonal(upper, shift))) is None or factor.negative // width > count:
        shift *= 10
    below = factor.negative // width
    eigsh: Any = linalg.eigsh
    operator: Any = linalg.LinearOperator
    inverse = operator((size, size), matvec=factor.solve, dtype=S.dtype)
    start = np.random.default_rng(0).normal(size=size).astype(S.dtype)
    found = [  # on either side of -shift, as 1 / (eigenvalue + shift) has that sign
        eigsh(S, k=k, sigma=-shift, OPinv=inverse, which=which, v0=start, tol=1e-9, ncv=min(4 * count + 20, size),
              return_eigenvectors=False)
        for k, which in ((below, "SA"), (count - below, "LA")) if k
    ]  # fmt: skip
    return np.sort(np.real(np.concatenate(found)))


def plot_eigenvalue_ratios(solution: SdpSolution, ax: Any = None) -> Any:
    """lambda_r / lambda_(r+1) of every clique matrix, r the lift's rank, sorted: large where the relaxation is tight.

    Args:
        solution: of `Relaxation.solve`.
        ax: matplotlib axes; None: new ones.

    Returns:
        The axes.
    """
    ax = make_axes(ax)
    ratios = np.sort(np.clip(solution.eigenvalue_ratios, 1.0, 1e16))
    tight = ratios > _TIGHT
    places = np.arange(1, len(ratios) + 1)
    size = 40 if len(ratios) <= 100 else 6
    for chosen, colour, name in ((tight, BLUE, "tight"), (~tight, ORANGE, "not tight")):
        if chosen.any():
            ax.scatter(places[chosen], ratios[chosen], color=colour, s=size, label=name)
    ax.axhline(_TIGHT, color=GREY, linestyle="--", linewidth=1)
    ax.set_yscale("log")
    ax.set_ylim(min(ratios.min(initial=1e4), 1e4) / 3, max(ratios.max(initial=1e6), 1e6) * 3)
    ax.set_xlabel("clique, by ratio")
    ax.set_ylabel(r"$\lambda_r\;/\;\lambda_{r+1}$")
    ax.set_title(f"{tight.sum()} of {len(ratios)} cliques are tight: ratios above {_TIGHT:.0e}")
    ax.xaxis.get_major_locator().set_params(integer=True)
    ax.legend(loc="upper left", bbox_to_anchor=(1, 1), frameon=False)
    return ax


def plot_sparsity(relaxation: Relaxation, ax: Any = None) -> Any:
    """Where Q is not zero, rows in the order in which the Bayes tree eliminates them, and the cliques as boxes.

    A clique's box on the diagonal holds its frontal variables; the boxes to the right of it and below are their
    entries with its separator. All of Q lies in boxes: that is why one matrix inequality for each clique is enough.

    Args:
        relaxation: of `relax`.
        ax: matplotlib axes; None: new ones.

    Returns:
        The axes.
    """
    ax = make_axes(ax, figsize=(6, 6))
    Q, owner = _plain_matrix(relaxation)
    rank = _elimination_rank(relaxation)
    order = np.argsort(rank[owner], kind="stable")
    place = np.empty(len(order), dtype=np.intp)
    place[order] = np.arange(len(order))
    ends = np.searchsorted(rank[owner][order], np.arange(len(rank) + 1))  # rows of the variables in the new order
    kept = Q.data != 0
    rows, columns = place[Q.coords[0][kept]], place[Q.coords[1][kept]]
    _draw_boxes(ax, relaxation, rank, ends)
    _draw_entries(ax, rows, columns, len(order))
    _name_rows(ax, relaxation, rank, ends)
    ax.set_xlim(-0.5, len(order) - 0.5)
    ax.set_ylim(len(order) - 0.5, -0.5)
    ax.set_aspect("equal")
    ax.set_title(f"Q: {len(order)} rows, {kept.sum()} entries, {len(relaxation.tree.cliques)} cliques")
    return ax


def _plain_matrix(relaxation: Relaxation) -> tuple[sp.coo_array, Array]:
    """Q, and the variable of each row, (n,); in the Gram lift in plain coordinates, where no row refers to a frame."""
    from gtsam_sdp.lift.qcqp import Qcqp
    from gtsam_sdp.relaxation.gram import GramLift

    lift = relaxation.lift
    if not isinstance(lift, GramLift):
        return relaxation.qcqp.Q.tocoo(), lift.owner
    qcqp = Qcqp.assemble(lift.terms, lift.layout, lift.plain)
    return qcqp.Q.tocoo(), lift.owner[lift.plain.kept]


def _elimination_rank(relaxation: Relaxation) -> Array:
    """Place of each variable in the order of elimination: children before parents; what is in no clique comes last."""
    order = [v for clique in reversed(relaxation.tree.cliques) for v in clique.frontals]
    count = len(relaxation.tree.home)
    rank = np.full(count, -1)
    rank[order] = np.arange(len(order))
    rank[rank < 0] = np.arange(len(order), count)
    return rank


def _draw_boxes(ax: Any, relaxation: Relaxation, rank: Array, ends: Array) -> None:
    """The frontal box of each clique and its boxes with the separator, those that are too small to be seen left out."""
    from matplotlib.collections import PatchCollection
    from matplotlib.patches import Rectangle

    smallest = ends[-1] / _PIXELS
    frontal, shared = [], []
    limits: list[float] = (ends - 0.5).tolist()
    for clique in relaxation.tree.cliques:
        own = rank[list(clique.frontals)].tolist()
        start, end = limits[min(own)], limits[max(own) + 1]
        if end - start < smallest:
            continue
        frontal.append(Rectangle((start, start), end - start, end - start))
        for other in rank[list(clique.separator)].tolist():
            first, last = limits[other], limits[other + 1]
            shared.append(Rectangle((first, start), last - first, end - start))
            shared.append(Rectangle((start, first), end - start, last - first))
    ax.add_collection(PatchCollection(shared, facecolor=BLUE, alpha=0.15, linewidth=0, zorder=1))
    ax.add_collection(PatchCollection(frontal, facecolor="none", edgecolor=BLUE, linewidth=1.2, zorder=3))


def _draw_entries(ax: Any, rows: Array, columns: Array, size: int) -> None:
    """A square for each entry, or the number of entries in each pixel."""
    from matplotlib.collections import PatchCollection
    from matplotlib.colors import LogNorm
    from matplotlib.patches import Rectangle

    if size <= _FEW_ROWS:
        squares = [
            Rectangle((c - 0.4, r - 0.4), 0.8, 0.8) for r, c in zip(rows.tolist(), columns.tolist(), strict=True)
        ]
        ax.add_collection(PatchCollection(squares, facecolor="0.25", linewidth=0, zorder=2))
        return
    edges = np.linspace(-0.5, size - 0.5, _PIXELS + 1)
    counts = np.histogram2d(rows, columns, bins=[edges, edges])[0]
    shown = np.ma.masked_equal(counts, 0)
    image = ax.imshow(
        shown, extent=(-0.5, size - 0.5, size - 0.5, -0.5), cmap="Greys", norm=LogNorm(0.3, counts.max()), zorder=2,
        interpolation="nearest",
    )  # fmt: skip
    ax.figure.colorbar(image, ax=ax, label="entries in a pixel", shrink=0.7)


def _name_rows(ax: Any, relaxation: Relaxation, rank: Array, ends: Array) -> None:
    """Names of the variables along both sides, if they are few."""
    ax.set_ylabel("rows, in the order of elimination")
    present = [v for v in np.argsort(rank).tolist() if ends[rank[v] + 1] > ends[rank[v]]]
    if len(present) > _NAMED:
        return
    middles = [(ends[rank[v]] + ends[rank[v] + 1] - 1) / 2 for v in present]
    names = [variable_name(v, relaxation.lift.layout) for v in present]
    ax.set_ylabel("variables, in the order of elimination")
    ax.set_xticks(middles, names, rotation=90, fontsize=8)
    ax.set_yticks(middles, names, fontsize=8)
