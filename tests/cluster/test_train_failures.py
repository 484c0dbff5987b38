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
from _small_disk import output_of
from fsspec.implementations.dirfs import DirFileSystem
from fsspec.implementations.local import LocalFileSystem

import raycompat as ray
from raycompat import train
from raycompat._launch.process import those_left
from raycompat.cluster_utils import Cluster
from raycompat.train import collective
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


def test_ranks_that_wait_for_each_other_in_different_calls_are_told(cluster, tmp_path):
    def loop():
        context = train.get_context()
        assert context.get_dataset_shard("numbers") == [context.get_world_rank()]
        if context.get_world_rank() == 0:
            collective.barrier()
        else:
            train.report({"step": 0})

    trainer = DataParallelTrainer(
        loop,
        datasets={"numbers": [0, 1]},
        scaling_config=train.ScalingConfig(num_workers=2),
        run_config=train.RunConfig(name="run", storage_path=str(tmp_path)),
    )
    with pytest.raises(train.WorkerGroupError) as caught:
        trainer.fit()
    assert list(caught.value.worker_failures) == [0]
    assert "rank 1 waits in train.report()" in str(caught.value)


def test_a_stopped_worker_is_found_and_the_run_goes_on(cluster, tmp_path):
    trainer = trainer_of(tmp_path, {"how": "stop"})
    failures = Failures()
    trainer.run_config.callbacks.append(failures)
    result = trainer.fit()
    assert (result.metrics["step"], result.metrics["first"]) == (3, 2)
    (failed,) = failures.found
    assert list(failed) == [1]
    assert "SIGSTOP" in str(failed[1])


def save_and_die_while_copying(config):
    """Save each step; on the first try, the kernel kills the process in the middle of a large file."""
    import ctypes
    import resource
    import tempfile

    first = 0
    if train.get_checkpoint() is not None:
        with train.get_checkpoint().as_directory() as found:
            first = 1 + int((Path(found) / "step").read_text())
    for step in range(first, 4):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "step").write_text(str(step))
            (Path(folder) / "weights").write_bytes(bytes([step]) * 2_000_000)
            if step == 2 and first == 0:
                (Path(folder) / "of_the_first_try").touch()
                # Python ignores this signal, and only its main thread may change that.
                ctypes.CDLL(None).signal(int(signal.SIGXFSZ), ctypes.c_void_p(signal.SIG_DFL))
                resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
                resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))
            checkpoint = train.Checkpoint.from_directory(folder)
            train.report({"step": step, "first": first}, checkpoint=checkpoint)


def step_of_whole(checkpoint):
    """Return the step of a checkpoint, all of whose files must be there, and no others."""
    with checkpoint.as_directory() as folder:
        files = {file.name: file.read_bytes() for file in Path(folder).iterdir()}
    step = int(files["step"])
    assert files == {"step": str(step).encode(), "weights": bytes([step]) * 2_000_000}
    return step


@pytest.mark.parametrize("has_renames", [True, False], ids=["local disk", "other file system"])
def test_a_checkpoint_that_is_cut_short_is_never_the_latest(cluster, tmp_path, has_renames):
    storage = {"storage_path": str(tmp_path)}
    if not has_renames:
        local = LocalFileSystem(auto_mkdir=True)
        storage = {
            "storage_path": "runs",
            "storage_filesystem": DirFileSystem(path=str(tmp_path), fs=local),
        }
    latest = []

    class Look(train.UserCallback):
        def after_exception(self, run_context, worker_exceptions):
            result = train.Result.from_path(
                os.path.join(storage["storage_path"], "run"),
                storage.get("storage_filesystem"),
            )
            latest.append(step_of_whole(result.checkpoint))
            assert list(worker_exceptions) == [0]
            assert "SIGXFSZ" in str(worker_exceptions[0])

    result = DataParallelTrainer(
        save_and_die_while_copying,
        train_loop_config={},
        run_config=train.RunConfig(
            name="run",
            failure_config=train.FailureConfig(max_failures=1),
            callbacks=[Look()],
            **storage,
        ),
    ).fit()
    assert latest == [1]
    assert (result.metrics["step"], result.metrics["first"]) == (3, 2)
    kept = [step_of_whole(checkpoint) for checkpoint, _ in result.best_checkpoints]
    assert sorted(kept) == [0, 1, 2, 3]
    assert step_of_whole(result.checkpoint) == 3


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
    step, is_whole = output_of(FULL_DISK, tmp_path, "3m").split()
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
    assert not those_left(family, 60)


class Changes(train.UserCallback):
    """Change the cluster at the first report of a run with other workers; then let it end."""

    def __init__(self, changes):
        self.changes = changes
        self.worlds = []
        self.firsts = []

    def __reduce__(self):  # the run's folder gets one, to restore it
        return (Changes, ([],))

    def after_report(self, run_context, metrics, checkpoint):
        world = metrics[0]["world"]
        assert len(metrics) == world
        if not self.worlds or world != self.worlds[-1]:
            self.worlds.append(world)
            self.firsts.append((metrics[0]["first"], metrics[0]["step"]))
            self.changes[len(self.worlds) - 1]()


def test_an_elastic_run_takes_the_workers_that_there_is_room_for(no_cluster, tmp_path, monkeypatch):
    from raycompat.train import _reservation

    monkeypatch.setattr(_reservation, "INFEASIBLE_S", 0.5)

    def loop(config):
        import itertools
        import tempfile
        import time

        context, first = train.get_context(), 0
        if train.get_checkpoint() is not None:
            with train.get_checkpoint().as_directory() as found:
                first = json.loads((Path(found) / "step").read_text()) + 1
        for step in itertools.count(first):
            if collective.broadcast_from_rank_zero(Path(config["end"]).exists()):
                return
            with tempfile.TemporaryDirectory() as folder:
                (Path(folder) / "step").write_text(json.dumps(step))
                checkpoint = train.Checkpoint.from_directory(folder)
                report = {"step": step, "first": first, "world": context.get_world_size()}
                has_checkpoint = context.get_world_rank() == 0
                train.report(report, checkpoint=checkpoint if has_checkpoint else None)
            time.sleep(0.05)  # the pace of the steps

    @ray.remote
    class Other:
        def ready(self):
            return None

    nodes = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    second = nodes.add_node(num_cpus=2)
    ray.init(address=nodes.address, configure_logging=False, log_to_driver=False)
    try:
        other = Other.options(num_cpus=1).remote()
        ray.get(other.ready.remote())
        end = tmp_path / "end"
        changes = Changes(
            [
                lambda: ray.kill(other),
                lambda: nodes.remove_node(second),
                lambda: nodes.add_node(num_cpus=1),
                end.touch,
            ]
        )
        result = DataParallelTrainer(
            loop,
            train_loop_config={"end": str(end)},
            scaling_config=train.ScalingConfig(
                num_workers=(1, 3), elastic_resize_monitor_interval_s=0.1
            ),
            run_config=train.RunConfig(
                name="run",
                storage_path=str(tmp_path / "runs"),
                failure_config=train.FailureConfig(max_failures=1),
                checkpoint_config=train.CheckpointConfig(num_to_keep=2),
                callbacks=[changes],
            ),
        ).fit()
        assert changes.worlds == [2, 3, 1, 2]
        assert [first for first, _ in changes.firsts] == [step for _, step in changes.firsts]
        firsts = [first for first, _ in changes.firsts]
        assert firsts == sorted(set(firsts))
        assert result.error is None
        groups = ray.util.placement_group_table().values()
        assert {group["state"] for group in groups} <= {"REMOVED"}
    finally:
        ray.shutdown()
        nodes.shutdown()
        shutil.rmtree(tmp_path / "runs", ignore_errors=True)


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
