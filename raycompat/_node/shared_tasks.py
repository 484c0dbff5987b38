"""Work of a node that many calls need once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def result(
    tasks: dict[str, asyncio.Task[T]], name: str, start: Callable[[], Coroutine[Any, Any, T]]
) -> T:
    """Return the result of the task with this name; `start` begins it when there is none.

    A call that is cancelled does not cancel the task, because others wait for it. A task that fails
    leaves `tasks`, so the next call that needs it tries again.
    """
    task = tasks.get(name)
    if task is None:
        task = tasks[name] = asyncio.ensure_future(start())
    try:
        return await asyncio.shield(task)
    except Exception:
        if tasks.get(name) is task:
            del tasks[name]
        raise
