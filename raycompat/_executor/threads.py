"""Threads of an executor, which start whatever user code has done to the module `threading`."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable

#: Begins the names of the threads of this package.
PREFIX = "raycompat-"


def start(target: Callable[..., object], name: str, *args: object) -> threading.Thread:
    """Start a thread that does not keep the process alive."""
    restore_hooks()
    thread = threading.Thread(target=target, args=args, name=f"{PREFIX}{name}", daemon=True)
    thread.start()
    return thread


def restore_hooks() -> None:
    """Restore the hooks without which Python creates no thread, if user code has removed them."""
    for module, kept in ((sys, sys.__excepthook__), (threading, threading.__excepthook__)):
        if getattr(module, "excepthook", None) is None:
            module.excepthook = kept  # type: ignore[attr-defined]
