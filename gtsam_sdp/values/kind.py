"""What a type of value is to the package: the blocks of rows that it owns, its numbers, and the way there and back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import gtsam
import numpy as np

from gtsam_sdp.linalg.array import Array
from gtsam_sdp.values.blocks import FREE, ROTATION, Block
from gtsam_sdp.values.space import Space


class Kind(ABC):
    """A type of value, asked for what it does and never for its name.

    Its *numbers* are those of its rows in Y, one row after another: the columns of R (in the plane cos and sin only),
    then the position or vector.

    Attributes:
        name: of the type in GTSAM.
        dimension: 2 or 3, None for both.
        blocks: the blocks of rows that it owns, in the order of `BLOCKS`.
        has_length: whether the layout counts its numbers, which are those of a vector.
        fixed_length: how many these are, 0 where its values differ in length.
        can_be_probed: whether errors may be linear in its numbers.
        is_supported: whether it has numbers.
    """

    name: ClassVar[str]
    dimension: ClassVar[int | None] = None
    blocks: ClassVar[tuple[Block, ...]] = ()
    has_length: ClassVar[bool] = False
    fixed_length: ClassVar[int] = 0
    can_be_probed: ClassVar[bool] = True
    is_supported: ClassVar[bool] = True

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return self.name

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(type(self))

    @property
    def rotates(self) -> bool:
        """Whether it owns the rows of a rotation."""
        return ROTATION in self.blocks

    @property
    def translates(self) -> bool:
        """Whether it owns the row of a position, or rows of a vector."""
        return FREE in self.blocks

    def keys_of(self, values: gtsam.Values) -> Sequence[int]:
        """Keys of all values of this type where GTSAM lists them, none where it does not."""
        return ()

    @abstractmethod
    def at(self, values: gtsam.Values, key: int) -> Any:
        """The value of a key; RuntimeError if it is of another type."""

    @abstractmethod
    def numbers(self, value: Any) -> Array:
        """Numbers of a value, (n,)."""

    def read(self, values: gtsam.Values, keys: Array) -> Array | Sequence[Array]:
        """Numbers of the values of some keys, (m, n); a list where their lengths differ."""
        return np.array([self.numbers(self.at(values, key)) for key in keys.tolist()])

    @abstractmethod
    def write(self, numbers: Array) -> Any:
        """The value with these numbers, (n,); rotations are rotations already."""

    @abstractmethod
    def identity(self, length: int) -> Any:
        """The identity, or the zero vector of a length."""

    @abstractmethod
    def random(self, rng: np.random.Generator, scale: float, length: int) -> Any:
        """A random value: any rotation, positions or vectors of standard deviation `scale` [m]."""

    def positions(self, numbers: Array) -> Array:
        """The numbers of a position or vector among all numbers of a value, (n,)."""
        space = Space(self.dimension or 3)
        return numbers[sum(block.count(space) * space.dimension for block in self.blocks if block != FREE) :]

    def placed(self, position: Array) -> Any:
        """The value at a position (d,), not turned; TypeError if it has none."""
        raise TypeError(f"{self.name} has no position.")


def random_rotation3(rng: np.random.Generator) -> gtsam.Rot3:
    """A rotation about any axis by an angle up to pi [rad]."""
    axis = rng.normal(size=3)
    return gtsam.Rot3.Expmap(axis / np.linalg.norm(axis) * rng.uniform(0, np.pi))
