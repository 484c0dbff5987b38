"""The node plugin: a Dask worker is a node as long as it is registered."""

from __future__ import annotations

import asyncio
import errno
import gc
import weakref
from typing import TYPE_CHECKING

import distributed

from raycompat import _dask_adapter as adapter
from raycompat._node.forkserver_client import ForkserverDied
from raycompat._node.node import Node
from raycompat._protocol import task_bodies
from raycompat._protocol.operations import ToScheduler

if TYPE_CHECKING:
    from distributed import Worker

#: The plugin of each worker.
_plugins: weakref.WeakKeyDictionary[Worker, NodePlugin] = weakref.WeakKeyDictionary()

#: Advice for the errors when a node's folders cannot be made, by their numbers.
_FOLDERS = ". A node needs folders in /dev/shm and in its worker's directory"
_ADVICE = {
    errno.EROFS: f"{_FOLDERS}: mount these file systems with write access.",
    errno.EACCES: f"{_FOLDERS}: let this user write there.",
    errno.ENOSPC: f"{_FOLDERS}: make room there.",
}


class NodePlugin(distributed.WorkerPlugin):
    """The Dask plugin of one worker. Every driver registers it; a second time has no effect."""

    name = task_bodies.PLUGIN_NAME
    idempotent = True
    #: Created in the worker's process.
    node: Node
    #: Whether it was removed from a worker that still runs.
    _is_leaving = False

    async def setup(self, worker: Worker) -> None:
        """Start the node, and report it to the scheduler plugin.

        A worker that joins while the first driver registers the plugin gets it twice: with the answer
        to its registration, and with the broadcast. Then the first one continues.
        """
        running = _plugins.get(worker)
        if running is not None:
            running._is_leaving = False
            worker.plugins[self.name] = running
            return
        gc.freeze()  # later collections need not scan the objects so far
        try:
            self.node = node = Node(worker)
        except Exception as error:  # of any kind: drivers wait for this report
            reason = (
                f"{error}{_ADVICE.get(error.errno or 0, f'{_FOLDERS}.')}"
                if isinstance(error, OSError)
                else str(error) or repr(error)
            )
            adapter.tell_scheduler(worker, {"op": ToScheduler.UNFIT, "reason": reason})
            raise
        node.start()
        worker.stream_handlers.update(adapter.guarded(node.stream_handlers()))
        worker.handlers.update(node.handlers())
        adapter.send_batches_at_once(worker)
        _plugins[worker] = self
        try:
            await node.pool.wait_until_ready()
        except ForkserverDied as error:
            adapter.tell_scheduler(worker, {"op": ToScheduler.UNFIT, "reason": str(error)})
            _end(worker)
            raise
        node.tell({"op": ToScheduler.NODE, "info": node.info})

    async def teardown(self, worker: Worker) -> None:
        """End the node, unless the plugin is only replaced."""
        if adapter.is_closing(worker):
            _end(worker)
            return
        # Dask removes a plugin before it adds one with the same name, without giving up the event loop.
        self._is_leaving = True
        asyncio.get_running_loop().call_soon(self._leave, worker)

    def _leave(self, worker: Worker) -> None:
        if self._is_leaving:
            _end(worker)


def _end(worker: Worker) -> None:
    plugin = _plugins.pop(worker, None)
    if plugin is not None:  # the worker may not have been a node
        plugin.node.close()
