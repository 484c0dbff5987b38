"""Runs whose workers stop, whose node is lost, whose driver is killed, and whose disk is full."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

import raycompat as ray
from raycompat import train
from raycompat.cluster_utils import Cluster
from raycompat.train.data_parallel_trainer import DataParallelTrainer

pytestmark = pytest.mark.timeout(180)


def steps(config):
    """Save each step; on the first try, fail at a step in the way that the test asks for."""
    import tempfile

    rank, first = train.get_context().get_world_rank(), 0
    if train.get_checkpoint() is not None:
        with train.get_checkpoint().as_directory() as found:
            first = json.loads((Path(found) / "step").read_text()) + 1
    for step in range(first, 4):
        with tempfile.TemporaryDirectory() as folder:
            if rank == 0:
                (Path(folder) / "step").write_text(json.dumps(step))
            checkpoint = train.Checkpoint.from_directory(folder)
            train.report({"step": step, "first": first}, checkpoint=checkpoint)
        if step == 1 and first == 0:
            if rank == 1 and config["how"] == "stop":
                os.kill(os.getpid(), signal.SIGSTOP)
            if config["how"] == "node":
                Path(config["ready"], str(rank)).touch()
                while True:  # until the other rank's node has gone, and this process with the run
                    time.sleep(0.05)


def trainer_of(folder, config, **scaling):
    return DataParallelTrainer(
        steps,
        train_loop_config=config,
        scaling_config=train.ScalingConfig(num_workers=2, **scaling),
        run_config=train.RunConfig(
            name="run",
            storage_path=str(folder / "runs"),
            failure_config=train.FailureConfig(max_failures=1),
        ),
    )


class Failures(train.UserCallback):
    """Keep what failed, by try."""

    def __init__(self):
        self.found = []

    def after_exception(self, run_context, worker_exceptions):
        self.found.append(worker_exceptions)


def test_a_stopped_worker_is_found_and_the_run_goes_on(cluster, tmp_path):
    trainer = trainer_of(tmp_path, {"how": "stop"})
    failures = Failures()
    trainer.run_config.callbacks.append(failures)
    result = trainer.fit()
    assert (result.metrics["step"], result.metrics["first"]) == (3, 2)
    (failed,) = failures.found
    assert list(failed) == [1]
    assert "SIGSTOP" in str(failed[1])


FULL_DISK = """
import os, sys, tempfile
import raycompat as ray
from raycompat import train
from raycompat.train.data_parallel_trainer import DataParallelTrainer

def grow():
    for step in range(5):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "weights"), "wb") as file:
                file.write(bytes([step]) * 700_000)
            train.report({"step": step}, checkpoint=train.Checkpoint.from_directory(folder))

with ray.init(num_cpus=1, include_dashboard=False, configure_logging=False, log_to_driver=False):
    trainer = DataParallelTrainer(
        grow, run_config=train.RunConfig(name="run", storage_path=sys.argv[1], verbose=0)
    )
    try:
        trainer.fit()
    except train.TrainingFailedError as error:
        assert "No space left" in str(error), error
    else:
        raise AssertionError("there was room for all")
result = train.Result.from_path(os.path.join(sys.argv[1], "run"))
content = open(os.path.join(result.checkpoint.path, "weights"), "rb").read()
print(result.metrics["step"], content == bytes([result.metrics["step"]]) * 700_000)
"""


@pytest.mark.skipif(
    subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode != 0,
    reason="mounting a small disk needs root",
)
def test_a_full_disk_leaves_the_last_whole_checkpoint(no_cluster, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(FULL_DISK)
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = 'mount -t tmpfs -o size=3m tmpfs "$1" && exec "$2" "$3" "$1"'
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", mount, "sh", disk, sys.executable, program],
        capture_output=True,
        text=True,
        timeout=150,
    )
    assert done.returncode == 0, done.stderr
    step, is_whole = done.stdout.split()
    assert int(step) >= 1
    assert is_whole == "True"


KILLED_DRIVER = """
import os, sys, threading
import raycompat as ray
from raycompat import train
from raycompat.train.data_parallel_trainer import DataParallelTrainer

def wait():
    rank = train.get_context().get_world_rank()
    with open(os.path.join(sys.argv[1], f"{rank}.part"), "w") as file:
        file.write(str(os.getpid()))
    os.rename(file.name, file.name.removesuffix(".part"))
    threading.Event().wait()

ray.init(num_cpus=2, include_dashboard=False, configure_logging=False)
DataParallelTrainer(
    wait,
    scaling_config=train.ScalingConfig(num_workers=2),
    run_config=train.RunConfig(storage_path=os.path.join(sys.argv[1], "runs")),
).fit()
"""


def test_a_killed_driver_leaves_no_worker(no_cluster, tmp_path, wait_until):
    program = tmp_path / "program.py"
    program.write_text(KILLED_DRIVER.replace("sys.argv[1]", repr(str(tmp_path))))
    driver = subprocess.Popen([sys.executable, program])
    files = [tmp_path / "0", tmp_path / "1"]
    try:
        wait_until(lambda: all(file.exists() for file in files), 120)
        family = psutil.Process(driver.pid).children(recursive=True)
        workers = [psutil.Process(int(file.read_text())) for file in files]
        assert set(workers) <= set(family)
    finally:
        driver.kill()
        driver.wait()
    _, alive = psutil.wait_procs(family, timeout=60)
    assert alive == []


def test_a_lost_node_is_replaced_by_what_is_left(no_cluster, tmp_path, wait_until):
    import threading

    nodes = Cluster(initialize_head=True, head_node_args={"num_cpus": 2})
    second = nodes.add_node(num_cpus=1)
    ray.init(address=nodes.address, configure_logging=False, log_to_driver=False)
    try:
        trainer = trainer_of(
            tmp_path, {"how": "node", "ready": str(tmp_path)}, placement_strategy="SPREAD"
        )
        files = [tmp_path / "0", tmp_path / "1"]

        def lose():
            wait_until(lambda: all(file.exists() for file in files), 120)
            nodes.remove_node(second)

        thread = threading.Thread(target=lose)
        thread.start()
        result = trainer.fit()
        thread.join()
        assert (result.metrics["step"], result.metrics["first"]) == (3, 2)
    finally:
        ray.shutdown()
        nodes.shutdown()
        shutil.rmtree(tmp_path / "runs", ignore_errors=True)
