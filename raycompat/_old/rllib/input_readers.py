"""Readers of recorded steps: `InputReader`, which programs subclass, and what is around it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from raycompat._old.rllib.sample_batch import JsonReader, JsonWriter, SampleBatch
from raycompat.exceptions import UnsupportedRayFeatureError

#: Functions of an `IOContext` that return a reader, by their names.
_REGISTERED: dict[str, Callable[[IOContext], Any]] = {}


class IOContext:
    """What a function that makes a reader is called with.

    Parameters
    ----------
    log_dir : str, optional
        Has no effect.
    config : AlgorithmConfig, optional
    worker_index : int, default 0
    worker : optional
        Has no effect.
    """

    def __init__(
        self, log_dir: Any = None, config: Any = None, worker_index: int = 0, worker: Any = None
    ) -> None:
        self.log_dir, self.config, self.worker_index = log_dir, config, worker_index

    @property
    def input_config(self) -> dict[str, Any]:
        """The option ``input_config``."""
        return dict(self.config.get("input_config") or {})

    def default_sampler_input(self) -> None:
        """Refuse: an algorithm that learns from recorded steps does not play.

        Raises
        ------
        UnsupportedRayFeatureError
            Always.
        """
        raise UnsupportedRayFeatureError(
            "IOContext.default_sampler_input()",
            "An algorithm learns from recorded steps, or plays",
            "leave input_ out to play",
        )


class InputReader:
    """Gives batches of recorded steps. Subclass it, and write `next`."""

    def next(self) -> SampleBatch:
        """Return the next batch."""
        raise NotImplementedError(f"{type(self).__name__}.next is not written.")


class ShuffledInput(InputReader):
    """Gives batches of another reader in a random order.

    Parameters
    ----------
    child : InputReader
    n : int, default 0
        Of how many batches one is drawn; 0 keeps the reader's order.
    """

    def __init__(self, child: Any, n: int = 0) -> None:
        self.child, self._rng = child, np.random.default_rng()
        self._kept: deque[Any] = deque(maxlen=n)
        self._num_kept = n

    def next(self) -> Any:
        """Return one of the last `n` batches, with a new one among them."""
        if not self._num_kept:
            return self.child.next()
        while len(self._kept) < self._num_kept - 1:
            self._kept.append(self.child.next())
        self._kept.append(self.child.next())
        return self._kept[int(self._rng.integers(len(self._kept)))]


def register_input(name: str, input_creator: Callable[[IOContext], Any]) -> None:
    """Give a function that makes a reader a name for ``offline_data(input_=name)``.

    Parameters
    ----------
    name : str
    input_creator : callable
        Takes an `IOContext`.
    """
    _REGISTERED[name] = input_creator


def registered_input(name: str) -> Callable[[IOContext], Any] | None:
    """Return the function that was registered under a name; None for another name."""
    return _REGISTERED.get(name)


__all__ = [
    "IOContext",
    "InputReader",
    "JsonReader",
    "JsonWriter",
    "ShuffledInput",
    "register_input",
]
