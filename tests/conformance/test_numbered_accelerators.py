"""Accelerators beside GPUs: their numbers, and the variables that show them to calls."""

from __future__ import annotations

import os

import pytest


def test_accelerators_of_other_kinds_have_numbers(fresh):
    ray = fresh(num_cpus=2, resources={"NPU": 2, "neuron_cores": 4})

    def seen():
        variables = ("ASCEND_RT_VISIBLE_DEVICES", "NEURON_RT_VISIBLE_CORES")
        ids = ray.get_runtime_context().get_accelerator_ids()
        return ids["NPU"], ids["neuron_cores"], *(os.environ.get(each) for each in variables)

    call = ray.remote(resources={"neuron_cores": 2})(seen)
    assert ray.get(call.remote()) == ([], ["0", "1"], None, "0,1")

    @ray.remote(num_cpus=0, resources={"NPU": 1})
    class Actor:
        def seen(self):
            return seen()

    actors = [Actor.remote() for _ in range(2)]
    found = ray.get([each.seen.remote() for each in actors])
    assert sorted(found) == [(["0"], [], "0", None), (["1"], [], "1", None)]
    ray.kill(actors.pop())
    third = Actor.remote()
    assert ray.get(third.seen.remote()) == found[1]
    assert ray.get(ray.remote(seen).remote()) == ([], [], None, None)
    with pytest.raises(ValueError):
        ray.remote(resources={"neuron_cores": 1.5})(seen).remote()


def test_a_number_goes_from_process_to_process(fresh):
    ray = fresh(num_cpus=2, resources={"NPU": 1})

    @ray.remote(num_cpus=0, resources={"NPU": 1}, max_restarts=-1, max_task_retries=-1)
    class Actor:
        def ids(self):
            return ray.get_runtime_context().get_accelerator_ids()["NPU"], os.getpid()

    @ray.remote(resources={"NPU": 1})
    def ids():
        return ray.get_runtime_context().get_accelerator_ids()["NPU"], os.getpid()

    for end in ("kill", "drop", "restart", "group"):
        options = {}
        if end == "group":
            group = ray.util.placement_group([{"NPU": 1}])
            strategy = ray.util.scheduling_strategies.PlacementGroupSchedulingStrategy
            options["scheduling_strategy"] = strategy(group)
        actor = Actor.options(**options).remote()
        found, pid = ray.get(actor.ids.remote(), timeout=60)
        assert found == ["0"]
        if end == "restart":
            ray.kill(actor, no_restart=False)
            others = (ray.get(actor.ids.remote(), timeout=60) for _ in iter(int, 1))
            found, _ = next(each for each in others if each[1] != pid)
            assert found == ["0"]
        if end == "kill":
            ray.kill(actor)
        elif end == "group":
            ray.util.remove_placement_group(group)
        del actor
        assert ray.get(ids.remote(), timeout=60)[0] == ["0"]
