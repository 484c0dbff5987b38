"""Seeds that may differ in each execution, and the numbers of tasks and executions."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import numpy as np

__all__ = ["RandomSeedConfig"]


@dataclass(frozen=True)
class RandomSeedConfig:
    """A seed for `Dataset.random_shuffle`, `randomize_block_order` and `random_sample`.

    Parameters
    ----------
    seed : int, optional
        The seed; by default each execution has other random numbers.
    reseed_after_execution : bool, default True
        Give each execution of a data set other random numbers, which the seed determines too. Otherwise
        all executions have the same.
    use_timestamp_as_default : bool, default False
        Has no effect: without a seed the operating system gives one.

    Raises
    ------
    ValueError
        For a seed that is neither an ``int`` nor None.

    Examples
    --------
    >>> config = ray.data.RandomSeedConfig(seed=1, reseed_after_execution=False)
    >>> shuffled = ray.data.range(100).random_shuffle(seed=config)
    >>> shuffled.take_all() == shuffled.take_all()
    True

    Notes
    -----
    Ray source: ``ray.data.RandomSeedConfig``, 2.60.0. Differs from Ray: see `use_timestamp_as_default`.
    """

    seed: int | None = None
    reseed_after_execution: bool = True
    use_timestamp_as_default: bool = False

    def __post_init__(self) -> None:
        if self.seed is not None and not isinstance(self.seed, int):
            raise ValueError(
                f"RandomSeedConfig(seed={self.seed!r}): give an integer, or None for other random "
                "numbers in each execution."
            )


@dataclass
class Numbers:
    """The numbers of an execution and of a task in it, from which random numbers begin.

    Parameters
    ----------
    execution : int
        The number of the execution among those of its data set.
    task : int
        The number of the task in its operator.
    kept : dict
        What a step keeps from one block of the task to the next, by a key.
    """

    execution: int = 0
    task: int = 0
    kept: dict[object, Any] = field(default_factory=dict)

    def random(self, key: object, seed: int | RandomSeedConfig | None) -> np.random.Generator:
        """Return the random numbers of the task that are kept by this key."""
        if key not in self.kept:
            begin = entropy(seed, self.execution)
            self.kept[key] = np.random.default_rng(begin and [self.task, *begin])
        kept: np.random.Generator = self.kept[key]
        return kept


#: Those of the task that runs in this thread.
current: ContextVar[Numbers] = ContextVar("numbers")


def of_task() -> Numbers:
    """Return the numbers of the task that runs in this thread."""
    return current.get(Numbers())


def check(seed: object, what: str) -> None:
    """Raise an error for what is not a seed."""
    if seed is not None and not isinstance(seed, int | np.integer | RandomSeedConfig):
        raise TypeError(f"{what}(seed={seed!r}): give an integer or a RandomSeedConfig.")


def entropy(seed: int | RandomSeedConfig | None, execution: int) -> list[int] | None:
    """Return what the random numbers of an execution begin with; None if anything will do."""
    if not isinstance(seed, RandomSeedConfig):
        return None if seed is None else [int(seed)]
    if seed.seed is None:
        return None
    return [execution, seed.seed] if seed.reseed_after_execution else [seed.seed]


def number(seed: int | RandomSeedConfig | None, execution: int) -> int:
    """Return one number for the random numbers of an execution."""
    begin = entropy(seed, execution)
    if begin is not None and len(begin) == 1:
        return begin[0]
    return int(np.random.SeedSequence(begin).generate_state(1)[0])
