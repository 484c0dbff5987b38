"""The scheduler's messages to this process: ended calls, places of leases and actors, lost objects.

The Dask client's event loop handles all of them, in the order in which the scheduler sent them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from raycompat._caller import placement_groups
from raycompat._caller.home import home_at
from raycompat._caller.object_table import PENDING, READY
from raycompat._protocol import failures
from raycompat._protocol.ids import call_of, return_key
from raycompat._protocol.operations import ToCaller, ToScheduler

if TYPE_CHECKING:
    from raycompat._caller.session import Session
    from raycompat.object_ref import ObjectRef

logger = logging.getLogger(__name__)


class SchedulerMessages:
    """The handlers of the scheduler's messages. A session has one."""

    def __init__(self, session: Session) -> None:
        self._session = session
        #: Calls that have answered, until Dask has reported their end. Releasing a key earlier would
        #: look like a cancellation.
        self._ending: dict[str, ObjectRef[Any]] = {}

    def handlers(self) -> dict[str, Callable[..., None]]:
        """Return the handler of each kind of message."""
        return {
            ToCaller.DONE: self._on_done,
            ToCaller.ACTOR_ALIVE: self._on_actor_alive,
            ToCaller.LEASE_ALIVE: self._on_lease_alive,
            ToCaller.LEASE_ENDED: self._on_lease_ended,
            ToCaller.PRESSURE: self._on_pressure,
            ToCaller.HOME: self._on_home,
            ToCaller.DETACHED: self._session.lose_cluster,
            ToCaller.GIVE_AGAIN: self._session.sharing.give_again,
            ToCaller.ACTOR_STATE: self._on_actor_state,
            ToCaller.GROUP_READY: partial(placement_groups.on_ready, self._session),
            ToCaller.RELAY_DATA: self._on_relay_data,
            ToCaller.CANCEL_BY_LEASE: self._on_cancel_by_lease,
            ToCaller.ITEM: self._on_item,
            "key-in-memory": self._on_key_in_memory,
            "task-erred": self._on_task_erred,
            "cancelled-keys": self._on_cancelled_keys,
            "lost-data": self._on_lost_data,
        }

    def on_refused(self, message: dict[str, Any], why: str) -> None:
        """Fail the calls of a message to the scheduler that cannot be encoded; send the others.

        Called in the event loop.
        """
        calls = message["calls"] if message["op"] == ToScheduler.SUBMIT else []
        if len(calls) > 1:
            self._session.write([{**message, "calls": [spec]} for spec in calls])
            return
        logger.error("raycompat could not send the message %s: %s", message["op"], why)
        for spec in calls:
            self._fail_unsent(spec["key"], failures.unwritable(f"The call of {spec['name']}", why))

    def _fail_unsent(self, key: str, error: bytes) -> None:
        """Fail a call that the scheduler never gets."""
        call, channel = self._session.calls.get(key), self._session.channels.get(key)
        if call is not None and call.actor is not None:
            error = failures.actor_died(failures.text_of(error), key)
        self._on_done(key, error=error, unknown=True)
        if channel is not None:
            channel.bury(error)

    def _on_done(
        self,
        key: str,
        values: list[Any] | None = None,
        error: bytes | None = None,
        dependency: bool = False,
        unknown: bool = False,
    ) -> None:
        """Handle the end of a call. `unknown`: Dask does not know it, and will not report it again."""
        session = self._session
        if key in session.leases:
            self._on_lease_ended(key, error=error, unknown=unknown)
            return
        call, borrowed = session.calls.get(key), session.table.get(key)
        if call is None and borrowed is not None and error is not None:
            session.table.settle(borrowed, error=error)
        if call is None or call.sender is not session.by_scheduler:
            return
        if call.ref is not None and not unknown:
            self._ending[key] = call.ref
        session.by_scheduler.ended(call, values, error, of_an_argument=dependency)

    def _on_actor_alive(self, key: str) -> None:
        session = self._session
        call = session.calls.get(key)
        if call is not None:
            session.call_ended(call)
            session.wake()

    def _on_pressure(self, is_on: bool) -> None:
        session = self._session
        session.is_pressed = is_on
        if is_on:
            session.return_leases()

    def _on_home(self, node: dict[str, Any] | None) -> None:
        session = self._session
        session.move(home_at(node, session.setup.host) if node is not None else None)

    def _on_lease_alive(self, key: str, **place: Any) -> None:
        lease = self._session.leases.get(key)
        if lease is not None:
            lease.granted(place)

    def _on_lease_ended(
        self, key: str, error: bytes | None = None, how: str = "", unknown: bool = False
    ) -> None:
        lease = self._session.leases.get(key)
        if lease is not None:
            if not unknown and lease.ref is not None:
                self._ending[key] = lease.ref
            lease.ended(error, how)

    def _on_actor_state(self, key: str, **report: Any) -> None:
        channel = self._session.channels.get(key)
        if channel is not None:
            channel.on_report(report)

    def _on_relay_data(self, relay: str, data: bytes | None) -> None:
        connection = self._session.relays.get(relay)
        if connection is not None:
            connection.on_data(data)

    def _on_cancel_by_lease(self, key: str, recursive: bool) -> None:
        call = self._session.calls.get(call_of(key))
        if call is not None:
            call.sender.cancel(call, force=False, recursive=recursive)

    def _on_item(self, key: str, index: int, wire: Any, stored: bool) -> None:
        session, item = self._session, return_key(key, index)
        call = session.calls.get(key)
        is_wanted = call is not None and session.by_scheduler.add_item(
            call, index, item, wire, stored=stored
        )
        if not is_wanted and stored and session.table.get(item) is None:
            session.send("client-releases-keys", keys=[item])

    def _release_ended(self, key: str) -> None:
        session = self._session
        ref = self._ending.pop(key, None)
        if ref is not None:
            session.table.keep_alone(session.table.entries[key])
            del ref
            session.wake()

    def _on_key_in_memory(self, key: str, **_: Any) -> None:
        session = self._session
        self._release_ended(key)
        entry = session.table.get(key)
        # The answer to a call of this process has the value, so it settles the entry.
        if entry is not None and key not in session.calls and entry.state is PENDING:
            session.table.settle(entry)

    def _on_task_erred(self, key: str, exception: Any = None, **_: Any) -> None:
        from raycompat import _dask_adapter as adapter

        session = self._session
        self._release_ended(key)
        entry = session.table.get(key)
        if entry is not None and key not in session.calls:
            session.table.settle(entry, error=adapter.error_bytes(exception))

    def _on_cancelled_keys(self, keys: list[str], **_: Any) -> None:
        session = self._session
        for key in keys:
            call, entry = session.calls.get(key), session.table.get(key)
            self._ending.pop(key, None)
            if key in session.leases:
                self._on_lease_ended(key, error=failures.object_lost(key), unknown=True)
            elif call is not None and call.sender is session.by_scheduler:
                self._on_done(key, error=failures.object_lost(key), unknown=True)
            elif entry is not None and not entry.is_here:
                session.table.settle(entry, error=failures.object_lost(key))

    def _on_lost_data(self, key: str, **_: Any) -> None:
        """Wait for a value that was lost: Dask computes it again, or reports why it cannot."""
        session = self._session
        with session.lock:
            entry = session.table.get(key)
            if entry is not None and entry.state is READY and entry.value is None:
                entry.state = PENDING
