"""Messages for those who watch: the state API, metrics, experiments and the pages of the dashboard."""

from __future__ import annotations

from typing import Any

from raycompat._messages.base import (
    FromCaller,
    FromExecutor,
    FromNode,
    ToCaller,
    ToExecutor,
    ToNode,
)


class Look(ToNode, ToCaller, ToExecutor):
    """Describe what runs here, and what this process, or this node's processes, call and refer to."""

    token: int
    #: The most calls to list, and the most objects.
    most: int


class NodeLooked(FromNode):
    """A node's answer to `Look`, as `_node.looks` describes it."""

    token: int
    found: dict[str, Any]


class CallerLooked(FromCaller):
    """A caller's answer to `Look`, as `_caller.look` describes it."""

    token: int
    found: dict[str, Any]


class ShowStack(ToExecutor):
    """Describe what this process does now."""


class StackShown(FromExecutor):
    """An executor's answer to `ShowStack`."""

    text: str


class Spans(FromExecutor, FromNode):
    """Calls of an actor or a lease that have ended, with their times."""

    key: str
    pid: int
    job: str
    #: Each is a `_protocol.spans.Span`.
    spans: list[tuple[Any, ...]]


class Gpus(FromNode):
    """What the GPUs of a node do now, as `_node.gpu_watch` describes it."""

    gpus: list[dict[str, Any]]


class Measured(FromCaller, FromExecutor, FromNode):
    """Values that a process has recorded with `ray.util.metrics`."""

    #: The id of the process.
    process: str
    job: str
    #: Each is the metric, the tags, the value, and the buckets (`_protocol.measurements`).
    measured: list[tuple[Any, ...]]


class ProcessEnded(FromNode):
    """A process of a node that recorded values has ended."""

    process: str


class Tracked(FromCaller, FromExecutor, FromNode):
    """What a process reports of its experiments."""

    #: Each is a record of `_protocol.tracked`.
    records: list[tuple[Any, ...]]
