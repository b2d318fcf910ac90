"""Blocks: projections, tangent spaces, multipliers and equations, for any number of columns."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from gtsam_sdp.values.blocks import BLOCKS, CONSTRAINED, DIRECTION, FREE, ROTATION, BlockGroup, Constrained, rows_of
from gtsam_sdp.values.kinds import KINDS
from gtsam_sdp.values.layout import Layout
from gtsam_sdp.values.space import Space
from tests import problems

CASES = [(block, d, extra, seed) for block, d, extra, seed in product(CONSTRAINED, (2, 3), (0, 2), range(3))]
NAMES = [f"{block.name}-{d}D-{extra}-{seed}" for block, d, extra, seed in CASES]


def random_rows(block: Constrained, space: Space, extra: int, rng: np.random.Generator) -> np.ndarray:
    """Normal numbers, (7, r, rows + extra), complex in the plane."""
    parts = rng.normal(size=(2, 7, block.count(space), space.rows + extra))
    return parts[0] + 1j * parts[1] if space.dimension == 2 else parts[0]


@pytest.mark.parametrize(("block", "d", "extra", "seed"), CASES, ids=NAMES)
def test_projections(block: Constrained, d: int, extra: int, seed: int) -> None:
    """Feasible blocks are their own projections; the tangent space is that of curves; scaled ones violate by 0.21."""
    rng, space = np.random.default_rng(seed), Space(d)
    B = block.retract(random_rows(block, space, extra, rng))
    assert block.violation(B).max() < 1e-12
    np.testing.assert_allclose(block.retract(B), B, atol=1e-12)
    np.testing.assert_allclose(block.violation(1.1 * B), 0.21, atol=1e-12)
    V, W = random_rows(block, space, extra, rng), random_rows(block, space, extra, rng)
    tangent = block.tangent(B, V)
    np.testing.assert_allclose(block.tangent(B, tangent), tangent, atol=1e-12)
    across = np.einsum("krp,krp->k", (V - tangent).conj(), block.tangent(B, W)).real
    np.testing.assert_allclose(across, 0.0, atol=1e-12)
    step = 1e-6
    assert block.violation(B + step * tangent).max() < 100 * step**2
    slope = (block.retract(B + step * tangent) - B) / step
    np.testing.assert_allclose(slope, tangent, atol=1e-4)


@pytest.mark.parametrize(("block", "d", "extra", "seed"), CASES, ids=NAMES)
def test_multipliers_leave_no_gradient_across(block: Constrained, d: int, extra: int, seed: int) -> None:
    """G - Lambda B is the tangent part of G; Lambda is worth <Lambda, B B^H> at any feasible block."""
    rng, space = np.random.default_rng(seed), Space(d)
    B = block.retract(random_rows(block, space, extra, rng))
    G = random_rows(block, space, extra, rng)
    multipliers = block.multipliers(B, G)
    np.testing.assert_allclose(multipliers, multipliers.conj().swapaxes(1, 2), atol=1e-13)
    np.testing.assert_allclose(G - multipliers @ B, block.tangent(B, G), atol=1e-12)
    other = block.retract(random_rows(block, space, extra, rng))
    products = np.einsum("kij,kji->k", multipliers, other @ other.conj().swapaxes(1, 2)).real
    np.testing.assert_allclose(block.worth(multipliers), products, atol=1e-12)
    lengths = np.linalg.norm(other, axis=2) ** 2
    np.testing.assert_allclose(lengths, block.norm, atol=1e-12)


@pytest.mark.parametrize("block", CONSTRAINED, ids=lambda block: block.name)
@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("seed", range(3))
def test_blocks_of_values(block: Constrained, d: int, seed: int) -> None:
    """The basis spans the tangent space; the equations hold, those on entries too, and rule out what is scaled."""
    rng, space = np.random.default_rng(seed), Space(d)
    B = block.nearest(random_rows(block, space, 0, rng), space)
    refined, off = block.refine(B * (1 + 1e-9), space)
    np.testing.assert_allclose(refined, B, atol=1e-13)
    np.testing.assert_allclose(off, 2e-9, rtol=1e-5)
    basis = block.basis(B)
    assert basis.shape == (7, block.freedoms(space), *B.shape[1:])
    np.testing.assert_allclose(block.tangent(B[:, None].reshape(B.shape), basis[:, 0]), basis[:, 0], atol=1e-12)
    for k in range(7):
        flat = basis[k].reshape(len(basis[k]), -1)
        real = np.column_stack([flat.real, flat.imag])
        assert np.linalg.matrix_rank(real, tol=1e-6) == block.freedoms(space)
        V = block.tangent(B[k : k + 1], random_rows(block, space, 0, rng)[:1]).ravel()
        wide = np.append(V.real, V.imag)
        assert np.linalg.lstsq(real.T, wide, rcond=None)[1].sum() < 1e-20 or len(real) == len(wide)
    products = B @ B.conj().swapaxes(1, 2)
    for i, j, b in block.equations(block.count(space)):
        np.testing.assert_allclose(np.real(products[:, i, j]), b, atol=1e-12)
    for tighten in (False, True):
        row, column, parameter, value = (
            np.array(x) for x in zip(*block.entry_equations(space, tighten=tighten), strict=True)
        )
        for scale in (1.0, 1.1):
            own = scale * np.array([space.unpack(block_rows) for block_rows in B])
            y = np.column_stack([np.ones(7), own])
            terms = np.where(row == column, 1.0, 2.0) * value * y[:, row] * y[:, column]
            sums = np.array([np.bincount(parameter, line) for line in terms])
            assert (np.abs(sums).max() < 1e-12) == (scale == 1.0)


def test_the_nearest_direction_to_nothing_is_a_direction() -> None:
    for d in (2, 3):
        space = Space(d)
        zero = np.zeros((2, 1, space.rows), dtype=space.dtype)
        assert DIRECTION.violation(DIRECTION.nearest(zero, space)).max() < 1e-15


def test_groups_of_a_layout() -> None:
    """Rotations first, the world frame last among them; then directions; all other rows are free."""
    names = ["Pose3", "Unit3", "Vector", "Rot3", "Unit3"]
    lengths = np.array([0, 0, 5, 0, 0])
    layout = Layout.build(np.arange(5, dtype=np.uint64), names, lengths, world=True)
    rotations, directions = layout.groups
    assert (rotations.block, directions.block) == (ROTATION, DIRECTION)
    assert rotations.starts.tolist() == [0, 7, 11]
    assert directions.starts.tolist() == [4, 10]
    assert np.flatnonzero(layout.is_free).tolist() == [3, 5, 6]
    assert [layout.rows(k).tolist() for k in range(5)] == [[0, 1, 2, 3], [4], [5, 6], [7, 8, 9], [10]]
    assert [layout.block_name(row) for row in (1, 3, 4)] == ["rotation", "position", "direction"]
    assert layout.direction.tolist() == [-1, 4, -1, -1, 10]
    assert rows_of(layout.groups).tolist() == sorted(set(range(14)) - {3, 5, 6})
    kept = np.array([*range(4), -1, *range(4, 13)])
    assert directions.among(kept).starts.tolist() == [9]
    assert layout.blocks.tolist() == rotations.starts.tolist()


def test_every_kind_owns_blocks_in_their_order() -> None:
    for kind in KINDS.values():
        assert list(kind.blocks) == sorted(kind.blocks, key=BLOCKS.index)
        assert kind.rotates == (ROTATION in kind.blocks)
        assert kind.translates == (FREE in kind.blocks)
    group = BlockGroup(ROTATION, np.array([2, 9]), 3)
    assert len(group) == 2
    assert group.rows.tolist() == [[2, 3, 4], [9, 10, 11]]
    assert group.select(np.array([False, True])).starts.tolist() == [9]


def test_a_layout_of_nothing() -> None:
    """Where everything is dropped."""
    for world in (False, True):
        layout = Layout.build(np.zeros(0, dtype=np.uint64), (), np.zeros(0, dtype=int), world=world)
        lifted = layout.lift(problems.to_values([]))
        assert lifted.shape == (3 * world, 3)
        assert layout.unlift(lifted).size() == 0
