"""Seconds that runs of Train take, beside real Ray in one run.

python benchmarks/train.py --vs ray --ray-python .venv-ray/bin/python

TensorFlow must not be imported from source files each time: compile the packages of both environments
first (``python -m compileall -q SITE-PACKAGES``).
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


def measure(case: str, impl: str) -> dict[str, float]:
    """Return the seconds of a case, from `fit` to its end."""
    # Ray sets it too late; raycompat does not need it.
    os.environ["TF_USE_LEGACY_KERAS"] = "1"
    ray = importlib.import_module(impl)
    train = importlib.import_module(f"{impl}.train")
    trainer = importlib.import_module(f"{impl}.train.tensorflow").TensorflowTrainer
    ray.init(num_cpus=3, include_dashboard=False, log_to_driver=False)
    begin = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        run = trainer(
            training_function(impl),
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
    return {CASES[case]: seconds}


if __name__ == "__main__":
    beside_ray.main(__file__, __doc__, {case: functools.partial(measure, case) for case in CASES})
