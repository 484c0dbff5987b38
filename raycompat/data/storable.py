"""Tables that Arrow can take rows from, put together and pickle: some are changed for it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

#: The column of a table that has rows and no columns, under Ray's name. Arrow forgets the number of
#: rows of such a table when it pickles it or puts several together. Rows and schemas do not show it.
ROWS_COLUMN = "__bsp_stub"


def storable(table: pa.Table) -> pa.Table:
    """Return the table with a column if it had only rows, and without types that Arrow cannot take."""
    if not table.num_columns:
        return table.append_column(ROWS_COLUMN, pa.nulls(table.num_rows)) if len(table) else table
    for index, field in enumerate(table.schema):
        type_ = _storable(field.type)
        if type_ != field.type:
            column = pa.chunked_array(map(_decoded, table[index].chunks), _decoded_type(field.type))
            table = table.set_column(index, field.with_type(type_), column.cast(type_))
    return table


def shown(table: pa.Table) -> pa.Table:
    """Return the table as a program may see it, without the column that counts rows."""
    return table.drop_columns([ROWS_COLUMN]) if ROWS_COLUMN in table.column_names else table


def shown_schema(schema: pa.Schema) -> pa.Schema:
    """Return the columns that a program may see."""
    index = schema.get_field_index(ROWS_COLUMN)
    return schema if index < 0 else schema.remove(index)


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
    for is_kind, made in (
        (pa.types.is_list, pa.list_),
        (pa.types.is_large_list, pa.large_list),
        (pa.types.is_list_view, pa.list_),
        (pa.types.is_large_list_view, pa.large_list),
    ):
        if is_kind(type_):
            return made(type_.value_field.with_type(_storable(type_.value_type)))
    return type_


def _decoded_type(type_: pa.DataType) -> pa.DataType:
    return type_.value_type if pa.types.is_run_end_encoded(type_) else type_


def _decoded(array: pa.Array) -> pa.Array:
    """Return the values of runs one by one; Arrow has no cast for it."""
    if not pa.types.is_run_end_encoded(array.type):
        return array
    ends = np.asarray(array.run_ends)
    rows = np.arange(array.offset, array.offset + len(array))
    return array.values.take(pa.array(np.searchsorted(ends, rows, side="right")))
