"""Batches: blocks that are divided into a given number of rows, in the requested format."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from raycompat._old_forms.data import plain_rows
from raycompat.data import block
from raycompat.data.block import Block

#: The names of formats; None is the format in which blocks are.
FORMATS = ("default", "numpy", "pandas", "pyarrow", None)


def check_format(name: str | None) -> None:
    """Raise a `ValueError` for a format that does not exist."""
    if name not in FORMATS and not (name == "native" and plain_rows.are_chosen()):
        raise ValueError(
            f'batch_format={name!r} is not a format of batches: it is "default", "numpy", "pandas", '
            '"pyarrow" or None.'
        )


def check_size(value: Any, name: str = "batch_size") -> None:
    """Raise a `ValueError` for an invalid number of rows."""
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if value is not None and not (whole and value >= 1):
        raise ValueError(f"{name}={value!r} is not a number of rows: give an integer of 1 or more.")


def formatted(table: Block, batch_format: str | None) -> Any:
    """Return a table in a format."""
    return block.BlockAccessor(table).to_batch_format(batch_format)


def sized(
    tables: Iterable[Block], batch_size: int | None, drop_last: bool = False
) -> Iterator[Block]:
    """Yield tables of `batch_size` rows; the last has the rest. None: each table as it is."""
    if batch_size is None:
        yield from (table for table in tables if table.num_rows)
        return
    waiting: deque[Block] = deque()
    num_rows = 0
    for table in tables:
        if not table.num_rows:
            continue
        waiting.append(table)
        num_rows += table.num_rows
        while num_rows >= batch_size:
            yield _taken(waiting, batch_size)
            num_rows -= batch_size
    if num_rows and not drop_last:
        yield _taken(waiting, num_rows)


def of_whole_batches(
    tables: Iterable[Block], batch_size: int, target_bytes: int
) -> Iterator[Block]:
    """Yield tables of all available batches, up to about a size; the last has the rest."""
    left = pa.table({})
    for table in tables:
        if not table.num_rows:
            continue
        present = block.concat([left, table])
        num_whole = present.num_rows // batch_size * batch_size
        rows = target_bytes * present.num_rows // max(present.nbytes, 1)
        step = max(rows // batch_size, 1) * batch_size
        for start in range(0, num_whole, step):
            yield present.slice(start, min(step, num_whole - start))
        left = present.slice(num_whole)
    if left.num_rows:
        yield left


def _taken(waiting: deque[Block], num_rows: int) -> Block:
    """Take rows from the front of the tables that wait."""
    pieces = []
    while num_rows:
        table = waiting.popleft()
        if table.num_rows > num_rows:
            waiting.appendleft(table.slice(num_rows))
            table = table.slice(0, num_rows)
        pieces.append(table)
        num_rows -= table.num_rows
    return pieces[0] if len(pieces) == 1 else block.concat(pieces)


def shuffled(
    tables: Iterable[Block], batch_size: int, buffer_size: int, seed: int | None, drop_last: bool
) -> Iterator[Block]:
    """Yield batches of rows drawn from a buffer of at least `buffer_size` rows."""
    random = np.random.default_rng(seed)
    buffer = pa.table({})
    order = np.zeros(0, np.int64)
    pending: list[Block] = []
    num_pending = 0
    for table in tables:
        pending.append(table)
        num_pending += table.num_rows
        if len(order) + num_pending < 2 * buffer_size + batch_size:
            continue  # mixing copies the buffer: do it once for many rows
        buffer = block.in_one_piece([_rows_at(buffer, order), *pending])
        pending, num_pending = [], 0
        order = random.permutation(buffer.num_rows)
        while len(order) >= buffer_size + batch_size:
            yield buffer.take(pa.array(order[:batch_size]))
            order = order[batch_size:]
    buffer = block.in_one_piece([_rows_at(buffer, order), *pending])
    order = random.permutation(buffer.num_rows)
    for start in range(0, len(order), batch_size):
        if drop_last and start + batch_size > len(order):
            return
        yield buffer.take(pa.array(order[start : start + batch_size]))


def _rows_at(table: Block, order: np.ndarray) -> Block:
    return table.take(pa.array(order)) if len(order) else table.slice(0, 0)


def of_target_size(tables: Iterable[Block], target_bytes: int) -> Iterator[Block]:
    """Yield blocks near a size: small tables are put together, large ones are cut."""
    waiting: list[Block] = []
    num_bytes = 0
    for table in tables:
        for piece in _cut(table, target_bytes):
            waiting.append(piece)
            num_bytes += piece.nbytes
            if num_bytes >= target_bytes:
                yield from _put_together(waiting)
                waiting, num_bytes = [], 0
    if waiting:
        yield from _put_together(waiting)


def _put_together(tables: list[Block]) -> list[Block]:
    """Return one table, or several where the types of a column do not fit together."""
    try:
        return [block.concat(tables)]
    except ValueError:
        made = tables[:1]
    for table in tables[1:]:
        try:
            made[-1] = block.concat([made[-1], table])
        except ValueError:
            made.append(table)
    return made


def _cut(table: Block, target_bytes: int) -> Iterator[Block]:
    """Cut a table that has more than one and a half times the size."""
    if table.nbytes <= 1.5 * target_bytes or table.num_rows < 2:
        yield table
        return
    num_pieces = min(table.num_rows, -(-table.nbytes // target_bytes))
    bounds = np.linspace(0, table.num_rows, num_pieces + 1).astype(int)
    for start, stop in itertools.pairwise(bounds):
        yield table.slice(start, stop - start)
