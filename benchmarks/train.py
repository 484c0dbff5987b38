"""Seconds that runs of Train take, beside real Ray in one run.

python benchmarks/train.py --vs ray --ray-python .venv-ray/bin/python

TensorFlow and PyTorch must not be imported from source files each time: compile the packages of both
environments first (``python -m compileall -q SITE-PACKAGES``). ``--case "PyTorch fit"`` chooses a case.
"""

from __future__ import annotations

import functools
import importlib
import os
import tempfile
import time

import beside_ray

#: What is measured, and the line that it is in the table.
CASES = {
    "fit": "fit of five epochs on two workers (s)",
    "failing run": "fit that fails (s)",
    "worker lost": "fit that loses a worker and resumes (s)",
    "PyTorch fit": "fit of five epochs on two workers, PyTorch (s)",
    "PyTorch worker lost": "fit that loses a worker and resumes, PyTorch (s)",
}


def training_function(impl: str):
    """Return a function that trains five small epochs under a strategy of TensorFlow."""

    def fit_line(config: dict) -> None:
        import numpy as np
        import tensorflow as tf

        train = importlib.import_module(f"{impl}.train")
        callbacks = importlib.import_module(f"{impl}.train.tensorflow.keras")
        rank = train.get_context().get_world_rank()
        strategy = tf.distribute.MultiWorkerMirroredStrategy()
        with strategy.scope():
            model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(1,))])
            model.compile(optimizer="adam", loss="mse")
        x = np.linspace(0, 1, 100, dtype="float32")[:, None]
        start = 0
        if (checkpoint := train.get_checkpoint()) is not None:
            with checkpoint.as_directory() as folder:
                model.load_weights(os.path.join(folder, "model.keras"))
            start = 3
        for epoch in range(start, 5):
            report = callbacks.ReportCheckpointCallback()
            model.fit(x, x, batch_size=20, verbose=0, callbacks=[report])
            if epoch == 2 and rank == 1 and start == 0:
                if config["case"] == "failing run":
                    raise ValueError("it fails on purpose")
                if config["case"] == "worker lost":
                    os.kill(os.getpid(), 9)

    return fit_line


def torch_function(impl: str):
    """Return the same with PyTorch."""

    def fit_line(config: dict) -> None:
        import torch

        train = importlib.import_module(f"{impl}.train")
        train_torch = importlib.import_module(f"{impl}.train.torch")
        rank = train.get_context().get_world_rank()
        model, start = torch.nn.Linear(1, 1), 0
        if (checkpoint := train.get_checkpoint()) is not None:
            with checkpoint.as_directory() as folder:
                model.load_state_dict(torch.load(os.path.join(folder, "model.pt")))
            start = 3
        model = train_torch.prepare_model(model)
        optimizer = torch.optim.Adam(model.parameters())
        x = torch.linspace(0, 1, 100)[:, None]
        rows = torch.utils.data.TensorDataset(x, x)
        loader = torch.utils.data.DataLoader(rows, batch_size=10, shuffle=True)
        loader = train_torch.prepare_data_loader(loader)
        for epoch in range(start, 5):
            loader.sampler.set_epoch(epoch)
            for features, targets in loader:
                loss = ((model(features) - targets) ** 2).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            with tempfile.TemporaryDirectory() as folder:
                if rank == 0:
                    torch.save(model.module.state_dict(), os.path.join(folder, "model.pt"))
                checkpoint = train.Checkpoint.from_directory(folder)
                train.report({"loss": loss.item()}, checkpoint=checkpoint)
            if (epoch, rank, start) == (2, 1, 0) and config["case"] == "worker lost":
                os.kill(os.getpid(), 9)

    return fit_line


def make_trainer(case: str, impl: str):
    """Return the class of a case's trainer, and the training function."""
    if case.startswith("PyTorch"):
        trainer = importlib.import_module(f"{impl}.train.torch").TorchTrainer
        return trainer, torch_function(impl)
    # Ray sets it too late; raycompat does not need it.
    os.environ["TF_USE_LEGACY_KERAS"] = "1"
    trainer = importlib.import_module(f"{impl}.train.tensorflow").TensorflowTrainer
    return trainer, training_function(impl)


def measure(case: str, impl: str) -> dict[str, float]:
    """Return the seconds of a case, from `fit` to its end."""
    name = CASES[case]
    trainer, function = make_trainer(case, impl)
    case = case.removeprefix("PyTorch ")
    ray = importlib.import_module(impl)
    train = importlib.import_module(f"{impl}.train")
    ray.init(num_cpus=3, include_dashboard=False, log_to_driver=False)
    begin = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        run = trainer(
            function,
            train_loop_config={"case": case},
            scaling_config=train.ScalingConfig(num_workers=2),
            run_config=train.RunConfig(
                storage_path=folder,
                failure_config=train.FailureConfig(max_failures=int(case == "worker lost")),
            ),
        )
        try:
            run.fit()
        except train.TrainingFailedError:
            assert case == "failing run"
        else:
            assert case != "failing run"
    seconds = time.perf_counter() - begin
    ray.shutdown()
    return {name: seconds}


if __name__ == "__main__":
    beside_ray.main(__file__, __doc__, {case: functools.partial(measure, case) for case in CASES})
