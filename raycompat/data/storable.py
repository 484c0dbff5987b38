"""Tables that Arrow can take rows from, put together and pickle: some are changed for it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

#: The column of a table that has rows and no columns, under Ray's name. Arrow forgets the number of
#: rows of such a table when it pickles it or puts several together. Rows and schemas do not show it.
ROWS_COLUMN = "__bsp_stub"


def storable(table: pa.Table) -> pa.Table:
    """Return the table without types that Arrow cannot take; only rows get a column, others lose it."""
    if not table.num_columns:
        return table.append_column(ROWS_COLUMN, pa.nulls(table.num_rows)) if len(table) else table
    if table.num_columns > 1:
        table = shown(table)
    for index, field in enumerate(table.schema):
        type_ = _storable(field.type)
        if type_ != field.type:
            column = pa.chunked_array(map(_decoded, table[index].chunks), type_)
            table = table.set_column(index, field.with_type(type_), column)
    return table


def shown(table: pa.Table) -> pa.Table:
    """Return the table as a program may see it, without the column that counts rows."""
    return table.drop_columns([ROWS_COLUMN]) if ROWS_COLUMN in table.column_names else table


def shown_schema(schema: pa.Schema) -> pa.Schema:
    """Return the columns that a program may see."""
    index = schema.get_field_index(ROWS_COLUMN)
    return schema if index < 0 else schema.remove(index)


def with_exact_integers(tables: list[pa.Table]) -> list[pa.Table]:
    """Return tables, to be joined, without floats beside integers that floats cannot hold.

    Functions of DataFrames make floats of integers where some are missing, and so in some blocks only.
    """
    for name in dict.fromkeys(name for table in tables for name in table.column_names):
        types = [each for each in types_of(tables, name) if each != pa.null()]
        integers = [each for each in types if pa.types.is_integer(each)]
        if len(types) == 2 and len(integers) == 1 and pa.float64() in types:
            tables = _with_integers(tables, name, integers[0])
    return tables


def types_of(tables: list[pa.Table], name: str) -> list[pa.DataType]:
    """Return the different types that a column has; not as a set, because some have no hash."""
    types: list[pa.DataType] = []
    for table in tables:
        if name in table.column_names and (type_ := table.schema.field(name).type) not in types:
            types.append(type_)
    return types


def _with_integers(tables: list[pa.Table], name: str, integers: pa.DataType) -> list[pa.Table]:
    """Return tables with integers in a column, if these fit all its values, and floats do not."""
    columns = [table[name] if name in table.column_names else None for table in tables]
    if all(each is None or _cast(each, pa.float64()) is not None for each in columns):
        return tables
    cast = [each if each is None else _cast(each, integers) for each in columns]
    if any(each is None for each, column in zip(cast, columns, strict=True) if column is not None):
        return tables
    return [
        table if each is None else table.set_column(table.column_names.index(name), name, each)
        for table, each in zip(tables, cast, strict=True)
    ]


def _cast(column: pa.ChunkedArray, type_: pa.DataType) -> pa.ChunkedArray | None:
    """Return a column in another type; None if that does not hold its values."""
    try:
        return column.cast(type_)
    except pa.ArrowInvalid:
        return None


def _storable(type_: pa.DataType) -> pa.DataType:
    """Return the type of the same values from which Arrow can take rows."""
    if pa.types.is_string_view(type_):
        return pa.string()
    if pa.types.is_binary_view(type_):
        return pa.binary()
    if pa.types.is_run_end_encoded(type_):
        return _storable(type_.value_type)
    if pa.types.is_struct(type_):
        return pa.struct([field.with_type(_storable(field.type)) for field in type_])
    if pa.types.is_map(type_):
        key, item = type_.key_field, type_.item_field
        fields = (field.with_type(_storable(field.type)) for field in (key, item))
        return pa.map_(*fields, keys_sorted=type_.keys_sorted)
    for is_kind, made in _LISTS:
        if is_kind(type_):
            return made(type_.value_field.with_type(_storable(type_.value_type)))
    if pa.types.is_fixed_size_list(type_):
        value = type_.value_field
        return pa.list_(value.with_type(_storable(value.type)), type_.list_size)
    return type_


#: The types of lists, and what makes the type of a list from which Arrow can take rows.
_LISTS = (
    (pa.types.is_list, pa.list_),
    (pa.types.is_large_list, pa.large_list),
    (pa.types.is_list_view, pa.list_),
    (pa.types.is_large_list_view, pa.large_list),
)


def _decoded(array: pa.Array) -> pa.Array:
    """Return the values in their storable type; Arrow has no cast for runs, in no depth."""
    type_ = _storable(array.type)
    if type_ == array.type:
        return array
    if pa.types.is_run_end_encoded(array.type):
        rows = np.arange(array.offset, array.offset + len(array))
        runs = np.searchsorted(np.asarray(array.run_ends), rows, side="right")
        return _decoded(array.values.take(pa.array(runs)))
    if not pa.types.is_nested(type_):
        return array.cast(type_)
    mask = array.is_null()
    if pa.types.is_struct(type_):
        columns = [_decoded(array.field(index)) for index in range(type_.num_fields)]
        return pa.StructArray.from_arrays(columns, fields=list(type_), mask=mask)
    if pa.types.is_fixed_size_list(type_):
        size = type_.list_size
        values = _decoded(array.values.slice(array.offset * size, len(array) * size))
        return pa.FixedSizeListArray.from_arrays(values, type=type_, mask=mask)
    if pa.types.is_map(type_):
        keys, items = _decoded(array.keys), _decoded(array.items)
        offsets = pa.array(np.array(array.offsets))
        return pa.MapArray.from_arrays(offsets, keys, items, type=type_, mask=mask)
    values = array.flatten()  # of these rows alone, and none of missing lists
    lengths = np.asarray(pc.list_value_length(array).fill_null(0))
    is_large = pa.types.is_large_list(type_)
    offsets = pa.array(np.cumsum([0, *lengths]), pa.int64() if is_large else pa.int32())
    of_kind = pa.LargeListArray if is_large else pa.ListArray
    return of_kind.from_arrays(offsets, _decoded(values), type=type_, mask=mask)
