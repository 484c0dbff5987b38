"""A worker's part of a data set that is a data set itself, as in Ray 1.7 to 2.2."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Protocol

from raycompat._surface import era, forms, table
from raycompat._upper import upper

_USE = "ray.train.get_dataset_shard as a data set"

#: The methods that tell a data set from an iterator. The data sets of these Rays did not have them.
_LATER = frozenset({"iterator", "streaming_split"})


class _Iterator(Protocol):
    def _data_set(self) -> object: ...


def method_of(iterator: _Iterator, name: str) -> Callable[..., Any]:
    """Return a method of a data set, which makes a data set of an iterator's rows at each call.

    Raises
    ------
    AttributeError
        When a data set has no such method, or the chosen version of Ray has iterators.
    """
    if not _is_method(name):
        raise AttributeError(
            f"{type(iterator).__name__!r} object has no attribute {name!r}", name=name, obj=iterator
        )
    if not forms.is_used_today(_USE):
        forms.used(_USE, refusal=AttributeError)

    def call(*args: Any, **options: Any) -> Any:
        forms.used(_USE)
        return getattr(iterator._data_set(), name)(*args, **options)

    return call


def _is_method(name: str) -> bool:
    if name.startswith("_") or name in _LATER:
        return False
    row = table.members("ray.data.Dataset").get(name)
    if row is not None:
        is_gone = bool(row.last) and era.is_past(row.last)
        return row.name.endswith("()") and not row.without and not is_gone
    return inspect.isfunction(inspect.getattr_static(upper("data.dataset").Dataset, name, None))
