"""The tasks and values of a Dask worker, in its process; and the process that shows that it lives.

A coroutine body releases its thread slot at once (`secede`), so only resources limit it.
"""

from __future__ import annotations

import asyncio
import inspect
import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from distributed import Security
from distributed.comm.core import Comm
from distributed.core import Status, connect
from distributed.protocol.serialize import to_serialize
from distributed.worker_state_machine import (
    RemoveReplicasEvent,
    SecedeEvent,
    StateMachineEvent,
    WorkerState,
)

from raycompat._dask.streams import TakeBack, send_at_once
from raycompat._protocol.text import encodable

if TYPE_CHECKING:
    from distributed import Worker

    from raycompat._protocol.message import FromNode, Request

_order = itertools.count()


#: Returned by the handler of a connection that it serves itself.
NO_REPLY = Status.dont_reply


#: What this process tells about itself when it connects, beside Dask's own facts; and Dask's own.
_told: dict[str, str] = {}


_handshake_info = Comm.handshake_info


def tell_when_connecting(name: str, value: str) -> None:
    """Tell the other end of each new connection a fact about this process.

    Functions that serialize find it in their context, as an entry of the sender or the recipient.
    """

    def handshake_info(comm: Comm) -> dict[str, object]:
        return {**_handshake_info(comm), **_told}

    _told[name] = value
    Comm.handshake_info = handshake_info


def secede(worker: Worker, key: str) -> None:
    """Release the thread slot of the coroutine task `key`, which continues to run."""
    worker.handle_stimulus(
        SecedeEvent(key=key, compute_duration=0.0, stimulus_id=f"raycompat-secede-{key}")
    )


@dataclass
class _Start(StateMachineEvent):
    """Start a task that is ready, although the worker may have no free thread."""

    __slots__ = ("key",)
    key: str


def _handle_start(state: WorkerState, event: _Start) -> object:
    task = state.tasks.get(event.key)
    if task is None or task.state != "ready" or not state.running:
        return {}, []
    state.ready.discard(task)
    state.executing.add(task)
    return {task: "executing"}, []


WorkerState._handle_event.register(_Start, _handle_start)


def start_if_ready(worker: Worker, key: str) -> None:
    """Start a task whose body is a coroutine, also when other tasks use all threads of the worker.

    A coroutine needs no thread; Dask would let it wait for one.
    """
    task = worker.state.tasks.get(key)
    if task is not None and task.state == "ready":
        worker.handle_stimulus(_Start(key=key, stimulus_id=f"raycompat-start-{key}"))


def is_coroutine_of(worker: Worker, key: str, module: str) -> bool:
    """Return whether the body of a task is a coroutine function of a module."""
    task = worker.state.tasks.get(key)
    body = getattr(task and task.run_spec, "func", None)
    return getattr(body, "__module__", None) == module and inspect.iscoroutinefunction(body)


def is_closing(worker: Worker) -> bool:
    """Return whether a worker is closing."""
    return worker.status in (Status.closing, Status.closed, Status.failed)


def has(worker: Worker, key: str) -> bool:
    """Return whether a worker stores a value, in memory or on disk."""
    return key in worker.data


def stored(worker: Worker, key: str) -> Any:
    """Return the value that a worker stores, from disk if necessary.

    Raises
    ------
    KeyError
        When the worker does not have it any more.
    """
    return worker.data[key]


async def bring(worker: Worker, holders: Mapping[str, list[str]]) -> list[str]:
    """Copy values from other workers to this one; return the keys that failed."""
    others = {key: [each for each in who if each != worker.address] for key, who in holders.items()}
    answer = await worker.gather(who_has=cast("Any", others)) if others else {}
    brought = [key for key in others if key in worker.data]
    stimulus = f"raycompat-brought-{next(_order)}"
    worker.batched_stream.send({"op": "add-keys", "keys": brought, "stimulus_id": stimulus})
    return cast("list[str]", answer.get("keys", []))


def drop(worker: Worker, key: str) -> None:
    """Remove a value that a worker cannot read, and report that to the scheduler."""
    worker.handle_stimulus(
        RemoveReplicasEvent(keys=[key], stimulus_id=f"raycompat-unreadable-{key}")
    )


def as_bytes(block: Any) -> object:
    """Wrap bytes so that an answer to a client sends them unchanged."""
    return to_serialize(memoryview(block))


def tell_scheduler(worker: Worker, message: FromNode) -> None:
    """Send one message on a worker's stream to the scheduler, in order with Dask's messages.

    Raises
    ------
    Exception
        When the message cannot be encoded; nothing is sent then.
    """
    worker.batched_stream.send(encodable(message.to_wire()))


def send_batches_at_once(worker: Worker) -> TakeBack:
    """Remove the pause between a worker's batches to the scheduler (Dask: 2 ms)."""
    return send_at_once(worker.batched_stream)


async def send_pulses(
    scheduler: str, security: dict[str, Any] | None, pulse: Request[None], period_s: float
) -> None:
    """Report to a scheduler, regularly, that a worker is alive.

    Raises
    ------
    OSError
        When the connection breaks.
    """
    arguments = Security(**(security or {})).get_connection_args("client")
    comm = await connect(scheduler, **arguments)
    try:
        while True:
            await comm.write({**pulse.to_wire(), "reply": True})
            await comm.read()
            await asyncio.sleep(period_s)
    finally:
        comm.abort()
