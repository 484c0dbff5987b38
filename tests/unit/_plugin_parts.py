"""The parts of the scheduler plugin on the tables of a scheduler, without a network: nothing runs."""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace

from raycompat._dask import pages as adapter
from raycompat._messages.groups import CreateGroup
from raycompat._protocol.resource_set import ResourceSet
from raycompat._scheduler.calls import Call
from raycompat._scheduler.parts import Parts

JOB = "01000000"


class Cluster:
    """The parts of a scheduler with nodes of ten CPUs, without a network."""

    def __init__(self, num_nodes):
        #: The messages that were sent, each with the client or node that it is for.
        self.sent = []
        addresses = [f"tcp://node-{number}" for number in range(num_nodes)]
        workers = {each: SimpleNamespace(address=each, metrics={}, nbytes=0) for each in addresses}
        self.scheduler = SimpleNamespace(
            tasks={},
            clients={},
            client_comms={},
            workers=workers,
            running=list(workers.values()),
            send_all=self._send,
            transitions=lambda *_: None,
        )
        self.parts = Parts(self.scheduler)
        for each in addresses:
            self.parts.ledger.add_node(each, ResourceSet.from_amounts({"CPU": 10}))
            self.parts.nodes.info[each] = {
                "node_id": each,
                "labels": {},
                "name": each,
                "ip": "10.0.0.1",
                "pid": 1,
                "started": time.time(),
            }

    def _send(self, to_clients, to_workers):
        self.sent += [
            (who, each)
            for messages in (to_clients, to_workers)
            for who, group in messages.items()
            for each in group
        ]

    def handle(self, message, **sender):
        """Handle a message as it comes from a `client` or from the `worker` of a node."""
        fields = message.to_wire()
        self.parts.stream_handlers()[fields.pop("op")](**fields, **sender)

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
        self.scheduler.tasks[key] = SimpleNamespace(dependencies=())
        return call

    def hold(self, key, owner, kind="task"):
        """Add a call that runs."""
        call = self.add(key, owner, kind)
        call.holding = self.parts.ledger.acquire(call.request)
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
        for number in range(10 * len(self.scheduler.workers)):
            self.hold(f"held-{number}", f"owner-{number % 7}", kind)


def run(monkeypatch, num_nodes, test):
    """Run `test` in an event loop, with a cluster; it may be a coroutine function."""
    monkeypatch.setattr(adapter, "publish_metrics", lambda collect: None)

    async def body():
        awaited = test(Cluster(num_nodes))
        if awaited is not None:
            await awaited

    asyncio.run(body())
