"""Messages for those who watch: the state API, metrics, experiments and the pages of the dashboard."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from raycompat._protocol.message import (
    FromCaller,
    FromExecutor,
    FromNode,
    Request,
    ToCaller,
    ToExecutor,
    ToNode,
)
from raycompat._protocol.plain import Row


class Look(ToNode, ToCaller, ToExecutor):
    """Describe what runs here, and what this process, or this node's processes, call and refer to."""

    token: int
    #: The most calls to list, and the most objects.
    most: int


class NodeLooked(FromNode):
    """A node's answer to `Look`, as `_node.looks` describes it."""

    token: int
    found: Row


class CallerLooked(FromCaller):
    """A caller's answer to `Look`, as `_caller.look` describes it."""

    token: int
    found: Row


class ShowStack(ToExecutor, ToCaller):
    """Describe what this process does now."""


class StackShown(FromExecutor):
    """An executor's answer to `ShowStack`."""

    text: str


class DriverStack(FromCaller):
    """A driver's answer to `ShowStack`."""

    text: str


class Spans(FromExecutor, FromNode):
    """Calls of an actor or a lease that have ended, with their times."""

    key: str
    pid: int
    job: str
    #: Each is a `_protocol.spans.Span`.
    spans: list[tuple[object, ...]]


class Gpus(FromNode):
    """What the GPUs of a node do now, as `_node.gpu_watch` describes it."""

    gpus: list[dict[str, object]]


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
    records: list[tuple[object, ...]]


# --- requests to the scheduler


class Timeline(Request[Sequence[Sequence[Any]]]):
    """Give the times of the last calls, each a `_protocol.spans.Ran`, in the order of the reports."""


class ListRows(Request[Row]):
    """Give the rows of a resource of the state API that match; or an ``error`` about the filters."""

    resource: str
    #: Each is a column, an operator and a value.
    filters: Sequence[tuple[str, str, object]]
    limit: int
    detail: bool


class Summarize(Request[Row]):
    """Count actors by class, tasks by function, or objects by origin."""

    resource: str


class Overview(Request[Row]):
    """Give the data for ``raycompat top``."""


class CountCalls(Request[dict[str, int]]):
    """Count the calls of one function or method: waiting, running, done, failed; nothing if unknown."""

    name: str


class ListStacks(Request[Row]):
    """Give the stacks of processes, as `_node.stacks` describes them.

    A node answers for its own; the scheduler asks the node, or all nodes.
    """

    #: The id or the IP address.
    node: str | None
    pid: int | None
