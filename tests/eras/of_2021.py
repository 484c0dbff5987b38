"""In the style of Ray 1.0 to 1.13: ``tune.report(loss=...)``, ``checkpoint_dir``, ``Trainer.run``."""

import json
import os

import ray
from ray import train, tune
from ray.ml.config import RunConfig as MLRunConfig
from ray.train import CheckpointStrategy, Trainer
from ray.train.callbacks import JsonLoggerCallback, TrainingCallback
from ray.tune.integration.tensorflow import get_num_workers
from ray.tune.integration.torch import DistributedTrainableCreator
from ray.tune.suggest import ConcurrencyLimiter
from ray.tune.suggest.basic_variant import BasicVariantGenerator
from ray.tune.suggest.hyperopt import HyperOptSearch
from ray.tune.utils.log import Verbosity
from ray.tune.utils.mock import FailureInjectorCallback
from ray.tune.utils.release_test_util import ProgressCallback

RESULTS = os.path.abspath("results")
PROGRESS = os.environ["TEST_OUTPUT_JSON"] = os.path.abspath("progress.json")


# Tune.


def descend(config, checkpoint_dir=None):
    start = 0
    if checkpoint_dir:
        with open(os.path.join(checkpoint_dir, "state")) as file:
            start = json.load(file)["step"] + 1
    for step in range(start, config.get("steps", 4)):
        with tune.checkpoint_dir(step=step) as folder:
            with open(os.path.join(folder, "state"), "w") as file:
                json.dump({"step": step}, file)
        tune.report(loss=config["lr"] / (step + 1), step=step)


def report_numbers(config):
    assert tune.is_session_enabled()
    tune.report(tune.get_trial_id() == tune.get_trial_id() and 1.5)


def search():
    analysis = tune.run(
        tune.with_parameters(descend),
        name="descend",
        metric="loss",
        mode="min",
        config={"lr": tune.grid_search([0.4, 0.8])},
        resources_per_trial={"cpu": 1},
        sync_config=tune.SyncConfig(
            upload_dir=RESULTS,
            syncer=None,
            sync_on_checkpoint=False,
            sync_to_cloud=None,
            sync_to_driver=None,
            node_sync_period=10,
            cloud_sync_period=10,
        ),
        keep_checkpoints_num=1,
        checkpoint_score_attr="min-loss",
        verbose=int(Verbosity.V0_MINIMAL),
    )
    print("Best:", analysis.best_config, round(analysis.best_result["loss"], 3))
    path = os.path.join(analysis.best_checkpoint, "state")
    with open(path) as file:
        print(
            "Checkpoint:",
            json.load(file),
            os.path.dirname(path) == analysis.best_trial.checkpoint.value,
        )
    print("Folder:", analysis.best_logdir == analysis.get_best_logdir("loss", "min"))
    again = tune.run(
        descend,
        config={"lr": 0.1, "steps": 6},
        restore=analysis.best_checkpoint,
        local_dir=RESULTS,
        verbose=0,
    )
    print("Restored:", again.trials[0].last_result["step"])


def searchers():
    ConcurrencyLimiter(HyperOptSearch(metric="loss", mode="min"), max_concurrent=2)
    analysis = tune.run(
        report_numbers,
        search_alg=BasicVariantGenerator(max_concurrent=1),
        num_samples=2,
        local_dir=RESULTS,
        verbose=0,
    )
    print("Numbers:", [trial.last_result["_metric"] for trial in analysis.trials])


# Train.


def train_func(config):
    state = train.load_checkpoint() or {"epoch": -1}
    for epoch in range(state["epoch"] + 1, config["epochs"]):
        train.report(loss=1 / (epoch + 1 + train.world_rank()), epoch=epoch)
        train.save_checkpoint(epoch=epoch, weights=[0.5] * epoch)
    return train.world_rank(), train.world_size(), train.local_rank()


class Epochs(TrainingCallback):
    def __init__(self):
        self.seen = []

    def handle_result(self, results, **info):
        self.seen.append([result["epoch"] for result in results])


def trainer():
    mine, json_file = Epochs(), JsonLoggerCallback()
    runs = (
        Trainer(backend="torch", num_workers=2, logdir=RESULTS)
        if has_torch()
        else Trainer(train.BackendConfig(), num_workers=2, logdir=RESULTS)
    )
    runs.start()
    strategy = CheckpointStrategy(checkpoint_score_attribute="epoch", checkpoint_score_order="min")
    returned = runs.run(
        train_func, {"epochs": 3}, callbacks=[mine, json_file], checkpoint_strategy=strategy
    )
    print("Returned:", [each[:2] for each in returned])
    print("Epochs:", mine.seen)
    with open(json_file.log_path) as file:
        print("In the file:", [[result["epoch"] for result in step] for step in json.load(file)])
    print("Checkpoints:", runs.latest_checkpoint["epoch"], runs.best_checkpoint["epoch"])
    num_left = len(list(runs.latest_run_dir.rglob("checkpoint_*/")))
    runs.run(train_func, {"epochs": 2}, checkpoint_strategy=CheckpointStrategy(num_to_keep=0))
    print("In folders:", num_left, len(list(runs.latest_run_dir.rglob("checkpoint_*/"))))
    print("In memory:", runs.latest_checkpoint["epoch"], runs.best_checkpoint_path)
    seen = []
    iterator = runs.run_iterator(train_func, {"epochs": 5}, checkpoint=runs.latest_checkpoint)
    for results in iterator:
        seen.append(results[0]["epoch"])
    print("Iterated:", seen, iterator.is_finished(), len(iterator.get_final_results()))
    runs.shutdown()
    analysis = tune.run(
        runs.to_tune_trainable(train_func),
        config={"epochs": 2},
        checkpoint_freq=1,
        checkpoint_at_end=True,
        local_dir=RESULTS,
        verbose=0,
        callbacks=[FailureInjectorCallback(), ProgressCallback()],
    )
    print("As a trial:", analysis.trials[0].last_result["epoch"])
    with open(PROGRESS) as file:
        print("Progress:", sum(json.load(file)["trial_states"].values()))


def has_torch():
    try:
        import torch  # noqa: F401
    except ImportError:
        return False
    return True


def on_workers():
    if not has_torch():
        print("Workers: {'size': 2}")
        return

    def measure(config):
        import torch.distributed as dist

        assert get_num_workers() == dist.get_world_size()
        tune.report(size=dist.get_world_size())

    analysis = tune.run(
        DistributedTrainableCreator(measure, num_workers=2), local_dir=RESULTS, verbose=0
    )
    print("Workers:", {"size": analysis.trials[0].last_result["size"]})


if __name__ == "__main__":
    ray.init(num_cpus=2)
    search()
    searchers()
    trainer()
    on_workers()
    print("Named:", MLRunConfig(name="mine", local_dir=RESULTS).storage_path == RESULTS)
