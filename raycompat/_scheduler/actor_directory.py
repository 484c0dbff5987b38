"""Which actors there are, where they live, what they are called, and who wants to know.

Pure bookkeeping: the scheduler plugin asks and acts.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(slots=True)
class ActorRow:
    """One actor."""

    key: str
    job: str
    name: str | None = None
    namespace: str = ""
    detached: bool = False
    #: What a handle needs to know of the class, for `get_actor`: opaque here.
    about: bytes = b""
    class_name: str = ""
    state: Literal["RESERVED", "PENDING", "ALIVE", "RESTARTING", "DEAD"] = "PENDING"
    #: Its node, that node's host, and the socket on which its process takes calls.
    address: str | None = None
    host: str = ""
    socket: str = ""
    pid: int | None = None
    #: How often its process has been started anew.
    incarnation: int = 0
    #: Why it died: a pickled RayActorError, for everyone who calls it from now on.
    error: bytes | None = None
    #: Units of resources that it keeps, its placement group, and its runtime environment.
    keep: dict[str, int] = field(default_factory=dict)
    group: str | None = None
    runtime_env: str = ""
    #: The client that has announced it and not submitted it yet.
    reserved_by: str | None = None
    #: Clients that are told of changes.
    watchers: set[str] = field(default_factory=set)

    def report(self) -> dict[str, Any]:
        """Return what its callers need to know."""
        return {
            "state": self.state,
            "address": self.address,
            "host": self.host,
            "socket": self.socket,
            "incarnation": self.incarnation,
            "error": self.error,
        }


class ActorDirectory:
    """The rows by key, and the keys of living actors by (namespace, name)."""

    def __init__(self) -> None:
        self.rows: dict[str, ActorRow] = {}
        self._names: dict[tuple[str, str], str] = {}

    def reserve(self, row: ActorRow) -> ActorRow | None:
        """Enter `row`; when its name is taken, return the row that has it and enter nothing."""
        if row.name is not None:
            taken = self.find(row.name, row.namespace)
            if taken is not None:
                return taken
            self._names[row.namespace, row.name] = row.key
        self.rows[row.key] = row
        return None

    def find(self, name: str, namespace: str) -> ActorRow | None:
        """Return the actor of that name: expected, living, or dead and still referred to."""
        key = self._names.get((namespace, name))
        return self.rows[key] if key is not None else None

    def bury(self, key: str, error: bytes, *, frees_name: bool) -> None:
        """Mark an actor dead; its name is free now, or only when it is forgotten."""
        row = self.rows[key]
        row.state, row.error = "DEAD", error
        if frees_name:
            self._free_name(row)

    def forget(self, key: str) -> None:
        """Drop the row of an actor that nobody can call any more."""
        row = self.rows.pop(key, None)
        if row is not None:
            self._free_name(row)

    def _free_name(self, row: ActorRow) -> None:
        if self._names.get((row.namespace, row.name or "")) == row.key:
            del self._names[row.namespace, row.name or ""]

    def named(self, namespace: str | None = None) -> list[dict[str, Any]]:
        """List the named actors, of one namespace or of all."""
        return [
            {"name": name, "namespace": space}
            for (space, name), key in self._names.items()
            if namespace in (None, space) and self.rows[key].state != "DEAD"
        ]
