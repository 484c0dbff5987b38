"""GPUs that several nodes of a host can use: each GPU belongs to one of these nodes.

Every Dask worker of a host reports the GPUs that it may use. dask-cuda, for example, starts one worker
for each GPU and lets all of them see all GPUs, in rotated order. Counted per worker, a host with two
GPUs would have four.

A GPU that belongs to another node after a node has come or left moves there when nobody holds it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from raycompat._scheduler.capacity import Capacity


def divide(lists: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Return the node of each GPU, for lists of GPUs by node.

    The nodes choose in rounds. In each round, a node takes the first GPU of its list that is left.
    Nodes with short lists choose first, because they have no other choice; then those that came first.
    """
    found: dict[str, str] = {}
    choosing = {
        node: iter(lists[node]) for node in sorted(lists, key=lambda each: len(lists[each]))
    }
    while choosing:
        for node, wishes in list(choosing.items()):
            gpu = next((each for each in wishes if each not in found), None)
            if gpu is None:
                del choosing[node]
            else:
                found[gpu] = node
    return found


class GpuShares:
    """Gives the GPUs that nodes report to these nodes.

    Parameters
    ----------
    nodes : mapping of str to Capacity
        The nodes of the ledger, by their ids.
    """

    def __init__(self, nodes: Mapping[str, Capacity]) -> None:
        self._nodes = nodes
        #: The ids of the GPUs that a node reports, by their indices there.
        self._lists: dict[str, Sequence[str]] = {}
        #: The node to which each GPU belongs, and the one that has it now.
        self._belongs: dict[str, str] = {}
        self._owners: dict[str, str] = {}
        #: Whether a GPU is still held on a node to which it does not belong.
        self.is_unsettled = False

    def add(self, node_id: str, gpus: Sequence[str]) -> None:
        """Add the GPUs of a node, which has none of them before `settle`."""
        self._lists[node_id] = gpus
        self._belongs = divide(self._lists)
        self.is_unsettled = True

    def remove(self, node_id: str) -> None:
        """Remove a node, whose GPUs others may use."""
        if self._lists.pop(node_id, None) is not None:
            self._owners = {gpu: node for gpu, node in self._owners.items() if node != node_id}
            self._belongs = divide(self._lists)
            self.is_unsettled = True

    def settle(self) -> bool:
        """Move the GPUs that no call holds to where they belong; return whether any was moved."""
        moved = [gpu for gpu in self._misplaced() if self._leave_owner(gpu)]
        for gpu in moved:
            self._owners[gpu] = node_id = self._belongs[gpu]
            self._nodes[node_id].add_gpu(self._lists[node_id].index(gpu))
        self.is_unsettled = next(self._misplaced(), None) is not None
        return bool(moved)

    def _misplaced(self) -> Iterator[str]:
        return (gpu for gpu, node in self._belongs.items() if self._owners.get(gpu) != node)

    def _leave_owner(self, gpu: str) -> bool:
        owner = self._owners.get(gpu)
        return owner is None or self._nodes[owner].drop_gpu(self._lists[owner].index(gpu))
