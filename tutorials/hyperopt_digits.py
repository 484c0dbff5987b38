"""Search for the hyperparameters of a small network that reads digits: by hand,
and with Tune.

Run it with ``python tutorials/hyperopt_digits.py``. It takes less than a minute
on two cores.

A network learns to read 1,797 handwritten digits (8 by 8 pixels, from
scikit-learn). How well it does depends on numbers that training does not learn:
the learning rate, the size of minibatches, the number of hidden units and the
dropout. This program draws such *hyperparameters* at random, trains a network
with each draw, and keeps the best. It does so in two ways.

* ``--search loop`` needs only the core of Ray, in the form that its guides had
  in 2018: a remote function trains a network and returns its accuracy; the
  driver starts one call for each process, and a new one whenever ``ray.wait``
  says that a call is ready. Every network trains to the end.
* ``--search tune`` gives the same function to Tune. The network reports its
  accuracy after each epoch, so the scheduler ASHA can stop those that do badly
  early: after 1 epoch it continues the best third, after 3 epochs the best
  third of these. The same time serves more draws.

The networks see four fifths of the digits. Their accuracy is measured on the
rest, which they have never seen.
"""

import argparse
import os
import sys
import tempfile
import time

# Tasks and trials inherit these from the driver. They only silence TensorFlow's
# greetings.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import raycompat as ray
from raycompat import tune
from raycompat.tune.schedulers import ASHAScheduler

#: Accuracy that the best network must reach on digits that it has never seen,
#: as a fraction.
REQUIRED_ACCURACY = 0.9
#: ASHA continues one in so many networks.
REDUCTION = 3


def load_data():
    """Return images and labels to learn from, and images and labels to be
    examined with.

    Images are float32 of shape (n, 64), each pixel from 0 (paper) to 1 (ink);
    labels are 0 to 9.
    """
    images, labels = load_digits(return_X_y=True)
    images = (images / 16).astype(np.float32)
    train_x, test_x, train_y, test_y = train_test_split(
        images, labels, test_size=0.2, random_state=0, stratify=labels
    )
    return train_x, train_y, test_x, test_y


def draw(rng):
    """Return hyperparameters, drawn at random."""
    return {
        "learning_rate": float(10 ** rng.uniform(-4, -1)),
        "batch_size": int(rng.choice([32, 64, 128])),
        "hidden_units": int(rng.choice([16, 32, 64])),
        "dropout": float(rng.uniform(0, 0.6)),
    }


def search_space():
    """Return the same distributions for Tune, which draws from them."""
    return {
        "learning_rate": tune.loguniform(1e-4, 1e-1),
        "batch_size": tune.choice([32, 64, 128]),
        "hidden_units": tune.choice([16, 32, 64]),
        "dropout": tune.uniform(0, 0.6),
    }


def accuracies(config, data, num_epochs):
    """Train a network, and yield its accuracy on unseen digits after each
    epoch.
    """
    import keras
    import tensorflow as tf

    if tf.config.threading.get_inter_op_parallelism_threads() != 1:
        # As many networks as cores train at a time, so each computes in one
        # thread.
        tf.config.threading.set_intra_op_parallelism_threads(1)
        tf.config.threading.set_inter_op_parallelism_threads(1)
    keras.utils.set_random_seed(0)
    train_x, train_y, test_x, test_y = data
    model = keras.Sequential(
        [
            keras.layers.Input(shape=(64,)),
            keras.layers.Dense(config["hidden_units"], activation="relu"),
            keras.layers.Dropout(config["dropout"]),
            keras.layers.Dense(10),
        ]
    )
    model.compile(
        optimizer=keras.optimizers.Adam(config["learning_rate"]),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    for _ in range(num_epochs):
        model.fit(train_x, train_y, batch_size=config["batch_size"], verbose=0)
        scores = model.predict_on_batch(test_x)
        yield float(np.mean(np.argmax(scores, axis=1) == test_y))


# --- by hand ------------------------------------------------------------------


@ray.remote
def evaluate(config, data, num_epochs):
    """Train a network to the end, and return its accuracy."""
    *_, last = accuracies(config, data, num_epochs)
    return last


def search_by_hand(data, num_draws, num_epochs, num_at_a_time, seed):
    """Evaluate random draws, some at a time; return the best one and its
    accuracy.
    """
    rng = np.random.default_rng(seed)
    configs = [draw(rng) for _ in range(num_draws)]
    # The digits are stored once, however many calls read them.
    data_ref = ray.put(data)
    best, best_accuracy = configs[0], 0.0
    running = {}
    while configs or running:
        while configs and len(running) < num_at_a_time:
            config = configs.pop()
            running[evaluate.remote(config, data_ref, num_epochs)] = config
        (ready,), _ = ray.wait(list(running))
        config, accuracy = running.pop(ready), ray.get(ready)
        print(f"  accuracy {accuracy:6.1%}   {as_text(config)}", flush=True)
        if accuracy > best_accuracy:
            best, best_accuracy = config, accuracy
    return best, best_accuracy


# --- with Tune ----------------------------------------------------------------


def train_digits(config, data, num_epochs):
    """Train a network as a trial: report its accuracy after each epoch."""
    for accuracy in accuracies(config, data, num_epochs):
        tune.report({"mean_accuracy": accuracy})


def search_with_tune(data, num_draws, num_epochs, num_at_a_time, seed):
    """Let Tune draw and ASHA stop; return the best hyperparameters and their
    accuracy.
    """
    with tempfile.TemporaryDirectory() as folder:
        tuner = tune.Tuner(
            tune.with_parameters(
                train_digits, data=data, num_epochs=num_epochs
            ),
            param_space=search_space(),
            tune_config=tune.TuneConfig(
                metric="mean_accuracy",
                mode="max",
                num_samples=num_draws,
                max_concurrent_trials=num_at_a_time,
                search_alg=tune.search.BasicVariantGenerator(random_state=seed),
                scheduler=ASHAScheduler(
                    max_t=num_epochs, grace_period=1, reduction_factor=REDUCTION
                ),
            ),
            run_config=tune.RunConfig(storage_path=folder, verbose=0),
        )
        grid = tuner.fit()
        if grid.num_errors:
            raise grid.errors[0]
        for result in grid:
            epochs = result.metrics["training_iteration"]
            accuracy = result.metrics["mean_accuracy"]
            print(
                f"  accuracy {accuracy:6.1%} after {epochs} epochs   "
                f"{as_text(result.config)}",
                flush=True,
            )
        best = grid.get_best_result(scope="last")
        return best.config, best.metrics["mean_accuracy"]


# --- the program --------------------------------------------------------------


def as_text(config):
    """Return hyperparameters as a line."""
    return "   ".join(
        f"{name} {value:.2g}"
        if isinstance(value, float)
        else f"{name} {value:3}"
        for name, value in config.items()
    )


def main(arguments=None):
    """Read the command line, search, and return the exit status: 0 if a network
    reads well.
    """
    parser = argparse.ArgumentParser(
        description="Search for the hyperparameters of a network."
    )
    parser.add_argument(
        "--search", default="both", choices=("loop", "tune", "both")
    )
    parser.add_argument(
        "--draws", type=int, default=6, help="networks that each search trains"
    )
    parser.add_argument(
        "--epochs", type=int, default=9, help="epochs of a network at most"
    )
    parser.add_argument(
        "--at-a-time", type=int, default=2, help="networks that train at a time"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the draws")
    options = parser.parse_args(arguments)
    for name in ("draws", "epochs", "at_a_time"):
        if getattr(options, name) < 1:
            option = name.replace("_", "-")
            parser.error(
                f"--{option} is {getattr(options, name)}; expected at least 1"
            )

    searches = {"loop": search_by_hand, "tune": search_with_tune}
    chosen = list(searches) if options.search == "both" else [options.search]
    data, found = load_data(), {}
    ray.init(num_cpus=options.at_a_time)
    try:
        for name in chosen:
            print(f"{options.draws} networks, search: {name}", flush=True)
            started = time.perf_counter()
            best, found[name] = searches[name](
                data,
                options.draws,
                options.epochs,
                options.at_a_time,
                options.seed,
            )
            seconds = time.perf_counter() - started
            print(
                f"The best: accuracy {found[name]:.1%}   {as_text(best)}   "
                f"({seconds:.1f} s)"
            )
    finally:
        ray.shutdown()
    bad = [
        name for name, accuracy in found.items() if accuracy < REQUIRED_ACCURACY
    ]
    if bad:
        print(
            f"Less than the expected {REQUIRED_ACCURACY:.0%}: {bad}",
            file=sys.stderr,
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
