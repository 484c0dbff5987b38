"""How tensors that stay in their actor reach others, and when they are freed; with CPU tensors."""

from __future__ import annotations

import threading

import pytest

import raycompat as ray
from raycompat._caller import kept_tensors
from raycompat.experimental import collective, wait_tensor_freed

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.usefixtures("cluster")

TOTAL = 499500.0


def classes():
    @ray.remote(num_cpus=0)
    class Giver:
        def __init__(self):
            self.weights = torch.arange(1000.0)
            self.event = threading.Event()

        @ray.method(tensor_transport="cuda_ipc")
        def give(self):
            return self.weights

        @ray.method(tensor_transport="nixl")
        def give_many(self):
            return {"one": self.weights, "half": self.weights.to(torch.bfloat16), "name": "weights"}

        @ray.method(tensor_transport="gloo")
        def give_large(self):
            return [torch.ones(1 << 20), torch.nn.Parameter(torch.ones(2))]

        def plain(self):
            return self.weights

        def put(self):
            return [ray.put(self.weights, _tensor_transport="nixl")]

        def num_kept(self):
            return sum(len(each.tensors) for each in kept_tensors._kept.values())

        def wait_until_free(self, timeout):
            try:
                wait_tensor_freed(self.weights, timeout)
            except TimeoutError:
                return "timeout"
            return "free"

        def be_busy(self):
            return self.event.wait(60)

    @ray.remote(num_cpus=0)
    class Taker:
        def sum(self, tensor):
            tensor += 0  # it can be written to
            return float(tensor.sum())

        def describe(self, value):
            return value["name"], float(value["one"].sum()), str(value["half"].dtype)

        def get(self, refs):
            return float(ray.get(refs[0]).sum())

    return Giver, Taker


@pytest.fixture
def pair(cluster):
    return [each.remote() for each in classes()]


@pytest.fixture
def giver(pair):
    return pair[0]


@pytest.fixture
def taker(pair):
    return pair[1]


def test_a_tensor_goes_from_one_actor_to_another(giver, taker):
    assert ray.get(taker.sum.remote(giver.give.remote())) == TOTAL
    assert ray.get(taker.get.remote([giver.give.remote()])) == TOTAL


def test_a_value_may_have_several_tensors_and_other_things(giver, taker):
    found = ray.get(taker.describe.remote(giver.give_many.remote()))
    assert found == ("weights", TOTAL, "torch.bfloat16")


def test_large_tensors_and_parameters(giver):
    large, parameter = ray.get(giver.give_large.remote())
    assert large.sum() == 1 << 20
    assert isinstance(parameter, torch.nn.Parameter)
    assert parameter.requires_grad


def test_options_choose_a_transport_for_one_call(giver, taker):
    ref = giver.plain.options(tensor_transport="GLOO").remote()
    assert ref.tensor_transport() == "GLOO"
    assert giver.plain.remote().tensor_transport() is None
    assert ray.get(taker.sum.remote(ref)) == TOTAL
    assert ray.get(giver.num_kept.remote()) == 1


def test_tensors_are_kept_until_the_last_reference_goes(giver, taker, wait_until):
    wait_until(lambda: ray.get(giver.num_kept.remote()) == 0)
    ref = giver.give.remote()
    nested = ray.put([ref])
    ray.get(taker.sum.remote(ref))
    assert ray.get(giver.num_kept.remote()) == 1
    del ref
    assert ray.get(giver.wait_until_free.remote(0.1)) == "timeout"
    assert ray.get(ray.get(nested)[0])[-1] == 999
    del nested
    assert ray.get(giver.wait_until_free.remote(20)) == "free"
    assert ray.get(giver.num_kept.remote()) == 0


def test_tensors_that_are_put(giver, taker, wait_until):
    (ref,) = ray.get(giver.put.remote())
    assert ray.get(giver.num_kept.remote()) == 1
    assert ray.get(taker.sum.remote(ref)) == TOTAL
    del ref
    wait_until(lambda: ray.get(giver.num_kept.remote()) == 0)


def test_readers_do_not_wait_for_a_busy_actor(giver, taker):
    ref = giver.give.remote()
    ray.wait([ref])
    busy = giver.be_busy.remote()
    assert ray.get(taker.sum.remote(ref), timeout=30) == TOTAL
    assert ray.get(ref, timeout=30)[-1] == 999
    assert ray.wait([busy], timeout=0) == ([], [busy])
    end = giver.__ray_call__.options(concurrency_group="_ray_system").remote(
        lambda actor: actor.event.set()
    )
    assert ray.get([busy, end]) == [True, None]


def test_the_actor_lives_as_long_as_its_tensors_are_needed(taker):
    ref = classes()[0].remote().give.remote()
    assert ray.get(taker.sum.remote(ref)) == TOTAL
    assert ray.get(ref)[-1] == 999


def test_the_death_of_the_actor_is_an_error_of_the_reader(taker):
    giver = classes()[0].remote()
    ref = giver.give.remote()
    ray.wait([ref])
    ray.kill(giver)
    with pytest.raises(ray.exceptions.ActorDiedError):
        ray.get(ref)
    with pytest.raises(ray.exceptions.ActorDiedError):
        ray.get(taker.sum.remote(ref))


def test_groups_of_rays_programs(giver, taker):
    group = collective.create_collective_group([giver, taker], backend="torch_gloo", name="both")
    assert [group.get_rank(each) for each in (giver, taker)] == [0, 1]
    assert (group.name, group.backend) == ("both", "GLOO")
    assert collective.get_collective_groups([taker], "gloo") == [group]
    with pytest.raises(RuntimeError, match="already"):
        collective.create_collective_group([giver], backend="gloo")
    collective.destroy_all_collective_groups()
    with pytest.raises(ValueError, match="No group"):
        collective.destroy_collective_group(group)
