"""``ray.rllib.utils.spaces.space_utils``: spaces and values of Dict and Tuple spaces, part by part."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np


def flatten_space(space: Any) -> list[Any]:
    """Return the spaces within dicts and tuples, in their order.

    Parameters
    ----------
    space : gymnasium.Space
    """
    if isinstance(space, gymnasium.spaces.Tuple):
        return [leaf for each in space.spaces for leaf in flatten_space(each)]
    if isinstance(space, gymnasium.spaces.Dict):
        return [leaf for each in space.spaces.values() for leaf in flatten_space(each)]
    return [space]


def get_base_struct_from_space(space: Any) -> Any:
    """Return a space with dicts and tuples in place of Dict and Tuple spaces.

    Parameters
    ----------
    space : gymnasium.Space
    """
    if isinstance(space, gymnasium.spaces.Tuple):
        return tuple(get_base_struct_from_space(each) for each in space.spaces)
    if isinstance(space, gymnasium.spaces.Dict):
        return {name: get_base_struct_from_space(each) for name, each in space.spaces.items()}
    return space


def flatten_to_single_ndarray(input_: Any) -> Any:
    """Return the numbers of dicts and tuples in one vector; others as they are.

    Parameters
    ----------
    input_ : object
    """
    if isinstance(input_, Mapping):
        parts = [flatten_to_single_ndarray(each) for each in input_.values()]
    elif isinstance(input_, tuple | list):
        parts = [flatten_to_single_ndarray(each) for each in input_]
    else:
        return np.asarray(input_)
    return np.concatenate([np.reshape(part, [-1]) for part in parts])


def batch(
    list_of_structs: list[Any], *, individual_items_already_have_batch_dim: Any = False
) -> Any:
    """Return values as one batch; of dicts and tuples, a batch of each part.

    Parameters
    ----------
    list_of_structs : list
    individual_items_already_have_batch_dim : bool, default False
        Whether each value is a batch; then they are put one after the other.
    """
    first = list_of_structs[0]
    has_rows = individual_items_already_have_batch_dim
    if isinstance(first, Mapping):
        return {
            name: batch(
                [each[name] for each in list_of_structs],
                individual_items_already_have_batch_dim=has_rows,
            )
            for name in first
        }
    if isinstance(first, tuple):
        return tuple(
            batch(
                [each[i] for each in list_of_structs],
                individual_items_already_have_batch_dim=has_rows,
            )
            for i in range(len(first))
        )
    return np.concatenate(list_of_structs) if has_rows else np.stack(list_of_structs)


def unbatch(batches_struct: Any) -> list[Any]:
    """Return the rows of a batch.

    Parameters
    ----------
    batches_struct : array, dict or tuple
    """
    if isinstance(batches_struct, Mapping):
        parts = {name: unbatch(each) for name, each in batches_struct.items()}
        count = len(next(iter(parts.values())))
        return [{name: rows[i] for name, rows in parts.items()} for i in range(count)]
    if isinstance(batches_struct, tuple):
        return list(zip(*map(unbatch, batches_struct), strict=True))
    return list(batches_struct)


__all__ = [
    "batch",
    "flatten_space",
    "flatten_to_single_ndarray",
    "get_base_struct_from_space",
    "unbatch",
]
