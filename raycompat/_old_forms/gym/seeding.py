"""``gym.utils.seeding``: random numbers with the methods of both generators of numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.utils import seeding


class RandomNumberGenerator(np.random.Generator):
    """A generator of numpy with the methods of the one before it, which environments of gym call."""

    def rand(self, *size: int) -> Any:
        """Return numbers from 0 to 1.

        Parameters
        ----------
        *size : int
            The axes of the array; none for one number.
        """
        return self.random(size or None)

    def random_sample(self, size: Any = None) -> Any:
        """Return numbers from 0 to 1.

        Parameters
        ----------
        size : int or tuple of int, optional
            The axes of the array; by default one number.
        """
        return self.random(size)

    def randn(self, *size: int) -> Any:
        """Return normal numbers.

        Parameters
        ----------
        *size : int
            The axes of the array; none for one number.
        """
        return self.standard_normal(size or None)

    def randint(self, low: Any, high: Any = None, size: Any = None, dtype: Any = int) -> Any:
        """Return integers, from 0 to `low`, or from `low` to `high`, without the last one.

        Parameters
        ----------
        low : int
        high : int, optional
        size : int or tuple of int, optional
            The axes of the array; by default one number.
        dtype : type, default int
        """
        return self.integers(low, high, size, dtype)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the state."""
        return type(self), (self.bit_generator,)


RNG = RandomNumberGenerator


def np_random(seed: int | None = None) -> tuple[RandomNumberGenerator, int]:
    """Return a generator, and the seed that was used.

    Parameters
    ----------
    seed : int, optional
        By default one that differs each time.
    """
    made, used = seeding.np_random(seed)
    return RandomNumberGenerator(made.bit_generator), int(used)
