"""Reports of an actor or a lease about its ended calls: several calls in one span.

A span holds the calls' ids, starts and ends in columns of bytes, which are unpacked only on request. So
a call costs 40 bytes in a message, and no Python object.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from raycompat._protocol.ids import TASK_ID_BYTES

#: Hexadecimal digits of a task id, the end of a call's key.
_DIGITS = 2 * TASK_ID_BYTES

#: Bytes of one call: its id and two numbers.
CALL_BYTES = TASK_ID_BYTES + 2 * 8

#: A call: its task id, its start and its end, in seconds since 1970.
Ended = tuple[str, float, float]


class Failure(NamedTuple):
    """Why calls failed: Ray's name of the error type, and the error's text, which is cut.

    Of many failed calls, the last one has the end of its traceback too.
    """

    type: str
    text: str
    traceback: str = ""


class Phases(NamedTuple):
    """The seconds that calls spent on their arguments, in user code, and on their results."""

    loading_s: float = 0.0
    executing_s: float = 0.0
    storing_s: float = 0.0

    @classmethod
    def between(cls, start: float, loaded: float, executed: float, stop: float) -> Phases:
        """Return the phases of a call. `loaded` is 0 if no user code has run.

        The clocks of two machines may differ, so the times may lie outside of the call.
        """
        if not loaded:
            return cls(loading_s=stop - start)
        loaded = min(max(start, loaded), stop)
        executed = min(max(loaded, executed), stop)
        return cls(loaded - start, executed - loaded, stop - executed)


class Ran(NamedTuple):
    """Calls that ran one after the other in a process."""

    worker: str
    #: The process; a thread of the node if it is not known.
    process: int
    name: str
    #: The id of the first call, as hexadecimal digits.
    task: str
    num_calls: int
    #: In seconds since 1970.
    start: float
    stop: float
    is_failed: bool
    phases: Phases
    job: str = ""

    @classmethod
    def from_wire(cls, wire: Sequence[Any]) -> Ran:
        """Return the record from its fields as a message has them."""
        *fields, phases, job = wire
        return cls._make((*fields, Phases(*phases), job))


class Span(NamedTuple):
    """Calls of one function or method that ran one after the other and ended in the same way."""

    name: str
    #: Key of the first call, number of calls, start of the first and end of the last.
    key: str
    num_calls: int
    start: float
    stop: float
    failure: Failure | None
    #: The calls, as `pack` encodes them, and their phases together.
    calls: bytes
    phases: Phases = Phases()

    def to_wire(self) -> tuple[Any, ...]:
        """Return the span as plain values, for Dask's messages."""
        failure = tuple(self.failure) if self.failure is not None else None
        times = (self.num_calls, self.start, self.stop)
        return (self.name, self.key, *times, failure, self.calls, tuple(self.phases))

    @classmethod
    def from_wire(cls, wire: Sequence[Any]) -> Span:
        """Return the span from the values of `to_wire`. Spans of one name share its text."""
        name, key, num_calls, start, stop, failure, calls, phases = wire
        known = Failure(*failure) if failure is not None else None
        return cls(sys.intern(name), key, num_calls, start, stop, known, calls, Phases(*phases))


def pack(calls: Sequence[Ended]) -> bytes:
    """Return calls, given by their keys, in columns: all ids, all starts, all ends."""
    digits = bytes.fromhex("".join([key[-_DIGITS:] for key, _, _ in calls]))
    starts = array("d", [start for _, start, _ in calls])
    stops = array("d", [stop for _, _, stop in calls])
    return digits + starts.tobytes() + stops.tobytes()


def unpack(packed: bytes) -> Iterator[Ended]:
    """Iterate over the calls in a span, with their task ids."""
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
    """Return the starts of the calls in a span, followed by their ends."""
    times = array("d")
    times.frombytes(packed[len(packed) // CALL_BYTES * TASK_ID_BYTES :])
    return times


def milliseconds(seconds: float) -> int | None:
    """Return a time in milliseconds; None for 0, which means unknown."""
    return int(seconds * 1000) if seconds else None
