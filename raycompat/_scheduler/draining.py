"""Nodes that are drained: no call starts there, and they close when their calls or their time end."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING

from raycompat._messages.nodes import IDLE_TERMINATION, DrainNode
from raycompat._scheduler.drains import Drain

if TYPE_CHECKING:
    from raycompat._scheduler.ground import Ground
    from raycompat._scheduler.groups import Groups
    from raycompat._scheduler.leases import Leases
    from raycompat._scheduler.restarts import Restarts

logger = logging.getLogger(__name__)

#: Seconds after the deadline for the values of a node to move to other nodes.
_MOVE_S = 10.0

#: Seconds until a node is tried again whose values no other node could take.
_AGAIN_S = 10.0

#: The longest time until a deadline: ten years.
_LONGEST_S = 10 * 365 * 86_400


class Draining:
    """The nodes that are drained."""

    def __init__(
        self,
        ground: Ground,
        groups: Groups,
        leases: Leases,
        restarts: Restarts,
    ) -> None:
        self._ground = ground
        self._groups = groups
        self._leases = leases
        self._restarts = restarts
        self._dask = ground.dask
        #: The work of closing nodes.
        self._closing: set[asyncio.Task[None]] = set()

    def begin(self, request: DrainNode) -> dict[str, str]:
        """Drain a node, or change its deadline; see `DrainNode`."""
        found = self._ground.nodes.find(request.node)
        if len(found) != 1:
            count = (
                f"{len(found)} nodes have ids that begin with" if found else "No node has the id"
            )
            text = f"{count} {request.node!r}. `raycompat list nodes` shows the ids."
            return {"error": text}
        (address,) = found
        if request.reason == IDLE_TERMINATION and (num_busy := self._num_busy(address)):
            name = self._ground.nodes.info[address]["name"]
            text = (
                f"The node {name} is not idle: {num_busy} calls, actors "
                f"or bundles hold resources there. {IDLE_TERMINATION} is for idle nodes; with another "
                "reason, what runs may end first."
            )
            return {"error": text}
        left_s = request.deadline_s
        if left_s is not None and not 0 <= left_s <= _LONGEST_S:
            return {
                "error": f"The deadline is in {left_s} s; expected 0 to {_LONGEST_S} (ten years)."
            }
        self._ground.drains.forget(address)
        deadline = time.time() + left_s if left_s is not None else 0.0
        drain = Drain(request.reason, request.message, deadline)
        self._ground.drains.by_node[address] = drain
        if left_s is not None:
            loop = asyncio.get_running_loop()
            drain.timer = loop.call_later(left_s, self._begin_close, address, drain, True)
        info = self._ground.nodes.info[address]
        text = f"The node {info['name']} ({info['ip']}) is drained: {request.message}"
        self._ground.events.note("WARNING", "RAYLET", text, node_id=info["node_id"])
        logger.info(text)
        self._leases.revoke_all(address)
        self._ground.next_change.notify()
        self._ground.next_round.soon()
        return {}

    def look(self) -> None:
        """Close the nodes on which nothing runs."""
        for address, drain in self._ground.drains.by_node.items():
            is_due = not drain.is_closing and drain.pause is None
            if is_due and not self._num_busy(address):
                drain.is_closing = True
                self._begin_close(address, drain, is_late=False)

    def close(self) -> None:
        """Stop waiting for deadlines."""
        for address in list(self._ground.drains.by_node):
            self._ground.drains.forget(address)

    def _num_busy(self, address: str) -> int:
        """Return the number of calls, actors and bundles that hold resources of a node."""
        holding = self._ground.calls.holding.values()
        return sum(call.address == address for call in holding) + sum(
            row.addresses().count(address) for row in self._groups.all()
        )

    def _begin_close(self, address: str, drain: Drain, is_late: bool) -> None:
        task = asyncio.create_task(self._close(address, drain, is_late=is_late))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def _close(self, address: str, drain: Drain, *, is_late: bool) -> None:
        """Move a node's values to other nodes and close it; at the deadline also where that fails."""
        text = f" The node was drained: {drain.message}."
        self._restarts.note_end(address, text)
        try:
            async with asyncio.timeout(_MOVE_S if is_late else None):
                if await self._dask.retire_worker(address):
                    return
        except TimeoutError:
            logger.warning("The values of a drained node have not moved within %g s.", _MOVE_S)
        finally:
            drain.is_closing = False
        if self._ground.drains.by_node.get(address) is not drain:
            return  # it has left, or there is another request
        if is_late:
            logger.warning("No other node took all values of the drained node %s.", address)
            self._restarts.note_end(address, text)  # an earlier try may have forgotten it
            await self._dask.close_worker(address)
        else:
            self._restarts.forget_end(address)
            loop = asyncio.get_running_loop()
            drain.pause = loop.call_later(_AGAIN_S, self._end_pause, drain)

    def _end_pause(self, drain: Drain) -> None:
        drain.pause = None
        self._ground.next_round.soon()
