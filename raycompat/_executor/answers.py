"""Answers to the calls that callers send straight to this process: see `_caller.calls`."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from raycompat._executor.item_window import ItemWindow
from raycompat._executor.mailbox import Caller
from raycompat._executor.run_call import Outcome, Sink
from raycompat._protocol import direct_messages
from raycompat._protocol.values import Wire

if TYPE_CHECKING:
    from raycompat._executor.main import Executor


class Answers(Sink):
    """Answers to one call, down its caller's connection, by `post`."""

    def __init__(
        self,
        executor: Executor,
        caller: Caller,
        key: str,
        post: Callable[[Caller, tuple[Any, ...]], None],
    ) -> None:
        self._executor = executor
        self._caller = caller
        self._key = key
        self._post = post

    def open(self) -> ItemWindow:
        """Begin to send items, until the caller is gone."""
        window = self._caller.windows[self._key] = ItemWindow()
        if self._caller.closed:
            window.close()
        return window

    def wait(self, window: ItemWindow) -> None:
        """Wait for the caller; the main thread reads meanwhile what callers say, as no other does."""
        if threading.current_thread() is threading.main_thread():
            self._caller.mailbox.wait_until(lambda: window.may_go_on)
        else:
            window.wait()

    def close(self) -> None:
        """Send no more items."""
        self._caller.windows.pop(self._key, None)

    def item(self, index: int, wire: Wire, outcome: Outcome) -> None:
        """Send an item of a generator."""
        self._keep(f"{self._key}:{index}", (wire,), outcome)
        self._post(self._caller, (direct_messages.ITEM, self._key, index, wire))

    def end(self, outcome: Outcome, remark: float) -> None:
        """Send how the call ended; `remark` comes last."""
        message: tuple[Any, ...]
        if outcome.values is None:
            self._executor.session.sharing.hand_over()  # what the call has kept, it may keep on
            message = (direct_messages.FAILED, self._key, outcome.error, outcome.retry, remark)
        else:
            self._keep(self._key, outcome.values, outcome)
            message = (direct_messages.DONE, self._key, outcome.values, remark)
        self._post(self._caller, message)

    def _keep(self, key: str, wires: Any, outcome: Outcome) -> None:
        """Keep what a value refers to until the caller does, who has to find it."""
        executor = self._executor
        if outcome.refs:
            self._caller.holds[key] = outcome.holds
            executor.session.sharing.note_hold()
        shares_memory = self._caller.host == executor.setup["place"][2]
        for wire in wires:
            if wire[0] == "segment" and shares_memory:
                self._caller.note_segment(wire[1])
            elif wire[0] == "segment":
                executor.send("hand-over", self._caller.client, wire)
        executor.session.sharing.hand_over()
