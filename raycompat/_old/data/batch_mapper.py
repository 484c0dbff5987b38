"""`BatchMapper` of ``ray.data.preprocessors`` (2.0 to 2.6): a function of batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from raycompat.data.preprocessor import Preprocessor

if TYPE_CHECKING:
    from raycompat.data.dataset import Dataset

__all__ = ["BatchMapper"]


class BatchMapper(Preprocessor):
    """Applies a function to the batches of a data set; it learns nothing.

    Parameters
    ----------
    fn : callable
        Takes a batch, and returns one.
    batch_format : {"pandas", "numpy"}, optional
        Of the batches. By default "pandas".
    batch_size : int, None or "default"
        The number of rows of a batch. None and "default" are those of a block.

    Notes
    -----
    Ray source: ``ray.data.preprocessors.BatchMapper``, 2.6.3. Differs from Ray: the default format does
    not depend on the data set, and the default number of rows is not 4096.
    """

    _is_fittable = False

    def __init__(
        self,
        fn: Callable[[Any], Any],
        batch_format: Literal["pandas", "numpy"] | None = None,
        batch_size: int | Literal["default"] | None = "default",
    ) -> None:
        self.fn, self.batch_format, self.batch_size = fn, batch_format or "pandas", batch_size

    def transform(self, ds: Dataset, **options: Any) -> Dataset:
        """Return a data set of the batches that the function returns."""
        if self.batch_size != "default":
            options["batch_size"] = self.batch_size
        return super().transform(ds, **options)

    def _transformation(self) -> tuple[Callable[[Any], Any], str]:
        return self.fn, self.batch_format

    def __repr__(self) -> str:
        return f"BatchMapper(fn={getattr(self.fn, '__name__', self.fn)})"
