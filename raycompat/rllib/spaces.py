"""Spaces of environments: observations become arrays of numbers, numbers become actions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

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

    def __init__(self, space: gymnasium.Space[Any]) -> None:
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

    def __call__(self, observations: Sequence[Any]) -> NDArray[np.float32]:
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

    def _encoded(self, observations: Sequence[Any]) -> NDArray[np.float32]:
        if isinstance(self.space, spaces.Box):
            found = np.asarray(observations, np.float32).reshape(len(observations), *self.shape)
            return found / np.float32(255) if self.is_image else found
        flat = [spaces.flatten(self.space, each) for each in observations]
        return np.asarray(flat, np.float32).reshape(len(observations), *self.shape)


def _is_image(space: gymnasium.Space[Any]) -> bool:
    return (
        isinstance(space, spaces.Box) and len(space.shape) == 3 and space.dtype == np.dtype("uint8")
    )


class ActionDecoder:
    """Make actions that an environment takes of the numbers of a policy.

    Parameters
    ----------
    space : gymnasium.Space
    normalize : bool, default True
        Stretch -1 to 1 to the limits of a bounded box.
    clip : bool, default False
        Clip values outside the limits.

    Attributes
    ----------
    is_discrete : bool
    num_choices : int
        How many actions there are, or how many numbers an action has.

    Raises
    ------
    UnsupportedSpaceException
        When the space is neither Discrete nor Box.
    """

    def __init__(
        self, space: gymnasium.Space[Any], normalize: bool = True, clip: bool = False
    ) -> None:
        self.space = space
        self.is_discrete = isinstance(space, spaces.Discrete)
        if isinstance(space, spaces.Discrete):
            self.num_choices = int(space.n)
            return
        if not isinstance(space, spaces.Box):
            raise UnsupportedSpaceException(
                f"Actions of {space!r}: expected a Discrete or a Box space. A gymnasium.ActionWrapper "
                "can make one of it."
            )
        self.num_choices = int(np.prod(space.shape))
        self._normalizes = normalize and bool(space.is_bounded("both"))
        self._clips = clip or self._normalizes

    def __call__(self, actions: NDArray[Any]) -> list[Any]:
        """Return the environment's actions.

        Parameters
        ----------
        actions : array
            Of shape (actions,) and dtype int64; or of shape (actions, num_choices) and dtype float32.
        """
        space = self.space
        if isinstance(space, spaces.Discrete):
            return [int(action) + int(space.start) for action in actions]
        assert isinstance(space, spaces.Box)
        shaped = np.asarray(actions).reshape(len(actions), *space.shape)
        if self._normalizes:
            shaped = space.low + (shaped + 1) * 0.5 * (space.high - space.low)
        if self._clips:
            shaped = np.clip(shaped, space.low, space.high)
        return list(shaped.astype(space.dtype))
