"""The traceback of an exception in another process, as text, without raycompat's own frames."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Iterator

_PACKAGE_DIR = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
#: Library files that are hidden only below a frame of raycompat.
_PLUMBING = tuple(
    os.sep + part.replace("/", os.sep)
    for part in ("concurrent/futures/", "asyncio/", "distributed/", "threading.py", "contextlib.py")
)


def is_framework_file(filename: str) -> bool:
    """Return whether a file is raycompat's machinery, not user code or our libraries (tune, ...)."""
    if not filename.startswith(_PACKAGE_DIR):
        return False
    first, *rest = filename[len(_PACKAGE_DIR) :].split(os.sep)
    return not rest or first.startswith("_")


def said(error: BaseException) -> str:
    """Return the text of an exception; its class may be user code whose ``__str__`` raises."""
    try:
        return str(error)
    except Exception:
        return f"<its __str__ raises: {type(error).__name__}>"


def plain_text_of(
    exc: BaseException, hide_frame: Callable[[str], bool], text: str = "<cannot be shown>"
) -> str:
    """Return the traceback of an exception that cannot be inspected: no code of its class runs.

    `text` stands for what the exception says.
    """
    frames = traceback.StackSummary.extract(
        traceback.walk_tb(vars(BaseException)["__traceback__"].__get__(exc)),
        lookup_lines=False,
    )
    shown = [frame for frame in frames if not hide_frame(frame.filename)]
    lines = ["Traceback (most recent call last):\n", *traceback.format_list(shown)]
    return "".join(lines) + f"{type(exc).__qualname__}: {text}\n"


def text_of(exc: BaseException, hide_frame: Callable[[str], bool]) -> str:
    """Return the traceback of an exception and its chain, without the hidden frames."""
    try:
        return _full_text_of(exc, hide_frame)
    except Exception:  # its class computes an attribute that a traceback shows, and fails
        return plain_text_of(exc, hide_frame, said(exc))


def _full_text_of(exc: BaseException, hide_frame: Callable[[str], bool]) -> str:
    report = traceback.TracebackException.from_exception(exc, compact=True)
    for part in _parts(report):
        kept = []
        hidden = False
        for frame in part.stack or ():
            plumbing = any(name in frame.filename for name in _PLUMBING)
            hidden = hide_frame(frame.filename) or (hidden and plumbing)
            if not hidden:
                kept.append(frame)
        part.stack = traceback.StackSummary.from_list(kept)
    return "".join(report.format())


def _parts(
    report: traceback.TracebackException,
) -> Iterator[traceback.TracebackException]:
    """Iterate over the exception, its cause, its context and the members of groups."""
    stack = [report]
    while stack:
        part = stack.pop()
        yield part
        following = [part.__cause__, part.__context__, *(getattr(part, "exceptions", None) or ())]
        stack += [each for each in following if each is not None]
