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
    assert ray.get(third.seen.remote()) == sorted(found)[1]
    assert ray.get(ray.remote(seen).remote()) == ([], [], None, None)
    with pytest.raises(ValueError):
        ray.remote(resources={"neuron_cores": 1.5})(seen).remote()
