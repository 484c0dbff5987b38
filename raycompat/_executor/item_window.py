"""The executor's end of a generator's flow control: the items in transit, and whether to wait."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable

from raycompat._protocol import item_credit


class ItemWindow:
    """The items that a generator has sent and its consumer has not acknowledged (`item_credit`).

    One thread sends and waits; any thread may call `acknowledge` and `close`.
    """

    def __init__(self) -> None:
        #: The number of items that may wait, if the program limits it. Then their bytes do not count,
        #: and the consumer acknowledges what it takes, not what it receives.
        self.max_items: int | None = None
        #: Whether the consumer still needs items. If not, the generator runs on, and they are dropped.
        self.is_wanted = True
        #: Whether the consumer's process is gone or the call was cancelled: the generator must end.
        self.is_closed = False
        self._num_sent = 0
        self._sent_bytes = 0
        #: The costs of the items in transit; the first is item number `_num_received`.
        self._costs: deque[int] = deque()
        self._num_received = 0
        self._news = threading.Condition()
        #: Called when a wait may be over; it wakes the waiting coroutine or main thread.
        self.notify: Callable[[], None] = lambda: None

    @property
    def may_go_on(self) -> bool:
        """Whether the generator need not wait."""
        if self.max_items is None:
            has_room = self._sent_bytes < item_credit.WINDOW_BYTES
        else:
            has_room = len(self._costs) < self.max_items
        return has_room or not self.is_wanted or self.is_closed

    def note_sent(self, cost: int) -> None:
        """Count one more item."""
        with self._news:
            self._num_sent += 1
            self._costs.append(cost)
            self._sent_bytes += cost

    def acknowledge(self, num_received: int, is_wanted: bool) -> None:
        """Handle an acknowledgement: the number of received items, and whether more are needed.

        A number greater than the number of sent items belongs to an earlier try.
        """
        with self._news:
            self.is_wanted = self.is_wanted and is_wanted
            while self._num_received < num_received <= self._num_sent:
                self._num_received += 1
                self._sent_bytes -= self._costs.popleft()
            self._news.notify_all()
        self.notify()

    def close(self) -> None:
        """End the generator: no process receives its items any more."""
        with self._news:
            self.is_closed = True
            self._news.notify_all()
        self.notify()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait in this thread until the generator may continue; False after the timeout."""
        with self._news:
            return self._news.wait_for(lambda: self.may_go_on, timeout_s)

    async def wait_in_loop(self) -> None:
        """Wait in this coroutine until the generator may continue."""
        loop, news = asyncio.get_running_loop(), asyncio.Event()
        self.notify = lambda: loop.call_soon_threadsafe(news.set)  # type: ignore[assignment]
        while not self.may_go_on:
            await news.wait()
            news.clear()
