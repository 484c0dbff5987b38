"""The data set of the example of ``ray.util.sgd.torch``, which guides of 2020 to 2022 import."""

from __future__ import annotations

import torch


class LinearDataset(torch.utils.data.Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """Points of a line: pairs of `x` from 0 to 10 and ``a * x + b``.

    Parameters
    ----------
    a, b : float
        Slope and intercept of the line.
    size : int, default 1000
        Number of points.
    """

    def __init__(self, a: float, b: float, size: int = 1000) -> None:
        self.x = torch.arange(size, dtype=torch.float32) * (10 / size)
        self.y = a * self.x + b

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return a point: two tensors of one number."""
        return self.x[index].reshape(1), self.y[index].reshape(1)

    def __len__(self) -> int:
        return len(self.x)
