"""The scheduler's messages to this process: ended calls, places of leases and actors, lost objects.

The Dask client's event loop handles all of them, in the order in which the scheduler sent them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from raycompat._caller.home import home_at
from raycompat._caller.object_table import PENDING, READY
from raycompat._messages.actors import ActorBuilt, ActorState
from raycompat._messages.calls import CancelByLease, Done, Item, Submit
from raycompat._messages.jobs import Detached, HomeMoved
from raycompat._messages.leases import LeaseGranted, LeaseOver, Pressure
from raycompat._messages.objects import GiveAgain, ReleaseKeys
from raycompat._messages.relays import RelayAnswer
from raycompat._protocol import failures
from raycompat._protocol.ids import call_of, return_key
from raycompat._protocol.message import FromCaller, Handler, handled

if TYPE_CHECKING:
    from raycompat._caller.by_channel import Channel
    from raycompat._caller.by_scheduler import SchedulerSender
    from raycompat._caller.membership import Membership

logger = logging.getLogger(__name__)


class SchedulerMessages:
    """The handlers of the scheduler's messages. A session has one.

    `on_pressure` is called when others wait for CPUs, `on_detached` with the reason when raycompat was
    taken off the cluster.
    """

    def __init__(
        self,
        session: Membership,
        by_scheduler: SchedulerSender,
        channels: Mapping[str, Channel],
        on_pressure: Callable[[], None],
        on_detached: Callable[[str], None],
    ) -> None:
        self._session = session
        self._by_scheduler = by_scheduler
        self._channels = channels
        self._return_leases = on_pressure
        self._on_detached = on_detached
        #: Calls that have answered, until Dask has reported their end. Releasing a key earlier would
        #: look like a cancellation.
        self._ending: dict[str, object] = {}

    def handlers(self) -> dict[str, Handler]:
        """Return the handler of each kind of message, of raycompat's and of Dask's own."""
        session = self._session
        ours = [
            handled(Done, self._on_done),
            handled(ActorBuilt, self._on_actor_built),
            handled(LeaseGranted, self._on_lease_granted),
            handled(LeaseOver, self._on_lease_over),
            handled(Pressure, self._on_pressure),
            handled(HomeMoved, self._on_home_moved),
            handled(Detached, lambda message: self._on_detached(message.text)),
            handled(GiveAgain, lambda message: session.sharing.give_again(message.key)),
            handled(ActorState, self._on_actor_state),
            handled(RelayAnswer, self._on_relay_answer),
            handled(CancelByLease, self._on_cancel_by_lease),
            handled(Item, self._on_item),
        ]
        return {
            **dict(ours),
            "key-in-memory": self._on_key_in_memory,
            "task-erred": self._on_task_erred,
            "cancelled-keys": self._on_cancelled_keys,
            "lost-data": self._on_lost_data,
        }

    def on_refused(self, message: FromCaller, why: str) -> None:
        """Fail the calls of a message to the scheduler that cannot be encoded; send the others.

        Called in the event loop.
        """
        calls = message.calls if isinstance(message, Submit) else []
        if len(calls) > 1:
            self._session.write([Submit([spec]) for spec in calls])
            return
        logger.error("raycompat could not send the message %s: %s", message.op, why)
        for spec in calls:
            self._fail_unsent(spec["key"], failures.unwritable(f"The call of {spec['name']}", why))

    def _fail_unsent(self, key: str, error: bytes) -> None:
        """Fail a call that the scheduler never gets."""
        call, channel = self._session.calls.get(key), self._channels.get(key)
        if call is not None and call.actor is not None:
            error = failures.actor_died(failures.text_of(error), key)
        self._on_done(Done(key, error=error, unknown=True))
        if channel is not None:
            channel.bury(error)

    def _on_done(self, message: Done) -> None:
        """Handle the end of a call."""
        session = self._session
        key, error, unknown = message.key, message.error, message.unknown
        if key in session.leases:
            self._lease_ended(key, error, unknown=unknown)
            return
        call, borrowed = session.calls.get(key), session.table.get(key)
        if call is None and borrowed is not None and error is not None:
            session.table.settle(borrowed, error=error)
        if call is None or call.sender is not self._by_scheduler:
            return
        if call.ref is not None and not unknown:
            self._ending[key] = call.ref
        values, of_an_argument = message.values, message.dependency
        self._by_scheduler.ended(call, values, error, of_an_argument=of_an_argument)

    def _on_actor_built(self, message: ActorBuilt) -> None:
        session = self._session
        call = session.calls.get(message.key)
        if call is not None:
            session.call_ended(call)
            session.wake()

    def _on_pressure(self, message: Pressure) -> None:
        session = self._session
        session.is_pressed = message.is_on
        if message.is_on:
            self._return_leases()

    def _on_home_moved(self, message: HomeMoved) -> None:
        session, node = self._session, message.node
        session.move(home_at(node, session.setup.host) if node is not None else None)

    def _on_lease_granted(self, message: LeaseGranted) -> None:
        lease = self._session.leases.get(message.key)
        if lease is not None:
            lease.granted(message)

    def _on_lease_over(self, message: LeaseOver) -> None:
        self._lease_ended(message.key, message.error, message.how)

    def _lease_ended(
        self, key: str, error: bytes | None, how: str = "", *, unknown: bool = False
    ) -> None:
        lease = self._session.leases.get(key)
        if lease is not None:
            if not unknown and lease.ref is not None:
                self._ending[key] = lease.ref
            lease.ended(error, how)

    def _on_actor_state(self, message: ActorState) -> None:
        channel = self._channels.get(message.key)
        if channel is not None:
            channel.on_report(message)

    def _on_relay_answer(self, message: RelayAnswer) -> None:
        receive = self._session.relays.get(message.relay)
        if receive is not None:
            receive(message.data)

    def _on_cancel_by_lease(self, message: CancelByLease) -> None:
        call = self._session.calls.get(call_of(message.key))
        if call is not None:
            call.sender.cancel(call, force=False, recursive=message.recursive)

    def _on_item(self, message: Item) -> None:
        session, item = self._session, return_key(message.key, message.index)
        call, stored = session.calls.get(message.key), message.stored
        is_wanted = call is not None and self._by_scheduler.add_item(
            call, message.index, item, message.wire, stored=stored
        )
        if not is_wanted and stored and session.table.get(item) is None:
            session.send(ReleaseKeys([item]))

    def _release_ended(self, key: str) -> None:
        session = self._session
        ref = self._ending.pop(key, None)
        if ref is not None:
            session.table.keep_alone(session.table.entries[key])
            del ref
            session.wake()

    def _on_key_in_memory(self, key: str, **_: object) -> None:
        session = self._session
        self._release_ended(key)
        entry = session.table.get(key)
        # The answer to a call of this process has the value, so it settles the entry.
        if entry is not None and key not in session.calls and entry.state is PENDING:
            session.table.settle(entry)

    def _on_task_erred(self, key: str, exception: object = None, **_: object) -> None:
        from raycompat._dask import client as adapter

        session = self._session
        self._release_ended(key)
        entry = session.table.get(key)
        if entry is not None and key not in session.calls:
            session.table.settle(entry, error=adapter.error_bytes(exception))

    def _on_cancelled_keys(self, keys: list[str], **_: object) -> None:
        session = self._session
        for key in keys:
            call, entry = session.calls.get(key), session.table.get(key)
            self._ending.pop(key, None)
            if key in session.leases:
                self._lease_ended(key, failures.object_lost(key), unknown=True)
            elif call is not None and call.sender is self._by_scheduler:
                self._on_done(Done(key, error=failures.object_lost(key), unknown=True))
            elif entry is not None and not entry.is_here:
                session.table.settle(entry, error=failures.object_lost(key))

    def _on_lost_data(self, key: str, **_: object) -> None:
        """Wait for a value that was lost: Dask computes it again, or reports why it cannot."""
        session = self._session
        with session.lock:
            entry = session.table.get(key)
            if entry is not None and entry.state is READY and entry.value is None:
                session.table.await_again(entry)
