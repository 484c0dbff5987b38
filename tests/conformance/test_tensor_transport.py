"""Tensors that stay in the actor that made them: `ray.method(tensor_transport=...)`.

How they go from actor to actor is in tests/cluster: Ray's own transport of CPU tensors hangs on machines
where its gloo finds no way.
"""

from __future__ import annotations

import importlib

import pytest

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.usefixtures("cluster")


@pytest.fixture
def classes(ray):
    """Actors that give tensors and take them, in a group, which Ray's transport gloo needs."""

    @ray.remote(num_cpus=0)
    class Giver:
        def __init__(self):
            self.weights = torch.arange(1000.0)

        @ray.method(tensor_transport="gloo")
        def give(self):
            return self.weights

        def plain(self):
            return self.weights

        def take_back(self, tensor):
            return tensor is self.weights or tensor.data_ptr() == self.weights.data_ptr()

    @ray.remote(num_cpus=0)
    class Taker:
        def sum(self, tensor):
            return float(tensor.sum())

    return Giver, Taker


@pytest.fixture
def pair(ray, classes):
    giver, taker = classes[0].remote(), classes[1].remote()
    collective = importlib.import_module(f"{ray.__name__}.experimental.collective")
    group = collective.create_collective_group([giver, taker], backend="torch_gloo")
    assert [group.get_rank(each) for each in (giver, taker)] == [0, 1]
    yield giver, taker
    collective.destroy_collective_group(group)


def test_the_actor_that_made_it_gets_the_tensor_itself(ray, pair):
    giver, _ = pair
    assert ray.get(giver.take_back.remote(giver.give.remote()))


def test_the_driver_gets_a_copy_from_the_object_store(ray, pair):
    giver, _ = pair
    found = ray.get(giver.give.remote(), _use_object_store=True)
    assert torch.equal(found, torch.arange(1000.0))


def test_an_unknown_transport_is_a_value_error(ray):
    with pytest.raises(ValueError, match="Invalid tensor transport"):

        @ray.remote
        class Actor:
            @ray.method(tensor_transport="pigeon")
            def give(self):
                return None


def test_a_transport_takes_only_one_result(ray, pair):
    giver, _ = pair
    with pytest.raises(ValueError, match="only support 1 return"):
        giver.give.options(num_returns=2).remote()


def test_an_actor_must_have_transports_enabled(ray, pair):
    _, taker = pair
    with pytest.raises(ValueError, match="enable_tensor_transport"):
        taker.sum.options(tensor_transport="gloo").remote(torch.ones(1))


def test_a_class_with_transports_cannot_disable_them(ray):
    with pytest.raises(ValueError, match="enable_tensor_transport"):

        @ray.remote(enable_tensor_transport=False)
        class Actor:
            @ray.method(tensor_transport="gloo")
            def give(self):
                return None
