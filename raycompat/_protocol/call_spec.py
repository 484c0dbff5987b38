"""Descriptions of a call: the caller's for the scheduler, and the scheduler's for a node.

Both are dictionaries of plain types: they travel in Dask's own messages. The *payload* holds what only
the executor needs (function, arguments); the other processes pass it on as bytes.
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
    """The part of a specification that only the call that makes an actor has."""

    name: str | None
    namespace: str
    detached: bool
    #: The pickled `actor_about.About`; only handles read it.
    about: bytes
    class_name: str
    #: Whether the class belongs to raycompat: Train, Tune, data sets and jobs have such actors.
    is_internal: bool
    #: How often it may be restarted; -1 is without limit.
    max_restarts: int
    #: Whether some method is ``async def``.
    is_async: bool
    #: Calls that run at the same time; 0 when the option is not given.
    max_concurrency: int
    #: The same for each concurrency group.
    groups: dict[str, int]


class CallSpec(TypedDict):
    """One call, as submitted to the scheduler. Calls that are sent directly have none."""

    key: str
    kind: Kind
    name: str
    job: str
    #: Keys of the values that are arguments, in order.
    deps: list[str]
    payload: bytes
    #: Resource units: needed to start; for an actor, those that it keeps after its start.
    request: dict[str, int]
    keep: dict[str, int]
    #: The nodes that are allowed, as `strategy.to_wire` encodes them.
    strategy: Any
    #: How often it may be tried again after its process died; -1 is without limit.
    retries: int
    #: How many calls its executor may run before it is replaced; 0 is without limit.
    max_calls: int
    #: The runtime environment, as `_protocol.runtime_env` encodes it.
    runtime_env: str
    actor: ActorSpec | None
    #: The id of its function or class; empty for a lease.
    function: str
    #: Whether the call's owner runs it by a lease and will report how it ended.
    runs_by_lease: bool


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
    function: str = "",
    runs_by_lease: bool = False,
) -> CallSpec:
    """Return the specification of a call; the defaults are those of most calls."""
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
        function=function,
        runs_by_lease=runs_by_lease,
    )


class Grant(TypedDict):
    """The message by which a node may run a call; it precedes the call's Dask task."""

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
    #: The placement group that it runs in, and whether the group captures its child tasks.
    group: tuple[str, bool] | None
    actor: ActorSpec | None
    #: How often the actor has been restarted, on any node.
    num_restarts: int
    #: The results of a call that its owner has already run; the node stores them.
    results: list[Any] | None


class GroupSpec(TypedDict):
    """A placement group as its creator requests it."""

    group: str
    job: str
    #: Key of the actor that creates it; None for a driver or task.
    actor: str | None
    name: str
    namespace: str
    detached: bool
    strategy: str
    #: Resource units of each bundle.
    bundles: list[dict[str, int]]
    #: The checked label selector of each bundle; empty if none was given.
    label_selectors: list[dict[str, str]]
