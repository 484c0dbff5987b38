"""Columns as LightGBM takes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["normalize_pandas_for_lightgbm"]


def normalize_pandas_for_lightgbm(df: pd.DataFrame) -> pd.DataFrame:
    """Return a DataFrame with numbers in types of NumPy, where they are in types of Arrow.

    LightGBM refuses types of Arrow. Other columns, such as texts, stay as they are.

    Parameters
    ----------
    df : pandas.DataFrame
        For example from ``Dataset.to_pandas()``.

    Returns
    -------
    pandas.DataFrame
        Integers, floating-point numbers and booleans in types that can have missing values.

    Examples
    --------
    >>> import pandas
    >>> from raycompat.train.lightgbm import normalize_pandas_for_lightgbm
    >>> frame = pandas.DataFrame({"x": pandas.array([1, None], "int32[pyarrow]")})
    >>> normalize_pandas_for_lightgbm(frame).dtypes["x"]
    Int32Dtype()
    """
    import pandas as pd
    import pyarrow as pa

    kinds = {
        pa.types.is_signed_integer: "Int{}",
        pa.types.is_unsigned_integer: "UInt{}",
        pa.types.is_floating: "Float{}",
        pa.types.is_boolean: "boolean",
    }
    chosen = {
        name: kind.format(dtype.pyarrow_dtype.bit_width)
        for name, dtype in df.dtypes.items()
        if isinstance(dtype, pd.ArrowDtype)
        for is_kind, kind in kinds.items()
        if is_kind(dtype.pyarrow_dtype)
    }
    return df.astype(chosen) if chosen else df
