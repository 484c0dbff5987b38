"""Encoded observations in the form of the environment's space, as networks of classes see them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gymnasium import spaces

from raycompat._old.rllib.repeated import Repeated, RepeatedValues


def restored(
    space: Any, flat: Any, reshape: Callable[..., Any], axes: tuple[int, ...] = (-1,)
) -> Any:
    """Return encoded observations in the form of their space; choices stay one-hot vectors.

    Parameters
    ----------
    space : gymnasium.Space
    flat : tensor, of shape (rows, ..., numbers)
    reshape : callable
    axes : tuple of int
        The sizes of all axes of `flat` but the last one; -1 is that of rows.
    """
    if isinstance(space, spaces.Box):
        return reshape(flat, (*axes, *space.shape))
    if isinstance(space, Repeated):
        size = spaces.flatdim(space.child_space)
        inner = *axes, space.max_len
        values = reshape(flat[..., 1:], (*inner, size))
        children = restored(space.child_space, values, reshape, inner)
        return RepeatedValues(children, flat[..., 0], space.max_len)
    if not isinstance(space, spaces.Dict | spaces.Tuple):
        return flat
    parts = space.spaces.values() if isinstance(space, spaces.Dict) else space.spaces
    found, begin = [], 0
    for part in parts:
        end = begin + spaces.flatdim(part)
        found.append(restored(part, flat[..., begin:end], reshape, axes))
        begin = end
    if isinstance(space, spaces.Dict):
        return dict(zip(space.spaces, found, strict=True))
    return tuple(found)
