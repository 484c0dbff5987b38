"""Messages about calls: their submission, their results, items of generators, and cancellation."""

from __future__ import annotations

from raycompat._protocol.call_spec import CallSpec, Grant
from raycompat._protocol.message import (
    FromCaller,
    FromExecutor,
    FromNode,
    ToCaller,
    ToExecutor,
    ToNode,
)
from raycompat._protocol.values import Wire


class Submit(FromCaller):
    """Run calls. The answer to each is `Done`."""

    calls: list[CallSpec]


class Schedule(FromCaller):
    """Run an announced call; its owner does not run it any more."""

    key: str
    retries: int


class EndedByLease(FromCaller):
    """How an announced call ended that its owner ran by a lease."""

    key: str
    #: Its results, which the node `worker` stores; None if it has failed.
    wires: list[Wire] | None
    worker: str
    error: bytes | None


class FailedCall(FromCaller):
    """A call that was not given to the scheduler has failed, and no process reports it.

    None has begun it, or its process has died.
    """

    key: str
    name: str
    job: str
    #: The key of the actor, for a method.
    party: str | None
    #: The placement group.
    group: str | None
    #: Resource units.
    resources: dict[str, int]
    #: A `_protocol.spans.Failure`.
    failure: tuple[str, str, str]


class Disown(FromCaller):
    """The sender exits normally: its driver owns its actors from now on."""


class Cancel(FromCaller):
    """End a call, an actor or a lease."""

    key: str
    force: bool
    recursive: bool


class CancelDirect(FromCaller, ToNode):
    """End a call that was sent directly to an actor or a lease."""

    #: The key of the actor or the lease.
    party: str
    key: str
    force: bool
    recursive: bool


class CancelByLease(ToCaller):
    """End a call that this process runs by a lease."""

    key: str
    recursive: bool


class CancelCall(ToNode):
    """End a call of this node."""

    key: str
    force: bool
    recursive: bool
    #: The error of the call, if it is not that of a cancelled one.
    error: bytes | None = None


class Credit(FromCaller, ToNode, ToExecutor):
    """How many items of a generator have been received, and whether more are wanted."""

    key: str
    num_received: int
    is_wanted: bool


class GrantCall(ToNode):
    """Run a call. The grant arrives ahead of its Dask task."""

    grant: Grant


class End(ToNode):
    """End a call, an actor or a lease, because no process needs it or it must die with an error."""

    key: str
    error: bytes | None = None
    #: Whether an actor's process may run its exit handlers.
    gracefully: bool = False


class Result(FromNode):
    """How a call ended on a node: with values or with an error."""

    key: str
    owner: str
    pid: int | None
    values: list[Wire] | None = None
    error: bytes | None = None
    #: A `_protocol.spans.Phases`.
    phases: tuple[float, ...] = ()


class ItemMade(FromNode):
    """An item of a generator that runs on this node."""

    #: The key of the call.
    key: str
    owner: str
    #: The key of the item.
    item: str
    index: int
    wire: Wire


class Tried(FromNode):
    """The node runs a call again."""

    key: str
    #: The retries that are left.
    retries: int
    #: A `_protocol.spans.Failure`: why it runs again.
    failure: tuple[str, str, str]


class Freed(FromNode):
    """A process that used accelerators has ended: what its call held is free."""

    key: str


class Blocked(FromExecutor, FromNode):
    """A call waits in `get`: others can use its CPU."""

    key: str


class Unblocked(FromExecutor, FromNode):
    """A call does not wait in `get` any more."""

    key: str


class Done(ToCaller):
    """How a call ended: with values or with an error."""

    key: str
    values: list[Wire] | None = None
    error: bytes | None = None
    #: Whether the error is that of an argument.
    dependency: bool = False
    #: Whether Dask does not know the call, and will not report its end again.
    unknown: bool = False


class Item(ToCaller):
    """An item of a generator."""

    #: The key of the call.
    key: str
    index: int
    wire: Wire
    #: Whether a node stores it.
    stored: bool
