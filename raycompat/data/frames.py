"""DataFrames: the conversion of blocks to pandas and back.

A block is a table. Its DataFrame has Arrow's types (``int64[pyarrow]``), unless the block is one of
`from_pandas`: such a block records the types that its DataFrame had, and gets them back.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

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


def from_series(series: Any) -> pa.Array:
    """Return a column of pandas as one of Arrow."""
    if series.dtype == object:
        return tensor.from_list([None if _is_missing(value) else value for value in series])
    return pa.Array.from_pandas(series)


def _is_missing(value: Any) -> bool:
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


def _described(dtype: Any) -> str:
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
    return None if text is None else json.loads(text)


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
    types = {name: type_ for record in records for name, type_ in (record or {}).items()}
    return [_with_record(table, types) for table in tables]


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


def _special(column: pa.ChunkedArray, recorded: str | None, arrow_backed: bool) -> Any:
    """Return a column that Arrow does not convert as it should; None for another."""
    is_object = isinstance(column.type, tensor.PickledType) or tensor.is_tensor(column.type)
    if recorded == "object" or is_object:
        return pd.Series(tensor.to_list(column), dtype=object)
    if recorded == _OF_ARROW or (not arrow_backed and _is_changed_by_pandas(column)):
        return pd.Series(pd.arrays.ArrowExtensionArray(column))
    if recorded is None or recorded == "str":
        return None
    dtype: Any = pd.api.types.pandas_dtype(recorded)
    return pd.Series(dtype.__from_arrow__(column))


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


def shown_types(schema: pa.Schema) -> Iterable[Any]:
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
