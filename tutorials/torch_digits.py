"""Two workers learn to read digits with PyTorch, and report to Train."""

import os
import tempfile

from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import raycompat as ray
from raycompat import train
from raycompat.train import (
    CheckpointConfig,
    FailureConfig,
    RunConfig,
    ScalingConfig,
)
from raycompat.train.torch import (
    TorchTrainer,
    get_device,
    prepare_data_loader,
    prepare_model,
)


def train_digits(config: dict) -> None:
    import torch
    from torch import nn
    from torch.utils.data import DataLoader, TensorDataset

    context = train.get_context()
    rank, size = context.get_world_rank(), context.get_world_size()
    images, digits = load_digits(return_X_y=True)
    train_x, test_x, train_y, test_y = train_test_split(
        torch.tensor(images, dtype=torch.float32) / 16,
        torch.tensor(digits),
        test_size=360,
        random_state=0,
        stratify=digits,
    )
    test_x, test_y = test_x.to(get_device()), test_y.to(get_device())
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    start = 0
    checkpoint = train.get_checkpoint()
    if checkpoint is not None:
        with checkpoint.as_directory() as folder:
            model.load_state_dict(torch.load(os.path.join(folder, "model.pt")))
        start = checkpoint.get_metadata()["epoch"] + 1

    model = prepare_model(model)
    optimizer = torch.optim.Adam(model.parameters(), config["learning_rate"])
    loader = prepare_data_loader(
        DataLoader(
            TensorDataset(train_x, train_y),
            batch_size=config["global_batch_size"] // size,
            shuffle=True,
        )
    )
    for epoch in range(start, config["epochs"]):
        if size > 1:
            loader.sampler.set_epoch(epoch)
        for x, y in loader:
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            accuracy = (model(test_x).argmax(1) == test_y).float().mean().item()
        with tempfile.TemporaryDirectory() as folder:
            if rank == 0:
                bare = model.module if size > 1 else model
                torch.save(bare.state_dict(), os.path.join(folder, "model.pt"))
            checkpoint = train.Checkpoint.from_directory(folder)
            checkpoint.set_metadata({"epoch": epoch})
            train.report(
                {"epoch": epoch, "accuracy": accuracy}, checkpoint=checkpoint
            )


def main() -> None:
    ray.init()
    trainer = TorchTrainer(
        train_digits,
        train_loop_config={
            "global_batch_size": 64,
            "learning_rate": 0.003,
            "epochs": 15,
        },
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(
            name="torch_digits",
            failure_config=FailureConfig(max_failures=2),
            checkpoint_config=CheckpointConfig(num_to_keep=1),
        ),
    )
    result = trainer.fit()
    print(
        "accuracy on digits that it has not seen: "
        f"{result.metrics['accuracy']:.3f}"
    )
    print(f"the model: {result.checkpoint.path}/model.pt")
    ray.shutdown()


if __name__ == "__main__":
    main()
