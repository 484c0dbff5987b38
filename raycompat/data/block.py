"""Blocks: the Arrow tables of a data set, and their metadata."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from raycompat._old_forms.data import plain_rows
from raycompat._old_forms.data.named_rows import NamesRows
from raycompat._surface.modules import names_of
from raycompat.data import frames, tensor
from raycompat.data.storable import (
    ROWS_COLUMN,
    shown,
    storable,
    types_of,
    with_exact_integers,
)
from raycompat.object_ref import ObjectRef

#: In Ray, a block may also be a DataFrame; here each block is a table.
Block: TypeAlias = pa.Table

#: A column of a table, or one that is computed.
Column: TypeAlias = "pa.ChunkedArray | pa.Array"

#: The arguments and results of functions of batches.
DataBatch: TypeAlias = "pa.Table | pd.DataFrame | Mapping[str, Any]"

#: A row that a user gets, by column. Its values are what the user's data have: numbers, texts, arrays,
#: or objects of the user's classes.
Row: TypeAlias = dict[str, Any]

#: The column of values that are not dictionaries, and of arrays, as in Ray.
ITEM_COLUMN, TENSOR_COLUMN = "item", "data"


@dataclass(frozen=True, slots=True)
class BlockMetadata:
    """The metadata of a block.

    Parameters
    ----------
    num_rows : int or None
        None if it is unknown.
    size_bytes : int or None
        Bytes of the block in memory.
    input_files : list of str or None
        The files from which it was read.
    schema : pyarrow.Schema, optional
        The columns; None if they are not known.
    exec_stats, task_exec_stats
        Ray's measurements of the task that made the block. Kept as they are given.

    Examples
    --------
    >>> from raycompat.data.block import BlockAccessor
    >>> block = BlockAccessor.batch_to_block({"x": [3, 1, 2]})
    >>> metadata = BlockAccessor.for_block(block).get_metadata()
    >>> metadata.num_rows, metadata.size_bytes
    (3, 24)

    Notes
    -----
    Ray source: ``ray.data.block.BlockMetadata``, 2.60.0. Differs from Ray: the schema is here;
    nothing measures `exec_stats`.
    """

    num_rows: int | None
    size_bytes: int | None
    input_files: list[str] | None = field(default_factory=list)
    schema: pa.Schema | None = None
    exec_stats: object = None
    task_exec_stats: object = None


@dataclass(frozen=True, slots=True)
class Bundle:
    """The reference of a block in the object store, and its metadata."""

    ref: ObjectRef[Block]
    metadata: BlockMetadata

    @property
    def num_rows(self) -> int:
        """Rows in the block."""
        return self.metadata.num_rows or 0

    @property
    def size_bytes(self) -> int:
        """Bytes of the block."""
        return self.metadata.size_bytes or 0


class BlockEntry(NamedTuple):
    """A block of a `RefBundle`."""

    ref: ObjectRef[Block]
    metadata: BlockMetadata


@dataclass(frozen=True, slots=True)
class RefBundle:
    """Blocks that `Dataset.iter_internal_ref_bundles` yields together.

    Parameters
    ----------
    blocks : tuple
        For each block ``ref``, a reference, and ``metadata``, its `BlockMetadata`.
    schema : pyarrow.Schema or None
        The columns of the first block.

    Examples
    --------
    >>> import raycompat as ray
    >>> numbers = ray.data.range(4, override_num_blocks=2)
    >>> bundles = list(numbers.iter_internal_ref_bundles())
    >>> [bundle.num_rows() for bundle in bundles], bundles[0].size_bytes()
    ([2, 2], 16)

    Notes
    -----
    Ray source: ``ray.data._internal.execution.interfaces.RefBundle``, 2.60.0. Differs from Ray: a
    bundle has one block, and it does not own it.
    """

    blocks: tuple[BlockEntry, ...]
    schema: pa.Schema | None = None

    @property
    def block_refs(self) -> list[ObjectRef[Block]]:
        """The references of the blocks."""
        return [ref for ref, _ in self.blocks]

    @property
    def metadata(self) -> list[BlockMetadata]:
        """The metadata of the blocks."""
        return [metadata for _, metadata in self.blocks]

    def num_rows(self) -> int:
        """Return the number of rows of all blocks."""
        return sum(metadata.num_rows or 0 for metadata in self.metadata)

    def size_bytes(self) -> int:
        """Return the bytes of all blocks."""
        return sum(metadata.size_bytes or 0 for metadata in self.metadata)


def metadata_of(table: Block, input_files: Sequence[str] | None = None) -> BlockMetadata:
    """Return the metadata of a table."""
    return BlockMetadata(table.num_rows, table.nbytes, list(input_files or ()), table.schema)


def to_table(batch: object) -> Block:
    """Return a batch, or a function's result for one, as a table.

    Raises
    ------
    ValueError
        When it is not a batch, or its columns have different lengths.
    """
    if isinstance(batch, pa.Table):
        return frames.unrecorded(storable(batch))
    if isinstance(batch, pd.DataFrame):
        return frames.from_pandas(batch)
    batch = plain_rows.batch(batch)
    if not isinstance(batch, Mapping):
        raise ValueError(
            f"{_shortened(batch)} is not a batch. A function of batches returns a dictionary of numpy "
            "arrays or lists, a pandas.DataFrame or a pyarrow.Table, or yields such."
        )
    columns = {str(name): _column(name, values) for name, values in batch.items()}
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(
            f"The columns of a batch differ in length: {lengths}. Give each one value per row."
        )
    return pa.table(columns)


def of_source(value: object) -> Block:
    """Return a batch as the table of a data source: one of a DataFrame records the types of it."""
    table = to_table(value)
    return frames.recorded(table, value) if isinstance(value, pd.DataFrame) else table


def _shortened(value: object) -> str:
    text = repr(value)
    return f"{text[:80]}... ({type(value).__name__})" if len(text) > 80 else text


def _column(name: str, values: object) -> pa.Array:
    values = tensor.without_torch(values)
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values
    if isinstance(values, np.ndarray) and values.ndim:
        return tensor.from_numpy(values)
    if isinstance(values, list | tuple):
        return tensor.from_list(values)
    if isinstance(values, pd.Series | pd.Index):
        return frames.from_series(values)
    if hasattr(values, "__array__"):
        return _column(name, np.asarray(values))
    raise ValueError(
        f"Column {name!r} of a batch is {_shortened(values)}. It should be an array or a list with "
        "one value per row."
    )


def to_numpy(table: Block) -> dict[str, np.ndarray]:
    """Return a table as a dictionary of arrays."""
    return {name: tensor.to_numpy(table[name]) for name in shown(table).column_names}


def rows(table: Block) -> Iterator[Row]:
    """Yield the rows of a table as dictionaries of Python values."""
    names = shown(table).column_names
    if not names:
        yield from ({} for _ in range(table.num_rows))
        return
    columns = [tensor.to_list(table[name]) for name in names]
    plain = plain_rows.rows(names, columns)
    if plain is not None:
        yield from plain
        return
    for values in zip(*columns, strict=True):
        yield dict(zip(names, values, strict=True))


def from_rows(items: Sequence[Mapping[str, object]]) -> Block:
    """Return a table of rows; fields that a row lacks are missing in the table."""
    names = dict.fromkeys(name for item in items for name in item)
    if not names:
        return pa.table({ROWS_COLUMN: pa.nulls(len(items))}) if items else pa.table({})
    return pa.table({str(name): _values([item.get(name) for item in items]) for name in names})


def _values(values: list[object]) -> pa.Array:
    if isinstance(values[0], np.generic):
        kinds = {type(value) for value in values}
        if len(kinds) == 1:
            return tensor.from_numpy(np.array(values))
    return tensor.from_list(values)


def concat(tables: Iterable[Block]) -> Block:
    """Return one table of the rows of all; columns are joined by name."""
    present = [table for table in tables if table.num_columns]
    if not present:
        return pa.table({})
    filled = [table for table in present if table.num_rows] or present[:1]
    if len(filled) == 1:
        return filled[0]
    if any(table.schema != filled[0].schema for table in filled):
        filled = with_exact_integers(_with_one_tensor_type(filled))
    filled = frames.with_one_record(filled)
    try:
        return storable(pa.concat_tables(filled, promote_options="permissive"))
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise ValueError(
            f"Blocks of one data set have columns that do not fit together: {error}. Convert the "
            "column to one type, with map_batches for example."
        ) from error


def _with_one_tensor_type(tables: list[Block]) -> list[Block]:
    for name in dict.fromkeys(name for table in tables for name in table.column_names):
        types = types_of(tables, name)
        if len(types) > 1 and all(tensor.is_tensor(each) for each in types):
            tables = [
                table.set_column(
                    table.column_names.index(name), name, tensor.as_ragged(table[name])
                )
                if name in table.column_names
                else table
                for table in tables
            ]
    return tables


def in_one_piece(tables: Iterable[Block]) -> Block:
    """Return `concat` of the tables, with the values of each column next to each other.

    Arrow copies all pieces of a column for each selection of rows from it. Use this before several.
    """
    return concat(tables).combine_chunks()


def compact(table: Block) -> Block:
    """Return a table that keeps no memory alive but its own rows.

    A slice is pickled with all of the buffers that it was cut from when it is not copied.
    """
    if table.get_total_buffer_size() > 1.5 * table.nbytes + 4096:
        return table.take(pa.array(np.arange(table.num_rows)))
    return table


def described(type_: pa.DataType) -> str:
    """Return a text about a column's values, for error messages."""
    if isinstance(type_, pa.BaseExtensionType):
        return "Python objects, or values of several types, or integers beyond 64 bits"
    return f"values of the type {type_}"


def unordered(table: Block, keys: Sequence[str], operation: str) -> TypeError:
    """Return the error for keys that Arrow cannot compare."""
    types = {name: table[name].type for name in keys}
    of_kind = [
        name
        for name, kind in types.items()
        if pa.types.is_nested(kind) or isinstance(kind, pa.BaseExtensionType)
    ]
    name = (of_kind or list(keys))[0]
    return TypeError(
        f"{operation}: the column {name!r} has {described(types[name])}, which have no order. Use a "
        "column of numbers or texts: add_column or map_batches can make one of it, such as its str."
    )


def require_columns(names: Iterable[str], schema: Sequence[str], what: str) -> None:
    """Raise a `NoColumnError` for columns that a data set does not have.

    Parameters
    ----------
    names : iterable of str
        The requested columns.
    schema : sequence of str
        The existing columns.
    what : str
        The operation, for the message.
    """
    absent = [name for name in names if name not in schema]
    if not absent:
        return
    near = [near for name in absent for near in difflib.get_close_matches(str(name), schema, 1)]
    hint = f" Did you mean {', '.join(map(repr, near))}?" if near else ""
    named = ", ".join(map(repr, absent))
    raise NoColumnError(
        f"{what}: there is no column {named}.{hint} The columns are {list(schema)}."
    )


def of_schema(table: Block, schema: pa.Schema | None, what: str) -> Block:
    """Return the columns of a schema, in its types; without one, the table.

    Parameters
    ----------
    table : pyarrow.Table
    schema : pyarrow.Schema, optional
    what : str
        The operation, for the message.

    Raises
    ------
    NoColumnError
        When the table does not have a column of the schema.
    """
    if schema is None:
        return table
    require_columns(schema.names, table.column_names, what)
    return table.select(schema.names).cast(schema)


class NoColumnError(ValueError, KeyError):
    """A data set does not have a column; Ray raises either base, so a program may catch either."""

    __str__ = Exception.__str__  # that of KeyError shows the repr of the text


class BlockAccessor(NamesRows):
    """The operations on a block. `for_block` makes it.

    Examples
    --------
    >>> from raycompat.data.block import BlockAccessor
    >>> block = BlockAccessor.batch_to_block({"x": [3, 1, 2]})
    >>> access = BlockAccessor.for_block(block)
    >>> access.num_rows(), access.schema().names
    (3, ['x'])
    >>> access.sum("x", True), access.min("x", True), access.mean("x", True)
    (6, 1, 2.0)
    >>> access.slice(0, 2).num_rows, access.take([2, 0])["x"].to_pylist()
    (2, [2, 3])
    >>> access.rename_columns({"x": "y"}).column_names
    ['y']
    >>> access.to_numpy("x"), access.to_pandas().shape
    (array([3, 1, 2]), (3, 1))
    >>> access.zip(block).column_names, access.fill_column("y", 0).column_names
    (['x', 'x_1'], ['x', 'y'])
    >>> access.upsert_column("x", access.random_shuffle(1)["x"]).num_rows
    3
    >>> access.drop(["x"]).num_columns, access.column_names()
    (0, ['x'])

    >>> access.count("x"), access.max("x", True), next(access.iter_rows())
    (3, 3, {'x': 3})
    >>> (
    ...     access.select(["x"]) is not None,
    ...     access.size_bytes(),
    ...     access.get_metadata().num_rows,
    ... )
    (True, 24, 3)
    >>> access.to_batch_format("pandas")["x"].tolist()
    [3, 1, 2]

    A block is a table of Arrow already:

    >>> (
    ...     access.to_block().equals(access.to_arrow()),
    ...     access.to_default() is access.to_block(),
    ... )
    (True, True)

    Notes
    -----
    Ray source: ``ray.data.block.BlockAccessor``, 2.60.0. Differs from Ray: it has no operations of
    Ray's own executor.
    """

    def __init__(self, table: Block) -> None:
        self._table = table

    @staticmethod
    def for_block(block: DataBatch) -> BlockAccessor:
        """Return the operations on a block: a table, a DataFrame or a dictionary of arrays."""
        return BlockAccessor(to_table(block))

    @staticmethod
    def batch_to_block(batch: DataBatch) -> Block:
        """Return a batch as a table."""
        return to_table(batch)

    def num_rows(self) -> int:
        """Return the number of rows."""
        return int(self._table.num_rows)

    def size_bytes(self) -> int:
        """Return the bytes of the rows in memory."""
        return int(self._table.nbytes)

    def schema(self) -> pa.Schema:
        """Return the columns and their types."""
        return shown(self._table).schema

    def get_metadata(self, input_files: Sequence[str] | None = None) -> BlockMetadata:
        """Return the numbers of rows and bytes, and the schema."""
        return metadata_of(self._table, input_files)

    def iter_rows(self, public_row_format: bool = True) -> Iterator[Row]:
        """Yield the rows as dictionaries of Python values."""
        return rows(self._table)

    def slice(self, start: int, end: int, copy: bool = False) -> Block:
        """Return the rows from `start` to before `end`."""
        piece = self._table.slice(start, end - start)
        return compact(piece) if copy else piece

    def take(self, indices: Sequence[int]) -> Block:
        """Return the rows at some positions."""
        return self._table.take(pa.array(indices, pa.int64()))

    def select(self, columns: Sequence[str]) -> Block:
        """Return some columns."""
        return self._table.select(list(columns))

    def rename_columns(self, columns_rename: Mapping[str, str]) -> Block:
        """Return the block with other names of columns."""
        names = self._table.column_names
        return self._table.rename_columns([columns_rename.get(name, name) for name in names])

    def drop(self, columns: Sequence[str]) -> Block:
        """Return all columns except some."""
        return frames.unrecorded(self._table).drop_columns(list(columns))

    def zip(self, other: Block) -> Block:
        """Return the columns of two blocks; a second column ``a`` is named ``a_1``."""
        if other.num_rows != self.num_rows():
            raise ValueError(
                f"zip: one block has {self.num_rows()} rows and the other {other.num_rows}. Give "
                "blocks of equal numbers of rows."
            )
        return frames.side_by_side(self._table, other)

    def upsert_column(
        self, column_name: str, column_data: pa.Array | pa.ChunkedArray | pd.Series
    ) -> Block:
        """Return the block with a new column, or with another one in the place of that name."""
        table = frames.unrecorded(self._table)
        values = pa.array(column_data) if isinstance(column_data, pd.Series) else column_data
        if column_name not in table.column_names:
            return table.append_column(column_name, values)
        return table.set_column(table.column_names.index(column_name), column_name, values)

    def fill_column(self, name: str, value: object) -> Block:
        """Return the block with a column of one value in all rows."""
        return self.upsert_column(name, pa.repeat(pa.scalar(value), self.num_rows()))

    def random_shuffle(self, random_seed: int | None) -> Block:
        """Return the rows in a random order; equal seeds give equal orders."""
        return self.take(np.random.default_rng(random_seed).permutation(self.num_rows()).tolist())

    def column_names(self) -> list[str]:
        """Return the names of the columns."""
        return list(self.schema().names)

    def to_arrow(self) -> pa.Table:
        """Return a table."""
        return shown(self._table)

    def to_block(self) -> Block:
        """Return the block."""
        return self._table

    def to_default(self) -> Block:
        """Return the block."""
        return self._table

    def to_pandas(self) -> pd.DataFrame:
        """Return a DataFrame."""
        return frames.to_pandas(plain_rows.shown(self._table))

    def to_numpy(self, columns: str | Sequence[str] | None = None) -> Any:
        """Return a dictionary of arrays, or the array of one column."""
        if isinstance(columns, str):
            return tensor.to_numpy(self._table[columns])
        return to_numpy(self._table if columns is None else self.select(columns))

    def to_batch_format(self, batch_format: str | None) -> Any:
        """Return the block as a batch: in the format "default", "numpy", "pandas" or "pyarrow"."""
        if plain_rows.are_chosen():
            of_its_time = plain_rows.in_format(self._table, batch_format, self)
            if of_its_time is not None:
                return of_its_time
        if batch_format in ("default", "numpy"):
            return self.to_numpy()
        is_frame = batch_format is None and frames.record_of(self._table.schema) is not None
        if batch_format == "pandas" or is_frame:
            return self.to_pandas()
        if batch_format == frames.NUMPY_BACKED:
            return frames.to_pandas(plain_rows.shown(self._table), arrow_backed=False)
        if batch_format in ("pyarrow", None):
            return plain_rows.shown(shown(frames.unrecorded(self._table)))
        raise ValueError(
            f'batch_format={batch_format!r} is not a format of batches: it is "default", "numpy", '
            '"pandas" or "pyarrow".'
        )

    def count(self, on: str, ignore_nulls: bool = False) -> int:
        """Return the number of values of a column."""
        column = self._table[on]
        return len(column) - (int(column.null_count) if ignore_nulls else 0)

    def sum(self, on: str, ignore_nulls: bool) -> Any:
        """Return the sum of a column, of integers without a limit; None without values."""
        column = self._table[on]
        if self._reduced(pc.sum, on, ignore_nulls) is None or not pa.types.is_integer(column.type):
            return self._reduced(pc.sum, on, ignore_nulls)
        wide = column.cast(pa.uint64() if pa.types.is_uint64(column.type) else pa.int64())
        upper = pc.sum(pc.shift_right(wide, pa.scalar(32, wide.type))).as_py()
        lower = pc.sum(pc.bit_wise_and(wide, pa.scalar(2**32 - 1, wide.type))).as_py()
        return (upper << 32) + lower

    def min(self, on: str, ignore_nulls: bool) -> Any:
        """Return the least value of a column; None without values."""
        return self._reduced(pc.min, on, ignore_nulls)

    def max(self, on: str, ignore_nulls: bool) -> Any:
        """Return the greatest value of a column; None without values."""
        return self._reduced(pc.max, on, ignore_nulls)

    def mean(self, on: str, ignore_nulls: bool) -> Any:
        """Return the mean of a column; None without values."""
        if pa.types.is_integer(self._table[on].type):  # Arrow adds them without a check
            values = self._table[on].cast(pa.float64(), safe=False)
            return pc.mean(values, skip_nulls=ignore_nulls).as_py()
        return self._reduced(pc.mean, on, ignore_nulls)

    def _reduced(self, function: Callable[..., pa.Scalar], on: str, ignore_nulls: bool) -> Any:
        return function(self._table[on], skip_nulls=ignore_nulls).as_py()


__getattr__ = names_of(__name__)
