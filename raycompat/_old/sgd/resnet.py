"""`ray.util.sgd.torch.resnet`: residual networks for pictures of 32 x 32."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

#: Channels of the four stages.
_WIDTHS = (64, 128, 256, 512)


class _Block(nn.Module):
    """Convolutions whose result is added to what they are given."""

    def __init__(self, given: int, width: int, stride: int, *, is_narrow: bool) -> None:
        super().__init__()
        made = 4 * width if is_narrow else width
        sizes = [(given, width, 1), (width, width, 3), (width, made, 1)]
        if not is_narrow:
            sizes = [(given, width, 3), (width, width, 3)]
        layers: list[nn.Module] = []
        for index, (before, after, size) in enumerate(sizes):
            step = stride if index == len(sizes) - 2 else 1
            layers += [*_convolution(before, after, size, step), nn.ReLU()]
        self.layers = nn.Sequential(*layers[:-1])
        is_same = stride == 1 and given == made
        self.shortcut = nn.Sequential(*([] if is_same else _convolution(given, made, 1, stride)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the sum, without what is negative."""
        return torch.relu(self.layers(x) + self.shortcut(x))


class ResNet(nn.Module):
    """A residual network of four stages, for pictures of shape ``(n, 3, 32, 32)``.

    Parameters
    ----------
    num_blocks : list of int
        Number of blocks in each stage.
    num_classes : int, default 10
        Length of the result for a picture.
    is_narrow : bool, default False
        Whether a block has three convolutions, of which the first and the last are of single points.
    """

    def __init__(
        self, num_blocks: list[int], num_classes: int = 10, *, is_narrow: bool = False
    ) -> None:
        super().__init__()
        layers: list[nn.Module] = [*_convolution(3, _WIDTHS[0], 3, 1), nn.ReLU()]
        given = _WIDTHS[0]
        for stage, (width, count) in enumerate(zip(_WIDTHS, num_blocks, strict=True)):
            for index in range(count):
                stride = 2 if stage and index == 0 else 1
                layers.append(_Block(given, width, stride, is_narrow=is_narrow))
                given = 4 * width if is_narrow else width
        self.layers = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.linear = nn.Linear(given, num_classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return a number for each class, of shape ``(n, num_classes)``."""
        scores: torch.Tensor = self.linear(self.layers(x))
        return scores


def _convolution(before: int, after: int, size: int, stride: int) -> list[nn.Module]:
    made = nn.Conv2d(before, after, size, stride, padding=size // 2, bias=False)
    return [made, nn.BatchNorm2d(after)]


def ResNet18(_: Any) -> ResNet:  # noqa: N802
    """Return a network of 18 layers; its argument, the config of a trainer, is not used."""
    return ResNet([2, 2, 2, 2])


def ResNet34(_: Any) -> ResNet:  # noqa: N802
    """Return a network of 34 layers."""
    return ResNet([3, 4, 6, 3])


def ResNet50(_: Any) -> ResNet:  # noqa: N802
    """Return a network of 50 layers."""
    return ResNet([3, 4, 6, 3], is_narrow=True)


def ResNet101(_: Any) -> ResNet:  # noqa: N802
    """Return a network of 101 layers."""
    return ResNet([3, 4, 23, 3], is_narrow=True)


def ResNet152(_: Any) -> ResNet:  # noqa: N802
    """Return a network of 152 layers."""
    return ResNet([3, 8, 36, 3], is_narrow=True)
