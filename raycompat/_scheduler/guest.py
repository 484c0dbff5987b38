"""What raycompat changes in the cluster of others, and when it takes that back.

* From the first session until raycompat is taken off the cluster: handlers, pages, the plugins.
* While a session is open: the memory manager's policy, the pauses in the streams to workers, and the
  detection of silent nodes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from raycompat._dask import scheduler as dask_scheduler
from raycompat._dask import streams as dask_streams
from raycompat._messages.jobs import Detached
from raycompat._messages.nodes import Gone
from raycompat._protocol.task_bodies import PLUGIN_NAME
from raycompat._scheduler.actors import DETACHED
from raycompat._scheduler.objects import LOADS
from raycompat._scheduler.pins import PINS

if TYPE_CHECKING:
    from distributed import SchedulerPlugin

    from raycompat._scheduler.ground import Ground

logger = logging.getLogger(__name__)

#: Seconds between two looks whether the plugins are still registered.
_LOOK_S = 2.0

#: Seconds for all sessions to end, and for all workers to know.
_DETACH_S = 30.0

#: Seconds in which a worker that was becoming a node may still say so.
_LATE_S = 5.0

_UNREGISTERED = (
    "raycompat was taken off the Dask cluster: its plugin was unregistered. Call ray.shutdown(), and "
    "ray.init() to begin again."
)


class Work(Protocol):
    """Regular work of the scheduler."""

    def start(self) -> None:
        """Begin."""

    def stop(self) -> None:
        """End."""


class Guest:
    """The changes of the scheduler and of its streams."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self.plugin: SchedulerPlugin
        self._keep_values_at_home: Callable[[], dask_streams.TakeBack]
        self._dask = ground.dask
        self._is_active = False
        #: What takes back the changes that last while a session is open, in the streams to workers too.
        self._of_sessions: list[dask_streams.TakeBack] = []
        self._of_workers: dict[str, dask_streams.TakeBack] = {}
        #: What runs while a session is open.
        self.work_of_sessions: list[Work] = []
        #: Lets a worker be a node no more; `Nodes` sets it.
        self.dismiss: Callable[[str], None]
        #: The workers that were dismissed, until their last message.
        self._leaving: set[str] = set()
        #: Removes the handlers of messages. Dask would close a connection with other messages.
        self.remove_handlers: dask_streams.TakeBack
        #: What takes back the others.
        self._lasting: list[dask_streams.TakeBack] = []
        self._looking: asyncio.TimerHandle | None = None
        #: Whether the workers' plugin was registered, which a driver does some time after this one.
        self._workers_had_plugin = False
        self._detaching: asyncio.Task[None] | None = None

    def start(
        self, plugin: SchedulerPlugin, keep_values_at_home: Callable[[], dask_streams.TakeBack]
    ) -> None:
        """Begin as a guest: the plugin hears of clients that leave."""
        self.plugin = plugin
        self._keep_values_at_home = keep_values_at_home
        self._look_soon()

    def _look_soon(self) -> None:
        """Look regularly whether the plugins are registered: Dask does not tell."""
        self._looking = asyncio.get_running_loop().call_later(_LOOK_S, self._look)

    def stop(self) -> None:
        """Take nothing back, because the scheduler ends."""
        if self._looking is not None:
            self._looking.cancel()

    def undo_at_the_end(self, take_back: dask_streams.TakeBack) -> None:
        """Call a function when raycompat is taken off the cluster."""
        self._lasting.append(take_back)

    # --- while a session is open ----------------------------------------------------------------

    def session_began(self) -> None:
        """Change what sessions need, if this is the only one."""
        if self._is_active:
            return
        self._is_active = True
        self._of_sessions.append(self._keep_values_at_home())
        for work in self.work_of_sessions:
            work.start()
            self._of_sessions.append(work.stop)
        for worker in self._ground.nodes.info:
            self.node_came(worker)

    def session_ended(self) -> None:
        """Take that back if no session is left."""
        if self._is_active and not self._ground.jobs.open:
            self._is_active = False
            _call_all(self._of_sessions)
            for worker in list(self._of_workers):
                self._of_workers.pop(worker)()

    def node_came(self, worker: str) -> None:
        """Send messages to a node without pauses."""
        self._workers_had_plugin = True
        if self._is_active:
            self._of_workers[worker] = self._dask.send_worker_batches_at_once(worker)

    def node_left(self, worker: str, *, is_worker: bool) -> None:
        """Give the stream to a worker its pauses again, if it is still there."""
        take_back = self._of_workers.pop(worker, None)
        if take_back is not None and is_worker:
            take_back()

    def expect_end_of(self, worker: str) -> None:
        """Note that a worker was dismissed, which may still send messages."""
        self._leaving.add(worker)

    def node_is_gone(self, worker: str, message: Gone) -> None:
        """Handle the last message of a worker that was dismissed."""
        self._leaving.discard(worker)
        self._ground.next_change.notify()

    # --- taking raycompat off the cluster ---------------------------------------------------------

    def _look(self) -> None:
        if not self.is_detaching():
            self._look_soon()

    def is_detaching(self) -> bool:
        """Return whether raycompat leaves the cluster; begin if a plugin was unregistered."""
        workers_have_plugin = self._dask.is_registered_for_workers(PLUGIN_NAME)
        has_gone = self._workers_had_plugin and not workers_have_plugin
        self._workers_had_plugin |= workers_have_plugin
        if self._detaching is None and (has_gone or not self._dask.is_registered(PLUGIN_NAME)):
            self._detaching = asyncio.ensure_future(self._detach(_UNREGISTERED))
        return self._detaching is not None

    async def detach(self, text: str) -> bool:
        """End all sessions with an error that says `text`, and take back every change."""
        if self._detaching is None:
            self._detaching = asyncio.ensure_future(self._detach(text))
        await asyncio.shield(self._detaching)
        return True

    async def _detach(self, text: str) -> None:
        logger.info("%s", text)
        self.stop()
        dask = self._dask
        dask.register(PLUGIN_NAME, self.plugin)  # if it was unregistered, for its last work
        try:
            async with asyncio.timeout(_DETACH_S):
                await self._end_sessions(text)
                await dask.unregister_from_workers(PLUGIN_NAME)
                late = self._ground.nodes.silent()
                for worker in list(self._ground.nodes.info):
                    self.dismiss(worker)
                while not self._leaving.isdisjoint(dask.workers()):
                    await self._ground.next_change.wait()
            # While reports may be under way: Dask would close the connections, and the workers end.
            if late:
                asyncio.get_running_loop().call_later(_LATE_S, self.remove_handlers)
            else:
                self.remove_handlers()
        except TimeoutError:  # a worker or a client is stopped
            logger.warning("Some processes have not left raycompat within %g s.", _DETACH_S)
        dask.unregister(PLUGIN_NAME)
        _call_all(self._lasting)

    async def _end_sessions(self, text: str) -> None:
        dask = self._dask
        for name in (DETACHED, PINS, LOADS):
            dask.forget_client(name)
        ours = [each for each in dask.clients() if dask_scheduler.is_our_client(each)]
        for client in ours:
            dask.notify_client(client, Detached(text))
        await asyncio.gather(*(dask.close_client(each) for each in ours))
        while self._ground.jobs.open or any(each in dask.clients() for each in ours):
            await self._ground.next_change.wait()


def _call_all(functions: list[dask_streams.TakeBack]) -> None:
    """Call functions, the last one first, and forget them."""
    while functions:
        functions.pop()()
