"""Spaces of environments: observations become arrays of numbers, numbers become actions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import ArrayLike, NDArray

from raycompat.rllib._types import Action, Array, Observation, Space
from raycompat.rllib.distributions import Layout, Part
from raycompat.rllib.utils.error import UnsupportedSpaceException


class ObservationEncoder:
    """Make an array of float32 of observations.

    Images, boxes of three axes and bytes, keep their shape and are divided by 255. Everything else is
    flattened: numbers as they are, choices as a one-hot vector, dicts and tuples one after the other.

    Parameters
    ----------
    space : gymnasium.Space

    Attributes
    ----------
    shape : tuple of int
        The shape of one encoded observation.

    Raises
    ------
    UnsupportedSpaceException
        When observations of the space differ in size.
    """

    def __init__(self, space: Space) -> None:
        self.space = space
        self.is_image = _is_image(space)
        if self.is_image:
            self.shape: tuple[int, ...] = tuple(space.shape or ())
            return
        if not space.is_np_flattenable:
            raise UnsupportedSpaceException(
                f"Observations of {space!r} differ in size. Expected a Box, Discrete, MultiDiscrete or "
                "MultiBinary space, or a Dict or Tuple of these. A gymnasium.ObservationWrapper can "
                "make one of it."
            )
        self.shape = (spaces.flatdim(space),)

    def __call__(self, observations: Sequence[Observation]) -> NDArray[np.float32]:
        """Return observations as one array.

        Parameters
        ----------
        observations : sequence

        Returns
        -------
        array of float32
            Of shape (observations, ...).

        Raises
        ------
        ValueError
            When an observation is not of the space.
        """
        try:
            return self._encoded(observations)
        except (ValueError, TypeError, KeyError, IndexError, AssertionError) as error:
            wrong = next((each for each in observations if each not in self.space), observations)
            raise ValueError(
                f"The observation {wrong!r} is not of the environment's observation_space "
                f"{self.space!r}: {error}. Let reset() and step() return observations of this space."
            ) from error

    def _encoded(self, observations: Sequence[Observation]) -> NDArray[np.float32]:
        if isinstance(self.space, spaces.Box):
            found = np.asarray(observations, np.float32).reshape(len(observations), *self.shape)
            return found / np.float32(255) if self.is_image else found
        flat = [spaces.flatten(self.space, each) for each in observations]
        return np.asarray(flat, np.float32).reshape(len(observations), *self.shape)


def _is_image(space: Space) -> bool:
    return (
        isinstance(space, spaces.Box) and len(space.shape) == 3 and space.dtype == np.dtype("uint8")
    )


class ActionDecoder:
    """Make actions that an environment takes of the numbers of a policy.

    Parameters
    ----------
    space : gymnasium.Space
        Discrete, Box, MultiDiscrete, MultiBinary, or a Tuple or Dict of these.
    normalize : bool, default True
        Stretch -1 to 1 to the limits of a bounded box.
    clip : bool, default False
        Clip values outside the limits.

    Attributes
    ----------
    layout : tuple of Part
        The parts of an action.

    Raises
    ------
    UnsupportedSpaceException
        When the space is something else.
    """

    def __init__(self, space: Space, normalize: bool = True, clip: bool = False) -> None:
        self.space = space
        self._leaves = [_leaf(each, space, normalize, clip) for each in _leaves_of(space)]
        self.layout: Layout = tuple(part for leaf in self._leaves for part in leaf.parts)

    @property
    def is_choice(self) -> bool:
        """Whether an action is one of several choices."""
        return len(self.layout) == 1 and self.layout[0].is_discrete

    def __call__(self, actions: Array) -> list[Action]:
        """Return the environment's actions.

        Parameters
        ----------
        actions : array
            See `Layout`.
        """
        if len(self._leaves) == 1 and not isinstance(self.space, spaces.Dict | spaces.Tuple):
            return self._leaves[0](actions)
        if actions.ndim == 1:
            actions = actions[:, None]
        columns, begin = [], 0
        for leaf in self._leaves:
            width = sum(part.width for part in leaf.parts)
            columns.append(leaf(actions[:, begin : begin + width]))
            begin += width
        return [_nested(self.space, iter(values)) for values in zip(*columns, strict=True)]

    def split(self, actions: Array) -> list[Action]:
        """Return the numbers of a policy as actions with the dicts and tuples of the space.

        Choices are counted from 0, and numbers are not stretched.

        Parameters
        ----------
        actions : array
            See `Layout`.
        """
        widths = [sum(part.width for part in leaf.parts) for leaf in self._leaves]
        parts = np.split(actions.reshape(len(actions), -1), np.cumsum(widths)[:-1], axis=1)
        columns = [leaf.numbers(part) for leaf, part in zip(self._leaves, parts, strict=True)]
        return [_nested(self.space, iter(values)) for values in zip(*columns, strict=True)]

    def joined(self, action: Action) -> NDArray[np.float32]:
        """Return one action of `split` as the numbers of a policy.

        Parameters
        ----------
        action : object

        Raises
        ------
        ValueError
            When a choice is not a whole number.
        """
        found = [np.ravel(each) for each in _values_of(self.space, action)]
        for leaf, numbers in zip(self._leaves, found, strict=True):
            if leaf.parts[0].is_discrete and np.any(numbers % 1):
                raise ValueError(f"The choice {numbers!r}: expected whole numbers.")
        return np.concatenate(found, dtype=np.float32)

    def learned(self, actions: Sequence[Action], is_normalized: bool = False) -> Array:
        """Return the environment's actions as networks learn them: the other way of a call.

        Parameters
        ----------
        actions : sequence
            Of the space.
        is_normalized : bool, default False
            Whether numbers of bounded boxes are between -1 and 1 already.

        Raises
        ------
        UnsupportedSpaceException
            When an action consists of several parts.
        """
        if len(self.layout) != 1:
            raise UnsupportedSpaceException(
                f"Recorded actions of {self.space!r}: expected a Discrete or a Box space."
            )
        if self.is_choice:
            start = int(self.space.start)  # type: ignore[attr-defined]
            return np.asarray(actions, np.int32).reshape(len(actions)) - np.int32(start)
        if is_normalized:
            return np.asarray(actions, np.float32).reshape(len(actions), -1)
        return np.stack([self.encoded(each) for each in actions])

    def encoded(self, action: Action) -> NDArray[np.float32]:
        """Return one action of the environment as numbers: choices are one-hot vectors.

        Parameters
        ----------
        action : object
            Of the space.
        """
        values = _values_of(self.space, action)
        pairs = zip(self._leaves, values, strict=True)
        return np.concatenate([leaf.encoded(value) for leaf, value in pairs], dtype=np.float32)


class _Choice:
    """Actions of a Discrete space."""

    def __init__(self, space: spaces.Discrete) -> None:
        self.parts = [Part(True, int(space.n))]
        self._start = int(space.start)

    def __call__(self, actions: Array) -> list[Action]:
        return [int(action) + self._start for action in actions.reshape(-1)]

    def numbers(self, actions: Array) -> Array:
        return actions.reshape(-1).astype(np.int64)

    def encoded(self, action: Action) -> NDArray[np.floating]:
        found: NDArray[np.floating] = np.eye(self.parts[0].size)[int(action) - self._start]
        return found


class _Choices:
    """Actions of a MultiDiscrete or MultiBinary space."""

    def __init__(
        self, space: Space, sizes: NDArray[np.integer], starts: NDArray[np.integer] | int
    ) -> None:
        self.parts = [Part(True, int(size)) for size in sizes.reshape(-1)]
        self._space, self._starts = space, starts

    def __call__(self, actions: Array) -> list[Action]:
        shaped = actions.reshape(len(actions), *(self._space.shape or ()))
        return list((shaped.astype(np.int64) + self._starts).astype(self._space.dtype))

    def numbers(self, actions: Array) -> Array:
        return actions.astype(np.int64)

    def encoded(self, action: ArrayLike) -> NDArray[np.floating]:
        chosen = (np.asarray(action) - self._starts).reshape(-1).astype(np.int64)
        pairs = zip(self.parts, chosen, strict=True)
        return np.concatenate([np.eye(part.size)[each] for part, each in pairs])


class _Numbers:
    """Actions of a Box space."""

    def __init__(self, space: spaces.Box, normalize: bool, clip: bool) -> None:
        self.parts = [Part(False, int(np.prod(space.shape)))]
        self._space = space
        self._normalizes = normalize and bool(space.is_bounded("both"))
        self._clips = clip or self._normalizes

    def __call__(self, actions: Array) -> list[Action]:
        space = self._space
        shaped = np.asarray(actions).reshape(len(actions), *space.shape)
        if self._normalizes:
            shaped = space.low + (shaped + 1) * 0.5 * (space.high - space.low)
        if self._clips:
            shaped = np.clip(shaped, space.low, space.high)
        return list(shaped.astype(space.dtype))

    def numbers(self, actions: Array) -> Array:
        return actions.astype(np.float32)

    def encoded(self, action: ArrayLike) -> NDArray[np.floating]:
        space, numbers = self._space, np.asarray(action, np.float32)
        if self._normalizes:
            numbers = 2 * (numbers - space.low) / (space.high - space.low) - 1
        found: NDArray[np.floating] = numbers.reshape(-1)
        return found


def _leaf(leaf: Space, whole: Space, normalize: bool, clip: bool) -> _Choice | _Choices | _Numbers:
    if isinstance(leaf, spaces.Discrete):
        return _Choice(leaf)
    if isinstance(leaf, spaces.MultiDiscrete):
        return _Choices(leaf, np.asarray(leaf.nvec), np.asarray(leaf.start))
    if isinstance(leaf, spaces.MultiBinary):
        return _Choices(leaf, np.full(leaf.shape, 2), 0)
    if isinstance(leaf, spaces.Box):
        return _Numbers(leaf, normalize, clip)
    raise UnsupportedSpaceException(
        f"Actions of {whole!r}: expected a Discrete, Box, MultiDiscrete or MultiBinary space, or a "
        "Tuple or Dict of these. A gymnasium.ActionWrapper can make one of it."
    )


def _leaves_of(space: Space) -> list[Space]:
    """Return the spaces within dicts and tuples, in their order."""
    if isinstance(space, spaces.Tuple):
        return [leaf for each in space.spaces for leaf in _leaves_of(each)]
    if isinstance(space, spaces.Dict):
        return [leaf for each in space.spaces.values() for leaf in _leaves_of(each)]
    return [space]


def _values_of(space: Space, action: Action) -> list[Action]:
    """Return the parts of an action, for `_leaves_of` the space."""
    if isinstance(space, spaces.Tuple):
        pairs = list(zip(space.spaces, action, strict=True))
    elif isinstance(space, spaces.Dict):
        pairs = [(each, action[name]) for name, each in space.spaces.items()]
    else:
        return [action]
    return [value for each, own in pairs for value in _values_of(each, own)]


def _nested(space: Space, values: Iterator[Action]) -> Action:
    """Return an action of a space from those of its leaves."""
    if isinstance(space, spaces.Tuple):
        return tuple(_nested(each, values) for each in space.spaces)
    if isinstance(space, spaces.Dict):
        return {name: _nested(each, values) for name, each in space.spaces.items()}
    return next(values)


def check_has_deviations(action_space: Space) -> None:
    """Raise unless actions are numbers of one Box; with ``free_log_std``, they must be.

    Raises
    ------
    UnsupportedSpaceException
        When they are not.
    """
    layout = ActionDecoder(action_space).layout
    if len(layout) > 1 or layout[0].is_discrete:
        raise UnsupportedSpaceException(
            f"free_log_std=True: the actions of {action_space!r} are not numbers of one Box, and only "
            "these have deviations. Leave free_log_std out."
        )


def mapped(function: Callable[[Any], Any], nested: Any) -> Any:
    """Return dicts and tuples with what a function returns for each value in them."""
    if isinstance(nested, Mapping):
        return {name: mapped(function, each) for name, each in nested.items()}
    if isinstance(nested, tuple | list):
        return tuple(mapped(function, each) for each in nested)
    return function(nested)
