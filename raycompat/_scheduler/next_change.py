"""The next change of a node, job or actor, for those who wait for one."""

from __future__ import annotations

import asyncio


class NextChange:
    """A change that others wait for."""

    def __init__(self) -> None:
        self._next = asyncio.Event()

    def notify(self) -> None:
        """Wake those who wait."""
        self._next.set()
        self._next = asyncio.Event()

    async def wait(self) -> None:
        """Wait until a node, job or actor is added, removed or changed."""
        await self._next.wait()
