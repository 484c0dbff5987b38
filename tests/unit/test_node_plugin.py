"""The node plugin of a worker that cannot be a node."""

from __future__ import annotations

import asyncio
import gc

import pytest

from raycompat._node import plugin
from raycompat._node.forkserver_client import ForkserverDied
from raycompat._protocol.operations import ToScheduler


class Worker:
    """A Dask worker; it keeps what it sends to the scheduler."""


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
    sent = []

    def fail(worker):
        raise error

    monkeypatch.setattr(plugin, "Node", fail)
    monkeypatch.setattr(plugin.adapter, "tell_scheduler", lambda _, message: sent.append(message))
    with pytest.raises(type(error)):
        asyncio.run(plugin.NodePlugin().setup(Worker()))
    gc.unfreeze()  # `setup` freezes what there is in a worker
    (message,) = sent
    assert message["op"] == ToScheduler.UNFIT
    assert message["reason"].startswith(reason)


class NodeWithout:
    """A node whose forkserver cannot start."""

    ended = False

    def __init__(self, _) -> None:
        self.pool = self

    def start(self) -> None:
        pass

    async def wait_until_ready(self) -> None:
        raise ForkserverDied("could not start: ZeroDivisionError")

    def stream_handlers(self) -> dict:
        return {}

    handlers = stream_handlers

    def close(self) -> None:
        self.ended = True


def test_a_worker_whose_forkserver_cannot_start_is_no_node(monkeypatch):
    sent = []
    worker = Worker()
    worker.stream_handlers, worker.handlers = {}, {}
    monkeypatch.setattr(plugin, "Node", NodeWithout)
    monkeypatch.setattr(plugin.adapter, "tell_scheduler", lambda _, message: sent.append(message))
    monkeypatch.setattr(plugin.adapter, "send_batches_at_once", lambda _: None)
    registered = plugin.NodePlugin()
    with pytest.raises(ForkserverDied, match="ZeroDivisionError"):
        asyncio.run(registered.setup(worker))
    gc.unfreeze()
    assert sent == [{"op": ToScheduler.UNFIT, "reason": "could not start: ZeroDivisionError"}]
    assert registered.node.ended
    assert worker not in plugin._plugins
