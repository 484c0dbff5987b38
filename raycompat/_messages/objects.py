"""Messages about values and the references to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, TypedDict

from raycompat._protocol.message import FromCaller, FromNode, Request, ToCaller, ToNode
from raycompat._protocol.plain import Row
from raycompat._protocol.values import Wire


class Borrow(FromCaller):
    """The sender, too, needs the value from now on."""

    key: str


class ReleaseKeys(FromCaller):
    """The sender needs these values no more. It is a message of Dask itself."""

    op: ClassVar[str] = "client-releases-keys"

    keys: list[str]


class Adopt(FromCaller):
    """Store a value of this process on the node `worker`."""

    key: str
    wire: Wire
    worker: str


class Pick(FromCaller):
    """Make one of several results of a call a value with its own key."""

    key: str
    call: str
    index: int


class Promise(FromCaller):
    """The sender will report an object's value with `Fulfil`."""

    key: str


class Fulfil(FromCaller):
    """The value of a promised object, which the node `worker` stores; or its error."""

    key: str
    wire: Wire | None
    worker: str = ""
    error: bytes | None = None


class GiveAgain(ToCaller):
    """Send a value again: the node left before it stored the value."""

    key: str


class Load(FromCaller):
    """Make a Dask task whose value is that of the object `source`.

    After its release by this process it lingers, because a graph with it may be on its way.
    """

    key: str
    source: str


class Unload(FromCaller):
    """The sender has released tasks that linger."""

    keys: list[str]


class Pin(FromCaller):
    """Keep values as long as another one, whose value refers to them."""

    carrier: str
    keys: list[str]


class WatchObject(FromCaller):
    """Report with `ObjectFreed` when no process needs an object any more."""

    key: str


class ObjectFreed(ToCaller):
    """No process needs the object."""

    key: str


class Sync(FromCaller):
    """Answer with `Synced` when all earlier messages were handled."""

    token: int


class Synced(ToCaller):
    """All messages before `Sync` were handled."""

    token: int


class NotAdopted(FromNode):
    """The node cannot adopt a value, and why."""

    key: str
    error: bytes


class Discard(ToNode):
    """Remove a value that no process needs, unless this node stores it."""

    wire: Wire


# --- requests to the scheduler


class Located(TypedDict):
    """Where values are that were made, or why they were not."""

    #: The addresses of the nodes that have a value.
    holders: dict[str, list[str]]
    errors: dict[str, bytes]


class Fetch(Request[list[Row]]):
    """Give values to a process, as `_node.fetcher` describes them.

    It goes to the node, or to the scheduler, which asks the node for a caller that cannot reach it.
    """

    node: str
    keys: list[str]
    #: The id of the host of the process.
    host: str


class Locate(Request[Located]):
    """Wait until values are made, and tell where they are."""

    keys: list[str]
    #: Nodes that do not count, because the caller cannot reach them.
    besides: Sequence[str] = ()


class StoreDaskValue(Request[None]):
    """Make an object of the value of the Dask task `source`, once Dask knows it."""

    client: str
    key: str
    source: str


class ExpectedValues(Request[list[str]]):
    """Tell which of these segments the node will still be asked to adopt."""

    #: The client that asks, by the path of the segment.
    handed_over: Mapping[str, str]


class MissingValues(Request[None]):
    """Nodes do not have values that Dask expects there."""

    #: The addresses of the nodes by the key of the value.
    lost_by: dict[str, list[str]]
