"""What a caller tells the scheduler about a call, and what the scheduler grants a node for it.

Both are dictionaries of plain types: they travel in Dask's own messages. What only the executor
needs (function, arguments) is the *payload*: bytes for everyone on the way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from raycompat._protocol.runtime_env import EMPTY
from raycompat._protocol.strategy import to_wire

if TYPE_CHECKING:
    from raycompat._protocol.resource_set import ResourceSet
    from raycompat._protocol.strategy import Strategy

Kind = Literal["task", "actor", "lease"]


class ActorSpec(TypedDict):
    """What is special about the call that makes an actor."""

    name: str | None
    namespace: str
    detached: bool
    #: What a handle needs to know of the class: opaque on the way.
    about: bytes
    class_name: str
    #: How often it may be started anew; -1 for ever.
    max_restarts: int
    #: Whether some method is ``async def``.
    is_async: bool
    #: Calls that run at once; 0 when nothing was said.
    max_concurrency: int
    #: The same for each concurrency group.
    groups: dict[str, int]


class CallSpec(TypedDict):
    """One call, as submitted. Those that are sent directly do not come: see `_caller.calls`."""

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
    #: Where it may go: see `strategy.to_wire`.
    strategy: Any
    #: How often it may be tried again after its process died; -1 for ever.
    retries: int
    #: How many calls its executor may run before it is replaced; 0 for ever.
    max_calls: int
    #: See `_protocol.runtime_env`.
    runtime_env: str
    actor: ActorSpec | None
    #: Whether its owner runs it, by a lease, and will say how it ended.
    promised: bool


def new_spec(
    kind: Kind,
    key: str,
    name: str,
    job: str,
    request: ResourceSet,
    *,
    keep: ResourceSet | None = None,
    deps: Sequence[str] = (),
    payload: bytes = b"",
    strategy: Strategy = "DEFAULT",
    retries: int = 0,
    max_calls: int = 0,
    runtime_env: str = EMPTY,
    actor: ActorSpec | None = None,
    promised: bool = False,
) -> CallSpec:
    """Fill in the specification of a call; what is not given is as most calls have it."""
    return CallSpec(
        key=key,
        kind=kind,
        name=name,
        job=job,
        deps=list(deps),
        payload=payload,
        request=request.units(),
        keep=keep.units() if keep is not None else {},
        strategy=to_wire(strategy),
        retries=retries,
        max_calls=max_calls,
        runtime_env=runtime_env,
        actor=actor,
        promised=promised,
    )


class Grant(TypedDict):
    """What a node needs to know to run a call, sent ahead of it on the same stream."""

    key: str
    kind: Kind
    name: str
    job: str
    owner: str
    retries: int
    max_calls: int
    runtime_env: str
    resources: dict[str, float]
    gpus: list[tuple[int, int]]
    #: The placement group that it runs in, and whether it captures what it calls.
    group: tuple[str, bool] | None
    actor: ActorSpec | None
    #: How often the actor has been started anew, on any node.
    num_restarts: int
    #: What the call has returned, when it was made elsewhere: the node keeps it.
    made: list[Any] | None


class GroupSpec(TypedDict):
    """A placement group, as its creator asks for it."""

    group: str
    job: str
    #: Key of the actor that makes it, if one does.
    actor: str | None
    name: str
    namespace: str
    detached: bool
    strategy: str
    #: Resource units of each bundle.
    bundles: list[dict[str, int]]
