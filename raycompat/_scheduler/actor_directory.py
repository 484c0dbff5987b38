"""The directory of actors: their places, names, states, and watching clients.

It only stores data: the scheduler plugin reads it and acts.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from raycompat._messages.actors import ActorName, ActorState


@dataclass(slots=True)
class ActorRow:
    """One actor."""

    key: str
    job: str
    name: str | None = None
    namespace: str = ""
    detached: bool = False
    #: The pickled description of the class, for `get_actor`; the scheduler does not read it.
    about: bytes = b""
    class_name: str = ""
    #: Whether raycompat's own code has made it.
    is_internal: bool = False
    state: Literal["RESERVED", "PENDING", "ALIVE", "RESTARTING", "DEAD"] = "PENDING"
    #: Its node, that node's host, and the socket on which its process accepts calls.
    address: str | None = None
    host: str = ""
    socket: str = ""
    pid: int | None = None
    #: How often its process has been restarted.
    incarnation: int = 0
    #: The pickled RayActorError for all calls after its death.
    error: bytes | None = None
    #: Units of resources that it holds, its placement group, and its runtime environment.
    keep: dict[str, int] = field(default_factory=dict)
    group: str | None = None
    runtime_env: str = ""
    #: The client that has reserved the name and not submitted the actor yet.
    reserved_by: str | None = None
    #: Clients that are notified of changes.
    watchers: set[str] = field(default_factory=set)

    def report(self) -> ActorState:
        """Return the report for its callers."""
        return ActorState(
            key=self.key,
            state=self.state,
            address=self.address or "",
            host=self.host,
            socket=self.socket,
            incarnation=self.incarnation,
            error=self.error,
        )


class ActorDirectory:
    """The rows by key, and the keys of living actors by (namespace, name)."""

    def __init__(self) -> None:
        self.rows: dict[str, ActorRow] = {}
        self._names: dict[tuple[str, str], str] = {}

    def reserve(self, row: ActorRow) -> ActorRow | None:
        """Add `row`; if its name is taken, return the row with that name instead."""
        if row.name is not None:
            taken = self.find(row.name, row.namespace)
            if taken is not None:
                return taken
            self._names[row.namespace, row.name] = row.key
        self.rows[row.key] = row
        return None

    def find(self, name: str, namespace: str) -> ActorRow | None:
        """Return the actor with that name: reserved, living, or dead with references left."""
        key = self._names.get((namespace, name))
        return self.rows[key] if key is not None else None

    def bury(self, key: str, error: bytes, *, frees_name: bool) -> None:
        """Mark an actor as dead; free its name now, or when the row is removed."""
        row = self.rows[key]
        row.state, row.error = "DEAD", error
        if frees_name:
            self._free_name(row)

    def forget(self, key: str) -> None:
        """Remove the row of an actor that has no references any more."""
        row = self.rows.pop(key, None)
        if row is not None:
            self._free_name(row)

    def _free_name(self, row: ActorRow) -> None:
        if self._names.get((row.namespace, row.name or "")) == row.key:
            del self._names[row.namespace, row.name or ""]

    def named(self, namespace: str | None = None) -> list[ActorName]:
        """List the named actors, of one namespace or of all."""
        return [
            {"name": name, "namespace": space}
            for (space, name), key in self._names.items()
            if namespace in (None, space) and self.rows[key].state != "DEAD"
        ]


def constructor_of(row: ActorRow) -> str:
    """Return the name of the call that makes an actor, as in Ray."""
    return f"{row.class_name}.__init__"
