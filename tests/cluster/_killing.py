"""Processes that a failed test kills: the end of a `with subprocess.Popen(...)` would wait for them."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def killing(process: subprocess.Popen[Any]) -> Iterator[None]:
    """Kill a process if something else goes wrong."""
    try:
        yield
    except BaseException:
        process.kill()
        raise
