"""Poll for what a test waits for, with a deadline."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

#: Seconds until a test gives up; far more than anything here takes on a busy machine.
DEADLINE_S = 30.0

#: Seconds between two looks.
INTERVAL_S = 0.02


def wait_until(condition: Callable[[], Any], deadline_s: float = DEADLINE_S) -> Any:
    """Return the first true value of `condition()`, or the last one when time is up."""
    end = time.monotonic() + deadline_s
    while not (value := condition()) and time.monotonic() < end:
        time.sleep(INTERVAL_S)
    return value


def process_is_gone(pid: int) -> bool:
    """Return whether no process runs under `pid`; one that nobody has waited for counts as gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return True
    return stat.rpartition(")")[2].split()[0] in "ZX"
