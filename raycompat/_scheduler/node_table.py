"""The nodes of the cluster, the workers that are not nodes, and the nodes that have left."""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING

from raycompat._messages.nodes import DepartedNode, NodeInfo

if TYPE_CHECKING:
    from raycompat._dask.scheduler import DaskScheduler
    from raycompat._scheduler.ledger import Ledger

#: Seconds for a worker that has ended to come back: those that Dask gives restarted workers by default.
RETURN_S = 30.0

#: The most seconds for which the end of a restart is awaited.
_LONG_RETURN_S = 300.0

#: The number of departed nodes that `ray.nodes` still shows.
_MANY_DEPARTED = 1000


class NodeTable:
    """What is known of each Dask worker: whether it is a node, and its report."""

    def __init__(self, dask: DaskScheduler, ledger: Ledger) -> None:
        self._dask = dask
        self._ledger = ledger
        #: The report of each node, by its address.
        self.info: dict[str, NodeInfo] = {}
        #: Workers that cannot be nodes, and why.
        self.unfit: dict[str, str] = {}
        #: When workers have joined, by the monotonic clock; others were there before the plugin.
        self.joined: dict[str, float] = {}
        self._began = time.monotonic()
        #: Until when nodes may come back, by the monotonic clock, and how many there were.
        self._return_until, self._num_before = 0.0, 0
        #: The nodes that have left last.
        self.departed: deque[DepartedNode] = deque(maxlen=_MANY_DEPARTED)
        #: The nodes that have left last, by address.
        self._former: dict[str, DepartedNode] = {}

    def current(self, worker: str) -> NodeInfo:
        """Return the report of a node, with those of its GPUs only that belong to it now.

        It reports all that it can use, and other nodes of its host may have some of them.
        """
        info, ledger = self.info[worker].copy(), self._ledger
        info["total"] = ledger.node_total(worker).units()
        if "gpus" in info:
            own = ledger.gpus_of(worker)
            info["gpus"] = [each for each in info["gpus"] if each["index"] in own]
        return info

    def expect_return(self, seconds: float | None) -> None:
        """Note that nodes that leave now may come back within a time: most are started again.

        None and long times count as a few minutes, because not all come back.
        """
        now = time.monotonic()
        seconds = _LONG_RETURN_S if seconds is None else min(seconds, _LONG_RETURN_S)
        if now >= self._return_until:
            self._num_before = 0
        self._num_before = max(self._num_before, len(self.info))
        self._return_until = max(self._return_until, now + seconds)

    def may_come(self) -> bool:
        """Return whether a node may come soon: a worker has joined, or has ended and may return."""
        if time.monotonic() < self._return_until and len(self.info) < self._num_before:
            return True
        since = time.monotonic() - RETURN_S
        return any(self.joined.get(each, self._began) > since for each in self.silent())

    def silent(self) -> list[str]:
        """Return the workers that have not reported yet whether they are nodes."""
        known = self.info.keys() | self.unfit.keys()
        return [address for address in self._dask.workers() if address not in known]

    def id_of(self, address: str | None) -> str | None:
        """Return the id of the node at an address, also of one that has left; None if unknown."""
        if address is None:
            return None
        info = self.known(address)
        return str(info["node_id"]) if info is not None else None

    def known(self, address: str) -> NodeInfo | None:
        """Return the report of the node at an address, also of one that has left; None if unknown."""
        return self.info.get(address) or self._former.get(address)

    def address_of(self, node: str) -> str | None:
        """Return the address of a node by its id or its IP address; None if unknown."""
        return next(
            (each for each, info in self.info.items() if node in (info["node_id"], info["ip"])),
            None,
        )

    def find(self, node: str) -> list[str]:
        """Return the addresses of the nodes whose ids begin with a text."""
        return [
            each for each, info in self.info.items() if node and info["node_id"].startswith(node)
        ]

    def remove(self, worker: str, *, is_expected: bool) -> DepartedNode:
        """Remove a node, and keep its report with those that have left."""
        info = self.current(worker)
        gone = DepartedNode(**info, address=worker, ended=time.time(), is_expected=is_expected)
        self.departed.append(gone)
        self._former.pop(worker, None)
        self._former[worker] = gone
        if len(self._former) > _MANY_DEPARTED:
            del self._former[next(iter(self._former))]
        del self.info[worker]
        return gone
