"""`Preprocessor`: transformations that are fitted to a data set."""

from __future__ import annotations

import abc
import base64
import enum
import pickle
from typing import TYPE_CHECKING, Any

import pandas as pd

if TYPE_CHECKING:
    from raycompat.data.dataset import Dataset


class PreprocessorNotFittedException(RuntimeError):
    """A preprocessor that has to be fitted was asked to transform.

    Examples
    --------
    >>> from raycompat.data.preprocessor import PreprocessorNotFittedException
    >>> from raycompat.data.preprocessors import StandardScaler
    >>> try:
    ...     StandardScaler(["x"]).transform(ray.data.from_items([{"x": 1.0}]))
    ... except PreprocessorNotFittedException:
    ...     print("call fit first")
    call fit first
    """


class Preprocessor(abc.ABC):
    """Transforms data sets and batches; some have to be fitted to a data set first.

    Examples
    --------
    A preprocessor of your own states what it learns and how it changes a batch:

    >>> from raycompat.data import Preprocessor
    >>> class Centre(Preprocessor):
    ...     def __init__(self, column):
    ...         self.column = column
    ...     def _fit(self, dataset):
    ...         self.stats_ = {"mean": dataset.mean(self.column)}
    ...         return self
    ...     def _transform_pandas(self, frame):
    ...         frame[self.column] -= self.stats_["mean"]
    ...         return frame
    >>> rows = ray.data.from_items([{"x": 1.0}, {"x": 3.0}])
    >>> Centre("x").fit_transform(rows).take_all()
    [{'x': -1.0}, {'x': 1.0}]

    Notes
    -----
    Ray source: ``ray.data.Preprocessor``, 2.60.0. No known difference.
    """

    class FitStatus(enum.StrEnum):
        """Whether it has been fitted.

        Examples
        --------
        >>> from raycompat.data import Preprocessor
        >>> [status.name for status in Preprocessor.FitStatus]
        ['NOT_FITTABLE', 'NOT_FITTED', 'PARTIALLY_FITTED', 'FITTED']
        """

        NOT_FITTABLE = "NOT_FITTABLE"
        NOT_FITTED = "NOT_FITTED"
        PARTIALLY_FITTED = "PARTIALLY_FITTED"
        FITTED = "FITTED"

    _is_fittable = True
    #: The results of fitting, by the names of columns.
    stats_: dict[str, Any]

    def fit_status(self) -> Preprocessor.FitStatus:
        """Return whether it has been fitted.

        Examples
        --------
        >>> rows = ray.data.from_items([{"x": 1.0}, {"x": 3.0}])
        >>> centre = Centre("x")
        >>> centre.fit_status().name
        'NOT_FITTED'
        >>> centre.fit(rows).fit_status().name, centre.has_stats()
        ('FITTED', True)
        >>> centre.transform(rows).take_all()
        [{'x': -1.0}, {'x': 1.0}]
        """
        if not self._is_fittable:
            return Preprocessor.FitStatus.NOT_FITTABLE
        if hasattr(self, "stats_"):
            return Preprocessor.FitStatus.FITTED
        return Preprocessor.FitStatus.NOT_FITTED

    def fit(self, ds: Dataset) -> Preprocessor:
        """Fit to a data set; earlier results are replaced.

        Returns
        -------
        Preprocessor
            Itself.
        """
        if self._is_fittable:
            self._fit(ds)
        return self

    def fit_transform(
        self,
        ds: Dataset,
        *,
        transform_num_cpus: float | None = None,
        transform_memory: float | None = None,
        transform_batch_size: int | None = None,
        transform_concurrency: int | None = None,
    ) -> Dataset:
        """Learn from a data set, and transform it; the options are those of `transform`."""
        self.fit(ds)
        return self.transform(
            ds,
            batch_size=transform_batch_size,
            num_cpus=transform_num_cpus,
            memory=transform_memory,
            concurrency=transform_concurrency,
        )

    def transform(
        self,
        ds: Dataset,
        *,
        batch_size: int | None = None,
        num_cpus: float | None = None,
        memory: float | None = None,
        concurrency: int | None = None,
    ) -> Dataset:
        """Return a data set, transformed.

        Parameters
        ----------
        ds : Dataset
            With the columns that this one reads.
        batch_size, num_cpus, memory, concurrency : optional
            As for `Dataset.map_batches`.

        Raises
        ------
        PreprocessorNotFittedException
            When it has to be fitted first.
        """
        self._require_fit()
        return ds.map_batches(
            self._transform_pandas,
            batch_format="pandas",
            batch_size=batch_size,
            num_cpus=num_cpus,
            memory=memory,
            concurrency=concurrency,
        )

    def transform_batch(self, data: Any) -> Any:
        """Return one batch, transformed; in the format in which it was given.

        Examples
        --------
        >>> import numpy as np
        >>> from raycompat.data.preprocessors import MinMaxScaler
        >>> scaler = MinMaxScaler(["x"]).fit(ray.data.from_items([{"x": 0.0}, {"x": 10.0}]))
        >>> scaler.transform_batch({"x": np.array([5.0])})
        {'x': array([0.5])}
        """
        self._require_fit()
        from raycompat.data import block, frames

        if isinstance(data, pd.DataFrame):
            return self._transform_pandas(data.copy())
        table = block.to_table(data)
        made = block.to_table(self._transform_pandas(frames.to_pandas(table)))
        return block.to_numpy(made) if isinstance(data, dict) else made

    def _require_fit(self) -> None:
        status = self.fit_status()
        if status in (Preprocessor.FitStatus.NOT_FITTED, Preprocessor.FitStatus.PARTIALLY_FITTED):
            raise PreprocessorNotFittedException(
                f"{type(self).__name__} has not been fitted: call fit(dataset) first."
            )

    def _fit(self, ds: Dataset) -> None:
        raise NotImplementedError

    @abc.abstractmethod
    def _transform_pandas(self, df: pd.DataFrame) -> pd.DataFrame: ...

    def has_stats(self) -> bool:
        """Return whether it has learned something."""
        return hasattr(self, "stats_")

    def get_input_columns(self) -> list[str]:
        """Return the columns that it reads.

        Examples
        --------
        >>> from raycompat.data.preprocessors import Concatenator
        >>> joined = Concatenator(["x", "y"], output_column_name="features")
        >>> joined.get_input_columns(), joined.get_output_columns()
        (['x', 'y'], ['features'])
        """
        return list(getattr(self, "columns", ()))

    def get_output_columns(self) -> list[str]:
        """Return the columns that it writes."""
        return list(getattr(self, "output_columns", None) or self.get_input_columns())

    @staticmethod
    def preferred_batch_format() -> str:
        """Return the format of the batches that it transforms.

        Examples
        --------
        >>> Centre.preferred_batch_format()
        'pandas'
        """
        return "pandas"

    def serialize(self) -> str:
        """Return it as text; see `deserialize`.

        Examples
        --------
        A fitted preprocessor goes with the model that was trained on its results:

        >>> from raycompat.data import Preprocessor
        >>> from raycompat.data.preprocessors import MinMaxScaler
        >>> scaler = MinMaxScaler(["x"]).fit(ray.data.from_items([{"x": 0.0}, {"x": 10.0}]))
        >>> text = scaler.serialize()
        >>> Preprocessor.deserialize(text).stats_ == scaler.stats_
        True
        """
        return base64.b64encode(pickle.dumps(self)).decode()

    @staticmethod
    def deserialize(serialized: str) -> Preprocessor:
        """Return the preprocessor from trusted text of `serialize`: the text can run code."""
        loaded: Preprocessor = pickle.loads(base64.b64decode(serialized))
        return loaded

    def __repr__(self) -> str:
        given = ", ".join(
            f"{name}={value!r}" for name, value in vars(self).items() if name[-1] != "_"
        )
        return f"{type(self).__name__}({given})"
