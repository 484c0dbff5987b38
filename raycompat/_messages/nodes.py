"""Messages about nodes: Dask workers that become nodes of raycompat, and cease to be ones."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from raycompat._protocol.message import FromNode, Request, ToNode
from raycompat._protocol.plain import Row


class NodeInfo(TypedDict):
    """What a node says about itself when it joins."""

    node_id: str
    #: The version of raycompat.
    version: str
    #: Resource units.
    total: dict[str, int]
    #: The ids of the GPUs behind its indices; none if the worker declares their number.
    gpu_ids: list[str]
    ip: str
    name: str
    hostname: str
    pid: int
    #: Seconds since 1970.
    started: float
    #: The id of its host, and where its segments are (`_protocol.values.StorePlace.describe`).
    host: str
    place: tuple[Any, ...]
    labels: dict[str, str]
    #: What its GPUs do now, by the last `Gpus`; the scheduler enters it.
    gpus: NotRequired[list[Row]]


class NodeAt(NodeInfo):
    """A node with its address, as others learn of it."""

    address: str


class DepartedNode(NodeAt):
    """A node that has left."""

    #: Seconds since 1970.
    ended: float
    #: Whether a program or a user has ended it; otherwise it has died.
    is_expected: bool


class NodeReady(FromNode):
    """A worker is a node now."""

    info: NodeInfo


class Unfit(FromNode):
    """A worker cannot be a node, and why."""

    reason: str


class Resign(FromNode):
    """A worker is to be a node no more: its plugin was removed. The answer is `Dismiss`."""


class Dismiss(ToNode):
    """End: the worker is not a node any more. No other message follows."""


class Gone(FromNode):
    """A worker is not a node any more: it sends no other message."""


# --- requests to the scheduler


class Amounts(TypedDict):
    """The resources of all nodes together."""

    total: dict[str, float]
    available: dict[str, float]


class FoundNodes(TypedDict):
    """The nodes of a cluster, as a driver that connects needs them."""

    nodes: list[NodeAt]
    #: The addresses of workers that have not reported in time.
    silent: list[str]
    #: Why other workers cannot be nodes, by their addresses.
    unfit: dict[str, str]
    #: The place of the dashboard.
    dashboard: str | None


class AwaitReady(Request[FoundNodes]):
    """Find the nodes, once each connected worker has reported and there are `at_least` so many.

    It does not wait for more if there are workers that cannot be nodes.
    """

    at_least: int
    timeout_s: float


class AwaitNodes(Request[bool]):
    """Wait until there are exactly `count` nodes; the answer is false after the timeout."""

    count: int
    timeout_s: float


class ClusterState(Request[Row]):
    """Describe the nodes with their total and free resources (see `_scheduler.nodes.Nodes.state`)."""


class Resources(Request[Amounts]):
    """Give the resources of all nodes together: programs ask for them often."""


class SessionName(Request[str]):
    """Give the name that tells this cluster from others."""


#: Why a node may be drained: the names are Ray's. Only an idle node is drained for the first reason.
IDLE_TERMINATION = "DRAIN_NODE_REASON_IDLE_TERMINATION"
PREEMPTION = "DRAIN_NODE_REASON_PREEMPTION"


class DrainNode(Request[dict[str, str]]):
    """Start no more calls on a node, and close it when its calls have ended.

    The answer is empty, or says under "error" why the node is not drained.
    """

    #: The id of the node, or how only its id begins.
    node: str
    reason: str
    #: A text for users.
    message: str
    #: Seconds until the node closes although calls run there; None for no limit.
    deadline_s: float | None


class Detach(Request[bool]):
    """Take raycompat off the cluster."""

    #: The reason.
    text: str


class Inventory(Request[dict[str, list[str]]]):
    """Give the keys of everything in the scheduler, with which tests find leaks."""


class Pulse(Request[None]):
    """A node is alive."""

    worker: str


# --- requests to a node


class OpenChannel(Request[None]):
    """Make this connection a caller's channel to an actor. It has no answer but the channel's."""

    actor: str
