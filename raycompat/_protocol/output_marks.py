"""Marks in the output of executors: lines that are not the user's.

A mark may begin in the middle of a line of the user, which then goes on after the mark. A file never
ends with the mark of a call, because the node writes it with the output that follows.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from raycompat._protocol import ids

#: Begins every mark.
MARK = b"\x1eraycompat "

#: Begins a line that names the running call; the name follows.
NAME_MARK = MARK + b"runs "

#: Begins a line with the id of the task that prints what follows; without an id, it is of no task.
CALL_MARK = MARK + b"task "

#: Longer names are cut, so that one write to a pipe takes a whole name.
MAX_NAME_BYTES = 1000

#: Bytes of a mark at most.
MAX_MARK_BYTES = len(NAME_MARK) + MAX_NAME_BYTES + 1

#: Begins a line that holds the state of a progress bar, as JSON.
BAR_MARK = '{"__magic_token__": "__ray_tqdm_magic_token__"'

_ANY_MARK = re.compile(re.escape(MARK) + rb"[^\n]*\n")
_OF_CALL = re.compile(re.escape(CALL_MARK) + rb"([0-9a-f]*)\n")
_LINE_END_OR_MARK = re.compile(_ANY_MARK.pattern + rb"|\n")


def of_call(key: str) -> bytes:
    """Return the mark of the call with this key; of no call if it is empty."""
    digits = ids.task_hex(key).ljust(2 * ids.TASK_ID_BYTES, "0") if key else ""
    return CALL_MARK + digits.encode() + b"\n"


def without_marks(data: bytes) -> bytes:
    """Return output without its marks."""
    return _ANY_MARK.sub(b"", data) if MARK in data else data


def without_calls(data: bytes) -> bytes:
    """Return output without the marks of calls."""
    return _OF_CALL.sub(b"", data) if CALL_MARK in data else data


class Trailing(NamedTuple):
    """Output in front of the marks of calls at its end, the last of these, and a part of another."""

    data: bytes
    mark: bytes
    part: bytes


def last_call(data: bytes) -> bytes:
    """Return the last mark of a call in some output; empty if there is none."""
    at = data.rfind(CALL_MARK)
    found = _OF_CALL.match(data, at) if at >= 0 else None
    return found[0] if found else b""


def split_trailing(data: bytes) -> Trailing:
    """Split off the marks of calls at the end of some output, and a part of such a mark."""
    at = data.rfind(CALL_MARK[:1])
    part = b""
    if at >= 0 and _may_become(data[at:]):
        data, part = data[:at], data[at:]
    mark = b""
    while data.endswith(b"\n") and (found := _OF_CALL.fullmatch(data, data.rfind(CALL_MARK))):
        mark = mark or found[0]
        data = data[: found.start()]
    return Trailing(data, mark, part)


def _may_become(data: bytes) -> bool:
    """Return whether output is the beginning of the mark of a call."""
    known = data[: len(CALL_MARK)]
    digits = data[len(CALL_MARK) :]
    return (
        CALL_MARK.startswith(known) and len(digits) <= 2 * ids.TASK_ID_BYTES and b"\n" not in digits
    )


def whole_marks(data: bytes) -> int:
    """Return how many bytes of some output can be read without cutting a mark that goes on after it."""
    at = data.rfind(MARK[:1])
    is_cut = at > 0 and MARK.startswith(data[at : at + len(MARK)]) and b"\n" not in data[at:]
    return at if is_cut and len(data) - at < MAX_MARK_BYTES else len(data)


def line_ends(data: bytes) -> list[int]:
    """Return the positions of the ends of the user's lines."""
    return [each.start() for each in _LINE_END_OR_MARK.finditer(data) if each[0] == b"\n"]


def of_name(data: bytes, name: str) -> bytes:
    """Return what the calls of a function have printed of some output, from the first mark on."""
    wanted = name.encode(errors="replace").replace(b"\n", b" ")[:MAX_NAME_BYTES]
    parts = data.split(NAME_MARK)[1:]
    return b"".join(
        part.partition(b"\n")[2] for part in parts if part.partition(b"\n")[0] == wanted
    )


def of_task(data: bytes, task: str, *, is_inside: bool) -> tuple[bytes, bool]:
    """Return what a task has printed of some output, and whether what follows is of it too.

    `is_inside` is whether the beginning is, up to the first mark.
    """
    wanted, kept, start = task.encode(), [], 0
    for mark in _OF_CALL.finditer(data):
        if is_inside:
            kept.append(data[start : mark.start()])
        is_inside, start = mark[1] == wanted, mark.end()
    if is_inside:
        kept.append(data[start:])
    return without_marks(b"".join(kept)), is_inside
