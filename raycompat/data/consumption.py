"""Reading a data set's rows: the methods of `Dataset` that execute its plan."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import pandas as pd

import raycompat as ray
from raycompat._old_forms.data import keys, plain_rows, tf
from raycompat._surface import forms
from raycompat.data import aggregate, batch, block, frames, tensor
from raycompat.data.aggregation import Aggregation
from raycompat.data.block import Block, BlockEntry, Bundle, RefBundle
from raycompat.data.context import DataContext
from raycompat.data.iterator import DataIterator, DatasetIterator, Executed
from raycompat.data.plan import Node
from raycompat.data.streaming_split import streaming_split

if TYPE_CHECKING:
    import dask.dataframe
    import numpy as np
    import torch

    from raycompat.data.block import Row
    from raycompat.data.schema import Schema
    from raycompat.data.stats import ExecutionStats
    from raycompat.data.tensorflow import TfDtypes, TypeSpecs
    from raycompat.data.torch import TorchDtypes
    from raycompat.object_ref import ObjectRef

#: What a function makes of a block.
_Made = TypeVar("_Made")


class Consumption:
    """The methods of a data set that return its content."""

    _plan: Node
    _stats: ExecutionStats | None
    _bundles: Callable[..., Iterator[Bundle]]
    _context: DataContext
    limit: Callable[[int], Consumption]
    columns: Callable[..., list[str] | None]
    schema: Callable[..., Schema | None]
    split: Callable[..., Sequence[Executed]]
    aggregate: Callable[..., Any]

    # Rows.

    def take(self, limit: int = 20) -> list[Row]:
        """Return the first rows, as dictionaries of Python values.

        Parameters
        ----------
        limit : int, default 20
            Rows at most.

        Examples
        --------
        >>> ray.data.range(100).take(2)
        [{'id': 0}, {'id': 1}]
        """
        return list(self.limit(limit).iterator().iter_rows())

    def take_all(self, limit: int | None = None) -> list[Row]:
        """Return all rows, as dictionaries of Python values.

        Parameters
        ----------
        limit : int, optional
            More rows than these are an error.

        Examples
        --------
        >>> ray.data.range(2).take_all()
        [{'id': 0}, {'id': 1}]

        Raises
        ------
        ValueError
            When there are more than `limit`.
        """
        rows = []
        for row in self.iter_rows():
            rows.append(row)
            if limit is not None and len(rows) > limit:
                raise ValueError(
                    f"take_all(limit={limit}): there are more rows. Call take({limit})."
                )
        return rows

    def take_batch(self, batch_size: int = 20, *, batch_format: str | None = "default") -> Any:
        """Return the first rows as one batch.

        Parameters
        ----------
        batch_size : int, default 20
            Rows at most.
        batch_format : {"default", "numpy", "pandas", "pyarrow", None}
            A dictionary of arrays (default), a DataFrame or a table.

        Examples
        --------
        >>> ray.data.range(100).take_batch(3)["id"].tolist()
        [0, 1, 2]

        Raises
        ------
        ValueError
            When the data set has no rows.
        """
        batch.check_size(batch_size)
        batches = (
            self.limit(batch_size)
            .iterator()
            .iter_batches(batch_size=batch_size, batch_format=batch_format)
        )
        for each in batches:
            return each
        raise ValueError("take_batch: the data set has no rows.")

    def show(self, limit: int = 20) -> None:
        """Print the first `limit` rows.

        Examples
        --------
        >>> ray.data.range(2).show()
        {'id': 0}
        {'id': 1}
        """
        for row in self.take(limit):
            print(row)

    def count(self) -> int:
        """Return the number of rows; the plan is executed if that is not known otherwise.

        Examples
        --------
        >>> ray.data.range(10).count()
        10
        """
        known = self._plan.num_rows()
        return known if known is not None else sum(bundle.num_rows for bundle in self._bundles())

    def size_bytes(self) -> int:
        """Return the bytes that the blocks take in memory; the plan is executed.

        Examples
        --------
        >>> ray.data.range(10).materialize().size_bytes()
        80
        """
        return sum(bundle.size_bytes for bundle in self._bundles())

    def input_files(self) -> list[str]:
        """Return the files that the rows were read from; the plan is executed.

        Examples
        --------
        >>> ray.data.range(3).input_files()
        []
        """
        from raycompat.data import plan

        node = self._plan
        paths: set[str] = set()
        pending = [node]
        while pending:
            node = pending.pop()
            pending.extend(node.inputs)
            if isinstance(node, plan.Read):
                paths.update(
                    file for task in node.read_tasks for file in task.metadata.input_files or ()
                )
            elif isinstance(node, plan.Input):
                paths.update(
                    file for each in node.bundles for file in each.metadata.input_files or ()
                )
        return sorted(paths)

    def stats(self) -> str:
        """Return a text about the last execution, operator by operator.

        Examples
        --------
        >>> "range" in ray.data.range(10).materialize().stats().lower()
        True

        Notes
        -----
        Ray source: ``Dataset.stats``, 2.60.0. Differs from Ray: the text.
        """
        return self._stats.text() if self._stats is not None else ""

    # Iteration.

    def iterator(self) -> DataIterator:
        """Return an iterator that can read the rows several times.

        Examples
        --------
        >>> iterator = ray.data.range(5).iterator()
        >>> [len(batch["id"]) for batch in iterator.iter_batches(batch_size=5)]
        [5]
        """
        return DatasetIterator(self)

    @forms.takes_old_options("ray.data.Dataset.iter_rows")
    def iter_rows(self) -> Iterable[Row]:
        """Return an iterable of rows; see `DataIterator.iter_rows`.

        Examples
        --------
        >>> sum(row["id"] for row in ray.data.range(5).iter_rows())
        10
        """
        return self.iterator().iter_rows()

    @forms.takes_old_options("ray.data.Dataset.iter_batches")
    def iter_batches(
        self,
        *,
        prefetch_batches: int = 1,
        batch_size: int | None = 256,
        batch_format: str | None = "default",
        drop_last: bool = False,
        local_shuffle_buffer_size: int | None = None,
        local_shuffle_seed: int | None = None,
        _collate_fn: Callable[[Any], object] | None = None,
    ) -> Iterable[Any]:
        """Return an iterable of batches; see `DataIterator.iter_batches`.

        Examples
        --------
        >>> [
        ...     len(batch["id"])
        ...     for batch in ray.data.range(10).iter_batches(batch_size=4)
        ... ]
        [4, 4, 2]
        """
        return self.iterator().iter_batches(
            prefetch_batches=prefetch_batches,
            batch_size=batch_size,
            batch_format=batch_format,
            drop_last=drop_last,
            local_shuffle_buffer_size=local_shuffle_buffer_size,
            local_shuffle_seed=local_shuffle_seed,
        )

    @forms.takes_old_options("ray.data.Dataset.iter_tf_batches")
    def iter_tf_batches(
        self,
        *,
        prefetch_batches: int = 1,
        batch_size: int | None = 256,
        dtypes: TfDtypes | None = None,
        drop_last: bool = False,
        local_shuffle_buffer_size: int | None = None,
        local_shuffle_seed: int | None = None,
    ) -> Iterable[Any]:
        """Return an iterable of batches of tensors; see `DataIterator.iter_tf_batches`.

        Examples
        --------
        >>> for batch in ray.data.range(4).iter_tf_batches(batch_size=4):
        ...     print(batch["id"].numpy())
        [0 1 2 3]
        """
        return self.iterator().iter_tf_batches(
            prefetch_batches=prefetch_batches,
            batch_size=batch_size,
            dtypes=dtypes,
            drop_last=drop_last,
            local_shuffle_buffer_size=local_shuffle_buffer_size,
            local_shuffle_seed=local_shuffle_seed,
        )

    @forms.takes_old_options("ray.data.Dataset.iter_torch_batches")
    def iter_torch_batches(
        self,
        *,
        prefetch_batches: int = 1,
        batch_size: int | None = 256,
        dtypes: TorchDtypes | None = None,
        device: str | torch.device = "auto",
        collate_fn: Callable[[Any], object] | None = None,
        drop_last: bool = False,
        local_shuffle_buffer_size: int | None = None,
        local_shuffle_seed: int | None = None,
        pin_memory: bool = False,
    ) -> Iterable[Any]:
        """Return an iterable of batches of tensors; see `DataIterator.iter_torch_batches`.

        Examples
        --------
        In a program with PyTorch::

            for batch in ray.data.range(1000).iter_torch_batches(batch_size=100):
                loss = compute_loss(batch["id"])

        Notes
        -----
        Ray source: ``Dataset.iter_torch_batches``, 2.60.0. Differs: see there.
        """
        return self.iterator().iter_torch_batches(
            prefetch_batches=prefetch_batches,
            batch_size=batch_size,
            dtypes=dtypes,
            device=device,
            collate_fn=collate_fn,
            drop_last=drop_last,
            local_shuffle_buffer_size=local_shuffle_buffer_size,
            local_shuffle_seed=local_shuffle_seed,
            pin_memory=pin_memory,
        )

    @tf.takes_a_signature
    def to_tf(
        self,
        feature_columns: str | list[str],
        label_columns: str | list[str],
        *,
        additional_columns: str | list[str] | None = None,
        prefetch_batches: int = 1,
        batch_size: int = 1,
        drop_last: bool = False,
        local_shuffle_buffer_size: int | None = None,
        local_shuffle_seed: int | None = None,
        feature_type_spec: TypeSpecs | None = None,
        label_type_spec: TypeSpecs | None = None,
        additional_type_spec: TypeSpecs | None = None,
    ) -> Any:
        """Return a ``tf.data.Dataset`` for ``model.fit``; see `DataIterator.to_tf`.

        Examples
        --------
        >>> rows = ray.data.from_items([{"age": 20, "size": 4}, {"age": 30, "size": 6}])
        >>> for age, size in rows.to_tf("age", "size", batch_size=2):
        ...     print(age.numpy(), size.numpy())
        [20 30] [4 6]
        """
        return self.iterator().to_tf(
            feature_columns,
            label_columns,
            additional_columns=additional_columns,
            prefetch_batches=prefetch_batches,
            batch_size=batch_size,
            drop_last=drop_last,
            local_shuffle_buffer_size=local_shuffle_buffer_size,
            local_shuffle_seed=local_shuffle_seed,
            feature_type_spec=feature_type_spec,
            label_type_spec=label_type_spec,
            additional_type_spec=additional_type_spec,
        )

    def streaming_split(
        self, n: int, *, equal: bool = False, locality_hints: Sequence[object] | None = None
    ) -> list[DataIterator]:
        """Return one iterator for each of `n` processes; together they read each row once.

        Parameters
        ----------
        n : int
            Number of iterators. Each epoch starts when all of them have requested it.
        equal : bool, default False
            Give each exactly as many rows; up to ``n - 1`` rows are dropped.
        locality_hints : list, optional
            Has no effect: blocks are read where they are.

        Examples
        --------
        >>> first, second = ray.data.range(4).streaming_split(2, equal=True)
        >>> @ray.remote
        ... def count(part):
        ...     return sum(1 for row in part.iter_rows())
        >>> ray.get([count.remote(first), count.remote(second)])
        [2, 2]
        """
        if not isinstance(n, int) or n < 1:
            raise ValueError(f"n={n!r} is not a number of iterators: give 1 or more.")
        if locality_hints is not None and len(locality_hints) != n:
            raise ValueError(f"locality_hints has {len(locality_hints)} items for {n} iterators.")
        return streaming_split(self, n, equal)

    # Aggregations.

    def unique(self, column: str, ignore_nulls: bool = False) -> list[Any]:
        """Return the different values of a column.

        Parameters
        ----------
        column : str
            The column.
        ignore_nulls : bool, default False
            Ignore missing values.

        Examples
        --------
        >>> sorted(ray.data.from_items([1, 2, 1]).unique("item"))
        [1, 2]

        Notes
        -----
        Ray source: ``Dataset.unique``, 2.60.0. Differs from Ray: with ``ignore_nulls=True`` NaN is
        left out; there it is kept.
        """
        result = self.aggregate(aggregate.Unique(column, ignore_nulls, "unique"))
        return (result or {}).get("unique") or []

    def sum(self, on: str | list[str] | None = None, ignore_nulls: bool = True) -> Any:
        """Return the sum of a column, or a dictionary with the sums of several.

        Parameters
        ----------
        on : str or list of str, optional
            The columns. Default: all. For one column, the result is a number.
        ignore_nulls : bool, default True
            Ignore missing values; otherwise the result is None if there are any.

        Examples
        --------
        >>> ray.data.range(5).sum("id")
        10

        Notes
        -----
        Ray source: ``Dataset.sum``, 2.60.0. Differs from Ray: with ``ignore_nulls=True`` NaN is
        left out; there the result can be None for it.
        """
        return self._of_columns(aggregate.Sum, on, ignore_nulls)

    def min(self, on: str | list[str] | None = None, ignore_nulls: bool = True) -> Any:
        """Return the least value of a column; for the parameters see `sum`.

        Examples
        --------
        >>> ray.data.range(5).min("id")
        0
        """
        return self._of_columns(aggregate.Min, on, ignore_nulls)

    def max(self, on: str | list[str] | None = None, ignore_nulls: bool = True) -> Any:
        """Return the greatest value of a column; for the parameters see `sum`.

        Examples
        --------
        >>> ray.data.range(5).max("id")
        4
        """
        return self._of_columns(aggregate.Max, on, ignore_nulls)

    def mean(self, on: str | list[str] | None = None, ignore_nulls: bool = True) -> Any:
        """Return the mean of a column; for the parameters see `sum`.

        Examples
        --------
        >>> ray.data.range(5).mean("id")
        2.0

        Notes
        -----
        Ray source: ``Dataset.mean``, 2.60.0. Differs from Ray: with ``ignore_nulls=True`` NaN is
        left out; there the result can be None for it.
        """
        return self._of_columns(aggregate.Mean, on, ignore_nulls)

    def std(
        self, on: str | list[str] | None = None, ddof: int = 1, ignore_nulls: bool = True
    ) -> Any:
        """Return the standard deviation of a column.

        Parameters
        ----------
        on, ignore_nulls : optional
            As for `sum`.
        ddof : int, default 1
            The divisor is the number of values minus this number.

        Examples
        --------
        >>> round(ray.data.range(5).std("id"), 3)
        1.581

        Notes
        -----
        Ray source: ``Dataset.std``, 2.60.0. Differs from Ray: with ``ignore_nulls=True`` NaN is
        left out; there the result can be None for it.
        """
        return self._of_columns(partial(aggregate.Std, ddof=ddof), on, ignore_nulls)

    @keys.aggregates_by_function
    def _of_columns(
        self,
        kind: Callable[..., Aggregation],
        on: str | Sequence[str] | None,
        ignore_nulls: bool,
    ) -> Any:
        names = (
            [on] if isinstance(on, str) else list(on if on is not None else self.columns() or ())
        )
        if not names:
            return None
        results = self.aggregate(*(kind(name, ignore_nulls=ignore_nulls) for name in names))
        return next(iter(results.values())) if results and len(names) == 1 else results

    # Other libraries.

    def to_pandas(self, limit: int | None = None) -> pd.DataFrame:
        """Return all rows as one DataFrame.

        Parameters
        ----------
        limit : int, optional
            More rows than these are an error.

        Examples
        --------
        >>> ray.data.range(3).to_pandas()["id"].tolist()
        [0, 1, 2]

        Notes
        -----
        The columns have Arrow's types (``int64[pyarrow]``), or those of the DataFrames that were given
        to `from_pandas`. `DataContext` has the setting for numpy's types.

        Ray source: ``Dataset.to_pandas``, 2.60.0. No known difference.
        """
        if limit is not None and self.count() > limit:
            raise ValueError(f"to_pandas(limit={limit}): there are more rows. Call limit({limit}).")
        tables = [ray.get(bundle.ref) for bundle in self._bundles()]
        try:
            return frames.to_pandas(plain_rows.shown(block.concat(tables)))
        except ValueError:  # a column has another type in some blocks: one of Python's objects here
            parts = [frames.to_pandas(table).astype(object) for table in tables]
            return pd.concat(parts, ignore_index=True).infer_objects()

    def to_pandas_refs(self) -> list[ObjectRef[pd.DataFrame]]:
        """Return a reference to a DataFrame for each block.

        Examples
        --------
        >>> frames = ray.get(ray.data.range(3).to_pandas_refs())
        >>> sum(len(frame) for frame in frames)
        3
        """
        arrow_backed = DataContext.get_current().enable_arrow_backed_pandas_conversion
        return self._converted(
            lambda table: frames.to_pandas(plain_rows.shown(table), arrow_backed)
        )

    def to_numpy_refs(self, *, column: str | None = None) -> list[Any]:
        """Return a reference to a dictionary of arrays for each block, or to the array of `column`.

        Examples
        --------
        >>> batches = ray.get(ray.data.range(3).to_numpy_refs())
        >>> sum(len(batch["id"]) for batch in batches)
        3
        """
        if column is None:
            return self._converted(block.to_numpy)

        def to_array(table: Block) -> np.ndarray:
            block.require_columns([column], table.column_names, "to_numpy_refs")
            return tensor.to_numpy(table[column])

        return self._converted(to_array)

    def to_arrow_refs(self) -> list[ObjectRef[Block]]:
        """Return a reference to each block, a table.

        A table of rows without columns has the column ``__bsp_stub``, as in Ray: Arrow forgets the
        number of its rows otherwise.

        Examples
        --------
        >>> tables = ray.get(ray.data.range(3).to_arrow_refs())
        >>> sum(table.num_rows for table in tables)
        3
        """
        remove_record = ray.remote(frames.unrecorded)
        return [
            bundle.ref
            if bundle.metadata.schema is None or frames.record_of(bundle.metadata.schema) is None
            else remove_record.remote(bundle.ref)
            for bundle in self._bundles()
        ]

    def _converted(self, function: Callable[[Block], _Made]) -> list[ObjectRef[_Made]]:
        convert = ray.remote(function)
        return [convert.remote(bundle.ref) for bundle in self._bundles()]

    def iter_internal_ref_bundles(self) -> Iterator[RefBundle]:
        """Execute the plan, and yield the references of its blocks as they come.

        Examples
        --------
        >>> numbers = ray.data.range(4, override_num_blocks=2)
        >>> [
        ...     ray.get(bundle.block_refs[0]).num_rows
        ...     for bundle in numbers.iter_internal_ref_bundles()
        ... ]
        [2, 2]

        Notes
        -----
        Ray source: ``Dataset.iter_internal_ref_bundles``, 2.60.0. Differs from Ray: each bundle has one
        block.
        """
        for bundle in self._bundles():
            entry = BlockEntry(bundle.ref, bundle.metadata)
            yield RefBundle((entry,), bundle.metadata.schema)

    def get_internal_block_refs(self) -> list[ObjectRef[Block]]:
        """Return a reference to each block, a table.

        Examples
        --------
        >>> numbers = ray.data.range(4, override_num_blocks=2)
        >>> [ray.get(block).num_rows for block in numbers.get_internal_block_refs()]
        [2, 2]
        """
        return self.to_arrow_refs()

    def to_dask(
        self, meta: pd.DataFrame | None = None, verify_meta: bool = True
    ) -> dask.dataframe.DataFrame:
        """Return a Dask DataFrame of a partition for each block.

        Unless the program has chosen a scheduler of Dask, or has a default client, Dask computes on
        this cluster from now on, because no other place has the blocks.

        Parameters
        ----------
        meta : pandas.DataFrame, optional
            Columns and types. Default: those of the first block.
        verify_meta : bool, default True
            Let Dask compare each partition with `meta`.

        Examples
        --------
        >>> int(ray.data.range(4).to_dask()["id"].sum().compute())
        6

        Notes
        -----
        Ray source: ``Dataset.to_dask``, 2.60.0. Differs from Ray: that sets Dask's scheduler even
        when the program has chosen one.
        """
        import dask
        import dask.dataframe

        if dask.base.get_scheduler() is None:
            dask.config.set(scheduler=_Here("threads"))
        refs = self.to_pandas_refs()
        if meta is None and refs:
            meta = ray.get(refs[0]).iloc[:0]
        parts = [dask.delayed(ref) for ref in refs]
        return dask.dataframe.from_delayed(parts, meta=meta, verify_meta=verify_meta)


class _Here(str):
    """Dask's scheduler: this cluster; without a session, threads, as in Dask.

    Clusters that the program starts get its configuration as JSON: there it is the name of a scheduler.
    """

    __slots__ = ()

    def __call__(self, graph: object, keys: object, **options: object) -> Any:
        if ray.is_initialized():
            return ray.ObjectRef.__dask_scheduler__(graph, keys, **options)
        from dask.threaded import get

        return get(graph, keys, **options)
