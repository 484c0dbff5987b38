"""`ray.train.examples.pytorch.torch_linear_example`: the training that guides to Tune import."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import torch

from raycompat import train
from raycompat._old.sgd.examples import LinearDataset
from raycompat.train.torch import TorchTrainer, prepare_data_loader, prepare_model

__all__ = ["LinearDataset", "train_func", "train_linear"]


def train_func(config: dict[str, Any]) -> list[dict[str, float]]:
    """Learn a line in each worker, and report the loss and a checkpoint after each epoch.

    Parameters
    ----------
    config : dict
        ``lr``, ``batch_size``, ``epochs``, ``hidden_size`` (numbers that the model returns),
        ``data_size`` and ``val_size``; each has a default.

    Returns
    -------
    list of dict
        What was reported.
    """
    batch_size = config.get("batch_size", 32)
    points, others = (
        prepare_data_loader(
            torch.utils.data.DataLoader(LinearDataset(2, 5, size=size), batch_size=batch_size)
        )
        for size in (config.get("data_size", 1000), config.get("val_size", 400))
    )
    model = prepare_model(torch.nn.Linear(1, config.get("hidden_size", 1)))
    loss_of = torch.nn.MSELoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=config.get("lr", 1e-2))
    results = []
    for epoch in range(config.get("epochs", 3)):
        if train.get_context().get_world_size() > 1:
            points.sampler.set_epoch(epoch)
        for x, y in points:
            optimizer.zero_grad()
            loss_of(model(x), y).backward()
            optimizer.step()
        with torch.no_grad():
            losses = [float(loss_of(model(x), y)) for x, y in others]
        results.append({"loss": sum(losses) / len(losses)})
        with tempfile.TemporaryDirectory() as folder:
            torch.save(model.state_dict(), Path(folder) / "model.pt")
            train.report(results[-1], checkpoint=train.Checkpoint.from_directory(folder))
    return results


def train_linear(
    num_workers: int = 2,
    use_gpu: bool = False,
    epochs: int = 3,
    storage_path: str | None = None,
) -> dict[str, Any] | None:
    """Learn a line in several workers, and return the last report.

    Parameters
    ----------
    num_workers : int, default 2
        Number of workers.
    use_gpu : bool, default False
        Whether each has a GPU.
    epochs : int, default 3
        How often each point is learnt from.
    storage_path : str, optional
        Where checkpoints are stored.
    """
    trainer = TorchTrainer(
        train_func,
        train_loop_config={"lr": 1e-2, "batch_size": 4, "epochs": epochs},
        scaling_config=train.ScalingConfig(num_workers=num_workers, use_gpu=use_gpu),
        run_config=train.RunConfig(storage_path=storage_path),
    )
    metrics = trainer.fit().metrics
    print(metrics)
    return metrics
