"""Search that continues after its driver was killed.

    python tutorials/restored_search.py FOLDER [--kill]

With ``--kill`` the second trial kills the driver in the middle of its training.
Run the program again without it: the first trial stays as it was, the second
one continues from its checkpoint.
"""

import argparse
import os
import signal
import tempfile

import raycompat as ray
from raycompat import tune

NUM_STEPS = 4


def descend(config):
    """Walk towards 3, and save the place after each step."""
    first, x = 0, 0.0
    checkpoint = tune.get_checkpoint()
    if checkpoint is not None:
        with (
            checkpoint.as_directory() as folder,
            open(os.path.join(folder, "x")) as file,
        ):
            first, x = checkpoint.get_metadata()["step"], float(file.read())
    for step in range(first + 1, NUM_STEPS + 1):
        x -= config["rate"] * 2 * (x - 3)
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "x"), "w") as file:
                file.write(str(x))
            checkpoint = tune.Checkpoint.from_directory(folder)
            checkpoint.set_metadata({"step": step})
            tune.report(
                {"loss": (x - 3) ** 2, "first": first + 1},
                checkpoint=checkpoint,
            )
        if config["rate"] == 0.2 and step == 3 and "KILL" in os.environ:
            os.kill(int(os.environ["KILL"]), signal.SIGKILL)


def main():
    """Begin the search, or continue it if the folder has one."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--kill", action="store_true")
    options = parser.parse_args()
    if options.kill:
        os.environ["KILL"] = str(os.getpid())  # the trials inherit it
    ray.init(num_cpus=1, include_dashboard=False)
    path = os.path.join(options.folder, "descent")
    if tune.Tuner.can_restore(path):
        tuner = tune.Tuner.restore(path, descend)
        print("trials that had ended:", tuner.get_results().num_terminated)
    else:
        tuner = tune.Tuner(
            descend,
            param_space={"rate": tune.grid_search([0.1, 0.2, 0.3])},
            tune_config=tune.TuneConfig(metric="loss", mode="min"),
            run_config=tune.RunConfig(
                name="descent", storage_path=options.folder, verbose=0
            ),
        )
    for result in tuner.fit():
        metrics = result.metrics
        print(
            "rate",
            result.config["rate"],
            "- began at step",
            metrics["first"],
            end=", ",
        )
        print("ended at step", metrics["training_iteration"])
    ray.shutdown()


if __name__ == "__main__":
    main()
