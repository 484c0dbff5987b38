"""Calls of an actor or a lease that have ended, as its process reports them: several in one span.

Each span names its calls: their ids, and when each began and ended, in columns of bytes that nobody
reads before somebody asks. So a call costs 40 bytes on its way, and no object.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from raycompat._protocol.ids import TASK_ID_BYTES

#: Hexadecimal digits of a task id, with which the keys of calls end.
_DIGITS = 2 * TASK_ID_BYTES

#: Bytes of one call: its id, and two numbers.
CALL_BYTES = TASK_ID_BYTES + 2 * 8

#: A call: its task id, and when it began and ended, in seconds since 1970.
Ended = tuple[str, float, float]


class Failure(NamedTuple):
    """Why calls failed: the name of Ray's error type, and what is said of it, which is cut."""

    type: str
    text: str


class Span(NamedTuple):
    """Calls of one function or method that ran one after the other, and all ended in the same way."""

    name: str
    #: Key of the first of them, how many they are, and from when to when they ran.
    key: str
    num_calls: int
    start: float
    stop: float
    failure: Failure | None
    #: The calls: see `pack`.
    calls: bytes

    def to_wire(self) -> tuple[Any, ...]:
        """Return it as plain values, for Dask's messages."""
        failure = tuple(self.failure) if self.failure is not None else None
        return (self.name, self.key, self.num_calls, self.start, self.stop, failure, self.calls)

    @classmethod
    def from_wire(cls, wire: Sequence[Any]) -> Span:
        """Return the span of which `to_wire` has made plain values."""
        name, key, num_calls, start, stop, failure, calls = wire
        known = Failure(*failure) if failure is not None else None
        return cls(name, key, num_calls, start, stop, known, calls)


def pack(calls: Sequence[Ended]) -> bytes:
    """Return calls, given by their keys, in columns: all ids, all begins, all ends."""
    digits = bytes.fromhex("".join([key[-_DIGITS:] for key, _, _ in calls]))
    starts = array("d", [start for _, start, _ in calls])
    stops = array("d", [stop for _, _, stop in calls])
    return digits + starts.tobytes() + stops.tobytes()


def unpack(packed: bytes) -> Iterator[Ended]:
    """Iterate over the calls in a span, by their task ids."""
    count = len(packed) // CALL_BYTES
    digits, times = packed[: count * TASK_ID_BYTES].hex(), times_of(packed)
    for number in range(count):
        task = digits[number * _DIGITS : (number + 1) * _DIGITS]
        yield task, times[number], times[count + number]


def tasks_of(packed: bytes) -> Iterator[bytes]:
    """Iterate over the task ids of the calls in a span, as bytes."""
    for number in range(len(packed) // CALL_BYTES):
        yield packed[number * TASK_ID_BYTES : (number + 1) * TASK_ID_BYTES]


def times_of(packed: bytes) -> array[float]:
    """Return when the calls in a span began, and after that when they ended."""
    times = array("d")
    times.frombytes(packed[len(packed) // CALL_BYTES * TASK_ID_BYTES :])
    return times
