"""Methods that data sets have lost."""

from __future__ import annotations

from typing import Any, cast

from raycompat._surface import forms
from raycompat._upper import upper


class OldMethods:
    """Methods of a data set that only programs of older Rays call."""

    def repeat(self, times: int | None = None) -> Any:
        """Return a `DatasetPipeline` of so many epochs, the form of 2021 to 2023.

        Parameters
        ----------
        times : int, optional
            How often the data set is read. Default: without end.

        Examples
        --------
        >>> pipeline = ray.data.range(2).repeat(3)
        >>> [row["id"] for row in pipeline.iter_rows()]
        [0, 1, 0, 1, 0, 1]

        Notes
        -----
        Ray source: ``Dataset.repeat``, 2.6.3; Ray has removed it since. No known difference.
        """
        forms.used("ray.data.Dataset.repeat()", refusal=AttributeError)
        return upper("_old.data.pipeline").repeated(self, times)

    def window(self, *, blocks_per_window: int = 10, bytes_per_window: int | None = None) -> Any:
        """Return a `DatasetPipeline` of windows, the form of 2021 to 2023.

        Parameters
        ----------
        blocks_per_window : int, default 10
        bytes_per_window : int, optional
            In its place: the size of a window, but at least one block.

        Examples
        --------
        >>> numbers = ray.data.range(4, override_num_blocks=4)
        >>> windows = numbers.window(blocks_per_window=2)
        >>> [part.count() for part in windows.iter_datasets()]
        [2, 2]

        Notes
        -----
        Ray source: ``Dataset.window``, 2.6.3; Ray has removed it since. No known difference.
        """
        forms.used("ray.data.Dataset.window()", refusal=AttributeError)
        pipeline = upper("_old.data.pipeline")
        return pipeline.windowed(self, blocks_per_window, bytes_per_window)

    def to_torch(self, *, prefetch_blocks: int = 1, **options: Any) -> Any:
        """Return a ``torch.utils.data.IterableDataset`` of pairs (features, labels).

        Parameters
        ----------
        prefetch_blocks : int, default 1
            Blocks that are brought to this host ahead.
        **options
            Those of `DataIterator.to_torch`.

        Examples
        --------
        In a program for Ray up to 2.9::

            for features, labels in rows.to_torch(label_column="y", batch_size=100):
                loss = compute_loss(model(features), labels)

        Notes
        -----
        Ray source: ``Dataset.to_torch``, 2.10; Ray has removed it since. No known difference.
        """
        forms.used("ray.data.Dataset.to_torch()", refusal=AttributeError)
        options.setdefault("prefetch_batches", prefetch_blocks)
        return cast("Any", self).iterator().to_torch(**options)
