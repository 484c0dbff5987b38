"""`from_torch`: the items of a data set of PyTorch as rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import raycompat as ray
from raycompat._old_forms.data import plain_rows
from raycompat.data import block
from raycompat.data.block import Block, BlockMetadata
from raycompat.data.dataset import Dataset
from raycompat.data.datasource import Datasource, ReadTask
from raycompat.data.sources import dataset_of
from raycompat.util.scheduling_strategies import NodeAffinitySchedulingStrategy

if TYPE_CHECKING:
    import torch

    from raycompat.data.context import DataContext

#: Items of a PyTorch data set that become one block.
_ITEMS_PER_BLOCK = 4096


class TorchDatasource(Datasource):
    """The items of a data set of PyTorch, which one task reads in order."""

    def __init__(self, dataset: torch.utils.data.Dataset) -> None:
        self._dataset = dataset

    def get_read_tasks(
        self,
        parallelism: int,
        per_task_row_limit: int | None = None,
        data_context: DataContext | None = None,
    ) -> list[ReadTask]:
        """Return one task: such data sets are read in order."""
        return [
            ReadTask(_Items(self._dataset), BlockMetadata(None, None), None, per_task_row_limit)
        ]


class _Items:
    """Reads the items of a data set, in tables."""

    def __init__(self, dataset: torch.utils.data.Dataset) -> None:
        self._dataset = dataset

    def __call__(self) -> Iterator[Block]:
        waiting: list[object] = []
        for item in self._in_order():
            waiting.append(item)
            if len(waiting) == _ITEMS_PER_BLOCK:
                yield block.to_table({plain_rows.column(block.ITEM_COLUMN): waiting})
                waiting = []
        if waiting:
            yield block.to_table({plain_rows.column(block.ITEM_COLUMN): waiting})

    def _in_order(self) -> Iterator[object]:
        if hasattr(self._dataset, "__iter__"):
            yield from self._dataset
            return
        for index in range(len(self._dataset)):  # not to an IndexError, which few of them raise
            yield self._dataset[index]


def from_torch(dataset: torch.utils.data.Dataset, local_read: bool = False) -> Dataset:
    """Return a data set of the items of a ``torch.utils.data.Dataset``.

    Parameters
    ----------
    dataset : torch.utils.data.Dataset
        With items by index, or iterable. One task reads it in order. An item is a row with one column,
        ``item``; tensors become arrays, and tuples stay Python objects.
    local_read : bool, default False
        Whether the task runs on this node, as for files that only this node has.

    Examples
    --------
    In a program with PyTorch::

        digits = torchvision.datasets.MNIST("digits", download=True)
        ray.data.from_torch(digits).map(lambda row: {"digit": row["item"][1]})
    """
    options: dict[str, object] = {}
    if local_read:
        if not ray.is_initialized():
            ray.init()
        node = ray.get_runtime_context().get_node_id()
        strategy = NodeAffinitySchedulingStrategy(node, soft=False)
        options = {"num_cpus": 0, "scheduling_strategy": strategy}
    return dataset_of(TorchDatasource(dataset), -1, 1, None, options)
