"""Calls of this process that have not ended: of functions, methods and classes."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from enum import Enum, auto
from typing import TYPE_CHECKING, Any

from raycompat._protocol import direct_messages
from raycompat._protocol.call_spec import ActorSpec, CallSpec, new_spec

if TYPE_CHECKING:
    from raycompat._caller.arguments import Arguments
    from raycompat._caller.generator import Stream
    from raycompat._caller.lease import Lease
    from raycompat._caller.object_table import Entry
    from raycompat._caller.sender import Sender
    from raycompat._caller.session import Setup
    from raycompat._protocol.resource_set import ResourceSet
    from raycompat._protocol.strategy import Strategy
    from raycompat._protocol.values import Wire
    from raycompat.object_ref import ObjectRef


class CallState(Enum):
    """Where a call is."""

    #: Here, until its arguments are made, or there is a lease or a connection for it.
    WAITING = auto()
    #: With the process that runs it, or with the scheduler, which chooses one.
    SENT = auto()
    #: Nowhere any more: its results are there, or it has failed.
    ENDED = auto()


class Call:
    """One call, from `send.call` to its end. It keeps its arguments alive until then.

    Most attributes keep their defaults, as calls are many.
    """

    state = CallState.WAITING
    num_returns: int | str = 1
    #: The version of the environment variables that it is to see.
    environment: tuple[str, int] | None = None
    #: The concurrency group of a method.
    group: str | None = None
    #: How often it may be sent again after a failure; -1 for ever. `use_retry` counts down.
    retries = 0
    #: Whether it was given retries at all: others fail while the actor restarts.
    waits_for_restart = False
    retry_exceptions: bool | bytes = False
    is_cancelled = False

    # --- what the scheduler needs to know to place it: of functions and classes only

    #: What it needs to start, and what an actor keeps after that.
    request: ResourceSet
    keep: ResourceSet | None = None
    strategy: Strategy = "DEFAULT"
    max_calls = 0
    #: What it runs in; None: in what this process does.
    runtime_env: str | None = None
    #: Of a class: the actor that it makes.
    actor: ActorSpec | None = None

    # --- its arguments and results

    #: The block of the arguments; empty when there are none, None when it is the last dependency.
    arguments: bytes | None = b""
    dependencies: Sequence[Entry] = ()
    #: Whether there are references inside the arguments.
    carries_references = False
    #: The values of the dependencies, as they are sent.
    wires: tuple[Wire, ...] | None = None
    stream: Stream | None = None
    #: What it keeps alive.
    holds: tuple[Any, ...] = ()
    #: Keeps its key wanted until Dask has seen its end; of calls that the scheduler has.
    ref: ObjectRef[Any] | None = None
    #: Task id of the call that made this one, for recursive cancellation.
    parent: str | None = None

    # --- on its way

    #: How often it was sent.
    attempt = 0
    #: What must happen before it can be sent: arguments made, references registered.
    num_waits = 0
    #: Units of CPU that it asks for, the lease that it was sent by, and how many seconds it may take.
    units = 0
    lease: Lease | None = None
    cost_s = 0.0
    #: Whether Dask knows of a call that a lease runs, and whether it was told how that ended.
    is_announced = False
    is_made = False

    def __init__(self, key: str, function: str, name: str) -> None:
        self.key = key
        #: A method's name, or the id of a function or class.
        self.function = function
        self.name = name
        self.sender: Sender
        self.returns: list[Entry] = []

    def take_arguments(self, arguments: Arguments) -> None:
        """Enter the arguments, laid out."""
        self.arguments = arguments.block
        self.dependencies = arguments.dependencies
        self.carries_references = arguments.carries_references
        self.holds = (*self.holds, *arguments.holds)

    def use_retry(self) -> bool:
        """Count a failure; whether the call may be sent again."""
        if self.retries == 0:
            return False
        self.retries -= self.retries > 0
        return True

    @property
    def is_one(self) -> bool:
        """Whether it has one result of its own, which a generator's end is too."""
        return self.num_returns in (1, "streaming")

    def spec(self, setup: Setup, deps: Sequence[str], *, promised: bool) -> CallSpec:
        """Return what the scheduler needs to know to run it.

        `promised`: its owner runs it, and will say how it ended.
        """
        payload = {
            "function": self.function,
            "retry_exceptions": self.retry_exceptions,
            "arguments": self.arguments,
            "num_returns": self.num_returns,
            "environment": self.environment,
            "is_actor": self.actor is not None,
        }
        return new_spec(
            "task" if self.actor is None else "actor",
            self.key,
            self.name,
            setup.job,
            self.request,
            keep=self.keep,
            deps=deps,
            payload=pickle.dumps(payload, protocol=5),
            strategy=self.strategy,
            retries=self.retries,
            max_calls=self.max_calls,
            runtime_env=setup.runtime_env if self.runtime_env is None else self.runtime_env,
            actor=self.actor,
            promised=promised,
        )

    def message(self) -> tuple[Any, ...]:
        """Return what to send to the process that runs it: a `direct_messages.CallMessage`."""
        return (
            direct_messages.CALL,
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
            self.units,
        )
