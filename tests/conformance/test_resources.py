"""Resources: what tasks and actors ask for, get, hold and give back, and the cluster's tables."""

from __future__ import annotations

import os
import socket
import time

import pytest
from _polling import wait_until

#: The resources of the shared session.
TOTAL = {"CPU": 4.0, "GPU": 2.0, "custom": 2.0}


def free(ray):
    """Return what is free of the shared session's resources; what is used up is 0."""
    available = ray.available_resources()
    return {name: available.get(name, 0.0) for name in TOTAL}


@pytest.fixture(autouse=True)
def all_is_free(cluster):
    """Start a test when what the one before it held has been given back."""
    wait_until(lambda: free(cluster) == TOTAL)


@pytest.fixture
def hold(ray, tmp_path):
    """`hold(**options)` starts a task that holds what it asks for until `hold.stop()`."""

    @ray.remote
    def run(started, stop):
        started.touch()
        while not stop.exists():
            time.sleep(0.01)

    class Hold:
        def __init__(self):
            self.calls = []

        def __call__(self, **options):
            started = tmp_path / f"started {len(self.calls)}"
            self.calls.append(run.options(**options).remote(started, tmp_path / "stop"))
            wait_until(started.exists)
            return self.calls[-1]

        def stop(self):
            (tmp_path / "stop").touch()

    holder = Hold()
    yield holder
    holder.stop()
    ray.wait(holder.calls, num_returns=max(1, len(holder.calls)))


@pytest.fixture
def together(ray, tmp_path):
    """`together(number, **options)` runs tasks that end when all are there; gives GPU ids."""

    def run(number, **options):
        @ray.remote
        def meet(own):
            own.touch()
            while len(list(own.parent.iterdir())) < number:
                time.sleep(0.01)
            return ray.get_gpu_ids()

        place = tmp_path / "meeting"
        place.mkdir()
        return ray.get([meet.options(**options).remote(place / str(n)) for n in range(number)])

    return run


@pytest.fixture
def most(ray):
    """`most(number, **options)` runs tasks and gives how many of them ran at one time."""

    @ray.remote
    def run():
        begin = time.monotonic()
        time.sleep(0.1)
        return begin, time.monotonic()

    def count(number, **options):
        times = ray.get([run.options(**options).remote() for _ in range(number)])
        return max(sum(begin <= at < end for begin, end in times) for at, _ in times)

    return count


# Valid requests


@pytest.mark.parametrize(
    ("option", "name"),
    [
        ({"num_cpus": -1}, "num_cpus"),
        ({"num_gpus": -0.5}, "num_gpus"),
        ({"memory": -1}, "memory"),
        ({"resources": {"custom": -1}}, "custom"),
    ],
)
def test_a_negative_quantity_is_a_value_error_at_decoration(ray, option, name):
    with pytest.raises(ValueError, match=f"quantity of resource {name} cannot be negative"):

        @ray.remote(**option)
        def task():
            pass


def test_a_negative_quantity_is_a_value_error_for_a_class(ray):
    with pytest.raises(ValueError, match="quantity of resource num_gpus cannot be negative"):

        @ray.remote(num_gpus=-1)
        class Actor:
            pass


def test_a_negative_quantity_is_a_value_error_in_options(ray):
    @ray.remote
    def task():
        pass

    with pytest.raises(ValueError, match="quantity of resource num_cpus cannot be negative"):
        task.options(num_cpus=-1)


@pytest.mark.parametrize("option", ["num_cpus", "num_gpus", "memory", "resources"])
def test_a_quantity_of_the_wrong_type_is_a_type_error_at_decoration(ray, option):
    with pytest.raises(TypeError, match=f"The type of keyword '{option}' must be"):

        @ray.remote(**{option: "1"})
        def task():
            pass


@pytest.mark.parametrize(
    ("option", "name"),
    [
        ({"num_cpus": 0.00001}, "num_cpus"),
        ({"num_gpus": 0.00001}, "num_gpus"),
        ({"resources": {"custom": 0.00001}}, "custom"),
    ],
)
def test_a_quantity_finer_than_a_ten_thousandth_is_a_value_error(ray, option, name):
    with pytest.raises(ValueError, match=f"fractional quantity of resource {name} cannot go beyon"):

        @ray.remote(**option)
        def task():
            pass


@pytest.mark.parametrize("name", ["CPU", "GPU"])
def test_cpu_and_gpu_have_keywords_of_their_own(ray, name):
    with pytest.raises(ValueError, match="Use the 'num_cpus' and 'num_gpus' keyword instead"):

        @ray.remote(resources={name: 1})
        def task():
            pass


@pytest.mark.parametrize("name", ["memory", "object_store_memory"])
def test_memory_among_the_custom_resources_is_a_value_error_at_remote(ray, name):
    @ray.remote(resources={name: 1})
    def task():
        pass

    with pytest.raises(ValueError, match="must not contain the key 'memory'"):
        task.remote()


def test_one_and_a_half_gpus_are_a_value_error_at_remote(ray):
    @ray.remote(num_gpus=1.5)
    def task():
        pass

    with pytest.raises(ValueError, match="be whole numbers. The specified quantity 1.5 is inval"):
        task.remote()


def test_one_and_a_half_gpus_are_a_value_error_for_an_actor(ray):
    @ray.remote(num_gpus=1.5)
    class Actor:
        pass

    with pytest.raises(ValueError, match="be whole numbers. The specified quantity 1.5 is inval"):
        Actor.remote()


# What is assigned


@pytest.mark.parametrize(
    ("options", "assigned"),
    [
        ({}, {"CPU": 1.0}),
        ({"num_cpus": 2}, {"CPU": 2.0}),
        ({"num_cpus": 1.5}, {"CPU": 1.5}),
        ({"num_cpus": 0.1}, {"CPU": 0.1}),
        ({"num_cpus": 0}, {}),
        ({"num_gpus": 1}, {"CPU": 1.0, "GPU": 1.0}),
        ({"num_gpus": 0}, {"CPU": 1.0}),
        ({"resources": {"custom": 0.25}}, {"CPU": 1.0, "custom": 0.25}),
        ({"memory": 1_000_000}, {"CPU": 1.0, "memory": 1_000_000.0}),
    ],
)
def test_a_task_is_assigned_what_it_asks_for_and_one_cpu_by_default(ray, options, assigned):
    @ray.remote
    def task():
        return ray.get_runtime_context().get_assigned_resources()

    assert ray.get(task.options(**options).remote()) == assigned


@pytest.mark.parametrize(
    ("options", "assigned"),
    [
        ({}, {}),
        ({"num_cpus": 1}, {"CPU": 1.0}),
        ({"num_cpus": 0}, {}),
        ({"num_gpus": 0.5}, {"CPU": 1.0, "GPU": 0.5}),
        ({"num_cpus": 0, "num_gpus": 1}, {"GPU": 1.0}),
        ({"resources": {"custom": 1}}, {"CPU": 1.0, "custom": 1.0}),
        ({"memory": 1_000_000}, {"memory": 1_000_000.0}),
    ],
)
def test_an_actor_is_assigned_a_cpu_only_with_cpus_gpus_or_custom_resources(ray, options, assigned):
    @ray.remote
    class Actor:
        def assigned(self):
            return ray.get_runtime_context().get_assigned_resources()

    assert ray.get(Actor.options(**options).remote().assigned.remote()) == assigned


def test_options_override_the_resources_of_the_decorator(ray):
    @ray.remote(num_cpus=2, resources={"custom": 1})
    def task():
        return ray.get_runtime_context().get_assigned_resources()

    assert ray.get(task.options(num_cpus=3).remote()) == {"CPU": 3.0, "custom": 1.0}
    assert ray.get(task.remote()) == {"CPU": 2.0, "custom": 1.0}


# How many run together


def test_as_many_tasks_run_together_as_there_are_cpus(together):
    together(4)


def test_no_more_tasks_run_together_than_there_are_cpus(most):
    assert most(10) <= 4


def test_tasks_of_two_cpus_run_two_together(most):
    assert most(5, num_cpus=2) <= 2


def test_two_halves_of_a_cpu_run_together(hold, together):
    hold(num_cpus=3)
    together(2, num_cpus=0.5)


def test_halves_of_a_cpu_run_together_where_whole_ones_were_taken_before(ray, together):
    @ray.remote
    def task():
        return "ran"

    for _ in range(3):
        assert ray.get([task.remote() for _ in range(100)]) == ["ran"] * 100
    together(8, num_cpus=0.5)


def test_each_of_many_sizes_is_what_its_task_is_said_to_have(ray):
    @ray.remote
    def task():
        return ray.get_runtime_context().get_assigned_resources()

    sizes = [number / 8 for number in range(1, 9)] * 4
    assigned = ray.get([task.options(num_cpus=size).remote() for size in sizes])
    assert assigned == [{"CPU": size} for size in sizes]


def test_a_small_task_does_not_wait_for_one_that_can_never_run(ray):
    @ray.remote
    def task():
        return "ran"

    never = task.options(num_cpus=100).remote()
    assert ray.get([task.options(num_cpus=0.5).remote() for _ in range(10)]) == ["ran"] * 10
    assert ray.wait([never], timeout=0)[0] == []
    ray.cancel(never)


def test_fractions_are_counted_exactly(ray, hold):
    for _ in range(3):
        hold(resources={"custom": 0.1})
    wait_until(lambda: free(ray)["custom"] == 1.7)


def test_tasks_of_no_cpu_run_when_all_cpus_are_taken(ray, hold):
    @ray.remote(num_cpus=0)
    def task():
        return "ran"

    hold(num_cpus=4)
    assert ray.get(task.remote()) == "ran"


def test_a_custom_resource_limits_how_many_run_together(most):
    assert most(5, num_cpus=0, resources={"custom": 1}) <= 2


def test_a_gpu_limits_how_many_run_together(most):
    assert most(5, num_gpus=1) <= 2


def test_what_does_not_fit_now_waits_until_it_does(ray, hold):
    @ray.remote(num_cpus=2)
    def task():
        return "ran"

    hold(num_cpus=3)
    waiting = task.remote()
    assert ray.wait([waiting], timeout=0.2) == ([], [waiting])
    hold.stop()
    assert ray.get(waiting) == "ran"


def test_a_small_task_overtakes_a_large_one_that_waits(ray, hold):
    @ray.remote
    def task():
        return "ran"

    hold(num_cpus=3)
    large = task.options(num_cpus=2).remote()
    assert ray.get(task.remote()) == "ran"
    assert ray.wait([large], timeout=0) == ([], [large])


def test_the_resource_of_a_node_places_a_task(ray):
    @ray.remote
    def where():
        return ray.get_runtime_context().get_node_id()

    node = f"node:{ray.util.get_node_ip_address()}"
    assert ray.get(where.options(resources={node: 0.01}).remote()) == ray.nodes()[0]["NodeID"]


# What can never run


@pytest.mark.parametrize(
    "options",
    [
        {"num_cpus": 5},
        {"num_gpus": 3},
        {"resources": {"custom": 3}},
        {"resources": {"unheard of": 1}},
        {"memory": 2**44},
    ],
)
def test_an_infeasible_task_waits_and_can_be_cancelled(ray, options):
    @ray.remote
    def task():
        pass

    waiting = task.options(**options).remote()
    assert ray.wait([waiting], timeout=0.2) == ([], [waiting])
    ray.cancel(waiting)
    with pytest.raises(ray.exceptions.TaskCancelledError):
        ray.get(waiting)


def test_the_get_of_an_infeasible_task_times_out(ray):
    @ray.remote(resources={"unheard of": 1})
    def task():
        pass

    waiting = task.remote()
    with pytest.raises(ray.exceptions.GetTimeoutError):
        ray.get(waiting, timeout=0.1)
    ray.cancel(waiting)


def test_an_infeasible_actor_waits(ray):
    @ray.remote(num_gpus=3)
    class Actor:
        def answer(self):
            return 42

    actor = Actor.remote()
    waiting = actor.answer.remote()
    assert ray.wait([waiting], timeout=0.2) == ([], [waiting])
    ray.kill(actor)


def test_infeasible_tasks_do_not_hold_up_others(ray):
    @ray.remote
    def task():
        return "ran"

    waiting = [task.options(num_cpus=100).remote() for _ in range(10)]
    assert ray.get([task.remote() for _ in range(10)]) == ["ran"] * 10
    for reference in waiting:
        ray.cancel(reference)


# What is given back


def test_what_a_task_holds_is_not_available_until_it_ends(ray, hold):
    hold(num_cpus=0.5, num_gpus=0.25, resources={"custom": 0.1})
    wait_until(lambda: free(ray) == {"CPU": 3.5, "GPU": 1.75, "custom": 1.9})
    hold.stop()
    wait_until(lambda: free(ray) == TOTAL)


def test_memory_that_a_task_holds_is_not_available(ray, hold):
    before = ray.available_resources()["memory"]
    hold(memory=1_000_000)
    wait_until(lambda: ray.available_resources()["memory"] == before - 1_000_000)


def test_a_resource_that_is_used_up_is_absent_from_the_available_ones(ray, hold):
    hold(num_cpus=4)
    wait_until(lambda: "CPU" not in ray.available_resources())
    assert ray.cluster_resources()["CPU"] == 4


def test_an_error_gives_the_resources_back(ray):
    @ray.remote(num_gpus=2)
    def fail():
        raise ValueError("no task today")

    for _ in range(3):
        with pytest.raises(ValueError, match="no task today"):
            ray.get(fail.remote())
    wait_until(lambda: free(ray) == TOTAL)


def test_the_death_of_a_process_gives_the_resources_back(ray):
    @ray.remote(num_gpus=2, max_retries=0)
    def die():
        os._exit(1)

    with pytest.raises(ray.exceptions.WorkerCrashedError):
        ray.get(die.remote())
    wait_until(lambda: free(ray) == TOTAL)


@pytest.mark.parametrize("force", [False, True])
def test_cancel_gives_the_resources_back(ray, hold, force):
    running = hold(num_cpus=3, num_gpus=1)
    ray.cancel(running, force=force)
    with pytest.raises((ray.exceptions.TaskCancelledError, ray.exceptions.WorkerCrashedError)):
        ray.get(running)
    wait_until(lambda: free(ray) == TOTAL)


def test_an_actor_holds_its_resources_between_calls_and_until_it_ends(ray):
    @ray.remote(num_cpus=2, num_gpus=0.5)
    class Actor:
        pass

    actor = Actor.remote()
    ray.get(actor.__ray_ready__.remote())
    wait_until(lambda: free(ray) == {"CPU": 2.0, "GPU": 1.5, "custom": 2.0})
    del actor
    wait_until(lambda: free(ray) == TOTAL)


def test_kill_gives_the_resources_of_an_actor_back(ray):
    @ray.remote(num_gpus=2)
    class Actor:
        pass

    actor = Actor.remote()
    ray.get(actor.__ray_ready__.remote())
    ray.kill(actor)
    wait_until(lambda: free(ray) == TOTAL)


def test_an_error_in_the_constructor_gives_the_resources_of_an_actor_back(ray):
    @ray.remote(num_gpus=2)
    class Actor:
        def __init__(self):
            raise ValueError("no constructor today")

    actor = Actor.remote()
    with pytest.raises(ray.exceptions.ActorDiedError):
        ray.get(actor.__ray_ready__.remote())
    wait_until(lambda: free(ray) == TOTAL)


# The resources that a waiting task lends


def test_a_task_that_waits_in_get_lends_its_cpus(ray):
    @ray.remote(num_cpus=4)
    def inner():
        return "ran"

    @ray.remote(num_cpus=4)
    def outer():
        return ray.get(inner.remote())

    assert ray.get(outer.remote()) == "ran"


def test_a_task_that_waits_in_wait_lends_its_cpus(ray):
    @ray.remote(num_cpus=4)
    def inner():
        return "ran"

    @ray.remote(num_cpus=4)
    def outer():
        ready, _ = ray.wait([inner.remote()])
        return ray.get(ready)

    assert ray.get(outer.remote()) == ["ran"]


def test_an_actor_that_waits_in_get_keeps_its_cpus(ray, tmp_path):
    @ray.remote
    def inner(started, stop):
        started.touch()
        while not stop.exists():
            time.sleep(0.01)

    @ray.remote(num_cpus=3)
    class Outer:
        def run(self, place):
            ray.get(inner.remote(place / "started", place / "stop"))

    outer = Outer.remote()
    running = outer.run.remote(tmp_path)
    wait_until((tmp_path / "started").exists)
    waiting = inner.remote(tmp_path / "started too", tmp_path / "stop")
    assert ray.wait([running, waiting], timeout=0.3) == ([], [running, waiting])
    assert not (tmp_path / "started too").exists()
    (tmp_path / "stop").touch()
    ray.get([running, waiting])


def test_nested_gets_deeper_than_there_are_cpus_end(ray):
    @ray.remote
    def deep(depth):
        return 0 if depth == 0 else 1 + ray.get(deep.remote(depth - 1))

    deep_one = deep.remote(6)
    assert ray.get(deep_one) == 6


def test_a_task_that_waits_in_get_keeps_gpus_and_custom_resources(ray, tmp_path):
    @ray.remote(num_cpus=2)
    def inner(stop):
        while not stop.exists():
            time.sleep(0.01)

    @ray.remote(num_cpus=1, num_gpus=1, resources={"custom": 1})
    def outer(stop):
        return ray.get(inner.remote(stop))

    running = outer.remote(tmp_path / "stop")
    wait_until(lambda: free(ray) == {"CPU": 2.0, "GPU": 1.0, "custom": 1.0})
    (tmp_path / "stop").touch()
    ray.get(running)


# GPUs


def test_the_driver_has_no_gpu_ids(ray):
    assert ray.get_gpu_ids() == []


@pytest.mark.parametrize("options", [{}, {"num_gpus": 0}])
def test_a_task_without_gpus_has_no_gpu_ids(ray, options):
    @ray.remote
    def ids():
        return ray.get_gpu_ids()

    assert ray.get(ids.options(**options).remote()) == []


@pytest.mark.parametrize(("num_gpus", "number"), [(1, 1), (2, 2), (0.5, 1), (1.0, 1)])
def test_a_task_has_as_many_gpu_ids_as_it_asks_for(ray, num_gpus, number):
    @ray.remote(num_gpus=num_gpus)
    def ids():
        return ray.get_gpu_ids()

    given = ray.get(ids.remote())
    assert len(given) == number
    assert set(given) <= {0, 1}


def test_cuda_visible_devices_are_the_gpu_ids(ray):
    @ray.remote(num_gpus=2)
    def task():
        return ray.get_gpu_ids(), os.environ["CUDA_VISIBLE_DEVICES"]

    assert ray.get(task.remote()) == ([0, 1], "0,1")


def test_cuda_visible_devices_of_an_actor_are_its_gpu_ids(ray):
    @ray.remote(num_gpus=1)
    class Actor:
        def __init__(self):
            self.visible = os.environ["CUDA_VISIBLE_DEVICES"]

        def look(self):
            return ray.get_gpu_ids(), self.visible, os.environ["CUDA_VISIBLE_DEVICES"]

    [number], at_construction, now = ray.get(Actor.remote().look.remote())
    assert at_construction == now == str(number)


def test_accelerator_ids_are_the_gpu_ids_as_text(ray):
    @ray.remote(num_gpus=2)
    def task():
        return ray.get_runtime_context().get_accelerator_ids()["GPU"]

    assert ray.get(task.remote()) == ["0", "1"]


def test_tasks_that_run_together_have_different_gpus(together):
    assert sorted(together(2, num_gpus=1)) == [[0], [1]]


def test_actors_have_different_gpus_and_keep_them(ray):
    @ray.remote(num_gpus=1)
    class Actor:
        def ids(self):
            return ray.get_gpu_ids()

    one, two = Actor.remote(), Actor.remote()
    first = ray.get([one.ids.remote(), two.ids.remote()])
    assert sorted(first) == [[0], [1]]
    assert ray.get([one.ids.remote(), two.ids.remote()]) == first


def test_a_gpu_is_free_for_others_when_its_actor_ends(ray):
    @ray.remote(num_gpus=1)
    class Actor:
        def ids(self):
            return ray.get_gpu_ids()

    one, two = Actor.remote(), Actor.remote()
    given, _ = ray.get([one.ids.remote(), two.ids.remote()])
    ray.kill(one)
    assert ray.get(Actor.remote().ids.remote()) == given
    del two


def test_halves_fill_one_gpu_before_the_next(ray):
    @ray.remote(num_cpus=0, num_gpus=0.5)
    class Actor:
        def ids(self):
            return ray.get_gpu_ids()

    actors, ids = [], []
    for _ in range(4):
        actors.append(Actor.remote())
        ids += ray.get(actors[-1].ids.remote())
    assert ids == [0, 0, 1, 1]


def test_a_fraction_is_not_made_of_the_remains_of_two_gpus(ray):
    @ray.remote(num_cpus=0, num_gpus=0.8)
    class Actor:
        pass

    @ray.remote(num_gpus=0.4)
    def task():
        return "ran"

    actors = [Actor.remote(), Actor.remote()]
    ray.get([actor.__ray_ready__.remote() for actor in actors])
    waiting = task.remote()
    assert ray.wait([waiting], timeout=0.2) == ([], [waiting])
    wait_until(lambda: free(ray)["GPU"] == 0.4)
    ray.kill(actors[0])
    assert ray.get(waiting) == "ran"


def test_two_gpus_are_two_whole_ones(ray, hold):
    @ray.remote(num_gpus=1)
    def task():
        return ray.get_gpu_ids()

    @ray.remote(num_gpus=2)
    def greedy():
        return ray.get_gpu_ids()

    hold(num_gpus=0.5)
    waiting = greedy.remote()
    assert ray.get(task.remote()) == [1]
    hold.stop()
    assert ray.get(waiting) == [0, 1]


# The tables


def test_cluster_resources_has_what_init_was_given_as_floats(ray):
    resources = ray.cluster_resources()
    assert {name: resources[name] for name in TOTAL} == TOTAL
    assert all(isinstance(quantity, float) for quantity in resources.values())


@pytest.mark.parametrize("name", ["memory", "object_store_memory"])
def test_cluster_resources_has_memory_in_bytes(ray, name):
    assert ray.cluster_resources()[name] > 2**20


def test_cluster_resources_has_one_of_each_node(ray):
    assert ray.cluster_resources()[f"node:{ray.util.get_node_ip_address()}"] == 1


def test_all_resources_are_available_when_nothing_runs(ray):
    total, available = ray.cluster_resources(), ray.available_resources()
    assert {*TOTAL, "memory", "object_store_memory"} <= total.keys()
    assert available.keys() == total.keys()


def test_what_objects_occupy_of_the_store_is_not_available(ray):
    size = 40 * 2**20

    def occupied():
        name = "object_store_memory"
        return ray.cluster_resources()[name] - ray.available_resources()[name]

    wait_until(lambda: occupied() < size)
    ref = ray.put(bytes(size))
    wait_until(lambda: occupied() >= size)
    del ref
    wait_until(lambda: occupied() < size)


def test_cluster_resources_is_the_same_in_a_task(ray):
    @ray.remote
    def table():
        return ray.cluster_resources()

    assert ray.get(table.remote()) == ray.cluster_resources()


def test_nodes_describes_the_node(ray):
    [node] = ray.nodes()
    assert node["Alive"] is True
    assert node["NodeID"] == ray.get_runtime_context().get_node_id()
    assert node["NodeManagerAddress"] == ray.util.get_node_ip_address()
    assert node["NodeManagerHostname"] == socket.gethostname()
    assert isinstance(node["NodeManagerPort"], int)


def test_nodes_has_the_resources_of_the_node(ray):
    [node] = ray.nodes()
    assert node["Resources"] == ray.cluster_resources()
