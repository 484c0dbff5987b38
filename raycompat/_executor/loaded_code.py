"""The functions and classes that this process has loaded."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable
from typing import Any, NamedTuple

#: The most bytes of pickled code whose functions are kept; the last one is kept whatever its size.
_MOST_BYTES = 64 << 20


class Kept(NamedTuple):
    """A function or class, or its pickle."""

    content: Any
    num_bytes: int
    is_unpickled: bool


class LoadedCode:
    """The functions and classes that were used last, by id. A process requests others again.

    Threads of the process use it at the same time.
    """

    def __init__(self, most_bytes: int = _MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        #: The last used one is last.
        self._kept: OrderedDict[str, Kept] = OrderedDict()
        self._num_bytes = 0
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, function: str) -> Kept | None:
        """Return what is kept of a function."""
        kept = self._kept.get(function)
        if kept is not None and next(reversed(self._kept), None) != function:
            with self._lock:
                if function in self._kept:
                    self._kept.move_to_end(function)
        return kept

    def keep(self, function: str, content: object, num_bytes: int, *, is_unpickled: bool) -> None:
        """Keep a function, its pickle of `num_bytes` bytes, or both forms one after the other."""
        dropped = []  # released without the lock: user code may run then
        with self._lock:
            dropped.append(self._pop(function))
            self._kept[function] = Kept(content, num_bytes, is_unpickled)
            self._num_bytes += num_bytes
            while self._num_bytes > self._most_bytes and len(self._kept) > 1:
                dropped.append(self._pop(next(iter(self._kept))))

    def forget(self, functions: Iterable[str]) -> None:
        """Forget functions that are not needed any more."""
        with self._lock:
            dropped = [self._pop(function) for function in functions]
        del dropped  # without the lock, as above

    def _pop(self, function: str) -> Kept | None:
        kept = self._kept.pop(function, None)
        if kept is not None:
            self._num_bytes -= kept.num_bytes
        return kept
