"""Messages about nodes: Dask workers that become nodes of raycompat, and cease to be ones."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from raycompat._messages.base import FromNode, ToNode


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
    gpus: NotRequired[list[dict[str, Any]]]


class NodeAt(NodeInfo):
    """A node with its address, as others learn of it."""

    address: str


class DepartedNode(NodeAt):
    """A node that has left."""

    #: Seconds since 1970.
    ended: float


class NodeReady(FromNode):
    """A worker is a node now."""

    info: NodeInfo


class Unfit(FromNode):
    """A worker cannot be a node, and why."""

    reason: str


class Resign(FromNode):
    """A worker is to be a node no more: its plugin was removed. The answer is `Dismiss`."""


class Dismiss(ToNode):
    """End: the worker is no node any more. No other message follows."""


class Gone(FromNode):
    """A worker is no node any more: it sends no other message."""
