"""The executor, the actor and each thread's call that run in this process. Empty in a driver."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from raycompat._pickling import tensor_bytes
from raycompat._protocol import accelerator_kinds, ids
from raycompat._protocol.strategy import InGroup

if TYPE_CHECKING:
    from raycompat._messages.executors import Run
    from raycompat._protocol.call_spec import ActorSpec


class RunningActor(Protocol):
    """The actor that runs in this process."""

    @property
    def key(self) -> str:
        """The actor's Dask key."""

    @property
    def instance(self) -> object:
        """The object of the user's class."""

    @property
    def spec(self) -> ActorSpec:
        """The description of the actor by its creator."""

    def exit(self) -> NoReturn:
        """Leave the running method and end the actor."""


class Environment(Protocol):
    """The environment variables that the running call sees."""

    def read(self, name: str) -> Any:
        """Return the value of a variable."""


class Executor(Protocol):
    """The executor that runs in this process."""

    @property
    def actor(self) -> RunningActor | None:
        """The actor of this process, if it has one."""

    @property
    def environment(self) -> Environment:
        """The environment variables that calls see."""

    @property
    def gpus_are_named(self) -> bool:
        """Whether its node was started with ``CUDA_VISIBLE_DEVICES``: ids of GPUs are text then."""

    def is_cancelled(self, key: str) -> bool:
        """Return whether the cancellation of a call was requested."""


@dataclass(slots=True)
class RunningCall:
    """A call that this process runs."""

    key: str
    name: str
    resources: dict[str, float]
    #: The ids of its GPUs and other accelerators, by resource.
    accelerators: dict[str, list[str]]
    #: In methods and constructors, the key of this process's actor.
    actor: str | None
    actor_name: str | None
    #: The placement group that it runs in.
    group: InGroup | None = None
    #: In local mode, the part of this process that stands for an executor.
    runner: Executor | None = None
    #: The function of a task, when it is loaded.
    function: Callable[..., Any] | None = None
    #: Whether it has called `exit_actor`: then its caller gets the actor's end, and no value.
    exits: bool = False

    @property
    def gpus(self) -> list[str]:
        """The ids of its GPUs."""
        return self.accelerators.get(accelerator_kinds.GPU, [])

    @property
    def task_id(self) -> str:
        """The task's id, 48 hexadecimal digits."""
        return ids.task_hex(self.key)

    @classmethod
    def of_method(cls, key: str, name: str, actor: str) -> RunningCall:
        """Describe a call of a method: most fields are those of the process's actor."""
        assert _actor is not None
        return cls(
            key,
            name,
            _actor.resources,
            _actor.accelerators,
            actor,
            _actor.actor["name"] if _actor.actor is not None else None,
            _actor_group,
        )


#: The call of the main thread, to which threads that user code starts belong.
_call: RunningCall | None = None
#: The call of this thread or coroutine, in actors that run several at the same time.
_here: ContextVar[RunningCall | None] = ContextVar("raycompat_call", default=None)
_executor: Executor | None = None
#: What made this process an actor.
_actor: Run | None = None
_actor_group: InGroup | None = None


def set_executor(executor: Executor) -> None:
    """Set this process's executor."""
    global _executor
    _executor = executor


def executor() -> Executor | None:
    """Return this process's executor; None in drivers, except in the calls of local mode."""
    if _executor is None:
        call = _here.get()
        return call.runner if call is not None else None
    return _executor


def prepare_call(run: Run) -> RunningCall:
    """Prepare this process for a task or an actor's constructor, and return its description.

    A call that was given GPUs or other accelerators sees only those.
    """
    global _actor, _actor_group
    accelerator_kinds.show(run.accelerators, run.gpu_variable)
    tensor_bytes.note_gpus(bool(run.accelerators.get(accelerator_kinds.GPU)))
    actor, name, group = None, None, group_of(run.group)
    if run.actor is not None:
        actor, name = run.key, run.actor["name"]
        _actor, _actor_group = run, group
    return RunningCall(run.key, run.name, run.resources, run.accelerators, actor, name, group)


def group_of(group: tuple[str, bool] | None) -> InGroup | None:
    """Return the placement group of a call, as its node describes it."""
    return InGroup(group[0], captures=group[1]) if group is not None else None


def num_restarts() -> int:
    """Return how often this process's actor has been restarted."""
    return _actor.num_restarts if _actor is not None else 0


def enter(call: RunningCall) -> None:
    """Start a call in the main thread."""
    global _call
    _call = call


def leave() -> None:
    """End a call in the main thread."""
    global _call
    _call = None


@contextmanager
def in_this_thread(call: RunningCall) -> Iterator[None]:
    """Run a call in this thread or coroutine, beside others."""
    token = _here.set(call)
    try:
        yield
    finally:
        _here.reset(token)


def current() -> RunningCall | None:
    """Return the call that runs here; None in drivers."""
    return _here.get() or _call


def of_this_thread() -> RunningCall | None:
    """Return the call that this thread or coroutine runs; None in threads that user code starts."""
    if threading.current_thread() is threading.main_thread():
        return _here.get() or _call
    return _here.get()


def current_task() -> str | None:
    """Return the key of the call that runs here."""
    call = _here.get() or _call
    return call.key if call is not None else None


def captured() -> InGroup | None:
    """Return the placement group that captures calls made here, if there is one."""
    call = _here.get() or _call
    group = call.group if call is not None else None
    return group if group is not None and group.captures else None
