"""How a started process reports to its starter that it is ready, and learns when it must end."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from typing import Any

_STDIN, _STDOUT, _STDERR = 0, 1, 2


def read_words() -> dict[str, Any]:
    """Return the settings that the starter writes to standard input: one line of JSON.

    Secrets are passed here, because other users can read a command line.
    """
    words: dict[str, Any] = json.loads(sys.stdin.readline())
    return words


def say(words: dict[str, Any]) -> None:
    """Report that this process is ready; everything it prints later goes to its log."""
    print(json.dumps(words), flush=True)
    os.dup2(_STDERR, _STDOUT)


async def told_to_end() -> None:
    """Wait for SIGTERM, SIGINT, or the end of standard input, which closes when the starter ends.

    After one more line on standard input the process is independent: only signals end it then.
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
