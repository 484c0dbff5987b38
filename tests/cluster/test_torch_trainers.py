"""PyTorch by Train on several nodes, in several runs at a time, in trials, and beside TensorFlow."""

from __future__ import annotations

import importlib
import os
import threading
from importlib.util import find_spec
from pathlib import Path

import pytest

import raycompat as ray
from raycompat import train, tune
from raycompat.cluster_utils import Cluster
from raycompat.train.torch import TorchConfig, TorchTrainer

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.timeout(240),  # on a busy machine the workers need long to import PyTorch
    # Not importorskip: the workers need PyTorch, this process does not.
    pytest.mark.skipif(
        find_spec("torch") is None, reason="PyTorch is not installed: make setup-torch"
    ),
]


def total_of_ranks(config):
    """Add a number of each rank; return where the ranks are."""
    import torch
    import torch.distributed as dist

    total = torch.tensor([float(config["number"]) + dist.get_rank()])
    for _ in range(20):
        each = total.clone()
        dist.all_reduce(each)
    names = ["NODE_RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_PORT"]
    places = [None] * dist.get_world_size()
    dist.all_gather_object(places, {name: os.environ[name] for name in names})
    train.report({"total": each.item(), "port": os.environ["MASTER_PORT"]})
    return places


def trainer_of(folder, number=0, num_workers=2, **options):
    scaling = options.pop("scaling", {})
    return TorchTrainer(
        total_of_ranks,
        train_loop_config={"number": number},
        scaling_config=train.ScalingConfig(num_workers=num_workers, **scaling),
        run_config=train.RunConfig(name=f"run {number}", storage_path=str(folder)),
        **options,
    )


@pytest.fixture(scope="module")
def four_cpus():
    with ray.init(num_cpus=4, include_dashboard=False, configure_logging=False):
        yield


def test_two_runs_at_a_time(four_cpus, tmp_path):
    totals = {}

    def fit(number):
        totals[number] = trainer_of(tmp_path, number).fit().metrics["total"]

    threads = [threading.Thread(target=fit, args=(number,)) for number in (10, 20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert totals == {10: 21.0, 20: 41.0}


def test_a_trainer_in_trials(four_cpus, tmp_path):
    tuner = tune.Tuner(
        trainer_of(tmp_path / "unused"),
        param_space={"train_loop_config": {"number": tune.grid_search([1, 2])}},
        run_config=tune.RunConfig(storage_path=str(tmp_path), name="search"),
    )
    assert sorted(result.metrics["total"] for result in tuner.fit()) == [3.0, 5.0]


def test_a_trainer_is_restored(four_cpus, tmp_path):
    result = trainer_of(tmp_path, 3, torch_config=TorchConfig(timeout_s=77)).fit()
    restored = TorchTrainer.restore(result.path, train_loop_config={"number": 5})
    assert isinstance(restored, TorchTrainer)
    assert restored.backend_config == TorchConfig(timeout_s=77)
    assert restored.fit().metrics["total"] == 11.0


def kill_one(config):
    """Kill rank 1 as soon as rank 0 has raised what a lost connection makes it raise."""
    import torch
    import torch.distributed as dist

    if dist.get_rank() == 1:
        dist.barrier()
        os.kill(os.getpid(), 9)
    dist.barrier()
    dist.all_reduce(torch.ones(1))


def test_the_error_names_the_worker_that_died(four_cpus, tmp_path):
    trainer = TorchTrainer(
        kill_one,
        train_loop_config={},
        scaling_config=train.ScalingConfig(num_workers=3),
        run_config=train.RunConfig(storage_path=str(tmp_path)),
    )
    with pytest.raises(train.WorkerGroupError, match="SIGKILL") as caught:
        trainer.fit()
    assert 1 in caught.value.worker_failures


class KillOnce(TorchConfig):
    """Kills the process of rank 1 before it joins the group, in the first try."""

    @property
    def backend_cls(self):
        return KillingBackend


class KillingBackend(TorchConfig().backend_cls):
    killed = []

    def on_start(self, worker_group, backend_config):
        if not self.killed:
            self.killed.append(worker_group.workers[1].place.pid)
            os.kill(self.killed[0], 9)
        super().on_start(worker_group, backend_config)


def test_a_worker_that_dies_before_it_has_joined(four_cpus, tmp_path):
    """Rank 0 waits in PyTorch for the others, for half an hour."""
    assert trainer_of(tmp_path, 7, torch_config=KillOnce()).fit().metrics["total"] == 15.0
    assert len(KillingBackend.killed) == 1


def with_tensorflow(config):
    """Compute with both libraries in one process, the one that is named first being imported first."""
    for name in config["order"]:
        importlib.import_module(name)
    import tensorflow as tf
    import torch

    from raycompat.train.torch import prepare_model

    model = prepare_model(torch.nn.Linear(2, 1))
    model(torch.ones(4, 2)).sum().backward()
    with tf.GradientTape() as tape:
        x = tf.Variable(3.0)
        y = x * x
    return float(tape.gradient(y, x)), float(model.module.weight.grad.sum())


@pytest.mark.skipif(find_spec("tensorflow") is None, reason="TensorFlow is not installed")
@pytest.mark.parametrize("order", [["torch", "tensorflow"], ["tensorflow", "torch"]])
def test_with_tensorflow_in_one_process(four_cpus, tmp_path, order):
    result = TorchTrainer(
        with_tensorflow,
        train_loop_config={"order": order},
        scaling_config=train.ScalingConfig(num_workers=2),
        run_config=train.RunConfig(storage_path=str(tmp_path)),
    ).fit()
    assert result.return_value == (6.0, 8.0)


def learn_and_lose_a_node(config):
    """Report three epochs; on the first try, wait in an operation for a rank whose node is lost."""
    import tempfile

    import torch.distributed as dist

    first = 0
    if train.get_checkpoint() is not None:
        first = train.get_checkpoint().get_metadata()["epoch"] + 1
    for epoch in range(first, 3):
        if epoch == 1 and first == 0:
            Path(config["ready"], str(dist.get_rank())).touch()
            if ray.get_runtime_context().get_node_id() == config["lost"]:
                threading.Event().wait()  # until the process is killed
        dist.barrier()
        with tempfile.TemporaryDirectory() as folder:
            checkpoint = train.Checkpoint.from_directory(folder)
            checkpoint.set_metadata({"epoch": epoch})
            train.report({"epoch": epoch, "first": first}, checkpoint=checkpoint)


def test_two_nodes_and_the_loss_of_one(no_cluster, tmp_path, wait_until):
    nodes = Cluster(initialize_head=True, head_node_args={"num_cpus": 2})
    second = nodes.add_node(num_cpus=1)
    ray.init(address=nodes.address, configure_logging=False, log_to_driver=False)
    try:
        spread = {"placement_strategy": "SPREAD"}
        places = trainer_of(tmp_path, scaling=spread).fit().return_value
        assert [place["NODE_RANK"] for place in places] == ["0", "1"]
        assert [place["LOCAL_RANK"] for place in places] == ["0", "0"]
        assert [place["LOCAL_WORLD_SIZE"] for place in places] == ["1", "1"]
        assert len({place["MASTER_PORT"] for place in places}) == 1

        ready = tmp_path / "ready"
        ready.mkdir()
        trainer = TorchTrainer(
            learn_and_lose_a_node,
            train_loop_config={"ready": str(ready), "lost": second.node_id},
            scaling_config=train.ScalingConfig(num_workers=2, **spread),
            run_config=train.RunConfig(
                name="lost",
                storage_path=str(tmp_path),
                failure_config=train.FailureConfig(max_failures=1),
            ),
        )

        def lose():
            wait_until(lambda: len(list(ready.iterdir())) == 2, 120)
            nodes.remove_node(second)

        thread = threading.Thread(target=lose)
        thread.start()
        result = trainer.fit()
        thread.join()
        assert result.metrics == {"epoch": 2, "first": 1}
    finally:
        ray.shutdown()
        nodes.shutdown()
