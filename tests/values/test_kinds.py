"""Every type of value: its numbers and the way back, in bulk and one by one."""

from __future__ import annotations

import gtsam
import numpy as np
import pytest

from gtsam_sdp.values.kinds import KINDS, OTHER, kinds_of
from gtsam_sdp.values.layout import Layout
from tests import problems

LENGTHS = {"Vector": 4}
NAMES = sorted(KINDS)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("seed", range(5))
def test_values_survive_their_numbers(name: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    kind = KINDS[name]
    length = LENGTHS.get(name, kind.fixed_length)
    drawn = [kind.identity(length), *(kind.random(rng, 3.0, length) for _ in range(6))]
    keys = rng.permutation(1000)[: len(drawn)]
    values = problems.to_values(list(zip(keys.tolist(), drawn, strict=True)))
    ordered = np.sort(keys).astype(np.uint64)
    numbers = np.array(kind.read(values, ordered))
    for key, row in zip(ordered.tolist(), numbers, strict=True):
        np.testing.assert_allclose(kind.numbers(kind.at(values, key)), row, atol=1e-15)
        back = problems.to_values([(key, kind.write(row))])
        assert back.equals(problems.to_values([(key, kind.at(values, key))]), 1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_values_survive_the_lift(name: str) -> None:
    rng = np.random.default_rng(0)
    kind = KINDS[name]
    length = LENGTHS.get(name, kind.fixed_length)
    values = problems.to_values([(key, kind.random(rng, 3.0, length)) for key in range(9)])
    keys = np.arange(9, dtype=np.uint64)
    for world in (False, True):
        layout = Layout.build(keys, [kind] * 9, np.full(9, length), world=world)
        lifted = layout.lift(values)
        assert lifted.shape == (layout.size, layout.space.rows)
        assert layout.unlift(lifted).equals(values, 1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_random_rotations_are_rotations_and_positions_have_the_scale(name: str) -> None:
    rng = np.random.default_rng(1)
    kind = KINDS[name]
    length = LENGTHS.get(name, kind.fixed_length)
    numbers = np.array([kind.numbers(kind.random(rng, 100.0, length)) for _ in range(200)])
    positions = np.array([kind.positions(row) for row in numbers])
    turning = numbers[:, : numbers.shape[1] - positions.shape[1]]
    assert (np.abs(turning) <= 1 + 1e-12).all()
    if kind.translates:
        assert 80 < positions.std() < 120
        place = np.arange(positions.shape[1], dtype=float)
        placed = kind.numbers(kind.placed(place))
        np.testing.assert_allclose(kind.positions(placed), place)
        start = len(placed) - len(place)
        np.testing.assert_allclose(placed[:start], kind.numbers(kind.identity(length))[:start])
    else:
        assert not positions.size
        with pytest.raises(TypeError, match="has no position"):
            kind.placed(np.zeros(3))


def test_kinds_are_found_in_mixed_values() -> None:
    """In any order of keys; what is not supported is told apart."""
    rng = np.random.default_rng(2)
    names = rng.choice([*NAMES, "other"], size=60).tolist()
    values = gtsam.Values()
    for key, name in enumerate(names):
        values.insert(key, gtsam.Cal3_S2() if name == "other" else KINDS[name].random(rng, 1.0, 3))
    found = kinds_of(values, np.arange(60, dtype=np.uint64))
    assert [kind.name for kind in found] == names
    assert [kind == OTHER for kind in found] == [name == "other" for name in names]
    assert all(kind.is_supported == (kind != OTHER) for kind in found)
