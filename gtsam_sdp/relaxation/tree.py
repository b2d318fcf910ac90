"""The clique tree: which variables meet in one clique of GTSAM's Bayes tree, and how cliques hang together.

A symmetric matrix with the sparsity of the eliminated graph is positive semidefinite iff it is a sum of positive
semidefinite matrices, one on the rows of each clique (Agler, Helton, McCullough, Rodman, "Positive semidefinite
matrices with a given sparsity pattern", Linear Algebra Appl. 107, 1988; Vandenberghe, Andersen, "Chordal graphs and
semidefinite optimization", 2015).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import gtsam
import numpy as np

from gtsam_sdp.compared import Compared
from gtsam_sdp.errors import InvalidGraphError, format_key
from gtsam_sdp.linalg.array import Array
from gtsam_sdp.shown import Shown
from gtsam_sdp.values.layout import Layout

OrderingChoice = Literal["auto", "metis", "colamd"] | gtsam.Ordering


@dataclass(frozen=True, eq=False)
class Clique(Compared):
    """Variables by number; the world frame has the number of variables as its own.

    Attributes:
        frontals: variables that are eliminated here.
        separator: variables shared with the parent.
        parent: index of the parent clique, -1 for a root.
    """

    frontals: tuple[int, ...]
    separator: tuple[int, ...]
    parent: int

    @property
    def members(self) -> tuple[int, ...]:
        """All variables: frontals, then separator."""
        return self.frontals + self.separator


@dataclass(frozen=True, repr=False, eq=False)
class CliqueTree(Shown):
    """Cliques of the eliminated graph, parents before children; a forest if the graph has several components.

    Attributes:
        cliques: the cliques.
        home: for each variable the clique where it is frontal, -1 if no term holds it.
    """

    cliques: tuple[Clique, ...]
    home: Array

    @classmethod
    def build(cls, groups: Sequence[Sequence[int]], layout: Layout, ordering: OrderingChoice = "metis") -> CliqueTree:
        """Eliminates a graph symbolically with GTSAM.

        Args:
            groups: variables that meet in a term, one symbolic factor each.
            layout: rows of the variables.
            ordering: "metis", "colamd", or an ordering of the graph's keys.

        Raises:
            InvalidGraphError: an ordering that misses keys.
        """
        symbolic = gtsam.SymbolicFactorGraph()
        for group in groups:
            symbolic.push_back(gtsam.SymbolicFactor.FromKeys(list(group)))
        needed = {variable for group in groups for variable in group}
        lonely = bool(needed - {variable for group in groups if len(group) > 1 for variable in group})
        chosen = _ordering(symbolic, needed, lonely, layout, ordering)
        return cls._walk(symbolic.eliminateMultifrontal(chosen), len(layout.keys) + 1)

    def monolithic(self) -> CliqueTree:
        """All variables in one clique: the relaxation without decomposition."""
        members = tuple(np.flatnonzero(self.home >= 0).tolist())
        return CliqueTree((Clique(members, (), -1),), np.where(self.home >= 0, 0, -1))

    def sharing(self, variable: int) -> CliqueTree:
        """The tree with one more variable in every clique, frontal in the first; other roots become its children."""
        cliques = [
            Clique(
                clique.frontals + (() if k else (variable,)),
                clique.separator + ((variable,) if k else ()),
                clique.parent if clique.parent >= 0 or k == 0 else 0,
            )
            for k, clique in enumerate(self.cliques)
        ]
        home = self.home.copy()
        home[variable] = 0
        return CliqueTree(tuple(cliques) or (Clique((variable,), (), -1),), home)

    @classmethod
    def _walk(cls, tree: gtsam.SymbolicBayesTree, count: int) -> CliqueTree:
        cliques: list[Clique] = []
        home = np.full(count, -1)
        waiting = [(root, -1) for root in reversed(tree.roots())]
        while waiting:  # a chain is thousands of cliques deep: no recursion
            node, parent = waiting.pop()
            conditional = node.conditional()
            keys = tuple(int(k) for k in conditional.keys())
            split = conditional.nrFrontals()
            home[list(keys[:split])] = len(cliques)
            waiting.extend((node[i], len(cliques)) for i in range(node.nrChildren()))
            cliques.append(Clique(keys[:split], keys[split:], parent))
        return cls(tuple(cliques), home)

    @cached_property
    def sizes(self) -> Array:
        """Number of variables in each clique, (c,)."""
        return np.array([len(c.members) for c in self.cliques])

    @cached_property
    def roots(self) -> Array:
        """The root above each clique, (c,)."""
        roots: list[int] = []
        for index, clique in enumerate(self.cliques):
            roots.append(index if clique.parent < 0 else roots[clique.parent])
        return np.array(roots, dtype=np.intp)

    @cached_property
    def depths(self) -> Array:
        """Number of cliques above each, (c,)."""
        depths: list[int] = []
        for clique in self.cliques:
            depths.append(0 if clique.parent < 0 else depths[clique.parent] + 1)
        return np.array(depths, dtype=np.intp)

    @cached_property
    def depth(self) -> int:
        """Number of cliques on the longest way from a root to a leaf."""
        return int(self.depths.max(initial=-1)) + 1

    def homes(self, members: Array) -> Array:
        """The clique that holds all of each row's variables (-1 pads), (m, s) -> (m,): the deepest of their homes."""
        return np.where(members >= 0, self.home[members], -1).max(axis=1, initial=-1)

    def check(self) -> None:
        """Running intersection: a separator lies in the parent, and every variable is frontal in one clique."""
        seen: set[int] = set()
        for clique in self.cliques:
            assert not seen & set(clique.frontals), "a variable is frontal twice"
            seen |= set(clique.frontals)
            if clique.parent >= 0:
                assert set(clique.separator) <= set(self.cliques[clique.parent].members), "separator not in the parent"
            else:
                assert not clique.separator, "a root with a separator"


def _ordering(
    symbolic: gtsam.SymbolicFactorGraph, needed: set[int], lonely: bool, layout: Layout, ordering: OrderingChoice
) -> gtsam.Ordering:
    """The ordering that was asked for; METIS fails, or crashes, where a variable is `lonely`, without neighbours."""
    if isinstance(ordering, gtsam.Ordering):
        return _given_ordering(needed, layout, ordering)
    if ordering == "metis" and not lonely:
        return gtsam.Ordering.MetisSymbolicFactorGraph(symbolic)
    return gtsam.Ordering.ColamdSymbolicFactorGraph(symbolic)


def check_ordering(ordering: object) -> None:
    """Raises ValueError for what is no ordering."""
    if not isinstance(ordering, gtsam.Ordering) and ordering not in ("auto", "metis", "colamd"):
        raise ValueError(f'ordering must be "auto", "metis", "colamd" or a gtsam.Ordering, not {ordering!r}.')


def _given_ordering(needed: set[int], layout: Layout, ordering: gtsam.Ordering) -> gtsam.Ordering:
    """The user's ordering in numbers of variables; the world frame goes last."""
    keys = [int(ordering.at(i)) for i in range(ordering.size())]
    missing = {int(layout.keys[n]) for n in needed if n < len(layout.keys)} - set(keys)
    if missing:
        raise InvalidGraphError(
            f"The ordering misses {len(missing)} key(s) of the graph, the first is {format_key(min(missing))}. "
            'Give an ordering of all keys, or "metis" or "colamd".'
        )
    result = gtsam.Ordering()
    for key in keys:
        if key in layout and layout.number(key) in needed:
            result.push_back(layout.number(key))
    if len(layout.keys) in needed:
        result.push_back(len(layout.keys))
    return result
