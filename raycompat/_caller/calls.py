"""Calls of this process that have not ended: of functions, methods and classes."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Protocol

from raycompat._messages import direct
from raycompat._protocol.call_spec import ActorSpec, CallSpec, new_spec

if TYPE_CHECKING:
    from raycompat._caller.lease import Lease
    from raycompat._caller.object_table import Entry
    from raycompat._caller.setup import Setup
    from raycompat._protocol.resource_set import ResourceSet
    from raycompat._protocol.strategy import Strategy
    from raycompat._protocol.values import Wire


class CallSender(Protocol):
    """Where a call is until it ends (see `sender.Sender`)."""

    def cancel(self, call: Call, *, force: bool, recursive: bool) -> None:
        """Remove a call that was not sent; tell the process to end one that was."""

    def give_credit(self, call: Call, num_received: int, is_wanted: bool) -> None:
        """Report to the generator of a call how many of its items were received here."""


class Items(Protocol):
    """The items of a generator's call (see `generator.Stream`)."""

    #: How many were added.
    num_items: int

    def receive(self, index: int, wire: Wire) -> bool:
        """Count an item that has arrived; return whether to add it."""

    def add(self, entry: Entry) -> None:
        """Add the next item."""

    def end(self, error: bytes | None, victim: str | None) -> None:
        """Add the end; an error becomes the last item."""


class PickledArguments(Protocol):
    """The serialized arguments of a call (see `arguments.Arguments`)."""

    block: bytes | None
    dependencies: list[Entry]
    holds: list[Any]
    carries_references: bool


class CallState(Enum):
    """The state of a call."""

    #: In this process, until its arguments are ready and it has a lease or a connection.
    WAITING = auto()
    #: At the process that runs it, or at the scheduler, which chooses one.
    SENT = auto()
    #: It has its results or has failed.
    ENDED = auto()


#: Python 3.11 reads ``CallState.SENT`` ten times more slowly than a global name.
WAITING, SENT, ENDED = CallState


class Call:
    """One call, from `send.call` to its end; it keeps its arguments alive.

    There are many calls, so most attributes keep the defaults of the class.
    """

    state = WAITING
    num_returns: int | str = 1
    #: For a generator: how many items may wait until the program takes them; None is without limit.
    max_items: int | None = None
    #: The version of the environment variables that the call sees.
    environment: tuple[str, int] | None = None
    #: The concurrency group of a method.
    group: str | None = None
    #: How often it may be sent again after a failure; -1 is without limit. `use_retry` counts down.
    retries = 0
    #: Whether it had retries at first: other calls fail while the actor restarts.
    waits_for_restart = False
    retry_exceptions: bool | bytes = False
    is_cancelled = False
    #: Whether the process that ran it reports its failure to the scheduler.
    is_reported = False
    #: Whether the tensors of its result stay in the actor's process.
    keeps_tensors = False

    # --- for the scheduler, to place it: only for functions and classes

    #: The resources that it needs to start, and those that an actor keeps after that.
    request: ResourceSet
    keep: ResourceSet | None = None
    strategy: Strategy = "DEFAULT"
    max_calls = 0
    #: Its runtime environment; None: that of this process.
    runtime_env: str | None = None
    #: For a class: the actor that the call creates.
    actor: ActorSpec | None = None

    # --- its arguments and results

    #: The pickled arguments: empty when there are none, None when they are the last dependency.
    arguments: bytes | None = b""
    dependencies: Sequence[Entry] = ()
    #: Whether there are references inside the arguments.
    carries_references = False
    #: The encoded values of the dependencies.
    wires: tuple[Wire, ...] | None = None
    stream: Items | None = None
    #: Objects that it keeps alive until it has ended.
    holds: tuple[Any, ...] = ()
    #: Keeps the code of its function in the cluster, as long as the call may run again.
    code: object = None
    #: For calls at the scheduler: keeps the key wanted until Dask has reported the end.
    ref: object = None
    #: Task id of the call that made this one, for recursive cancellation.
    parent: str | None = None

    # --- sending

    #: How often it was sent.
    attempt = 0
    #: The number of events to wait for: arguments that become ready, references that are registered.
    num_waits = 0
    #: The units of CPU that it needs, the lease that runs it, and its estimated seconds.
    units = 0
    lease: Lease | None = None
    cost_s = 0.0
    #: For a call of a lease: whether it was announced to Dask (see `by_scheduler`).
    is_announced = False
    #: Whether its end was reported to Dask.
    is_end_reported = False

    def __init__(self, key: str, function: str, name: str) -> None:
        self.key = key
        #: A method's name, or the id of a function or class.
        self.function = function
        self.name = name
        self.sender: CallSender
        self.returns: list[Entry] = []

    def take_arguments(self, arguments: PickledArguments) -> None:
        """Set the serialized arguments."""
        self.arguments = arguments.block
        self.dependencies = arguments.dependencies
        self.carries_references = arguments.carries_references
        self.holds = (*self.holds, *arguments.holds)

    def use_retry(self) -> bool:
        """Count a failure; return whether the call may be sent again."""
        if self.retries == 0:
            return False
        self.retries -= self.retries > 0
        return True

    @property
    def is_one(self) -> bool:
        """Whether it has exactly one result; the end of a generator counts as one."""
        return self.num_returns in (1, "streaming", "dynamic")

    def spec(self, setup: Setup, deps: Sequence[str], *, runs_by_lease: bool) -> CallSpec:
        """Return the specification for the scheduler.

        `runs_by_lease`: this process runs the call by a lease, and will report how it ended.
        """
        return new_spec(
            "task" if self.actor is None else "actor",
            self.key,
            self.name,
            setup.job,
            self.request,
            keep=self.keep,
            deps=deps,
            payload=pickle.dumps(self.message(wires=()), protocol=5),
            strategy=self.strategy,
            retries=self.retries,
            max_calls=self.max_calls,
            runtime_env=setup.runtime_env if self.runtime_env is None else self.runtime_env,
            actor=self.actor,
            function=self.function,
            runs_by_lease=runs_by_lease,
        )

    def message(self, wires: tuple[Wire, ...] | None = None) -> direct.CallFields:
        """Return the `direct.CallMessage` for the process that runs it.

        `wires` are the values of its dependencies, if they are not those that it has.
        """
        return (
            direct.CALL,
            self.key,
            self.function,
            self.name,
            self.num_returns,
            self.max_items,
            self.group,
            self.arguments,
            (self.wires or ()) if wires is None else wires,
            self.retry_exceptions if self.retries else False,
            self.attempt,
            self.retries != 0,
            self.environment,
            self.units,
            self.keeps_tensors,
        )
