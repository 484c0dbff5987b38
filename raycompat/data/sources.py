"""Data sets of values that the program has, of numbers, and of any data source."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa

import raycompat as ray
from raycompat._old_forms.data import plain_rows
from raycompat._upper import upper
from raycompat.data import block, exchange, tasks, tensor
from raycompat.data.block import Block, BlockMetadata, Bundle
from raycompat.data.compute import TaskPoolStrategy
from raycompat.data.context import DataContext
from raycompat.data.dataset import Dataset, MaterializedDataset, from_bundles, put_blocks
from raycompat.data.datasource import Datasource, ReadTask
from raycompat.data.options import remote_args
from raycompat.data.plan import Read
from raycompat.data.sql import SqlDatasource
from raycompat.data.transform import SplitBlocks, Step

if TYPE_CHECKING:
    import dask.dataframe
    import datasets
    import tensorflow as tf

    from raycompat.data.compute import Compute
    from raycompat.data.sql import Connection
    from raycompat.object_ref import ObjectRef

#: Bytes of a block that is read, if there are enough. Each process that makes, copies or reads a block
#: holds one, so smaller blocks need less memory; a task of this size takes far longer than its call.
_READ_BYTES = 32 * 2**20


def num_tasks(
    parallelism: int, num_blocks: int | None, size_bytes: int | None, context: DataContext
) -> int:
    """Return the number of read tasks, as far as the parts of the source allow."""
    for name, value in [("override_num_blocks", num_blocks), ("parallelism", parallelism)]:
        if value is not None and value != -1 and value < 1:
            raise ValueError(f"{name}={value!r} is not a number of 1 or more.")
    if num_blocks is not None:
        return num_blocks
    if parallelism != -1:
        return parallelism
    size = size_bytes or 0
    at_least = -(-size // context.target_max_block_size)
    at_most = size // context.target_min_block_size
    cpus = int(ray.cluster_resources().get("CPU", 1)) if ray.is_initialized() else 2
    enough = max(4 * cpus, -(-size // _READ_BYTES))
    return max(at_least, min(at_most, enough, context.read_op_min_num_blocks), 2 * cpus)


def dataset_of(
    source: Datasource,
    parallelism: int,
    num_blocks: int | None,
    concurrency: int | None,
    options: Mapping[str, object],
) -> Dataset:
    """Return the data set of a data source."""
    context = DataContext.get_current().copy()
    _connect()
    num = num_tasks(parallelism, num_blocks, source.estimate_inmemory_data_size(), context)
    tasks = read_tasks(source, num, context)
    name = source.get_name()
    if not name.startswith("Read"):
        name = f"Read{name}"
    in_execution = None
    if getattr(source, "is_shuffled", False):
        in_execution = functools.partial(_read_tasks_in, source, num, context)
    steps: tuple[Step, ...] = ()
    if tasks and len(tasks) < num and getattr(source, "splits_blocks", True):
        steps = (SplitBlocks(-(-num // len(tasks))),)
    read = Read(name, tasks, TaskPoolStrategy(concurrency), options, in_execution, steps)
    return Dataset(read, context)


def read_tasks(source: Datasource, num: int, context: DataContext) -> list[ReadTask]:
    """Return the tasks of a source, whose method may take fewer arguments than ours: older ones do."""
    more: dict[str, Any] = {"per_task_row_limit": None, "data_context": context}
    parameters = inspect.signature(source.get_read_tasks).parameters
    takes_all = any(each.kind is each.VAR_KEYWORD for each in parameters.values())
    taken = {name: value for name, value in more.items() if takes_all or name in parameters}
    return list(source.get_read_tasks(num, **taken))


def _read_tasks_in(source: Any, num: int, context: DataContext, execution: int) -> list[ReadTask]:
    return read_tasks(source.in_execution(execution), num, context)


def _connect() -> None:
    """Start a cluster if there is none, as Ray does."""
    if not ray.is_initialized():
        ray.init()


class _Range(Datasource):
    """Numbers, or arrays full of them."""

    def __init__(self, num: int, shape: tuple[int, ...] | None) -> None:
        if not isinstance(num, int | np.integer) or num < 0:
            raise ValueError(f"n={num!r} is not a number of rows.")
        self._num = int(num)
        self._shape = shape

    def get_name(self) -> str:
        return "ReadRange"

    def estimate_inmemory_data_size(self) -> int:
        return 8 * self._num * int(np.prod(self._shape or (1,)))

    def get_read_tasks(
        self,
        parallelism: int,
        per_task_row_limit: int | None = None,
        data_context: DataContext | None = None,
    ) -> list[ReadTask]:
        counts = exchange.even(self._num, min(parallelism, self._num)) if self._num else []
        starts = np.cumsum([0, *counts])
        schema = _numbers(0, 0, self._shape).schema
        size = 8 * int(np.prod(self._shape or (1,)))
        shape = self._shape
        return [
            ReadTask(
                _NumbersFrom(int(start), int(start) + count, shape),
                BlockMetadata(count, count * size, [], schema),
                schema,
                per_task_row_limit,
            )
            for start, count in zip(starts, counts, strict=False)
        ]


class _NumbersFrom:
    """Makes the rows of a range, in tables of some megabytes."""

    def __init__(self, start: int, stop: int, shape: tuple[int, ...] | None) -> None:
        self._bounds, self._shape = (start, stop), shape

    def __call__(self) -> Iterator[Block]:
        start, stop = self._bounds
        rows = max(1, _READ_BYTES // (8 * int(np.prod(self._shape or (1,)))))
        for first in _python_range(start, max(stop, start + 1), rows):
            yield _numbers(first, min(first + rows, stop), self._shape)


_python_range = range


def _numbers(start: int, stop: int, shape: tuple[int, ...] | None) -> Block:
    numbers = np.arange(start, stop, dtype=np.int64)
    if shape is None:
        return pa.table({plain_rows.column("id"): numbers})
    column = plain_rows.column(block.TENSOR_COLUMN)
    if start == stop:
        type_ = pa.fixed_shape_tensor(pa.int64(), shape)
        return pa.table({column: pa.array([], type_.storage_type).cast(type_)})
    ones = np.ones((1, *shape), np.int64)
    values = ones * numbers.reshape(-1, *([1] * len(shape)))
    return pa.table({column: tensor.from_numpy(values)})


def range(
    n: int,
    *,
    parallelism: int = -1,
    concurrency: int | None = None,
    override_num_blocks: int | None = None,
) -> Dataset:
    """Return a data set of the integers from 0 to ``n - 1``, in a column ``id``.

    Parameters
    ----------
    n : int
        Number of rows, 0 or more.
    concurrency : int, optional
        Maximum number of concurrent tasks.
    override_num_blocks, parallelism : int, optional
        Blocks to make. Default: by size and CPUs.

    Examples
    --------
    >>> ray.data.range(3).take_all()
    [{'id': 0}, {'id': 1}, {'id': 2}]
    """
    return dataset_of(_Range(n, None), parallelism, override_num_blocks, concurrency, {})


def range_tensor(
    n: int,
    *,
    shape: tuple[int, ...] = (1,),
    parallelism: int = -1,
    concurrency: int | None = None,
    override_num_blocks: int | None = None,
) -> Dataset:
    """Return a data set of arrays, the first full of 0, the second of 1, in a column ``data``.

    Parameters
    ----------
    n : int
        Rows, 0 or more.
    shape : tuple of int, default (1,)
        Of each array.
    concurrency, override_num_blocks, parallelism : int, optional
        As for `range`.

    Examples
    --------
    >>> ray.data.range_tensor(3, shape=(2, 2)).take_batch(3)["data"].shape
    (3, 2, 2)
    """
    source = _Range(n, tuple(shape))
    return dataset_of(source, parallelism, override_num_blocks, concurrency, {})


def read_datasource(
    datasource: Datasource,
    *,
    parallelism: int = -1,
    num_cpus: float | None = None,
    num_gpus: float | None = None,
    memory: float | None = None,
    concurrency: int | None = None,
    compute: Compute | None = None,
    override_num_blocks: int | None = None,
    label_selector: dict[str, str] | None = None,
    fallback_strategy: Sequence[Mapping[str, object]] | None = None,
    max_calls: int | None = None,
    resources: dict[str, float] | None = None,
    accelerator_type: str | None = None,
    runtime_env: Mapping[str, object] | None = None,
    ray_remote_args: Mapping[str, object] | None = None,
    **read_args: object,
) -> Dataset:
    """Return the data set of a user's data source.

    Parameters
    ----------
    datasource : Datasource
        The data source.
    concurrency : int, optional
        Maximum number of concurrent tasks.
    compute : TaskPoolStrategy, optional
        The same setting as an object.
    override_num_blocks, parallelism : int, optional
        Number of tasks to request from the data source.
    num_cpus, num_gpus, memory, label_selector, max_calls, resources, accelerator_type, runtime_env
        Options of each task, as in `raycompat.remote`; others in `ray_remote_args`.
    fallback_strategy
        Not supported.
    **read_args
        Arguments of ``create_reader`` or ``prepare_read`` of a source that has them, as in older Rays.

    Examples
    --------
    >>> ray.data.read_datasource(Words(["abc"])).count()
    3
    """
    options = remote_args(locals())
    if _has_reader(datasource):
        datasource = upper("_old.data.readers").PreparedDatasource(datasource, read_args)
    elif read_args:
        raise TypeError(f"read_datasource() takes no {sorted(read_args)}.")
    if not isinstance(datasource, Datasource):
        raise TypeError(f"{datasource!r} is not a Datasource: subclass raycompat.data.Datasource.")
    if isinstance(compute, TaskPoolStrategy):
        concurrency = compute.size
    return dataset_of(datasource, parallelism, override_num_blocks, concurrency, options)


def _has_reader(source: object) -> bool:
    """Return whether another object reads a source: what the source itself defines comes first."""
    of_older_ray = hasattr(source, "create_reader") or hasattr(source, "prepare_read")
    reads_itself = isinstance(source, Datasource) and all(
        getattr(type(source), name) is not getattr(Datasource, name)
        for name in ("get_read_tasks", "estimate_inmemory_data_size")
    )
    return of_older_ray and not reads_itself


def read_sql(
    sql: str,
    connection_factory: Callable[[], Connection],
    *,
    sql_params: Sequence[object] | Mapping[str, object] | None = None,
    shard_keys: list[str] | None = None,
    shard_hash_fn: str = "MD5",
    parallelism: int = -1,
    num_cpus: float | None = None,
    num_gpus: float | None = None,
    memory: float | None = None,
    concurrency: int | None = None,
    override_num_blocks: int | None = None,
    label_selector: dict[str, str] | None = None,
    fallback_strategy: Sequence[Mapping[str, object]] | None = None,
    max_calls: int | None = None,
    resources: dict[str, float] | None = None,
    accelerator_type: str | None = None,
    runtime_env: Mapping[str, object] | None = None,
    ray_remote_args: Mapping[str, object] | None = None,
) -> Dataset:
    """Return a data set of the rows of a query to a SQL database.

    Parameters
    ----------
    sql : str
        The query.
    connection_factory : callable
        Called without arguments in each task, it returns a connection of Python's DB-API.
    sql_params : sequence or dict, optional
        Values for the marks in the query.
    shard_keys : list of str, optional
        Columns by whose hash the rows are divided among tasks. Default: one task reads all rows.
        Rows without a value (``NULL``) in such a column are not read, as in Ray: choose columns in
        which every row has a value.
    shard_hash_fn : str, default "MD5"
        The database's function that makes a number of the columns. It has ``MOD``, ``ABS`` and, for
        several columns, ``CONCAT`` as well.
    concurrency : int, optional
        Maximum number of concurrent tasks.
    override_num_blocks, parallelism : int, optional
        Number of tasks, with `shard_keys`.
    num_cpus, num_gpus, memory, label_selector, max_calls, resources, accelerator_type, runtime_env
        Options of each task, as in `raycompat.remote`; others in `ray_remote_args`.
    fallback_strategy
        Not supported.
    ray_remote_args : dict, optional
        Further options of `raycompat.remote`.

    Examples
    --------
    >>> import sqlite3
    >>> ray.data.read_sql(
    ...     "SELECT 1 AS one", lambda: sqlite3.connect(":memory:")
    ... ).take_all()
    [{'one': 1}]
    """
    options = remote_args(locals())
    source = SqlDatasource(sql, connection_factory, sql_params, shard_keys, shard_hash_fn)
    return dataset_of(source, parallelism, override_num_blocks, concurrency, options)


def from_items(
    items: Sequence[object], *, parallelism: int = -1, override_num_blocks: int | None = None
) -> MaterializedDataset:
    """Return a data set of a list.

    Parameters
    ----------
    items : list
        Dictionaries are rows; other values are in a column ``item``.
    override_num_blocks, parallelism : int, optional
        Blocks to make. Default: by the number of rows.

    Examples
    --------
    >>> ray.data.from_items([{"name": "a"}, {"name": "b"}]).take_all()
    [{'name': 'a'}, {'name': 'b'}]
    """
    _connect()
    column = plain_rows.column(block.ITEM_COLUMN)
    rows = [item if isinstance(item, Mapping) else {column: item} for item in items]
    context = DataContext.get_current()
    num = num_tasks(parallelism, override_num_blocks, 1024 * len(rows), context)
    counts = exchange.even(len(rows), min(num, len(rows))) if rows else []
    starts = np.cumsum([0, *counts])
    return put_blocks(
        block.from_rows(rows[start : start + count])
        for start, count in zip(starts, counts, strict=False)
    )


def _listed(values: object) -> list[Any]:
    return list(values) if isinstance(values, list | tuple) else [values]


def _require(
    values: Iterable[object], kinds: type | tuple[type, ...], function: str, expected: str
) -> None:
    """Raise a `TypeError` for a value that is not of some kinds."""
    for value in values:
        if not isinstance(value, kinds):
            raise TypeError(
                f"{function}: {value!r} is not {expected}. Give one, or a list of them."
            )


def _split(made: MaterializedDataset, num_blocks: int | None) -> MaterializedDataset:
    return made if num_blocks is None else made.repartition(num_blocks).materialize()


def from_pandas(
    dfs: pd.DataFrame | Sequence[pd.DataFrame], override_num_blocks: int | None = None
) -> MaterializedDataset:
    """Return a data set of DataFrames.

    Parameters
    ----------
    dfs : pandas.DataFrame or list of pandas.DataFrame
        Each becomes a block.
    override_num_blocks : int, optional
        Number of blocks for the rows.

    Examples
    --------
    >>> import pandas as pd
    >>> ray.data.from_pandas(pd.DataFrame({"x": [1, 2]})).take_all()
    [{'x': 1}, {'x': 2}]
    """
    given = _listed(dfs)
    _require(given, pd.DataFrame, "from_pandas", "a pandas.DataFrame")
    _connect()
    return _split(put_blocks(map(block.of_source, given)), override_num_blocks)


def from_arrow(
    tables: pa.Table | bytes | Sequence[pa.Table | bytes], *, override_num_blocks: int | None = None
) -> MaterializedDataset:
    """Return a data set of Arrow tables.

    Parameters
    ----------
    tables : pyarrow.Table, bytes or list of these
        Each becomes a block; bytes are a stream of Arrow's IPC format.
    override_num_blocks : int, optional
        Number of blocks for the rows.

    Examples
    --------
    >>> import pyarrow as pa
    >>> ray.data.from_arrow(pa.table({"x": [1, 2]})).take_all()
    [{'x': 1}, {'x': 2}]
    """
    given = _listed(tables)
    _require(given, (pa.Table, bytes), "from_arrow", "a pyarrow.Table, or bytes of one")
    _connect()
    made = [
        pa.ipc.open_stream(each).read_all() if isinstance(each, bytes) else each for each in given
    ]
    return _split(put_blocks(map(block.to_table, made)), override_num_blocks)


def from_numpy(ndarrays: np.ndarray | Sequence[np.ndarray]) -> MaterializedDataset:
    """Return a data set of the rows of arrays, in a column ``data``.

    Parameters
    ----------
    ndarrays : numpy.ndarray or list of numpy.ndarray
        A block is made of each; its rows are along the first axis.

    Examples
    --------
    >>> import numpy as np
    >>> ray.data.from_numpy(np.arange(3)).take_batch(3)["data"].tolist()
    [0, 1, 2]
    """
    _connect()
    column = plain_rows.column(block.TENSOR_COLUMN)
    return put_blocks(block.to_table({column: each}) for each in _listed(ndarrays))


def from_blocks(blocks: Sequence[pa.Table | pd.DataFrame]) -> MaterializedDataset:
    """Return a data set of `blocks`, which are tables or DataFrames.

    Examples
    --------
    >>> import pyarrow as pa
    >>> ray.data.from_blocks([pa.table({"x": [1]})]).take_all()
    [{'x': 1}]
    """
    _connect()
    return put_blocks(map(block.of_source, blocks))


def _from_refs(
    refs: ObjectRef[Any] | Sequence[ObjectRef[Any]], column: str | None = None
) -> MaterializedDataset:
    """Make tables of values where they are."""
    made = [tasks.make_block.remote(_as_table, column, ref) for ref in _listed(refs)]
    outputs = ray.get([output for output, _ in made])
    return from_bundles(
        [Bundle(ref, output.blocks[0]) for (_, ref), output in zip(made, outputs, strict=True)]
    )


def _as_table(column: str | None, value: object) -> Block:
    return block.of_source(value if column is None else {column: value})


def from_pandas_refs(
    dfs: ObjectRef[pd.DataFrame] | Sequence[ObjectRef[pd.DataFrame]],
) -> MaterializedDataset:
    """Return a data set of DataFrames in the object store; `dfs` are references to them.

    Examples
    --------
    >>> import pandas as pd
    >>> ray.data.from_pandas_refs([ray.put(pd.DataFrame({"x": [1]}))]).take_all()
    [{'x': 1}]
    """
    return _from_refs(dfs)


def from_arrow_refs(
    tables: ObjectRef[pa.Table] | Sequence[ObjectRef[pa.Table]],
) -> MaterializedDataset:
    """Return a data set of Arrow tables in the object store; `tables` are references to them.

    Examples
    --------
    >>> import pyarrow as pa
    >>> ray.data.from_arrow_refs([ray.put(pa.table({"x": [1]}))]).take_all()
    [{'x': 1}]
    """
    return _from_refs(tables)


def from_numpy_refs(
    ndarrays: ObjectRef[np.ndarray] | Sequence[ObjectRef[np.ndarray]],
) -> MaterializedDataset:
    """Return a data set of the rows of arrays in the object store; `ndarrays` are references to them.

    Examples
    --------
    >>> import numpy as np
    >>> ray.data.from_numpy_refs([ray.put(np.arange(2))]).count()
    2
    """
    return _from_refs(ndarrays, plain_rows.column(block.TENSOR_COLUMN))


def from_dask(df: dask.dataframe.DataFrame) -> MaterializedDataset:
    """Return a data set of a Dask DataFrame: a block of each partition.

    Parameters
    ----------
    df : dask.dataframe.DataFrame
        Computed by Dask's own scheduler for it.

    Examples
    --------
    >>> import pandas as pd
    >>> import dask.dataframe as dd
    >>> frame = dd.from_pandas(pd.DataFrame({"x": [1, 2]}), npartitions=2)
    >>> ray.data.from_dask(frame).sum("x")
    3
    """
    import dask

    _connect()
    return put_blocks(block.of_source(part) for part in dask.compute(*df.to_delayed()))


def from_tf(dataset: tf.data.Dataset) -> MaterializedDataset:
    """Return a data set of the elements of a ``tf.data.Dataset``.

    Parameters
    ----------
    dataset : tf.data.Dataset
        Read to its end by this process. Dictionaries are rows, tuples a list in a column ``item``.

    Examples
    --------
    >>> import tensorflow as tf
    >>> squares = tf.data.Dataset.range(4).map(lambda x: {"x": x, "square": x * x})
    >>> ray.data.from_tf(squares).take(2)
    [{'x': 0, 'square': 0}, {'x': 1, 'square': 1}]
    """
    return from_items(list(dataset.as_numpy_iterator()))


def from_huggingface(
    dataset: datasets.Dataset,
    parallelism: int = -1,
    concurrency: int | None = None,
    override_num_blocks: int | None = None,
) -> MaterializedDataset:
    """Return a data set of a Hugging Face ``datasets.Dataset``.

    Parameters
    ----------
    dataset : datasets.Dataset
        In memory, or memory-mapped.
    override_num_blocks : int, optional
        Number of blocks for the rows.
    parallelism, concurrency : int, optional
        Without effect, since the rows are in memory.

    Examples
    --------
    In a program with Hugging Face's ``datasets``::

        reviews = datasets.load_dataset("imdb", split="train")
        ray.data.from_huggingface(reviews).count()

    Notes
    -----
    Ray source: ``ray.data.from_huggingface``, 2.60.0. Differs from Ray: iterable data sets are not
    taken.
    """
    return from_arrow(dataset.with_format("arrow")[:], override_num_blocks=override_num_blocks)
