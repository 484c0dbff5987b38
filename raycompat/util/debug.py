"""`log_once`: log a message once in a process."""

from __future__ import annotations

import time

__all__ = ["disable_log_once_globally", "enable_periodic_logging", "log_once", "reset_log_once"]

#: Seconds without a new key after which `enable_periodic_logging` forgets the keys.
_PERIOD_S = 60.0


class _Said:
    """The keys that were logged in this process, and the settings."""

    def __init__(self) -> None:
        self.keys: set[str] = set()
        self.last = 0.0
        self.disabled = False
        self.periodic = False


_said = _Said()


def log_once(key: str) -> bool:
    """Return whether this is the first call with `key` in this process.

    Parameters
    ----------
    key : str
        The name of the place that logs.

    Examples
    --------
    >>> from raycompat.util.debug import log_once
    >>> log_once("an example"), log_once("an example")
    (True, False)
    """
    if _said.disabled:
        return False
    now = time.monotonic()
    if key in _said.keys:
        if _said.periodic and now - _said.last > _PERIOD_S:
            _said.keys.clear()
            _said.last = now
        return False
    _said.keys.add(key)
    _said.last = now
    return True


def disable_log_once_globally() -> None:
    """Make `log_once` return False in this process from now on.

    Examples
    --------
    >>> from raycompat.util import debug
    >>> @ray.remote
    ... class Quiet:
    ...     def warns(self):
    ...         debug.disable_log_once_globally()
    ...         return debug.log_once("a disk is nearly full")
    >>> ray.get(Quiet.remote().warns.remote())
    False
    """
    _said.disabled = True


def enable_periodic_logging() -> None:
    """Make `log_once` forget its keys when nothing new was logged for a minute.

    Examples
    --------
    >>> from raycompat.util import debug
    >>> @ray.remote
    ... class Patient:
    ...     def warns(self):
    ...         debug.enable_periodic_logging()
    ...         return [debug.log_once("a disk is nearly full") for _ in range(2)]
    >>> ray.get(Patient.remote().warns.remote())
    [True, False]
    """
    _said.periodic = True


def reset_log_once(key: str | None = None) -> None:
    """Make `log_once` forget a key, or all of them.

    Parameters
    ----------
    key : str, optional
        By default all.

    Examples
    --------
    >>> from raycompat.util import debug
    >>> [debug.log_once("a worker is slow") for _ in range(2)]
    [True, False]
    >>> debug.reset_log_once("a worker is slow")
    >>> debug.log_once("a worker is slow")
    True
    """
    if key is None:
        _said.keys.clear()
    else:
        _said.keys.discard(key)
