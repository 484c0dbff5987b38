"""The lines of the program that made each object, for a process that is told to record them.

A walk of the stack takes microseconds, so nothing is recorded by default, as in Ray.
"""

from __future__ import annotations

import os
import sys
from functools import lru_cache
from types import FrameType

#: Ray's variable, which each process reads when its session begins.
VARIABLE = "RAY_record_ref_creation_sites"

#: The functions that are named, from the one that has put or called on outwards.
_MANY_FRAMES = 3

#: Texts that are shared by objects which the same line has made.
_MANY_TEXTS = 4096

#: What runs the code of users in executors: the program ends there.
_OWN, _RUNS_USERS_CODE = "raycompat", "raycompat._executor"


def are_recorded() -> bool:
    """Return whether this process records where its objects are made."""
    return os.environ.get(VARIABLE, "").lower() in ("1", "true")


def here(kind: str) -> str:
    """Return where the program is now: ``(kind)  | file:function:line | …``, the innermost first."""
    places: list[tuple[str, str, int]] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and len(places) < _MANY_FRAMES:
        module = frame.f_globals.get("__name__", "")
        if module.startswith(_RUNS_USERS_CODE):
            break
        if module.partition(".")[0] != _OWN:
            code = frame.f_code
            places.append((code.co_filename, code.co_name, frame.f_lineno))
        frame = frame.f_back
    return _text(kind, *places) if places else ""


@lru_cache(_MANY_TEXTS)
def _text(kind: str, *places: tuple[str, str, int]) -> str:
    named = (f"{file}:{function}:{line}" for file, function, line in places)
    return " | ".join((f"({kind}) ", *named))
