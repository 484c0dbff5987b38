"""The maps of `Dataset`, which change its rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Generic, Literal, TypeVar

import numpy as np
import pyarrow as pa

from raycompat.data import batch, block, condition, expressions, frames, seeds, transform
from raycompat.data.block import Block
from raycompat.data.compute import ActorPoolStrategy, TaskPoolStrategy, strategy
from raycompat.data.expressions import Expr
from raycompat.data.options import remote_args
from raycompat.data.plan import Map, Node
from raycompat.data.pushdown import Uses
from raycompat.data.seeds import RandomSeedConfig
from raycompat.data.storable import storable
from raycompat.data.transform import (
    FilterRows,
    MapBatches,
    MapRows,
    Step,
    TableStep,
    UserFunction,
)

if TYPE_CHECKING:
    from raycompat.data.compute import Compute, Concurrency
    from raycompat.data.context import DataContext

#: The data set that the methods return.
DatasetT = TypeVar("DatasetT")


class Maps(Generic[DatasetT]):
    """The methods of a data set that map its rows, batches and columns."""

    _plan: Node
    _context: DataContext
    _derived: Callable[[Node], DatasetT]

    def _mapped(
        self,
        name: str,
        step: Step,
        pool: TaskPoolStrategy | ActorPoolStrategy,
        options: dict[str, object],
        min_rows: int = 1,
    ) -> DatasetT:
        return self._derived(Map(self._plan, name, (step,), pool, options, min_rows))

    def map(
        self,
        fn: Callable[..., object],
        *,
        compute: Compute | None = None,
        fn_args: Iterable[object] | None = None,
        fn_kwargs: Mapping[str, object] | None = None,
        fn_constructor_args: Iterable[object] | None = None,
        fn_constructor_kwargs: Mapping[str, object] | None = None,
        num_cpus: float | None = None,
        num_gpus: float | None = None,
        memory: float | None = None,
        concurrency: Concurrency | None = None,
        label_selector: dict[str, str] | None = None,
        fallback_strategy: Sequence[Mapping[str, object]] | None = None,
        max_calls: int | None = None,
        resources: dict[str, float] | None = None,
        accelerator_type: str | None = None,
        runtime_env: Mapping[str, object] | None = None,
        ray_remote_args_fn: Callable[[], Mapping[str, object]] | None = None,
        **ray_remote_args: object,
    ) -> DatasetT:
        """Call a function with each row.

        Parameters
        ----------
        fn : callable or class
            Given a row, a dictionary of Python values, it returns a row. A class is constructed once in
            each actor of a pool. If it is asynchronous, up to 16
            calls run at the same time in each task or actor; the order is kept.
        fn_args, fn_kwargs : optional
            Given to `fn` after the row.
        fn_constructor_args, fn_constructor_kwargs : optional
            Arguments for the constructor of a class.
        concurrency : int or (int, int), optional
            Maximum number of concurrent tasks; for a class, the number of actors, or its minimum and
            maximum.
        compute : TaskPoolStrategy or ActorPoolStrategy, optional
            The same setting as an object.
        num_cpus, num_gpus, memory, label_selector, max_calls, resources, accelerator_type, runtime_env
            Options of each task or actor, as in `raycompat.remote`.
        ray_remote_args_fn : callable, optional
            Called for each task or actor; returns further options for it in a dictionary.
        fallback_strategy
            Not supported.
        **ray_remote_args
            Further options of `raycompat.remote`.

        Examples
        --------
        >>> ray.data.range(2).map(lambda row: {"square": row["id"] ** 2}).take_all()
        [{'square': 0}, {'square': 1}]
        """
        options = remote_args(locals())
        function = UserFunction.of(locals())
        pool = strategy(compute, concurrency, function.is_class)
        return self._mapped(f"Map({function.name})", MapRows(function), pool, options)

    def map_batches(
        self,
        fn: Callable[..., object],
        *,
        batch_size: int | Literal["default", "auto"] | None = None,
        compute: Compute | None = None,
        batch_format: str | None = "default",
        zero_copy_batch: bool = True,
        fn_args: Iterable[object] | None = None,
        fn_kwargs: Mapping[str, object] | None = None,
        fn_constructor_args: Iterable[object] | None = None,
        fn_constructor_kwargs: Mapping[str, object] | None = None,
        num_cpus: float | None = None,
        num_gpus: float | None = None,
        memory: float | None = None,
        concurrency: Concurrency | None = None,
        udf_modifying_row_count: bool = True,
        label_selector: dict[str, str] | None = None,
        fallback_strategy: Sequence[Mapping[str, object]] | None = None,
        max_calls: int | None = None,
        resources: dict[str, float] | None = None,
        accelerator_type: str | None = None,
        runtime_env: Mapping[str, object] | None = None,
        ray_remote_args_fn: Callable[[], Mapping[str, object]] | None = None,
        **ray_remote_args: object,
    ) -> DatasetT:
        """Call a function with batches of rows.

        Parameters
        ----------
        fn : callable or class
            Given a batch, it returns a batch of any format and number of rows, or yields several. A
            class is constructed once in each actor of a pool. If it is asynchronous, up to 16
            calls run at the same time in each task or actor; the order is kept.
        batch_size : int or "auto", optional
            Rows of a batch; ``"auto"``: as many as have about 16 MiB together. Default: those of a
            block.
        batch_format : {"default", "numpy", "pandas", "pyarrow", None}
            The format of the argument of `fn`: a dictionary of arrays (default), a DataFrame or a
            table. The first axis of an array is the rows.
        zero_copy_batch : bool, default True
            Pass shared memory to `fn`, which must not write to it; otherwise a copy.
        udf_modifying_row_count : bool, default True
            Has no effect.
        fn_args, fn_kwargs : optional
            Given to `fn` after the batch.
        fn_constructor_args, fn_constructor_kwargs : optional
            Arguments for the constructor of a class.
        concurrency : int or (int, int), optional
            Maximum number of concurrent tasks; for a class, the number of actors, or its minimum and
            maximum.
        compute : TaskPoolStrategy or ActorPoolStrategy, optional
            The same setting as an object.
        num_cpus, num_gpus, memory, label_selector, max_calls, resources, accelerator_type, runtime_env
            Options of each task or actor, as in `raycompat.remote`.
        ray_remote_args_fn : callable, optional
            Called for each task or actor; returns further options for it in a dictionary.
        fallback_strategy
            Not supported.
        **ray_remote_args
            Further options of `raycompat.remote`.

        Examples
        --------
        >>> dataset = ray.data.range(3)
        >>> dataset.map_batches(
        ...     lambda batch: {"sum": [batch["id"].sum()]}, batch_size=3
        ... ).take_all()
        [{'sum': 3}]
        """
        if batch_size == "default":
            batch_size = 1024
        if batch_size != transform.AUTO:
            batch.check_size(batch_size)
        batch.check_format(batch_format)
        options = remote_args(locals())
        function = UserFunction.of(locals())
        pool = strategy(compute, concurrency, function.is_class)
        of_tasks = frames.format_for(batch_format, self._context)
        min_rows = 1 if batch_size in (None, transform.AUTO) else batch_size
        step = MapBatches(function, batch_size, of_tasks, zero_copy_batch)
        return self._mapped(f"MapBatches({function.name})", step, pool, options, min_rows)

    def flat_map(
        self,
        fn: Callable[..., object],
        *,
        compute: Compute | None = None,
        fn_args: Iterable[object] | None = None,
        fn_kwargs: Mapping[str, object] | None = None,
        fn_constructor_args: Iterable[object] | None = None,
        fn_constructor_kwargs: Mapping[str, object] | None = None,
        num_cpus: float | None = None,
        num_gpus: float | None = None,
        memory: float | None = None,
        concurrency: Concurrency | None = None,
        label_selector: dict[str, str] | None = None,
        fallback_strategy: Sequence[Mapping[str, object]] | None = None,
        max_calls: int | None = None,
        resources: dict[str, float] | None = None,
        accelerator_type: str | None = None,
        runtime_env: Mapping[str, object] | None = None,
        ray_remote_args_fn: Callable[[], Mapping[str, object]] | None = None,
        **ray_remote_args: object,
    ) -> DatasetT:
        """Call a function with each row; the function returns a list of rows.

        Parameters
        ----------
        fn : callable or class
            Given a row, a dictionary of Python values, it returns a list of rows.
        fn_args, fn_kwargs : optional
            Given to `fn` after the row.
        fn_constructor_args, fn_constructor_kwargs : optional
            Arguments for the constructor of a class.
        concurrency : int or (int, int), optional
            Maximum number of concurrent tasks; for a class, the number of actors, or its minimum and
            maximum.
        compute : TaskPoolStrategy or ActorPoolStrategy, optional
            The same setting as an object.
        num_cpus, num_gpus, memory, label_selector, max_calls, resources, accelerator_type, runtime_env
            Options of each task or actor, as in `raycompat.remote`.
        ray_remote_args_fn : callable, optional
            Called for each task or actor; returns further options for it in a dictionary.
        fallback_strategy
            Not supported.
        **ray_remote_args
            Further options of `raycompat.remote`.

        Examples
        --------
        >>> ray.data.range(2).flat_map(lambda row: [row, {"id": -row["id"]}]).take_all()
        [{'id': 0}, {'id': 0}, {'id': 1}, {'id': -1}]
        """
        options = remote_args(locals())
        function = UserFunction.of(locals())
        pool = strategy(compute, concurrency, function.is_class)
        return self._mapped(
            f"FlatMap({function.name})", MapRows(function, is_flat=True), pool, options
        )

    def filter(
        self,
        fn: Callable[..., object] | None = None,
        expr: str | Expr | None = None,
        *,
        compute: Compute | None = None,
        fn_args: Iterable[object] | None = None,
        fn_kwargs: Mapping[str, object] | None = None,
        fn_constructor_args: Iterable[object] | None = None,
        fn_constructor_kwargs: Mapping[str, object] | None = None,
        num_cpus: float | None = None,
        num_gpus: float | None = None,
        memory: float | None = None,
        concurrency: Concurrency | None = None,
        label_selector: dict[str, str] | None = None,
        fallback_strategy: Sequence[Mapping[str, object]] | None = None,
        max_calls: int | None = None,
        resources: dict[str, float] | None = None,
        accelerator_type: str | None = None,
        runtime_env: Mapping[str, object] | None = None,
        ray_remote_args_fn: Callable[[], Mapping[str, object]] | None = None,
        **ray_remote_args: object,
    ) -> DatasetT:
        """Keep the rows for which a function, or a condition, is true.

        Parameters
        ----------
        fn : callable or class, optional
            Given a row, a dictionary of Python values, it returns whether to keep it.
        expr : str or Expr, optional
            A condition in place of `fn`: comparisons of columns and constants, joined with ``and``,
            ``or``, ``not``; or an expression of `raycompat.data.expressions`.
        fn_args, fn_kwargs : optional
            Given to `fn` after the row.
        fn_constructor_args, fn_constructor_kwargs : optional
            Arguments for the constructor of a class.
        concurrency : int or (int, int), optional
            Maximum number of concurrent tasks; for a class, the number of actors, or its minimum and
            maximum.
        compute : TaskPoolStrategy or ActorPoolStrategy, optional
            The same setting as an object.
        num_cpus, num_gpus, memory, label_selector, max_calls, resources, accelerator_type, runtime_env
            Options of each task or actor, as in `raycompat.remote`.
        ray_remote_args_fn : callable, optional
            Called for each task or actor; returns further options for it in a dictionary.
        fallback_strategy
            Not supported.
        **ray_remote_args
            Further options of `raycompat.remote`.

        Examples
        --------
        >>> ray.data.range(10).filter(lambda row: row["id"] > 7).take_all()
        [{'id': 8}, {'id': 9}]
        """
        if (fn is None) == (expr is None):
            raise ValueError("filter() takes a function or expr, one of both.")
        for_function = {
            "fn_args": fn_args,
            "fn_kwargs": fn_kwargs,
            "fn_constructor_args": fn_constructor_args,
            "fn_constructor_kwargs": fn_constructor_kwargs,
        }
        if expr is not None and (given := [name for name, each in for_function.items() if each]):
            raise ValueError(f"{', '.join(given)}: expr takes no arguments; give a function.")
        options = remote_args(locals())
        if isinstance(expr, Expr):
            step = TableStep(expressions.kept, (expr,), expressions.uses(expr))
            pool = strategy(compute, concurrency, expr._has_class())
            return self._mapped(f"Filter({expr._code()})", step, pool, options)
        if fn is None:
            condition.parse(str(expr))
            step = TableStep(condition.kept, (str(expr),), condition.uses(str(expr)))
            pool = strategy(compute, concurrency, is_class=False)
            return self._mapped(f"Filter({expr})", step, pool, options)
        function = UserFunction.of(locals())
        pool = strategy(compute, concurrency, function.is_class)
        return self._mapped(f"Filter({function.name})", FilterRows(function), pool, options)

    def add_column(
        self,
        col: str,
        fn: Callable[..., object],
        *,
        batch_format: str | None = "pandas",
        compute: Compute | None = None,
        concurrency: Concurrency | None = None,
        num_cpus: float | None = None,
        num_gpus: float | None = None,
        memory: float | None = None,
        label_selector: dict[str, str] | None = None,
        fallback_strategy: Sequence[Mapping[str, object]] | None = None,
        max_calls: int | None = None,
        resources: dict[str, float] | None = None,
        accelerator_type: str | None = None,
        runtime_env: Mapping[str, object] | None = None,
        **ray_remote_args: object,
    ) -> DatasetT:
        """Add a column that a function computes from batches.

        Parameters
        ----------
        col : str
            Name of the column; one that there is, is replaced.
        fn : callable
            It gets a batch and returns the column's values: an array, a Series or a list.
        batch_format : {"default", "numpy", "pandas", "pyarrow"}
            The format of the argument of `fn`. Default: pandas.
        concurrency, compute : optional
            Maximum number of concurrent tasks.
        num_cpus, num_gpus, memory, label_selector, max_calls, resources, accelerator_type, runtime_env
            Options of each task or actor, as in `raycompat.remote`.
        fallback_strategy
            Not supported.
        **ray_remote_args
            Further options of `raycompat.remote`.

        Examples
        --------
        >>> ray.data.range(2).add_column(
        ...     "half", lambda batch: batch["id"] / 2
        ... ).take_all()
        [{'id': 0, 'half': 0.0}, {'id': 1, 'half': 0.5}]
        """
        options = remote_args(locals())
        if not isinstance(col, str):
            raise ValueError(f"col={col!r} is not a str: it names the column.")
        batch.check_format(batch_format)
        function = UserFunction(fn)
        of_tasks = frames.format_for(batch_format, self._context)
        step = TableStep(_with_column, (col, function, of_tasks))
        return self._mapped("AddColumn", step, strategy(compute, concurrency, False), options)

    def drop_columns(
        self,
        cols: list[str],
        *,
        compute: Compute | None = None,
        concurrency: Concurrency | None = None,
        num_cpus: float | None = None,
        num_gpus: float | None = None,
        memory: float | None = None,
        label_selector: dict[str, str] | None = None,
        fallback_strategy: Sequence[Mapping[str, object]] | None = None,
        max_calls: int | None = None,
        resources: dict[str, float] | None = None,
        accelerator_type: str | None = None,
        runtime_env: Mapping[str, object] | None = None,
        **ray_remote_args: object,
    ) -> DatasetT:
        """Remove columns.

        Parameters
        ----------
        cols : list of str
            Existing columns, each once.
        concurrency, compute : optional
            Maximum number of concurrent tasks.
        num_cpus, num_gpus, memory, label_selector, max_calls, resources, accelerator_type, runtime_env
            Options of each task or actor, as in `raycompat.remote`.
        fallback_strategy
            Not supported.
        **ray_remote_args
            Further options of `raycompat.remote`.

        Examples
        --------
        >>> ray.data.from_items([{"name": "a", "size": 1}]).drop_columns(
        ...     ["size"]
        ... ).take_all()
        [{'name': 'a'}]
        """
        options = remote_args(locals())
        names = _names(cols, "drop_columns")
        step = TableStep(transform.drop, (names,))
        return self._mapped("DropColumns", step, strategy(compute, concurrency, False), options)

    def select_columns(
        self,
        cols: str | list[str],
        *,
        compute: Compute | None = None,
        concurrency: Concurrency | None = None,
        num_cpus: float | None = None,
        num_gpus: float | None = None,
        memory: float | None = None,
        label_selector: dict[str, str] | None = None,
        fallback_strategy: Sequence[Mapping[str, object]] | None = None,
        max_calls: int | None = None,
        resources: dict[str, float] | None = None,
        accelerator_type: str | None = None,
        runtime_env: Mapping[str, object] | None = None,
        **ray_remote_args: object,
    ) -> DatasetT:
        """Keep some columns.

        Parameters
        ----------
        cols : str or list of str
            Existing columns, in the order of the result.
        concurrency, compute : optional
            Maximum number of concurrent tasks.
        num_cpus, num_gpus, memory, label_selector, max_calls, resources, accelerator_type, runtime_env
            Options of each task or actor, as in `raycompat.remote`.
        fallback_strategy
            Not supported.
        **ray_remote_args
            Further options of `raycompat.remote`.

        Examples
        --------
        >>> ray.data.from_items([{"name": "a", "size": 1}]).select_columns(
        ...     ["name"]
        ... ).take_all()
        [{'name': 'a'}]
        """
        options = remote_args(locals())
        names = _names(cols, "select_columns")
        step = TableStep(transform.select, (names,), Uses(tuple(names), drops_others=True))
        return self._mapped("SelectColumns", step, strategy(compute, concurrency, False), options)

    def rename_columns(
        self,
        names: list[str] | dict[str, str],
        *,
        concurrency: Concurrency | None = None,
        num_cpus: float | None = None,
        num_gpus: float | None = None,
        memory: float | None = None,
        label_selector: dict[str, str] | None = None,
        fallback_strategy: Sequence[Mapping[str, object]] | None = None,
        max_calls: int | None = None,
        resources: dict[str, float] | None = None,
        accelerator_type: str | None = None,
        runtime_env: Mapping[str, object] | None = None,
        **ray_remote_args: object,
    ) -> DatasetT:
        """Rename columns.

        Parameters
        ----------
        names : dict or list of str
            New names by the old, or one for each column.
        concurrency, compute : optional
            Maximum number of concurrent tasks.
        num_cpus, num_gpus, memory, label_selector, max_calls, resources, accelerator_type, runtime_env
            Options of each task or actor, as in `raycompat.remote`.
        fallback_strategy
            Not supported.
        **ray_remote_args
            Further options of `raycompat.remote`.

        Examples
        --------
        >>> ray.data.range(1).rename_columns({"id": "number"}).take_all()
        [{'number': 0}]

        Raises
        ------
        ValueError
            When two columns would get one name; when executed, if the columns are not known before.

        Notes
        -----
        Ray source: ``Dataset.rename_columns``, 2.60.0. Differs from Ray: a name that another column has
        and keeps is an error. In Ray, one of the two columns is lost.
        """
        options = remote_args(locals())
        if not names:
            raise ValueError("rename_columns() needs at least one name.")
        new = list(names.values()) if isinstance(names, dict) else list(names)
        if not all(isinstance(name, str) for name in new) or len(set(new)) < len(new):
            raise ValueError(f"rename_columns: {new} are not different names. Give a str for each.")
        step = TableStep(transform.rename, (names,))
        return self._mapped("RenameColumns", step, strategy(None, concurrency, False), options)

    def random_sample(
        self, fraction: float, *, seed: int | RandomSeedConfig | None = None
    ) -> DatasetT:
        """Keep each row with a probability.

        Parameters
        ----------
        fraction : float
            The probability, from 0 to 1.
        seed : int or RandomSeedConfig, optional
            Seed of the random numbers; those of each task depend on it and on the task's number.

        Examples
        --------
        >>> 0 <= ray.data.range(100).random_sample(0.5, seed=1).count() <= 100
        True

        Raises
        ------
        ValueError
            For a number that is not a probability, and for a source without blocks: ``range(0)``.
        """
        if not 0 <= fraction <= 1:
            raise ValueError(
                f"fraction={fraction!r} is not a probability: give a number from 0 to 1."
            )
        seeds.check(seed, "random_sample")
        if not self._plan.has_blocks():
            raise ValueError("random_sample: the data set has no blocks, so no rows to draw from.")
        step = transform.SampleRows(fraction, seed)
        return self._mapped("RandomSample", step, TaskPoolStrategy(), {})


def _names(cols: str | Sequence[str], what: str) -> list[str]:
    if not isinstance(cols, str | list | tuple):
        raise TypeError(f"{what}({cols!r}): give the name of a column, or a list of names.")
    names = [cols] if isinstance(cols, str) else list(cols)
    if not all(isinstance(name, str) for name in names):
        raise ValueError(f"{what}: {names} are not all names of columns: give a list of str.")
    if len(set(names)) < len(names):
        raise ValueError(f"{what}: {names} names a column twice. Give each once.")
    return names


def _with_column(
    table: Block, name: str, function: UserFunction, batch_format: str | None
) -> Block:
    values = function.load_one()(batch.formatted(table, batch_format))
    if np.isscalar(values):
        values = np.full(table.num_rows, values)
    column = block.to_table({name: values})[name]
    table = frames.unrecorded(table)
    if name in table.column_names:
        return table.set_column(table.column_names.index(name), name, column)
    if len(column) != table.num_rows:
        raise ValueError(
            f"The function of add_column returned {len(column)} values for {table.num_rows} rows."
        )
    return storable(table.append_column(pa.field(name, column.type), column))
