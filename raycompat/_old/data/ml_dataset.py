"""`ray.util.data` (1.0 to 1.13): `MLDataset`, an iterator over tables of pandas, which actors make."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from operator import methodcaller
from typing import TYPE_CHECKING, Any, Never, cast

import numpy as np
import pandas as pd
from pyarrow import parquet

from raycompat.exceptions import UnsupportedRayFeatureError
from raycompat.util.iter import LocalIterator, ParallelIterator, from_iterators

if TYPE_CHECKING:
    from raycompat._old.sgd.tf_dataset import TFMLDataset
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
    return MLDataset.from_parallel_it(to_pandas(para_it, batch_size), batch_size, repeated)


def to_pandas(it: ParallelIterator[Any], batch_size: int = 32) -> ParallelIterator[pd.DataFrame]:
    """Return the rows of an iterator in tables of `batch_size` rows."""
    batches = it.batch(batch_size)
    tables = batches.for_each(_table_of)
    tables.name = f"{batches.name}.to_pandas()"
    return tables


def _table_of(rows: list[Any]) -> pd.DataFrame:
    first = rows[0]
    if dataclasses.is_dataclass(first):
        names = [field.name for field in dataclasses.fields(first)]
        return pd.DataFrame([[getattr(row, name) for name in names] for row in rows], columns=names)
    if hasattr(first, "__getitem__"):
        return pd.DataFrame(rows)
    if not hasattr(first, "__iter__"):
        raise ValueError(
            f"{first!r} is not a row of a table: expected a list, a dictionary or an instance of a "
            "dataclass."
        )
    return pd.DataFrame([list(row) for row in rows])


def read_parquet(
    paths: str | list[str],
    num_shards: int,
    rowgroup_split: bool = True,
    shuffle: bool = False,
    shuffle_seed: int | None = None,
    columns: list[str] | None = None,
    **kwargs: Any,
) -> MLDataset:
    """Return a data set of Parquet files, with a table for each row group.

    Parameters
    ----------
    paths : str or list of str
        Files, or a folder.
    num_shards : int
        How many actors read.
    rowgroup_split : bool, default True
        Whether row groups go to the shards in turn, and not whole files.
    shuffle : bool, default False
        Whether they come in an order of chance.
    shuffle_seed : int, optional
    columns : list of str, optional
        Which columns are read. By default all.
    **kwargs
        Arguments of ``pyarrow.parquet.ParquetDataset``, except ``filters``.

    Raises
    ------
    ValueError
        When there are less row groups, or files, than shards.

    Notes
    -----
    Ray source: ``ray.util.data.read_parquet``, 1.12.1. Differs from Ray: `shuffle` has an effect, and
    ``filters`` is refused.
    """
    if "filters" in kwargs:
        raise UnsupportedRayFeatureError(
            "read_parquet(filters=...)",
            "Ray has replaced its MLDataset",
            "use ray.data.read_parquet",
        )
    files = parquet.ParquetDataset(paths, **kwargs)
    pieces = list(files.fragments)
    if rowgroup_split:
        pieces = [group for piece in pieces for group in piece.split_by_row_group()]
    if len(pieces) < num_shards:
        raise ValueError(
            f"num_shards={num_shards}: {paths!r} has only {len(pieces)} "
            f"{'row groups' if rowgroup_split else 'files'}. Each shard needs one."
        )
    if shuffle:
        random.Random(shuffle_seed).shuffle(pieces)
    shards = [_Pieces(pieces[i::num_shards], files.schema, columns) for i in range(num_shards)]
    return MLDataset.from_parallel_it(from_iterators(shards, name="parquet"), 0)


@dataclasses.dataclass(frozen=True)
class _Pieces:
    """The tables of the row groups of some files."""

    fragments: list[Any]
    schema: Any
    columns: list[str] | None

    def __iter__(self) -> Iterator[pd.DataFrame]:
        for fragment in self.fragments:
            for group in fragment.split_by_row_group():
                yield group.to_table(self.schema, columns=self.columns).to_pandas()


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
    Ray source: ``ray.util.data.MLDataset``, 1.12.1. Differs from Ray: ``from_modin`` and
    ``ray.util.data.interface`` are left out, and `flatten` and `combine` raise.
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

    def union(self, other: ParallelIterator[pd.DataFrame]) -> MLDataset:
        """Return a data set of the shards of this and another.

        Raises
        ------
        TypeError
            When the other is not an MLDataset, or only one of both has an end.
        """
        if not isinstance(other, MLDataset):
            raise TypeError(f"other must be of type MLDataset, got {type(other)}")
        if self.repeated != other.repeated:
            raise TypeError(
                f"The data sets have repeated={self.repeated} and repeated={other.repeated}: only one "
                "of them has an end. Expected both to be the same."
            )
        made = cast("MLDataset", super().union(other))
        if self.batch_size != other.batch_size:
            made.batch_size = 0
        return made

    def flatten(self) -> Never:
        """Refuse: the items are tables."""
        raise _no_tables("flatten")

    def combine(self, fn: Callable[[pd.DataFrame], Iterable[Any]]) -> Never:
        """Refuse: the items are tables."""
        raise _no_tables("combine")

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
            As of `ParallelIterator.get_shard`. With ``num_async=0`` the tables of all shards come in
            turn.
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

    def to_tf(self, *args: Any, **options: Any) -> TFMLDataset:
        """Return the columns as data sets of TensorFlow; for the parameters see `TFMLDataset`."""
        from raycompat._old.sgd.tf_dataset import TFMLDataset

        return TFMLDataset(self, *args, **options)


def _no_tables(method: str) -> UnsupportedRayFeatureError:
    return UnsupportedRayFeatureError(
        f"MLDataset.{method}", "What it makes are not tables", "use transform"
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
            tables = (
                self.data.gather_async(self.batch_ms, self.num_async)
                if self.num_async
                else self.data.gather_sync()
            )
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


__all__ = ["MLDataset", "from_parallel_iter", "read_parquet", "to_pandas"]
