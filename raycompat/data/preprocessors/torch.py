"""A preprocessor that applies transforms of torchvision."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from raycompat._pytorch import imported
from raycompat.data.block import require_columns
from raycompat.data.preprocessor import Preprocessor
from raycompat.data.torch import to_tensor


class TorchVisionPreprocessor(Preprocessor):
    """Apply a transform of torchvision to columns of images.

    Parameters
    ----------
    columns : list of str
        The columns of images.
    transform : callable
        Takes an image, a tensor of the shape of the arrays in the column, and returns a tensor or an
        array. Transforms such as ``ToTensor`` that raise a `TypeError` for a tensor get an array.
    output_columns : list of str, optional
        Where the results go. Default: into `columns`.
    batched : bool, default False
        Whether the transform takes all images of a batch at once, with a first axis more.

    Raises
    ------
    ValueError
        When there are not as many output columns as columns.

    Examples
    --------
    In a program with PyTorch and torchvision::

        from torchvision import transforms

        flip = TorchVisionPreprocessor(["image"], transforms.RandomHorizontalFlip())
        flipped = flip.transform(images)
    """

    _is_fittable = False

    def __init__(
        self,
        columns: list[str],
        transform: Callable[[Any], object],
        output_columns: list[str] | None = None,
        batched: bool = False,
    ) -> None:
        self.columns = columns
        self.transform_images = transform
        self.output_columns = output_columns or columns
        self.batched = batched
        if len(self.output_columns) != len(columns):
            raise ValueError(
                f"output_columns={output_columns!r} for columns={columns!r}: give one name for each."
            )

    def _transform_pandas(self, df: pd.DataFrame) -> pd.DataFrame:
        require_columns(self.columns, list(df.columns), "TorchVisionPreprocessor")
        made = {
            name: pd.Series(self._transformed(list(df[column])), index=df.index, dtype=object)
            for column, name in zip(self.columns, self.output_columns, strict=True)
        }
        return df.assign(**made)

    def _transformed(self, images: Sequence[np.ndarray]) -> list[np.ndarray]:
        if self.batched and images:
            return list(self._applied(np.stack(images)))
        return [self._applied(np.asarray(image)) for image in images]

    def _applied(self, image: np.ndarray) -> np.ndarray:
        torch = imported("TorchVisionPreprocessor")
        try:
            found = self.transform_images(to_tensor(image, None))
        except TypeError:
            found = self.transform_images(image)
        if isinstance(found, torch.Tensor):
            found = found.numpy()
        if not isinstance(found, np.ndarray):
            raise ValueError(
                f"The transform returned a {type(found).__name__}: expected a tensor or an array."
            )
        return found
