"""Names that programs of 2018 to 2024 took from other places, and what belonged to them."""

import os
import sys
import types

import numpy as np
import pandas as pd
import ray
import torch
from ray import train, tune
from ray._private.internal_api import free
from ray._private.ray_constants import RESOURCE_CONSTRAINT_PREFIX
from ray._raylet import ObjectRefGenerator
from ray.dashboard.modules.job.common import JobStatus
from ray.dashboard.modules.job.sdk import JobSubmissionClient
from ray.data import NodeIdStr
from ray.data._internal.aggregate import Max
from ray.data._internal.delegating_block_builder import DelegatingBlockBuilder
from ray.data.block import BlockMetadata
from ray.data.datasource import Datasource, RandomIntRowDatasource, Reader, ReadTask
from ray.data.expressions import ColumnExpr, LiteralExpr, col, lit
from ray.data.extensions import TensorArray
from ray.experimental import ui
from ray.sgd import SGDCallback
from ray.tune.execution.tune_controller import TuneController
from ray.tune.integration.mlflow import mlflow_mixin
from ray.tune.integration.wandb import WandbTrainableMixin, wandb_mixin
from ray.tune.utils import validate_save_restore
from ray.util.ml_utils.node import force_on_current_node
from ray.util.sgd.torch import distributed_checkpoint_dir, is_distributed_trainable
from ray.util.sgd.torch.examples.train_example import LinearDataset

ray.init(num_cpus=2)


@ray.remote
def numbers(count):
    yield from range(count)


generator = numbers.options(num_returns="streaming").remote(3)
print("Generator:", isinstance(generator, ObjectRefGenerator), [ray.get(ref) for ref in generator])
print("Jobs:", JobStatus.SUCCEEDED.value, JobSubmissionClient is not None)
print("Resource:", RESOURCE_CONSTRAINT_PREFIX + "V100", NodeIdStr is str)


@ray.remote
def where():
    return ray.util.get_node_ip_address()


print("Here:", ray.get(force_on_current_node(where).remote()) == ray.util.get_node_ip_address())
print("Options:", [name.partition(":")[0] for name in force_on_current_node()["resources"]])

stored = ray.put([1, 2])
free([stored])
ray.internal.free(stored)
try:
    free([3])
except TypeError as error:
    print("Not a reference:", "expected a list of references" in str(error))
ui.task_timeline()

points = LinearDataset(2, 5, size=100)
print("Points:", len(points), [value.tolist() for value in points[10]])


class Printed(SGDCallback):
    def handle_result(self, results, **info):
        print("Results:", len(results))


trainer = train.Trainer(backend="torch", num_workers=1)
trainer.start()
trainer.run(lambda: train.report(loss=1.0), callbacks=[Printed()])
trainer.shutdown()

builder = DelegatingBlockBuilder()
builder.add({"image": np.zeros((2, 2))})
builder.add_block(pd.DataFrame({"image": TensorArray(np.ones((2, 2, 2)))}))
builder.add_batch({"image": np.full((1, 2, 2), 2.0)})
print("Built:", builder.num_rows(), builder.get_estimated_memory_usage() >= 4 * 4 * 8)
images = ray.data.from_arrow(builder.build())
print("Images:", [float(row["image"].mean()) for row in images.take_all()])
print("Tensors:", TensorArray([np.ones(3), np.ones(3)]).numpy_shape)


class Letters(Datasource):
    def create_reader(self, text):
        return LettersReader(text)


class LettersReader(Reader):
    def __init__(self, text):
        self.text = text

    def estimate_inmemory_data_size(self):
        return len(self.text)

    def get_read_tasks(self, parallelism):
        text = self.text
        metadata = BlockMetadata(
            len(text), len(text), schema=None, input_files=None, exec_stats=None
        )
        return [ReadTask(lambda: [pd.DataFrame({"letter": list(text)})], metadata)]


class Words(Datasource):
    def prepare_read(self, parallelism, words):
        return [
            ReadTask(
                lambda word=word: [pd.DataFrame({"word": [word]})], BlockMetadata(1, len(word))
            )
            for word in words
        ]


read = ray.data.read_datasource(Letters(), text="abc", parallelism=2)
print("Letters:", [row["letter"] for row in read.take_all()])
read = ray.data.read_datasource(Words(), words=["to", "be"])
print("Words:", sorted(row["word"] for row in read.take_all()))
numbers = ray.data.read_datasource(RandomIntRowDatasource(), n=10, num_columns=2)
print("Numbers:", numbers.count(), numbers.schema().names)
print("Today:", ray.data.read_datasource(RandomIntRowDatasource(n=5, num_columns=1)).count())
try:
    ray.data.read_datasource(RandomIntRowDatasource(n=5, num_columns=1), n=3)
except TypeError as error:
    print("Argument:", "['n']" in str(error))

made = [isinstance(expr, kind) for expr, kind in ((col("x"), ColumnExpr), (lit(1), LiteralExpr))]
print("Expressions:", made)
pool = ray.data.ActorPoolStrategy(1, 2)
print("Pool:", pool.min_size, pool.max_size)
print("Largest:", ray.data.range(5).aggregate(Max("id")))

checkpoint = train.Checkpoint.from_object_ref(ray.put({"epoch": 3}))
print("Checkpoint:", checkpoint.to_dict(), ray.get(checkpoint.to_object_ref()))
folder = train.Checkpoint(os.getcwd())
stored = train.Checkpoint.from_object_ref(folder.to_object_ref())
print("Of a folder:", stored.path == folder.path)


class Counting(tune.Trainable):
    def setup(self, config):
        self.count = 0

    def step(self):
        self.count += 1
        return {"count": self.count}

    def save_checkpoint(self, folder):
        return {"count": self.count}

    def load_checkpoint(self, data):
        self.count = data["count"]


validate_save_restore(Counting, use_object_store=True)


def fair_share(tune_controller: TuneController, trial, result, scheduler):
    executor = tune_controller.trial_executor
    total = executor._resource_updater.get_num_cpus()
    assert executor._avail_resources.cpu == total
    assert executor._avail_resources.gpu == 0
    shares = len(tune_controller.get_live_trials())
    least = scheduler._base_trial_resources.required_resources["CPU"]
    return tune.PlacementGroupFactory([{"CPU": max(least, int(total / shares))}])


def learn(config):
    print("Alone:", not is_distributed_trainable())
    for step in range(3):
        with distributed_checkpoint_dir(step) as folder:
            open(f"{folder}/step", "w").close()
        tune.report(score=step)


changing = tune.schedulers.ResourceChangingScheduler(resources_allocation_function=fair_share)
found = tune.run(learn, metric="score", mode="max", scheduler=changing, verbose=0)
print("Shared:", found.best_result["score"])

# Neither library has to be installed: the names are those of modules that record what they are asked.
runs = []
wandb = types.ModuleType("wandb")
wandb.login = lambda **options: None
wandb.init = lambda **options: runs.append(options) or "a run"
mlflow = types.ModuleType("mlflow")
mlflow.set_tracking_uri = mlflow.log_params = lambda value: None
mlflow.set_experiment = lambda **options: runs.append(options)
mlflow.start_run = lambda **options: None
torchvision = types.ModuleType("torchvision")
torchvision.transforms = types.SimpleNamespace(
    Compose=list, ToTensor=lambda: "tensor", Normalize=lambda *values: "normal"
)
torchvision.datasets = types.SimpleNamespace(
    MNIST=lambda root, train, download, transform: [
        (torch.full((1, 28, 28), digit / 10), digit) for digit in range(10)
    ]
)
sys.modules.update(wandb=wandb, mlflow=mlflow, torchvision=torchvision)

from ray.tune.examples.mnist_pytorch import ConvNet, get_data_loaders, test, train_func  # noqa: E402

model = ConvNet()
pictures, others = get_data_loaders(batch_size=5)
train_func(model, torch.optim.SGD(model.parameters(), lr=0.1), pictures)
print("Digits:", model(torch.zeros(2, 1, 28, 28)).shape, 0 <= test(model, others) <= 1)


@wandb_mixin
def logged(config, checkpoint_dir=None):
    return config["lr"], checkpoint_dir


@mlflow_mixin
def tracked(config):
    return config["lr"]


class Logged(WandbTrainableMixin, Counting):
    pass


config = {"lr": 0.1, "wandb": {"project": "own", "api_key": "key"}}
print("Logged:", logged(config), runs[-1]["project"], runs[-1]["config"])
print("Class:", Logged(config).wandb, runs[-1]["project"])
print("Tracked:", tracked({"lr": 0.2, "mlflow": {"tracking_uri": "x", "experiment_name": "own"}}))
print("Experiment:", runs[-1]["experiment_name"])
try:
    logged({"lr": 0.1})
except ValueError as error:
    print("No project:", "'project'" in str(error))
try:
    from ray.tune import sklearn as searches

    print(searches.TuneSearchCV)
except ImportError as error:
    print("Package:", "pip install tune-sklearn" in str(error))
try:
    from ray.util import xgboost as boosting

    print(boosting.RayDMatrix)
except ImportError as error:
    print("Boosting:", "pip install xgboost-ray" in str(error))
