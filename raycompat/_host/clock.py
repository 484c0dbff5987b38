"""Time that passes, also in a program that has frozen the clock of its modules, as freezegun does.

Such a program replaces the functions of `time`, and the names by which modules have imported them. With
a frozen clock no timer of an event loop would ever be due, and no time limit would end.
"""

from __future__ import annotations

import asyncio
import functools
import time

#: Seconds since some moment. Another way to the clock, because the first import of this module may come
#: after `time.monotonic` was replaced; and not the function itself, which would be found and replaced.
monotonic = functools.partial(time.clock_gettime, time.CLOCK_MONOTONIC)


def keep_running(loop: asyncio.AbstractEventLoop) -> None:
    """Let the timers of an event loop follow this clock."""
    loop.time = monotonic  # type: ignore[method-assign]
