"""Waiting for what is only eventually so: polling with a deadline."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import psutil

Value = TypeVar("Value")

#: Seconds after which what has not happened counts as never happening.
DEADLINE_S = 30.0

#: Seconds between two looks.
INTERVAL_S = 0.01


def wait_until(condition: Callable[[], Value], deadline_s: float = DEADLINE_S) -> Value:
    """Return the first true value of the condition; fail when the deadline has passed."""
    deadline = time.monotonic() + deadline_s
    while not (value := condition()):
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(INTERVAL_S)
    return value


def wait_for_files(*paths: Path | str) -> None:
    """Poll until all these files are there."""
    wait_until(lambda: all(Path(path).exists() for path in paths))


def is_running(pid: int) -> bool:
    """Whether the process is there and not a zombie."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
