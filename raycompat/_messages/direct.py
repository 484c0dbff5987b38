"""The messages between a caller and a process that runs its calls, over a `connection.Connection`.

The process is an actor, or an executor that the caller leases. They are many, so a message is a plain
tuple: its kind, then its fields. The type of each kind is below, with the names of its fields; type
checkers hold senders and receivers against it. `CallMessage` names the many fields of a call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

from raycompat._protocol.values import Wire

# --- from the caller

HELLO: Final = "hello"
#: The first message. Fields: the caller's host, the id of its Dask client.
Hello: TypeAlias = tuple[Literal["hello"], str, str]

CALL: Final = "call"
#: Run a call, with the fields of `CallMessage`. The answer is `Done` or `Failed`, after any `Item`.
CallFields: TypeAlias = tuple[
    Literal["call"],
    str,
    str,
    str,
    int | str,
    int | None,
    str | None,
    bytes | None,
    tuple[Wire, ...],
    bool | bytes,
    int,
    bool,
    tuple[str, int] | None,
    int,
    bool,
]

CREDIT: Final = "credit"
#: Fields: key of a generator's call, number of items received, whether more are wanted.
Credit: TypeAlias = tuple[Literal["credit"], str, int, bool]

HELD: Final = "held"
#: The caller now holds the references inside a result or an item. Field: the key of the value.
Held: TypeAlias = tuple[Literal["held"], str]

RETURN: Final = "return"
#: The caller does not need the lease any more.
Return: TypeAlias = tuple[Literal["return"]]

FromCaller: TypeAlias = Hello | CallFields | Credit | Held | Return

# --- from the process

DONE: Final = "done"
#: Fields: key of a call, its results, and for a lease the seconds that the call took, for an actor the
#: call's attempt.
Done: TypeAlias = tuple[Literal["done"], str, Sequence[Wire], float]

FAILED: Final = "failed"
#: Fields: key of a call, its error, whether the call's options allow another try, and as in `Done`.
Failed: TypeAlias = tuple[Literal["failed"], str, bytes, bool, float]

ITEM: Final = "item"
#: Fields: key of a generator's call, number of the item, its value.
Item: TypeAlias = tuple[Literal["item"], str, int, Wire]

RETURNED: Final = "returned"
#: The process accepts no more calls; the caller sends these to another lease. Field: the keys and
#: attempts of calls that have not started.
Returned: TypeAlias = tuple[Literal["returned"], Sequence[tuple[str, int]]]

OPEN: Final = "open"
#: The process accepts calls again.
Open: TypeAlias = tuple[Literal["open"]]

TRIMMED: Final = "trimmed"
#: Field: the units of CPU that the lease still has.
Trimmed: TypeAlias = tuple[Literal["trimmed"], int]

UNREADABLE: Final = "unreadable"
#: A frame of the caller could not be read, and it is not known which calls it had. Field: the error.
Unread: TypeAlias = tuple[Literal["unreadable"], bytes]

BYE: Final = "bye"
#: The last message: the process leaves.
Bye: TypeAlias = tuple[Literal["bye"]]

FromProcess: TypeAlias = Done | Failed | Item | Returned | Open | Trimmed | Unread | Bye


class CallMessage(NamedTuple):
    """The fields of a `CALL`. `_caller.calls.Call.message` makes the tuple in this order."""

    kind: Literal["call"]
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
