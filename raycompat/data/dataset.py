"""`Dataset`: rows in blocks, made by a plan that runs when its rows are read."""

from __future__ import annotations

import copy
import functools
import itertools
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import cloudpickle
import numpy as np
import pyarrow as pa

import raycompat as ray
from raycompat._old_forms.data import keys
from raycompat._old_forms.data.methods import OldMethods
from raycompat._old_forms.data.named_rows import NamesRows
from raycompat._surface import forms
from raycompat._surface.modules import lacks, names_of
from raycompat.data import exchange, grouping, plan, preview, seeds
from raycompat.data.block import Bundle, compact, concat, metadata_of, require_columns, rows
from raycompat.data.columns import Columns
from raycompat.data.combination import Combination
from raycompat.data.consumption import Consumption
from raycompat.data.context import DataContext
from raycompat.data.datatype import DataType
from raycompat.data.execution import Execution
from raycompat.data.grouped_data import GroupedData, check
from raycompat.data.maps import Maps
from raycompat.data.options import refuse_options
from raycompat.data.plan import AllToAll, Input, Limit, Map, Node, Read, Rearranged, Sorted
from raycompat.data.schema import Schema, united
from raycompat.data.seeds import RandomSeedConfig
from raycompat.data.stats import ExecutionStats
from raycompat.data.storable import shown_schema, storable
from raycompat.data.summary import DatasetSummary, aggregations, statistics
from raycompat.data.transform import CutRows
from raycompat.data.writing import Writing
from raycompat.exceptions import RayError

if TYPE_CHECKING:
    from raycompat.data.aggregation import Aggregation
    from raycompat.data.block import Block, Row
    from raycompat.data.operators import Stages

#: Seconds that the text of a data set waits for a block.
_PATIENCE_S = 2.0


@forms.has_old_members("ray.data.Dataset")
@lacks(
    "ray.data.Dataset",
    "get_stats_summary",
    "iter_jax_batches",
    "map_batches_internal",
    "to_daft",
    "to_mars",
    "to_modin",
    "to_random_access_dataset",
    "to_spark",
    "write_bigquery",
    "write_clickhouse",
    "write_delta",
    "write_iceberg",
    "write_kafka",
    "write_lance",
    "write_mongo",
    "write_snowflake",
    "write_turbopuffer",
)
class Dataset(
    NamesRows,
    Maps["Dataset"],
    Columns["Dataset"],
    Combination["Dataset"],
    Consumption,
    Writing,
    OldMethods,
):
    """Rows in blocks, which are Arrow tables in the object store.

    A data set is a plan. Its methods return other data sets at once; the plan is executed when rows are
    read. Blocks then flow from task to task. Waiting blocks use only a share of the object store, so a
    data set may be larger than the store. Make data sets with the functions of `raycompat.data`.

    Examples
    --------
    >>> import raycompat as ray
    >>> dataset = ray.data.range(4).map_batches(
    ...     lambda batch: {"double": 2 * batch["id"]}
    ... )
    >>> dataset.take_all()
    [{'double': 0}, {'double': 2}, {'double': 4}, {'double': 6}]

    Notes
    -----
    Ray source: ``ray.data.Dataset``, 2.60.0. Differs from Ray: rows keep their order; all blocks are
    tables, never DataFrames.
    """

    def __init__(self, logical_plan: Node, context: DataContext) -> None:
        self._plan = logical_plan
        self._context = context
        self._name: str | None = None
        self._id = uuid.uuid4().hex
        self._schema: pa.Schema | None = None
        self._stats: ExecutionStats | None = None

    def _derived(self, logical_plan: Node) -> Dataset:
        made = Dataset(logical_plan, self._context)
        made._name = self._name
        return made

    def _bundles(self, keeps_output: bool = False) -> Iterator[Bundle]:
        """Execute the plan; yield its blocks in order."""
        if isinstance(self._plan, Input):
            yield from self._plan.bundles
            return
        execution = Execution(
            plan.operators(self._plan, self._context), self._context, keeps_output
        )
        try:
            yield from execution
        finally:
            execution.close()
            self._stats = execution.stats

    @property
    def context(self) -> DataContext:
        """The settings of this data set, a copy of those that held when it was made.

        Examples
        --------
        >>> ray.data.range(3).context.target_max_block_size > 0
        True
        """
        return self._context

    @property
    def name(self) -> str | None:
        """The name that `set_name` gave it.

        Examples
        --------
        >>> ray.data.range(3).name is None
        True
        """
        return self._name

    def set_name(self, name: str | None) -> None:
        """Give the data set the name `name`, which data sets derived from it have too.

        Examples
        --------
        >>> dataset = ray.data.range(3)
        >>> dataset.set_name("numbers")
        >>> dataset.name
        'numbers'
        """
        self._name = name

    def get_dataset_id(self) -> str:
        """Return an id that no other data set has.

        Examples
        --------
        >>> rows = ray.data.range(2)
        >>> rows.get_dataset_id() == rows.get_dataset_id()
        True
        >>> rows.get_dataset_id() == ray.data.range(2).get_dataset_id()
        False
        """
        return self._id

    @staticmethod
    @forms.takes_old_options("ray.data.Dataset.copy")
    def copy(ds: Dataset, _deep_copy: bool = False, _as: object = None) -> Dataset:
        """Return a data set with the same plan as `ds`.

        Examples
        --------
        >>> ray.data.Dataset.copy(ray.data.range(2)).take_all()
        [{'id': 0}, {'id': 1}]
        """
        return copy.copy(ds)

    def __repr__(self) -> str:
        known = self._schema if self._schema is not None else self._plan.columns()
        if known is None or not known.names:
            return self._tree()
        schema, num_rows = Schema(known), self._plan.num_rows()
        first, last = self._ends() if isinstance(self._plan, Input) else ([], [])
        shown = "Dataset isn't materialized"
        if isinstance(self._plan, Input):
            shown = f"Showing {len(first) + len(last)} of {num_rows} rows"
        lines = [] if self._name is None else [f"name: {self._name}"]
        lines += [
            f"shape: ({'?' if num_rows is None else num_rows}, {len(known.names)})",
            preview.table(schema.texts(), first, last),
            f"({shown})",
        ]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        from raycompat.util._shown import as_table

        known = self._schema if self._schema is not None else self._plan.columns()
        num_rows = self._plan.num_rows()
        shown = {
            "Plan": " \u2190 ".join(line.strip(" +-") for line in self._tree().splitlines()),
            "Rows": "not known yet" if num_rows is None else f"{num_rows:,}",
            **{f"Column {field.name}": field.type for field in known or ()},
        }
        return as_table(type(self).__name__, shown)

    def _ends(self) -> tuple[list[Row], list[Row]]:
        """Return the first and the last rows, which are in the store: all of few rows."""
        num_rows = self._plan.num_rows() or 0
        at_each = num_rows if num_rows <= preview.MAX_ROWS else preview.MAX_ROWS // 2
        refs = [bundle.ref for bundle in self._bundles()]
        if not ray.is_initialized():  # to get a block would start another session
            return [], []
        try:
            tables = (ray.get(ref, timeout=_PATIENCE_S) for ref in refs)
            first = list(itertools.islice(_rows_of(tables), at_each))
            tables = (ray.get(ref, timeout=_PATIENCE_S) for ref in reversed(refs))
            last: list[Row] = []
            while len(last) < at_each < num_rows:
                last = [*_rows_of([next(tables)]), *last][-at_each:]
        except (RayError, ValueError):
            # The blocks are lost, being made again, or of a session that has ended: the columns are
            # known still.
            return [], []
        return first, last

    def _tree(self) -> str:
        """Return the plan as a tree, down to its source."""
        lines = []
        node, level = self._plan, 0
        while not isinstance(node, Input | Read):
            lines.append(f"{'   ' * (level - 1)}{'+- ' if level else ''}{node.text}")
            node, level = node.inputs[0], level + 1
        known = node.columns()
        columns = "Unknown schema"
        if known is not None:
            columns = "{" + ", ".join(f"{f.name}: {f.type}" for f in known) + "}"
        rows = node.num_rows()
        kind = type(self).__name__ if not level else "Dataset"
        lines.append(
            f"{'   ' * (level - 1)}{'+- ' if level else ''}{kind}("
            f"num_rows={'?' if rows is None else rows}, schema={columns})"
        )
        return "\n".join(lines)

    def summary(
        self,
        columns: list[str] | None = None,
        override_dtype_agg_mapping: Mapping[DataType, Callable[[str], Sequence[Aggregation]]]
        | None = None,
    ) -> DatasetSummary:
        """Return statistics of the columns, which ones depending on their types.

        Numbers and booleans have count, mean, min, max, std, the median, and the percentages of missing
        values and zeros; times have count, min, max and the percentage of missing values; other columns
        have count, that percentage, and the ten most frequent values. Structs, maps and tensors, and
        lists of them, have no most frequent values.

        Parameters
        ----------
        columns : list of str, optional
            The columns. Default: all.
        override_dtype_agg_mapping : dict of DataType to callable, optional
            Other aggregations for columns of some types: a function of the column's name that returns
            them.

        Raises
        ------
        ValueError
            When a column does not exist.
        TypeError
            When `columns` is a text.

        Examples
        --------
        >>> people = ray.data.from_items(
        ...     [{"age": 25, "city": "Oslo"}, {"age": 35, "city": None}]
        ... )
        >>> summary = people.summary().to_pandas().set_index("statistic")
        >>> float(summary.loc["mean", "age"]), summary.loc["missing_pct", "city"]
        (30.0, 50.0)

        Notes
        -----
        Ray source: ``Dataset.summary``, 2.60.0. Differs from Ray: the median and the most frequent
        values are exact.
        """
        if isinstance(columns, str):
            raise TypeError(
                f"summary(columns={columns!r}): expected a list of names, [{columns!r}]."
            )
        schema = self.schema()
        base = pa.schema([]) if schema is None else schema.base_schema
        if columns is not None:
            require_columns(columns, base.names, "summary")
        names = base.names if columns is None else columns
        chosen = {
            name: aggregations(base.field(name), override_dtype_agg_mapping) for name in names
        }
        several = [each for name in names for each in chosen[name]]
        results = self.aggregate(*several) if several else {}
        return DatasetSummary(base, statistics(results or {}, chosen))

    def has_serializable_lineage(self) -> bool:
        """Return whether the data set can be made again from its plan: it is read from files, say.

        Examples
        --------
        >>> ray.data.range(3).has_serializable_lineage()
        True
        >>> ray.data.from_items([1]).has_serializable_lineage()
        False
        """
        return not plan.has_input(self._plan)

    def serialize_lineage(self) -> bytes:
        """Return the plan as bytes, from which `deserialize_lineage` makes an equal data set.

        Raises
        ------
        ValueError
            When rows of the data set exist only in this cluster.

        Examples
        --------
        >>> made = (
        ...     ray.data.range(2)
        ...     .map(lambda row: {"x": row["id"] + 1})
        ...     .serialize_lineage()
        ... )
        >>> ray.data.Dataset.deserialize_lineage(made).take_all()
        [{'x': 1}, {'x': 2}]
        """
        if not self.has_serializable_lineage():
            raise ValueError(
                f"{self._tree()}\nhas rows that exist only in this cluster, so that another one could "
                "not make it again. Write them with write_parquet, for example, and serialize the "
                "data set that reads them."
            )
        dumped: bytes = cloudpickle.dumps((self._plan, self._context))
        return dumped

    @staticmethod
    def deserialize_lineage(serialized_ds: bytes) -> Dataset:
        """Return the data set of a plan that `serialize_lineage` returned.

        Parameters
        ----------
        serialized_ds : bytes
            The plan, from a program that you trust: it contains code.

        Examples
        --------
        >>> ray.data.Dataset.deserialize_lineage(
        ...     ray.data.range(3).serialize_lineage()
        ... ).count()
        3
        """
        return Dataset(*cloudpickle.loads(serialized_ds))

    def explain(self) -> None:
        """Print the plan and its operators, without executing them.

        Examples
        --------
        >>> ray.data.range(4).map(lambda row: row).explain()
        <BLANKLINE>
        -------- Plan --------
        Map(<lambda>)
        +- ReadRange
        <BLANKLINE>
        -------- Operators --------
        ReadRange->Map(<lambda>)

        Notes
        -----
        Ray source: ``Dataset.explain``, 2.60.0. Differs from Ray: it prints only two trees.
        """
        for title, node in (("Plan", self._plan), ("Operators", self._plan.fused())):
            print(f"\n-------- {title} --------")
            print("\n".join(plan.lines_of(node)))

    def __len__(self) -> int:
        raise AttributeError(
            "A Dataset has no len(): to count may have to read all of it. Call count()."
        )

    def __bool__(self) -> bool:
        return True

    def __iter__(self) -> Iterator[Any]:
        raise TypeError(
            "A Dataset cannot be iterated over as such: call iter_rows() or iter_batches()."
        )

    # Rows from one block to another.

    def random_shuffle(
        self,
        *,
        seed: int | RandomSeedConfig | None = None,
        num_blocks: int | None = None,
        **ray_remote_args: object,
    ) -> Dataset:
        """Put all rows into a random order.

        Parameters
        ----------
        seed : int or RandomSeedConfig, optional
            Seed of the random numbers. With the same seed and blocks the order is the same.
        num_blocks : int, optional
            Blocks to make. Default: the present number.
        **ray_remote_args
            Not supported.

        Examples
        --------
        >>> rows = ray.data.range(100).random_shuffle(seed=1).take_all()
        >>> sorted(row["id"] for row in rows) == list(range(100))
        True
        """
        refuse_options("Dataset.random_shuffle", **ray_remote_args)
        seeds.check(seed, "random_shuffle")
        target = self._context.target_max_block_size
        stages = functools.partial(exchange.shuffle, seed, num_blocks, target)
        return self._derived(Rearranged((self._plan,), "RandomShuffle", stages, is_random=True))

    def randomize_block_order(self, *, seed: int | RandomSeedConfig | None = None) -> Dataset:
        """Put the blocks into a random order, and leave the rows in them.

        Parameters
        ----------
        seed : int or RandomSeedConfig, optional
            Seed of the random numbers.

        Examples
        --------
        >>> ray.data.range(6, override_num_blocks=3).randomize_block_order(
        ...     seed=1
        ... ).count()
        6
        """
        seeds.check(seed, "randomize_block_order")
        stages = functools.partial(exchange.reorder_blocks, seed)
        return self._derived(
            Rearranged((self._plan,), "RandomizeBlockOrder", stages, is_random=True)
        )

    def repartition(
        self,
        num_blocks: int | None = None,
        target_num_rows_per_block: int | None = None,
        *,
        strict: bool = False,
        shuffle: bool = False,
        keys: list[str] | None = None,
        sort: bool = False,
    ) -> Dataset:
        """Divide the rows into a different number of blocks.

        Parameters
        ----------
        num_blocks : int, optional
            Blocks to make, with equal numbers of rows. Give this or the next.
        target_num_rows_per_block : int, optional
            Rows of a block.
        strict : bool, default False
            Give each block exactly `target_num_rows_per_block` rows, except the last one. Otherwise
            each block is cut by itself as it comes, and the rest of each may be smaller.
        shuffle : bool, default False
            Also put the rows into a random order.
        keys : list of str, optional
            Put rows with equal values in these columns into the same block.
        sort : bool, default False
            Sort the rows of each block by `keys`; without these it has no effect.

        Examples
        --------
        >>> ray.data.range(10).repartition(5).materialize().num_blocks()
        5

        Raises
        ------
        ValueError
            For numbers that are not 1 or more, and for `shuffle` with `target_num_rows_per_block`.
        """
        if (num_blocks is None) == (target_num_rows_per_block is None):
            raise ValueError("repartition() takes one of num_blocks and target_num_rows_per_block.")
        if target_num_rows_per_block is not None and shuffle:
            raise ValueError(
                "repartition(shuffle=True) takes no target_num_rows_per_block. Give num_blocks."
            )
        _check_count("num_blocks", num_blocks)
        _check_count("target_num_rows_per_block", target_num_rows_per_block)
        if keys:
            by_key = functools.partial(_by_key, keys, num_blocks or 1, sort)
            return self._derived(Rearranged((self._plan,), "Repartition", by_key))
        if target_num_rows_per_block is not None and not strict:
            return self._derived(
                Map(self._plan, "Repartition", (CutRows(target_num_rows_per_block),))
            )
        if shuffle and num_blocks is not None:
            return self.random_shuffle(num_blocks=num_blocks)
        counts = functools.partial(_row_counts, num_blocks, target_num_rows_per_block)
        stages = functools.partial(exchange.repartition, counts)
        return self._derived(Rearranged((self._plan,), "Repartition", stages))

    @keys.sorts_by_function
    def sort(
        self,
        key: str | list[str] | None,
        descending: bool | list[bool] = False,
        boundaries: list[Any] | None = None,
    ) -> Dataset:
        """Sort all rows by columns.

        Parameters
        ----------
        key : str or list of str
            The columns, the most significant first.
        descending : bool or list of bool, default False
            The direction, for all or for each.
        boundaries : list, optional
            Values of the one column at which blocks begin. By default they are estimated from samples,
            for blocks of about equal size.

        Examples
        --------
        >>> ray.data.from_items([3, 1, 2]).sort("item", descending=True).take_all()
        [{'item': 3}, {'item': 2}, {'item': 1}]

        Raises
        ------
        ValueError
            When a column is not there, a key is not a name, or the numbers of directions and columns
            differ.

        Notes
        -----
        Ray source: ``Dataset.sort``, 2.60.0. Differs from Ray: equal rows keep their order.
        """
        names = _names_of_keys("sort", key)
        if not names:
            raise ValueError("sort() needs the name of a column.")
        directions = [descending] * len(names) if isinstance(descending, bool) else descending
        if len(directions) != len(names):
            raise ValueError(
                f"descending={descending} has {len(directions)} values for {len(names)} columns: give "
                "one for each."
            )
        if boundaries and len(names) > 1:
            raise ValueError("boundaries are values of one column: sort by one, or leave them out.")
        self._check_columns(names, "sort")
        keys = [
            (name, "descending" if down else "ascending")
            for name, down in zip(names, directions, strict=True)
        ]
        stages = functools.partial(
            exchange.sort, keys, boundaries, self._context.target_max_block_size
        )
        return self._derived(Sorted((self._plan,), "Sort", stages))

    @keys.groups_by_function
    def groupby(
        self, key: str | list[str] | None, num_partitions: int | None = None
    ) -> GroupedData:
        """Group the rows by the values of columns.

        Parameters
        ----------
        key : str or list of str or None
            The columns; None: all rows are one group.
        num_partitions : int, optional
            Blocks that the groups are divided into. Default: by the amount of data.

        Examples
        --------
        >>> ray.data.range(4).map(lambda row: {"odd": row["id"] % 2}).groupby(
        ...     "odd"
        ... ).count().take_all()
        [{'odd': 0, 'count()': 2}, {'odd': 1, 'count()': 2}]
        """
        names = _names_of_keys("groupby", key)
        _check_count("num_partitions", num_partitions)
        self._check_columns(names, "groupby")
        return GroupedData(self, names, num_partitions)

    def aggregate(self, *aggs: Aggregation) -> Any:
        """Compute aggregations of all rows.

        Parameters
        ----------
        *aggs : AggregateFn
            At least one, of `raycompat.data.aggregate`.

        Returns
        -------
        dict
            The results by the aggregations' names.

        Examples
        --------
        >>> from raycompat.data.aggregate import Max, Mean
        >>> ray.data.range(5).aggregate(Max("id"), Mean("id"))
        {'max(id)': 4, 'mean(id)': 2.0}
        """
        check(aggs)
        target = self._context.target_max_block_size
        result = self._derived(grouping.aggregate(self._plan, (), aggs, target)).take(1)
        return result[0] if result else None

    # Parts.

    def limit(self, limit: int) -> Dataset:
        """Keep the first `limit` rows; the rows after them are not read.

        Examples
        --------
        >>> ray.data.range(100).limit(2).take_all()
        [{'id': 0}, {'id': 1}]
        """
        if not isinstance(limit, int) or limit < 0:
            raise ValueError(f"limit={limit!r} is not a number of rows.")
        return self._derived(Limit(self._plan, limit))

    def num_blocks(self) -> int:
        """Raise an error: call ``materialize().num_blocks()``.

        Examples
        --------
        >>> ray.data.range(10, override_num_blocks=2).materialize().num_blocks()
        2
        """
        raise NotImplementedError(
            "The number of blocks is known when they have been made: call materialize().num_blocks()."
        )

    def split(
        self, n: int, *, equal: bool = False, locality_hints: Sequence[object] | None = None
    ) -> list[MaterializedDataset]:
        """Execute the plan, and divide its rows into several data sets, in order.

        Parameters
        ----------
        n : int
            Data sets to make.
        equal : bool, default False
            Give each exactly as many rows; up to ``n - 1`` rows are left out.
        locality_hints : list, optional
            Has no effect: blocks are read where they are.

        Examples
        --------
        >>> [part.count() for part in ray.data.range(9).split(3, equal=True)]
        [3, 3, 3]

        Notes
        -----
        Ray source: ``Dataset.split``, 2.60.0. Differs from Ray: without `equal`, too, the numbers of
        rows differ by one at most.
        """
        if not isinstance(n, int) or n < 1:
            raise ValueError(f"n={n!r} is not a number of data sets: give 1 or more.")
        if locality_hints is not None and len(locality_hints) != n:
            raise ValueError(f"locality_hints has {len(locality_hints)} items for {n} data sets.")
        whole = self.materialize()
        total = whole.count()
        counts = [total // n] * n if equal else exchange.even(total, n)
        return self._cut(whole, counts)

    def split_at_indices(self, indices: list[int]) -> list[MaterializedDataset]:
        """Execute the plan, and cut its rows before some of them.

        Parameters
        ----------
        indices : list of int
            Numbers of rows, in order; there is one more data set than these.

        Examples
        --------
        >>> [part.count() for part in ray.data.range(10).split_at_indices([2, 5])]
        [2, 3, 5]
        """
        if not indices:
            raise ValueError("indices is empty: give at least one number of a row.")
        if not all(isinstance(index, int | np.integer) for index in indices):
            raise TypeError(f"indices={indices}: give the numbers of rows, which are int.")
        if any(index < 0 for index in indices):
            raise ValueError(f"indices={indices} has a negative number: rows are counted from 0.")
        if sorted(indices) != list(indices):
            raise ValueError(f"indices={indices} are not in order.")
        whole = self.materialize()
        bounds = [0, *(min(index, whole.count()) for index in indices), whole.count()]
        return self._cut(whole, [int(count) for count in np.diff(bounds)])

    def split_proportionately(self, proportions: list[float]) -> list[MaterializedDataset]:
        """Execute the plan, and divide its rows by shares.

        Parameters
        ----------
        proportions : list of float
            Shares of the rows, with a sum below 1; the rest is one more data set.

        Examples
        --------
        >>> [
        ...     part.count()
        ...     for part in ray.data.range(10).split_proportionately([0.2, 0.5])
        ... ]
        [2, 5, 3]

        Raises
        ------
        ValueError
            For shares whose sum is not below 1, and when a part would have no row.
        """
        if not proportions:
            raise ValueError("proportions is empty: give at least one share.")
        if any(share <= 0 for share in proportions) or sum(proportions) >= 1:
            raise ValueError(
                f"proportions={proportions}: give shares greater than 0 whose sum is less than 1."
            )
        whole = self.materialize()
        indices = proportional_indices(whole.count(), proportions)
        if 0 in np.diff([0, *indices, whole.count()]):
            raise ValueError(
                f"proportions={proportions} of {whole.count()} rows: a part would have no row. Give "
                "larger shares, or more rows."
            )
        return whole.split_at_indices(indices)

    def train_test_split(
        self,
        test_size: int | float,
        *,
        shuffle: bool = False,
        seed: int | None = None,
        stratify: str | None = None,
    ) -> tuple[MaterializedDataset, MaterializedDataset]:
        """Execute the plan, and divide its rows for training and for testing.

        Parameters
        ----------
        test_size : int or float
            Rows to test with: a number, or a share between 0 and 1.
        shuffle : bool, default False
            Put the rows into a random order first.
        seed : int, optional
            The seed for `shuffle`.
        stratify : str, optional
            A column: the rows of each of its values are divided in the same proportion. Not together
            with `shuffle`.

        Examples
        --------
        >>> train, test = ray.data.range(10).train_test_split(test_size=0.2)
        >>> train.count(), test.count()
        (8, 2)

        Raises
        ------
        ValueError
            When `test_size` is not a share or a smaller number than that of the rows, or `stratify` is
            given with `shuffle`.
        """
        if stratify is not None:
            if shuffle:
                raise ValueError(
                    "stratify and shuffle are both given: shuffle the data set before."
                )
            return self._divided_by_values(stratify, test_size)
        whole = (self.random_shuffle(seed=seed) if shuffle else self).materialize()
        total = whole.count()
        if isinstance(test_size, float):
            if not 0 < test_size < 1:
                raise ValueError(f"test_size={test_size} is not a share: give 0 < test_size < 1.")
            train = whole.split_proportionately([1 - test_size])
        else:
            if not 0 < test_size < total:
                raise ValueError(f"test_size={test_size} is not a number of rows of {total}.")
            train = whole.split_at_indices([total - test_size])
        return train[0], train[1]

    def _divided_by_values(
        self, column: str, test_size: int | float
    ) -> tuple[MaterializedDataset, MaterializedDataset]:
        """Divide the rows of each value of a column in the same proportion."""
        self._check_columns([column], "train_test_split")
        whole = self.materialize()
        share = test_size if isinstance(test_size, float) else test_size / max(whole.count(), 1)
        if not 0 < share < 1:
            raise ValueError(
                f"test_size={test_size!r} of {whole.count()} rows: give a share between 0 and 1, or a "
                "smaller number of rows."
            )
        groups = whole.groupby(column)
        made = [
            groups.map_groups(
                functools.partial(_side_of_group, share, is_train), batch_format="pyarrow"
            ).materialize()
            for is_train in (True, False)
        ]
        return made[0], made[1]

    def _cut(self, whole: MaterializedDataset, counts: Sequence[int]) -> list[MaterializedDataset]:
        bundles = list(whole._bundles())
        made = []
        for of_range in exchange.pieces(bundles, counts):
            stages = functools.partial(exchange.cut, of_range)
            part = AllToAll((Input(()),), "Split", stages) if of_range else Input(bundles[:0])
            made.append(self._derived(part).materialize())
        return made

    def materialize(self) -> MaterializedDataset:
        """Execute the plan, and keep the blocks in the object store.

        Returns
        -------
        MaterializedDataset
            Its blocks are released with it. Blocks for which the store has no room go to disk.

        Examples
        --------
        >>> dataset = (
        ...     ray.data.range(3)
        ...     .map(lambda row: {"square": row["id"] ** 2})
        ...     .materialize()
        ... )
        >>> dataset.sum("square"), dataset.max("square")
        (5, 4)
        """
        made = MaterializedDataset(Input(list(self._bundles(keeps_output=True))), self._context)
        made._stats = self._stats
        made._name = self._name
        return made

    def columns(self, fetch_if_missing: bool = True) -> list[str] | None:
        """Return the names of the columns.

        Parameters
        ----------
        fetch_if_missing : bool, default True
            Execute the necessary part of the plan; otherwise return None if they are unknown.

        Examples
        --------
        >>> ray.data.from_items([{"name": "a", "size": 1}]).columns()
        ['name', 'size']
        """
        schema = self.schema(fetch_if_missing)
        return schema.names if schema is not None else None

    def schema(self, fetch_if_missing: bool = True) -> Schema | None:
        """Return the columns and their types.

        Parameters
        ----------
        fetch_if_missing : bool, default True
            Execute the necessary part of the plan; otherwise return None if they are unknown.

        Returns
        -------
        Schema or None
            None for a data set without rows whose columns are not known.

        Examples
        --------
        >>> ray.data.range(3).schema().names
        ['id']
        """
        known = self._schema if self._schema is not None else self._plan.columns()
        if known is None and fetch_if_missing:
            known = self._found_schema()
        self._schema = known
        return Schema(known) if known is not None else None

    def _found_schema(self) -> pa.Schema | None:
        if isinstance(self._plan, plan.Union):
            each = [self._derived(part).schema() for part in self._plan.inputs]
            found = [schema.base_schema for schema in each if schema is not None]
            return united(found) if found else None
        for bundle in self._derived(self._plan)._bundles():
            schema = bundle.metadata.schema
            if schema is not None and len(schema):
                return shown_schema(schema)
        return None

    def _check_columns(self, names: Iterable[str], what: str) -> None:
        """Raise a `ValueError` for columns that are not there, if the columns are known."""
        known = self._schema if self._schema is not None else self._plan.columns()
        if known is not None:
            require_columns(names, known.names, what)


class MaterializedDataset(Dataset):
    """A data set whose blocks are in the object store.

    Notes
    -----
    Ray source: ``ray.data.dataset.MaterializedDataset``, 2.60.0. No known difference.
    """

    def num_blocks(self) -> int:
        """Return the number of blocks.

        Notes
        -----
        Ray source: ``MaterializedDataset.num_blocks``, 2.60.0. No known difference.
        """
        assert isinstance(self._plan, Input)
        return len(self._plan.bundles)


def _names_of_keys(what: str, key: object) -> list[str]:
    names = [key] if isinstance(key, str) else key or ()
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise ValueError(
            f"{what}({key!r}): give the name of a column, or a list of names. Functions of rows are of "
            "Ray 2.4 and older: run such a program with `raycompat run --ray 2.4`, or add their values "
            "as a column first, with add_column(name, function)."
        )
    return list(names)


def _rows_of(tables: Iterable[Block]) -> Iterator[Row]:
    return (row for table in tables for row in rows(table))


def _side_of_group(share: float, is_train: bool, group: pa.Table) -> pa.Table:
    """Return the rows of a group for training, or the others; `share` is that of the tests."""
    num_train = group.num_rows - int(group.num_rows * share)
    return group.slice(0, num_train) if is_train else group.slice(num_train)


def proportional_indices(total: int, proportions: Sequence[float]) -> list[int]:
    """Return the rows at which to cut for shares of them."""
    return [int(total * share) for share in np.cumsum(proportions)]


def _check_count(name: str, value: int | None) -> None:
    if value is not None and not isinstance(value, int):
        raise TypeError(f"{name}={value!r} is not an int: give a number of 1 or more.")
    if value is not None and value < 1:
        raise ValueError(f"{name}={value!r} is not a number of 1 or more.")


def _row_counts(num_blocks: int | None, num_rows: int | None, total: int) -> list[int]:
    if num_blocks is not None:
        return exchange.even(total, num_blocks)
    assert num_rows is not None
    whole, rest = divmod(total, num_rows)
    return [num_rows] * whole + ([rest] if rest else [])


def _by_key(keys: list[str], num_parts: int, sorts: bool, bundles: list[Bundle]) -> Stages:
    groups = [[bundle] for bundle in bundles if bundle.num_rows]
    bundles.clear()
    if not groups:
        return []
    return (
        yield from exchange.exchange(
            groups, num_parts, (exchange.hash_parts, keys), (_joined, keys if sorts else [])
        )
    )


def _joined(number: int, keys: list[str], *tables: Block) -> list[Block]:
    joined = concat(tables)
    return [joined.sort_by([(key, "ascending") for key in keys]) if keys else joined]


def from_bundles(bundles: Sequence[Bundle]) -> MaterializedDataset:
    """Return a data set of blocks that are in the store."""
    return MaterializedDataset(Input(list(bundles)), DataContext.get_current().copy())


def put_blocks(tables: Iterable[Block]) -> MaterializedDataset:
    """Return a data set of tables that this process has."""
    made = map(storable, tables)
    return from_bundles([Bundle(ray.put(compact(table)), metadata_of(table)) for table in made])


__getattr__ = names_of(__name__)
