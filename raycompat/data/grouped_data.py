"""`GroupedData`: a data set, grouped by the values of columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from raycompat._old_forms.data import keys
from raycompat._old_forms.data.named_rows import NamesRows
from raycompat._surface.modules import names_of
from raycompat.data import aggregate, batch, columns, expressions, frames, grouping
from raycompat.data.aggregation import Aggregation
from raycompat.data.compute import strategy
from raycompat.data.options import refuse_options, remote_args
from raycompat.data.transform import UserFunction

if TYPE_CHECKING:
    from raycompat.data.block import Block
    from raycompat.data.compute import Compute, Concurrency
    from raycompat.data.dataset import Dataset
    from raycompat.data.expressions import Expr


class GroupedData(NamesRows):
    """The groups of a data set. `Dataset.groupby` makes it.

    Examples
    --------
    >>> sales = ray.data.from_items(
    ...     [
    ...         {"shop": "a", "price": 1},
    ...         {"shop": "a", "price": 3},
    ...         {"shop": "b", "price": 5},
    ...     ]
    ... )
    >>> groups = sales.groupby("shop")

    Notes
    -----
    Ray source: ``ray.data.grouped_data.GroupedData``, 2.60.0. Differs from Ray: within a block, groups
    are in the order of their keys.
    """

    def __init__(self, dataset: Dataset, keys: Sequence[str], num_partitions: int | None) -> None:
        self._dataset = dataset
        self._keys = list(keys)
        self._num_partitions = num_partitions

    def __repr__(self) -> str:
        key = self._keys[0] if len(self._keys) == 1 else self._keys or None
        return f"GroupedData(dataset={self._dataset!r}, key={key!r})"

    def aggregate(self, *aggs: Aggregation) -> Dataset:
        """Compute aggregations of each group.

        Parameters
        ----------
        *aggs : AggregateFn
            At least one, of `raycompat.data.aggregate`.

        Returns
        -------
        Dataset
            A row for each group: the keys, and a column for each aggregation.

        Examples
        --------
        >>> from raycompat.data.aggregate import Max
        >>> groups.aggregate(Max("price")).take_all()
        [{'shop': 'a', 'max(price)': 3}, {'shop': 'b', 'max(price)': 5}]
        """
        check(aggs)
        target = self._dataset.context.target_max_block_size
        return self._dataset._derived(
            grouping.aggregate(self._dataset._plan, self._keys, aggs, target, self._num_partitions)
        )

    def count(self) -> Dataset:
        """Count the rows of each group, in a column ``count()``.

        Examples
        --------
        >>> groups.count().take_all()
        [{'shop': 'a', 'count()': 2}, {'shop': 'b', 'count()': 1}]
        """
        return self.aggregate(aggregate.Count())

    def sum(self, on: str | list[str] | None = None, ignore_nulls: bool = True) -> Dataset:
        """Add up columns in each group.

        Parameters
        ----------
        on : str or list of str, optional
            The columns. Default: all but the keys.
        ignore_nulls : bool, default True
            Ignore missing values.

        Examples
        --------
        >>> groups.sum("price").take_all()
        [{'shop': 'a', 'sum(price)': 4}, {'shop': 'b', 'sum(price)': 5}]

        Notes
        -----
        Ray source: ``GroupedData.sum``, 2.60.0. Differs from Ray: with ``ignore_nulls=True`` NaN is
        left out; there the result can be None for it.
        """
        return self._of_columns(aggregate.Sum, on, ignore_nulls)

    def min(self, on: str | list[str] | None = None, ignore_nulls: bool = True) -> Dataset:
        """Find the least values of columns in each group; for the parameters see `sum`.

        Examples
        --------
        >>> groups.min("price").take_all()
        [{'shop': 'a', 'min(price)': 1}, {'shop': 'b', 'min(price)': 5}]
        """
        return self._of_columns(aggregate.Min, on, ignore_nulls)

    def max(self, on: str | list[str] | None = None, ignore_nulls: bool = True) -> Dataset:
        """Find the greatest values of columns in each group; for the parameters see `sum`.

        Examples
        --------
        >>> groups.max("price").take_all()
        [{'shop': 'a', 'max(price)': 3}, {'shop': 'b', 'max(price)': 5}]
        """
        return self._of_columns(aggregate.Max, on, ignore_nulls)

    def mean(self, on: str | list[str] | None = None, ignore_nulls: bool = True) -> Dataset:
        """Compute the means of columns in each group; for the parameters see `sum`.

        Examples
        --------
        >>> groups.mean("price").take_all()
        [{'shop': 'a', 'mean(price)': 2.0}, {'shop': 'b', 'mean(price)': 5.0}]

        Notes
        -----
        Ray source: ``GroupedData.mean``, 2.60.0. Differs from Ray: with ``ignore_nulls=True`` NaN
        is left out; there the result can be None for it.
        """
        return self._of_columns(aggregate.Mean, on, ignore_nulls)

    def std(
        self, on: str | list[str] | None = None, ddof: int = 1, ignore_nulls: bool = True
    ) -> Dataset:
        """Compute the standard deviations of columns in each group.

        Parameters
        ----------
        on : str or list of str, optional
            The columns. Default: all but the keys.
        ddof : int, default 1
            The divisor is the number of values minus this number.
        ignore_nulls : bool, default True
            Ignore missing values.

        Examples
        --------
        >>> round(groups.std("price").take_all()[0]["std(price)"], 3)
        1.414

        Notes
        -----
        Ray source: ``GroupedData.std``, 2.60.0. Differs from Ray: with ``ignore_nulls=True`` NaN is
        left out; there the result can be None for it.
        """
        return self._of_columns(partial(aggregate.Std, ddof=ddof), on, ignore_nulls)

    @keys.aggregates_by_function
    def _of_columns(
        self,
        kind: Callable[..., Aggregation],
        on: str | Iterable[str] | None,
        ignore_nulls: bool,
    ) -> Dataset:
        if on is None:
            columns = self._dataset.columns() or []
            on = [name for name in columns if name not in self._keys]
        names = [on] if isinstance(on, str) else list(on)
        return self.aggregate(*(kind(name, ignore_nulls=ignore_nulls) for name in names))

    def map_groups(
        self,
        fn: Callable[..., object],
        *,
        zero_copy_batch: bool = True,
        compute: Compute | None = None,
        batch_format: str | None = "default",
        fn_args: Iterable[object] | None = None,
        fn_kwargs: Mapping[str, object] | None = None,
        fn_constructor_args: Iterable[object] | None = None,
        fn_constructor_kwargs: Mapping[str, object] | None = None,
        num_cpus: float | None = None,
        num_gpus: float | None = None,
        memory: float | None = None,
        concurrency: Concurrency | None = None,
        ray_remote_args_fn: Callable[[], Mapping[str, object]] | None = None,
        **ray_remote_args: object,
    ) -> Dataset:
        """Call a function with all rows of each group.

        Parameters
        ----------
        fn : callable or class
            Given a batch of one group, it returns a batch; see `Dataset.map_batches`. A class is
            constructed once in each actor of a pool.
        zero_copy_batch : bool, default True
            Has no effect: a group's rows are always a copy.
        batch_format : {"default", "numpy", "pandas", "pyarrow", None}
            The format of the function's argument. The default is "pandas".
        fn_args, fn_kwargs : optional
            More arguments of the function, after the batch.
        fn_constructor_args, fn_constructor_kwargs : optional
            Arguments for the constructor of a class.
        concurrency : int or (int, int), optional
            Maximum number of concurrent tasks; for a class, the number of actors, or its minimum and
            maximum.
        compute : TaskPoolStrategy or ActorPoolStrategy, optional
            The same setting as an object.
        num_cpus, num_gpus, memory
            Options of each task or actor, as in `raycompat.remote`.
        ray_remote_args_fn : callable, optional
            Called for each task or actor; returns further options for it in a dictionary.
        **ray_remote_args
            Further options of `raycompat.remote`.

        Examples
        --------
        >>> groups.map_groups(lambda batch: {"most": [batch["price"].max()]}).take_all()
        [{'most': 3}, {'most': 5}]
        """
        batch.check_format(batch_format)
        options = remote_args(locals())
        function = UserFunction.of(locals())
        dataset, target = self._dataset, self._dataset.context.target_max_block_size
        of_groups = "pandas" if batch_format == "default" else batch_format
        of_tasks = frames.format_for(of_groups, dataset.context)
        step = grouping.MapGroups(self._keys, function, of_tasks)
        pool = strategy(compute, concurrency, function.is_class)
        return dataset._derived(
            grouping.map_groups(dataset._plan, step, target, self._num_partitions, pool, options)
        )

    def with_column(self, column_name: str, expr: Expr, **ray_remote_args: object) -> Dataset:
        """Add or replace a column with an expression; the rows of a group become adjacent.

        Parameters
        ----------
        column_name : str
            Name of the column.
        expr : Expr
            An expression from `raycompat.data.expressions`.
        **ray_remote_args
            Not supported.

        Examples
        --------
        >>> from raycompat.data.expressions import col
        >>> rows = ray.data.from_items([{"shop": "a", "price": 2.0}])
        >>> rows.groupby("shop").with_column("half", col("price") / 2).take_all()
        [{'shop': 'a', 'price': 2.0, 'half': 1.0}]
        """
        columns.check(column_name, expr)
        refuse_options("GroupedData.with_column", **ray_remote_args)

        def add(table: Block) -> Block:
            return expressions.with_columns(table, ((column_name, expr),))

        return self.map_groups(add, batch_format="pyarrow")


def check(aggs: Sequence[object]) -> None:
    """Raise an error for an object that is not an aggregation."""
    if not aggs:
        raise ValueError(
            "aggregate() needs at least one aggregation: raycompat.data.aggregate.Count()"
        )
    for each in aggs:
        if not isinstance(each, Aggregation):
            raise TypeError(
                f"{each!r} is not an aggregation: give instances of the classes in "
                "raycompat.data.aggregate, Sum('column') for example."
            )


__getattr__ = names_of(__name__)
