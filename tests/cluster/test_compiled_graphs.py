"""Compiled graphs where Ray hangs or fails: actors in two graphs, in their own graph, or killed."""

from __future__ import annotations

import asyncio

import pytest

import raycompat as ray
from raycompat.dag import InputNode

pytestmark = pytest.mark.usefixtures("cluster")


@ray.remote(num_cpus=0)
class Doubler:
    def double(self, value):
        return 2 * value

    def compile_own(self):
        return graph_of(ray.get_runtime_context().current_actor)


def graph_of(actor, **options):
    with InputNode() as given:
        return actor.double.bind(given).experimental_compile(**options)


def test_an_actor_is_in_one_graph_at_a_time():
    actor = Doubler.remote()
    first = graph_of(actor)
    with pytest.raises(ValueError, match="belongs to a compiled graph already"):
        graph_of(actor)
    assert ray.get(first.execute(2)) == 4
    first.teardown()
    second = graph_of(actor)
    assert ray.get(second.execute(3)) == 6
    second.teardown()


def test_an_actor_compiles_no_graph_with_itself():
    actor = Doubler.remote()
    with pytest.raises(ValueError, match="is the actor that compiles it"):
        ray.get(actor.compile_own.remote())
    graph = graph_of(actor)
    assert ray.get(graph.execute(1)) == 2
    graph.teardown()


def test_a_graph_whose_actor_was_killed_is_awaited():
    async def use():
        actor = Doubler.remote()
        graph = graph_of(actor, enable_asyncio=True)
        assert await (await graph.execute_async(1)) == 2
        ray.kill(actor)
        with pytest.raises(ray.exceptions.ActorDiedError):
            await (await graph.execute_async(2))

    asyncio.run(use())
