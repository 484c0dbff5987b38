"""Names that are given to actors after they were made, as until 2020."""

from __future__ import annotations

import pytest

import raycompat as ray
from raycompat._old.named_actors import get_actor, register_actor


@ray.remote
class Counter:
    def one(self):
        return 1


@pytest.fixture
def cluster():
    with ray.init("local", num_cpus=1, include_dashboard=False, configure_logging=False):
        yield


def test_a_name_does_not_keep_its_actor_alive_and_is_free_when_it_is_dead(cluster):
    first, second = Counter.remote(), Counter.remote()
    register_actor("counter", first)
    assert ray.get(get_actor("counter").one.remote()) == 1
    with pytest.raises(ValueError, match="an actor has this name"):
        register_actor("counter", second)
    ray.kill(first)
    with pytest.raises(ValueError, match="counter"):
        get_actor("counter")
    register_actor("counter", second)
    found = get_actor("counter")
    assert ray.get(found.one.remote()) == 1
    del second
    with pytest.raises(ray.exceptions.RayActorError):
        while True:
            ray.get(found.one.remote())
