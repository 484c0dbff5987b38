"""The environment variables of an executor: found by the version that its calls carry."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from raycompat.environment_variables import Values, table_id, unknown
from raycompat.exceptions import UnsupportedRayFeatureError

if TYPE_CHECKING:
    from raycompat._executor.main import Executor

logger = logging.getLogger(__name__)


class Environment:
    """See the module. Calls that this process makes carry the version that it has."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._values = Values()

    def begin(self, version: int) -> None:
        """Know what the caller knew. Callers that know less change nothing."""
        session = self._executor.session
        session.environment = max(session.environment, version)

    def read(self, name: str) -> Any:
        """Return the value of a variable.

        Raises
        ------
        AttributeError
            When none of that name had been defined when the running call was made.
        UnsupportedRayFeatureError
            In an actor that runs several calls at once.
        """
        self._refuse_concurrency()
        session, load = self._executor.session, self._executor.load
        table = load(table_id(session, session.environment)) if session.environment else {}
        if name not in table:
            raise unknown(name, table)
        return self._values.get(name, table[name], lambda: load(table[name]))

    def _refuse_concurrency(self) -> None:
        actor = self._executor.actor
        if actor is not None and actor.is_concurrent:
            raise UnsupportedRayFeatureError(
                "ray.env in asynchronous and threaded actors",
                "one call would put a value right while another uses it",
                "make the value in the actor's __init__ and keep it in self",
            )

    def end(self) -> None:
        """Put right what the call that ends has used.

        Raises
        ------
        Exception
            Whatever a reinitializer raises.
        """
        self._values.reinitialize_used()

    def end_failed(self) -> None:
        """Put right what a call has used that failed: its own error is the one to be told."""
        try:
            self._values.reinitialize_used()
        except Exception:
            logger.exception("an environment variable is made anew: its reinitializer failed")
