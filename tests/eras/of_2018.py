"""In the style of Ray 0.2 to 0.8: reporters, ``run_experiments``, ``_train`` and ``_save``, tracks."""

import os

import ray
import ray.worker
from ray import tune
from ray.experimental.queue import Queue
from ray.services import get_node_ip_address
from ray.tune import Analysis, Experiment, run_experiments, track
from ray.tune.automl import ContinuousSpace, DiscreteSpace, GeneticSearch, SearchSpace
from ray.tune.logger import Logger, pretty_print
from ray.tune.result import DEFAULT_LOGGERS
from ray.tune.schedulers import (
    AsyncHyperBandScheduler,
    HyperBandScheduler,
    MedianStoppingRule,
    PopulationBasedTraining,
)
from ray.tune.util import get_pinned_object, pin_in_object_store

RESULTS = os.path.abspath("results")


# Core.


@ray.remote(num_return_vals=2)
def halves(values):
    middle = len(values) // 2
    return values[:middle], values[middle:]


def core():
    first, second = halves.remote([1, 2, 3, 4])
    queue = Queue()
    queue.put(ray.get(second))
    print("By the worker:", ray.worker.get(ray.worker.put(3)))
    print("Halves:", ray.get(first), queue.get())
    print("Address is text:", isinstance(get_node_ip_address(), str))


# Tune.


def by_reporter(config, reporter):
    for step in range(1, 6):
        reporter(timesteps_total=step, mean_accuracy=config["height"] * step / 10)


def by_track(config):
    track.init()
    for step in range(3):
        track.log(mean_loss=1 / (step + config["speed"]))
    track.shutdown()


class Countdown(tune.Trainable):
    def _setup(self, config):
        self.left = config["start"]

    def _train(self):
        self.left -= 1
        return {"left": self.left, "done": self.left == 0}

    def _save(self, checkpoint_dir):
        path = os.path.join(checkpoint_dir, "left")
        with open(path, "w") as file:
            file.write(str(self.left))
        return path

    def _restore(self, checkpoint):
        with open(checkpoint) as file:
            self.left = int(file.read())

    def _stop(self):
        self.left = None


class LinesLogger(Logger):
    def _init(self):
        self.path = os.path.join(self.logdir, "lines.txt")

    def on_result(self, result):
        with open(self.path, "a") as file:
            file.write(f"{result['training_iteration']}\n")


def experiments():
    tune.register_trainable("by_reporter", by_reporter)
    trials = run_experiments(
        {
            "reporters": {
                "run": "by_reporter",
                "stop": {"mean_accuracy": 0.4},
                "config": {"height": tune.grid_search([0.5, 1.0])},
                "trial_resources": {"cpu": 1, "gpu": 0},
                "repeat": 1,
                "local_dir": RESULTS,
            }
        },
        scheduler=AsyncHyperBandScheduler(
            time_attr="timesteps_total", reward_attr="mean_accuracy", grace_period=5
        ),
        with_server=False,
        server_port=4321,
        queue_trials=True,
        trial_executor=None,
        verbose=0,
    )
    print("Accuracies:", sorted(round(t.last_result["mean_accuracy"], 2) for t in trials))
    analysis = tune.ExperimentAnalysis(os.path.join(RESULTS, "reporters"))
    print("Most accurate:", analysis.get_best_config(metric="mean_accuracy"))
    print("Printed:", "mean_accuracy" in pretty_print(trials[0].last_result))


def one_call():
    analysis = tune.run(
        Countdown,
        name="countdown",
        config={"start": tune.sample_from(lambda spec: 3)},
        trial_resources={"cpu": 1},
        repeat=2,
        upload_dir=RESULTS,
        sync_to_cloud=False,
        sync_to_driver=False,
        sync_on_checkpoint=False,
        sync_function=None,
        checkpoint_freq=1,
        checkpoint_at_end=True,
        keep_checkpoints_num=1,
        checkpoint_score_attr="training_iteration",
        global_checkpoint_period=10,
        loggers=[*DEFAULT_LOGGERS, LinesLogger],
        with_server=False,
        server_port=4321,
        queue_trials=False,
        trial_executor=None,
        run_errored_only=False,
        return_trials=False,
        ray_auto_init=False,
        verbose=0,
    )
    trial = analysis.trials[0]
    with open(os.path.join(trial.logdir, "lines.txt")) as file:
        print("Logged:", file.read().split())
    print("Left:", [trial.last_result["left"] for trial in analysis.trials])
    print("Trials:", analysis.stats()["num_trials"], len(analysis.fetch_trial_dataframes()))
    print("Checkpoints:", len(analysis.get_trial_checkpoints_paths(trial)))
    old = Analysis(os.path.join(RESULTS, "countdown"))
    print("Best:", old.get_best_config("left", "min"))


def tracked():
    experiment = Experiment(
        "tracked",
        by_track,
        config={"speed": 1},
        repeat=1,
        trial_resources={"cpu": 1},
        upload_dir=RESULTS,
        sync_function=None,
        sync_to_cloud=None,
        sync_to_driver=None,
        sync_on_checkpoint=True,
        checkpoint_freq=0,
        checkpoint_at_end=False,
        keep_checkpoints_num=None,
        checkpoint_score_attr="min-mean_loss",
    )
    (trial,) = run_experiments(experiment, search_alg=None, verbose=0)
    print("Tracked:", round(trial.last_result["mean_loss"], 3))


def genetic():
    space = SearchSpace({ContinuousSpace("x", 0, 4, 9), DiscreteSpace("y", [0, 1])})
    algorithm = GeneticSearch(space, reward_attr="reward", max_generation=2, population_size=3)

    def score(config, reporter):
        reporter(reward=-abs(config["x"] - 2) - config["y"])

    analysis = tune.run(score, search_alg=algorithm, num_samples=20, local_dir=RESULTS, verbose=0)
    print("Generations end:", 3 < len(analysis.trials) <= 6)


def by_position():
    ready, rest = ray.wait([ray.put(1), ray.put(2)], 1, 60)
    print("By position:", len(ready), len(rest), ray.get(ready[0], 60))
    try:
        ray.wait([ray.put(1)], 1, 60, True)
    except TypeError as error:
        print("Too many:", "num_returns, timeout" in str(error))
    ray.cancel(ready[0], False)
    ready, _ = ray.wait(object_ids=[ray.put(3)])
    print("By old names:", ray.get(object_ids=ready), len(ray.wait(object_refs=ready)[0]))
    ray.cancel(object_id=ready[0])
    ray.cancel(object_ref=ready[0])
    ray.kill(Held.remote(), True)


@ray.remote
class Held:
    pass


def schedulers():
    HyperBandScheduler(time_attr="training_iteration", reward_attr="mean_accuracy")
    MedianStoppingRule(reward_attr="mean_accuracy", verbose=False)
    PopulationBasedTraining(
        reward_attr="mean_accuracy",
        hyperparam_mutations={"lr": lambda: 0.1, "momentum": [0.8, 0.9]},
    )
    print("Pinned:", get_pinned_object(pin_in_object_store([1, 2])))


if __name__ == "__main__":
    ray.init(num_cpus=2, redis_max_memory=10**8, include_webui=False)
    core()
    experiments()
    one_call()
    tracked()
    genetic()
    by_position()
    schedulers()
