"""The runtime context: who and where the driver, a task and an actor are."""

from __future__ import annotations

import ipaddress
import re
import warnings

import pytest

pytestmark = pytest.mark.usefixtures("cluster")


@pytest.fixture
def in_task(ray):
    """`in_task(look, **options)` gives what `look(context)` is in a task."""

    @ray.remote
    def task(look):
        return look(ray.get_runtime_context())

    return lambda look, **options: ray.get(task.options(**options).remote(look))


@pytest.fixture
def new_actor(ray):
    """`new_actor(**options)` starts an actor whose `look(look)` gives what that is in it."""

    @ray.remote
    class Actor:
        def look(self, look):
            return look(ray.get_runtime_context())

    return lambda **options: Actor.options(**options).remote()


@pytest.fixture
def in_actor(ray, new_actor):
    """`in_actor(look, **options)` gives what `look(context)` is in a method."""
    return lambda look, **options: ray.get(new_actor(**options).look.remote(look))


def is_hex(text):
    return re.fullmatch("[0-9a-f]+", text) is not None


# Job, node and worker


def test_the_job_is_the_same_everywhere(ray, in_task, in_actor):
    job = ray.get_runtime_context().get_job_id()
    assert is_hex(job)
    assert in_task(lambda context: context.get_job_id()) == job
    assert in_actor(lambda context: context.get_job_id()) == job


def test_the_node_is_the_one_that_nodes_lists(ray, in_task, in_actor):
    node = ray.nodes()[0]["NodeID"]
    assert ray.get_runtime_context().get_node_id() == node
    assert in_task(lambda context: context.get_node_id()) == node
    assert in_actor(lambda context: context.get_node_id()) == node


def test_driver_and_actors_are_different_workers(ray, new_actor):
    driver = ray.get_runtime_context().get_worker_id()
    actors = [new_actor(), new_actor()]
    workers = ray.get(
        [actor.look.remote(lambda context: context.get_worker_id()) for actor in actors]
    )
    assert len({driver, *workers}) == 3
    assert all(is_hex(worker) for worker in (driver, *workers))


def test_an_actor_stays_the_same_worker(ray, new_actor):
    actor = new_actor()
    one, two = (actor.look.remote(lambda context: context.get_worker_id()) for _ in range(2))
    assert ray.get(one) == ray.get(two)


def test_the_node_ip_address_is_an_address(ray):
    assert ipaddress.ip_address(ray.util.get_node_ip_address())


def test_the_node_ip_address_is_the_same_in_a_task(ray):
    @ray.remote
    def address():
        return ray.util.get_node_ip_address()

    assert ray.get(address.remote()) == ray.util.get_node_ip_address()


@pytest.mark.parametrize("name", ["job_id", "node_id"])
def test_the_old_properties_are_ids_with_a_hex_method(ray, name):
    context = ray.get_runtime_context()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they are deprecated
        old = getattr(context, name)
    assert old.hex() == getattr(context, f"get_{name}")()


# Task


def test_the_driver_has_no_task(ray):
    context = ray.get_runtime_context()
    assert context.get_task_id() is None
    assert context.get_task_name() is None
    assert context.get_task_function_name() is None


def test_each_task_has_its_own_id(in_task):
    one, two = (in_task(lambda context: context.get_task_id()) for _ in range(2))
    assert is_hex(one)
    assert one != two


def test_each_call_of_a_method_has_its_own_id(ray, new_actor):
    actor = new_actor()
    one, two = (actor.look.remote(lambda context: context.get_task_id()) for _ in range(2))
    assert ray.get(one) != ray.get(two)


def test_a_reference_knows_the_task_that_makes_it(ray):
    @ray.remote
    def task():
        return ray.get_runtime_context().get_task_id()

    reference = task.remote()
    assert reference.task_id().hex() == ray.get(reference)


def test_a_task_is_named_after_its_function(ray):
    @ray.remote
    def task():
        return ray.get_runtime_context().get_task_name()

    assert ray.get(task.remote()) == "task"


def test_a_task_is_named_by_its_option(in_task):
    assert in_task(lambda context: context.get_task_name(), name="a name") == "a name"


def test_a_call_of_a_method_is_named_after_class_and_method(ray):
    @ray.remote
    class Actor:
        def look(self):
            return ray.get_runtime_context().get_task_name()

    assert ray.get(Actor.remote().look.remote()) == "Actor.look"


def test_a_call_of_a_method_is_named_by_its_option(ray, new_actor):
    named = new_actor().look.options(name="a name")
    assert ray.get(named.remote(lambda context: context.get_task_name())) == "a name"


# Actor


def test_the_driver_is_no_actor(ray):
    context = ray.get_runtime_context()
    assert context.get_actor_id() is None
    assert context.get_actor_name() is None


def test_a_task_is_no_actor(in_task):
    assert in_task(lambda context: context.get_actor_id()) is None
    assert in_task(lambda context: context.get_actor_name()) is None


def test_an_actor_has_one_id_of_its_own(ray, new_actor):
    actors = [new_actor(), new_actor()]
    first, again = (
        ray.get([actor.look.remote(lambda context: context.get_actor_id()) for actor in actors])
        for _ in range(2)
    )
    assert first == again
    assert first[0] != first[1]
    assert all(is_hex(actor_id) for actor_id in first)


def test_the_handle_knows_the_id_of_its_actor(ray, new_actor):
    actor = new_actor()
    assert actor._actor_id.hex() == ray.get(actor.look.remote(lambda c: c.get_actor_id()))


def test_an_actor_knows_its_name(in_actor):
    assert in_actor(lambda context: context.get_actor_name(), name="it knows") == "it knows"


def test_the_name_of_an_anonymous_actor_is_empty(in_actor):
    assert not in_actor(lambda context: context.get_actor_name())


def test_current_actor_is_a_handle_of_the_actor_itself(ray, new_actor):
    actor = new_actor()
    assert ray.get(actor.look.remote(lambda context: context.current_actor)) == actor


def test_current_actor_lets_an_actor_call_itself_later(ray):
    @ray.remote
    class Chain:
        def __init__(self):
            self.links = 0

        def pull(self, number):
            self.links += 1
            if number > 1:
                own = ray.get_runtime_context().current_actor
                return own.pull.remote(number - 1)
            return self.links

    chain = Chain.remote()
    result = ray.get(chain.pull.remote(3))
    while isinstance(result, ray.ObjectRef):
        result = ray.get(result)
    assert result == 3


def test_current_actor_outside_an_actor_is_a_runtime_error(ray, in_task):
    with pytest.raises(RuntimeError, match="only available in an actor"):
        _ = ray.get_runtime_context().current_actor
    with pytest.raises(RuntimeError, match="only available in an actor"):
        in_task(lambda context: context.current_actor)


def test_a_new_actor_has_not_been_reconstructed(in_actor):
    assert in_actor(lambda context: context.was_current_actor_reconstructed) is False


# Namespace


def test_the_namespace_is_the_same_everywhere(ray, in_task, in_actor):
    namespace = ray.get_runtime_context().namespace
    assert isinstance(namespace, str)
    assert namespace
    assert in_task(lambda context: context.namespace) == namespace
    assert in_actor(lambda context: context.namespace) == namespace


def test_the_namespace_of_the_context_finds_named_actors(ray, new_actor):
    actor = new_actor(name="in this namespace")
    namespace = ray.get_runtime_context().namespace
    assert ray.get_actor("in this namespace", namespace=namespace) == actor


# Resources


def test_the_driver_has_no_assigned_resources_and_says_so(ray):
    with pytest.raises(AssertionError, match=r"only\s+available"):
        ray.get_runtime_context().get_assigned_resources()


def test_assigned_resources_are_floats_by_name(in_task):
    assigned = in_task(lambda c: c.get_assigned_resources(), num_cpus=2, resources={"custom": 1})
    assert assigned == {"CPU": 2.0, "custom": 1.0}
    assert all(type(quantity) is float for quantity in assigned.values())


def test_assigned_resources_of_an_actor_are_those_of_its_options(in_actor):
    assigned = in_actor(lambda context: context.get_assigned_resources(), num_cpus=1, num_gpus=0.5)
    assert assigned == {"CPU": 1.0, "GPU": 0.5}


def test_accelerator_ids_of_the_driver_are_empty_lists(ray):
    ids = ray.get_runtime_context().get_accelerator_ids()
    assert ids["GPU"] == []
    assert all(numbers == [] for numbers in ids.values())


def test_accelerator_ids_are_texts(in_task, in_actor):
    assert in_task(lambda c: c.get_accelerator_ids()["GPU"], num_gpus=2) == ["0", "1"]
    assert in_actor(lambda c: c.get_accelerator_ids()["GPU"], num_gpus=1) in (["0"], ["1"])


def test_there_is_no_placement_group_by_default(ray, in_task):
    assert ray.get_runtime_context().get_placement_group_id() is None
    assert in_task(lambda context: context.get_placement_group_id()) is None


# The context itself


def test_get_gives_the_ids_as_a_dictionary(ray, in_task):
    def look(context):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it is deprecated
            return {name: str(value) for name, value in context.get().items()}

    assert {"job_id", "node_id", "namespace"} <= look(ray.get_runtime_context()).keys()
    assert {"job_id", "node_id", "namespace", "task_id"} <= in_task(look).keys()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_old_properties_of_task_and_actor_are_ids(ray, in_task, new_actor):
    def old_and_new(context):
        actor = context.actor_id
        task = (context.task_id.hex(), context.get_task_id())
        return task, (actor and actor.hex(), context.get_actor_id())

    for (old_task, task), actor in (
        in_task(old_and_new),
        ray.get(new_actor().look.remote(old_and_new)),
    ):
        assert old_task == task
        assert actor[0] == actor[1]
    for name in ("task_id", "actor_id"):
        with pytest.raises(AssertionError):
            getattr(ray.get_runtime_context(), name)


def test_resource_ids_are_accelerator_ids(in_actor):
    assert in_actor(lambda context: context.get_resource_ids()) == in_actor(
        lambda context: context.get_accelerator_ids()
    )


def test_the_session_name_is_the_same_everywhere(ray, in_task):
    name = ray.get_runtime_context().get_session_name()
    assert name
    assert in_task(lambda context: context.get_session_name()) == name
