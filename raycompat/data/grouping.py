"""The plans of aggregations and of functions of groups."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from raycompat.data import batch, block, exchange
from raycompat.data.aggregate import Count
from raycompat.data.aggregation import Aggregation, Groups
from raycompat.data.block import Block, Bundle
from raycompat.data.compute import ActorPoolStrategy, TaskPoolStrategy
from raycompat.data.operators import Stages
from raycompat.data.plan import AllToAll, Map, Node
from raycompat.data.transform import Tables, TableStep, UserFunction, tables_of


def aggregate(
    plan: Node,
    keys: Sequence[str],
    aggregations: Sequence[Aggregation],
    target_bytes: int,
    num_partitions: int | None = None,
) -> Node:
    """Return the plan of an aggregation: a state for each group of each block, then one for each."""
    names = _distinct([aggregation.name for aggregation in aggregations])
    states = Map(plan, "Aggregate", (TableStep(_states, (keys, aggregations)),))

    def stages(bundles: list[Bundle]) -> Stages:
        groups = exchange.grouped(bundles, target_bytes)
        num_parts = num_partitions or max(1, len(groups))
        if not keys:
            num_parts = 1
        partition = (exchange.hash_parts, list(keys))
        reduce = (_results, keys, aggregations, names)
        bundles.clear()
        return (yield from exchange.exchange(groups or [[]], num_parts, partition, reduce))

    return AllToAll((states,), "Aggregate", stages)


def _distinct(names: Sequence[str]) -> list[str]:
    """Return the names; repeated names get a number."""
    counts: dict[str, int] = {}
    made = []
    for name in names:
        counts[name] = counts.get(name, 0) + 1
        made.append(name if counts[name] == 1 else f"{name}_{counts[name]}")
    return made


def _states(table: Block, keys: Sequence[str], aggregations: Sequence[Aggregation]) -> Block:
    groups = Groups(table, keys)
    made = groups.table
    columns = [
        (f"{number}.{index}", state)
        for number, aggregation in enumerate(aggregations)
        for index, state in enumerate(aggregation.states(table, groups))
    ]
    return pa.table(
        [*made.columns, *(state for _, state in columns)],
        names=[*made.column_names, *(name for name, _ in columns)],
    )


def _results(
    number: int,
    keys: Sequence[str],
    aggregations: Sequence[Aggregation],
    names: Sequence[str],
    *tables: Block,
) -> list[Block]:
    table = block.concat(tables)
    if not table.num_columns:
        return [] if keys else [_of_nothing(aggregations, names)]
    groups = Groups(table, keys)
    columns = []
    for index, aggregation in enumerate(aggregations):
        own = [name for name in table.column_names if name.startswith(f"{index}.")]
        merged = aggregation.merged([table[name] for name in own], groups)
        columns.append(aggregation.finished(merged))
    return [pa.table([*groups.table.columns, *columns], names=[*groups.table.column_names, *names])]


def _of_nothing(aggregations: Sequence[Aggregation], names: Sequence[str]) -> Block:
    values = [0 if isinstance(each, Count) else None for each in aggregations]
    return pa.table([pa.array([value]) for value in values], names=list(names))


@dataclass(frozen=True)
class MapGroups:
    """Call a function with each group of a table, which has all rows of its groups."""

    keys: Sequence[str]
    function: UserFunction
    batch_format: str | None

    def load(self) -> Callable[[Tables], Iterator[Block]]:
        """Return the function of tables."""
        function = self.function.load()

        return lambda tables: tables_of(
            function(group for table in tables if table.num_rows for group in self._groups(table))
        )

    def _groups(self, table: Block) -> Iterator[Block]:
        for rows in Groups(table, self.keys).rows():
            yield batch.formatted(table.take(pa.array(rows)), self.batch_format)


def map_groups(
    plan: Node,
    step: MapGroups,
    target_bytes: int,
    num_partitions: int | None,
    pool: TaskPoolStrategy | ActorPoolStrategy,
    options: Mapping[str, object],
) -> Node:
    """Return the plan that brings the rows of each group together and calls a function with them.

    The function runs in the tasks that bring the rows together, unless it has its own options.
    """
    name = f"MapGroups({step.function.name})"
    if not options and pool == TaskPoolStrategy():
        return _together(
            plan, name, step.keys, target_bytes, num_partitions, (_mapped, step, target_bytes)
        )
    gathered = _together(plan, "GroupBy", step.keys, target_bytes, num_partitions, (_gathered,))
    return Map(gathered, name, (step,), pool, options)


def _together(
    plan: Node,
    name: str,
    keys: Sequence[str],
    target_bytes: int,
    num_partitions: int | None,
    reduce: tuple[object, ...],
) -> Node:
    def stages(bundles: list[Bundle]) -> Stages:
        inputs = [bundle for bundle in bundles if bundle.num_rows]
        groups = exchange.grouped(inputs, target_bytes)
        num_parts = num_partitions or exchange.fitting_parts(inputs)
        if not keys:
            num_parts = 1
        bundles.clear()
        del inputs
        if not groups:
            return []
        partition = (exchange.hash_parts, list(keys))
        return (yield from exchange.exchange(groups, num_parts, partition, reduce))

    return AllToAll((plan,), name, stages)


def _gathered(number: int, *tables: Block) -> list[Block]:
    return [block.concat(tables)]


def _mapped(number: int, step: MapGroups, target_bytes: int, *tables: Block) -> Iterator[Block]:
    return batch.of_target_size(step.load()([block.concat(tables)]), target_bytes)
