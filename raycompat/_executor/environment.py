"""The environment variables of an executor, in the version that its calls carry."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Protocol

from raycompat._protocol.environment import Values, Version, table_id, unknown
from raycompat.exceptions import UnsupportedRayFeatureError

if TYPE_CHECKING:
    from raycompat._caller.session import Session

logger = logging.getLogger(__name__)


class _Actor(Protocol):
    @property
    def is_concurrent(self) -> bool: ...


class _Process(Protocol):
    """What runs the calls: `_executor.call_runner.CallRunner` says more of it."""

    @property
    def session(self) -> Session: ...

    @property
    def actor(self) -> _Actor | None: ...

    def load(self, function: str) -> Any: ...


class Environment:
    """The values of `ray.env`. Calls that this process makes carry its version."""

    def __init__(self, executor: _Process) -> None:
        self._executor = executor
        self._values = Values()

    def begin(self, version: Version | None) -> None:
        """Take over the caller's version if it is newer and of the same job."""
        session = self._executor.session
        if version is not None and version[0] == session.setup.job:
            session.environment = max(session.environment, version)

    def read(self, name: str) -> Any:
        """Return the value of a variable.

        Raises
        ------
        AttributeError
            When no variable of that name was defined when the running call was made.
        UnsupportedRayFeatureError
            In an actor that runs several calls at the same time.
        """
        self._refuse_concurrency()
        session, load = self._executor.session, self._executor.load
        table = load(table_id(session.environment)) if session.environment[1] else {}
        if name not in table:
            raise unknown(name, table)
        return self._values.get(name, table[name], lambda: load(table[name]))

    def _refuse_concurrency(self) -> None:
        actor = self._executor.actor
        if actor is not None and actor.is_concurrent:
            raise UnsupportedRayFeatureError(
                "ray.env in asynchronous and threaded actors",
                "one call would reinitialize a value while another uses it",
                "create the value in the actor's __init__ and keep it in self",
            )

    def end(self) -> None:
        """Reinitialize the values that the ending call has used.

        Raises
        ------
        Exception
            Any exception of a reinitializer.
        """
        self._values.reinitialize_used()

    def end_failed(self) -> None:
        """Reinitialize the values that a failed call has used; only the call's own error is raised."""
        try:
            self._values.reinitialize_used()
        except Exception:
            logger.exception("the reinitializer of an environment variable failed")
