"""Preprocessors that put columns, or preprocessors, together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from raycompat._old_forms.data.options import AllBut, Chosen, concatenates_all
from raycompat._surface.forms import takes_old_options_in_constructor
from raycompat.data.block import require_columns
from raycompat.data.preprocessor import Preprocessor

if TYPE_CHECKING:
    import numpy.typing as npt

    from raycompat.data.dataset import Dataset


@takes_old_options_in_constructor("ray.data.preprocessors.Concatenator")
class Concatenator(Preprocessor):
    """Put columns of numbers into one column of arrays.

    Parameters
    ----------
    columns : list of str
        The columns, in the order of their values in the result.
    output_column_name : str, default "concat_out"
        Name of the column.
    dtype : numpy.dtype, optional
        Type of the arrays. Default: a common type of all columns.
    raise_if_missing : bool, default False
        Has no effect: a missing column is an error.
    flatten : bool, default False
        Put the items of arrays one by one; else columns are numbers.

    Examples
    --------
    >>> from raycompat.data.preprocessors import Concatenator
    >>> rows = ray.data.from_items([{"x": 1, "y": 2}])
    >>> concatenator = Concatenator(columns=["x", "y"], output_column_name="xy")
    >>> concatenator.transform(rows).take_batch(1)["xy"].tolist()
    [[1, 2]]

    Notes
    -----
    Ray source: ``ray.data.preprocessors.Concatenator``, 2.60.0. Differs from Ray: arrays are put one by
    one in any case.
    """

    _is_fittable = False

    @concatenates_all
    def __init__(
        self,
        columns: Sequence[str],
        output_column_name: str = "concat_out",
        dtype: npt.DTypeLike | None = None,
        raise_if_missing: bool = False,
        flatten: bool = False,
    ) -> None:
        self.columns = columns if isinstance(columns, Chosen) else list(columns)
        self.output_column_name = output_column_name
        self.dtype = dtype
        self.raise_if_missing = raise_if_missing
        self.flatten = flatten

    def _transform_pandas(self, df: pd.DataFrame) -> pd.DataFrame:
        if self.raise_if_missing or not isinstance(self.columns, AllBut):
            require_columns(self.columns, list(df.columns), "Concatenator")
        chosen = self.columns
        columns = chosen.of(df.columns) if isinstance(chosen, Chosen) else chosen
        parts = [_matrix(df[column]) for column in columns]
        joined = np.concatenate(parts, axis=1)
        if self.dtype is not None:
            joined = joined.astype(self.dtype)
        rest = df.drop(columns=columns)
        values = pd.Series(list(joined), index=df.index, dtype=object)
        return rest.assign(**{self.output_column_name: values})

    def get_output_columns(self) -> list[str]:
        """Return the column that it writes."""
        return [self.output_column_name]

    def __repr__(self) -> str:
        usual: dict[str, object] = {"output_column_name": "concat_out", "dtype": None}
        usual |= {"raise_if_missing": False, "flatten": False}
        given = [
            f"{name}={value!r}"
            for name, value in vars(self).items()
            if name not in usual or value != usual[name]
        ]
        return f"Concatenator({', '.join(given)})"


def _matrix(series: pd.Series) -> np.ndarray:
    if series.dtype == object and len(series):
        return np.stack([np.ravel(value) for value in series])
    return np.asarray(series).reshape(-1, 1)


class Chain(Preprocessor):
    """Fits and applies preprocessors, one after the other.

    Parameters
    ----------
    *preprocessors : Preprocessor
        Each is fitted to the output of those before it.

    Examples
    --------
    >>> from raycompat.data.preprocessors import Chain, Concatenator, StandardScaler
    >>> rows = ray.data.from_items([{"x": 1.0, "y": 0.0}, {"x": 3.0, "y": 1.0}])
    >>> chain = Chain(
    ...     StandardScaler(["x"]),
    ...     Concatenator(["x", "y"], output_column_name="features"),
    ... )
    >>> chain.fit_transform(rows).take_batch()["features"]
    array([[-1.,  0.],
           [ 1.,  1.]])

    >>> chain.get_input_columns(), chain.get_output_columns()
    (['x', 'y'], ['x', 'features'])
    """

    def __init__(self, *preprocessors: Preprocessor) -> None:
        self.preprocessors = preprocessors

    def fit_status(self) -> Preprocessor.FitStatus:
        """Return whether those that can be fitted have been."""
        status = Preprocessor.FitStatus
        found = {each.fit_status() for each in self.preprocessors} - {status.NOT_FITTABLE}
        if not found:
            return status.NOT_FITTABLE
        return found.pop() if len(found) == 1 else status.PARTIALLY_FITTED

    def fit(self, ds: Dataset) -> Preprocessor:
        """Learn from a data set."""
        for number, each in enumerate(self.preprocessors):
            each.fit(ds)
            if number + 1 < len(self.preprocessors):
                ds = each.transform(ds)
        return self

    def transform(
        self,
        ds: Dataset,
        *,
        batch_size: int | None = None,
        num_cpus: float | None = None,
        memory: float | None = None,
        concurrency: int | None = None,
    ) -> Dataset:
        """Return a data set that each has transformed; the options are for each of them."""
        self._require_fit()
        for each in self.preprocessors:
            ds = each.transform(
                ds,
                batch_size=batch_size,
                num_cpus=num_cpus,
                memory=memory,
                concurrency=concurrency,
            )
        return ds

    def _transform_pandas(self, df: pd.DataFrame) -> pd.DataFrame:
        for each in self.preprocessors:
            df = each.transform_batch(df)
        return df

    def get_input_columns(self) -> list[str]:
        """Return the columns that it reads."""
        made: set[str] = set()
        needed: list[str] = []
        for each in self.preprocessors:
            needed += [name for name in each.get_input_columns() if name not in made]
            made.update(each.get_output_columns())
        return list(dict.fromkeys(needed))

    def get_output_columns(self) -> list[str]:
        """Return the columns that it writes."""
        return list(
            dict.fromkeys(n for each in self.preprocessors for n in each.get_output_columns())
        )

    def __repr__(self) -> str:
        return f"Chain({', '.join(map(repr, self.preprocessors))})"
