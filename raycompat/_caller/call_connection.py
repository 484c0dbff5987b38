"""The two sides of a connection that carries calls: the connection, and the party that owns it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from raycompat._messages import direct
from raycompat._protocol.connection import Notes
from raycompat._protocol.frames import Unreadable


class CallConnection(Protocol):
    """The interface of a connection, as a `Party` uses it."""

    def post(self, message: direct.FromCaller, *, now: bool, notes: Notes = ()) -> None:
        """Write a message behind the earlier ones, at once or soon."""

    def flush(self) -> None:
        """Write all posted messages."""

    def receive_until(self, is_over: Callable[[], bool], timeout_s: float | None) -> bool:
        """Read in this thread until `is_over()`; False when it must wait in another way."""

    @property
    def is_silent(self) -> bool:
        """Whether all data that has arrived was handled."""

    def close(self) -> None:
        """Close this end."""


class Party(Protocol):
    """An owner of a connection: a channel to an actor, or a lease."""

    key: str

    def connected(self, connection: CallConnection, incarnation: int) -> None:
        """Use a new connection. Called in the session's event loop."""

    def on_message(self, message: direct.FromProcess | Unreadable) -> None:
        """Handle one message from the process at the other end."""

    def refused(self, message: direct.FromCaller, why: str) -> None:
        """Handle a message that could not be written."""

    def disconnected(self, connection: CallConnection) -> None:
        """Handle the end of the connection: the other process has closed it or died."""

    def broken(self, connection: CallConnection) -> None:
        """Handle a broken connection; the process at the other end may be alive."""

    def connect_failed(self) -> None:
        """Handle a failed attempt to connect: the process may have ended."""
