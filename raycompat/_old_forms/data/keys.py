"""Functions in place of columns, by which Ray 1.5 to 2.4 sorted, grouped and added up rows."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

from raycompat._old_forms.data import plain_rows
from raycompat._upper import upper

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
        sorted_rows = method(
            upper("_old.data.keys").with_key(dataset, key), plain_rows.KEY, *args[1:], **rest
        )
        return sorted_rows.drop_columns([plain_rows.KEY])

    return cast("_F", sort)


def groups_by_function(method: _F) -> _F:
    """Make ``Dataset.groupby`` take a function of rows."""

    @functools.wraps(method)
    def groupby(dataset: Any, *args: Any, **kwargs: Any) -> Any:
        key, rest = _key_of(args, kwargs)
        if not plain_rows.are_chosen() or not callable(key):
            return method(dataset, *args, **kwargs)
        return method(
            upper("_old.data.keys").with_key(dataset, key), plain_rows.KEY, *args[1:], **rest
        )

    return cast("_F", groupby)


def aggregates_by_function(method: _F) -> _F:
    """Make aggregations of a data set, or of its groups, take a function of rows for a column."""

    @functools.wraps(method)
    def of_columns(data: Any, kind: Any, on: Any, ignore_nulls: bool) -> Any:
        several = isinstance(on, list) and bool(on) and all(map(callable, on))
        if not plain_rows.are_chosen() or not (several or callable(on)):
            return method(data, kind, on, ignore_nulls)
        if several:
            return tuple(of_columns(data, kind, each, ignore_nulls) for each in on)
        return method(
            upper("_old.data.keys").with_value(data, on), kind, plain_rows.VALUE, ignore_nulls
        )

    return cast("_F", of_columns)


def _key_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    rest = {name: value for name, value in kwargs.items() if name != "key"}
    return (args[0] if args else kwargs.get("key")), rest
