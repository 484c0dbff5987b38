"""Messages of channels that go through the scheduler, between a caller and an actor out of reach."""

from __future__ import annotations

from raycompat._messages.base import FromCaller, FromNode, ToCaller, ToNode


class RelayOpen(FromCaller, ToNode):
    """Connect a caller to an actor that it cannot reach itself."""

    relay: str
    #: The actor's key.
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
