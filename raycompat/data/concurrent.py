"""Asynchronous functions of data sets: some calls at the same time, their results in order."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator

#: Calls that run at the same time.
_AT_ONCE = 16

_END = object()


class Several(list[object]):
    """The results of one call of an asynchronous generator function."""


async def collected(function: Callable[[object], AsyncIterator[object]], value: object) -> Several:
    """Return all that an asynchronous generator yields."""
    return Several([item async for item in function(value)])


async def _ended(tasks: Iterable[asyncio.Task[object]]) -> None:
    await asyncio.gather(*tasks, return_exceptions=True)


class Calls:
    """Maps values to the results of a coroutine function, in order.

    All calls run in one event loop, because objects of user code may be bound to it. The loop runs
    while a result is awaited.

    Parameters
    ----------
    function : coroutine function
        Called with each value.
    """

    def __init__(self, function: Callable[[object], Coroutine[object, object, object]]) -> None:
        self._function = function
        self._loop = asyncio.new_event_loop()

    def __call__(self, values: Iterable[object]) -> Iterator[object]:
        """Yield the results; an error is raised in its turn, and cancels the later calls."""
        waiting = iter(values)
        running: deque[asyncio.Task[object]] = deque()
        try:
            while True:
                while len(running) < _AT_ONCE and (value := next(waiting, _END)) is not _END:
                    running.append(self._loop.create_task(self._function(value)))
                if not running:
                    return
                yield self._loop.run_until_complete(running[0])
                running.popleft()
        finally:
            self._cancel(running)

    def _cancel(self, running: Iterable[asyncio.Task[object]]) -> None:
        for task in running:
            task.cancel()
        self._loop.run_until_complete(_ended(running))

    def __del__(self) -> None:
        loop = self.__dict__.get("_loop")
        if loop is not None:
            loop.close()
