"""What a caller and a process that runs its calls say to each other, down a `connection.Connection`.

The process is an actor, or an executor that the caller leases. A message is a tuple: its kind, then
its fields. Here are the kinds, with their fields; `CallMessage` names the many fields of a call.
"""

from __future__ import annotations

from typing import NamedTuple

from raycompat._protocol.values import Wire

# --- from the caller

#: The first message: the caller's host, and the id of its Dask client.
HELLO = "hello"
#: Run a call: see `CallMessage`. The answer is `DONE` or `FAILED`, with `ITEM` before it.
CALL = "call"
#: Key of a generator's call, number of items received, whether more are wanted.
CREDIT = "credit"
#: Key of a result, or of an item: the references inside it are held by the caller now.
HELD = "held"
#: The caller needs the lease no more.
RETURN = "return"

# --- from the process

#: Key of a call, the values that it returned; last, from a lease, the seconds that it took, from an
#: actor its attempt.
DONE = "done"
#: Key of a call, its error, whether the call's options allow another try; then as `DONE`.
FAILED = "failed"
#: Key of a generator's call, number of the item, its value.
ITEM = "item"
#: Keys and attempts of calls that were not begun: another lease is to run them. No more are taken.
RETURNED = "returned"
#: Calls are taken again.
OPEN = "open"
#: The units of CPU that the lease still has.
TRIMMED = "trimmed"
#: The last message: the process leaves.
BYE = "bye"


class CallMessage(NamedTuple):
    """A call, as the process sees it. `_caller.calls.Call.message` makes the tuple, in this order."""

    kind: str
    key: str
    #: A method's name, or a function's id.
    function: str
    name: str
    num_returns: int | str
    #: The concurrency group of a method.
    group: str | None
    arguments: bytes | None
    wires: tuple[Wire, ...]
    retry_exceptions: bool | bytes
    attempt: int
    may_repeat: bool
    environment: tuple[str, int] | None
    #: Units of CPU that it asks for; 0 for a method.
    units: int
