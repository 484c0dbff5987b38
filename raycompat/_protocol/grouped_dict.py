"""A dictionary whose values belong to groups; the members of a group are found without a search."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class GroupedDict(dict[K, V], Generic[K, V]):
    """A dictionary with an index of the keys by `group_of(value)`.

    A value with the group None is not indexed. A value's group must not change. Assignment, ``del`` and
    `pop` take constant time. They are safe in any thread, and safe to repeat after an interrupt.
    """

    def __init__(self, group_of: Callable[[V], Hashable | None]) -> None:
        super().__init__()
        self._group_of = group_of
        self._members: dict[Hashable, dict[K, None]] = {}
        self._lock = threading.RLock()

    def __setitem__(self, key: K, value: V) -> None:
        """Enter a value; replace an earlier one."""
        group = self._group_of(value)
        if group is None and key not in self:
            super().__setitem__(key, value)
            return
        with self._lock:
            self.pop(key, None)
            super().__setitem__(key, value)
            if group is not None:
                self._members.setdefault(group, {})[key] = None

    def __delitem__(self, key: K) -> None:
        """Remove an entry."""
        with self._lock:
            self._leave(key, self[key])
            super().__delitem__(key)

    def pop(self, key: K, *default: object) -> Any:
        """Remove an entry and return its value."""
        with self._lock:
            if key in self:
                self._leave(key, self[key])
            return super().pop(key, *default)

    def _leave(self, key: K, value: V) -> None:
        group = self._group_of(value)
        if group is not None:
            members = self._members.get(group, {})
            members.pop(key, None)
            if not members:
                self._members.pop(group, None)

    def members(self, group: Hashable) -> list[K]:
        """Return the keys of the values in a group."""
        with self._lock:
            return list(self._members.get(group, ()))

    @property
    def num_groups(self) -> int:
        """How many groups there are."""
        return len(self._members)
