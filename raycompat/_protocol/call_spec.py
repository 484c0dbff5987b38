"""What a caller tells the scheduler about a call, and what the scheduler grants a node for it.

Both are dictionaries of plain types: they travel in Dask's own messages. What only the executor
needs (function, arguments) is the *payload*: bytes for everyone on the way.
"""

from __future__ import annotations

from typing import Any, Literal, TypedDict

Kind = Literal["task", "actor", "method"]


class CallSpec(TypedDict):
    """One call, as submitted."""

    key: str
    kind: Kind
    name: str
    job: str
    #: Keys whose values are arguments, in order.
    deps: list[str]
    payload: bytes
    #: Resource units that it needs to start, and (actors) keeps after that.
    request: dict[str, int]
    keep: dict[str, int]
    strategy: str
    #: How often it may be tried again after its process died; -1 for ever.
    retries: int
    #: How many calls its executor may run before it is replaced; 0 for ever.
    max_calls: int
    env_vars: dict[str, str]
    #: Key of the actor, for methods.
    actor: str | None
    #: Actors: name, namespace, detached, class name.
    naming: dict[str, Any] | None


class Grant(TypedDict):
    """What a node needs to know to run a call, sent ahead of it on the same stream."""

    key: str
    name: str
    job: str
    owner: str
    retries: int
    max_calls: int
    env_vars: dict[str, str]
    resources: dict[str, float]
    gpus: list[tuple[int, int]]
    #: Key of the actor, for methods; and whether this call is an actor's hold.
    actor: str | None
    is_actor: bool
    #: Its name, if it is an actor that has one.
    actor_name: str | None
