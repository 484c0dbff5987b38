"""Nodes with GPUs that were declared: their type, and what does not ask the driver for them."""

from __future__ import annotations

import dask
import pytest

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
