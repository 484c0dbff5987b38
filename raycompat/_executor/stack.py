"""The stacks of this process, from user code on: threads, and tasks of event loops."""

from __future__ import annotations

import asyncio
import sys
import threading
import traceback
from asyncio.base_events import BaseEventLoop
from collections.abc import Callable, Iterator, Sequence
from types import FrameType
from typing import Any

from raycompat._executor import run_call, threads
from raycompat._pickling.remote_traceback import is_framework_file

#: Functions that call user code, and the one that runs an event loop, its local variable ``self``.
_CALLERS = (run_call.user_code, run_call.user_coroutine)
_RUN_LOOP = BaseEventLoop.run_forever


def describe(running: dict[str, str]) -> str:
    """Return what runs here, given by task and name, and the stacks; the innermost function is last."""
    parts = [f"It runs {name} (task {task})." for task, name in running.items()]
    found = sys._current_frames()
    del found[threading.get_ident()]  # it only answers this question
    known = {each.ident: each.name for each in threading.enumerate()}
    main = threading.main_thread().ident
    loops: list[asyncio.AbstractEventLoop] = []
    for ident in sorted(found, key=lambda ident: ident != main):
        frames = [*_outwards(found[ident])][::-1]
        loops += [each.f_locals["self"] for each in frames if _is_of(each, _RUN_LOOP)]
        name = known.get(ident, str(ident))
        is_ours = ident == main or name.startswith(threads.PREFIX)
        parts += _described(f"Thread {name}", _of_user(frames, is_ours=is_ours))
    for task in (task for loop in loops for task in asyncio.all_tasks(loop)):
        frames = [*_awaited(task)]
        is_ours = bool(frames) and is_framework_file(frames[0].f_code.co_filename)
        parts += _described(f"Coroutine {task.get_name()}", _of_user(frames, is_ours=is_ours))
    return "\n".join(parts) or "It waits for calls."


def _outwards(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _awaited(task: asyncio.Task[Any]) -> Iterator[FrameType]:
    """Yield the frames of a task that waits, from the outermost one to the one that waits."""
    coroutine: Any = task.get_coro()
    while coroutine is not None:
        frame = getattr(coroutine, "cr_frame", None)
        if frame is None:  # a future, or a task that has ended
            return
        yield frame
        coroutine = coroutine.cr_await


def _is_of(frame: FrameType, function: Callable[..., object]) -> bool:
    return frame.f_code is function.__code__


def _of_user(frames: Sequence[FrameType], *, is_ours: bool) -> Sequence[FrameType]:
    """Return the frames from user code on; none if no user code runs in a thread or task of ours."""
    for at, frame in enumerate(frames):
        if any(_is_of(frame, each) for each in _CALLERS):
            return frames[at + 1 :]
    return () if is_ours else frames


def _described(title: str, frames: Sequence[FrameType]) -> list[str]:
    if not frames:
        return []
    summary = traceback.StackSummary.extract((each, each.f_lineno) for each in frames)
    return [f"{title}:\n{''.join(summary.format())}".rstrip()]
