"""The stacks of the threads of this process, for processes that run no calls."""

from __future__ import annotations

import sys
import threading
import traceback


def describe() -> str:
    """Return the stacks of all threads but this one, which answers; the innermost function is last."""
    frames = sys._current_frames()
    del frames[threading.get_ident()]
    names = {each.ident: each.name for each in threading.enumerate()}
    main = threading.main_thread().ident
    return "\n".join(
        f"Thread {names.get(ident, ident)}:\n{''.join(traceback.format_stack(frames[ident]))}".rstrip()
        for ident in sorted(frames, key=lambda ident: ident != main)
    )
