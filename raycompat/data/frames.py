"""DataFrames: the conversion of blocks to pandas and back.

A block is a table. Its DataFrame has Arrow's types (``int64[pyarrow]``), unless the block is one of
`from_pandas`: such a block records the types that its DataFrame had, and gets them back.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from raycompat.data import tensor
from raycompat.data.context import DataContext
from raycompat.data.storable import ROWS_COLUMN, shown

#: The key in a schema's metadata of the types that pandas had and that Arrow's types do not tell: a
#: JSON object of columns and types.
_RECORD = b"raycompat.pandas"

#: The recorded type of a column that had Arrow's own.
_OF_ARROW = "pyarrow"

#: The types of pandas for numbers with missing values, by Arrow's types.
_MASKED = {
    pa.bool_(): "boolean",
    **{
        pa.type_for_alias(name.lower()): name
        for name in (
            *("Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16", "UInt32", "UInt64"),
            *("Float32", "Float64"),
        )
    },
}

#: The batch format that is "pandas" with numpy's types, as ``enable_arrow_backed_pandas_conversion``
#: of the data set's settings asks for; they are known where the plan is made and not in tasks.
NUMPY_BACKED = "pandas of numpy"


def format_for(batch_format: str | None, context: DataContext) -> str | None:
    """Return the batch format that tasks use for a requested one."""
    if batch_format == "pandas" and not context.enable_arrow_backed_pandas_conversion:
        return NUMPY_BACKED
    return batch_format


def from_pandas(frame: pd.DataFrame) -> pa.Table:
    """Return a DataFrame as a table.

    Raises
    ------
    ValueError
        When two columns have one name.
    """
    names = [str(name) for name in frame.columns]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise ValueError(
            f"Columns {repeated} occur more than once in a DataFrame. Rename them: the columns of a "
            "row have different names."
        )
    columns = [from_series(frame.iloc[:, index]) for index in range(len(names))]
    if not names:
        return pa.table({ROWS_COLUMN: pa.nulls(len(frame))} if len(frame) else {})
    return pa.table(columns, names=names)


def from_series(series: pd.Series | pd.Index) -> pa.Array:
    """Return a column of pandas as one of Arrow."""
    if series.dtype == object:
        return tensor.from_list([None if _is_missing(value) else value for value in series])
    return pa.Array.from_pandas(series)


def _is_missing(value: object) -> bool:
    return (
        value is None
        or value is pd.NA
        or value is pd.NaT
        or (isinstance(value, float) and value != value)
    )


def recorded(table: pa.Table, frame: pd.DataFrame) -> pa.Table:
    """Return the table of a DataFrame with a record of its types."""
    types = {str(name): _described(dtype) for name, dtype in frame.dtypes.items()}
    return _with_record(table, {name: type_ for name, type_ in types.items() if type_})


def _described(dtype: object) -> str:
    """Return the type to record; nothing where Arrow's type gives it back."""
    if isinstance(dtype, pd.ArrowDtype):
        return _OF_ARROW
    is_plain = isinstance(dtype, pd.CategoricalDtype | pd.DatetimeTZDtype)
    kept = isinstance(dtype, np.dtype) and dtype.kind == "O"
    kept = kept or (hasattr(dtype, "__from_arrow__") and not is_plain)
    return str(dtype) if kept else ""


def _with_record(table: pa.Table, types: dict[str, str]) -> pa.Table:
    metadata = {**(table.schema.metadata or {}), _RECORD: json.dumps(types).encode()}
    return table.replace_schema_metadata(metadata)


def record_of(schema: pa.Schema) -> dict[str, str] | None:
    """Return the recorded types of a block of `from_pandas`; None for another block."""
    text = (schema.metadata or {}).get(_RECORD)
    if text is None:
        return None
    names = set(schema.names)
    return {name: kind for name, kind in json.loads(text).items() if name in names}


def unrecorded(table: pa.Table) -> pa.Table:
    """Return the table without a record of pandas's types: of an operator whose blocks are Arrow's."""
    metadata = table.schema.metadata
    if not metadata or _RECORD not in metadata:
        return table
    kept = {key: value for key, value in metadata.items() if key != _RECORD}
    return table.replace_schema_metadata(kept or None)


def renamed(table: pa.Table, names: Sequence[str]) -> pa.Table:
    """Return the table with other names of its columns, in the record of pandas's types too."""
    record = record_of(table.schema)
    made = table.rename_columns(list(names))
    if record is None:
        return made
    new = dict(zip(table.column_names, names, strict=True))
    return _with_record(made, {new[name]: kind for name, kind in record.items() if name in new})


def with_one_record(tables: Sequence[pa.Table]) -> list[pa.Table]:
    """Return tables, to be joined, with one record of pandas's types: none if one of them has none."""
    records = [record_of(table.schema) for table in tables]
    if all(record is None for record in records):
        return list(tables)
    if any(record is None for record in records):
        return [unrecorded(table) for table in tables]
    types = {}
    for name in dict.fromkeys(name for table in tables for name in table.column_names):
        types[name] = _common(
            (record or {}).get(name)
            for table, record in zip(tables, records, strict=True)
            if name in table.column_names
        )
    recorded = {name: type_ for name, type_ in types.items() if type_}
    return [_with_record(table, recorded) for table in tables]


def _common(kinds: Iterable[str | None]) -> str | None:
    """Return the type to record for values of columns with these recorded types, as pandas joins them.

    The numbers of any type with missing values stay numbers with missing values: the type of the
    joined column tells which.
    """
    different = set(kinds)
    if "object" in different:
        return "object"
    different.discard(None)
    if len(different) == 1 or different <= set(_MASKED.values()):
        return next(iter(different), None)
    return None


def with_record_from(
    table: pa.Table, source: pa.Table, origins: Mapping[str, Iterable[str]]
) -> pa.Table:
    """Return a table with the record of another, and for some columns one of those they came from.

    Parameters
    ----------
    table : pyarrow.Table
        A table with the columns of `source`, or other values for some, and more columns.
    source : pyarrow.Table
        The table from which it was computed.
    origins : dict of iterables of str
        For each new column, the columns of `source` whose kind of type its values have.
    """
    record = record_of(source.schema)
    if record is None:
        return table
    new = {name: _common(map(record.get, names)) for name, names in origins.items()}
    for name, kind in new.items():
        if kind == "object" and pa.types.is_boolean(table.schema.field(name).type):
            new[name] = None  # pandas compares objects to plain truth values
    return _with_record(table, {name: kind for name, kind in {**record, **new}.items() if kind})


def side_by_side(left: pa.Table, right: pa.Table) -> pa.Table:
    """Return the columns of two tables; if the first is one of `from_pandas`, with both records.

    A second column ``a`` is named ``a_1``, as in Ray.
    """
    names = list(left.column_names)
    for name in right.column_names:
        names.append(_free_name(name, names))
    right = renamed(right, names[left.num_columns :])
    record = record_of(left.schema)
    made = left
    for name in right.column_names:
        made = made.append_column(name, right[name])
    if record is None:
        return made
    return _with_record(made, {**record, **(record_of(right.schema) or {})})


def _free_name(name: str, names: Sequence[str]) -> str:
    """Return a name that is not among others."""
    number, free = 0, name
    while free in names:
        number += 1
        free = f"{name}_{number}"
    return free


def to_pandas(table: pa.Table, arrow_backed: bool | None = None) -> pd.DataFrame:
    """Return a table as a DataFrame; arrays and Python objects are in columns of objects.

    Parameters
    ----------
    table : pyarrow.Table
        A block.
    arrow_backed : bool, optional
        Give the columns Arrow's types, where pandas has such. Default: as the settings of this process
        say. It does not concern a block of `from_pandas`.
    """
    if arrow_backed is None:
        arrow_backed = DataContext.get_current().enable_arrow_backed_pandas_conversion
    table = shown(table)
    record = record_of(table.schema)
    if record is not None:
        arrow_backed = False
    special = {
        name: series
        for name in table.column_names
        if (series := _special(table[name], (record or {}).get(name), arrow_backed)) is not None
    }
    types_mapper = _arrow_dtype if arrow_backed else None
    frame = table.drop_columns(list(special)).to_pandas(
        ignore_metadata=True, types_mapper=types_mapper
    )
    for index, name in enumerate(table.column_names):
        if name in special:
            frame.insert(index, name, special[name])
    return frame


def _special(column: pa.ChunkedArray, recorded: str | None, arrow_backed: bool) -> pd.Series | None:
    """Return a column that Arrow does not convert as it should; None for another."""
    is_object = isinstance(column.type, tensor.PickledType) or tensor.is_tensor(column.type)
    if recorded == "object" or is_object:
        return pd.Series(tensor.to_list(column), dtype=object)
    if recorded == _OF_ARROW or (not arrow_backed and _is_changed_by_pandas(column)):
        return pd.Series(pd.arrays.ArrowExtensionArray(column))
    fitting = _fitting(recorded, column.type)
    return None if fitting is None else pd.Series(fitting.__from_arrow__(column))


def _fitting(recorded: str | None, type_: pa.DataType) -> pd.api.extensions.ExtensionDtype | None:
    """Return the recorded type as one of pandas for values of an Arrow type; None if it has none.

    A column gets other values by `Dataset.with_column`, and by the joining of blocks.
    """
    if recorded is None or recorded == "str":
        return None
    if recorded in _MASKED.values() and not pa.types.is_null(type_):
        return pd.api.types.pandas_dtype(_MASKED[type_]) if type_ in _MASKED else None
    dtype = pd.api.types.pandas_dtype(recorded)
    expected = pa.Array.from_pandas(pd.Series([], dtype=dtype)).type
    are_texts = _is_text(expected) and _is_text(type_)
    return dtype if are_texts or expected == type_ or pa.types.is_null(type_) else None


def _is_text(type_: pa.DataType) -> bool:
    return bool(pa.types.is_string(type_) or pa.types.is_large_string(type_))


def _arrow_dtype(type_: pa.DataType) -> pd.ArrowDtype | None:
    """Return Arrow's type as one of pandas; None where pandas converts by itself, as in Ray."""
    if pa.types.is_dictionary(type_) or pa.types.is_null(type_):
        return None
    return None if isinstance(type_, pa.BaseExtensionType) else pd.ArrowDtype(type_)


def _is_changed_by_pandas(column: pa.ChunkedArray) -> bool:
    """Return whether pandas's own types, without Arrow's, cannot hold the values of a column.

    Integers with missing values become floats, and times of a day have microseconds.
    """
    if tensor.exceeds_floats(column):
        return True
    if pa.types.is_time64(column.type) and column.type.unit == "ns":
        return bool(pc.any(pc.not_equal(pc.nanosecond(column), 0)).as_py())
    return False


def shown_types(schema: pa.Schema) -> Iterable[object]:
    """Return the types of columns as `Schema.types` shows them.

    Of a block of `from_pandas`, texts have the type ``string``, and objects Python's `object`.
    """
    record = record_of(schema)
    if record is None:
        return list(schema.types)
    return [
        object
        if record.get(field.name) == "object"
        else pa.string()
        if pa.types.is_large_string(field.type)
        else field.type
        for field in schema
    ]
