"""`ray.tune.examples.mnist_pytorch`: the network and the functions that guides to Tune import."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn

from raycompat._old_forms import packages
from raycompat.tune.trainable.session import report

#: How many pictures a call of `train_func` learns from, and `test_func` looks at: few, so that a trial
#: reports often.
EPOCH_SIZE, TEST_SIZE = 512, 256

#: Mean and standard deviation of the pictures' values.
_MEAN, _DEVIATION = 0.1307, 0.3081


class ConvNet(nn.Module):
    """A small network that tells digits apart: it gives the logarithm of each one's probability."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 3, kernel_size=3)
        self.fc = nn.Linear(192, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the logarithms for pictures, of shape ``(n, 1, 28, 28)``, as ``(n, 10)``."""
        found = torch.relu(nn.functional.max_pool2d(self.conv1(x), 3))
        return torch.log_softmax(self.fc(found.flatten(1)), dim=1)


def train_func(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    train_loader: Any,
    device: torch.device | None = None,
) -> None:
    """Train a network on `EPOCH_SIZE` pictures.

    Parameters
    ----------
    model : torch.nn.Module
        The network.
    optimizer : torch.optim.Optimizer
        Changes its weights.
    train_loader : iterable of pairs
        Batches of pictures, and their digits.
    device : torch.device, optional
        By default the CPU.
    """
    model.train()
    seen = 0
    for pictures, digits in train_loader:
        if seen >= EPOCH_SIZE:
            return
        seen += len(digits)
        optimizer.zero_grad()
        loss = nn.functional.nll_loss(model(pictures.to(device)), digits.to(device))
        loss.backward()
        optimizer.step()


def test_func(model: nn.Module, data_loader: Any, device: torch.device | None = None) -> float:  # noqa: PT028
    """Return for which part of `TEST_SIZE` pictures a network finds the digit.

    Parameters
    ----------
    model : torch.nn.Module
        The network.
    data_loader : iterable of pairs
        Batches of pictures, and their digits.
    device : torch.device, optional
        By default the CPU.
    """
    model.eval()
    seen = correct = 0
    with torch.no_grad():
        for pictures, digits in data_loader:
            if seen >= TEST_SIZE:
                break
            found = model(pictures.to(device)).argmax(dim=1)
            correct += int((found == digits.to(device)).sum())
            seen += len(digits)
    return correct / seen


#: Their names until 2.6.
train, test = train_func, test_func


def get_data_loaders(batch_size: int = 64) -> tuple[Any, Any]:
    """Return batches for training and for the test. The pictures are downloaded into ``~/data``.

    Parameters
    ----------
    batch_size : int, default 64
        Number of pictures in a batch.
    """
    from filelock import FileLock

    vision = packages.require("torchvision", "ray.tune.examples.mnist_pytorch")
    transform = vision.transforms.Compose(
        [
            vision.transforms.ToTensor(),
            vision.transforms.Normalize((_MEAN,), (_DEVIATION,)),
        ]
    )
    home = Path.home()
    with FileLock(home / "data.lock"):  # trials of one node download at the same time
        first, second = (
            torch.utils.data.DataLoader(
                vision.datasets.MNIST(
                    str(home / "data"), train=is_train, download=True, transform=transform
                ),
                batch_size=batch_size,
                shuffle=True,
            )
            for is_train in (True, False)
        )
    return first, second


def train_mnist(config: dict[str, Any]) -> None:
    """Train a network, and report ``mean_accuracy`` until the trial is stopped.

    Parameters
    ----------
    config : dict
        ``lr`` and ``momentum`` of the optimizer, and ``should_checkpoint``.
    """
    import tempfile

    from raycompat.train._checkpoint import Checkpoint

    train_loader, test_loader = get_data_loaders()
    model = ConvNet()
    optimizer = torch.optim.SGD(
        model.parameters(), lr=config.get("lr", 0.01), momentum=config.get("momentum", 0.9)
    )
    while True:
        train_func(model, optimizer, train_loader)
        metrics = {"mean_accuracy": test_func(model, test_loader)}
        if not config.get("should_checkpoint"):
            report(metrics)
            continue
        with tempfile.TemporaryDirectory() as folder:
            torch.save(model.state_dict(), Path(folder, "model.pt"))
            report(metrics, checkpoint=Checkpoint.from_directory(folder))
