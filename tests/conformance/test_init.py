"""Sessions: `init`, `shutdown`, what starts by itself, and how a driver ends."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from _polling import is_running, wait_until

#: As in conftest.py, for the tests that call `init` themselves.
QUIET = {"configure_logging": False, "include_dashboard": False, "log_to_driver": False}


@pytest.fixture
def stopped(ray, fresh, monkeypatch):
    """The implementation without a session; one that the test starts ends with it."""
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    ray.shutdown()
    return ray


def drive(ray, script):
    """Run `script` as a separate program, which finds the implementation as `ray`.

    Its output is buffered: otherwise each word of a print is a separate write, and what the
    thread that shows the prints of tasks writes can come between the words.
    """
    path = os.pathsep.join([str(Path(ray.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, "-c", f"import {ray.__name__} as ray\n" + textwrap.dedent(script)],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )


# While a session runs


def test_a_running_session_is_initialized(cluster):
    assert cluster.is_initialized() is True


def test_a_second_init_is_a_runtime_error(cluster):
    with pytest.raises(RuntimeError, match="Maybe you called ray.init twice"):
        cluster.init(num_cpus=1)


def test_a_refused_second_init_leaves_the_session(cluster):
    reference = cluster.put("kept")
    with pytest.raises(RuntimeError):
        cluster.init(num_cpus=1)
    assert cluster.get(reference) == "kept"


def test_ignore_reinit_error_keeps_the_session_as_it_is(cluster):
    cluster.init(num_cpus=1, ignore_reinit_error=True, **QUIET)
    assert cluster.cluster_resources()["CPU"] == 4


def test_init_in_a_task_is_a_second_init(cluster):
    @cluster.remote
    def task():
        cluster.init()

    with pytest.raises(RuntimeError, match="Maybe you called ray.init twice"):
        cluster.get(task.remote())


def test_a_task_and_an_actor_are_initialized(cluster):
    @cluster.remote
    def task():
        return cluster.is_initialized()

    @cluster.remote
    class Actor:
        def look(self):
            return cluster.is_initialized()

    assert cluster.get([task.remote(), Actor.remote().look.remote()]) == [True, True]


def test_only_the_address_may_be_positional(cluster):
    with pytest.raises(TypeError, match="positional argument"):
        cluster.init("local", 1)


# The context that init returns


@pytest.fixture
def context(cluster):
    """What `init` returns."""
    return cluster.init(ignore_reinit_error=True, **QUIET)


def test_the_address_info_has_the_addresses_and_the_node(cluster, context):
    info = context.address_info
    assert info["node_ip_address"] == cluster.util.get_node_ip_address()
    assert info["node_id"] == cluster.get_runtime_context().get_node_id()
    assert info["address"] == info["gcs_address"]
    assert re.fullmatch(r".+:\d+", info["address"])


def test_the_address_info_has_the_folder_of_the_session(context):
    assert Path(context.address_info["session_dir"]).is_dir()


def test_the_dashboard_url_is_a_text(context):
    assert isinstance(context.dashboard_url, str)


def test_the_context_has_the_versions(cluster, context):
    assert context.python_version == ".".join(str(part) for part in sys.version_info[:3])
    assert context.ray_version == cluster.__version__


def test_the_context_is_indexed_like_the_address_info(context):
    with pytest.warns(DeprecationWarning):
        assert context["node_id"] == context.address_info["node_id"]


# While no session runs


def test_no_session_is_not_initialized(stopped):
    assert stopped.is_initialized() is False


def test_shutdown_without_a_session_does_nothing(stopped):
    assert stopped.shutdown() is None
    assert stopped.is_initialized() is False


@pytest.mark.parametrize("name", ["nodes", "cluster_resources", "available_resources"])
def test_the_tables_of_the_cluster_do_not_start_a_session(stopped, name):
    with pytest.raises(stopped.exceptions.RaySystemError, match="Ray has not been started yet"):
        getattr(stopped, name)()
    assert not stopped.is_initialized()


def test_decoration_does_not_start_a_session(stopped):
    @stopped.remote
    def task():
        pass

    @stopped.remote(num_cpus=2)
    class Actor:
        pass

    task.options(num_cpus=2)
    Actor.options(num_cpus=2)
    assert not stopped.is_initialized()


def test_the_node_ip_address_does_not_start_a_session(stopped):
    assert stopped.util.get_node_ip_address()
    assert not stopped.is_initialized()


def test_unknown_keywords_are_a_runtime_error_that_names_them(stopped):
    with pytest.raises(RuntimeError, match=r"Unknown keyword argument\(s\): colour, size"):
        stopped.init(colour="red", size=3)
    assert not stopped.is_initialized()


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"num_cpus": 1}, "num_cpus and num_gpus must not be provided"),
        ({"num_gpus": 1}, "num_cpus and num_gpus must not be provided"),
        ({"resources": {"custom": 1}}, "resources must not be provided"),
    ],
)
def test_resources_for_a_cluster_that_runs_already_are_a_value_error(stopped, option, message):
    with pytest.raises(ValueError, match=f"When connecting to an existing cluster, {message}"):
        stopped.init(address="192.0.2.1:6379", **option)


@pytest.mark.parametrize(
    ("option", "name"),
    [
        ({"num_cpus": -1}, "CPU"),
        ({"num_gpus": -1}, "GPU"),
        ({"resources": {"custom": -1}}, "custom"),
    ],
)
def test_a_negative_quantity_is_a_value_error(stopped, option, name):
    message = f"Resource quantities must be nonnegative.*{name}"
    with pytest.raises(ValueError, match=message):
        stopped.init(**{"num_cpus": 1, **QUIET, **option})
    assert not stopped.is_initialized()


@pytest.mark.parametrize(
    ("option", "name"), [({"num_cpus": 1.5}, "CPU"), ({"resources": {"custom": 0.5}}, "custom")]
)
def test_a_node_has_whole_quantities_only(stopped, option, name):
    message = f"Resource quantities must all be whole numbers.*{name}"
    with pytest.raises(ValueError, match=message):
        stopped.init(**{"num_cpus": 1, **QUIET, **option})
    assert not stopped.is_initialized()


@pytest.mark.parametrize("option", [{"num_cpus": "1"}, {"resources": [1]}])
def test_a_quantity_of_the_wrong_type_is_an_error(stopped, option):
    with pytest.raises((TypeError, AssertionError, AttributeError)):
        stopped.init(**{"num_cpus": 1, **QUIET, **option})
    assert not stopped.is_initialized()


@pytest.mark.parametrize("name", ["CPU", "GPU", "memory"])
def test_a_default_resource_among_the_custom_ones_is_an_assertion_error(stopped, name):
    with pytest.raises(AssertionError, match=f"`{name}` cannot be a custom resource"):
        stopped.init(num_cpus=1, resources={name: 1}, **QUIET)
    assert not stopped.is_initialized()


def test_more_gpus_than_the_driver_sees_are_a_value_error(stopped, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7,5")
    with pytest.raises(ValueError, match="3 GPU, but CUDA_VISIBLE_DEVICES contains"):
        stopped.init(num_cpus=1, num_gpus=3, **QUIET)


# What starts a session by itself


def call_put(ray):
    assert isinstance(ray.put(1), ray.ObjectRef)


def call_get(ray):
    assert ray.get([]) == []


def call_task(ray):
    @ray.remote
    def task():
        return 42

    assert ray.get(task.remote()) == 42


def call_actor(ray):
    @ray.remote
    class Actor:
        def answer(self):
            return 42

    assert ray.get(Actor.remote().answer.remote()) == 42


def call_context(ray):
    assert ray.get_runtime_context().get_job_id()


@pytest.mark.parametrize("call", [call_put, call_get, call_task, call_actor, call_context])
def test_the_first_call_starts_a_session(stopped, call):
    call(stopped)
    assert stopped.is_initialized()


# Start and end


def test_shutdown_ends_the_session_and_its_processes(fresh):
    ray = fresh(num_cpus=1)

    @ray.remote
    def task():
        return os.getpid()

    @ray.remote
    class Actor:
        def pid(self):
            return os.getpid()

    actor = Actor.remote()
    pids = ray.get([task.remote(), actor.pid.remote()])
    ray.shutdown()
    assert not ray.is_initialized()
    wait_until(lambda: not any(is_running(pid) for pid in pids))


def test_shutdown_ends_work_that_never_ends_itself(fresh, tmp_path):
    ray = fresh(num_cpus=1)

    @ray.remote
    def task():
        (tmp_path / "pid.new").write_text(str(os.getpid()))
        (tmp_path / "pid.new").rename(tmp_path / "pid")
        while True:
            time.sleep(0.01)

    task.remote()
    wait_until((tmp_path / "pid").exists)
    ray.shutdown()
    pid = int((tmp_path / "pid").read_text())
    wait_until(lambda: not is_running(pid))


def test_the_context_is_a_context_manager_that_shuts_down_and_a_namespace_is_the_session_s(stopped):
    @stopped.remote
    class Actor:
        pass

    with stopped.init(num_cpus=1, namespace="mine", **QUIET) as context:
        assert stopped.is_initialized()
        assert context.address_info
        actor = Actor.options(name="someone").remote()
        assert stopped.get_runtime_context().namespace == "mine"
        assert stopped.get_actor("someone", namespace="mine") == actor
    assert not stopped.is_initialized()


def test_the_context_manager_shuts_down_after_an_error(stopped):
    with pytest.raises(KeyError, match="lost"), stopped.init(num_cpus=1, **QUIET):
        raise KeyError("lost")
    assert not stopped.is_initialized()


def test_disconnect_of_the_context_shuts_down(stopped):
    context = stopped.init(num_cpus=1, **QUIET)
    context.disconnect()
    assert not stopped.is_initialized()


def test_gpu_ids_are_those_that_the_driver_sees(fresh, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7,5")
    ray = fresh(num_cpus=1, num_gpus=2)

    @ray.remote(num_gpus=2)
    def task():
        return ray.get_gpu_ids(), os.environ["CUDA_VISIBLE_DEVICES"]

    ids, visible = ray.get(task.remote())
    assert sorted(ids) == ["5", "7"]
    assert sorted(visible.split(",")) == ["5", "7"]


@pytest.fixture(scope="class")
def left(ray):
    """What was made while a first session ran; now a second one runs."""
    ray.shutdown()
    ray.init(num_cpus=1, resources={"first": 1}, **QUIET)

    @ray.remote
    def task(value=42):
        return value

    @ray.remote
    class Actor:
        def answer(self):
            return 42

    actor = Actor.remote()
    result = task.remote()
    ray.get([result, actor.answer.remote()])
    left = SimpleNamespace(
        task=task,
        actor_class=Actor,
        actor=actor,
        put=ray.put("first"),
        result=result,
        namespace=ray.get_runtime_context().namespace,
    )
    ray.shutdown()
    ray.init(num_cpus=2, resources={"second": 1}, **QUIET)
    yield left
    ray.shutdown()


class TestASecondSession:
    """What the first session of a process leaves to the second."""

    def test_has_its_own_resources(self, ray, left):
        resources = ray.cluster_resources()
        assert resources["CPU"] == 2
        assert "second" in resources
        assert "first" not in resources

    def test_runs_the_functions_of_the_first(self, ray, left):
        assert ray.get(left.task.remote()) == 42

    def test_makes_actors_of_the_classes_of_the_first(self, ray, left):
        assert ray.get(left.actor_class.remote().answer.remote()) == 42

    @pytest.mark.parametrize("name", ["put", "result"])
    def test_does_not_know_the_objects_of_the_first(self, ray, left, name):
        with pytest.raises(ValueError, match="current Ray session"):
            ray.get(getattr(left, name), timeout=10)

    def test_takes_no_objects_of_the_first_as_arguments(self, ray, left):
        with pytest.raises(ValueError, match="current Ray session"):
            ray.get(left.task.remote(left.put), timeout=10)

    def test_cannot_call_the_actors_of_the_first(self, ray, left):
        with pytest.raises(Exception, match="dead or it's from a different cluster|Ray sessions"):
            ray.get(left.actor.answer.remote(), timeout=10)

    def test_cannot_kill_the_actors_of_the_first(self, ray, left):
        with pytest.raises(
            ray.exceptions.ActorHandleNotFoundError, match="not valid across Ray sessions"
        ):
            ray.kill(left.actor)

    def test_has_another_anonymous_namespace(self, ray, left):
        assert ray.get_runtime_context().namespace != left.namespace


# Drivers


CHATTY = """
    import os, sys
    ray.init(num_cpus=1, include_dashboard=False, **{options})

    @ray.remote
    def shout():
        print("from a task")
        print("of errors", file=sys.stderr)
        return os.getpid()

    @ray.remote
    class Shouter:
        def shout(self):
            print("from an actor")
            return os.getpid()

    shouter = Shouter.remote()
    print("pids", *ray.get([shout.remote(), shouter.shout.remote()]))
"""


@pytest.fixture(scope="class")
def driver(ray):
    """A driver that has ended, with the pids of its task and its actor."""
    ray.shutdown()
    driver = drive(ray, CHATTY.format(options={}))
    driver.pids = re.search(r"^pids (\d+) (\d+)$", driver.stdout, re.MULTILINE).groups()
    return driver


class TestADriverThatPrints:
    """Where the prints of tasks and actors appear, and what the end of a driver leaves."""

    def test_ends_without_an_error(self, driver):
        assert driver.returncode == 0
        assert "Traceback" not in driver.stderr

    def test_shows_the_prints_of_tasks_once_with_name_and_pid(self, driver):
        [line] = [line for line in driver.stdout.splitlines() if "from a task" in line]
        assert re.search(rf"\(shout pid={driver.pids[0]}\)\S* from a task$", line)

    def test_shows_the_prints_of_actors_once_with_name_and_pid(self, driver):
        [line] = [line for line in driver.stdout.splitlines() if "from an actor" in line]
        assert re.search(rf"\(Shouter pid={driver.pids[1]}\)\S* from an actor$", line)

    def test_shows_the_standard_error_of_tasks_on_its_own(self, driver):
        assert "of errors" not in driver.stdout
        assert re.search(rf"\(shout pid={driver.pids[0]}\)\S* of errors$", driver.stderr, re.M)

    def test_leaves_no_process(self, driver):
        wait_until(lambda: not any(is_running(int(pid)) for pid in driver.pids))


def test_log_to_driver_false_hides_the_prints_of_tasks_and_actors(stopped):
    driver = drive(stopped, CHATTY.format(options={"log_to_driver": False}))
    assert driver.returncode == 0
    assert "pids" in driver.stdout
    assert not re.search("from a|of errors", driver.stdout + driver.stderr)


def test_a_driver_that_fails_keeps_its_exit_status_and_leaves_no_process(stopped):
    driver = drive(
        stopped,
        """
        import os, time
        ray.init(num_cpus=1, include_dashboard=False)

        @ray.remote
        class Actor:
            def pid(self):
                return os.getpid()

            def never_end(self):
                while True:
                    time.sleep(0.01)

        actor = Actor.remote()
        print("pid", ray.get(actor.pid.remote()), flush=True)
        actor.never_end.remote()
        raise SystemExit(3)
        """,
    )
    assert driver.returncode == 3
    pid = int(re.search(r"^pid (\d+)$", driver.stdout, re.MULTILINE).group(1))
    wait_until(lambda: not is_running(pid))
