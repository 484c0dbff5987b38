"""Messages about leases: executors that run the calls of one caller for a while."""

from __future__ import annotations

from typing import ClassVar

from raycompat._protocol.message import FromExecutor, FromNode, ToCaller, ToExecutor, ToNode


class LeaseAlive(FromNode):
    """An executor accepts the calls of a lease."""

    key: str
    owner: str
    socket: str


class LeaseTrimmed(FromExecutor, FromNode):
    """A lease gives CPUs back."""

    key: str
    #: The units that it still needs of what varies (`_protocol.resource_set.LeaseKind`).
    units: int


class LeaseEnded(FromNode):
    """A lease has ended."""

    key: str
    owner: str
    #: How its process has ended; empty if it lives.
    how: str
    error: bytes | None


class LeaseGranted(ToCaller):
    """An executor accepts the calls of a requested lease."""

    key: str
    #: The address of its node, the node's host, and the name of its socket there.
    address: str
    host: str
    socket: str
    #: A lease has one process.
    incarnation: ClassVar[int] = 0


class LeaseOver(ToCaller):
    """A lease has ended; the fields are those of `LeaseEnded`."""

    key: str
    how: str
    error: bytes | None


class Pressure(ToCaller):
    """Whether other callers wait for CPUs."""

    is_on: bool


class Revoke(ToNode, ToExecutor):
    """End a lease after its call."""

    key: str
