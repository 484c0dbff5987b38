"""The Dask client of raycompat's processes: its `map` takes references, as `submit` does."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from distributed import Client

from raycompat import _dask_adapter as adapter


class DaskClient(Client):
    """A Dask client for which all futures by Dask's protocol (``__dask_future__``) are futures.

    Dask's own `map` does not look for that protocol: it would pickle a reference.
    """

    def map(self, func: Callable[..., Any], *iterables: Collection[Any], **options: Any) -> Any:
        """Call a function for the items of collections; an item may be a reference."""
        replaced = [_with_keys(items) for items in iterables]
        return super().map(func, *replaced, **{k: adapter.task_ref(v) for k, v in options.items()})


def _with_keys(items: Collection[Any]) -> Collection[Any]:
    """Return the items with references replaced; the same collection if there are none."""
    if not isinstance(items, Collection) or not any(map(adapter.is_foreign_future, items)):
        return items
    return [adapter.task_ref(item) for item in items]
