"""Functions in place of columns, by which Ray 1.5 to 2.4 sorted and grouped rows."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

import pyarrow as pa

from raycompat._old.data import plain_rows
from raycompat.data import block, tensor
from raycompat.data.block import Block
from raycompat.data.plan import Map
from raycompat.data.transform import TableStep, UserFunction

_F = TypeVar("_F", bound=Callable[..., Any])


def sorts_by_function(method: _F) -> _F:
    """Make ``Dataset.sort`` take a function of rows, or no key for rows that are plain values."""

    @functools.wraps(method)
    def sort(dataset: Any, *args: Any, **kwargs: Any) -> Any:
        key, rest = _key_of(args, kwargs)
        if plain_rows.are_chosen() and key is None:
            return method(dataset, plain_rows.COLUMN, *args[1:], **rest)
        if not plain_rows.are_chosen() or not callable(key):
            return method(dataset, *args, **kwargs)
        sorted_rows = method(_with_key(dataset, key), plain_rows.KEY, *args[1:], **rest)
        return sorted_rows.drop_columns([plain_rows.KEY])

    return cast("_F", sort)


def groups_by_function(method: _F) -> _F:
    """Make ``Dataset.groupby`` take a function of rows."""

    @functools.wraps(method)
    def groupby(dataset: Any, *args: Any, **kwargs: Any) -> Any:
        key, rest = _key_of(args, kwargs)
        if not plain_rows.are_chosen() or not callable(key):
            return method(dataset, *args, **kwargs)
        return method(_with_key(dataset, key), plain_rows.KEY, *args[1:], **rest)

    return cast("_F", groupby)


def _key_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    rest = {name: value for name, value in kwargs.items() if name != "key"}
    return (args[0] if args else kwargs.get("key")), rest


def _with_key(dataset: Any, function: Callable[[Any], Any]) -> Any:
    """Return the data set with the values of a function in a column before the others."""
    step = TableStep(_keyed, (UserFunction(function),))
    return dataset._derived(Map(dataset._plan, "Key", (step,)))


def _keyed(table: Block, function: UserFunction) -> Block:
    values = tensor.from_list([function.function(row) for row in block.rows(table)])
    return pa.table([values, *table.columns], names=[plain_rows.KEY, *table.column_names])
