"""Environment variables that a process cannot have, or with which Python does not start."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from collections.abc import Mapping

#: Variables of this prefix are read when Python starts.
_OF_PYTHON = "PYTHON"

#: Those that cannot prevent its start, and that many programs have.
_HARMLESS = ("PYTHONPATH", "PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE", "PYTHONSAFEPATH")

#: Seconds for Python to start on a busy machine.
_START_S = 60.0


def check(where: str, variables: Mapping[str, str]) -> None:
    """Check the variables of processes that are to be started.

    Raises
    ------
    ValueError
        When one of them is not valid; the error names it.
    """
    for name, value in variables.items():
        if reason := _why_not_stored(name, value):
            raise ValueError(f"{where}: {name!r}: {value!r} is not valid. {reason}")
    if reason := why_python_does_not_start(variables):
        raise ValueError(f"{where}: {reason}")


def _why_not_stored(name: str, value: str) -> str | None:
    if not name or "=" in name or "\0" in name:
        return "Expected a name that is not empty, without '=' and without null characters."
    if "\0" in value:
        return "Expected a value without null characters."
    try:
        os.fsencode(name + value)
    except UnicodeEncodeError as error:
        return f"The system cannot store it: {error}."
    return None


def why_python_does_not_start(variables: Mapping[str, str]) -> str | None:
    """Return which variables prevent the start of Python, with what it says; None if none does.

    Python itself is asked, because every version reads other values. Values that refer to other
    variables are known only where they are set, and are left out.
    """
    read = {
        name: value
        for name, value in variables.items()
        if name.startswith(_OF_PYTHON) and name not in _HARMLESS and "$" not in value
    }
    if not read or not _error_of_python(frozenset(read.items())):
        return None
    errors = {item: _error_of_python(frozenset([item])) for item in read.items()}
    wrong = {item: error for item, error in errors.items() if error} or dict.fromkeys(
        read.items(), "together with the others"
    )
    return "; ".join(
        f"Python does not start with {name}={value!r}: {error}"
        for (name, value), error in wrong.items()
    )


@functools.lru_cache(maxsize=100)
def _error_of_python(variables: frozenset[tuple[str, str]]) -> str:
    """Return the error with which Python ends with these variables; empty if it starts."""
    others = {name: value for name, value in os.environ.items() if not name.startswith(_OF_PYTHON)}
    done = subprocess.run(
        [sys.executable, "-S", "-c", ""],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env={**others, **dict(variables)},
        timeout=_START_S,
        check=False,
    )
    if not done.returncode:
        return ""
    lines = done.stderr.decode(errors="replace").splitlines()
    fatal = [line for line in lines if line.startswith("Fatal Python error")]
    return " ".join([*fatal, *lines, f"it ended with exit code {done.returncode}"][:1])
