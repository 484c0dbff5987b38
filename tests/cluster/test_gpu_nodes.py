"""Nodes with GPUs that were declared: their type, and what does not ask the driver for them."""

from __future__ import annotations

import os
import time

import dask
import pytest
from _dask_cluster import DaskCluster

import raycompat as ray
from raycompat.util import dask as of_dask


@pytest.fixture
def typed(no_cluster, monkeypatch):
    """A cluster whose variable names GPUs that no driver has."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-no-such-card,9")
    ray.init(
        num_cpus=1,
        num_gpus=2,
        resources={"accelerator_type:T4": 1},
        include_dashboard=False,
        configure_logging=False,
    )


def test_a_type_is_declared_by_a_resource_and_chosen_by_calls(typed):
    @ray.remote(num_gpus=1, accelerator_type="T4")
    def here():
        return len(ray.get_gpu_ids())

    assert ray.nodes()[0]["Labels"]["ray.io/accelerator-type"] == "T4"
    assert ray.get(here.remote(), timeout=60) == 1
    label = {"ray.io/accelerator-type": "T4"}
    assert ray.get(here.options(label_selector=label).remote(), timeout=60) == 1


def test_dask_does_not_ask_nvml_for_gpus_that_do_not_exist(typed):
    def setting():
        return dask.config.get("distributed.diagnostics.nvml")

    client = of_dask.client()
    assert client.run_on_scheduler(setting) is False
    assert set(client.run(setting).values()) == {False}


TWO_GPUS = """
from raycompat._node import accelerators

GPUS = [accelerators.Device("H100", (str(each), f"GPU-{each}{each}")) for each in range(2)]
accelerators._hardware = lambda: (accelerators.NVIDIA, GPUS)
"""


def test_workers_of_one_host_share_its_gpus(no_cluster, tmp_path, monkeypatch):
    """As dask-cuda starts them: a worker for each GPU, which sees all, its own one first."""
    preload = tmp_path / "two_gpus.py"
    preload.write_text(TWO_GPUS)
    # Dask's own monitor would ask a real driver for the second one.
    monkeypatch.setenv("DASK_DISTRIBUTED__DIAGNOSTICS__NVML", "False")
    cluster = DaskCluster(tmp_path)
    try:
        for visible in ("0,1", "1,0"):
            monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
            cluster.add_worker("127.0.0.1", "--preload", str(preload))
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
        cluster.connect(nodes=2)
        assert ray.cluster_resources()["GPU"] == 2
        assert [each["Resources"]["GPU"] for each in ray.nodes()] == [1, 1]

        @ray.remote(num_gpus=1)
        class Holder:
            def where(self):
                node = ray.get_runtime_context().get_node_id()
                return node, os.environ["CUDA_VISIBLE_DEVICES"], ray.get_gpu_ids()

        holders = [Holder.remote() for _ in range(2)]
        places = ray.get([each.where.remote() for each in holders], timeout=60)
        assert {visible for _, visible, _ in places} == {"0", "1"}
        assert all(gpus == [visible] for _, visible, gpus in places)
        assert len({node for node, _, _ in places}) == 2
        del holders

        # The GPU of a worker that leaves belongs to the other one, which can see it.
        gone, visible, _ = places[0]
        addresses = {each["NodeID"]: each["RayletSocketName"] for each in ray.nodes()}
        cluster.workers[cluster.pid_of(addresses[gone])].terminate()
        deadline = time.monotonic() + 60
        while sum(each["Alive"] for each in ray.nodes()) > 1:
            assert time.monotonic() < deadline
            time.sleep(0.02)  # polling with a deadline: another process ends
        assert ray.cluster_resources()["GPU"] == 2

        @ray.remote(num_gpus=2)
        def both():
            return os.environ["CUDA_VISIBLE_DEVICES"]

        other = "0" if visible == "1" else "1"
        assert ray.get(both.remote(), timeout=60) == f"{other},{visible}"
    finally:
        ray.shutdown()
        cluster.close()


def test_calls_without_gpus_can_be_shown_none(no_cluster, monkeypatch):
    """Ray's variable, for tasks that go through the scheduler, tasks of a lease, and actors."""
    monkeypatch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "1")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    ray.init(num_cpus=2, num_gpus=1, include_dashboard=False, configure_logging=False)

    def seen():
        return os.environ.get("CUDA_VISIBLE_DEVICES")

    @ray.remote
    class Actor:
        def seen(self):
            return seen()

    tasks = [ray.remote(num_gpus=0)(seen), ray.remote(seen).options(scheduling_strategy="SPREAD")]
    assert ray.get([each.remote() for each in tasks], timeout=60) == ["", ""]
    assert ray.get(ray.remote(num_gpus=1)(seen).remote(), timeout=60) == "0"
    assert ray.get(Actor.remote().seen.remote(), timeout=60) == ""
