"""The limits of this process (`resource.setrlimit`), which user code may lower.

Under a limit of memory or threads, later calls could fail or wait for ever. So the limits of a task end
with it. A process that cannot raise them again gets no more calls. An actor keeps its limits.
"""

from __future__ import annotations

import functools
import resource
from collections.abc import Callable
from typing import Any

_set_limit = resource.setrlimit

_KINDS = (
    resource.RLIMIT_AS,
    resource.RLIMIT_CPU,
    resource.RLIMIT_DATA,
    resource.RLIMIT_FSIZE,
    resource.RLIMIT_NOFILE,
    resource.RLIMIT_NPROC,
    resource.RLIMIT_STACK,
)


class Limits:
    """The limits that the process had when this was created."""

    def __init__(self) -> None:
        #: Whether Python code may have set limits since the last `restore`.
        self.may_differ = False
        self._soft = {kind: resource.getrlimit(kind)[0] for kind in _KINDS}
        resource.setrlimit = self._noted(resource.setrlimit)
        resource.prlimit = self._noted(resource.prlimit)

    def _noted(self, function: Callable[..., object]) -> Callable[..., Any]:
        @functools.wraps(function)
        def noted(*args: object) -> object:
            self.may_differ = True
            return function(*args)

        return noted

    def restore(self) -> bool:
        """Raise the limits that are lower again; return whether none is lower now."""
        self.may_differ = False
        return all(self._restored(kind, before) for kind, before in self._soft.items())

    @staticmethod
    def _restored(kind: int, before: int) -> bool:
        soft, hard = resource.getrlimit(kind)
        if soft in (before, resource.RLIM_INFINITY):
            return True
        if before != resource.RLIM_INFINITY and soft > before:
            return True
        try:
            _set_limit(kind, (before, hard))
        except (ValueError, OSError):  # the hard limit was lowered too
            return False
        return True
