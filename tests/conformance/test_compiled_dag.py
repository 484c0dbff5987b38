"""`DAGNode.experimental_compile`: graphs that actors execute without the driver."""

from __future__ import annotations

import asyncio
import copy
import gc
import importlib
import pickle
import threading
from contextlib import contextmanager

import numpy as np
import pytest

pytestmark = [
    pytest.mark.usefixtures("cluster"),
    pytest.mark.filterwarnings("ignore:.*deprecated.*"),
    # Ray says it when a graph ends while its process is busy.
    pytest.mark.filterwarnings("ignore:coroutine .* was never awaited"),
]


@pytest.fixture
def dag(ray, cluster):
    return importlib.import_module(f"{ray.__name__}.dag")


@pytest.fixture
def new(ray, cluster):
    """Return a new actor of the class that these tests use; all of them end with the test."""

    @ray.remote(num_cpus=0)
    class Actor:
        def __init__(self):
            self.num_calls = 0

        def echo(self, value):
            return value

        def add(self, *values, by=0):
            self.num_calls += 1
            return sum(values) + by

        def count(self):
            return self.num_calls

        def fail(self, value):
            raise KeyError(value)

        def sleep(self, seconds):
            import time

            time.sleep(seconds)
            return seconds

        def end_process(self, value):
            import os

            os._exit(1)

        def leave(self, value):
            ray.actor.exit_actor()

        def lock(self, value):
            import threading

            return threading.Lock()

        @ray.method(num_returns=2)
        def pair(self, value):
            return value, value + 1

        @ray.method(num_returns=2)
        def triple(self, value):
            return value, value, value

        def actor_id(self, value):
            return ray.get_runtime_context().get_actor_id()

        def is_main_thread(self, value):
            import threading

            return threading.current_thread() is threading.main_thread()

        def kind(self, value):
            return type(value).__name__

    made = []

    def make():
        made.append(Actor.remote())
        ray.get(made[-1].count.remote())
        return made[-1]

    yield make
    for actor in made:
        ray.kill(actor)


@pytest.fixture
def new_input(dag):
    """Return a new input. All calls that are bound to one input belong to one graph."""

    def make():
        with dag.InputNode() as given:
            return given

    return make


@pytest.fixture
def given(new_input):
    return new_input()


@contextmanager
def compiled(node, **options):
    graph = node.experimental_compile(**options)
    try:
        yield graph
    finally:
        graph.teardown()


# --- values ---------------------------------------------------------------------------------------


def test_a_graph_of_one_call(ray, new, given):
    with compiled(new().echo.bind(given)) as graph:
        assert [ray.get(graph.execute(value)) for value in (1, "two", None)] == [1, "two", None]


def test_the_classes_of_graph_and_result(ray, new, given):
    with compiled(new().echo.bind(given)) as graph:
        ref = graph.execute(1)
        assert type(graph).__name__ == "CompiledDAG"
        assert type(ref).__name__ == "CompiledDAGRef"
        assert not isinstance(ref, ray.ObjectRef)
        assert str(ref) == (
            f"CompiledDAGRef({graph.get_id()}, execution_index=0, channel_index=None)"
        )
        assert str(graph) == f"CompiledDAG({graph.get_id()})"


def test_a_chain_of_actors(ray, new, given):
    node = given
    for _ in range(3):
        node = new().add.bind(node, 1)
    with compiled(node) as graph:
        assert [ray.get(graph.execute(number)) for number in range(20)] == list(range(3, 23))


def test_several_outputs_are_a_list_of_references(ray, dag, new, given):
    outputs = dag.MultiOutputNode([new().echo.bind(given), new().add.bind(given, 1)])
    with compiled(outputs) as graph:
        refs = graph.execute(1)
        assert len(refs) == 2
        assert ray.get(refs) == [1, 2]
        first, second = graph.execute(5)
        assert (ray.get(second), ray.get(first)) == (6, 5)


def test_one_output_in_a_multi_output_node_is_a_list(ray, dag, new, given):
    with compiled(dag.MultiOutputNode([new().echo.bind(given)])) as graph:
        assert ray.get(graph.execute(1)) == [1]


def test_an_actor_calls_several_methods_in_their_order(ray, new, given):
    actor = new()
    first = actor.add.bind(given, 1)
    second = actor.add.bind(first, 1)
    with compiled(actor.add.bind(first, second)) as graph:
        assert ray.get(graph.execute(1)) == 5


def test_values_go_to_another_actor_and_back(ray, new, given):
    here, there = new(), new()
    first = here.add.bind(given, 1)
    with compiled(here.add.bind(first, there.add.bind(first, 1))) as graph:
        assert ray.get(graph.execute(1)) == 5


def test_a_node_may_be_an_argument_twice(ray, new, given):
    with compiled(new().add.bind(given, given)) as graph:
        assert ray.get(graph.execute(4)) == 8


def test_constants_are_bound_with_the_graph(ray, new, given):
    with compiled(new().add.bind(1, given, 5, by=10)) as graph:
        assert ray.get(graph.execute(2)) == 18


def test_the_arguments_of_execute_by_position_and_name(ray, new, given):
    with compiled(new().add.bind(given[0], given.x, given["y"])) as graph:
        assert ray.get(graph.execute(1, x=20, y=300)) == 321
        assert ray.get(graph.execute(1, x=20, y=300, unused=4)) == 321


def test_actors_get_different_arguments(ray, dag, new, given):
    outputs = dag.MultiOutputNode([new().echo.bind(given[0]), new().echo.bind(given[2])])
    with compiled(outputs) as graph:
        assert ray.get(graph.execute("a", "b", "c")) == ["a", "c"]


def test_a_method_with_two_results(ray, dag, new, new_input):
    here, there = new(), new()
    first, second = here.pair.bind(new_input())
    with compiled(there.add.bind(first, second)) as graph:
        assert ray.get(graph.execute(2)) == 5
    first, second = here.pair.bind(new_input())
    with compiled(dag.MultiOutputNode([first, second])) as graph:
        assert ray.get(graph.execute(2)) == [2, 3]


def test_large_values(ray, new, given):
    with compiled(new().echo.bind(new().echo.bind(given)), _buffer_size_bytes=100) as graph:
        for size in (10_000, 3_000_000, 100_000, 1_000_000):
            value = bytes([size % 251]) * size
            assert ray.get(graph.execute(value)) == value


def test_many_large_values_at_once(ray, dag, new, given):
    actors = [new() for _ in range(2)]
    outputs = dag.MultiOutputNode([actor.echo.bind(given) for actor in actors])
    with compiled(outputs) as graph:
        values = [bytes([number]) * 1_500_000 for number in range(8)]
        refs = [graph.execute(value) for value in values]
        for value, both in zip(values, refs, strict=True):
            assert ray.get(both) == [value, value]


def test_arrays_arrive_read_only(ray, new, given):
    with compiled(new().echo.bind(given)) as graph:
        kept = []
        for number in range(5):
            array = np.full(100_000, number, dtype=np.float64)
            kept.append(ray.get(graph.execute({"array": array}))["array"])
            assert not kept[-1].flags.writeable
        del array
        assert [int(array.sum()) for array in kept] == [n * 100_000 for n in range(5)]


def test_a_value_stays_an_object_reference(ray, new, given):
    with compiled(new().kind.bind(given)) as graph:
        assert ray.get(graph.execute(ray.put(4))) == "ObjectRef"


# --- where calls run ------------------------------------------------------------------------------


def test_methods_know_their_actor(ray, new, given):
    actor = new()
    with compiled(actor.actor_id.bind(given)) as graph:
        in_graph = ray.get(graph.execute(1))
    assert in_graph == ray.get(actor.actor_id.remote(1))


def test_calls_of_a_graph_run_in_another_thread(ray, new, given):
    actor = new()
    with compiled(actor.is_main_thread.bind(given)) as graph:
        assert ray.get(graph.execute(1)) is False
        assert ray.get(actor.is_main_thread.remote(1)) is True


def test_other_calls_of_the_actor_go_on(ray, new, given):
    actor = new()
    with compiled(actor.add.bind(given)) as graph:
        ray.get(graph.execute(1))
        assert ray.get(actor.count.remote(), timeout=20) == 1


def test_a_plain_method_of_an_asynchronous_actor(ray, new_input):
    @ray.remote(num_cpus=0)
    class Both:
        async def later(self, value):
            return value

        def now(self, value):
            return value

    actor = Both.remote()
    with compiled(actor.now.bind(new_input())) as graph:
        assert ray.get(graph.execute(3)) == 3
    with compiled(actor.later.bind(new_input())) as graph, pytest.raises(TypeError):
        ray.get(graph.execute(3))


# --- results --------------------------------------------------------------------------------------


def test_results_in_any_order(ray, new, given):
    with compiled(new().echo.bind(given)) as graph:
        refs = [graph.execute(number) for number in range(5)]
        assert [ray.get(ref) for ref in reversed(refs)] == [4, 3, 2, 1, 0]


def test_a_result_is_fetched_once(ray, new, given):
    with compiled(new().echo.bind(given)) as graph:
        ref = graph.execute(1)
        assert ref.get() == 1
        with pytest.raises(ValueError, match="once"):
            ray.get(ref)


def test_a_list_has_results_of_graphs_only(ray, new, given):
    with compiled(new().echo.bind(given)) as graph:
        with pytest.raises(ValueError, match="Invalid type of object refs"):
            ray.get([graph.execute(1), ray.put(2)])


def test_a_result_stays_in_its_process(ray, new, given):
    with compiled(new().echo.bind(given)) as graph:
        ref = graph.execute(1)
        for use in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(ValueError, match="cannot be"):
                use(ref)
        with pytest.raises(TypeError):
            ray.wait([ref])


def test_dropped_results_make_room(ray, new, given):
    actor = new()
    with compiled(actor.add.bind(given), _max_inflight_executions=2) as graph:
        for number in range(20):
            graph.execute(number)
        gc.collect()
        assert ray.get(graph.execute(21)) == 21
        assert ray.get(actor.count.remote()) == 21


def test_too_many_executions(ray, new, given):
    with compiled(new().echo.bind(given), _max_inflight_executions=2) as graph:
        refs = [graph.execute(0), graph.execute(1)]
        with pytest.raises(ray.exceptions.RayCgraphCapacityExceeded):
            graph.execute(2)
        assert ray.get(refs[0]) == 0
        refs.append(graph.execute(3))
        assert ray.get(refs[1:]) == [1, 3]


def test_ten_executions_by_default(ray, new, given):
    with compiled(new().echo.bind(given)) as graph:
        refs = [graph.execute(number) for number in range(10)]
        with pytest.raises(ray.exceptions.RayCgraphCapacityExceeded):
            graph.execute(10)
        assert ray.get(refs) == list(range(10))


def test_too_many_buffered_results(ray, new, given):
    with compiled(new().echo.bind(given), _max_buffered_results=1) as graph:
        refs = [graph.execute(number) for number in range(3)]
        with pytest.raises(ray.exceptions.RayCgraphCapacityExceeded):
            ray.get(refs[2])


def test_get_runs_out_of_time(ray, new, given):
    with compiled(new().sleep.bind(given)) as graph:
        ref = graph.execute(1.0)
        with pytest.raises(ray.exceptions.RayChannelTimeoutError) as caught:
            ray.get(ref, timeout=0.1)
        assert isinstance(caught.value, TimeoutError)
        with pytest.raises(ValueError, match="once"):
            ray.get(ref)
        assert ray.get(graph.execute(0.1)) == 0.1


def test_get_without_a_limit_and_without_waiting(ray, new, given):
    with compiled(new().sleep.bind(given)) as graph:
        assert ray.get(graph.execute(0.3), timeout=-1) == 0.3
        with pytest.raises(ray.exceptions.RayChannelTimeoutError):
            ray.get(graph.execute(0.5), timeout=0)
        with pytest.raises(AssertionError):
            ray.get(graph.execute(0.1), timeout=-2)


# --- errors of methods ----------------------------------------------------------------------------


def test_an_error_is_raised_by_get(ray, new, given):
    with compiled(new().fail.bind(given)) as graph:
        for number in range(2):
            with pytest.raises(KeyError) as caught:
                ray.get(graph.execute(number))
            assert isinstance(caught.value, ray.exceptions.RayTaskError)
            assert caught.value.cause.args == (number,)


def test_calls_after_an_error_do_not_run(ray, new, given):
    last = new()
    with compiled(last.add.bind(new().fail.bind(given))) as graph:
        with pytest.raises(KeyError):
            ray.get(graph.execute(1))
        assert ray.get(last.count.remote()) == 0


def test_an_error_is_the_error_of_all_outputs(ray, dag, new, given):
    outputs = dag.MultiOutputNode([new().fail.bind(given), new().echo.bind(given)])
    with compiled(outputs) as graph:
        for _ in range(3):
            for ref in graph.execute(1):
                with pytest.raises(KeyError):
                    ray.get(ref)


def test_an_error_does_not_wait_for_other_outputs(ray, dag, new, given):
    outputs = dag.MultiOutputNode([new().fail.bind(given), new().sleep.bind(given)])
    with compiled(outputs) as graph:
        with pytest.raises(KeyError):
            ray.get(graph.execute(2)[0], timeout=1.5)
        with pytest.raises(KeyError):
            ray.get(graph.execute(0))


def test_a_result_that_cannot_be_pickled(ray, new, given):
    with compiled(new().lock.bind(given)) as graph, pytest.raises(TypeError, match="serialize"):
        ray.get(graph.execute(1))


def test_an_argument_that_cannot_be_pickled(ray, new, given):
    with compiled(new().echo.bind(given)) as graph:
        with pytest.raises(TypeError, match="serialize"):
            graph.execute(threading.Lock())
        assert ray.get(graph.execute(1)) == 1


def test_a_wrong_number_of_results(ray, dag, new, given):
    with compiled(dag.MultiOutputNode(list(new().triple.bind(given)))) as graph:
        with pytest.raises(ValueError):
            ray.get(graph.execute(1))


# --- the end --------------------------------------------------------------------------------------


def test_teardown_frees_the_actors(ray, new, new_input):
    actor = new()
    graph = actor.add.bind(new_input()).experimental_compile()
    assert not graph.is_teardown
    assert ray.get(graph.execute(1)) == 1
    graph.teardown()
    graph.teardown()
    assert graph.is_teardown
    assert ray.get(actor.count.remote()) == 1
    with compiled(actor.add.bind(new_input())) as again:
        assert ray.get(again.execute(4)) == 4


def test_after_teardown(ray, new, given):
    graph = new().echo.bind(given).experimental_compile()
    ref = graph.execute(1)
    graph.teardown()
    with pytest.raises(ray.exceptions.RayChannelError):
        graph.execute(1)
    with pytest.raises(ray.exceptions.RayChannelError):
        ray.get(ref)


def test_teardown_may_kill_the_actors(ray, new, given):
    actor = new()
    graph = actor.echo.bind(given).experimental_compile()
    graph.teardown(kill_actors=True)
    with pytest.raises(ray.exceptions.RayActorError):
        ray.get(actor.count.remote())


def test_the_process_of_an_actor_ends(ray, new, given):
    alive = new()
    graph = alive.echo.bind(new().end_process.bind(given)).experimental_compile()
    with pytest.raises(ray.exceptions.ActorDiedError):
        ray.get(graph.execute(1))
    with pytest.raises(ray.exceptions.RayChannelError):
        ray.get(graph.execute(1))
    assert ray.get(alive.echo.remote(3)) == 3


def test_an_actor_leaves(ray, new, given):
    graph = new().leave.bind(given).experimental_compile()
    with pytest.raises(ray.exceptions.ActorDiedError):
        ray.get(graph.execute(1))


def test_an_actor_is_killed_before_the_execution(ray, dag, new, given):
    actor = new()
    both = dag.MultiOutputNode([actor.echo.bind(given), new().echo.bind(given)])
    graph = both.experimental_compile()
    assert ray.get(graph.execute(1)) == [1, 1]
    ray.kill(actor)
    refs = graph.execute(2)
    with pytest.raises(ray.exceptions.ActorDiedError):
        ray.get(refs)
    with pytest.raises(ray.exceptions.RayChannelError):
        ray.get(graph.execute(3))


def test_an_actor_is_killed(ray, new, given):
    actor = new()
    graph = actor.sleep.bind(given).experimental_compile()
    ref = graph.execute(30)
    ray.kill(actor)
    with pytest.raises(ray.exceptions.ActorDiedError):
        ray.get(ref)


def test_a_dead_actor_cannot_be_compiled(ray, new, given):
    actor = new()
    actor.end_process.remote(1)
    with pytest.raises(ray.exceptions.RayActorError):
        ray.get(actor.count.remote())
    with pytest.raises(ray.exceptions.ActorDiedError):
        actor.echo.bind(given).experimental_compile()


# --- asyncio --------------------------------------------------------------------------------------


def test_results_are_awaited(ray, new, given):
    actor = new()

    async def use():
        with compiled(actor.echo.bind(given), enable_asyncio=True) as graph:
            futures = [await graph.execute_async(number) for number in range(5)]
            first = [await futures[1], await futures[0]]
            return first + list(await asyncio.gather(*futures[2:]))

    assert asyncio.run(use()) == [1, 0, 2, 3, 4]


def test_a_future_is_awaited_once(ray, new, given):
    actor = new()

    async def use():
        with compiled(actor.echo.bind(given), enable_asyncio=True) as graph:
            future = await graph.execute_async(1)
            assert type(future).__name__ == "CompiledDAGFuture"
            assert await future == 1
            with pytest.raises(ValueError, match="once"):
                await future

    asyncio.run(use())


def test_futures_of_several_outputs_and_errors(ray, dag, new, given):
    actors = [new(), new()]

    async def use():
        outputs = dag.MultiOutputNode([actors[0].echo.bind(given), actors[1].add.bind(given, 1)])
        with compiled(outputs, enable_asyncio=True) as graph:
            assert await asyncio.gather(*await graph.execute_async(1)) == [1, 2]
            with pytest.raises(TypeError):
                await (await graph.execute_async("text"))[1]

    asyncio.run(use())


def test_large_values_with_asyncio(ray, new, given):
    actor = new()

    async def use():
        with compiled(actor.echo.bind(given), enable_asyncio=True) as graph:
            for number in range(30):
                value = bytes([number]) * 500_000
                assert await (await graph.execute_async(value)) == value

    asyncio.run(use())


def test_too_many_executions_with_asyncio(ray, new, given):
    actor = new()

    async def use():
        with compiled(actor.echo.bind(given), enable_asyncio=True) as graph:
            futures = [await graph.execute_async(number) for number in range(10)]
            with pytest.raises(ray.exceptions.RayCgraphCapacityExceeded):
                await graph.execute_async(10)
            return [await future for future in futures]

    assert asyncio.run(use()) == list(range(10))


def test_execute_and_execute_async_exclude_each_other(ray, new, new_input):
    actor = new()
    with (
        compiled(actor.echo.bind(new_input())) as graph,
        pytest.raises(ValueError, match="asyncio"),
    ):
        asyncio.run(graph.execute_async(1))

    async def use():
        with compiled(actor.echo.bind(new_input()), enable_asyncio=True) as graph:
            with pytest.raises(ValueError, match="asyncio"):
                graph.execute(1)

    asyncio.run(use())


# --- what cannot be compiled ----------------------------------------------------------------------


def test_remote_functions_are_refused(ray, new, new_input):
    @ray.remote
    def function(value):
        return value

    for node in (function.bind(new_input()), new().echo.bind(function.bind(new_input()))):
        with pytest.raises(NotImplementedError):
            node.experimental_compile()


def test_actors_that_the_graph_creates_are_refused(ray, given):
    @ray.remote
    class Actor:
        def echo(self, value):
            return value

    with pytest.raises(ValueError, match=r"\.remote\(\)"):
        Actor.bind().echo.bind(given).experimental_compile()


def test_a_graph_needs_one_input(ray, new, new_input):
    actor = new()
    with pytest.raises(ValueError):
        actor.echo.bind(1).experimental_compile()
    with pytest.raises(AssertionError):
        actor.add.bind(new_input(), new_input()).experimental_compile()
    with pytest.raises(AssertionError):
        new_input().experimental_compile()


def test_the_input_is_no_output(ray, dag, new, given):
    with pytest.raises(AssertionError):
        dag.MultiOutputNode([new().echo.bind(given), given]).experimental_compile()


def test_each_call_depends_on_a_node(ray, dag, new, given):
    actor = new()
    outputs = dag.MultiOutputNode([actor.echo.bind(given), actor.echo.bind(1)])
    with pytest.raises(ValueError):
        outputs.experimental_compile()


def test_nodes_are_positional_arguments_themselves(ray, new, new_input):
    actor = new()
    given = new_input()
    with pytest.raises(ValueError):
        actor.add.bind(given, by=given).experimental_compile()
    with pytest.raises(ValueError):
        actor.echo.bind([new_input()]).experimental_compile()


def test_the_input_is_used_whole_or_in_parts(ray, new, given):
    with pytest.raises(ValueError):
        new().add.bind(given, given[0]).experimental_compile()


def test_all_parts_of_the_input_are_used(ray, new, given):
    assert given.y is not None
    with pytest.raises(ValueError):
        new().echo.bind(given.x).experimental_compile()


def test_no_call_is_left_over(ray, new, new_input):
    actor, other = new(), new()
    given = new_input()
    used = actor.echo.bind(given)
    unused = other.echo.bind(given)
    with pytest.raises(ValueError, match="leaf"):
        used.experimental_compile()
    assert unused is not None
    first, _ = actor.pair.bind(new_input())
    with pytest.raises(ValueError, match="leaf"):
        first.experimental_compile()


def test_a_graph_is_compiled_once(ray, new, given):
    node = new().echo.bind(given)
    with compiled(node), pytest.raises(ValueError):
        node.experimental_compile()


def test_the_arguments_of_execute_are_those_of_the_graph(ray, new, given):
    actor = new()
    with compiled(actor.echo.bind(given)) as graph:
        for args in ((), (1, 2)):
            with pytest.raises(ValueError):
                graph.execute(*args)


def test_the_named_arguments_of_execute_are_those_of_the_graph(ray, new, given):
    with compiled(new().add.bind(given[0], given.x)) as graph:
        with pytest.raises(ValueError):
            graph.execute(1)
        with pytest.raises(ValueError):
            graph.execute(1, 2, x=3)


@pytest.mark.parametrize(
    "options",
    [
        {"_buffer_size_bytes": 0},
        {"_buffer_size_bytes": -1},
        {"_default_communicator": "mine"},
        {"_default_communicator": 3},
    ],
)
def test_options_that_are_not_valid(ray, new, given, options):
    with pytest.raises(ValueError):
        new().echo.bind(given).experimental_compile(**options)


def test_no_communicator(ray, new, given):
    with compiled(new().echo.bind(given), _default_communicator=None) as graph:
        assert ray.get(graph.execute(1)) == 1


@pytest.mark.parametrize("arguments", [{"transport": "mine"}, {"device": "mine"}])
def test_transports_that_do_not_exist(ray, new, given, arguments):
    with pytest.raises(ValueError):
        new().echo.bind(given).with_tensor_transport(**arguments)


def test_the_settings_are_those_of_ray(ray, dag, monkeypatch):
    settings = dag.DAGContext.get_current()
    assert settings is dag.DAGContext.get_current()
    assert (settings.submit_timeout, settings.get_timeout, settings.teardown_timeout) == (
        10,
        10,
        30,
    )
    assert settings.buffer_size_bytes == 1_000_000
    assert (settings.max_inflight_executions, settings.max_buffered_results) == (10, 1000)
    with pytest.raises(ValueError):
        dag.DAGContext(get_timeout=1, read_iteration_timeout=2)


def test_a_task_uses_a_graph(ray, dag, new):
    @ray.remote
    def use(actor):
        with dag_module().InputNode() as given:
            graph = actor.add.bind(given, 1).experimental_compile()
        value = ray_module().get(graph.execute(1))
        graph.teardown()
        return value

    ray_name = ray.__name__

    def ray_module():
        return importlib.import_module(ray_name)

    def dag_module():
        return importlib.import_module(f"{ray_name}.dag")

    assert ray.get(use.remote(new())) == 2


# --- tensors --------------------------------------------------------------------------------------


@pytest.fixture
def torch(ray):
    return pytest.importorskip("torch")


@pytest.mark.parametrize(
    "arguments", [{}, {"transport": "shm", "device": "cpu", "_static_shape": True}]
)
def test_tensors_arrive_on_the_cpu_where_no_gpu_is(ray, torch, new, given, arguments):
    first, second = new(), new()
    # The import of PyTorch by both actors at once may take longer than a graph waits.
    ray.get([each.echo.remote(torch.ones(1)) for each in (first, second)])
    passed = first.echo.bind(given.with_tensor_transport(**arguments))
    passed = passed.with_tensor_transport(**arguments)
    with compiled(second.echo.bind(passed).with_tensor_transport(**arguments)) as graph:
        for number in (1, 2):
            sent = {"large": torch.full((50_000,), number), "small": torch.ones(2).half(), "n": 7}
            found = ray.get(graph.execute(sent))
            assert found["n"] == 7
            for name in ("large", "small"):
                assert torch.equal(found[name], sent[name])
                assert (found[name].dtype, str(found[name].device)) == (sent[name].dtype, "cpu")


def test_an_accelerators_transport_needs_actors_with_gpus(ray, torch, new, new_input):
    with pytest.raises(ValueError, match=r"(?i)cpu"):
        new().echo.bind(new_input()).with_tensor_transport("nccl", device="cpu")
    first, second = new(), new()
    passed = first.echo.bind(new_input()).with_tensor_transport("nccl")
    with pytest.raises(ValueError, match=r"(?i)actor"):
        second.echo.bind(passed).experimental_compile()


@pytest.mark.parametrize("end", ["input", "output"])
def test_the_driver_takes_no_part_in_an_accelerators_transport(ray, torch, new, given, end):
    if end == "input":
        node = new().echo.bind(given.with_tensor_transport("accelerator"))
    else:
        node = new().echo.bind(given).with_tensor_transport("accelerator")
    with pytest.raises(ValueError, match="(?i)driver"):
        node.experimental_compile()


def test_an_attribute_of_the_actor_hides_a_method_in_a_graph_alone(ray, dag):
    @ray.remote(num_cpus=0)
    class Hidden:
        def __init__(self):
            self.name = lambda value: "attribute"

        def name(self, value):
            return "method"

    actor = Hidden.remote()
    assert ray.get(actor.name.remote(0)) == "method"
    with dag.InputNode() as given:
        node = actor.name.bind(given)
    with compiled(node) as graph:
        assert ray.get(graph.execute(0)) == "attribute"
    ray.kill(actor)
