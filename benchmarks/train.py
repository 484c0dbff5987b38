"""Seconds that runs of Train take, beside real Ray in one run.

python benchmarks/train.py --vs ray --ray-python .venv-ray/bin/python
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
import tempfile
import time

#: What is measured: a run of five epochs, one that raises, and one that loses a worker and resumes.
CASES = ("fit", "failing run", "worker lost")


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


def measure(impl: str, cases: list[str]) -> dict[str, float]:
    """Return the seconds of each case."""
    # Ray sets it too late; raycompat does not need it.
    os.environ["TF_USE_LEGACY_KERAS"] = "1"
    ray = importlib.import_module(impl)
    train = importlib.import_module(f"{impl}.train")
    trainer = importlib.import_module(f"{impl}.train.tensorflow").TensorflowTrainer
    seconds = {}
    for case in cases:
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
        seconds[case] = time.perf_counter() - begin
        ray.shutdown()
    return seconds


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--impl", choices=("raycompat", "ray"), default="raycompat")
    parser.add_argument("--vs", choices=("ray",), help="run both in turn, and print the ratio")
    parser.add_argument("--ray-python", default=sys.executable, help="Python that has Ray")
    parser.add_argument("--case", choices=CASES, action="append", help="by default all")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    cases = options.case or list(CASES)
    if options.vs is None:
        seconds = measure(options.impl, cases)
        print(json.dumps(seconds) if options.json else seconds)
        return
    found = {}
    for impl, python in (("raycompat", sys.executable), ("ray", options.ray_python)):
        command = [python, __file__, "--impl", impl, "--json"]
        command += [word for case in cases for word in ("--case", case)]
        output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
        found[impl] = json.loads(output.strip().splitlines()[-1])
    for case in cases:
        ours, theirs = found["raycompat"][case], found["ray"][case]
        print(f"{case:12} {ours:7.1f} s   Ray {theirs:7.1f} s   {theirs / ours:5.1f} times as fast")


if __name__ == "__main__":
    main()
