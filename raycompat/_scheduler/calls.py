"""Calls, from their submission until Dask forgets their keys: tasks, actors' processes, and leases.

A call is a parked Dask task. Dask moves it to ``no-worker`` when its dependencies are ready. Then it
waits for its resources (`dispatcher`) or, if its owner runs it by a lease, for its results. A node that
dies, or a result that is lost, costs one retry.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from raycompat._messages.calls import (
    Blocked,
    Cancel,
    CancelByLease,
    CancelCall,
    CancelDirect,
    Credit,
    Disown,
    Done,
    End,
    EndedByLease,
    Freed,
    Item,
    ItemMade,
    Result,
    Schedule,
    Submit,
    Tried,
    Unblocked,
)
from raycompat._messages.objects import Adopt
from raycompat._protocol import accelerator_kinds, failures, task_bodies
from raycompat._protocol.call_spec import CallSpec
from raycompat._protocol.resource_set import ResourceSet
from raycompat._protocol.spans import Failure, Phases
from raycompat._protocol.strategy import from_wire
from raycompat._scheduler.actors import DETACHED
from raycompat._scheduler.call_table import Call
from raycompat._scheduler.capacity import Holding
from raycompat._scheduler.restarts import cause

if TYPE_CHECKING:
    from raycompat._scheduler.actors import Actors
    from raycompat._scheduler.dispatcher import Dispatcher
    from raycompat._scheduler.ground import Ground
    from raycompat._scheduler.leases import Leases
    from raycompat._scheduler.objects import Objects
    from raycompat._scheduler.restarts import Restarts
    from raycompat._scheduler.task_names import TaskNames

logger = logging.getLogger(__name__)


class Calls:
    """What happens to the calls of the table."""

    def __init__(
        self,
        ground: Ground,
        actors: Actors,
        dispatcher: Dispatcher,
        leases: Leases,
        objects: Objects,
        restarts: Restarts,
        task_names: TaskNames,
    ) -> None:
        self._ground = ground
        self._actors = actors
        self._dispatcher = dispatcher
        self._leases = leases
        self._objects = objects
        self._restarts = restarts
        self._task_names = task_names
        self._dask = ground.dask
        self.by_key = ground.calls.by_key
        self.holding = ground.calls.holding
        #: Keys of results that were computed and are not lost.
        self._computed: set[str] = set()
        #: What calls with accelerators hold that have left their nodes while their processes still
        #: run, by node and key.
        self._lingering: dict[tuple[str, str], list[Holding]] = {}

    # --- submission -----------------------------------------------------------------------------

    def submit(self, client: str, message: Submit) -> None:
        """Add calls; report those that fail to the client."""
        for spec in message.calls:
            payload = spec["payload"]
            spec["payload"] = b""
            try:
                self._submit_one(client, spec, payload)
            except Exception as error:  # one call must not end the stream
                logger.exception("raycompat could not submit %s", spec["key"])
                if not self._dask.known(spec["key"]):
                    self._ground.calls.strike_out(spec["key"])  # Dask will not report its end
                self._actors.free_name(spec["key"])
                self._ground.owners.tell(
                    client, spec["key"], failures.internal(repr(error)), unknown=True
                )

    def _submit_one(self, client: str, spec: CallSpec, payload: bytes) -> None:
        key, kind = spec["key"], spec["kind"]
        lost = [dep for dep in spec["deps"] if not self._dask.known(dep)]
        if lost:
            self._actors.free_name(key)
            self._ground.owners.tell(client, key, failures.object_lost(lost[0]), unknown=True)
            return
        self._ground.calls.strike_out(key)
        call = Call(
            spec,
            client,
            ResourceSet.from_units(spec["request"]),
            from_wire(spec["strategy"]),
            spec["retries"],
            runs_by_lease=spec["runs_by_lease"],
        )
        self._ground.calls.enter(key, call)
        if kind == "actor":
            self._actors.expect(client, spec)
        body = {
            "actor": task_bodies.run_actor,
            "lease": task_bodies.run_lease,
            "task": task_bodies.run_call,
        }[kind]
        self._dask.add_task(
            client,
            key,
            body,
            (payload,),
            spec["deps"],
            parked=True,
            urgent=kind == "actor",
        )
        if spec["actor"] is not None and spec["actor"]["detached"]:
            self._dask.want([key], DETACHED)

    # --- transitions of Dask --------------------------------------------------------------------

    def follow(self, key: str, start: str, finish: str) -> None:
        """Follow Dask's transitions: a call became ready, left its node, ended, or is forgotten.

        Called during a transition, so anything that starts a transition is scheduled for later. Dask
        also reports a task that stays where it was, because the node that is to store its results is
        paused.
        """
        call = self.by_key.get(key)
        if call is not None and start != finish:
            self._follow(key, call, start, finish)
        if finish == "forgotten":
            self._ground.calls.strike_out(key)
            self._computed.discard(key)
            if call is not None and call.results is not None:
                worker, wires = call.results
                for wire in wires:
                    self._soon(self._objects.discard, worker, wire)

    def _follow(self, key: str, call: Call, start: str, finish: str) -> None:
        if finish == "forgotten":
            name = self._dask.prefix_of(key)
            self._soon(self._task_names.note_end, name)
        elif finish == "memory":
            self._computed.add(key)
            call.results = call.sent = None
        elif start == "released" and finish == "waiting" and key in self._computed:
            self._computed.discard(key)  # a node that dies during the next try is counted there
            self._make_anew(key, call)
        if start == "processing":
            self._left_node(key, call, finish)
        elif start == "no-worker" and finish != "processing":
            self._no_longer_ready(key, call)
        if finish == "no-worker":
            self._became_ready(key, call)
        elif finish == "erred":
            self._failed(key, call)
        elif finish == "forgotten" and call.spec["kind"] == "actor":
            self._soon(self._actors.forget, key, call.owner)

    def _became_ready(self, key: str, call: Call) -> None:
        if call.is_doomed:
            return
        call.is_ready = True
        if call.results is None and call.spec["job"] in self._ground.jobs.open:
            self._go_on(key)
        else:  # this starts a transition
            self._soon(self._go_on, key)

    def _go_on(self, key: str) -> None:
        """Queue a ready call for its resources, or store the results that its owner has."""
        call = self.by_key.get(key)
        if call is None or not call.is_ready or call.line is not None:
            return
        if call.results is not None:
            worker, wires = call.results
            keeper = self._objects.keeper(worker, wires)
            if keeper is not None:
                call.is_ready = False
                self._dispatcher.run_on(keeper, key, call, wires)
                return
            call.results = None
            self._make_anew(key, call)
        if call.runs_by_lease or call.is_doomed or self._fail_if_job_ended(key, call):
            return
        call.since = time.monotonic()
        self._dispatcher.enqueue(key, call)

    def _no_longer_ready(self, key: str, call: Call) -> None:
        self._dispatcher.withdraw(key, call)
        call.is_ready = False
        address, call.address = call.address, None
        if address is not None:
            self._end_on(address, key)

    def _end_on(self, address: str, key: str) -> bool:
        """Tell a node that it need not run a call; False if it has left, or is about to."""
        goes_on = self._dask.goes_on(address)
        if goes_on:
            self._dask.notify_node(address, End(key))
        return goes_on

    def _left_node(self, key: str, call: Call, finish: str) -> None:
        self._leases.remove(key)
        self._release(key, call)
        address, call.address = call.address, None
        if finish in ("memory", "erred") or address is None:
            return
        self._dask.park(key)
        if not self._end_on(address, key) and finish != "forgotten":
            if call.sent is not None:
                call.results, call.sent = (address, call.sent), None
            self._node_was_lost(key, call, self._restarts.cause(address))

    def _release(self, key: str, call: Call) -> None:
        """Release what a call holds on its node; with accelerators when its process has ended."""
        self.holding.pop(key, None)
        holding, call.holding = call.holding, None
        if holding is None:
            return
        lingers = accelerator_kinds.any_in(holding.resources) and not call.is_freed
        if lingers and call.address in self._ground.nodes.info:
            self._lingering.setdefault((call.address, key), []).append(holding)
        else:
            self._ground.ledger.release(holding)
            self._ground.next_round.soon()

    def _node_was_lost(self, key: str, call: Call, cause: str) -> None:
        """Count a lost try of a call whose node died, which Dask runs again; or let it fail.

        A call whose results the node was to store has ended: `_go_on` finds another node for them.
        """
        if call.results is not None:
            return
        row = self._ground.actors.rows.get(key)
        if row is None or call.spec["actor"] is None:
            error = failures.node_died(f"The node that ran the task has died.{cause}")
            if call.is_cancelled:
                error = failures.cancelled(key)
            call.is_doomed = call.retries == 0 or call.is_cancelled
            call.retries -= call.retries > 0
        else:
            text = f"{failures.DEAD_BECAUSE}its node has died.{cause}"
            error = failures.actor_died(text, key)
            is_last = 0 <= call.spec["actor"]["max_restarts"] <= row.incarnation
            call.is_doomed = is_last or row.state == "DEAD"
            if not call.is_doomed:
                self._actors.restarts(key, error)
        if call.is_doomed:
            self._soon(self._end_doomed, key, error)

    def _make_anew(self, key: str, call: Call) -> None:
        """Count a lost try of a call whose result was lost, which Dask runs again."""
        self._dask.park(key)
        if call.retries == 0:
            call.is_doomed = True
            error = failures.object_lost(key, cause())
            self._soon(self._end_doomed, key, error)
        call.retries -= call.retries > 0

    def _end_doomed(self, key: str, error: bytes) -> None:
        self._actors.bury(key, error)
        self._ground.owners.fail(key, error)

    def _failed(self, key: str, call: Call) -> None:
        """Report to its owner the error of a call that failed outside its own body."""
        if key in self._ground.owners.errors:
            return
        blamed = self._dask.blamed_key(key)
        error = self._ground.owners.errors.get(blamed or "")
        if error is None:
            text = self._dask.error_text(blamed or key)
            error = failures.internal(f"The task {blamed} failed in Dask: {text}")
        self._ground.owners.errors[key] = error
        if call.spec["kind"] == "actor":
            error = failures.actor_not_built(error, key)
            self._soon(self._actors.bury, key, error)
        else:
            self._ground.owners.tell(call.owner, key, error, dependency=blamed != key)

    # --- calls that their owners run ------------------------------------------------------------

    def client_left(self, client: str) -> None:
        """Handle the calls of a client that has left. Called while Dask removes the client."""
        self._soon(self._handle_calls_of, client)

    def job_ended(self, client: str) -> None:
        """Fail the waiting calls of a job, whose code is about to be removed, and of its driver."""
        self._soon(self._handle_calls_of, client)

    def _handle_calls_of(self, client: str) -> None:
        """Handle the calls whose owner has left; other processes refer to their results.

        Calls that the owner ran by leases run again. Waiting calls of an ended job fail; nodes fail
        those that run.
        """
        for key, call in list(self._ground.calls.of_owner(client).items()):
            if call.runs_by_lease:
                self._run_anew(client, key, call)
            elif call.line is not None and call.spec["kind"] == "task":
                self._fail_if_job_ended(key, call)

    def _fail_if_job_ended(self, key: str, call: Call) -> bool:
        """Fail a call whose job has ended: nodes have no code and no settings for it any more."""
        has_ended = call.spec["job"] not in self._ground.jobs.open
        if has_ended:
            self._ground.owners.fail(key, failures.owner_died(key))
        return has_ended

    def ended_by_lease(self, client: str, message: EndedByLease) -> None:
        """Handle the end of a call that its owner ran by a lease."""
        key, wires = message.key, message.wires or []
        call = self.by_key.get(key)
        if call is None or call.owner != client or not call.runs_by_lease:
            for wire in wires:
                self._objects.discard(message.worker, wire)
        elif message.error is not None:
            call.runs_by_lease = False
            self._ground.owners.fail(key, message.error)
        else:
            call.runs_by_lease, call.results = False, (message.worker, wires)
            for wire in wires:
                self._objects.pins.add(key, wire[-1])
            self._go_on(key)

    def segments_of_results(self) -> Iterator[str]:
        """Iterate over the paths of result segments that no node has adopted yet."""
        for call in self.by_key.values():
            for wire in call.results[1] if call.results is not None else ():
                if wire[0] == "segment":
                    yield wire[1]

    def schedule(self, client: str, message: Schedule) -> None:
        """Run a call that its owner does not run by a lease any more."""
        self._schedule(client, message.key, message.retries)

    def _schedule(self, client: str, key: str, retries: int) -> None:
        call = self.by_key.get(key)
        if call is None:  # its announcement was refused, because an argument was lost
            self._ground.owners.tell(client, key, failures.object_lost(key), unknown=True)
        elif call.runs_by_lease:
            call.runs_by_lease, call.retries = False, retries
            error = self._ground.owners.errors.get(key)
            if error is None:
                self._go_on(key)
            else:  # until now its owner has not listened; Dask has reported the end already
                of_an_argument = self._dask.blamed_key(key) != key
                self._ground.owners.tell(
                    client, key, error, dependency=of_an_argument, unknown=True
                )

    def _run_anew(self, client: str, key: str, call: Call) -> None:
        """Run a call again whose owner ran it by a lease and left, if a retry is left."""
        if call.retries == 0:
            call.runs_by_lease = False
            self._ground.owners.fail(key, failures.owner_died(key))
        else:
            self._schedule(client, key, call.retries - (call.retries > 0))

    def disown(self, client: str, message: Disown) -> None:
        """Give the actors of a process that exits normally to its driver."""
        for key, call in list(self._ground.calls.of_owner(client).items()):
            job = self._ground.jobs.open.get(call.spec["job"])
            if call.spec["actor"] is not None and job is not None:
                self._ground.calls.strike_out(key)
                call.owner = job.client
                self._ground.calls.enter(key, call)

    # --- reports from nodes ---------------------------------------------------------------------

    def result(self, worker: str, message: Result) -> None:
        """Pass on how a call has ended on a node.

        Its resources are free before its owner hears of it, although Dask reports the end later: the
        owner's next call may need them, and have another choice if they are not free.
        """
        key, error = message.key, message.error
        if (call := self.by_key.get(key)) is not None:
            call.pid, call.phases = message.pid, Phases(*message.phases)
            if call.address == worker:
                self._release(key, call)
                call.sent = _small(message.values)
            if error is not None:
                self._ground.owners.errors[key] = error
        done = Done(key, values=message.values, error=error)
        self._dask.notify_client(message.owner, done)

    def item(self, worker: str, message: ItemMade) -> None:
        """Pass on an item from a generator."""
        wire, owner = message.wire, message.owner
        large = wire[0] == "segment"
        if message.key not in self.by_key or owner not in self._dask.clients():
            if large:
                self._objects.discard(worker, wire)
            return
        if large:
            self._objects.adopt(owner, Adopt(message.item, wire, worker))
        item = Item(message.key, message.index, wire, stored=large)
        self._dask.notify_client(owner, item)

    def credit(self, client: str, message: Credit) -> None:
        """Pass on the acknowledgement of items to a generator."""
        call = self.by_key.get(message.key)
        if call is not None and call.address is not None:
            self._dask.notify_node(call.address, message)

    def tried(self, worker: str, message: Tried) -> None:
        """Handle a node's report that it retries a call, with the retries that are left."""
        call = self.by_key.get(message.key)
        if call is None:
            return
        call.retries = message.retries
        self._ground.watcher.tried(message.key, worker, Failure(*message.failure))
        if call.holding is not None:  # its process may have died while the call waited
            self._ground.ledger.take_back_cpu(call.holding, entirely=True)

    def blocked(self, worker: str, message: Blocked) -> None:
        """Lend the CPU of a call that waits in `get`."""
        call = self.by_key.get(message.key)
        if call is not None and call.holding is not None:
            self._ground.ledger.lend_cpu(call.holding)
            self._ground.next_round.soon()

    def unblocked(self, worker: str, message: Unblocked) -> None:
        """Return a lent CPU to its call; for a while, the node may have more calls than CPUs."""
        call = self.by_key.get(message.key)
        if call is not None and call.holding is not None:
            self._ground.ledger.take_back_cpu(call.holding)
            if self._ground.ledger.is_overdrawn(call.holding.node_id):
                self._leases.relieve(call.holding.node_id)

    def node_left(self, worker: str) -> None:
        """Remove what calls held on a node that has left; give results that it has not stored again.

        The node was paused: Dask had not started the tasks that store them.
        """
        for gone in [each for each in self._lingering if each[0] == worker]:
            del self._lingering[gone]
        for key, call in self.by_key.items():
            if call.results is not None and call.address == worker:
                call.address, call.is_ready = None, True
                self._dask.park(key)
                self._soon(self._go_on, key)

    def freed(self, worker: str, message: Freed) -> None:
        """Release what a call with accelerators held: the process that used them has ended."""
        key = message.key
        lingering = self._lingering.get((worker, key))
        call = self.by_key.get(key)
        if lingering:
            self._ground.ledger.release(lingering.pop(0))
            if not lingering:
                del self._lingering[worker, key]
            self._ground.next_round.soon()
        elif call is not None and call.address == worker:
            call.is_freed = True

    # --- ends -----------------------------------------------------------------------------------

    def cancel(self, client: str, message: Cancel) -> None:
        """Cancel a call on request of a client; notify the process that runs it."""
        key = message.key
        call = self.by_key.get(key)
        by_owner = CancelByLease(key, message.recursive)
        if call is not None and call.runs_by_lease and call.owner != client:
            self._dask.notify_client(call.owner, by_owner)
            return
        if key in self._objects.promises:
            self._dask.notify_client(self._objects.promises[key], by_owner)
        if call is None:
            return
        call.is_cancelled = True
        if call.address is None:
            self._ground.owners.fail(key, failures.cancelled(key))
        else:
            on_node = CancelCall(key, message.force, message.recursive)
            self._dask.notify_node(call.address, on_node)

    def cancel_direct(self, client: str, message: CancelDirect) -> None:
        """Ask the process of an actor or a lease to end one of its calls."""
        call = self.by_key.get(message.party)
        if call is not None and call.address is not None:
            self._dask.notify_node(call.address, message)

    @staticmethod
    def _soon(function: Callable[..., object], *arguments: object) -> None:
        """Call a function after the current transitions."""
        asyncio.get_running_loop().call_soon(function, *arguments)


def _small(wires: list[Any] | None) -> list[Any] | None:
    """Return results that any node can store, because they are in their wires whole; otherwise None."""
    is_small = wires and all(wire[0] == "inline" and not wire[-1] for wire in wires)
    return wires if is_small else None
