"""The plan of a join: rows with equal keys go to the same task, where Arrow joins them."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from raycompat.data import block, exchange, tasks
from raycompat.data.block import Block, Bundle
from raycompat.data.operators import Stage, Stages, Task
from raycompat.data.plan import AllToAll, Node

#: The names of joins in Ray and in Arrow.
TYPES = {
    "inner": "inner",
    "left_outer": "left outer",
    "right_outer": "right outer",
    "full_outer": "full outer",
    "left_semi": "left semi",
    "right_semi": "right semi",
    "left_anti": "left anti",
    "right_anti": "right anti",
}

#: Columns that mark the matching rows.
_LEFT, _RIGHT = "__raycompat_left__", "__raycompat_right__"


def join(
    left: Node,
    right: Node,
    join_type: str,
    num_partitions: int,
    keys: tuple[Sequence[str], Sequence[str]],
    suffixes: tuple[str | None, str | None],
    target_bytes: int,
) -> Node:
    """Return the plan of a join; `keys` and `suffixes` are those of the left and the right side."""

    def stages(of_left: list[Bundle], of_right: list[Bundle]) -> Stages:
        groups = [
            exchange.grouped(exchange.filled(each), target_bytes) for each in (of_left, of_right)
        ]
        of_left.clear()
        of_right.clear()
        made = [
            exchange.map_tasks(each, num_partitions, _parts, list(names))
            for each, names in zip(groups, keys, strict=True)
        ]
        num_left = len(made[0])
        stage_of_groups = Stage(made[0] + made[1])
        del groups, made  # from now on only the task that takes a block keeps it
        parts = [bundles for _, bundles in (yield stage_of_groups)]
        function = functools.partial(_joined, join_type, keys, suffixes)
        stage = [
            _task(
                function,
                [p[number] for p in parts[:num_left]],
                [p[number] for p in parts[num_left:]],
            )
            for number in range(num_partitions)
        ]
        del parts
        yield Stage(stage, is_last=True)
        return None

    return AllToAll((left, right), f"Join({join_type})", stages)


def _parts(number: int, num_parts: int, names: Sequence[str], *tables: Block) -> list[Block]:
    table = block.concat(tables)
    if table.num_columns:
        block.require_columns(names, table.column_names, "join")
    return exchange.hash_parts(number, num_parts, names, table)


def _task(function: object, left: list[Bundle], right: list[Bundle]) -> Task:
    inputs = [*left, *right]
    refs = [bundle.ref for bundle in inputs]
    return Task(lambda: tasks.make_block.remote(function, len(left), *refs), inputs)


def _joined(
    join_type: str,
    keys: tuple[Sequence[str], Sequence[str]],
    suffixes: tuple[str | None, str | None],
    num_left: int,
    *tables: Block,
) -> Block:
    left, right = block.concat(tables[:num_left]), block.concat(tables[num_left:])
    if not left.num_columns and not right.num_columns:
        return left
    left = left if left.num_columns else right.select(keys[1]).rename_columns(keys[0]).slice(0, 0)
    right = right if right.num_columns else left.select(keys[0]).rename_columns(keys[1]).slice(0, 0)
    # Arrow joins numbers and text alone, so it joins the keys and the numbers of the rows.
    numbered = [
        table.append_column(mark, pa.array(np.arange(table.num_rows)))
        for table, mark in zip(_of_equal_types(left, right, keys), (_LEFT, _RIGHT), strict=True)
    ]
    try:
        found = numbered[0].join(
            numbered[1],
            keys=list(keys[0]),
            right_keys=list(keys[1]),
            join_type=TYPES[join_type],
            use_threads=False,
        )
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        types = [
            [str(table.schema.field(n).type) for n in names]
            for table, names in ((left, keys[0]), (right, keys[1]))
        ]
        raise ValueError(
            f"The keys {list(keys[0])} have the types {types[0]}, and {list(keys[1])} have {types[1]}: "
            f"they cannot be compared ({error}). Convert them to one type first."
        ) from error
    if join_type in ("left_semi", "left_anti"):
        return left.take(found[_LEFT].sort())
    if join_type in ("right_semi", "right_anti"):
        return right.take(found[_RIGHT].sort())
    return _side_by_side(left, right, found, keys, suffixes)


def _of_equal_types(
    left: Block, right: Block, keys: tuple[Sequence[str], Sequence[str]]
) -> tuple[Block, Block]:
    """Return the keys of both sides; keys of different types that fit together get one type."""
    ours, theirs = left.select(keys[0]), right.select(keys[1]).rename_columns(keys[0])
    try:
        common = pa.unify_schemas([ours.schema, theirs.schema], promote_options="permissive")
    except pa.ArrowTypeError:  # the join says which types do not fit
        return ours, theirs.rename_columns(keys[1])
    return ours.cast(common), theirs.cast(common).rename_columns(keys[1])


def _side_by_side(
    left: Block,
    right: Block,
    found: Block,
    keys: tuple[Sequence[str], Sequence[str]],
    suffixes: tuple[str | None, str | None],
) -> Block:
    others = [name for name in right.column_names if name not in keys[1]]
    taken = set(left.column_names) & set(others)
    if taken and suffixes == (None, None):
        raise ValueError(
            f"join: both data sets have columns {sorted(taken)}. Pass left_suffix or right_suffix, or "
            "rename them."
        )
    left_rows, right_rows = left.take(found[_LEFT]), right.take(found[_RIGHT])
    names, columns = [], []
    for name in left.column_names:
        is_key = name in keys[0]
        names.append(name + (suffixes[0] or "") if name in taken and not is_key else name)
        columns.append(found[name] if is_key else left_rows[name])
    for name in others:
        names.append(name + (suffixes[1] or "") if name in taken else name)
        columns.append(right_rows[name])
    if len(set(names)) < len(names):
        raise ValueError(
            f"join: left_suffix={suffixes[0]!r} and right_suffix={suffixes[1]!r} make {names}, which "
            "has a name twice. Pass other suffixes."
        )
    return pa.table(columns, names=names)
