"""Messages between a node and its executors. Some of them a node only passes on."""

from __future__ import annotations

from typing import Any

from raycompat._messages.calls import Blocked, Unblocked
from raycompat._messages.leases import LeaseTrimmed
from raycompat._messages.watching import Measured, Spans, StackShown, Tracked
from raycompat._protocol import failures
from raycompat._protocol.call_spec import ActorSpec
from raycompat._protocol.message import FromExecutor, ToExecutor
from raycompat._protocol.plain import Row
from raycompat._protocol.values import Wire

#: Seconds for the exit handlers of a process that ends by itself. Ray gives an actor as much.
EXIT_WORK_S = 30.0


class Run(ToExecutor):
    """Run a task, or build an actor. The answer is `Succeeded` or `Failed`."""

    key: str
    #: The pickled `_messages.direct.CallMessage`.
    payload: bytes
    #: The values of its dependencies.
    wires: list[Wire]
    name: str
    resources: dict[str, float]
    #: The ids of the GPUs and other accelerators that it may see, by resource, and the environment
    #: variable that restricts it to GPUs.
    accelerators: dict[str, list[str]]
    gpu_variable: str
    #: The placement group that it runs in, and whether the group captures its child tasks.
    group: tuple[str, bool] | None
    actor: ActorSpec | None
    #: How often the actor has been restarted, and the name of its socket.
    num_restarts: int = 0
    socket: str = ""


class FunctionCode(ToExecutor):
    """The code of a function or class, as `NeedFunction` requested it."""

    function: str
    code: bytes


class NoFunction(ToExecutor):
    """The code is not available, and why."""

    function: str
    reason: str


class Interrupt(ToExecutor):
    """End a call; `recursive`: and the calls that it has made."""

    key: str
    recursive: bool


class BeginLease(ToExecutor):
    """Serve a lease. `Leased` says that it has begun, and `LeaseServed` that it has ended."""

    key: str
    #: The name of the socket for the caller.
    socket: str
    resources: dict[str, float]
    #: The environment variable that shows GPUs. Calls of leases have none.
    gpu_variable: str
    group: tuple[str, bool] | None


class Abandon(ToExecutor):
    """End a lease, because its caller has ended."""

    key: str
    #: The seconds for exit handlers, if a call runs.
    limit_s: float


class KillIfRunning(ToExecutor):
    """End this process if it runs a call of a lease; otherwise answer with `NotRunning`."""

    lease: str
    call: str
    #: The key of the answer.
    question: str


class WhatIsOwned(ToExecutor):
    """Report with `Owns` now."""


class Leave(ToExecutor):
    """End this process after the calls that it has."""

    #: The seconds to wait for the calls that it has made; None is without limit.
    patience_s: float | None


class EndNow(ToExecutor):
    """End this process now, because its job has ended or no caller needs its call."""

    #: The seconds for its exit handlers.
    limit_s: float


class Answer(FromExecutor):
    """The answer to a message about `key`, which the node awaits."""

    key: str


class Succeeded(Answer):
    """A call has ended with results."""

    values: list[Wire]
    #: A `_protocol.spans.Phases`.
    phases: tuple[float, ...]


class Failed(Answer):
    """A call has failed."""

    error: bytes
    text: str
    #: Whether the options of the call allow another try.
    may_retry: bool = False

    @classmethod
    def of(cls, key: str, error: bytes) -> Failed:
        """Return the message that a call has failed and is not tried again."""
        return cls(key, error, failures.text_of(error))


class LeaseServed(Answer):
    """A lease has ended."""

    #: Whether all answers to its caller were written.
    is_complete: bool


class NotRunning(Answer):
    """The process does not run the call of `KillIfRunning`."""


class Leased(FromExecutor):
    """The caller of a lease can connect."""

    key: str


class ItemYielded(FromExecutor):
    """An item of a generator."""

    #: The key of the call.
    key: str
    index: int
    wire: Wire


class NeedFunction(FromExecutor):
    """Send the code of a function or class."""

    function: str


class HandOver(FromExecutor):
    """Store a value of the process from now on."""

    #: The id of the Dask client that will ask the node to adopt it.
    client: str
    wire: Wire


class Unprepared(FromExecutor):
    """The process cannot run calls, and why."""

    why: str


class Leaving(FromExecutor):
    """The process has no more calls, and begins with its exit handlers."""


class Exiting(FromExecutor):
    """An actor ends because its code asked for it; the error of later calls."""

    key: str
    error: bytes


class Owns(FromExecutor):
    """Whether other processes need this one, for its calls, actors or objects."""

    is_owner: bool


class Spent(FromExecutor):
    """The process is to get no more calls."""


class ExecutorLooked(FromExecutor):
    """An executor's answer to `Look`."""

    token: int
    #: The name and the start of each running call, by its key.
    running: dict[str, tuple[str, float]]
    #: As `_caller.look` describes it.
    description: Row


#: The messages for which a caller waits: without one of them, its call would never end.
ABOUT_RESULTS = (Succeeded, Failed, ItemYielded)

_KINDS: dict[str, type[FromExecutor]] = {
    kind.op: kind
    for kind in (
        *(Succeeded, Failed, LeaseServed, NotRunning),
        *(Blocked, Unblocked, Leased, LeaseTrimmed, ItemYielded, NeedFunction, HandOver),
        *(Unprepared, Leaving, Exiting, Owns, Spent, Spans, ExecutorLooked, StackShown),
        *(Measured, Tracked),
    )
}


def is_about_results(op: str) -> bool:
    """Return whether a message of a kind that could not be read is about the end of a call."""
    return op in [kind.op for kind in ABOUT_RESULTS]


def of_frame(content: tuple[Any, ...]) -> FromExecutor:
    """Return the message of an executor that a frame has.

    Raises
    ------
    KeyError
        For an unknown kind.
    """
    return _KINDS[content[0]](*content[1:])
