"""Methods that data sets had in older Rays: each takes the data set first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from raycompat._old_forms.data.plain_rows import COLUMN
from raycompat.data.dataset import MaterializedDataset

if TYPE_CHECKING:
    import numpy as np

    from raycompat import ObjectRef
    from raycompat._old.data.pipeline import DatasetPipeline
    from raycompat.data.dataset import Dataset


def is_fully_executed(dataset: Dataset) -> bool:
    """Return whether all blocks are made."""
    return isinstance(dataset, MaterializedDataset)


def to_numpy(dataset: Dataset, *, column: str | None = None) -> list[ObjectRef[np.ndarray]]:
    """Return a reference to the values of each block, or of a column of it."""
    is_plain = column is None and dataset.columns() == [COLUMN]
    return dataset.to_numpy_refs(column=COLUMN if is_plain else column)


def pipeline(dataset: Dataset, *, parallelism: int = 10) -> DatasetPipeline:
    """Return a pipeline with some blocks in each window."""
    made: DatasetPipeline = dataset.window(blocks_per_window=parallelism)
    return made
