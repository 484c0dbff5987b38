"""Values that Dask's workers move to disk: a limit, and how many bytes there are."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from distributed.spill import MaxSpillExceeded, PickleError, Slow, SpillBuffer

from raycompat._dask.streams import TakeBack

if TYPE_CHECKING:
    from distributed import Scheduler, Worker


#: The metric of a worker with the bytes of values that it has on disk, and that Dask counts as memory.
_ON_DISK = "raycompat-bytes-on-disk"


class _SlowWithRoom(Slow):
    """Dask's values on disk, whose limit follows the room that is left there."""

    @property
    def max_weight(self) -> int:
        """Return how large all values on disk may become, in bytes."""
        most: int = max(0, self.total_weight.disk + vars(self)["room"]())
        given: int = vars(self)["max_weight"]  # from Dask's settings
        return most if given is False else min(most, given)


class _ReadableBuffer(SpillBuffer):
    """Dask's values in memory and on disk, which can be read although others cannot move to disk.

    A value that is read moves to memory first, unless it is too large. If no other one can leave for
    it, Dask raises that error in the reader.
    """

    def __getitem__(self, key: object) -> object:
        try:
            return super().__getitem__(key)
        except (MaxSpillExceeded, OSError, PickleError):
            if key in self.fast:
                return self.fast[key]
            if key in self.slow:  # it is too large for memory, or could not be read
                return self.slow[key]
            raise


def limit_spilling(worker: Worker, room: Callable[[], int], on_disk: Callable[[], int]) -> TakeBack:
    """Let Dask move values to disk only while `room` returns enough bytes.

    `on_disk` returns the bytes of values on disk that Dask counts as memory; the scheduler gets them
    with the other metrics.
    """
    worker.metrics[_ON_DISK] = lambda worker: on_disk()
    slow = worker.data._slow_uncached if isinstance(worker.data, SpillBuffer) else None
    if slow is not None:
        vars(slow)["room"] = room
        slow.__class__, worker.data.__class__ = _SlowWithRoom, _ReadableBuffer

    def take_back() -> None:
        del worker.metrics[_ON_DISK]
        if slow is not None:
            slow.__class__, worker.data.__class__ = Slow, SpillBuffer

    return take_back


def stored_bytes(scheduler: Scheduler, worker: str) -> tuple[int, int]:
    """Return the bytes of values that a worker has in memory and on disk."""
    state = scheduler.workers.get(worker)
    if state is None:
        return 0, 0
    spilled = state.metrics.get("spilled_bytes", {})
    disk = int(spilled.get("memory", 0)) if isinstance(spilled, dict) else 0
    disk += int(state.metrics.get(_ON_DISK, 0))
    return max(0, state.nbytes - disk), disk
