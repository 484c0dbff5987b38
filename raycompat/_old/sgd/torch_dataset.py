"""Data of ``ray.util.sgd`` (0.8 to 1.13): `Dataset` of items, `TorchMLDataset` of tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol, cast

import numpy as np
import pandas as pd
import torch
from torch.utils.data import IterableDataset

from raycompat.util.iter import LocalIterator, ParallelIterator, from_iterators


class Dataset:
    """Items in batches, for ``TorchTrainer.train(dataset=...)``, which gives each worker a shard.

    Parameters
    ----------
    data : iterable or ParallelIterator
        The items. An iterable begins again at its end.
    batch_size : int, default 32
    download_func : callable, optional
        Takes an item; returns a pair of tensors, input and target.
    max_concurrency : int, default 0
        Calls of `download_func` at a time; 0 is 1.
    transform : callable, optional
        It has no effect, as in Ray.

    Notes
    -----
    Ray source: ``ray.util.sgd.data.Dataset``, 1.12.1. Differs from Ray: without `max_concurrency`,
    items that have no end are not all requested at once.
    """

    def __init__(
        self,
        data: Iterable[Any] | ParallelIterator[Any],
        batch_size: int = 32,
        download_func: Callable[[Any], Any] | None = None,
        max_concurrency: int = 0,
        transform: Callable[[Any], Any] | None = None,
    ) -> None:
        items = (
            data.repartition(1)
            if isinstance(data, ParallelIterator)
            else from_iterators([data], repeat=True)
        )
        if download_func is not None:
            # The tasks take no CPUs: the trainer's workers, which wait for them, may hold all.
            items = items.for_each(download_func, max_concurrency or 1, {"num_cpus": 0})
        self.iter: ParallelIterator[list[Any]] = items.batch(batch_size)
        self.batch_size = batch_size
        self.max_concurrency = max_concurrency
        self.transform = transform

    def set_num_shards(self, num_shards: int) -> None:
        """Deal the batches out to another number of shards."""
        if num_shards != self.iter.num_shards():
            self.iter = self.iter.repartition(num_shards)

    def get_shard(self, i: int) -> LocalIterator[list[Any]]:
        """Return the batches of a shard."""
        return self.iter.get_shard(i)


class Tables(Protocol):
    """What `TorchMLDataset` and `TFMLDataset` ask of an `MLDataset`, which makes and so knows them."""

    def num_shards(self) -> int: ...

    def repartition(self, num_partitions: int) -> object: ...

    def get_repeatable_shard(
        self,
        index: int,
        batch_ms: int,
        num_async: int,
        shuffle: bool,
        shuffle_buffer_size: int,
        seed: int | None,
    ) -> Iterable[pd.DataFrame]: ...


class TorchMLDataset:
    """The columns of an `MLDataset` as tensors.

    Parameters
    ----------
    ds : MLDataset
    feature_columns : name or list of names
    feature_shapes : list, optional
        The shape of a row in each column. By default ``[1]``.
    feature_types : list of torch.dtype, optional
        By default ``torch.float``.
    label_column : name
    label_shape : int, optional
        The length of a label. By default 1.
    label_type : torch.dtype, optional
        By default ``torch.float``.

    Notes
    -----
    Ray source: ``ray.util.sgd.torch.torch_dataset.TorchMLDataset``, 1.12.1. No known difference.
    """

    def __init__(
        self,
        ds: Tables,
        feature_columns: Any = None,
        feature_shapes: Any = None,
        feature_types: Any = None,
        label_column: Any = None,
        label_shape: int | None = None,
        label_type: torch.dtype | None = None,
    ) -> None:
        self._ds = ds
        names = _listed(feature_columns)
        shapes = _listed(feature_shapes) or [None] * len(names)
        types = _listed(feature_types) or [torch.float] * len(names)
        features = list(zip(names, shapes, types, strict=True))
        self._columns = [*features, (label_column, label_shape, label_type or torch.float)]

    def set_num_shards(self, num_shards: int) -> None:
        """Deal the tables out to another number of shards."""
        if num_shards != self._ds.num_shards():
            self._ds = cast("Tables", self._ds.repartition(num_shards))

    def get_shard(
        self,
        shard_index: int,
        batch_ms: int = 0,
        num_async: int = 1,
        shuffle: bool = False,
        shuffle_buffer_size: int = 1,
        seed: int | None = None,
    ) -> IterableDataset[tuple[torch.Tensor, ...]]:
        """Return the rows of a shard: tuples of the features and the label.

        For the parameters see `MLDataset.get_repeatable_shard`.
        """
        tables = self._ds.get_repeatable_shard(
            shard_index, batch_ms, num_async, shuffle, shuffle_buffer_size, seed
        )
        return _Rows(tables, self._columns)


class _Rows(IterableDataset[tuple[torch.Tensor, ...]]):
    """The rows of tables, as tensors of some columns."""

    def __init__(
        self, tables: Iterable[pd.DataFrame], columns: list[tuple[Any, Any, torch.dtype]]
    ) -> None:
        self._tables, self._columns = tables, columns

    def __iter__(self) -> Iterator[tuple[torch.Tensor, ...]]:
        for table in self._tables:
            columns = [_tensor(table[name], *form) for name, *form in self._columns]
            yield from zip(*columns, strict=True)


def _tensor(column: pd.Series[Any], shape: Any, dtype: torch.dtype) -> torch.Tensor:
    values = column.to_numpy()
    values = np.stack(list(values)) if values.dtype == object else values.copy()
    return torch.as_tensor(values, dtype=dtype).reshape(-1, *(_listed(shape) or [1]))


def _listed(given: Any) -> list[Any]:
    if given is None:
        return []
    return list(given) if isinstance(given, list | tuple | torch.Size) else [given]


__all__ = ["Dataset", "TorchMLDataset"]
