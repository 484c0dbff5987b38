"""Dask workers that cannot be nodes: the plugin reports why, and the workers go on."""

from __future__ import annotations

import asyncio

import pytest

from raycompat._messages.nodes import Unfit
from raycompat._node import membership
from raycompat._node.door import node_plugin
from raycompat._node.forkserver_client import ForkserverDied
from raycompat._protocol import task_bodies


class Worker:
    """A Dask worker; it keeps what it sends to the scheduler."""

    def __init__(self):
        self.sent = []
        self.batched_stream = self
        self.stream_handlers, self.handlers = {}, {}

    def send(self, message):
        self.sent.append(message)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ValueError("labels"), "labels"),
        (TypeError("The quantity of resource x is 'a'"), "The quantity of resource x is 'a'"),
        (OSError("No space left on device"), "No space left on device. A node needs folders"),
        (RuntimeError(), "RuntimeError()"),
    ],
)
def test_drivers_learn_why_a_worker_cannot_be_a_node(monkeypatch, error, reason):
    def fail(worker):
        raise error

    worker = Worker()
    monkeypatch.setattr(membership, "Node", fail)
    asyncio.run(node_plugin().setup(worker))
    (message,) = worker.sent
    assert message["op"] == Unfit.op
    assert message["reason"].startswith(reason)


class NodeWithout:
    """A node whose forkserver cannot start."""

    ended = False

    def __init__(self, _) -> None:
        self.pool = self
        made.append(self)

    def start(self) -> None:
        pass

    async def wait_until_ready(self) -> None:
        raise ForkserverDied("could not start: ZeroDivisionError")

    def stream_handlers(self) -> dict:
        return {"raycompat-job": print}

    handlers = stream_handlers

    def close(self) -> None:
        self.ended = True


made: list[NodeWithout] = []


def test_a_worker_whose_forkserver_cannot_start_is_no_node(monkeypatch):
    worker = Worker()
    monkeypatch.setattr(membership, "Node", NodeWithout)
    asyncio.run(node_plugin().setup(worker))
    reason = "could not start: ZeroDivisionError"
    assert worker.sent == [Unfit(reason).to_wire()]
    assert made.pop().ended
    assert worker not in task_bodies.runners
    assert worker.stream_handlers == worker.handlers == {}
