"""Messages about jobs: drivers, their settings, and the functions and classes of their calls."""

from __future__ import annotations

from typing import Any

from raycompat._messages.base import FromCaller, ToCaller, ToExecutor, ToNode


class BeginJob(FromCaller, ToNode):
    """A driver has connected; the settings of its executors."""

    job: str
    namespace: str
    #: See `raycompat._driver`, which makes them, and `_node.jobs`.
    setup: dict[str, Any]


class JobEnded(ToNode):
    """A driver has ended."""

    job: str
    #: Whether its job has ended too: it has no detached actors.
    for_good: bool


class Export(FromCaller):
    """The code of a function or class, which a job's calls name by its id."""

    job: str
    function: str
    code: bytes


class ForgetCode(FromCaller):
    """The process that has exported a function or class makes no more calls of it."""

    job: str
    function: str


class ForgetFunctions(ToNode, ToExecutor):
    """No call needs these functions and classes any more."""

    functions: list[str]


class NamesFramework(FromCaller, ToNode):
    """The job's code uses a framework, so its executors import it early."""

    job: str
    framework: str


class HomeMoved(ToCaller):
    """The node that keeps this process's values from now on; None while there is none."""

    #: A `nodes.NodeReady.info` with the node's ``address``.
    node: dict[str, Any] | None


class Detached(ToCaller):
    """The session ends, because raycompat is taken off the cluster, and why."""

    text: str
