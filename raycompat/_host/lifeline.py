"""How a started process reports to its starter that it is ready, and learns when it must end.

The report has a descriptor of its own. What the process prints goes to its log.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from typing import Any

_STDIN = 0

#: The descriptor for the report, and the folders from which the starter imports.
_report_to: int | None = None
_folders_of_starter: list[str] = []


def begin(report_to: int, folders: list[str]) -> None:
    """Take what the starter has given this process."""
    global _report_to
    os.set_inheritable(report_to, False)
    _report_to = report_to
    _folders_of_starter[:] = folders


@contextlib.contextmanager
def removing(folder: str) -> Iterator[None]:
    """Remove a folder at the end, also when the starter dies while this process starts."""
    try:
        yield
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def read_words() -> dict[str, Any]:
    """Return the settings that the starter writes to standard input: one line of JSON.

    Secrets are passed here, because other users can read a command line.
    """
    words: dict[str, Any] = json.loads(sys.stdin.readline())
    return words


def say(words: dict[str, Any]) -> None:
    """Report that this process is ready.

    From now on it can also import the starter's modules, which calls of Dask may need. They come last,
    so that they hide no module of this process.
    """
    sys.path += [folder for folder in _folders_of_starter if folder not in sys.path]
    assert _report_to is not None
    with contextlib.suppress(BrokenPipeError):  # the starter has died, which `told_to_end` notices
        os.write(_report_to, json.dumps(words).encode() + b"\n")
    say_nothing()


def say_nothing() -> None:
    """Close the descriptor for the report, in a process that makes none, or no other."""
    global _report_to
    if _report_to is not None:
        os.close(_report_to)
        _report_to = None


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
