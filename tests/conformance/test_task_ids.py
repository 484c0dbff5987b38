"""Ids: how long they are, what they share, and who has which; more of it in `test_runtime_context`."""

from __future__ import annotations

import re

import pytest

pytestmark = pytest.mark.usefixtures("cluster")


@pytest.fixture
def ask_task(ray, cluster):
    """`ask_task(question, **options)` asks the context of a task."""

    def ask(question, **options):
        @ray.remote
        def task():
            return question(ray.get_runtime_context())

        return ray.get(task.options(**options).remote() if options else task.remote())

    return ask


@pytest.fixture
def ask_actor(ray, cluster):
    """`ask_actor(question, **options)` asks the context of an actor's method `answer`."""

    def ask(question, **options):
        @ray.remote
        class Asked:
            def answer(self):
                return question(ray.get_runtime_context())

        return ray.get(Asked.options(**{"num_cpus": 0, **options}).remote().answer.remote())

    return ask


@pytest.mark.parametrize(
    ("getter", "digits"), [("get_job_id", 8), ("get_node_id", 56), ("get_worker_id", 56)]
)
def test_an_id_of_the_driver_is_hexadecimal_and_as_long_as_ray_s(ray, getter, digits):
    id_ = getattr(ray.get_runtime_context(), getter)()
    assert re.fullmatch(f"[0-9a-f]{{{digits}}}", id_)


@pytest.mark.parametrize(
    ("getter", "digits"),
    [("get_worker_id", 56), ("get_task_id", 48), ("get_actor_id", 32)],
)
def test_an_id_of_an_actor_is_hexadecimal_and_as_long_as_ray_s(ask_actor, getter, digits):
    id_ = ask_actor(lambda context: getattr(context, getter)())
    assert re.fullmatch(f"[0-9a-f]{{{digits}}}", id_)


def test_the_first_job_of_a_cluster_is_number_one(fresh):
    ray = fresh(num_cpus=1)
    assert ray.get_runtime_context().get_job_id() == "01000000"


def test_the_id_of_a_task_ends_with_that_of_its_job(ray, ask_task):
    job = ray.get_runtime_context().get_job_id()
    assert ask_task(lambda context: context.get_task_id()).endswith(job)


def test_the_id_of_an_actor_ends_with_that_of_its_job(ray, ask_actor):
    job = ray.get_runtime_context().get_job_id()
    assert ask_actor(lambda context: context.get_actor_id()).endswith(job)


def test_the_id_of_a_call_contains_that_of_its_actor(ray, ask_actor):
    task, actor = ask_actor(lambda context: (context.get_task_id(), context.get_actor_id()))
    assert task.endswith(actor)


def test_the_id_of_a_reference_begins_with_that_of_its_task(ray):
    @ray.remote
    def task():
        return ray.get_runtime_context().get_task_id()

    ref = task.remote()
    assert ref.hex().startswith(ray.get(ref))


def test_a_reference_knows_its_job(ray):
    assert ray.put(1).job_id().hex() == ray.get_runtime_context().get_job_id()


def test_a_handle_shows_its_class_and_the_id_of_its_actor(ray):
    @ray.remote
    class Worker:
        def id(self):
            return ray.get_runtime_context().get_actor_id()

    worker = Worker.remote()
    assert re.fullmatch(rf"Actor\(.*Worker, {ray.get(worker.id.remote())}\)", repr(worker))


def test_a_task_of_an_actor_is_not_in_the_actor(ray):
    @ray.remote
    def task():
        return ray.get_runtime_context().get_actor_id()

    @ray.remote
    class Manager:
        def run(self):
            return ray.get(task.remote())

    assert ray.get(Manager.remote().run.remote()) is None


def test_a_task_of_a_task_has_its_own_id(ray):
    @ray.remote
    def inner():
        return ray.get_runtime_context().get_task_id()

    @ray.remote
    def outer():
        return ray.get_runtime_context().get_task_id(), ray.get(inner.remote())

    one, other = ray.get(outer.remote())
    assert one != other


def test_an_actor_has_its_id_in_the_constructor(ray):
    @ray.remote
    class Worker:
        def __init__(self):
            self.id_at_birth = ray.get_runtime_context().get_actor_id()

        def ids(self):
            return self.id_at_birth, ray.get_runtime_context().get_actor_id()

    at_birth, now = ray.get(Worker.remote().ids.remote())
    assert at_birth == now


def test_an_actor_has_its_name_in_the_constructor(ray):
    @ray.remote
    class Worker:
        def __init__(self):
            self.name_at_birth = ray.get_runtime_context().get_actor_name()

        def show(self):
            return self.name_at_birth

    assert ray.get(Worker.options(name="at birth").remote().show.remote()) == "at birth"


def test_the_driver_has_no_task_function_name(ray):
    assert ray.get_runtime_context().get_task_function_name() is None


def test_the_task_function_name_does_not_change_with_the_name(ask_task):
    name = ask_task(lambda context: context.get_task_function_name(), name="given")
    assert name.split(".")[-2:] == ["test_task_ids", "task"]


def test_the_function_name_of_a_method_has_the_module_of_its_class(ask_actor):
    name = ask_actor(lambda context: context.get_task_function_name())
    assert name.split(".")[-3:] == ["test_task_ids", "Asked", "answer"]


def test_a_task_that_nobody_cancelled_is_not_cancelled(ask_task):
    assert ask_task(lambda context: context.is_canceled()) is False


def test_is_canceled_in_the_driver_is_a_runtime_error(ray):
    with pytest.raises(RuntimeError, match="is only available"):
        ray.get_runtime_context().is_canceled()


def test_the_runtime_environment_is_empty_by_default(ray, ask_task):
    assert ray.get_runtime_context().get_runtime_env_string() == "{}"
    assert ask_task(lambda context: context.get_runtime_env_string()) == "{}"


def test_the_address_of_the_cluster_is_a_host_and_a_port(ray):
    assert re.fullmatch(r".+:\d+", ray.get_runtime_context().gcs_address)
