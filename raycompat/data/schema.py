"""`Schema`: the columns of a data set and their types."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from raycompat.data import frames, tensor

if TYPE_CHECKING:
    import numpy as np

    from raycompat.data.context import DataContext


class Schema:
    """The columns of a data set and their types.

    Parameters
    ----------
    base_schema : pyarrow.Schema
        Arrow's schema of them.
    data_context
        Without effect.

    Examples
    --------
    >>> schema = ray.data.range(2).schema()
    >>> schema.names, schema.types
    (['id'], [DataType(int64)])

    Notes
    -----
    Ray source: ``ray.data.Schema``, 2.60.0. Differs from Ray: arrays are of Arrow's type
    ``fixed_shape_tensor``, or of `raycompat.data.tensor.TensorType`.
    """

    def __init__(self, base_schema: pa.Schema, *, data_context: DataContext | None = None) -> None:
        self.base_schema = base_schema

    @property
    def names(self) -> list[str]:
        """The names of the columns, in order."""
        return list(self.base_schema.names)

    @property
    def types(self) -> list[pa.DataType | np.dtype | type]:
        """The types of the columns, in order.

        They are Arrow's. A column of objects in a data set of `from_pandas` has Python's `object`.
        """
        return list(frames.shown_types(self.base_schema))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Schema) and bool(self.base_schema.equals(other.base_schema))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        width = max([len("Column"), *map(len, self.names)])
        lines = [f"{'Column':{width}}  Type", f"{'-' * 6:{width}}  ----"]
        lines += [
            f"{name:{width}}  {tensor.type_text(type_) or type_}"
            for name, type_ in zip(self.names, self.types, strict=True)
        ]
        return "\n".join(lines)

    def texts(self) -> dict[str, str]:
        """Return the columns, and the text of the type of each."""
        return {
            name: tensor.type_text(type_) or getattr(type_, "__name__", str(type_))
            for name, type_ in zip(self.names, self.types, strict=True)
        }


def united(schemas: Sequence[pa.Schema]) -> pa.Schema:
    """Return the columns of all; the first of those whose types do not fit together counts."""
    schemas = _distinct(schemas)
    if (fitting := fitted(schemas)) is not None:
        return fitting
    fields = {field.name: field for schema in reversed(schemas) for field in schema}
    names = dict.fromkeys(name for schema in schemas for name in schema.names)
    return pa.schema([fields[name] for name in names])


def fitted(schemas: Sequence[pa.Schema]) -> pa.Schema | None:
    """Return the columns of all, in types that fit all; None if the types of a column do not fit."""
    try:
        return pa.unify_schemas(schemas, promote_options="permissive")
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return None


def _distinct(schemas: Sequence[pa.Schema]) -> list[pa.Schema]:
    """Return each schema once; a data set has thousands of blocks and seldom two schemas."""
    found: list[pa.Schema] = []
    for schema in schemas:
        if not any(schema is each or schema.equals(each) for each in found):
            found.append(schema)
    return found
