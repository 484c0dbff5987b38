"""Replay buffers: steps of the past, from which off-policy algorithms learn again."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from raycompat.rllib._types import Array, State


class SumTree:
    """Numbers whose sum, and whose running sums, are known in logarithmic time.

    Parameters
    ----------
    capacity : int, at least 1
        How many numbers, all 0 at first.

    Notes
    -----
    A complete binary tree in one array: node ``i`` is the sum of nodes ``2i`` and ``2i + 1``; the
    numbers are the leaves.
    """

    def __init__(self, capacity: int) -> None:
        self._num_leaves = 1 << max(0, capacity - 1).bit_length()
        self._nodes = np.zeros(2 * self._num_leaves, np.float64)

    @property
    def total(self) -> float:
        """The sum of all numbers."""
        return float(self._nodes[1])

    def __getitem__(self, indices: NDArray[np.int64]) -> NDArray[np.float64]:
        found: NDArray[np.float64] = self._nodes[np.asarray(indices) + self._num_leaves]
        return found

    def __setitem__(self, indices: NDArray[np.int64], values: NDArray[np.float64]) -> None:
        """Replace numbers; of an index that occurs twice, the last value counts."""
        nodes = np.asarray(indices) + self._num_leaves
        self._nodes[nodes] = values
        nodes = np.unique(nodes)
        while nodes[0] > 1:
            nodes = np.unique(nodes >> 1)
            self._nodes[nodes] = self._nodes[2 * nodes] + self._nodes[2 * nodes + 1]

    def find(self, sums: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return for each sum the first index up to which, inclusive, the numbers exceed it.

        Parameters
        ----------
        sums : array of float, each at least 0 and less than `total`

        Returns
        -------
        array of int64
        """
        left = np.array(sums, np.float64)
        nodes = np.ones(len(left), np.int64)
        while nodes[0] < self._num_leaves:
            nodes = 2 * nodes
            below = self._nodes[nodes]
            # A right subtree of zeros is not entered although rounding may say so.
            goes_right = (left >= below) & (self._nodes[nodes + 1] > 0)
            left = np.where(goes_right, left - below, left)
            nodes += goes_right
        return nodes - self._num_leaves


class ReplayBuffer:
    """The last steps, drawn with equal chances.

    Parameters
    ----------
    capacity : int, at least 1
        How many steps are kept; the oldest are replaced.
    rng : numpy.random.Generator
        What draws.

    Notes
    -----
    Lin, "Self-improving reactive agents based on reinforcement learning, planning and teaching" (1992);
    for deep networks Mnih et al. (arXiv 1312.5602).
    """

    def __init__(self, capacity: int, rng: np.random.Generator) -> None:
        self.capacity = capacity
        self._rng = rng
        self._columns: dict[str, Array] = {}
        self._size = 0
        self._next = 0

    def __len__(self) -> int:
        return self._size

    def add(self, steps: dict[str, Array]) -> NDArray[np.int64]:
        """Store steps.

        Parameters
        ----------
        steps : dict of arrays, each of shape (steps, ...)
            The same names, shapes and dtypes each time. Of more than `capacity` steps, the last count.

        Returns
        -------
        array of int64, shape (kept,)
            Where they are.
        """
        count = len(next(iter(steps.values())))
        steps = {name: column[-self.capacity :] for name, column in steps.items()}
        count = min(count, self.capacity)
        if not self._columns:
            self._columns = {
                name: np.empty((self.capacity, *column.shape[1:]), column.dtype)
                for name, column in steps.items()
            }
        places = (self._next + np.arange(count)) % self.capacity
        for name, column in steps.items():
            self._columns[name][places] = column
        self._next = (self._next + count) % self.capacity
        self._size = min(self._size + count, self.capacity)
        return places

    def sample(self, count: int) -> dict[str, Array]:
        """Return steps that were drawn; one may come twice.

        Returns
        -------
        dict of arrays
            The names of `add`, and ``indices`` (int64) and ``weights`` (float32), of shape (count,).
        """
        return self._at(self._rng.integers(self._size, size=count), np.ones(count, np.float32))

    def _at(self, places: NDArray[np.int64], weights: NDArray[np.float32]) -> dict[str, Array]:
        drawn = {name: column[places] for name, column in self._columns.items()}
        return {**drawn, "indices": places, "weights": weights}

    def get_state(self) -> State:
        """Return the steps, and where the next one goes."""
        columns = {name: column[: self._size] for name, column in self._columns.items()}
        return {"columns": columns, "next": self._next}

    def set_state(self, state: State) -> None:
        """Take what `get_state` returned from a buffer of the same capacity."""
        self._columns, self._size, self._next = {}, 0, 0
        if state["columns"]:
            self.add(state["columns"])
        self._next = state["next"]


class PrioritizedReplayBuffer(ReplayBuffer):
    r"""The last steps; those with a large error are drawn more often.

    Parameters
    ----------
    capacity : int, at least 1
    rng : numpy.random.Generator
    alpha : float, at least 0, default 0.6
        How much priorities count: with 0 all chances are equal.
    beta : float, 0 to 1, default 0.4
        How far the weights make up for the unequal chances: with 1 entirely.
    epsilon : float, default 1e-6
        A constant that is added to errors, so that every step can be chosen.

    Notes
    -----
    Schaul et al., "Prioritized experience replay" (arXiv 1511.05952): the chance of a step is
    :math:`p_i^\alpha / \sum_k p_k^\alpha` and its weight :math:`(N P(i))^{-\beta}`, relative to the
    largest of the buffer. New steps have the largest priority seen.
    """

    def __init__(
        self,
        capacity: int,
        rng: np.random.Generator,
        alpha: float = 0.6,
        beta: float = 0.4,
        epsilon: float = 1e-6,
    ) -> None:
        super().__init__(capacity, rng)
        self._alpha, self.beta, self._epsilon = alpha, beta, epsilon
        self._tree = SumTree(capacity)
        self._largest = 1.0

    def add(self, steps: dict[str, Array]) -> NDArray[np.int64]:
        """Store steps with the largest priority so far."""
        places = super().add(steps)
        self._tree[places] = np.full(len(places), self._largest**self._alpha)
        return places

    def sample(self, count: int) -> dict[str, Array]:
        """Return steps drawn by their priorities, one from each of `count` equal parts of the sum."""
        total = self._tree.total
        edges = (np.arange(count) + self._rng.random(count)) * (total / count)
        places = self._tree.find(np.minimum(edges, np.nextafter(total, 0)))
        chances = self._tree[places] / total
        smallest = self._tree[np.arange(self._size)].min() / total
        weights = (chances / smallest) ** -self.beta
        return self._at(places, weights.astype(np.float32))

    def update_priorities(self, places: NDArray[np.int64], errors: NDArray[np.floating]) -> None:
        """Set the priorities of steps that were learned from.

        Parameters
        ----------
        places : array of int64, shape (steps,)
            The ``indices`` of a sample.
        errors : array of float, shape (steps,)
            Their temporal difference errors, of either sign.
        """
        priorities = np.abs(errors).astype(np.float64) + self._epsilon
        self._largest = max(self._largest, float(priorities.max()))
        self._tree[places] = priorities**self._alpha

    def get_state(self) -> State:
        """Return the steps with their priorities."""
        priorities = self._tree[np.arange(self._size)]
        return {**super().get_state(), "priorities": priorities, "largest": self._largest}

    def set_state(self, state: State) -> None:
        """Take what `get_state` returned from a buffer of the same capacity."""
        super().set_state(state)
        self._largest = state["largest"]
        if self._size:
            self._tree[np.arange(self._size)] = state["priorities"]
