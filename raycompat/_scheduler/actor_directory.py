"""Which actors there are, where they live, what they are called, and whose turn it is.

Pure bookkeeping: the scheduler plugin asks and acts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(slots=True)
class ActorRow:
    """One actor. `queues` holds the keys of calls not yet sent to its node, by caller, in order."""

    key: str
    job: str
    name: str | None = None
    namespace: str = ""
    detached: bool = False
    #: What a handle needs to know of the class, for `get_actor`: opaque here.
    about: bytes = b""
    class_name: str = ""
    state: Literal["RESERVED", "PENDING", "ALIVE", "DEAD"] = "PENDING"
    address: str | None = None
    pid: int | None = None
    #: Why it died: a pickled RayActorError, for everyone who calls it from now on.
    error: bytes | None = None
    queues: dict[str, deque[str]] = field(default_factory=dict)
    ready: set[str] = field(default_factory=set)


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
        """Return the living (or expected) actor of that name."""
        key = self._names.get((namespace, name))
        return self.rows[key] if key is not None else None

    def bury(self, key: str, error: bytes) -> list[str]:
        """Mark an actor dead and free its name; return the keys of the calls that waited for it."""
        row = self.rows[key]
        row.state, row.error = "DEAD", error
        if row.name is not None and self._names.get((row.namespace, row.name)) == key:
            del self._names[row.namespace, row.name]
        waiting = [call for queue in row.queues.values() for call in queue]
        row.queues.clear()
        row.ready.clear()
        return waiting

    def forget(self, key: str) -> None:
        """Drop the row of an actor that nobody can call any more."""
        row = self.rows.pop(key, None)
        if row is not None and row.name is not None:
            self._names.pop((row.namespace, row.name), None)

    def enqueue(self, key: str, caller: str, call: str) -> None:
        """Put a call behind the earlier calls of its caller."""
        self.rows[key].queues.setdefault(caller, deque()).append(call)

    def withdraw(self, key: str, caller: str, call: str) -> None:
        """Take a call back that has not been sent to the actor's node."""
        row = self.rows.get(key)
        if row is not None and call in row.queues.get(caller, ()):
            row.queues[caller].remove(call)
            row.ready.discard(call)

    def take_ready(self, key: str) -> Iterator[str]:
        """Yield, and take out, the calls whose turn it is: each caller's in order, none skipped."""
        row = self.rows[key]
        if row.state != "ALIVE":
            return
        for caller in list(row.queues):
            queue = row.queues[caller]
            while queue and queue[0] in row.ready:
                call = queue.popleft()
                row.ready.discard(call)
                yield call
            if not queue:
                del row.queues[caller]

    def named(self, namespace: str | None = None) -> list[dict[str, Any]]:
        """List the named actors, of one namespace or of all."""
        return [
            {"name": name, "namespace": space}
            for space, name in self._names
            if namespace is None or space == namespace
        ]
