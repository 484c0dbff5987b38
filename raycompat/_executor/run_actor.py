"""The actor of an executor process: its instance, and how it leaves."""

from __future__ import annotations

from typing import Any


class ActorState:
    """What an actor's process knows of its actor; `instance` is None in a task executor."""

    def __init__(self) -> None:
        self.instance: Any = None
        self.class_name = ""
        #: Set when the actor is to leave: the error, as bytes, for whoever calls it later.
        self.exit_error: bytes | None = None


class ActorExit(SystemExit):
    """Raised by ``exit_actor`` to leave the method that runs."""
