"""A second user of this host, who attacks: programs that run with another uid and no privileges."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

#: The id of the user "nobody".
UID = 65534

#: Seconds that a program of the other user may take.
_PROGRAM_S = 100

_COMMAND = [
    "setpriv",
    f"--reuid={UID}",
    f"--regid={UID}",
    "--clear-groups",
    "--inh-caps=-all",
    "--no-new-privs",
    sys.executable,
]


def why_there_is_none() -> str:
    """Return why no program can be run as another user; empty if one can."""
    if os.getuid() != 0:
        return "only root can run programs as another user"
    if shutil.which("setpriv") is None:
        return "there is no setpriv"
    if subprocess.run([*_COMMAND, "-c", ""], cwd="/", check=False).returncode:
        return f"the user {UID} may not run {sys.executable}"
    return ""


def needed() -> None:
    """Skip a test where programs cannot be run as another user."""
    if reason := why_there_is_none():
        pytest.skip(reason)


def run(source: str, *arguments: object) -> str:
    """Run a program of the other user to its end and return what it printed."""
    done = subprocess.run(
        [*_COMMAND, "-c", source, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=_PROGRAM_S,
        cwd="/",
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


class Running:
    """A program of the other user that prints a line when it is ready, and runs until it is closed.

    It ends when its standard input does.
    """

    def __init__(self, source: str, *arguments: object) -> None:
        self._popen = subprocess.Popen(
            [*_COMMAND, "-c", source, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd="/",
        )
        self.first_line = self.next_line()

    def next_line(self) -> str:
        """Wait for a line of the program and return it."""
        assert self._popen.stdout is not None
        return self._popen.stdout.readline().strip()

    def ask(self, line: str) -> str:
        """Send the program a line and return its answer."""
        assert self._popen.stdin is not None
        self._popen.stdin.write(line + "\n")
        self._popen.stdin.flush()
        return self.next_line()

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *_: object) -> None:
        self._popen.communicate(timeout=_PROGRAM_S)
