"""The owners of calls, which hear of failures, and calls that fail before they end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from raycompat._messages.calls import Done
from raycompat._protocol import failures
from raycompat._protocol.values import CallFailed

if TYPE_CHECKING:
    from raycompat._dask.scheduler import DaskScheduler
    from raycompat._scheduler.call_table import CallTable


class Owners:
    """Reports to the owners of calls."""

    def __init__(self, dask: DaskScheduler, calls: CallTable) -> None:
        self._dask = dask
        self._calls = calls
        #: The errors of values that could not be made, by key.
        self.errors: dict[str, bytes] = {}

    def tell(
        self,
        owner: str,
        key: str,
        error: bytes,
        *,
        dependency: bool = False,
        unknown: bool = False,
    ) -> None:
        """Report to a client that its call has failed."""
        message = Done(key, error=error, dependency=dependency, unknown=unknown)
        self._dask.notify_client(owner, message)

    def fail(self, key: str, error: bytes) -> None:
        """Fail a call that has not finished, and notify its owner."""
        call = self._calls.by_key.get(key)
        if call is None:
            return
        self.errors[key] = error
        self.tell(call.owner, key, error)
        self._dask.fail(key, CallFailed(error, failures.text_of(error)))
