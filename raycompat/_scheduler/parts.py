"""The state of raycompat in Dask's scheduler: its parts, which find each other through this class.

Everything here runs in the scheduler's event loop, so nothing needs a lock.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from raycompat._messages.actors import (
    ActorAlive,
    ActorEnded,
    ActorRestarting,
    FindActor,
    FreeName,
    KillActor,
    NamedActors,
    ReserveActor,
    UnwatchActor,
    WatchActor,
)
from raycompat._messages.calls import (
    Blocked,
    Cancel,
    CancelDirect,
    Credit,
    Disown,
    EndedByLease,
    Freed,
    ItemMade,
    Result,
    Schedule,
    Submit,
    Tried,
    Unblocked,
)
from raycompat._messages.groups import (
    AwaitGroup,
    CreateGroup,
    CreateNamedGroup,
    DescribeGroups,
    FindGroup,
    RemoveGroup,
)
from raycompat._messages.jobs import (
    AwaitStop,
    BeginJob,
    BeginSubmission,
    EndSubmission,
    Export,
    ForgetCode,
    FunctionOf,
    NamesFramework,
)
from raycompat._messages.key_values import DeleteValues, GetValue, ListKeys, PutValue
from raycompat._messages.leases import LeaseAlive, LeaseEnded, LeaseTrimmed
from raycompat._messages.logs import LogNames, OutputPiece, ReadLog
from raycompat._messages.nodes import (
    AwaitNodes,
    AwaitReady,
    ClusterState,
    Detach,
    DrainNode,
    Gone,
    Inventory,
    NodeReady,
    Pulse,
    Resign,
    Resources,
    SessionName,
    Unfit,
)
from raycompat._messages.objects import (
    Adopt,
    Borrow,
    ExpectedValues,
    Fetch,
    Fulfil,
    Load,
    Locate,
    MissingValues,
    NotAdopted,
    Pick,
    Pin,
    Promise,
    StoreDaskValue,
    Sync,
    Synced,
    Unload,
    WatchObject,
)
from raycompat._messages.packages import BeginPackage, EndPackage, ReadPackage, WritePackage
from raycompat._messages.relays import RelayAnswer, RelayClose, RelayData, RelayOpen
from raycompat._messages.watching import (
    CallerLooked,
    Gpus,
    NodeLooked,
    Spans,
    Tracked,
)
from raycompat._protocol import failures
from raycompat._protocol.message import Handler, handled_from
from raycompat._scheduler import demand
from raycompat._scheduler.actors import Actors
from raycompat._scheduler.calls import Calls
from raycompat._scheduler.dispatcher import Dispatcher
from raycompat._scheduler.draining import Draining
from raycompat._scheduler.experiments import Experiments
from raycompat._scheduler.ground import ground_of
from raycompat._scheduler.groups import Groups
from raycompat._scheduler.guest import Guest
from raycompat._scheduler.history import History
from raycompat._scheduler.jobs import Jobs
from raycompat._scheduler.key_values import KeyValues
from raycompat._scheduler.leases import Leases
from raycompat._scheduler.liveness import Liveness
from raycompat._scheduler.logs import Logs
from raycompat._scheduler.nodes import Nodes
from raycompat._scheduler.notices import Notices
from raycompat._scheduler.objects import Objects
from raycompat._scheduler.packages import Packages
from raycompat._scheduler.placer import Placer
from raycompat._scheduler.pulses import Pulses
from raycompat._scheduler.relays import Relays
from raycompat._scheduler.restarts import Restarts
from raycompat._scheduler.submissions import Submissions
from raycompat._scheduler.survey import Surveys
from raycompat._scheduler.task_names import TaskNames

if TYPE_CHECKING:
    from raycompat._dask.scheduler import DaskScheduler


#: Messages that are of use also when their node has left: output, and the times of calls.
_ALSO_LATE = (OutputPiece.op, Spans.op)


class Parts:
    """All parts of the scheduler that decide. Each gets those that it asks or tells."""

    def __init__(
        self, dask: DaskScheduler, link_of_dashboard: Callable[[], str | None] = lambda: None
    ) -> None:
        self.ground = ground = ground_of(dask)
        #: The calls, actors and jobs that have ended, which `Endings` records.
        self.history = History()
        self.pulses = Pulses(ground.nodes)
        self.logs = Logs(ground, self.pulses)
        self.liveness = Liveness(ground, self.logs, self.pulses)
        self.restarts = Restarts(ground, self.logs)
        self.objects = Objects(dask, ground.owners)
        self.packages = Packages()
        self.experiments = Experiments()
        self.key_values = KeyValues()
        self.task_names = TaskNames(dask)
        self.surveys = Surveys(ground)
        self.relays = Relays(ground)
        self.leases = Leases(ground)
        self.actors = Actors(ground)
        self.groups = Groups(ground, self.actors, self.leases)
        self.placer = Placer(ground, self.groups, self.leases)
        self.dispatcher = Dispatcher(ground, self.actors, self.groups, self.leases, self.placer)
        self.notices = Notices(ground, self.dispatcher, self.groups, self.logs, self.placer)
        self.draining = Draining(ground, self.groups, self.leases, self.restarts)
        self.calls = Calls(
            ground,
            self.actors,
            self.dispatcher,
            self.leases,
            self.objects,
            self.restarts,
            self.task_names,
        )
        self.guest = Guest(ground)
        self.submissions = Submissions(ground, self.actors, self.packages)
        self.jobs = Jobs(
            ground,
            self.actors,
            self.calls,
            self.experiments,
            self.guest,
            self.packages,
            self.submissions,
        )
        self.nodes = Nodes(
            ground,
            self.calls,
            self.dispatcher,
            self.groups,
            self.guest,
            self.jobs,
            self.logs,
            self.objects,
            self.relays,
            self.restarts,
            self.surveys,
            link_of_dashboard,
        )
        ground.next_round.serve = self.serve_round
        self.actors.on_death += [
            self.submissions.actor_ended,
            self.groups.actor_died,
            self.jobs.actor_died,
        ]
        self.guest.work_of_sessions.append(self.liveness)

    def serve_round(self) -> None:
        """Start what fits, close drained nodes that are idle, and look later at what waits."""
        self.dispatcher.serve()
        self.draining.look()
        if self.dispatcher.has_lines() or self.groups.waiting():
            self.notices.look_later()

    def stream_handlers(self) -> dict[str, Handler]:
        """Return the handler of each kind of message from clients and nodes."""
        return {
            operation: handler if operation in _ALSO_LATE else self._of_members(handler)
            for operation, handler in self._stream_handlers()
        }

    def _stream_handlers(self) -> list[tuple[str, Handler]]:
        actors, calls, groups, jobs = self.actors, self.calls, self.groups, self.jobs
        leases, nodes, objects, relays = self.leases, self.nodes, self.objects, self.relays
        return [
            handled_from(BeginJob, jobs.begin),
            handled_from(Export, jobs.export),
            handled_from(ForgetCode, jobs.forget_code),
            handled_from(NamesFramework, jobs.note_framework),
            handled_from(Submit, calls.submit),
            handled_from(EndedByLease, calls.ended_by_lease),
            handled_from(Schedule, calls.schedule),
            handled_from(Cancel, calls.cancel),
            handled_from(CancelDirect, calls.cancel_direct),
            handled_from(Disown, calls.disown),
            handled_from(Result, calls.result),
            handled_from(ItemMade, calls.item),
            handled_from(Credit, calls.credit),
            handled_from(Tried, calls.tried),
            handled_from(Freed, calls.freed),
            handled_from(Blocked, calls.blocked),
            handled_from(Unblocked, calls.unblocked),
            handled_from(Borrow, objects.borrow),
            handled_from(Adopt, objects.adopt),
            handled_from(Pick, objects.pick),
            handled_from(Load, objects.load),
            handled_from(Unload, objects.unload),
            handled_from(Promise, objects.promise),
            handled_from(Fulfil, objects.fulfil),
            handled_from(Pin, objects.pin),
            handled_from(WatchObject, objects.watch),
            handled_from(NotAdopted, objects.not_adopted),
            handled_from(Sync, self._sync),
            handled_from(KillActor, actors.kill),
            handled_from(FreeName, actors.withdraw),
            handled_from(WatchActor, actors.watch),
            handled_from(UnwatchActor, actors.unwatch),
            handled_from(ActorAlive, actors.alive),
            handled_from(ActorRestarting, actors.restarting),
            handled_from(ActorEnded, actors.ended),
            handled_from(CreateGroup, groups.create),
            handled_from(RemoveGroup, groups.remove),
            handled_from(AwaitGroup, groups.tell_when_ready),
            handled_from(NodeReady, nodes.ready),
            handled_from(Unfit, nodes.unfit),
            handled_from(Resign, nodes.resigned),
            handled_from(Gone, self.guest.node_is_gone),
            handled_from(Gpus, nodes.on_gpus),
            handled_from(LeaseAlive, leases.alive),
            handled_from(LeaseTrimmed, leases.trimmed),
            handled_from(LeaseEnded, leases.ended),
            handled_from(RelayOpen, relays.open),
            handled_from(RelayData, relays.to_node),
            handled_from(RelayAnswer, relays.to_client),
            handled_from(RelayClose, relays.close),
            handled_from(NodeLooked, self.surveys.on_node_report),
            handled_from(Tracked, self.experiments.on_report),
            handled_from(CallerLooked, self.surveys.on_caller_report),
            *self.logs.handlers(),
        ]

    def _of_members(self, handler: Callable[..., None]) -> Callable[..., None]:
        """Return a handler that ignores the messages of nodes that have left.

        Dask reads the messages of a worker until its connection closes, which may be after its removal.
        By then its calls and actors may be on other nodes.
        """
        workers = self.ground.dask.workers()

        def handle(**message: object) -> None:
            if "client" in message or message["worker"] in workers:
                handler(**message)

        return handle

    def handlers(self) -> dict[str, Callable[..., object]]:
        """Return the handler of each kind of request."""
        actors, groups, nodes = self.actors, self.groups, self.nodes
        objects, packages, values = self.objects, self.packages, self.key_values
        submissions = self.submissions
        return dict(
            [
                AwaitReady.answered(lambda it: nodes.wait_until_ready(it.at_least, it.timeout_s)),
                Pulse.answered(lambda it: self.pulses.on_pulse(it.worker)),
                AwaitNodes.answered(lambda it: nodes.wait_for_nodes(it.count, it.timeout_s)),
                Fetch.answered(nodes.fetch),
                ClusterState.answered(lambda _: nodes.current_state()),
                SessionName.answered(lambda _: self.ground.dask.id),
                Resources.answered(lambda _: nodes.current_resources()),
                DrainNode.answered(lambda it: self.draining.begin(it)),
                Detach.answered(lambda it: self.guest.detach(it.text)),
                Inventory.answered(lambda _: self.inventory()),
                FunctionOf.answered(lambda it: self.jobs.function(it.function, it.job)),
                BeginPackage.answered(lambda it: packages.begin(it.client, it.uri)),
                WritePackage.answered(lambda it: packages.write(it.client, it.uri, it.data)),
                EndPackage.answered(lambda it: packages.end(it.client, it.uri)),
                ReadPackage.answered(lambda it: packages.read(it.uri, it.offset)),
                Locate.answered(lambda it: objects.locate(it.keys, it.besides)),
                ExpectedValues.answered(lambda it: self.expected(it.handed_over)),
                MissingValues.answered(lambda it: objects.missing(it.lost_by)),
                StoreDaskValue.answered(lambda it: objects.store(it.client, it.key, it.source)),
                ReserveActor.answered(
                    lambda it: actors.reserve(it.client, it.key, it.job, it.actor)
                ),
                FindActor.answered(lambda it: actors.find(it.name, it.namespace)),
                NamedActors.answered(lambda it: actors.named(it.namespace)),
                CreateNamedGroup.answered(lambda it: groups.create_named(it.client, it.spec)),
                FindGroup.answered(lambda it: groups.find(it.name, it.namespace)),
                DescribeGroups.answered(lambda it: groups.table(it.group, it.is_living)),
                LogNames.answered(self.logs.of_node),
                ReadLog.answered(self.logs.of_node),
                GetValue.answered(lambda it: values.get(it.namespace, it.key)),
                PutValue.answered(
                    lambda it: values.put(it.namespace, it.key, it.value, it.overwrite)
                ),
                DeleteValues.answered(lambda it: values.delete(it.namespace, it.key, it.is_prefix)),
                ListKeys.answered(lambda it: values.keys(it.namespace, it.prefix)),
                BeginSubmission.answered(
                    lambda it: submissions.begin(it.submission_id, it.node_id)
                ),
                AwaitStop.answered(lambda it: submissions.await_stop(it.submission_id)),
                EndSubmission.answered(submissions.finish),
            ]
        )

    def task_moved(self, key: str, start: str, finish: str, **details: Any) -> None:
        """Follow the transition of a task. `details` are Dask's, if its call has run: its times."""
        ran = start == "processing" and "startstops" in details
        watcher = self.ground.watcher
        if ran:
            watcher.ran(key, failed=finish == "erred", **details)
        self.calls.follow(key, start, finish)
        if finish == "erred" and not ran:
            watcher.failed(key)
        self.objects.follow(key, start, finish)
        if finish == "forgotten":
            watcher.forgotten(key)

    def client_left(self, client: str) -> None:
        """Clean up after a client that has left, and end its job if it was a driver.

        Called while Dask removes the client.
        """
        self.relays.lose(client)
        self.surveys.lose(client)
        self.leases.lose_client(client)
        self.logs.lose_client(client)
        self.ground.watcher.process_left(client)
        self.actors.client_left(client)
        self.objects.client_left(client)
        self.calls.client_left(client)
        self.jobs.client_left(client)
        self.groups.collect_soon()
        self.ground.next_change.notify()

    def close(self) -> None:
        """Stop draining nodes and sending jobs, and remove uploaded packages."""
        self.draining.close()
        self.submissions.close()
        self.packages.close()

    def nodes_wanted(self) -> int:
        """Return how many more nodes would run what waits for resources, or for a first node."""
        nodes = [self.ground.ledger.node_total(each) for each in self.ground.ledger.nodes]
        calls = [
            (line.shape[1], count)
            for line in self.dispatcher.lines()
            for count in (+line.counts).values()
        ]
        groups = [row.wish() for row in self.groups.waiting()]
        wanted = demand.nodes_wanted(calls, groups, nodes)
        return max(wanted, int(self.nodes.is_awaited and not nodes))

    def tell_of_error(self, message: dict[str, Any], error: Exception) -> None:
        """Report to a client that its message about a call or value could not be handled."""
        if "client" in message and "key" in message:
            failure = failures.internal(f"The scheduler could not handle a message: {error!r}")
            self.ground.owners.tell(message["client"], message["key"], failure, unknown=True)

    def _sync(self, client: str, message: Sync) -> None:
        """Answer a client when all of its earlier messages were handled."""
        self.ground.dask.notify_client(client, Synced(message.token))

    def expected(self, handed_over: Mapping[str, str]) -> list[str]:
        """Return the segments that a node may still be asked to adopt; each has a client that asks.

        All messages of a client that has left were handled.
        """
        clients = self.ground.dask.clients()
        expected = {path for path, client in handed_over.items() if client in clients}
        if len(expected) < len(handed_over):
            segments = {*self.objects.given_segments(), *self.calls.segments_of_results()}
            expected |= handed_over.keys() & segments
        return list(expected)

    def inventory(self) -> dict[str, list[str]]:
        """Return the keys of everything that is stored here, to find leaks."""
        return {
            "tasks": self.ground.dask.all_keys(),
            "calls": list(self.ground.calls.by_key),
            "pins": self.objects.pins.keys(),
            "actors": list(self.ground.actors.rows),
            "groups": self.groups.living(),
            "errors": list(self.ground.owners.errors),
            "promises": list(self.objects.promises),
            "leases": self.leases.owners(),
        }
