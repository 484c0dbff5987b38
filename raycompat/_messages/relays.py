"""Messages of channels through the scheduler: to actors and leases that a caller cannot reach."""

from __future__ import annotations

from raycompat._protocol.message import FromCaller, FromNode, ToCaller, ToNode


class RelayOpen(FromCaller, ToNode):
    """Connect a caller to an actor or a lease that it cannot reach itself."""

    relay: str
    #: The key of the actor or the lease.
    actor: str


class RelayData(FromCaller, ToNode):
    """Bytes for the actor."""

    relay: str
    data: bytes


class RelayAnswer(FromNode, ToCaller):
    """Bytes from the actor; None at the end."""

    relay: str
    data: bytes | None


class RelayClose(FromCaller, ToNode):
    """The caller has closed its relay."""

    relay: str
