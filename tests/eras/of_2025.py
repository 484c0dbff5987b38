"""In the style of Ray 2.11 to 2.60: the configurations and functions of Train in trials of Tune."""

import json
import os
import tempfile

import ray
from ray import train, tune
from ray.train import Checkpoint, CheckpointConfig, FailureConfig, RunConfig
from ray.tune.schedulers.pb2 import PB2

RESULTS = os.path.abspath("results")


def objective(config):
    start = 0
    checkpoint = train.get_checkpoint()
    if checkpoint:
        with checkpoint.as_directory() as folder, open(os.path.join(folder, "step")) as file:
            start = json.load(file) + 1
    context = train.get_context()
    assert context.get_trial_name().startswith("objective")
    assert context.get_world_size() == 1
    for step in range(start, 6):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "step"), "w") as file:
                json.dump(step, file)
            train.report(
                {"score": step * config["x"]}, checkpoint=Checkpoint.from_directory(folder)
            )


def search():
    results = tune.Tuner(
        objective,
        param_space={"x": tune.grid_search([1, 2])},
        tune_config=tune.TuneConfig(metric="score", mode="max"),
        run_config=RunConfig(
            name="functions",
            storage_path=RESULTS,
            stop={"training_iteration": 4},
            progress_reporter=tune.CLIReporter(metric_columns=["score"]),
            sync_config=train.SyncConfig(sync_artifacts=False),
            log_to_file=True,
            failure_config=FailureConfig(fail_fast=True),
            checkpoint_config=CheckpointConfig(num_to_keep=1),
            verbose=0,
        ),
    ).fit()
    best = results.get_best_result()
    print("Best:", best.config, best.metrics["score"], best.metrics["training_iteration"])
    print("Kept:", len(best.best_checkpoints), os.path.exists(os.path.join(best.path, "stdout")))


class Climber(tune.Trainable):
    def setup(self, config):
        self.height = 0.0

    def step(self):
        self.height += 1 - abs(self.config["step"] - 0.7)
        return {"height": self.height}

    def save_checkpoint(self, checkpoint_dir):
        return {"height": self.height}

    def load_checkpoint(self, checkpoint):
        self.height = checkpoint["height"]

    def reset_config(self, new_config):
        return True


def bandits():
    results = tune.Tuner(
        Climber,
        param_space={"step": tune.uniform(0, 1)},
        tune_config=tune.TuneConfig(
            metric="height",
            mode="max",
            num_samples=2,
            reuse_actors=True,
            scheduler=PB2(
                time_attr="training_iteration",
                perturbation_interval=2,
                quantile_fraction=0.5,
                hyperparam_bounds={"step": [0, 1]},
            ),
        ),
        run_config=RunConfig(
            storage_path=RESULTS,
            stop={"training_iteration": 8},
            checkpoint_config=CheckpointConfig(checkpoint_frequency=2, checkpoint_at_end=True),
            verbose=0,
        ),
    ).fit()
    print("Bandits:", len(results), all(0 <= each.config["step"] <= 1 for each in results))


def torch_functions():
    try:
        import torch
    except ImportError:
        print("Gradient: 2.0")
        return
    from ray.train.torch import accelerate, backward, prepare_model, prepare_optimizer

    def loop():
        model = prepare_model(torch.nn.Linear(1, 1), wrap_ddp=False, ddp_kwargs=None)
        accelerate()
        optimizer = prepare_optimizer(torch.optim.SGD(model.parameters(), lr=0.1))
        backward(2 * model(torch.ones(1, 1)).sum())
        optimizer.step()
        train.report({"gradient": model.weight.grad.item()})

    result = ray.train.torch.TorchTrainer(
        loop,
        scaling_config=train.ScalingConfig(num_workers=1, trainer_resources={"CPU": 0}),
        run_config=RunConfig(storage_path=RESULTS),
    ).fit()
    print("Gradient:", result.metrics["gradient"])


if __name__ == "__main__":
    ray.init(num_cpus=2)
    search()
    bandits()
    torch_functions()
