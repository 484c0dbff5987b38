"""Calls that wait for a lease, by the units of CPU that they ask for: their size.

Each size has a queue, and sizes take turns. Any thread appends calls, without a lock; all else is for
the thread that holds the pool's lock. A call that is withdrawn stays in its queue, marked, until its
turn comes or most of the queue is marked: no withdrawal searches a queue.
"""

from __future__ import annotations

import operator
from bisect import bisect_left
from collections import Counter, deque
from functools import partial

from raycompat._caller.calls import Call, CallState

#: Withdrawn calls that may stay in a queue, however few others are there.
_FEW = 64


class WaitingCalls:
    """See the module."""

    def __init__(self) -> None:
        self._queues: dict[int, deque[Call]] = {}
        #: Sizes whose queues have calls, in ascending order; some queues may be empty by now.
        self._sizes: list[int] = []
        #: The next size to be served is this one, or the next larger one.
        self._turn = 0
        #: How many withdrawn calls are in the queue of each size.
        self._withdrawn: Counter[int] = Counter()

    def __len__(self) -> int:
        return sum(map(len, self._queues.values())) - self._withdrawn.total()

    def __bool__(self) -> bool:
        """Whether calls may be there: it is false only when there are none."""
        sizes = self._sizes
        return len(sizes) > 1 or (bool(sizes) and bool(self._queues.get(sizes[0])))

    def append(self, call: Call) -> deque[Call] | None:
        """Put a call at the end of its queue, which is returned if it is to be `enter`ed."""
        queue = self._queues.get(call.units)
        if queue is None:
            queue = self._queues.setdefault(call.units, deque())
        queue.append(call)
        return queue if len(queue) == 1 else None

    def enter(self, size: int, queue: deque[Call]) -> None:
        """Let the calls of a queue take their turns."""
        current = self._queues.setdefault(size, queue)
        if current is not queue:  # it was given up as empty just when a call was appended
            current.extend(queue)
            queue.clear()
        index = bisect_left(self._sizes, size)
        if index == len(self._sizes) or self._sizes[index] != size:
            self._sizes.insert(index, size)

    def enter_all(self) -> None:
        """Enter the queues that an interrupt has kept from it."""
        for size, queue in list(self._queues.items()):
            if queue:
                self.enter(size, queue)

    def queue_of(self, call: Call) -> deque[Call]:
        """Return the queue that a call is in, or may be put back to."""
        queue = self._queues.get(call.units)
        if queue is None or len(self._sizes) != 1 or self._sizes[0] != call.units:
            self.enter(call.units, queue if queue is not None else deque())
        return self._queues[call.units]

    def sizes(self) -> list[int]:
        """Return the sizes of the calls that wait, in ascending order."""
        return [size for size in self._sizes if self._queues[size]]

    def name_of(self, size: int) -> str:
        """Return the name of a call of a size that waits."""
        return self._queues[size][0].name

    def next(self, below: int | None = None) -> Call | None:
        """Return the call whose turn it is, of a size below a limit if one is given."""
        sizes = self._sizes
        while sizes:
            index = bisect_left(sizes, self._turn)
            if index == len(sizes) or (below is not None and sizes[index] >= below):
                index = 0
            size = sizes[index]
            if below is not None and size >= below:
                return None
            queue = self._queues[size]
            self._drop_first_withdrawn(size)
            if queue:
                return queue[0]
            if len(sizes) == 1:
                return None  # it is likely to come again
            self._give_up(index, size)
        return None

    def _give_up(self, index: int, size: int) -> None:
        del self._sizes[index]
        del self._withdrawn[size]
        queue = self._queues.pop(size)
        if queue:  # a call has just come
            self.enter(size, queue)

    def served(self, size: int) -> None:
        """Enter that a call of a size was sent: it is the turn of the next larger size."""
        self._turn = size + 1

    def withdraw(self, call: Call) -> None:
        """Take a call out that waits."""
        call.state = CallState.ENDED
        queue, size = self.queue_of(call), call.units
        self._withdrawn[size] += 1
        if self._withdrawn[size] > max(_FEW, len(queue) // 2):
            present = list(queue)
            kept = [each for each in present if each.state is not CallState.ENDED]
            replace = [queue.popleft] * len(present) + [partial(queue.extendleft, kept[::-1])]
            deque(map(operator.call, replace), 0)  # in one C call: no interrupt, no other thread
            self._withdrawn[size] = 0
        self._drop_first_withdrawn(size)
        if not queue and len(self._sizes) > 1:
            self._give_up(bisect_left(self._sizes, size), size)

    def withdraw_if_there(self, call: Call) -> None:
        """Take a call out whose submission was interrupted. It may never have come, or be sent."""
        queue = self._queues.get(call.units)
        if queue is not None and call in list(queue):
            self.withdraw(call)

    def _drop_first_withdrawn(self, size: int) -> None:
        """Remove withdrawn calls from the head of a queue, so that it is empty when no call waits."""
        queue = self._queues[size]
        while queue and queue[0].state is CallState.ENDED:
            queue.popleft()
            self._withdrawn[size] -= 1

    def clear(self) -> list[Call]:
        """Take all calls out, and return them."""
        calls = []
        for queue in list(self._queues.values()):
            while queue:
                calls.append(queue.popleft())
        self._withdrawn.clear()
        return [call for call in calls if call.state is not CallState.ENDED]
