"""Exchanges: operators that move rows between blocks, in two stages.

The tasks of the first stage divide their blocks into one part for each new block, with ``num_returns``.
The tasks of the second stage combine the parts. Each function here has the stages of one operator.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from raycompat.data import block, frames, seeds, tasks
from raycompat.data.block import Block, Bundle
from raycompat.data.operators import Stage, Stages, Task
from raycompat.data.seeds import RandomSeedConfig
from raycompat.data.storable import shown, storable

if TYPE_CHECKING:
    from raycompat.data.block import Column

#: Number of rows of each block that a sort samples to find the cuts.
_SAMPLES_A_BLOCK = 64

#: Bytes that a part has at least, where there are enough rows for `_LEAST_PARTS` of them. Each task of
#: the first stage makes an object for each part, and a part costs a task of the second stage.
_PART_BYTES = 16 * 2**20
_LEAST_PARTS = 16

#: (column, "ascending" or "descending"), the most significant first.
SortKeys = Sequence[tuple[str, str]]


def filled(bundles: Sequence[Bundle]) -> list[Bundle]:
    """Return the blocks that have rows; if none has, one that has columns."""
    filled = [bundle for bundle in bundles if bundle.num_rows]
    return filled or list(bundles[:1])


def grouped(bundles: Sequence[Bundle], target_bytes: int) -> list[list[Bundle]]:
    """Put blocks that follow each other into groups of `target_bytes`, or of less for a small total.

    A task copies all rows of its group.
    """
    total = sum(bundle.size_bytes for bundle in bundles)
    target_bytes = min(target_bytes, max(2 * _PART_BYTES, -(-total // _LEAST_PARTS)))
    groups: list[list[Bundle]] = []
    num_bytes = 0
    for bundle in bundles:
        if not groups or num_bytes + bundle.size_bytes > target_bytes:
            groups.append([])
            num_bytes = 0
        groups[-1].append(bundle)
        num_bytes += bundle.size_bytes
    return groups


def fitting_parts(bundles: Sequence[Bundle]) -> int:
    """Return the number of parts of all rows: at most the number of blocks, and no tiny parts."""
    size_bytes = sum(bundle.size_bytes for bundle in bundles)
    return max(1, min(len(bundles), max(_LEAST_PARTS, size_bytes // _PART_BYTES)))


def map_tasks(
    groups: Sequence[Sequence[Bundle]],
    num_parts: int,
    partition: Callable[..., list[Block]],
    *args: object,
) -> list[Task]:
    """Return the tasks of the first stage; `partition` is called with the group's number."""
    function = tasks.partition.options(num_returns=num_parts + 1)

    def submit(number: int, group: Sequence[Bundle]) -> Any:
        refs = [bundle.ref for bundle in group]
        return function.remote(partition, num_parts, number, num_parts, *args, *refs)

    return [
        Task(functools.partial(submit, number, group), list(group))
        for number, group in enumerate(groups)
    ]


def _reduce_tasks(
    parts: Sequence[Sequence[Bundle]],
    num_parts: int,
    function: Callable[..., object],
    *args: object,
) -> list[Task]:
    """Return the tasks of the second stage; `function` is called with the part's number."""

    def submit(number: int, inputs: Sequence[Bundle]) -> Any:
        refs = [bundle.ref for bundle in inputs]
        return tasks.make_blocks.remote(function, number, *args, *refs)

    made = []
    for number in range(num_parts):
        inputs = [each[number] for each in parts if each[number].num_rows]
        inputs = inputs or [each[number] for each in parts[:1]]
        made.append(Task(functools.partial(submit, number, inputs), inputs))
    return made


def exchange(
    groups: list[list[Bundle]],
    num_parts: int,
    partition: tuple[Any, ...],
    reduce: tuple[Any, ...],
) -> Stages:
    """Run both stages: `partition` and `reduce` are functions, followed by their arguments.

    `groups` is emptied: from then on only the task that takes a block keeps it.
    """
    tasks_of_groups = map_tasks(groups, num_parts, *partition)
    groups.clear()
    stage = Stage(tasks_of_groups)
    del tasks_of_groups
    results = yield stage
    parts = [bundles for _, bundles in results]
    del results
    stage = Stage(_reduce_tasks(parts, num_parts, *reduce), is_last=True)
    del parts  # from now on only the task that takes a part keeps it
    yield stage
    return None


# Shuffle.


def shuffle(
    seed: int | RandomSeedConfig | None,
    num_blocks: int | None,
    target_bytes: int,
    execution: int,
    bundles: list[Bundle],
) -> Stages:
    """Put all rows into a random order."""
    inputs = filled(bundles)
    if not inputs:
        return []
    number = seeds.number(seed, execution)
    num_parts = num_blocks or fitting_parts(inputs)
    groups = grouped(inputs, target_bytes)
    bundles.clear()
    del inputs
    yield from exchange(
        groups, num_parts, (_random_parts, number), (_shuffled, number, target_bytes)
    )
    return None


def _random_parts(number: int, num_parts: int, seed: int, *tables: Block) -> list[Block]:
    table = block.in_one_piece(tables)
    random = np.random.default_rng([seed, 0, number])
    if num_parts == 1:
        return [table]
    order = random.permutation(table.num_rows)
    bounds = np.sort(random.integers(0, table.num_rows + 1, num_parts - 1))
    if table.num_rows >= 8 * num_parts:  # parts of equal size are as random, and make equal blocks
        bounds = np.linspace(0, table.num_rows, num_parts + 1).astype(int)[1:-1]
    return [table.take(pa.array(rows)) for rows in np.split(order, bounds)]


def _shuffled(number: int, seed: int, target_bytes: int, *tables: Block) -> list[Block]:
    table = block.concat(tables)
    order = np.random.default_rng([seed, 1, number]).permutation(table.num_rows)
    return [table.take(pa.array(order))]


def reorder_blocks(
    seed: int | RandomSeedConfig | None, execution: int, bundles: list[Bundle]
) -> Stages:
    """Put the blocks into a random order, and leave the rows in them."""
    random = np.random.default_rng(seeds.entropy(seed, execution))
    order = random.permutation(len(bundles))
    yield Stage([])
    return [bundles[index] for index in order]


# Sort.


def sort(
    keys: SortKeys, boundaries: Sequence[Any] | None, target_bytes: int, bundles: list[Bundle]
) -> Stages:
    """Sort all rows: sample the keys, cut the blocks at the samples, sort each part."""
    inputs = filled(bundles)
    bundles.clear()
    if not inputs:
        return []
    names = [name for name, _ in keys]
    schema = inputs[0].metadata.schema
    if schema is not None and len(schema):
        block.require_columns(names, schema.names, "sort")
    groups = grouped(inputs, target_bytes)
    num_parts = fitting_parts(inputs)
    if boundaries is not None:
        cuts = pa.table({names[0]: pa.array(sorted(boundaries))}).sort_by(list(keys))
        num_parts = cuts.num_rows + 1
    elif num_parts == 1:
        cuts = pa.table({})
    else:
        examined = yield Stage([_examination(names, group) for group in groups])
        samples = block.concat([output.value for output, _ in examined])
        cuts = _quantiles(samples.take(pa.array(_order(samples, keys))), num_parts)
        num_parts = cuts.num_rows + 1
    del inputs
    yield from exchange(groups, num_parts, (_sorted_parts, keys, cuts), (_sorted, keys))
    return None


def _examination(names: Sequence[str], group: Sequence[Bundle]) -> Task:
    refs = [bundle.ref for bundle in group]
    return Task(lambda: [tasks.examine.remote(_samples, names, *refs)], list(group))


def _samples(names: Sequence[str], *tables: Block) -> Block:
    chosen = []
    for table in tables:
        block.require_columns(names, table.column_names, "sort")
        rows = np.unique(np.linspace(0, max(table.num_rows - 1, 0), _SAMPLES_A_BLOCK).astype(int))
        chosen.append(
            table.select(names).take(pa.array(rows if table.num_rows else [], pa.int64()))
        )
    return block.concat(chosen)


def _quantiles(samples: Block, num_parts: int) -> Block:
    """Return the rows of sorted samples at which to cut; equal ones once."""
    if not samples.num_rows:
        return samples
    rows = np.unique(np.linspace(0, samples.num_rows, num_parts + 1)[1:-1].astype(int))
    cuts = samples.take(pa.array(rows, pa.int64()))
    return cuts.group_by(cuts.column_names, use_threads=False).aggregate([])


def _sorted_parts(
    number: int, num_parts: int, keys: SortKeys, cuts: Block, *tables: Block
) -> list[Block]:
    """Sort a block and cut it; a value equal to a cut goes after it."""
    table = block.in_one_piece(tables)
    names = [name for name, _ in keys]
    block.require_columns(names, table.column_names, "sort")
    if num_parts == 1:
        return [table]
    marked = block.concat([_marked(table.select(names), 1), _marked(cuts.select(names), 0)])
    order = _order(marked, [*keys, (_MARK, "ascending")])
    is_cut = order >= table.num_rows
    rows = order[~is_cut]
    bounds = np.cumsum(~is_cut)[is_cut]
    return [table.take(pa.array(part)) for part in np.split(rows, bounds)]


#: A column that marks cuts among rows.
_MARK = "__raycompat_is_row__"


def _marked(table: Block, mark: int) -> Block:
    return table.append_column(_MARK, pa.array(np.full(table.num_rows, mark, np.int8)))


def _order(table: Block, keys: SortKeys) -> np.ndarray:
    try:
        return np.asarray(pc.sort_indices(table, sort_keys=list(keys)))
    except (pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        raise block.unordered(table, [name for name, _ in keys], "sort") from error


def _sorted(number: int, keys: SortKeys, *tables: Block) -> list[Block]:
    table = frames.unrecorded(block.concat(tables))
    return [table.take(pa.array(_order(table, keys)))] if table.num_columns else [table]


# By key.


def hash_parts(number: int, num_parts: int, keys: Sequence[str], *tables: Block) -> list[Block]:
    """Cut a block so that rows with equal keys are in the part of one number."""
    table = frames.unrecorded(block.in_one_piece(tables))
    if table.num_columns:
        block.require_columns(keys, table.column_names, "groupby")
    if num_parts == 1 or not table.num_rows:
        return [table, *[table.slice(0, 0)] * (num_parts - 1)]
    part = (hashes(table, keys) % np.uint64(num_parts)).astype(np.int64)
    order = np.argsort(part, kind="stable")
    bounds = np.searchsorted(part[order], np.arange(1, num_parts))
    return [table.take(pa.array(rows)) for rows in np.split(order, bounds)]


def hashes(table: Block, keys: Sequence[str]) -> np.ndarray:
    """Return a number for each row; rows with equal keys have equal numbers in all blocks.

    The type of a column may differ between blocks: it is null where all values are missing.
    """
    made = np.zeros(table.num_rows, np.uint64)
    for name in keys:
        column = table[name]
        numbers = pd.util.hash_array(_comparable(column))
        numbers[np.asarray(pc.is_null(column, nan_is_null=True))] = 0
        made = made * _HASH_FACTOR + numbers
    return made


#: Factor that combines the hashes of several columns: odd, so that no bit is lost.
_HASH_FACTOR = np.uint64(0x9E3779B97F4A7C15)


def _comparable(column: Column) -> np.ndarray:
    """Return the values of a column; equal values are equal whatever the column's type is."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    type_ = column.type
    if pa.types.is_timestamp(type_) or pa.types.is_date(type_):
        column = column.cast(pa.timestamp("us"), safe=False).cast(pa.int64())
    elif pa.types.is_duration(type_):
        column = column.cast(pa.duration("us"), safe=False).cast(pa.int64())
    elif pa.types.is_time(type_):
        column = column.cast(pa.time64("us"), safe=False).cast(pa.int64())
    elif not _is_number(type_):
        return np.asarray(column.to_pandas(), object)
    return np.asarray(column.cast(pa.float64(), safe=False), np.float64) + 0.0  # -0.0 becomes 0.0


def _is_number(type_: pa.DataType) -> bool:
    kinds = (
        pa.types.is_boolean,
        pa.types.is_integer,
        pa.types.is_floating,
        pa.types.is_decimal,
        pa.types.is_null,
    )
    return any(is_of_kind(type_) for is_of_kind in kinds)


# By position.

#: Rows `start` to `stop` of a block.
Piece = tuple[Bundle, int, int]


def pieces(bundles: Sequence[Bundle], counts: Sequence[int]) -> list[list[Piece]]:
    """Return the rows of each block for consecutive ranges of the given numbers of rows."""
    found: list[list[Piece]] = []
    index = offset = 0
    for count in counts:
        of_range: list[Piece] = []
        missing = count
        while missing and index < len(bundles):
            bundle = bundles[index]
            taken = min(missing, bundle.num_rows - offset)
            if taken:
                of_range.append((bundle, offset, offset + taken))
            missing -= taken
            offset += taken
            if offset == bundle.num_rows:
                index, offset = index + 1, 0
        found.append(of_range)
    return found


def _joined_task(range_pieces: Sequence[Piece], empty: Bundle | None) -> Task:
    """Return the task that makes one block of pieces."""
    bounds = [(start, stop) for _, start, stop in range_pieces] or [(0, 0)]
    inputs = [bundle for bundle, _, _ in range_pieces] or ([empty] if empty else [])
    refs = [bundle.ref for bundle in inputs]
    return Task(lambda: tasks.make_block.remote(join, bounds, *refs), inputs)


def join(bounds: Sequence[tuple[int, int]], *tables: Block) -> Block:
    """Return one block of ranges of rows of some."""
    return block.concat(
        [
            table.slice(start, stop - start)
            for table, (start, stop) in zip(tables, bounds, strict=False)
        ]
    )


def even(total: int, num_parts: int) -> list[int]:
    """Return numbers of rows that differ by one at most."""
    return [total // num_parts + (index < total % num_parts) for index in range(num_parts)]


def repartition(counts_of: Callable[[int], Sequence[int]], bundles: list[Bundle]) -> Stages:
    """Make blocks of numbers of rows, in order; whole blocks stay where they are."""
    counts = counts_of(sum(bundle.num_rows for bundle in bundles))
    ranges = pieces(bundles, counts)
    empty = bundles[0] if bundles else None
    bundles.clear()
    return (yield from _joined_ranges(ranges, empty))


def cut(range_pieces: Sequence[Piece], bundles: list[Bundle]) -> Stages:
    """Make a block of each piece; whole blocks stay where they are."""
    return (yield from _joined_ranges([[piece] for piece in range_pieces], None))


def _joined_ranges(ranges: Sequence[Sequence[Piece]], empty: Bundle | None) -> Stages:
    whole = [_only_whole(of_range) for of_range in ranges]
    missing = [
        _joined_task(of_range, empty)
        for of_range, found in zip(ranges, whole, strict=True)
        if found is None
    ]
    results = (yield Stage(missing)) if missing else []
    new = iter(results)
    return [found if found is not None else next(new)[1][0] for found in whole]


def _only_whole(of_range: Sequence[Piece]) -> Bundle | None:
    """Return the block that a range is all of, if it is one."""
    if len(of_range) != 1:
        return None
    bundle, start, stop = of_range[0]
    return bundle if (start, stop) == (0, bundle.num_rows) else None


def zipped(left: list[Bundle], right: list[Bundle], *others: list[Bundle]) -> Stages:
    """Put the columns of data sets with equally many rows side by side, by the blocks of the first."""
    sides = [right, *others]
    total = sum(bundle.num_rows for bundle in left)
    for side in sides:
        found = sum(bundle.num_rows for bundle in side)
        if found != total:
            raise ValueError(
                f"zip: one data set has {total} rows and another {found}. Give data sets of equal "
                "numbers of rows."
            )
    counts = [bundle.num_rows for bundle in left]
    ranges = [pieces(side, counts) for side in sides]
    yield Stage(
        [_zip_task(bundle, [each[index] for each in ranges]) for index, bundle in enumerate(left)],
        is_last=True,
    )
    return None


def _zip_task(first: Bundle, sides: Sequence[Sequence[Piece]]) -> Task:
    bounds = [[(start, stop) for _, start, stop in side] for side in sides]
    inputs = [first, *(bundle for side in sides for bundle, _, _ in side)]
    refs = [bundle.ref for bundle in inputs]
    return Task(lambda: tasks.make_block.remote(_side_by_side, bounds, *refs), inputs)


def _side_by_side(
    bounds: Sequence[Sequence[tuple[int, int]]], first: Block, *tables: Block
) -> Block:
    remaining = list(tables)
    for side in bounds:
        own, remaining = remaining[: len(side)], remaining[len(side) :]
        first = frames.side_by_side(first, shown(join(side, *own)))
    return storable(first)
