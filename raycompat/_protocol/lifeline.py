"""How a process that somebody has started says that it is up, and learns that it is to end."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from typing import Any

_STDIN, _STDOUT, _STDERR = 0, 1, 2


def read_words() -> dict[str, Any]:
    """Return what whoever started this process tells it: one line of JSON.

    What is secret is told here: others can read a command line.
    """
    words: dict[str, Any] = json.loads(sys.stdin.readline())
    return words


def say(words: dict[str, Any]) -> None:
    """Say that this process is up; whatever it prints from now on goes to its log."""
    print(json.dumps(words), flush=True)
    os.dup2(_STDERR, _STDOUT)


async def told_to_end() -> None:
    """Wait for SIGTERM, SIGINT, or the end of standard input: it closes when its starter ends.

    A process that has been told one more word there goes on by itself: only signals end it then.
    """
    loop = asyncio.get_running_loop()
    told = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told.set)

    def look() -> None:
        loop.remove_reader(_STDIN)
        if not os.read(_STDIN, 1):
            told.set()

    loop.add_reader(_STDIN, look)
    await told.wait()
