"""Observation filters: observations relative to their running mean and standard deviation."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from raycompat.rllib._types import Array


class RunningStatistics:
    """Count, mean and variance of vectors, without keeping them.

    Parameters
    ----------
    shape : tuple of int
        The shape of one vector.

    Notes
    -----
    Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances"
    (1979): two sets are merged exactly, in any order.
    """

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.count = 0
        self.mean = np.zeros(shape, np.float64)
        self._squares = np.zeros(shape, np.float64)

    def add(self, batch: Array) -> None:
        """Count vectors, an array of shape (vectors, ...)."""
        batch = np.asarray(batch, np.float64)
        if not len(batch):
            return
        mean = batch.mean(axis=0)
        self._merge(len(batch), mean, ((batch - mean) ** 2).sum(axis=0))

    def merge(self, other: RunningStatistics) -> None:
        """Count what another has counted."""
        self._merge(other.count, other.mean, other._squares)

    def copy(self) -> RunningStatistics:
        """Return a copy, which counts by itself."""
        found = RunningStatistics(self.mean.shape)
        found.merge(self)
        return found

    def _merge(self, count: int, mean: NDArray[np.float64], squares: NDArray[np.float64]) -> None:
        total = self.count + count
        if not count:
            return
        delta = mean - self.mean
        self.mean = self.mean + delta * (count / total)
        self._squares = self._squares + squares + delta**2 * (self.count * count / total)
        self.count = total

    @property
    def std(self) -> NDArray[np.float64]:
        """The standard deviation of the sample; 1 where fewer than two vectors were counted."""
        if self.count < 2:
            return np.ones_like(self.mean)
        deviation: NDArray[np.float64] = np.sqrt(self._squares / (self.count - 1))
        return deviation


class MeanStdFilter:
    """Subtract the running mean, and divide by the running standard deviation.

    What was counted since the last `take_news` is kept apart, so that filters of several runners can be
    merged without counting anything twice.

    Parameters
    ----------
    shape : tuple of int
        The shape of one observation.
    demean, destd : bool, default True
        Whether to subtract the mean, and to divide by the deviation.
    clip : float, optional
        Cut off what is larger.
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        demean: bool = True,
        destd: bool = True,
        clip: float | None = None,
    ) -> None:
        self._demean, self._destd, self._clip = demean, destd, clip
        self.statistics = RunningStatistics(shape)
        self._news = RunningStatistics(shape)

    def __call__(self, batch: Array, update: bool = True) -> NDArray[np.float32]:
        """Return observations relative to all that were counted, including those of this call.

        Parameters
        ----------
        batch : array of float, shape (observations, ...)
        update : bool, default True
            Whether they are counted.

        Returns
        -------
        array of float32, of the same shape
        """
        if update:
            self.statistics.add(batch)
            self._news.add(batch)
        scaled = batch - self.statistics.mean if self._demean else np.asarray(batch)
        if self._destd:
            scaled = scaled / (self.statistics.std + 1e-8)
        if self._clip is not None:
            scaled = np.clip(scaled, -self._clip, self._clip)
        return scaled.astype(np.float32)

    def take_news(self) -> RunningStatistics:
        """Return the counts since the last call of this method, and start again."""
        news, self._news = self._news, RunningStatistics(self.statistics.mean.shape)
        return news


class NoFilter:
    """Leave observations as they are."""

    statistics = None

    def __call__(self, batch: Array, update: bool = True) -> NDArray[np.float32]:
        """Return the observations as float32."""
        return np.asarray(batch, np.float32)

    def take_news(self) -> None:
        """Return nothing: nothing was counted."""


class Filter:
    """The base of filters that programs write: they are called with an observation.

    Notes
    -----
    Ray source: ``ray.rllib.utils.filter.Filter``, 2.60.0. Differs from Ray: each env runner has
    its own filter; what it counts is not merged.
    """

    def __call__(self, x: Array, update: bool = True) -> ArrayLike:
        """Return what stands for an observation.

        Parameters
        ----------
        x : array
        update : bool, default True
            Whether it is counted.
        """
        raise NotImplementedError(f"{type(self).__name__}.__call__ is not written.")


class FilterOfUser:
    """A filter of a program: a function of one observation.

    Parameters
    ----------
    function : callable
        Returns what stands for an observation, with the shape of it; it may take ``update``, too.
    """

    statistics = None

    def __init__(self, function: Callable[..., ArrayLike]) -> None:
        self._function = function
        self._takes_update = "update" in _parameters(function)

    def __call__(self, batch: Array, update: bool = True) -> NDArray[np.float32]:
        """Return what stands for the observations, as float32."""
        given = {"update": update} if self._takes_update else {}
        return np.asarray([self._function(each, **given) for each in batch], np.float32)

    def take_news(self) -> None:
        """Return nothing: nothing was counted."""


def _parameters(function: Callable[..., object]) -> list[str]:
    try:
        return list(inspect.signature(function).parameters)
    except ValueError:  # of a function in C
        return []


AnyFilter = MeanStdFilter | NoFilter | FilterOfUser

#: Returns a filter for the shape of an observation; the filter takes an observation, see `Filter`.
FilterMaker = Callable[[tuple[int, ...]], Callable[..., ArrayLike]]

#: The names that the option ``observation_filter`` takes.
FILTERS = {"NoFilter": NoFilter, "MeanStdFilter": MeanStdFilter}


def make_filter(chosen: str | FilterMaker, shape: tuple[int, ...]) -> AnyFilter:
    """Return a new filter.

    Parameters
    ----------
    chosen : str or callable
        A name; or a function of the shape that returns a filter, which is called with an observation.
    shape : tuple of int
        The shape of one observation.

    Raises
    ------
    ValueError
        When there is none of that name.
    """
    if callable(chosen):
        made = chosen(shape)
        return made if isinstance(made, AnyFilter) else FilterOfUser(made)
    if chosen not in FILTERS:
        raise ValueError(f"observation_filter={chosen!r}: expected one of {sorted(FILTERS)}.")
    return MeanStdFilter(shape) if chosen == "MeanStdFilter" else NoFilter()
