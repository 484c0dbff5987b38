"""`ray.util.data` (1.0 to 1.13): `MLDataset`, an iterator over tables of pandas, which actors make."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from operator import methodcaller
from typing import TYPE_CHECKING, Any, Never, cast

import numpy as np
import pandas as pd

from raycompat.exceptions import UnsupportedRayFeatureError
from raycompat.util.iter import LocalIterator, ParallelIterator

if TYPE_CHECKING:
    from raycompat._old.sgd.torch_dataset import TorchMLDataset


def from_parallel_iter(
    para_it: ParallelIterator[Any],
    need_convert: bool = True,
    batch_size: int = 32,
    repeated: bool = False,
) -> MLDataset:
    """Return a data set of the items of an iterator.

    Parameters
    ----------
    para_it : ParallelIterator
        Its items are rows (lists, dictionaries or instances of a dataclass), or tables.
    need_convert : bool, default True
        Whether they are rows.
    batch_size : int, default 32
        Rows of a table that is made of them.
    repeated : bool, default False
        Whether the iterator has no end.
    """
    if not need_convert:
        return MLDataset.from_parallel_it(para_it, 0, repeated)
    tables = para_it.batch(batch_size).for_each(_table_of)
    return MLDataset.from_parallel_it(tables, batch_size, repeated)


def _table_of(rows: list[Any]) -> pd.DataFrame:
    if dataclasses.is_dataclass(rows[0]):
        names = [field.name for field in dataclasses.fields(rows[0])]
        return pd.DataFrame([[getattr(row, name) for name in names] for row in rows], columns=names)
    return pd.DataFrame([row if hasattr(row, "__getitem__") else list(row) for row in rows])


class MLDataset(ParallelIterator[pd.DataFrame]):
    """Tables in shards; its operators are those of `ParallelIterator`, and return data sets.

    Parameters
    ----------
    actor_sets, name, parent_iterators
        Those of a `ParallelIterator`. Use `from_parallel_iter` instead.
    batch_size : int
        Rows of each table; 0 if it is not known.
    repeated : bool
        Whether the data have no end.

    Notes
    -----
    Ray source: ``ray.util.data.MLDataset``, 1.12.1. Differs from Ray: no ``from_modin`` and ``to_tf``.
    """

    def __init__(
        self,
        actor_sets: Sequence[Any],
        name: str,
        parent_iterators: Sequence[ParallelIterator[Any]],
        batch_size: int,
        repeated: bool,
    ) -> None:
        super().__init__(actor_sets, name, parent_iterators)
        self.batch_size, self.repeated = batch_size, repeated

    @staticmethod
    def from_parallel_it(
        para_it: ParallelIterator[Any], batch_size: int, repeated: bool = False
    ) -> MLDataset:
        """Return a data set of an iterator over tables."""
        return MLDataset(
            para_it.actor_sets, para_it.name, para_it.parent_iterators, batch_size, repeated
        )

    def __repr__(self) -> str:
        return f"MLDataset[{self.name}]"

    def _made(
        self, actor_sets: Sequence[Any], name: str, parents: Sequence[ParallelIterator[Any]]
    ) -> MLDataset:
        return MLDataset(actor_sets, name, parents, self.batch_size, self.repeated)

    def batch(self, n: int) -> MLDataset:
        """Return the same rows in tables of `n` rows; the last table of a shard may have less."""
        made = cast("MLDataset", self.transform(partial(_in_batches, n)))
        made.batch_size = n
        return made

    def local_shuffle(
        self, shuffle_buffer_size: int, seed: int | None = None
    ) -> ParallelIterator[pd.DataFrame]:
        """Change the order of each shard's tables, and of the rows in each table, at random."""
        shuffled = super().local_shuffle(shuffle_buffer_size, seed)
        return shuffled.for_each(methodcaller("sample", frac=1, random_state=seed))

    def get_repeatable_shard(
        self,
        index: int,
        batch_ms: int = 0,
        num_async: int = 1,
        shuffle: bool = False,
        shuffle_buffer_size: int = 1,
        seed: int | None = None,
    ) -> Iterable[pd.DataFrame]:
        """Return what begins with the first table of a shard each time that it is iterated over.

        Parameters
        ----------
        index : int
            The shard; -1 for the tables of all.
        batch_ms, num_async : int
            As of `ParallelIterator.get_shard`.
        shuffle : bool, default False
            Whether tables and their rows come in an order of chance.
        shuffle_buffer_size : int, default 1
            From how many tables the next one is taken.
        seed : int, optional
        """
        return _Shard(self, index, batch_ms, num_async, shuffle_buffer_size if shuffle else 0, seed)

    def to_torch(
        self,
        feature_columns: Any = None,
        feature_shapes: Any = None,
        feature_types: Any = None,
        label_column: Any = None,
        label_shape: int | None = None,
        label_type: Any = None,
    ) -> TorchMLDataset:
        """Return the data as tensors; for the parameters see `TorchMLDataset`."""
        from raycompat._old.sgd.torch_dataset import TorchMLDataset

        features = (feature_columns, feature_shapes, feature_types)
        return TorchMLDataset(self, *features, label_column, label_shape, label_type)

    def to_tf(self, *args: object, **options: object) -> Never:
        """Refuse; `raycompat.data.Dataset` has such a method."""
        raise UnsupportedRayFeatureError(
            "MLDataset.to_tf", "Ray has replaced its MLDataset", "use ray.data.Dataset.to_tf"
        )


@dataclasses.dataclass(frozen=True)
class _Shard:
    """The tables of one shard, or of all; shuffled where the buffer has a size."""

    data: MLDataset
    index: int
    batch_ms: int
    num_async: int
    buffer_size: int
    seed: int | None

    def __iter__(self) -> Iterator[pd.DataFrame]:
        tables: LocalIterator[pd.DataFrame]
        if self.index < 0:
            tables = self.data.gather_async(self.batch_ms, self.num_async)
        else:
            tables = self.data.get_shard(self.index, self.batch_ms, self.num_async)
        if not self.buffer_size:
            return iter(tables)
        rng = np.random.default_rng(self.seed)
        shuffled = tables.shuffle(self.buffer_size, self.seed)
        return (table.sample(frac=1, random_state=rng) for table in shuffled)


def _in_batches(num_rows: int, tables: Iterable[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    left: pd.DataFrame | None = None
    for table in tables:
        left = table if left is None else pd.concat([left, table])
        while len(left) >= num_rows:
            yield left.iloc[:num_rows].reset_index(drop=True)
            left = left.iloc[num_rows:]
    if left is not None and len(left):
        yield left.reset_index(drop=True)


__all__ = ["MLDataset", "from_parallel_iter"]
