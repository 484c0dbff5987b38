"""Answers to calls that callers send directly to this process (see `_messages.direct`)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from raycompat._executor.item_window import ItemWindow
from raycompat._executor.mailbox import Caller
from raycompat._executor.run_call import Outcome, Sink
from raycompat._messages import direct
from raycompat._messages.executors import HandOver
from raycompat._protocol.values import Wire

if TYPE_CHECKING:
    from raycompat._executor.process import Process

#: Seconds that a generator waits for its consumer before it lends its CPUs.
PATIENCE_S = 0.1


class Answers(Sink):
    """The answers to one call. `post` sends them over its caller's connection."""

    def __init__(
        self,
        executor: Process,
        caller: Caller,
        key: str,
        post: Callable[[Caller, tuple[Any, ...]], None],
    ) -> None:
        self._executor = executor
        self._caller = caller
        self._key = key
        self._post = post
        #: Whether the end of the call was sent.
        self.has_ended = False

    def open(self, max_items: int | None) -> ItemWindow:
        """Return the window of items to send; a cancellation or the end of the caller closes it."""
        window = self._caller.windows[self._key] = ItemWindow()
        window.max_items = max_items
        # Another thread may read the acknowledgement for which the main thread waits.
        window.notify = self._caller.mailbox.wake
        self._executor.generators[self._key] = window.close
        if self._caller.closed or self._executor.is_cancelled(self._key):
            window.close()
        return window

    def wait(self, window: ItemWindow) -> None:
        """Wait for the caller; a task lends its CPUs after a while.

        The main thread reads callers' messages meanwhile. A cancellation interrupts it after that.
        """
        if threading.current_thread() is not threading.main_thread():
            window.wait()
            return
        executor, mailbox = self._executor, self._caller.mailbox
        with executor.uninterrupted():
            if mailbox.wait_until(lambda: window.may_go_on, PATIENCE_S):
                return
            executor.lend_cpus()
            mailbox.wait_until(lambda: window.may_go_on)
            executor.take_cpus_back()

    def go_on_unwanted(self) -> None:
        """Lend the CPUs, and read callers' messages; other threads leave both to the main thread."""
        self._executor.lend_cpus()
        if threading.current_thread() is threading.main_thread():
            self._caller.mailbox.read_arrived_sometimes()

    def close(self) -> None:
        """Stop sending items."""
        self._executor.generators.pop(self._key, None)
        self._executor.take_cpus_back()
        self._caller.windows.pop(self._key, None)

    def item(self, index: int, wire: Wire, outcome: Outcome) -> None:
        """Send an item of a generator."""
        self._executor.end_if_forked()
        with self._executor.uninterrupted():
            self._keep(f"{self._key}:{index}", (wire,), outcome)
            self._post(self._caller, (direct.ITEM, self._key, index, wire))

    def end(self, outcome: Outcome, last: float) -> None:
        """Send the end of the call.

        `last` is the last field of the message: the seconds that a call of a lease took, or the attempt
        of a method.
        """
        message: direct.FromProcess
        if outcome.values is None:
            self._executor.session.sharing.wait_until_synced()  # the actor may keep references
            message = (direct.FAILED, self._key, outcome.error, outcome.retry, last)
        else:
            self._keep(self._key, outcome.values, outcome)
            message = (direct.DONE, self._key, outcome.values, last)
        self._post(self._caller, message)
        self.has_ended = True

    def _keep(self, key: str, wires: Any, outcome: Outcome) -> None:
        """Keep the references in a value until the caller holds them itself."""
        executor = self._executor
        if outcome.refs:
            self._caller.holds[key] = outcome.holds
            executor.session.sharing.require_sync()
        shares_memory = self._caller.host == executor.session.setup.host
        for wire in wires:
            if wire[0] == "segment" and shares_memory:
                self._caller.note_segment(wire[1])
            elif wire[0] == "segment":
                executor.send(HandOver(self._caller.client, wire))
        executor.session.sharing.wait_until_synced()
