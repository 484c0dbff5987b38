"""The node plugin: it makes a Dask worker a node as long as it is registered."""

from __future__ import annotations

import asyncio
import gc
import weakref
from typing import TYPE_CHECKING

import distributed

from raycompat import _dask_adapter as dask
from raycompat._node.node import Node
from raycompat._protocol import entry
from raycompat._protocol.operations import ToScheduler

if TYPE_CHECKING:
    from distributed import Worker

#: The plugin that runs on a worker.
_plugins: weakref.WeakKeyDictionary[Worker, NodePlugin] = weakref.WeakKeyDictionary()

#: What to do when a node's folders cannot be made.
_ADVICE = (
    ". A node needs folders of its own in /dev/shm and in its worker's directory: make room there."
)


class NodePlugin(distributed.WorkerPlugin):
    """See the module. One per worker, registered idempotently by every driver."""

    name = entry.PLUGIN_NAME
    idempotent = True
    #: Made where the worker is.
    node: Node
    #: Whether it has been taken away from a worker that goes on.
    _is_leaving = False

    async def setup(self, worker: Worker) -> None:
        """Start the node, and report it to the scheduler's part.

        A worker that joins while the first driver registers the plugin gets it twice: in the answer to
        its registration, and by the broadcast. The one that runs already goes on then.
        """
        running = _plugins.get(worker)
        if running is not None:
            running._is_leaving = False
            worker.plugins[self.name] = running
            return
        gc.freeze()  # what is there already need not be looked at by later collections
        try:
            self.node = node = Node(worker)
        except (OSError, ValueError) as error:
            reason = f"{error}{_ADVICE}" if isinstance(error, OSError) else str(error)
            dask.tell_scheduler(worker, {"op": ToScheduler.UNFIT, "reason": reason})
            raise
        node.start()
        worker.stream_handlers.update(dask.guarded(node.stream_handlers()))
        worker.handlers.update(node.handlers())
        dask.send_batches_at_once(worker)
        node.tell({"op": ToScheduler.NODE, "info": node.info})
        _plugins[worker] = self

    async def teardown(self, worker: Worker) -> None:
        """End the node, unless this plugin is about to come again."""
        if dask.is_closing(worker):
            _end(worker)
            return
        # Dask takes a plugin away before it adds one of the same name, without a pause in between.
        self._is_leaving = True
        asyncio.get_running_loop().call_soon(self._leave, worker)

    def _leave(self, worker: Worker) -> None:
        if self._is_leaving:
            _end(worker)


def _end(worker: Worker) -> None:
    plugin = _plugins.pop(worker, None)
    if plugin is not None:  # it may have been no node
        plugin.node.close()
