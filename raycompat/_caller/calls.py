"""Calls of this process that have not ended: sent to the scheduler, or straight to a process."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from raycompat._caller.object_table import Entry
from raycompat._protocol.call_spec import CallSpec, new_spec
from raycompat._protocol.values import Wire

if TYPE_CHECKING:
    from raycompat._caller.generator import Stream
    from raycompat._caller.lease import Lease
    from raycompat._caller.sender import Sender
    from raycompat._protocol.options import TaskOptions
    from raycompat._protocol.strategy import LeaseStrategy
    from raycompat.object_ref import ObjectRef


@dataclass(slots=True)
class PendingCall:
    """A task or actor of ours that has not ended. It keeps its arguments' references alive."""

    key: str
    name: str
    returns: list[Entry]
    holds: tuple[Any, ...]
    #: Keeps the call's key wanted until Dask has seen its end; None for actors.
    ref: ObjectRef[Any] | None
    #: Task id of the call that made this one, for recursive cancellation.
    parent: str | None
    stream: Stream | None = None


class DirectCall:
    """A call of a method or function that has not ended. It keeps its arguments alive."""

    __slots__ = (
        "arguments",
        "attempt",
        "carries_references",
        "cost_s",
        "dependencies",
        "environment",
        "function",
        "group",
        "has_ended",
        "holds",
        "is_announced",
        "is_cancelled",
        "is_made",
        "is_withdrawn",
        "key",
        "lease",
        "name",
        "num_returns",
        "num_waits",
        "options",
        "parent",
        "retries",
        "retry_exceptions",
        "returns",
        "sender",
        "strategy",
        "stream",
        "units",
        "waits_for_restart",
        "wires",
    )

    def __init__(self, sender: Sender, key: str, function: str, name: str) -> None:
        self.sender = sender
        self.key = key
        #: A method's name, or a function's id.
        self.function = function
        self.name = name
        self.num_returns: int | str = 1
        #: The block of the arguments; empty when there are none, None when it is the last dependency.
        self.arguments: bytes | None = b""
        self.dependencies: list[Entry] = []
        #: Whether there are references inside the arguments.
        self.carries_references = False
        self.group: str | None = None
        #: The version of the environment variables that it is to see.
        self.environment: tuple[str, int] | None = None
        #: How often it may be sent again after the process died; -1 for ever.
        self.retries = 0
        #: Whether it was given retries at all: others fail while the actor restarts.
        self.waits_for_restart = False
        self.retry_exceptions: bool | bytes = False
        self.returns: list[Entry] = []
        self.stream: Stream | None = None
        self.holds: tuple[Any, ...] = ()
        #: Task id of the call that made this one, for recursive cancellation.
        self.parent: str | None = None
        self.is_cancelled = False
        #: How often it was sent.
        self.attempt = 0
        #: What must happen before it can be sent: arguments made, references registered.
        self.num_waits = 0
        #: The values of the dependencies, as they are sent.
        self.wires: tuple[Wire, ...] | None = None
        # Of functions only: what the scheduler would need to know, whether it was told, and whether
        # it was told how the call has ended.
        self.options: TaskOptions | None = None
        self.strategy: LeaseStrategy = "DEFAULT"
        self.is_announced = False
        self.is_made = False
        #: Whether all its results are there.
        self.has_ended = False
        #: Units of CPU that it asks for, and whether it is not to be sent though it is in a queue.
        self.units = 0
        self.is_withdrawn = False
        #: The lease that it was sent by, and how many seconds it may take.
        self.lease: Lease | None = None
        self.cost_s = 0.0

    def spec(self, job: str, deps: Sequence[str], *, runtime_env: str, promised: bool) -> CallSpec:
        """Return what the scheduler needs to know of a function's call to run it.

        `promised`: its owner runs it, and will say how it ended.
        """
        assert self.options is not None
        payload = {
            "function": self.function,
            "retry_exceptions": self.retry_exceptions,
            "arguments": self.arguments,
            "num_returns": self.num_returns,
            "environment": self.environment,
        }
        return new_spec(
            "task",
            self.key,
            self.name,
            job,
            self.options.request(),
            deps=deps,
            payload=pickle.dumps(payload, protocol=5),
            strategy=self.strategy,
            retries=self.retries,
            runtime_env=runtime_env,
            promised=promised,
        )

    def message(self) -> tuple[Any, ...]:
        """Return what to send."""
        return (
            "call",
            self.key,
            self.function,
            self.name,
            self.num_returns,
            self.group,
            self.arguments,
            self.wires or (),
            self.retry_exceptions if self.retries else False,
            self.attempt,
            self.retries != 0,
            self.environment,
        )
