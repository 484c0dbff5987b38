"""All that Dask's scheduler keeps for raycompat, in parts that know one another by this.

Everything here runs on the scheduler's event loop, so that nothing needs a lock.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from raycompat import _dask_adapter as dask
from raycompat._protocol import failures
from raycompat._protocol.operations import ToCaller, ToScheduler
from raycompat._scheduler.actors import Actors
from raycompat._scheduler.calls import Calls
from raycompat._scheduler.dispatcher import Dispatcher
from raycompat._scheduler.endings import Endings
from raycompat._scheduler.groups import Groups
from raycompat._scheduler.jobs import Jobs
from raycompat._scheduler.leases import Leases
from raycompat._scheduler.liveness import Liveness
from raycompat._scheduler.logs import Logs
from raycompat._scheduler.metrics import Metrics
from raycompat._scheduler.nodes import Nodes
from raycompat._scheduler.notices import Notices
from raycompat._scheduler.objects import Objects
from raycompat._scheduler.packages import Packages
from raycompat._scheduler.placement import Ledger
from raycompat._scheduler.placer import Placer
from raycompat._scheduler.relays import Relays
from raycompat._scheduler.shown import Shown
from raycompat._scheduler.state import State
from raycompat._scheduler.survey import Surveys
from raycompat._scheduler.task_names import TaskNames

if TYPE_CHECKING:
    from distributed import Scheduler


class Core:
    """See the module."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        #: Set, and made anew, when nodes, jobs or actors have come or gone.
        self.changed = asyncio.Event()
        self.ledger = Ledger()
        self.nodes = Nodes(self)
        self.liveness = Liveness(self)
        self.jobs = Jobs(self)
        self.calls = Calls(self)
        self.dispatcher = Dispatcher(self)
        self.notices = Notices(self)
        self.placer = Placer(self)
        self.actors = Actors(self)
        self.objects = Objects(scheduler, self.tell_owner)
        self.leases = Leases(self)
        self.groups = Groups(self)
        self.relays = Relays(self)
        self.logs = Logs(self)
        self.packages = Packages()
        self.task_names = TaskNames(scheduler)
        self.shown = Shown(scheduler, self.task_names.note_end)
        self.endings = Endings(self)
        self.surveys = Surveys(self)
        self.state = State(self)
        self.metrics = Metrics(self)

    def stream_handlers(self) -> dict[str, Callable[..., None]]:
        """Return what handles each kind of message of clients and nodes."""
        actors, calls, groups, jobs = self.actors, self.calls, self.groups, self.jobs
        leases, nodes, objects, relays = self.leases, self.nodes, self.objects, self.relays
        return {
            ToScheduler.JOB: jobs.begin,
            ToScheduler.EXPORT: jobs.export,
            ToScheduler.NAMES_TENSORFLOW: jobs.note_tensorflow,
            ToScheduler.SUBMIT: calls.submit,
            ToScheduler.MADE: calls.made_by_owner,
            ToScheduler.SCHEDULE: calls.schedule,
            ToScheduler.CANCEL: calls.cancel,
            ToScheduler.CANCEL_DIRECT: calls.cancel_direct,
            ToScheduler.DISOWN: calls.disown,
            ToScheduler.RESULT: calls.result,
            ToScheduler.ITEM: calls.item,
            ToScheduler.CREDIT: calls.credit,
            ToScheduler.TRIED: calls.tried,
            ToScheduler.FREED: calls.freed,
            ToScheduler.BLOCKED: calls.blocked,
            ToScheduler.UNBLOCKED: calls.unblocked,
            ToScheduler.BORROW: objects.borrow,
            ToScheduler.ADOPT: objects.adopt,
            ToScheduler.PICK: objects.pick,
            ToScheduler.LOAD: objects.load,
            ToScheduler.PROMISE: objects.promise,
            ToScheduler.FULFIL: objects.fulfil,
            ToScheduler.PIN: objects.pin,
            ToScheduler.NOT_ADOPTED: objects.not_adopted,
            ToScheduler.SYNC: self._sync,
            ToScheduler.KILL_ACTOR: actors.kill,
            ToScheduler.FREE_NAME: actors.withdraw,
            ToScheduler.WATCH_ACTOR: actors.watch,
            ToScheduler.UNWATCH_ACTOR: actors.unwatch,
            ToScheduler.ACTOR_ALIVE: actors.alive,
            ToScheduler.ACTOR_RESTARTING: actors.restarting,
            ToScheduler.ACTOR_ENDED: actors.ended,
            ToScheduler.CREATE_GROUP: groups.create,
            ToScheduler.REMOVE_GROUP: groups.remove,
            ToScheduler.AWAIT_GROUP: groups.tell_when_ready,
            ToScheduler.NODE: nodes.ready,
            ToScheduler.UNFIT: nodes.unfit,
            ToScheduler.LEASE_ALIVE: leases.alive,
            ToScheduler.LEASE_TRIMMED: leases.trimmed,
            ToScheduler.LEASE_ENDED: leases.ended,
            ToScheduler.RELAY_OPEN: relays.open,
            ToScheduler.RELAY_DATA: relays.data,
            ToScheduler.RELAY_CLOSE: relays.close,
            ToScheduler.SPANS: self.endings.hear_spans,
            ToScheduler.LOOKED: self.surveys.hear_node,
            ToScheduler.MEASURED: self.metrics.hear_node,
            ToScheduler.MEASURED_BY_CALLER: self.metrics.hear_caller,
            ToScheduler.CALLER_LOOKED: self.surveys.hear_caller,
            **self.logs.handlers(),
        }

    def handlers(self) -> dict[str, Callable[..., Any]]:
        """Return what answers each kind of request."""
        actors, groups, nodes = self.actors, self.groups, self.nodes
        objects, packages = self.objects, self.packages
        return {
            "raycompat_ready": nodes.wait_until_ready,
            "raycompat_pulse": self.liveness.hear,
            "raycompat_nodes_are": nodes.wait_for_nodes,
            "raycompat_fetch": nodes.fetch,
            "raycompat_state": nodes.state,
            "raycompat_inventory": self.inventory,
            "raycompat_function": self.jobs.function,
            "raycompat_package_begin": packages.begin,
            "raycompat_package_write": packages.write,
            "raycompat_package_end": packages.end,
            "raycompat_package_read": packages.read,
            "raycompat_locate": objects.locate,
            "raycompat_expected": self.expected,
            "raycompat_missing": objects.missing,
            "raycompat_store": objects.store,
            "raycompat_reserve_actor": actors.reserve,
            "raycompat_find_actor": actors.find,
            "raycompat_named_actors": actors.named,
            "raycompat_create_group": groups.create_named,
            "raycompat_find_group": groups.find,
            "raycompat_groups": groups.table,
            "raycompat_timeline": self.shown.timeline,
            "raycompat_list": self.state.list_,
            "raycompat_log_names": self.logs.names,
            "raycompat_log_read": self.logs.read,
            "raycompat_summarize": self.state.summarize,
            "raycompat_overview": self.state.overview,
        }

    def client_left(self, client: str) -> None:
        """End what a caller that is gone has left, and its job if it was a driver.

        Called in the middle of its removal.
        """
        self.relays.lose(client)
        self.surveys.lose(client)
        self.leases.lose_client(client)
        self.logs.lose_client(client)
        self.actors.client_left(client)
        self.objects.break_promises_of(client)
        self.calls.client_left(client)
        self.jobs.client_left(client)
        self.groups.collect_soon()
        self.notify_change()

    def notify_change(self) -> None:
        """Wake the waits for nodes, jobs or actors to come or go."""
        self.changed.set()
        self.changed = asyncio.Event()

    def tell_owner(self, owner: str, key: str, error: bytes, **more: bool) -> None:
        """Tell a client that its call has failed."""
        message = {"op": ToCaller.DONE, "key": key, "error": error, **more}
        dask.tell_client(self.scheduler, owner, message)

    def tell_of_error(self, message: dict[str, Any], error: Exception) -> None:
        """Tell a client that its message about a call or value could not be handled."""
        if "client" in message and "key" in message:
            failure = failures.internal(f"The scheduler could not handle a message: {error!r}")
            self.tell_owner(message["client"], message["key"], failure, unknown=True)

    def _sync(self, client: str, token: int) -> None:
        """Answer a client that wants to know that all it has said is known here."""
        dask.tell_client(self.scheduler, client, {"op": ToCaller.SYNCED, "token": token})

    def expected(self, handed_over: Mapping[str, str]) -> list[str]:
        """Return which segments a node may still be asked to adopt; each has the client that asks.

        A client that has gone has been heard to the end.
        """
        clients = self.scheduler.clients
        expected = {path for path, client in handed_over.items() if client in clients}
        if len(expected) < len(handed_over):
            given = {*self.objects.given_segments(), *self.calls.made_segments()}
            expected |= handed_over.keys() & given
        return list(expected)

    def inventory(self) -> dict[str, list[str]]:
        """Return the keys of all that is kept here: what a leak would show in."""
        return {
            "tasks": dask.all_keys(self.scheduler),
            "calls": list(self.calls.by_key),
            "pins": self.objects.pins.keys(),
            "actors": list(self.actors.rows),
            "groups": self.groups.living(),
            "errors": list(self.objects.errors),
            "promises": list(self.objects.promises),
            "leases": self.leases.owners(),
        }
