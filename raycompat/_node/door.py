"""The plugin that drivers register in Dask's workers: it makes a worker a node, if it can be one.

The plugin travels as code and not by its name, so every worker can load it. A worker without raycompat,
or with another version, reports why it is not a node, and goes on as a worker of Dask.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import distributed

from raycompat._messages.nodes import Unfit
from raycompat._protocol import task_bodies
from raycompat._protocol.version import VERSION

if TYPE_CHECKING:
    from distributed import Worker


def node_plugin() -> distributed.WorkerPlugin:
    """Return the plugin. Registering it a second time has no effect."""
    unfit, wanted, named = Unfit.op, VERSION, task_bodies.PLUGIN_NAME

    class NodePlugin(distributed.WorkerPlugin):  # a local class: it is pickled with its code
        name = named
        idempotent = True
        #: The `raycompat._node.membership.Membership` of a worker that is a node.
        membership: Any = None

        async def setup(self, worker: Worker) -> None:
            try:
                from raycompat._protocol.version import VERSION

                if wanted != VERSION:
                    raise RuntimeError(
                        f"it has raycompat {VERSION}, and the cluster has {wanted}. Install that "
                        "there, and restart the worker."
                    )
                from raycompat._node.membership import join

                self.membership = await join(worker)
            except Exception as error:  # of any kind: drivers wait for this report
                if isinstance(error, ModuleNotFoundError) and error.name == "raycompat":
                    reason = f"raycompat {wanted} is not installed there."
                else:
                    reason = str(error) or repr(error)
                worker.batched_stream.send({"op": unfit, "reason": reason})

        async def teardown(self, worker: Worker) -> None:
            if self.membership is not None:
                self.membership.leave()

        def transition(self, key: object, start: str, finish: str, **_: object) -> None:
            if finish == "ready" and self.membership is not None:
                self.membership.task_is_ready(key)

    return NodePlugin()
