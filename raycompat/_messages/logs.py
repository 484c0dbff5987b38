"""Messages about the output of executors, which drivers print."""

from __future__ import annotations

from raycompat._protocol.message import FromCaller, FromNode, Request, ToCaller, ToNode
from raycompat._protocol.plain import Row


class OutputPiece(FromNode, ToCaller):
    """A piece of the output of a process, on its way to the driver that prints it."""

    job: str
    ip: str
    #: What the driver counts back with `Printed` when it has printed the piece.
    cost: int
    pid: int
    #: ``"stdout"`` or ``"stderr"``.
    stream: str
    #: The class or function that has printed it.
    name: str
    data: bytes
    #: Whether the line ends here.
    ends: bool
    #: The address of the node, which the scheduler enters; empty for the scheduler's own lines.
    node: str = ""


class Printed(FromCaller):
    """The amount of a node's output that this driver has printed; the node may send more."""

    worker: str
    job: str
    cost: int


class OutputPrinted(ToNode):
    """The amount of this node's output that a driver has printed."""

    job: str
    cost: int


class FlushLogs(FromCaller):
    """Report with `LogsFlushed` when all output of a job was sent."""

    job: str


class FlushOutput(ToNode):
    """Send all output of a job, then `OutputFlushed`."""

    job: str
    token: int


class OutputFlushed(FromNode):
    """All output that a job had printed was sent."""

    token: int


class LogsFlushed(ToCaller):
    """The answer to `FlushLogs`: all output was sent."""


class LogsAwaited(ToCaller):
    """That answer will come: the nodes that have not answered are alive. Sent regularly until then."""


# --- requests to a node, or to the scheduler, which asks the node


class LogNames(Request[Row]):
    """List the names of files that match a shell pattern (see `_node.log_files`)."""

    #: The id or the IP address of the node.
    node: str
    pattern: str


class ReadLog(Request[Row]):
    """Read a part of a file (see `_node.log_files.LogFiles.read`)."""

    node: str
    name: str
    #: -1: the last `tail` lines.
    position: int
    tail: int
    #: Only what this task has printed, and whether the bytes before the position are of the task.
    task: str = ""
    is_inside: bool = False
