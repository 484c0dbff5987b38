"""Recording what a scheduler hears, so that a simulated one can hear it again.

A record is a file of msgpack maps. The first is the header; each other is an event: its time, and
either a member of the cluster that came or left, or a message or request with its fields. Values are
left out: texts stay only in fields that are listed here, and of bytes only the type of an error. What
only pages and logs show is left out, too, and so are graphs of Dask, because they are pickled; the
record says where.
"""

from __future__ import annotations

import asyncio
import copy
import logging
import os
import pickle
import sys
import time
from collections.abc import Callable, Collection, Mapping
from inspect import iscoroutinefunction
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import distributed
import msgpack
from distributed.scheduler import TaskState

from raycompat._protocol import failures, runtime_env

if TYPE_CHECKING:
    from distributed import Scheduler

logger = logging.getLogger(__name__)

#: The folder in which each scheduler writes its record. Without it nothing is recorded.
VARIABLE = "RAYCOMPAT_RECORD"

#: Pickled graphs of Dask.
_GRAPHS = "update-graph"

#: Messages of Dask that change nothing but pages.
_NOT_NEEDED = frozenset({"keep-alive", "log-event"})

#: The fields whose texts stay: names, ids and addresses. Others may have values in them.
_NAMES = frozenset(
    [
        "actor",
        "besides",
        "carrier",
        "class_name",
        "client",
        "deps",
        "driver_host",
        "function",
        "functions",
        "gpu_ids",
        "group",
        "handed_over",
        "home",
        "host",
        "how",
        "ip",
        "item",
        "job",
        "key",
        "keys",
        "kind",
        "label_selectors",
        "labels",
        "lost_by",
        "name",
        "namespace",
        "node",
        "node_id",
        "op",
        "owner",
        "party",
        "place",
        "reason",
        "socket",
        "source",
        "status",
        "stimulus_id",
        "strategy",
        "submission",
        "topic",
        "typename",
        "values",
        "version",
        "wire",
        "wires",
        "worker",
    ]
)

#: Of these, dictionaries with any keys.
_TABLES = {"handed_over", "label_selectors", "labels", "lost_by", "strategy"}

#: Handlers of Dask's messages take their fields by name.
_Handler: TypeAlias = Callable[..., Any]


class Recorder(distributed.SchedulerPlugin):
    """The record of one scheduler. As a plugin it hears which workers and clients come and leave."""

    name = "raycompat-recorder"

    def __init__(self, folder: str, unrecorded: Collection[str]) -> None:
        self._unrecorded = _NOT_NEEDED.union(unrecorded)
        Path(folder).mkdir(parents=True, exist_ok=True)
        self.path = Path(folder) / f"scheduler-{time.time_ns()}-{os.getpid()}.record"
        # Only this user may read it: it has names.
        descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        self._file = os.fdopen(descriptor, "wb", buffering=0)
        self._goes_on = True
        self._began = time.monotonic()
        self._packer = msgpack.Packer(default=lambda value: None)
        #: The turn of the event loop: what is in one turn is replayed without a pause.
        self._turn = 0
        self._turn_ends = False
        self._write(
            {
                "format": 1,
                "is_ordered": not sys.flags.hash_randomization,
                "run_id": next(copy.copy(TaskState._run_id_iterator)),
            }
        )
        logger.info("The scheduler records what it hears in %s", self.path)

    def _write(self, event: Mapping[str, object]) -> None:
        """Write an event. The scheduler goes on without a record if that fails, as on a full disk."""
        try:
            self._file.write(self._packer.pack(event))
        except (OSError, OverflowError, TypeError, ValueError) as error:
            logger.error("The record %s ends here: %s", self.path, error)
            self._end()

    def _end(self) -> None:
        self._goes_on = False
        self._file.close()

    def note(self, kind: str, **fields: object) -> None:
        """Record an event that happens now."""
        if not self._goes_on:
            return
        if not self._turn_ends:
            self._turn_ends = True
            asyncio.get_running_loop().call_soon(self._end_turn)
        at = time.monotonic() - self._began
        self._write({"kind": kind, "at": at, "turn": self._turn, **without_values(fields)})

    def _end_turn(self) -> None:
        self._turn += 1
        self._turn_ends = False

    def start(self, scheduler: Scheduler) -> None:
        """Record the members that are there, and what Dask's clients and workers send from now on."""
        self._scheduler = scheduler
        for worker in scheduler.workers:
            self.add_worker(scheduler, worker)
        for client in scheduler.clients:
            self.add_client(scheduler, client)
        self._before = dict(scheduler.stream_handlers)
        scheduler.stream_handlers.update(self.recorded("message", self._before))

    def stop(self) -> None:
        """Record no more, because raycompat is taken off the cluster."""
        self._scheduler.stream_handlers.update(self._before)
        self._scheduler.remove_plugin(name=self.name)
        self._end()

    async def close(self) -> None:
        """Close the file, because the scheduler ends."""
        self._end()

    def add_worker(self, scheduler: Scheduler, worker: str) -> None:
        """Record a worker that has joined, with what a scheduler needs to know of it."""
        state = scheduler.workers[worker]
        about = {"nthreads": state.nthreads, "memory_limit": state.memory_limit}
        self.note("worker came", worker=worker, name=str(state.name), **about)

    def remove_worker(self, scheduler: Scheduler, worker: str, **_: object) -> None:
        """Record a worker that has left."""
        self.note("worker left", worker=worker)

    def add_client(self, scheduler: Scheduler, client: str) -> None:
        """Record a client that has come."""
        self.note("client came", client=client)

    def remove_client(self, scheduler: Scheduler, client: str) -> None:
        """Record a client that has left."""
        self.note("client left", client=client)

    def recorded(self, kind: str, handlers: Mapping[str, _Handler]) -> dict[str, _Handler]:
        """Return handlers that record each message, or request, before they handle it.

        Handlers of what changes no state of the scheduler stay as they are.
        """
        return {
            op: each if op in self._unrecorded else self._recorded(kind, op, each)
            for op, each in handlers.items()
        }

    def _recorded(self, kind: str, op: str, handler: _Handler) -> Callable[..., object]:
        def note(fields: dict[str, object]) -> None:
            self.note(kind, op=op, fields={} if op == _GRAPHS else fields)

        def handle(**fields: object) -> Any:
            note(fields)
            return handler(**fields)

        async def handle_and_wait(**fields: object) -> object:
            note(fields)
            return await handler(**fields)

        return handle_and_wait if iscoroutinefunction(handler) else handle


def without_values(thing: object, name: str = "") -> Any:
    """Return a field of a message without the values in it."""
    match thing:
        case dict():
            return {
                key: without_values(each, name if name in _TABLES else str(key))
                for key, each in thing.items()
            }
        case list() | tuple() | set() | frozenset():
            return [without_values(each, name) for each in thing]
        case bytes() if name == "error":
            return _only_type(thing)
        case bytes() if name == "program":
            return _NO_PROGRAM
        case bytes() | bytearray() | memoryview():
            return b""
        case str() if name not in _NAMES:
            return runtime_env.EMPTY if name == "runtime_env" else ""
    return thing


#: The settings of a program without its command line.
_NO_PROGRAM = pickle.dumps({"argv": [], "metadata": {}})


def _only_type(error: bytes) -> bytes:
    """Return an error of a message with the name of its type, and without its text."""
    kind = failures.text_of(error).partition(":")[0] if error else ""
    kind = kind if kind.startswith("raycompat.exceptions.") else "Exception"
    return pickle.dumps((b"", f"{kind}: (left out)"))


def begin(scheduler: Scheduler, unrecorded: Collection[str]) -> Recorder | None:
    """Begin to record, if this process is to. `unrecorded` are the kinds of messages to leave out."""
    folder = os.environ.get(VARIABLE)
    if not folder:
        return None
    try:
        recorder = Recorder(folder, unrecorded)
    except OSError as error:
        logger.error("Nothing is recorded in %s: %s", folder, error)
        return None
    scheduler.add_plugin(recorder)
    recorder.start(scheduler)
    return recorder
