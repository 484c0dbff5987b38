"""The version of Ray that a program was written for, where it was chosen.

``raycompat run --ray 1.12``, ``init(_ray_version="1.12")`` and the environment variable choose it. The
variable has it in this process and in its children; executors get it with their job.
"""

from __future__ import annotations

import os
import re

#: Has the chosen version, such as 1.12 or 0.8.7.
VARIABLE = "RAYCOMPAT_RAY_VERSION"

#: The version of Ray that raycompat follows.
TODAY = "2.60.0"

Version = tuple[int, ...]


def parsed(text: str) -> Version:
    """Return the numbers of a version.

    Raises
    ------
    ValueError
        When it is not a version that Ray has had.
    """
    if not re.fullmatch(r"\d+\.\d+(\.\d+)?", text.strip()):
        raise ValueError(f"{text!r} is not a version of Ray: expected one such as 1.12 or 0.8.7.")
    version = tuple(map(int, text.split(".")))
    if version[:2] > parsed_today()[:2]:
        raise ValueError(
            f"Ray {text} is not known here: raycompat follows Ray {TODAY}. Choose that or an older "
            "version."
        )
    return version


def parsed_today() -> Version:
    """Return the numbers of the version that raycompat follows."""
    return tuple(map(int, TODAY.split(".")))


def chosen() -> Version | None:
    """Return the chosen version; None where the program says nothing."""
    text = os.environ.get(VARIABLE)
    return parsed(text) if text else None


def choose(text: str) -> None:
    """Choose the version for this process and for those that it starts.

    Raises
    ------
    ValueError
        When it is not a version of Ray.
    """
    parsed(text)
    os.environ[VARIABLE] = text.strip()


def shown() -> str:
    """Return the version that ``ray.__version__`` has: the chosen one, or today's."""
    version = chosen()
    if version is None:
        return TODAY
    return ".".join(map(str, (*version, 0)[:3]))


def is_past(last: str) -> bool:
    """Return whether the chosen version is later than the last one that had a form."""
    version = chosen()
    if version is None:
        return False
    end = tuple(map(int, last.split(".")))
    return version[: len(end)] > end


def is_before(first: str) -> bool:
    """Return whether the chosen version is earlier than the first with a form; False for none."""
    version = chosen()
    return version is not None and version < tuple(map(int, first.split(".")))


def is_within(last: str) -> bool:
    """Return whether a version was chosen that has the form."""
    return chosen() is not None and not is_past(last)
