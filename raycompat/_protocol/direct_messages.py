"""The messages between a caller and a process that runs its calls, over a `connection.Connection`.

The process is an actor, or an executor that the caller leases. A message is a tuple: its kind, then its
fields. Each kind below lists its fields; `CallMessage` names the many fields of a call.
"""

from __future__ import annotations

from typing import NamedTuple

from raycompat._protocol.values import Wire

# --- from the caller

#: The first message: the caller's host, and the id of its Dask client.
HELLO = "hello"
#: Run a call, with the fields of `CallMessage`. The answer is `DONE` or `FAILED`, after any `ITEM`.
CALL = "call"
#: Key of a generator's call, number of items received, whether more are wanted.
CREDIT = "credit"
#: Key of a result or an item: the caller now holds the references inside it.
HELD = "held"
#: The caller does not need the lease any more.
RETURN = "return"

# --- from the process

#: Key of a call and its results. The last field is, for a lease, the seconds that the call took, and
#: for an actor the call's attempt.
DONE = "done"
#: Key of a call, its error, whether the call's options allow another try; the last field as in `DONE`.
FAILED = "failed"
#: Key of a generator's call, number of the item, its value.
ITEM = "item"
#: Keys and attempts of calls that have not started: the caller sends them to another lease. The
#: process accepts no more calls.
RETURNED = "returned"
#: The process accepts calls again.
OPEN = "open"
#: The units of CPU that the lease still has.
TRIMMED = "trimmed"
#: A frame of the caller could not be read, and it is not known which calls it had: "", the error.
UNREADABLE = "unreadable"
#: The last message: the process leaves.
BYE = "bye"


class CallMessage(NamedTuple):
    """The fields of a `CALL`. `_caller.calls.Call.message` makes the tuple in this order."""

    kind: str
    key: str
    #: A method's name, or a function's id.
    function: str
    name: str
    num_returns: int | str
    #: How many items of a generator may wait until they are taken.
    max_items: int | None
    #: The concurrency group of a method.
    group: str | None
    arguments: bytes | None
    wires: tuple[Wire, ...]
    retry_exceptions: bool | bytes
    attempt: int
    may_repeat: bool
    environment: tuple[str, int] | None
    #: Units of CPU that it requests; 0 for a method.
    units: int
    #: Whether the tensors of its result stay in the actor's process.
    keeps_tensors: bool
