"""`Repeated`: a space of lists of differing lengths, and their values in networks."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces


class Repeated(gymnasium.Space[Any]):
    """Lists of elements of one space, of 0 to `max_len` elements.

    Networks see them as `RepeatedValues`; as one vector they are the length, and the elements, filled
    up with zeros.

    Parameters
    ----------
    child_space : gymnasium.Space
    max_len : int

    Notes
    -----
    Ray source: ``ray.rllib.utils.spaces.repeated.Repeated``, 2.60.0. No known difference.
    """

    def __init__(self, child_space: gymnasium.Space[Any], max_len: int) -> None:
        super().__init__()
        self.child_space, self.max_len = child_space, max_len

    @property
    def is_np_flattenable(self) -> bool:
        """Whether it can be one vector: if its elements can."""
        return bool(self.child_space.is_np_flattenable)

    def sample(self, mask: Any = None, probability: Any = None) -> list[Any]:
        """Return a random list, of at least one element."""
        count = int(self.np_random.integers(1, self.max_len + 1))
        return [self.child_space.sample() for _ in range(count)]

    def contains(self, x: Any) -> bool:
        """Return whether `x` is a list of such elements."""
        is_list = isinstance(x, list | tuple | np.ndarray) and len(x) <= self.max_len
        return is_list and all(self.child_space.contains(each) for each in x)


@spaces.flatdim.register(Repeated)
def _flatdim(space: Repeated) -> int:
    return 1 + space.max_len * spaces.flatdim(space.child_space)


@spaces.flatten.register(Repeated)
def _flatten(space: Repeated, x: Any) -> Any:
    size = spaces.flatdim(space.child_space)
    found = np.zeros((space.max_len, size), np.float32)
    for place, each in enumerate(x):
        found[place] = np.asarray(spaces.flatten(space.child_space, each))
    return np.concatenate([[len(x)], found.reshape(-1)], dtype=np.float32)


class RepeatedValues:
    """A batch of lists of a `Repeated` space.

    Parameters
    ----------
    values : tensor, or dict or tuple of them, each of shape (rows, max_len, ...)
        Zeros after the end of a list.
    lengths : tensor, shape (rows,)
    max_len : int
    """

    def __init__(self, values: Any, lengths: Any, max_len: int) -> None:
        self.values, self.lengths, self.max_len = values, lengths, max_len

    def unbatch_repeat_dim(self) -> list[Any]:
        """Return the first elements of all rows, the second ones, and so on to `max_len`."""
        return [_of_each(self.values, (slice(None), n)) for n in range(self.max_len)]

    def unbatch_all(self) -> list[list[Any]]:
        """Return the list of each row; the rows must be known, which they are in eager mode.

        Raises
        ------
        ValueError
            While a network is compiled.
        """
        rows = self.lengths.shape[0]
        if rows is None:
            raise ValueError(
                "unbatch_all() needs a known number of rows: expected eager execution. Guard the call "
                "with tf.executing_eagerly()."
            )
        lists = []
        for row in range(rows):
            own = _of_each(self.values, row)
            length = int(self.lengths[row])
            lists.append([_of_each(own, n) for n in range(length)])
        return lists

    def __repr__(self) -> str:
        own = f"values={self.values!r}, lengths={self.lengths!r}, max_len={self.max_len}"
        return f"RepeatedValues({own})"


def _of_each(values: Any, place: Any) -> Any:
    """Return a part of the tensors within dicts, tuples and lists."""
    if isinstance(values, dict):
        return {name: _of_each(each, place) for name, each in values.items()}
    if isinstance(values, tuple):
        return tuple(_of_each(each, place) for each in values)
    if isinstance(values, RepeatedValues):
        inner = _of_each(values.values, place)
        return RepeatedValues(inner, values.lengths[place], values.max_len)
    return values[place]


__all__ = ["Repeated"]
