"""The parts of the scheduler plugin on a model of Dask's scheduler that records what it is told to do.

`Cluster.handle` gives the parts a message and returns their instructions, so a test can say::

    assert cluster.handle(Sync(7), client="driver") == [
        ("notify_client", "driver", Synced(7))
    ]
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable
from typing import Any

from raycompat._dask import pages as dask_pages
from raycompat._dask.scheduler import DaskScheduler
from raycompat._messages.groups import CreateGroup
from raycompat._protocol.resource_set import ResourceSet
from raycompat._scheduler.call_table import Call
from raycompat._scheduler.watched_parts import WatchedParts

JOB = "01000000"

#: What the parts tell Dask to do: the name of the method, and its arguments.
Instruction = tuple[Any, ...]


class RecordedDask(DaskScheduler):
    """Answers questions from small tables, and records each instruction instead of carrying it out."""

    def __init__(self, workers: list[str]) -> None:
        self.instructions: list[Instruction] = []
        #: The state of each task.
        self.states: dict[str, str] = {}
        self.all_workers = dict.fromkeys(workers)
        self.paused: set[str] = set()
        self.all_clients = dict.fromkeys(["driver", "owner", "client"])
        #: Called with each instruction, as Dask's transitions happen while it carries one out.
        self.on_instruction: Callable[..., object] = lambda name, *arguments: None
        #: Which of the two plugins are registered.
        self.has_plugin = self.workers_have_plugin = True

    address = id = "tcp://scheduler"
    http_server = None

    def known(self, key):
        return key in self.states

    def all_keys(self):
        return list(self.states)

    def state_of(self, key):
        return self.states.get(key, "forgotten")

    def prefix_of(self, key):
        return key

    def num_bytes(self, key):
        return -1

    def holders(self, key):
        return []

    def dependencies_of(self, keys):
        return iter(())

    def dependency_bytes(self, key):
        return {}

    def is_needed(self, key):
        return key in self.states

    def blamed_key(self, key):
        return None

    def error_text(self, key):
        return "unknown"

    def workers(self):
        return self.all_workers

    def running_workers(self):
        return self.all_workers.keys() - self.paused

    def is_running(self, worker):
        return worker in self.running_workers()

    def goes_on(self, worker):
        return worker in self.all_workers

    def stored_bytes(self, worker):
        return 0, 0

    def clients(self):
        return self.all_clients

    def wants(self, client):
        return []

    def is_registered(self, plugin):
        return self.has_plugin

    def is_registered_for_workers(self, plugin):
        return self.workers_have_plugin

    def client_security(self):
        return None


def _recorded(name: str) -> Callable[..., Any]:
    def record(self: RecordedDask, *arguments: Any, **fields: Any) -> None:
        self.instructions.append((name, *arguments, *fields.values()))
        self.on_instruction(name, *arguments)

    async def record_and_wait(self: RecordedDask, *arguments: Any, **fields: Any) -> None:
        record(self, *arguments, **fields)

    is_waiting = inspect.iscoroutinefunction(getattr(DaskScheduler, name))
    return record_and_wait if is_waiting else record


for _name in vars(DaskScheduler):
    if not _name.startswith("_") and _name not in vars(RecordedDask):
        setattr(RecordedDask, _name, _recorded(_name))


class Cluster:
    """The parts of a scheduler with nodes of ten CPUs, without a network."""

    def __init__(self, num_nodes):
        addresses = [f"tcp://node-{number}" for number in range(num_nodes)]
        self.dask = RecordedDask(addresses)
        self.parts = WatchedParts(self.dask)
        for each in addresses:
            self.parts.ground.ledger.add_node(each, ResourceSet.from_amounts({"CPU": 10}))
            self.parts.nodes.info[each] = {
                "node_id": each,
                "labels": {},
                "name": each,
                "ip": "10.0.0.1",
                "pid": 1,
                "started": time.time(),
            }

    @property
    def sent(self):
        """The messages that were sent, each with the client or node that it is for."""
        return [
            (who, message)
            for name, *arguments in self.dask.instructions
            if name in ("notify_client", "notify_node")
            for who, message in [arguments]
        ]

    def handle(self, message, **sender):
        """Handle a message as it comes from a `client` or from the `worker` of a node.

        Return the instructions to Dask.
        """
        num_before = len(self.dask.instructions)
        fields = message.to_wire()
        self.parts.stream_handlers()[fields.pop("op")](**fields, **sender)
        return self.dask.instructions[num_before:]

    def move(self, key, start, finish):
        """Let Dask report the transition of a task; return the instructions."""
        num_before = len(self.dask.instructions)
        self.dask.states[key] = finish
        self.parts.task_moved(key, start, finish)
        return self.dask.instructions[num_before:]

    def leave(self, node, *running):
        """Let a node die that runs calls, as Dask reports it; return the instructions."""
        num_before = len(self.dask.instructions)
        del self.dask.all_workers[node]
        for key in running:
            self.move(key, "processing", "released")
        self.parts.nodes.left(node, is_worker=False)
        return self.dask.instructions[num_before:]

    def add(self, key, owner, kind="task", num_cpus=1):
        """Add a call that waits, and return it."""
        request = ResourceSet.from_amounts({"CPU": num_cpus})
        spec = {
            "key": key,
            "kind": kind,
            "name": "f",
            "job": JOB,
            "request": request.units(),
            "keep": request.units(),
            "max_calls": 0,
            "function": "",
            "runtime_env": "",
            "actor": None,
        }
        call = Call(spec, owner, request, "DEFAULT", 0, since=time.monotonic() - 60)
        self.parts.calls.by_key[key] = call
        self.dask.states[key] = "no-worker"
        return call

    def hold(self, key, owner, kind="task"):
        """Add a call that runs."""
        call = self.add(key, owner, kind)
        call.holding = self.parts.ground.ledger.acquire(call.request)
        call.address = call.holding.node_id
        self.parts.calls.holding[key] = call
        if kind == "lease":
            self.parts.leases.add(key, (owner, call.request, "DEFAULT"), call.holding)

    def enqueue(self, key, owner, **about):
        self.parts.dispatcher.enqueue(key, self.add(key, owner, **about))

    def add_group(self, group, *bundles):
        """Add a placement group that has waited for a minute."""
        spec = {
            "group": group,
            "bundles": list(bundles),
            "label_selectors": [],
            "strategy": "SPREAD",
            "job": JOB,
        }
        self.handle(CreateGroup(spec), client="client")
        self.parts.groups.all()[-1].since -= 60

    def fill(self, kind="task"):
        for number in range(10 * len(self.dask.all_workers)):
            self.hold(f"held-{number}", f"owner-{number % 7}", kind)


def run(monkeypatch, num_nodes, test):
    """Run `test` in an event loop, with a cluster; it may be a coroutine function."""
    monkeypatch.setattr(dask_pages, "publish_metrics", lambda collect: None)

    async def body():
        awaited = test(Cluster(num_nodes))
        if awaited is not None:
            await awaited

    asyncio.run(body())
