"""Dask and Ray on one cluster: references given to Dask, what Dask computes given to calls."""

from __future__ import annotations

import asyncio

import dask
import dask.array
import numpy as np
import pytest
from distributed import BaseActorFuture, Client, LocalCluster

import raycompat as ray
from raycompat.util import dask as ray_dask


@pytest.fixture
def client(cluster):
    return ray_dask.client()


@pytest.fixture
def total(cluster):
    @ray.remote
    def total(value, more=0):
        return float(np.sum(value)) + more

    return total


# --- references given to Dask -------------------------------------------------------------------


@pytest.mark.parametrize(
    "value", [7.0, np.arange(10), np.ones(300_000)], ids=["number", "small", "large"]
)
def test_a_task_of_dask_gets_the_value_of_a_reference(client, value):
    assert client.submit(np.sum, ray.put(value)).result() == np.sum(value)


def test_references_in_containers_are_replaced_too(client):
    refs = [ray.put(np.full(100_000, number)) for number in range(3)]
    future = client.submit(lambda given: [int(each[0]) for each in given["refs"]], {"refs": refs})
    assert future.result() == [0, 1, 2]


def test_keyword_arguments_may_be_references(client):
    assert client.submit(lambda x, y: x - y, ray.put(5), y=ray.put(3)).result() == 2


def test_delayed_takes_references(client, total):
    add = dask.delayed(lambda x, y: x + y)
    assert client.compute(add(ray.put(np.ones(3)), 1)).result().tolist() == [2, 2, 2]
    assert client.compute(add(total.remote([1, 2]), add(ray.put(1), 1))).result() == 5
    assert dask.delayed(sum)([ray.put(1), ray.put(2)]).compute(scheduler=ray_dask.ray_dask_get) == 3


def test_a_graph_keeps_the_references_that_it_was_given(client):
    first = dask.delayed(max)(ray.put(2), 3)
    both = dask.delayed(lambda x, y: x + y)(first, ray.put(np.ones(200_000)))
    del first
    client.run_on_scheduler(lambda: None)  # the scheduler has heard of what was let go
    assert both.compute(scheduler=client)[-1] == 4


def test_what_is_submitted_keeps_the_references_that_it_was_given(client):
    futures = [client.submit(abs, ray.put(-number)) for number in range(200)]
    assert client.gather(futures) == list(range(200))


@pytest.fixture
def late_graphs(client):
    """The scheduler handles graphs a second late, and tasks linger for a moment only."""

    def begin(dask_scheduler):
        import asyncio

        from raycompat._scheduler import objects

        handlers = dask_scheduler.stream_handlers
        handle, linger_s = handlers["update-graph"], objects._LINGERS_S

        async def handle_late(*args, **kwargs):
            await asyncio.sleep(1)  # this delay is the injected fault
            await handle(*args, **kwargs)

        def end():
            handlers["update-graph"], objects._LINGERS_S = handle, linger_s

        handlers["update-graph"], objects._LINGERS_S = handle_late, 0.05
        dask_scheduler.end_late_graphs = end

    def end(dask_scheduler):
        dask_scheduler.__dict__.pop("end_late_graphs")()

    client.run_on_scheduler(begin)
    yield
    client.run_on_scheduler(end)


@pytest.mark.usefixtures("late_graphs")
def test_a_graph_may_come_after_the_release_of_its_references(client):
    with Client(client.scheduler.address, set_as_default=False) as other:
        for user in (client, other):
            futures = [user.submit(abs, ray.put(-number)) for number in range(5)]
            assert user.gather(futures) == list(range(5))


def test_the_tasks_of_references_are_released_after_their_graphs(client, wait_until):
    def loads(dask_scheduler):
        return [str(key) for key in dask_scheduler.tasks if str(key).startswith("load-")]

    assert client.submit(abs, ray.put(-1)).result() == 1
    wait_until(lambda: not client.run_on_scheduler(loads))


def test_a_reference_is_a_collection_of_its_value(client):
    ref = ray.put(5)
    assert dask.is_dask_collection(ref)
    assert dask.compute(ref, ray.put([1]), scheduler=client) == (5, [1])


def test_a_result_that_is_not_there_yet_is_waited_for(client, tmp_path):
    @ray.remote
    def wait_for(path):
        import os
        import time

        while not os.path.exists(path):
            time.sleep(0.01)
        return 3

    future = client.submit(lambda x: x + 1, wait_for.remote(str(tmp_path / "go")))
    assert not future.done()
    (tmp_path / "go").touch()
    assert future.result() == 4


def test_results_of_actors_can_be_given_to_dask(client):
    @ray.remote
    class Maker:
        def make(self, size):
            return np.ones(size)

    maker = Maker.remote()
    assert client.submit(np.sum, maker.make.remote(10)).result() == 10
    assert client.submit(np.sum, maker.make.remote(300_000)).result() == 300_000


def test_another_client_of_the_cluster_takes_references(client):
    with Client(client.scheduler.address, set_as_default=False) as other:
        assert other.submit(np.sum, ray.put(np.ones(300_000))).result() == 300_000


def test_large_values_are_not_copied_for_dask(client):
    ref = ray.put(np.ones(300_000))
    assert client.submit(lambda array: array.flags.writeable, ref).result() is False


def test_the_failure_of_a_call_is_that_of_the_dask_task(client):
    @ray.remote
    def fail():
        raise ValueError("too bad")

    # Not result(): Dask would keep the future in the traceback of its own error.
    error = client.submit(lambda x: x, fail.remote()).exception()
    assert "ValueError: too bad" in str(error)


def test_map_takes_references(client, total):
    arrays = [ray.put(np.full(200_000, number)) for number in range(4)]
    numbers = [total.remote([number]) for number in range(4)]

    def add(array, number, more=0):
        return int(array[0]) + number + more

    mapped = client.map(add, arrays, numbers, more=ray.put(1), batch_size=2)
    del arrays, numbers
    assert client.gather(mapped) == [1, 3, 5, 7]
    assert client.gather(client.map(abs, (ray.put(-1), -2, client.submit(abs, -3)))) == [1, 2, 3]


def test_another_client_takes_references_that_are_dropped_at_once(client, total):
    """They are released by one connection, and the graph comes by another."""
    with Client(client.scheduler.address, set_as_default=False) as other:
        for _ in range(10):
            assert other.submit(np.sum, total.remote([1, 2])).result() == 3
        assert other.submit(lambda x, y=0: x + y, 1, y=ray.put(2)).result() == 3
        assert other.gather(other.map(abs, [ray.put(-1), total.remote([2])])) == [1, 2]
        assert other.compute(other.persist(dask.delayed(abs)(ray.put(-4)))).result() == 4


def test_a_function_with_a_reference_fails_alone(client):
    """It is not unpickled where the task is read: an error there would end the worker."""
    ref = ray.put(1)
    with Client(client.scheduler.address, set_as_default=False) as other:
        error = other.submit(lambda: ray.get(ref)).exception()
        assert "Pass references as arguments" in str(error)
        assert other.submit(lambda: len([ref])).result() == 1
        error = other.submit(lambda: ref.key).exception()
        assert "make it an argument of the task" in str(error)
        for mapping in (client, other):
            error = mapping.map(lambda x: ray.get(ref) + x, [1])[0].exception()
            assert "Pass references as arguments of client.submit, client.map" in str(error)
            error = mapping.map(lambda x: ref.key, [1])[0].exception()
            assert "make it an argument of the task" in str(error)

            # The function has a reference, and the arguments have values.
            def both(x, y, more):
                return type(ref) is not type(x), x, y, more

            found = mapping.map(both, [ref, 2], [[ref], {"a": (ref,)}], more=[{"b": ref}])
            assert mapping.gather(found) == [
                (True, 1, [1], [{"b": 1}]),
                (True, 2, {"a": (1,)}, [{"b": 1}]),
            ]
            assert mapping.gather(mapping.map(both, np.ones(2), range(2), more=0)) == [
                (True, 1.0, 0, 0),
                (True, 1.0, 1, 0),
            ]
        assert other.submit(abs, -1).result() == 1


def test_a_reference_of_another_cluster_or_session_is_refused(client, total):
    with (
        LocalCluster(n_workers=1, processes=False, dashboard_address="127.0.0.1:0") as cluster,
        Client(cluster, set_as_default=False) as other,
    ):
        with pytest.raises(
            ValueError, match="is of the cluster .*, and the Dask client is connected"
        ):
            other.submit(abs, ray.put(1))


@pytest.mark.parametrize("use", [lambda: ray.put(1), lambda: ray.remote(lambda: 1).remote()])
def test_a_task_of_dask_is_told_that_it_is_no_driver(client, use):
    error = client.submit(use).exception()
    assert isinstance(error, RuntimeError)
    assert "not a Ray driver" in str(error)


def test_a_task_of_dask_may_connect_to_a_cluster_that_the_environment_names(client):
    def may_connect(address):
        from raycompat._launch import driver

        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("RAY_ADDRESS", address)
            driver._refuse_in_dask()
        return True

    assert client.submit(may_connect, client.scheduler.address).result()
    assert isinstance(client.submit(may_connect, "local").exception(), RuntimeError)


# --- what Dask computes, given to calls ---------------------------------------------------------


def test_a_call_gets_the_value_of_a_dask_future(client, total):
    future = client.submit(np.full, 300_000, 2.0)
    assert ray.get(total.remote(future)) == 600_000
    assert ray.get(total.remote([1], more=client.submit(int, 4))) == 5


def test_a_call_gets_the_value_of_a_collection(client, total):
    assert ray.get(total.remote(dask.array.ones(1000, chunks=100) + 1)) == 2000
    assert ray.get(total.remote(dask.delayed(lambda: [1, 2])())) == 3


def test_an_actor_gets_what_dask_computes(client):
    @ray.remote
    class Adder:
        def __init__(self, start):
            self.sum = start

        def add(self, value):
            self.sum += float(np.sum(value))
            return self.sum

    adder = Adder.remote(client.submit(float, 1))
    assert ray.get(adder.add.remote(client.submit(np.ones, 300_000))) == 300_001
    assert ray.get(adder.add.remote(dask.array.ones(10))) == 300_011


def test_a_future_of_another_client_of_the_cluster_is_taken(client, total):
    with Client(client.scheduler.address, set_as_default=False) as other:
        assert ray.get(total.remote(other.submit(np.ones, 10))) == 10


def test_a_future_of_another_cluster_is_refused(client, total):
    with (
        LocalCluster(n_workers=1, processes=False, dashboard_address="127.0.0.1:0") as cluster,
        Client(cluster, set_as_default=False) as other,
    ):
        future = other.submit(int, 1)
        with pytest.raises(ValueError, match="belongs to the Dask cluster"):
            total.remote(future)


def test_a_cancelled_future_is_refused(client, total):
    future = client.submit(int, 1)
    future.cancel()
    with pytest.raises(ValueError, match="was cancelled"):
        total.remote(future)


def test_the_failure_of_a_dask_task_is_that_of_the_call(client, total):
    future = client.submit(lambda: 1 / 0)
    with pytest.raises(ray.exceptions.RayTaskError, match="division by zero"):
        ray.get(total.remote(future))
    with pytest.raises(ray.exceptions.RayTaskError, match="division by zero"):
        ray.get(total.remote(future))  # it has failed already


def test_back_and_forth(client, total):
    value = client.submit(np.ones, 200_000)
    for _ in range(3):
        value = client.submit(lambda x: np.ones(200_000) * x, total.remote(value))
    assert value.result()[0] == 200_000.0**3


# --- Ray's names --------------------------------------------------------------------------------


def test_collections_are_computed_on_the_cluster_when_it_is_enabled(client):
    with ray_dask.enable_dask_on_ray():
        assert dask.config.get("scheduler") is ray_dask.ray_dask_get
        assert dask.array.ones(100, chunks=10).sum().compute() == 100
    assert dask.config.get("scheduler", None) is None


def test_it_can_be_disabled(client):
    before = dict(dask.config.config)
    try:
        ray_dask.enable_dask_on_ray()
        ray_dask.disable_dask_on_ray()
        assert dask.config.get("scheduler") is None
    finally:
        dask.config.config.clear()
        dask.config.config.update(before)


def test_without_a_session_there_is_no_client(no_cluster):
    with pytest.raises(ray.exceptions.RaySystemError):
        ray_dask.client()


# --- actors -------------------------------------------------------------------------------------


@pytest.fixture
def kind():
    """The class of an actor of Dask and of Ray; workers get it by value."""

    class Counter:
        step = 1

        def __init__(self):
            self.value = 0

        def add(self, amount):
            self.value += amount * self.step
            return self.value

        def fail(self):
            raise KeyError("no such counter")

        def wait(self, gate):
            return ray.get(gate[0])

    return Counter


@pytest.fixture
def counter(cluster, kind):
    return ray.remote(num_cpus=0)(kind).remote()


def test_an_actor_has_the_interface_of_dask_actors(kind, counter):
    actor = ray_dask.actor(counter)
    futures = [actor.add(number) for number in range(1, 5)]
    assert all(isinstance(each, BaseActorFuture) for each in futures)
    assert [each.result(timeout="30s") for each in futures] == [1, 3, 6, 10]
    assert (actor.value, actor.step, futures[0].done()) == (10, 1, True)
    assert "add" in dir(actor)
    assert ray.get(counter.add.remote(1)) == 11
    with pytest.raises(KeyError, match="no such counter"):
        actor.fail().result()
    with pytest.raises(AttributeError, match="absent"):
        actor.absent  # noqa: B018
    with pytest.raises(TypeError, match="not an actor handle"):
        ray_dask.actor(kind())


def test_the_future_of_an_actor_waits_no_longer_than_it_is_told(kind, counter):
    gate = ray.remote(num_gpus=2)(lambda: 7)
    holds = ray.remote(num_gpus=2, num_cpus=0)(kind).remote()
    ray.get(holds.add.remote(1))
    waits = ray_dask.actor(counter).wait([gate.remote()])
    assert not waits.done()
    with pytest.raises(TimeoutError):
        waits.result(timeout=0.1)
    ray.kill(holds)
    assert waits.result(timeout=30) == 7
    assert waits.done()


def test_the_futures_of_an_actor_are_awaited_and_passed_on(client, counter):
    actor = ray_dask.actor(counter)

    async def both():
        return await asyncio.gather(*(actor.add(number) for number in (1, 2)))

    assert asyncio.run(both()) == [1, 3]
    assert client.submit(str, actor.add(4).ref).result() == "7"

    @ray.remote
    def use(actor):
        return actor.add(1).result()

    assert ray.get(use.remote(actor)) == 8
    refused = client.submit(lambda: actor.add(1)).exception()
    assert "not connected to a cluster" in str(refused)


def test_remote_functions_call_an_actor_of_dask(client, kind):
    @ray.remote
    def use(actor):
        with ray_dask.client().as_current():
            return actor.add(2).result()

    future = client.submit(kind, actor=True)
    with client.as_current():
        assert future.result().add(1).result() == 1
    assert ray.get(use.remote(future)) == 3
    assert ray.get(use.remote(future.result())) == 5


# --- Dask on Ray --------------------------------------------------------------------------------


def test_tasks_of_a_graph_are_calls(cluster):
    @ray.remote
    def said(value):
        return f"it is {value}"

    zero = ray.put(0)

    def add(x, y):
        assert ray.get_runtime_context().get_task_id()
        return ray.get(said.remote(x + y + ray.get(zero)))

    add = dask.delayed(add)
    assert add(2, 4).compute(scheduler=ray_dask.ray_dask_get) == "it is 6"
    assert dask.compute([add(1, 1)], add(1, 2), scheduler=ray_dask.ray_dask_get_sync) == (
        ["it is 2"],
        "it is 3",
    )

    def fail():
        raise KeyError("bad")

    with pytest.raises(KeyError, match="bad"):
        dask.delayed(fail)().compute(scheduler=ray_dask.ray_dask_get)


@pytest.fixture
def brief_lingering(client):
    def linger(seconds):
        from raycompat._scheduler import objects

        before, objects._LINGERS_S = objects._LINGERS_S, seconds
        return before

    before = client.run_on_scheduler(linger, 1.0)
    yield
    client.run_on_scheduler(linger, before)


@pytest.mark.usefixtures("brief_lingering")
def test_what_is_persisted_stays_on_the_cluster(cluster):
    array = dask.array.ones(100, chunks=50) + 2
    kept = array.persist(scheduler=ray_dask.ray_dask_get)
    (again,) = ray_dask.ray_dask_persist(array)
    with ray_dask.enable_dask_on_ray():
        (enabled,) = dask.persist(array)
    for made in (kept, again, enabled):
        values = list(dict(made.dask).values())
        assert [type(value) for value in values] == [ray.ObjectRef] * 2
        assert made.sum().compute(scheduler=ray_dask.ray_dask_get) == 300
    assert dask.persist(array, scheduler="sync")[0].sum().compute(scheduler="sync") == 300


def test_annotations_are_options_of_the_calls(cluster):
    def resources():
        return ray.get_runtime_context().get_assigned_resources()

    with dask.annotate(ray_remote_args={"num_cpus": 0.5}):
        half = dask.delayed(resources)()
    whole = dask.delayed(resources)()
    found = dask.compute(half, whole, scheduler=ray_dask.ray_dask_get)
    assert [each["CPU"] for each in found] == [0.5, 1]
    given = whole.compute(scheduler=ray_dask.ray_dask_get, ray_remote_args={"num_cpus": 0.25})
    assert given["CPU"] == 0.25
    with pytest.raises(ValueError, match="ray_remote_args"):
        whole.compute(scheduler=ray_dask.ray_dask_get, resources={"GPU": 1})
    with pytest.raises(TypeError, match="num_worker"):
        whole.compute(scheduler=ray_dask.ray_dask_get, num_worker=3)


def test_callbacks_see_the_tasks(cluster):
    called = []

    class Callback(ray_dask.RayDaskCallback):
        def _ray_presubmit(self, task, key, deps):
            called.append("presubmit")
            return 10 if key.startswith("ten") else None

        def _ray_postsubmit(self, task, key, deps, object_ref):
            called.append("postsubmit")

        def _ray_pretask(self, key, object_refs):
            return f"before {key}, with {object_refs}"

        def _ray_posttask(self, key, result, pre_state):
            if pre_state != f"before {key}, with [10]" or result != 11:
                raise AssertionError(pre_state)

        def _ray_finish(self, result):
            called.append(result)

    ten = dask.delayed(lambda: 0)(dask_key_name="ten")
    eleven = dask.delayed(lambda x: x + 1)(ten, dask_key_name="eleven")
    with Callback():
        graph = {"ten": (int,), "eleven": (lambda x: x + 1, "ten")}
        assert ray_dask.ray_dask_get(graph, ["eleven"]) == [11]
    assert called == ["presubmit", "presubmit", "postsubmit", [11]]
    inner = []

    class Nested(ray_dask.RayDaskCallback):
        def _ray_presubmit(self, task, key, deps):
            inner.append(ray_dask.ray_dask_get({"x": (int, "7")}, ["x"]))

        def _ray_postsubmit_all(self, object_refs, dsk):
            inner.append([len(each) for each in object_refs])

    with Nested():
        assert ray_dask.ray_dask_get(graph, [["ten"], ["eleven"]]) == [[0], [1]]
    assert inner == [[7], [7], [1, 1]]
    bar = ray_dask.ProgressBarCallback()
    options = {"scheduler": ray_dask.ray_dask_get, "ray_callbacks": [bar]}
    assert eleven.compute(**options, _ray_enable_progress_bar=True) == 1
    sent, ended = ray.get(bar.pb.result.remote())
    assert sent == ended >= 1
    with pytest.raises(ray.exceptions.UnsupportedRayFeatureError):
        ray_dask.RayDaskCallback(pretask=print)
    functions = ray_dask.unpack_ray_callbacks([bar, ray_dask.RayDaskCallback(ray_finish=print)])
    assert functions.ray_finish_cbs == [bar._ray_finish, print]
    assert functions.ray_pretask_cbs[0] == bar._ray_pretask
    assert not any(ray_dask.unpack_ray_callbacks(None))
    assert called[4:] == []
