"""The interface of the process that runs a call: an executor, or the driver in local mode."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from raycompat._caller.this_process import RunningActor

if TYPE_CHECKING:
    from raycompat._caller.session import Session
    from raycompat._executor.environment import Environment


class ActorOfCall(RunningActor, Protocol):
    """The actor whose method or constructor runs."""

    #: The user's object; None before the constructor.
    instance: Any
    #: Set when the actor leaves: the pickled error for later callers.
    exit_error: bytes | None

    @property
    def is_concurrent(self) -> bool:
        """Whether it may run several calls at the same time."""


class CallRunner(Protocol):
    """The process, or its part, in which a call runs."""

    @property
    def session(self) -> Session:
        """The session that stores results and makes further calls."""

    @property
    def actor(self) -> ActorOfCall | None:
        """The actor that runs here, if any."""

    @property
    def environment(self) -> Environment:
        """The environment variables that calls see."""

    @property
    def ip(self) -> str:
        """The address of its node."""

    def load(self, function: str) -> Any:
        """Return the function or class with this id."""

    def is_cancelled(self, key: str) -> bool:
        """Return whether the cancellation of a call was requested."""


class CallProcess(CallRunner, Protocol):
    """A process that is there only for calls: it can be interrupted, and repaired after user code."""

    def begin_user_code(self, key: str) -> None:
        """Let a cancellation of the task `key` interrupt the main thread from now on."""

    def end_user_code(self) -> None:
        """Ignore later cancellations: the user's code has ended."""

    def check_process(self) -> None:
        """Correct what user code has done to this process, so that it can answer."""
