"""Calls that wait for a lease, by size: the units of CPU that they need.

Each size has a queue, and sizes take turns. Any thread appends calls without a lock; everything else is
for the holder of the pool's lock. A withdrawn call stays in its queue, marked, until its turn comes or
most of the queue is marked. So a withdrawal does not search a queue.
"""

from __future__ import annotations

import operator
from bisect import bisect_left
from collections import Counter, deque
from functools import partial

from raycompat._caller.calls import ENDED, Call

#: The number of withdrawn calls that may always stay in a queue.
_FEW = 64


class WaitingCalls:
    """Queues of waiting calls, one for each size."""

    def __init__(self) -> None:
        self._queues: dict[int, deque[Call]] = {}
        #: Sizes whose queues have calls, in ascending order; some queues may be empty by now.
        self._sizes: list[int] = []
        #: The next size in turn is this one, or the next larger one.
        self._turn = 0
        #: The number of withdrawn calls in the queue of each size.
        self._withdrawn: Counter[int] = Counter()

    def __len__(self) -> int:
        return sum(map(len, self._queues.values())) - self._withdrawn.total()

    def __bool__(self) -> bool:
        """Return whether calls may wait; False only when none do."""
        sizes = self._sizes
        return len(sizes) > 1 or (bool(sizes) and bool(self._queues.get(sizes[0])))

    def append(self, call: Call) -> deque[Call] | None:
        """Append a call to its queue; return the queue if it must still be `enter`ed."""
        queue = self._queues.get(call.units)
        if queue is None:
            queue = self._queues.setdefault(call.units, deque())
        queue.append(call)
        return queue if len(queue) == 1 or call.units not in self._sizes else None

    def enter(self, size: int, queue: deque[Call]) -> None:
        """Give a queue its turns from now on."""
        if self._sizes == [size] and self._queues.get(size) is queue:
            return
        current = self._queues.setdefault(size, queue)
        if current is not queue:  # the empty queue was removed while a call was appended
            current.extend(queue)
            queue.clear()
        index = bisect_left(self._sizes, size)
        if index == len(self._sizes) or self._sizes[index] != size:
            self._sizes.insert(index, size)

    def enter_all(self) -> None:
        """Enter the queues that an interrupt has left out."""
        for size, queue in list(self._queues.items()):
            if queue:
                self.enter(size, queue)

    def queue_of(self, call: Call) -> deque[Call]:
        """Return the queue of a call, to which it can also be returned."""
        queue = self._queues.get(call.units)
        if queue is None or len(self._sizes) != 1 or self._sizes[0] != call.units:
            self.enter(call.units, queue if queue is not None else deque())
        return self._queues[call.units]

    def sizes(self) -> list[int]:
        """Return the sizes of the calls that wait, in ascending order."""
        return [size for size in self._sizes if self._queues[size]]

    def name_of(self, size: int) -> str:
        """Return the name of a waiting call of this size."""
        return self._queues[size][0].name

    def next(self, below: int | None = None) -> deque[Call] | None:
        """Return the queue whose first call is next in turn, of a size `below` the limit if any."""
        sizes = self._sizes
        while len(sizes) > 1:
            index = bisect_left(sizes, self._turn)
            if index == len(sizes) or (below is not None and sizes[index] >= below):
                index = 0
            size = sizes[index]
            if below is not None and size >= below:
                return None
            if queue := self._without_withdrawn_head(size):
                return queue
            self._give_up(index, size)
        if not sizes or (below is not None and sizes[0] >= below):
            return None
        # The only queue stays when it is empty: more calls of its size are likely.
        return self._without_withdrawn_head(sizes[0]) or None

    def _give_up(self, index: int, size: int) -> None:
        del self._sizes[index]
        del self._withdrawn[size]
        queue = self._queues.pop(size)
        if queue:  # a call was just appended
            self.enter(size, queue)

    def served(self, size: int) -> None:
        """Note that a call of this size was sent: the next larger size is in turn."""
        self._turn = size + 1

    def withdraw(self, call: Call) -> None:
        """Withdraw a waiting call."""
        call.state = ENDED
        queue, size = self.queue_of(call), call.units
        self._withdrawn[size] += 1
        if self._withdrawn[size] > max(_FEW, len(queue) // 2):
            present = list(queue)
            kept = [each for each in present if each.state is not ENDED]
            replace = [queue.popleft] * len(present) + [partial(queue.extendleft, kept[::-1])]
            deque(map(operator.call, replace), 0)  # in one C call: safe from interrupts and threads
            self._withdrawn[size] = 0
        queue = self._without_withdrawn_head(size)
        if not queue and len(self._sizes) > 1:
            self._give_up(bisect_left(self._sizes, size), size)

    def withdraw_if_there(self, call: Call) -> None:
        """Withdraw a call whose submission was interrupted: it may be waiting, sent, or absent."""
        queue = self._queues.get(call.units)
        if queue is not None and call in list(queue):
            self.withdraw(call)

    def _without_withdrawn_head(self, size: int) -> deque[Call]:
        """Return a queue, without the withdrawn calls at its head: it is empty when no call waits."""
        queue = self._queues[size]
        while queue and queue[0].state is ENDED:
            queue.popleft()
            self._withdrawn[size] -= 1
        return queue

    def clear(self) -> list[Call]:
        """Remove all calls, and return them."""
        calls = []
        for queue in list(self._queues.values()):
            while queue:
                calls.append(queue.popleft())
        self._withdrawn.clear()
        return [call for call in calls if call.state is not ENDED]
