"""Pins: a stored value keeps the objects alive to which it refers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from raycompat._dask.scheduler import DaskScheduler

#: The scheduler client that holds all pinned keys.
PINS = "raycompat-pins"


class Pins:
    """The keys that each carrier (the key of a containing value) keeps alive."""

    def __init__(self, dask: DaskScheduler) -> None:
        self._dask = dask
        self._by_carrier: dict[str, set[str]] = {}
        self._counts: Counter[str] = Counter()

    def carries(self, carrier: str) -> bool:
        """Return whether `carrier` keeps anything alive."""
        return carrier in self._by_carrier

    def keys(self) -> list[str]:
        """Return all pinned keys."""
        return list(self._counts)

    def add(self, carrier: str, keys: Iterable[str]) -> None:
        """Keep `keys` alive as long as `carrier`; a second pin of the same key has no effect."""
        if not keys:
            return
        pinned = self._by_carrier.setdefault(carrier, set())
        new = [key for key in keys if key not in pinned and self._dask.known(key)]
        pinned.update(new)
        wanted = [key for key in new if not self._counts[key]]
        self._counts.update(new)
        if wanted:
            self._dask.want(wanted, PINS)

    def drop(self, carrier: str) -> None:
        """Release the keys of a carrier that was removed."""
        keys = self._by_carrier.pop(carrier, set())
        self._counts.subtract(keys)
        unwanted = [key for key in keys if not self._counts[key]]
        for key in unwanted:
            del self._counts[key]
        if unwanted:
            self._dask.release(unwanted, PINS)
