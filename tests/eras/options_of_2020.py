"""In the style of Ray 0.5 to 1.12: options of searchers, schedulers, readers and trainers of the time."""

import importlib.util
import os

import numpy as np
import ray
from ray import tune
from ray.data.aggregate import AggregateFn
from ray.ml.checkpoint import Checkpoint
from ray.ml.preprocessors import StandardScaler
from ray.ml.train.integrations.tensorflow import TensorflowTrainer
from ray.ml.train.integrations.torch import TorchTrainer
from ray.train.data_parallel_trainer import DataParallelTrainer
from ray.tune import ExperimentAnalysis, Trainable
from ray.tune.schedulers.pb2 import PB2
from ray.tune.suggest.basic_variant import BasicVariantGenerator
from ray.tune.suggest.suggestion import Searcher
from ray.tune.trainable import wrap_function
from ray.tune.utils import validate_save_restore

RESULTS = os.path.abspath("results")
ray.init(num_cpus=2)


class Upwards(Searcher):
    def __init__(self, **options):
        super().__init__(metric="score", mode="max", **options)
        self.value = self.running = self.most = 0

    def suggest(self, trial_id):
        self.value += 1
        self.running += 1
        self.most = max(self.most, self.running)
        return {"value": self.value}

    def on_trial_complete(self, trial_id, result=None, error=False):
        self.running -= 1


search = Upwards(max_concurrent=1, use_early_stopped_trials=True)
analysis = tune.run(
    lambda config: tune.report(score=config["value"]),
    search_alg=search,
    num_samples=3,
    local_dir=RESULTS,
    name="upwards",
    verbose=0,
)
print("At a time:", search.most, len(analysis.trials))
print("Drawn:", tune.sample_from(lambda spec: spec).sample(spec=4))


def installed(library):
    return importlib.util.find_spec(library) is not None


made = []
if installed("hyperopt"):
    from hyperopt import hp
    from ray.tune.suggest.hyperopt import HyperOptSearch

    space = {"x": hp.uniform("x", 0, 1)}
    made.append(
        HyperOptSearch(space, max_concurrent=2, reward_attr="score", use_early_stopped_trials=True)
    )
if installed("bayes_opt"):
    from ray.tune.suggest.bayesopt import BayesOptSearch

    made.append(
        BayesOptSearch(
            {"x": (0, 1)}, "score", "max", max_concurrent=2, use_early_stopped_trials=True
        )
    )
if installed("ax"):
    from ray.tune.suggest.ax import AxSearch

    made.append(
        AxSearch(metric="score", mode="max", max_concurrent=2, use_early_stopped_trials=True)
    )
if installed("nevergrad"):
    import nevergrad
    from ray.tune.suggest.nevergrad import NevergradSearch

    one = nevergrad.optimizers.OnePlusOne
    NevergradSearch(one(2), ["height", "width"], metric="loss", mode="min")
    made.append(
        NevergradSearch(one, parameter_names=None, metric="score", mode="max", max_concurrent=2)
    )
if installed("skopt"):
    import skopt
    from ray.tune.suggest.skopt import SkOptSearch

    optimizer = skopt.Optimizer([(0.0, 1.0)])
    made.append(SkOptSearch(optimizer, parameter_names=["x"], use_early_stopped_trials=True))
print("Searchers:", all(each.metric in ("score", None) for each in made))

bandits = PB2("training_iteration", reward_attr="score", hyperparam_bounds={"x": [0, 1]})
print("Bandits:", bandits.metric)
print("Variants:", BasicVariantGenerator(shuffle=False).total_samples)
print("Bounds:", tune.loguniform(min_bound=1e-4, max_bound=1e-1).lower)
read = ExperimentAnalysis(os.path.join(RESULTS, "upwards"), sync_config=None)
print("Read:", len(read.trials))


class Steps(Trainable):
    def __init__(
        self, config=None, logger_creator=None, remote_checkpoint_dir=None, sync_function_tpl=None
    ):
        super().__init__(
            config,
            logger_creator=logger_creator,
            remote_checkpoint_dir=remote_checkpoint_dir,
            sync_function_tpl=sync_function_tpl,
        )

    def step(self):
        return {"score": 1}

    def save_checkpoint(self, folder):
        return {"saved": True}

    def load_checkpoint(self, state):
        pass


print("Steps:", Steps().train()["score"], validate_save_restore(Steps, use_object_store=True))
wrapped = wrap_function(lambda config: None, warn=False, durable=False)
print("Wrapped:", issubclass(wrapped, Trainable))

# Data and Train.

with open("lines.txt", "w") as file:
    file.write("one\ntwo\n")
lines = ray.data.read_text("lines.txt", errors="strict", meta_provider=None)
print("Lines:", lines.count())
print("Bytes:", ray.data.read_binary_files("lines.txt", meta_provider=None).count())
for name in ("read_images", "read_tfrecords", "read_webdataset", "read_avro"):
    try:
        getattr(ray.data, name)(
            "none", meta_provider=None, **({"tfx_read_options": 1} if "tf" in name else {})
        )
    except (FileNotFoundError, NotImplementedError, ImportError) as error:
        print(name + ":", type(error).__name__)
total = AggregateFn(
    init=lambda key: 0,
    accumulate=lambda a, row: a + row["id"],
    merge=lambda a, b: a + b,
    name="total",
)
print("Total:", ray.data.range_table(4).rename_columns({"value": "id"}).aggregate(total)["total"])


def loop(config):
    from ray import train

    for batch in train.get_dataset_shard("train").iter_batches(batch_format="numpy"):
        train.report(mean=float(np.mean(batch["x"])), most=float(np.max(batch["x"])))


frames = ray.data.from_items([{"x": 0.0}, {"x": 2.0}])
options = {
    "scaling_config": {"num_workers": 1},
    "datasets": {"train": frames},
    "preprocessor": StandardScaler(columns=["x"], ddof=0),
}
result = DataParallelTrainer(loop, train_loop_config={}, **options).fit()
print("Scaled:", result.metrics["mean"], result.metrics["most"])
scaled = TorchTrainer(loop, **options).datasets["train"].take_all()
print("Torch:", [row["x"] for row in scaled])
print("Made:", TensorflowTrainer(loop, preprocessor=None).datasets)
print(
    "Folder:",
    Checkpoint(local_path=RESULTS).path == RESULTS,
    Checkpoint(uri=f"file://{RESULTS}").path == RESULTS,
)
for kind in ("data_dict", "obj_ref", "storage", "value"):
    try:
        Checkpoint(**{kind: 1})
    except NotImplementedError as error:
        print("Refused:", "from_directory" in str(error))
