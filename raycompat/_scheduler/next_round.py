"""The next round of the dispatcher, which starts what fits after the current work."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class NextRound:
    """A round that is due, at most one at a time."""

    def __init__(self) -> None:
        #: Serves a round; the parts of the plugin set it.
        self.serve: Callable[[], None]
        #: Whether one was asked for and has not begun.
        self.is_due = False

    def soon(self) -> None:
        """Start calls after the current work, if any can start."""
        if not self.is_due:
            self.is_due = True
            asyncio.get_running_loop().call_soon(self._begin)

    def _begin(self) -> None:
        self.is_due = False
        self.serve()
