"""AutoML's searches of 0.5 to 1.13: spaces of named parameters, and a genetic search over them.

The genetic search keeps a population of points, each parameter a position in its list of choices. When
all of a generation have results, the best points become parents of the next: each parameter of a child
comes from one of two parents, or is drawn again.
"""

from __future__ import annotations

import copy
import itertools
import random
from collections.abc import Iterable
from typing import Any

import numpy as np

from raycompat.tune.search.searcher import Searcher

__all__ = [
    "ContinuousSpace",
    "DiscreteSpace",
    "GeneticSearch",
    "GridSearch",
    "RandomSearch",
    "SearchSpace",
]


class ParameterSpace:
    """A parameter: a list of choices.

    Parameters
    ----------
    name : str
        Its name; dots are levels of nested configs.
    choices : list
        Its values.
    """

    def __init__(self, name: str, choices: Iterable[Any] = ()) -> None:
        self.name, self.choices = name, list(choices)

    @property
    def choices_count(self) -> int:
        """Number of choices."""
        return len(self.choices)


class DiscreteSpace(ParameterSpace):
    """A parameter with the given choices."""


class ContinuousSpace(ParameterSpace):
    """A parameter with numbers of a range as choices.

    Parameters
    ----------
    name : str
        Its name.
    start, end : float
        The range.
    num : int
        Number of choices.
    space : {"linear", "log"}, default "linear"
        How they are spaced.
    """

    LINEAR, LOG = "linear", "log"

    def __init__(self, name: str, start: float, end: float, num: int, space: str = LINEAR) -> None:
        if space not in (self.LINEAR, self.LOG):
            raise ValueError(f"space={space!r}: expected 'linear' or 'log'.")
        spaced = np.linspace if space == self.LINEAR else np.geomspace
        super().__init__(name, spaced(start, end, num).tolist())
        self.start, self.end, self.num, self.space = start, end, num, space


class SearchSpace:
    """Parameters by name.

    Parameters
    ----------
    param_list : iterable of ParameterSpace
        The parameters.
    """

    def __init__(self, param_list: Iterable[ParameterSpace]) -> None:
        self.params = sorted(param_list, key=lambda each: each.name)

    def values_at(self, positions: Iterable[int]) -> dict[str, Any]:
        """Return the values at positions in the lists of choices, nested by the dots of names."""
        found: dict[str, Any] = {}
        for each, position in zip(self.params, positions, strict=True):
            *heads, last = each.name.split(".")
            place = found
            for head in heads:
                place = place.setdefault(head, {})
            place[last] = each.choices[position]
        return found

    def drawn(self) -> tuple[int, ...]:
        """Return random positions."""
        return tuple(random.randrange(each.choices_count) for each in self.params)


class AutoMLSearcher(Searcher):
    """A search over a `SearchSpace`, generation by generation.

    Parameters
    ----------
    search_space : SearchSpace
        The parameters.
    reward_attr : str
        The metric, which is best when it is high.
    """

    def __init__(self, search_space: SearchSpace, reward_attr: str) -> None:
        super().__init__(metric=reward_attr, mode="max")
        self.search_space = search_space
        self._waiting: list[tuple[int, ...]] = []
        self._running: dict[str, tuple[int, ...]] = {}
        self._scored: list[tuple[float, tuple[int, ...]]] = []
        self._config: dict[str, Any] = {}

    def set_search_properties(
        self, metric: str | None, mode: str | None, config: dict[str, Any], **spec: Any
    ) -> bool:
        """Take values that all trials have."""
        self._config = config
        return True

    def suggest(self, trial_id: str) -> Any:
        """Return the next config of the generation; the next generation follows when all have ended."""
        if not self._waiting:
            if self._running:
                return None
            self._waiting = self.next_generation(self._scored)
            self._scored = []
        if not self._waiting:
            return Searcher.FINISHED
        positions = self._waiting.pop(0)
        self._running[trial_id] = positions
        return {**copy.deepcopy(self._config), **self.search_space.values_at(positions)}

    def on_trial_complete(
        self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False
    ) -> None:
        """Take the reward of a trial."""
        positions = self._running.pop(trial_id)
        reward = (result or {}).get(self.metric)
        if reward is not None and not error:
            self._scored.append((float(reward), positions))

    def next_generation(self, scored: list[tuple[float, tuple[int, ...]]]) -> list[tuple[int, ...]]:
        """Return the points of the next generation, from the rewards of the last; [] is the end."""
        raise NotImplementedError


class _Once(AutoMLSearcher):
    """Has a single generation."""

    _is_begun = False

    def points(self) -> list[tuple[int, ...]]:
        """Return all points."""
        raise NotImplementedError

    def next_generation(self, scored: list[tuple[float, tuple[int, ...]]]) -> list[tuple[int, ...]]:
        """Return all points, once."""
        if self._is_begun:
            return []
        self._is_begun = True
        return self.points()


class GridSearch(_Once):
    """Tries all combinations."""

    def points(self) -> list[tuple[int, ...]]:
        """Return all combinations."""
        return list(
            itertools.product(*(range(each.choices_count) for each in self.search_space.params))
        )


class RandomSearch(_Once):
    """Tries random combinations.

    Parameters
    ----------
    repeat : int
        How many.
    """

    def __init__(self, search_space: SearchSpace, reward_attr: str, repeat: int) -> None:
        super().__init__(search_space, reward_attr)
        self._repeat = repeat

    def points(self) -> list[tuple[int, ...]]:
        """Return random combinations."""
        return [self.search_space.drawn() for _ in range(self._repeat)]


class GeneticSearch(AutoMLSearcher):
    """Lets points reproduce by their rewards.

    Parameters
    ----------
    max_generation : int, default 2
        Number of generations.
    population_size : int, default 10
        Points of each.
    population_decay : float, default 0.95
        By what the size is multiplied from one generation to the next.
    keep_top_ratio : float, default 0.2
        The part of a generation that becomes parents.
    selection_bound : float, default 0.4
        Chance that a parameter of a child comes from the second parent.
    crossover_bound : float, default 0.4
        Not used: whole parameters are inherited.
    """

    def __init__(
        self,
        search_space: SearchSpace,
        reward_attr: str,
        max_generation: int = 2,
        population_size: int = 10,
        population_decay: float = 0.95,
        keep_top_ratio: float = 0.2,
        selection_bound: float = 0.4,
        crossover_bound: float = 0.4,
    ) -> None:
        super().__init__(search_space, reward_attr)
        self._left, self._size = max_generation, float(population_size)
        self._decay, self._kept, self._swap = population_decay, keep_top_ratio, selection_bound
        self._parents: list[tuple[float, tuple[int, ...]]] = []

    def next_generation(self, scored: list[tuple[float, tuple[int, ...]]]) -> list[tuple[int, ...]]:
        """Return children of the best points of all generations so far."""
        if self._left == 0:
            return []
        self._left -= 1
        count = max(1, round(self._size))
        self._size *= self._decay
        best = sorted([*self._parents, *scored], reverse=True)
        self._parents = best[: max(2, int(len(best) * self._kept))]
        if len(self._parents) < 2:
            return [self.search_space.drawn() for _ in range(count)]
        return [self._child() for _ in range(count)]

    def _child(self) -> tuple[int, ...]:
        first, second = (points for _, points in random.sample(self._parents, 2))
        child = [
            b if random.random() < self._swap else a for a, b in zip(first, second, strict=True)
        ]
        changed = random.randrange(len(child))
        child[changed] = random.randrange(self.search_space.params[changed].choices_count)
        return tuple(child)
