"""The membership of a Dask worker: it is a node from `join` to `Membership.leave`."""

from __future__ import annotations

import asyncio
import errno
import shutil
import weakref
from typing import TYPE_CHECKING

from raycompat._dask import streams as dask_streams
from raycompat._dask import worker as adapter
from raycompat._messages.nodes import Dismiss, Gone, NodeReady, Resign
from raycompat._node.forkserver_client import ForkserverDied
from raycompat._node.node import Node
from raycompat._protocol import task_bodies
from raycompat._protocol.message import handled

if TYPE_CHECKING:
    from distributed import Worker

#: The membership of each worker that is a node.
_memberships: weakref.WeakKeyDictionary[Worker, Membership] = weakref.WeakKeyDictionary()

#: Advice for the errors when a node's folders cannot be made, by their numbers.
_FOLDERS = ". A node needs folders in /dev/shm and in its worker's directory"
_ADVICE = {
    errno.EROFS: f"{_FOLDERS}: mount these file systems with write access.",
    errno.EACCES: f"{_FOLDERS}: let this user write there.",
    errno.ENOSPC: f"{_FOLDERS}: make room there.",
}


class UnfitError(Exception):
    """A worker cannot be a node. The text says why."""


async def join(worker: Worker) -> Membership:
    """Make a worker a node, and report it to the scheduler.

    A worker that joins while the first driver registers the plugin gets it twice: with the answer to
    its registration, and with the broadcast. Then it stays the node that it is.

    Raises
    ------
    UnfitError
        When it cannot be one.
    """
    membership = _memberships.get(worker)
    if membership is not None:
        membership.stay()
        return membership
    try:
        membership = _memberships[worker] = Membership(worker)
    except OSError as error:
        raise UnfitError(f"{error}{_ADVICE.get(error.errno or 0, f'{_FOLDERS}.')}") from error
    try:
        await membership.node.pool.wait_until_ready()
    except ForkserverDied as error:
        membership.end()
        raise UnfitError(str(error)) from error
    membership.announce()
    return membership


class Membership:
    """The node of a worker, and what is taken back in the worker when it is not a node any more."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._is_leaving = False
        self.node = node = Node(worker)
        node.start()
        handlers = {**node.stream_handlers(), **dict([handled(Dismiss, self._dismissed)])}
        self._messages = list(handlers)
        self._take_back = [
            dask_streams.add_handlers(worker.stream_handlers, dask_streams.guarded(handlers)),
            dask_streams.add_handlers(worker.handlers, node.handlers()),
        ]
        task_bodies.runners[worker] = node

    def task_is_ready(self, key: str) -> None:
        """Start a task of raycompat, also when other tasks use all threads of the worker."""
        if adapter.is_coroutine_of(self._worker, key, task_bodies.__name__):
            asyncio.get_running_loop().call_soon(adapter.start_if_ready, self._worker, key)

    def announce(self) -> None:
        """Report the node to the scheduler, and that it leaves if the plugin has gone meanwhile."""
        self.node.tell(NodeReady(self.node.info))
        self._resign()

    def stay(self) -> None:
        """Remain a node, because the plugin was only replaced."""
        self._is_leaving = False

    def leave(self) -> None:
        """End the node, unless the plugin is only replaced.

        Dask removes a plugin before it adds one with the same name, without giving up the event loop.
        """
        if adapter.is_closing(self._worker):
            self.end()
            # The scheduler may send messages until the stream is closed. Dask fails at unknown ones.
            self._worker.stream_handlers.update(dict.fromkeys(self._messages, _ignore))
            return
        self._is_leaving = True
        asyncio.get_running_loop().call_soon(self._resign)

    def _resign(self) -> None:
        """Ask to be dismissed: until then, the scheduler may send messages, and calls run here."""
        if self._is_leaving:
            self.node.tell(Resign())

    def _dismissed(self, message: Dismiss) -> None:
        if self._is_leaving:
            self.end()
            shutil.rmtree(self.node.logs.directory, ignore_errors=True)
            adapter.tell_scheduler(self._worker, Gone())
        else:  # the plugin has come again
            self.announce()

    def end(self) -> None:
        """End the node, and take back what it has changed in the worker."""
        if _memberships.pop(self._worker, None) is not None:
            del task_bodies.runners[self._worker]
            self.node.close()
            for take_back in self._take_back:
                take_back()


def _ignore(**_: object) -> None:
    """Handle a message to a worker that is closing."""
