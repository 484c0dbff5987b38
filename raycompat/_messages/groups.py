"""Messages about placement groups."""

from __future__ import annotations

from typing import TypedDict

from raycompat._protocol.call_spec import GroupSpec
from raycompat._protocol.message import FromCaller, Request, ToCaller


class CreateGroup(FromCaller):
    """Make a placement group."""

    spec: GroupSpec


class RemoveGroup(FromCaller):
    """Remove a placement group."""

    group: str


class AwaitGroup(FromCaller):
    """Report by `GroupReady` when all bundles of a group are reserved."""

    group: str


class GroupReady(ToCaller):
    """The bundles of a group are reserved; or it was removed, which is an error."""

    group: str
    error: bytes | None


# --- requests to the scheduler


class GroupRow(TypedDict):
    """A placement group as the scheduler describes it."""

    name: str
    strategy: str
    #: ``"PENDING"``, ``"CREATED"``, ``"RESCHEDULING"`` or ``"REMOVED"``.
    state: str
    #: Amounts of resources.
    bundles: list[dict[str, float]]
    #: The id of the node of each bundle; empty while it has none.
    nodes: list[str]
    latency_s: float
    num_attempts: int
    #: ``"FINISHED"``, ``"QUEUED"``, ``"INFEASIBLE"`` or the state.
    progress: str


class CreateNamedGroup(Request[bool]):
    """Make a placement group with a name; the answer is false if the name is taken."""

    client: str
    spec: GroupSpec


class FindGroup(Request[str | None]):
    """Find the id of the placement group with a name."""

    name: str
    namespace: str


class DescribeGroups(Request[dict[str, GroupRow]]):
    """Describe placement groups by their ids: one, or all, or all that were not removed."""

    group: str | None = None
    is_living: bool = False
