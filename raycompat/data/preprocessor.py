"""`Preprocessor`: transformations that are fitted to a data set."""

from __future__ import annotations

import abc
import base64
import enum
import pickle
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

import cloudpickle
import pandas as pd

if TYPE_CHECKING:
    import numpy as np

    from raycompat.data.block import DataBatch
    from raycompat.data.dataset import Dataset


#: Begins the bytes of a preprocessor.
_MARK = b"CPKL:"


class BatchFormat(enum.StrEnum):
    """The formats in which a preprocessor can take batches."""

    PANDAS = "pandas"
    NUMPY = "numpy"


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
    Your own preprocessor states what it learns and how it changes a batch: a DataFrame in
    ``_transform_pandas``, or a dict of arrays in ``_transform_numpy``. With both,
    `preferred_batch_format` chooses.

    >>> from raycompat.data import Preprocessor
    >>> class Centre(Preprocessor):
    ...     def __init__(self, column):
    ...         self.column = column
    ...
    ...     def _fit(self, dataset):
    ...         self.stats_ = {"mean": dataset.mean(self.column)}
    ...         return self
    ...
    ...     def _transform_pandas(self, frame):
    ...         frame[self.column] -= self.stats_["mean"]
    ...         return frame
    >>> rows = ray.data.from_items([{"x": 1.0}, {"x": 3.0}])
    >>> Centre("x").fit_transform(rows).take_all()
    [{'x': -1.0}, {'x': 1.0}]
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
        if self.fit_status() is Preprocessor.FitStatus.FITTED:
            warnings.warn(
                f"{type(self).__name__} was fitted before: fit() replaces what it has learned.",
                stacklevel=2,
            )
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
        function, batch_format = self._transformation()
        return ds.map_batches(
            function,
            batch_format=batch_format,
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
        >>> scaler = MinMaxScaler(["x"]).fit(
        ...     ray.data.from_items([{"x": 0.0}, {"x": 10.0}])
        ... )
        >>> scaler.transform_batch({"x": np.array([5.0])})
        {'x': array([0.5])}
        """
        self._require_fit()
        from raycompat.data import batch, block, frames

        function, wanted = self._transformation()
        is_frame = isinstance(data, pd.DataFrame)
        if is_frame and wanted == BatchFormat.PANDAS:
            return function(data.copy())
        made = block.to_table(function(batch.formatted(block.to_table(data), wanted)))
        if is_frame:
            return frames.to_pandas(made)
        return block.to_numpy(made) if isinstance(data, dict) else made

    def _transformation(self) -> tuple[Callable[[Any], DataBatch], str]:
        """Return the method that transforms batches, and their format."""
        formats = {
            str(each): getattr(self, f"_transform_{each}")
            for each in BatchFormat
            if getattr(type(self), f"_transform_{each}")
            is not getattr(Preprocessor, f"_transform_{each}")
        }
        if not formats:
            raise NotImplementedError(
                f"{type(self).__name__} defines neither _transform_pandas nor _transform_numpy: "
                "define one of them."
            )
        preferred = str(self.preferred_batch_format())
        chosen = preferred if preferred in formats else next(iter(formats))
        return formats[chosen], chosen

    def _require_fit(self) -> None:
        status = self.fit_status()
        if status in (Preprocessor.FitStatus.NOT_FITTED, Preprocessor.FitStatus.PARTIALLY_FITTED):
            raise PreprocessorNotFittedException(
                f"{type(self).__name__} has not been fitted: call fit(dataset) first."
            )

    def _fit(self, ds: Dataset) -> None:
        raise NotImplementedError

    def _transform_pandas(self, df: pd.DataFrame) -> pd.DataFrame:
        raise NotImplementedError

    def _transform_numpy(self, np_data: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        raise NotImplementedError

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

    @classmethod
    def preferred_batch_format(cls) -> BatchFormat:
        """Return the format of the batches that it transforms, if it can take several.

        Examples
        --------
        >>> Centre.preferred_batch_format().name
        'PANDAS'
        """
        return BatchFormat.PANDAS

    def serialize(self) -> bytes | str:
        """Return it as bytes, or as text if its class is your own. See `deserialize`.

        Examples
        --------
        A fitted preprocessor goes with the model that was trained on its results:

        >>> from raycompat.data.preprocessors import MinMaxScaler
        >>> scaler = MinMaxScaler(["x"]).fit(
        ...     ray.data.from_items([{"x": 0.0}, {"x": 10.0}])
        ... )
        >>> stored = scaler.serialize()
        >>> MinMaxScaler.deserialize(stored).stats_ == scaler.stats_
        True
        """
        stored = cloudpickle.dumps(self)
        is_ours = type(self).__module__.startswith(f"{__name__}s.")
        return _MARK + stored if is_ours else base64.b64encode(stored).decode()

    @staticmethod
    def deserialize(serialized: bytes | str) -> Preprocessor:
        """Return the preprocessor from trusted data of `serialize`: the data can run code.

        Raises
        ------
        ValueError
            When the data is not from `serialize`.
        """
        try:
            if isinstance(serialized, str):
                stored = base64.b64decode(serialized)
            else:
                stored = serialized.removeprefix(_MARK)
            loaded: Preprocessor = pickle.loads(stored)
        except (ValueError, AttributeError, EOFError, pickle.UnpicklingError) as error:
            raise ValueError(
                f"{serialized[:40]!r}... is not a preprocessor: expected what serialize() has returned."
                if isinstance(serialized, bytes | str)
                else f"deserialize({serialized!r}): expected what serialize() has returned."
            ) from error
        return loaded

    #: What `repr` shows, in this order. By default the attributes in the order of their assignment.
    _shown: ClassVar[tuple[str, ...]] = ()

    def __repr__(self) -> str:
        names = self._shown or [name for name in vars(self) if "_" not in (name[0], name[-1])]
        values = ((name, getattr(self, name)) for name in names)
        shown = ", ".join(f"{name}={_text(value)}" for name, value in values)
        return f"{type(self).__name__}({shown})"


def _text(value: object) -> str:
    is_function = callable(value) and not isinstance(value, type)
    return getattr(value, "__name__", repr(value)) if is_function else repr(value)
