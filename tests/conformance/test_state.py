"""The state of the cluster: ``list_``, ``get_`` and ``summarize_`` functions of `ray.util.state`."""

from __future__ import annotations

import importlib
import os
import sys
import time

import pytest
from _polling import wait_until

#: What the session of these tests has.
CLUSTER = {"num_cpus": 3, "resources": {"custom": 1}}


@pytest.fixture(scope="module")
def cluster(ray):
    """A session for all tests of this module; Ray asks its dashboard's server for the state."""
    if ray.is_initialized():
        ray.shutdown()
    ray.init(
        configure_logging=False,
        log_to_driver=False,
        namespace="states",
        include_dashboard=ray.__name__ == "ray",
        **CLUSTER,
    )
    yield ray
    ray.shutdown()


@pytest.fixture
def state(ray, cluster):
    return importlib.import_module(f"{ray.__name__}.util.state")


@pytest.fixture
def gate(ray, cluster):
    """An actor at which tasks wait until it is opened."""

    @ray.remote(num_cpus=0, max_concurrency=100)
    class Gate:
        def __init__(self):
            import threading

            self.is_open = threading.Event()
            self.came = 0

        def open(self):
            self.is_open.set()

        def wait(self):
            self.came += 1
            self.is_open.wait()

        def num_came(self):
            return self.came

    gate = Gate.remote()
    yield gate
    ray.get(gate.open.remote())
    ray.kill(gate)


def tasks(state, name, **options):
    return state.list_tasks(filters=[("name", "=", name)], **options)


def states(state, name):
    return sorted(task.state for task in tasks(state, name, limit=1000))


def have_ended(state, name, count):
    """Whether so many tasks are listed as finished, with the process that ran them.

    Ray's callers and processes report separately: a task may have ended before its process is known.
    """
    found = tasks(state, name, limit=1000)
    return [(each.state, each.worker_pid is None) for each in found] == [
        ("FINISHED", False)
    ] * count


# Tasks


def test_tasks_that_have_ended_are_listed_with_where_they_ran(ray, state):
    @ray.remote
    def ends_well(number):
        return os.getpid(), ray.get_runtime_context().get_task_id()

    answers = ray.get([ends_well.remote(number) for number in range(30)])
    wait_until(lambda: have_ended(state, "ends_well", 30))
    found = {task.task_id: task for task in tasks(state, "ends_well", detail=True)}
    job = ray.get_runtime_context().get_job_id()
    node = ray.get_runtime_context().get_node_id()
    for pid, task_id in answers:
        task = found[task_id]
        assert (task.worker_pid, task.node_id, task.job_id) == (pid, node, job)
        assert (task.type, task.attempt_number) == ("NORMAL_TASK", 0)
        assert task.func_or_class_name.rpartition(".")[2] == "ends_well"
        assert task.actor_id is None
        assert task.error_type is None
        assert task.required_resources == {"CPU": 1.0}
        assert task.language == "PYTHON"
        assert 0 < task.start_time_ms <= task.end_time_ms
    assert tasks(state, "ends_well")[0].required_resources is None


def test_a_task_that_failed_says_why(ray, state):
    @ray.remote
    def ends_badly():
        raise ValueError("out of range")

    ref = ends_badly.remote()
    with pytest.raises(ValueError, match="out of range"):
        ray.get(ref)
    wait_until(lambda: states(state, "ends_badly") == ["FAILED"])
    task = state.get_task(ref)
    assert task.task_id == ref.task_id().hex()
    assert task.error_type == "TASK_EXECUTION_EXCEPTION"
    assert "out of range" in task.error_message
    assert state.get_task(task.task_id).name == "ends_badly"
    assert task["state"] == task.get("state") == "FAILED"


def test_attempts_are_rows_of_their_own(ray, state, tmp_path):
    mark = tmp_path / "tried"

    @ray.remote(max_retries=1, retry_exceptions=True)
    def ends_well_at_last():
        if not mark.exists():
            mark.touch()
            raise OSError("not yet")
        return True

    ref = ends_well_at_last.remote()
    assert ray.get(ref)
    wait_until(lambda: states(state, "ends_well_at_last") == ["FAILED", "FINISHED"])
    attempts = state.get_task(ref)
    assert {each.attempt_number: each.state for each in attempts} == {0: "FAILED", 1: "FINISHED"}
    (failed,) = [each for each in attempts if each.attempt_number == 0]
    assert failed.error_type == "TASK_EXECUTION_EXCEPTION"
    assert "not yet" in failed.error_message


def test_tasks_that_run_and_wait_are_seen(ray, state, gate):
    @ray.remote
    def waits_at_the_gate(gate):
        ray.get(gate.wait.remote())

    @ray.remote(resources={"custom": 2})
    def never_starts():
        pass

    @ray.remote
    def waits_for_an_argument(value):
        pass

    running = [waits_at_the_gate.remote(gate) for _ in range(2)]
    later = waits_for_an_argument.remote(running[0])
    infeasible = never_starts.remote()
    wait_until(lambda: ray.get(gate.num_came.remote()) == 2)

    def are_running():
        found = tasks(state, "waits_at_the_gate")
        return len(found) == 2 and all(
            task.state in ("RUNNING", "RUNNING_IN_RAY_GET") and task.worker_pid for task in found
        )

    wait_until(are_running)
    wait_until(lambda: states(state, "waits_for_an_argument") == ["PENDING_ARGS_AVAIL"])
    wait_until(lambda: states(state, "never_starts") == ["PENDING_NODE_ASSIGNMENT"])
    ray.cancel(infeasible)
    ray.get(gate.open.remote())
    ray.get([*running, later])
    wait_until(lambda: states(state, "waits_at_the_gate") == ["FINISHED"] * 2)
    wait_until(lambda: states(state, "never_starts") == ["FAILED"])
    assert tasks(state, "never_starts")[0].error_type == "TASK_CANCELLED"


def test_tasks_that_fail_before_they_run_are_seen(ray, state):
    @ray.remote(num_cpus=100)
    def too_large():
        pass

    @ray.remote
    def fails():
        raise ValueError("out of range")

    @ray.remote
    def needs_a_value(value):
        pass

    @ray.remote(num_cpus=0)
    class Ends:
        def needs_a_value_too(self, value):
            pass

        def answers(self):
            return True

        def comes_too_late(self):
            pass

    def is_dead(actor):
        try:
            return not ray.get(actor.answers.remote())
        except ray.exceptions.ActorDiedError:
            return True

    waiting = too_large.remote()
    wait_until(lambda: states(state, "too_large") == ["PENDING_NODE_ASSIGNMENT"])
    ray.cancel(waiting)
    ends = Ends.remote()
    for ref in (
        needs_a_value.remote(fails.remote()),
        ends.needs_a_value_too.remote(fails.remote()),
    ):
        with pytest.raises(ValueError, match="out of range"):
            ray.get(ref)
    ray.kill(ends)
    wait_until(lambda: is_dead(ends))
    with pytest.raises(ray.exceptions.ActorDiedError):
        ray.get(ends.comes_too_late.remote())
    expected = {
        "too_large": "TASK_CANCELLED",
        "needs_a_value": "TASK_EXECUTION_EXCEPTION",
        "Ends.needs_a_value_too": "TASK_EXECUTION_EXCEPTION",
        "Ends.comes_too_late": "ACTOR_DIED",
    }
    for name, error_type in expected.items():
        wait_until(lambda name=name: states(state, name) == ["FAILED"])
        (task,) = tasks(state, name, detail=True)
        assert task.error_type == error_type, name
        assert task.type == ("ACTOR_TASK" if name.startswith("Ends.") else "NORMAL_TASK")


def test_tasks_whose_process_dies_are_seen(ray, state):
    @ray.remote(max_retries=0)
    def crashes():
        os._exit(1)

    @ray.remote(num_cpus=0)
    class Crashes:
        def crashes_too(self):
            os._exit(1)

        def is_queued_behind(self):
            pass

    actor = Crashes.remote()
    for ref in (crashes.remote(), actor.crashes_too.remote(), actor.is_queued_behind.remote()):
        with pytest.raises((ray.exceptions.WorkerCrashedError, ray.exceptions.ActorDiedError)):
            ray.get(ref)
    expected = {
        "crashes": "WORKER_DIED",
        "Crashes.crashes_too": "ACTOR_DIED",
        "Crashes.is_queued_behind": "ACTOR_DIED",
    }
    for name, error_type in expected.items():
        wait_until(lambda name=name: states(state, name) == ["FAILED"])
        assert tasks(state, name, detail=True)[0].error_type == error_type, name


def test_methods_and_constructors_are_tasks(ray, state, gate):
    @ray.remote(num_cpus=0)
    class Sees:
        def quick(self):
            return os.getpid()

        def slow(self, gate):
            ray.get(gate.wait.remote())

    sees = Sees.remote()
    pid = ray.get([sees.quick.remote() for _ in range(20)])[0]
    slow = sees.slow.remote(gate)
    wait_until(lambda: have_ended(state, "Sees.quick", 20))
    for task in tasks(state, "Sees.quick"):
        assert (task.type, task.worker_pid) == ("ACTOR_TASK", pid)
        assert task.actor_id == sees._actor_id.hex()
    running = ("RUNNING", "RUNNING_IN_RAY_GET")
    wait_until(lambda: [each.state in running for each in tasks(state, "Sees.slow")] == [True])
    (made,) = state.list_tasks(
        filters=[("actor_id", "=", sees._actor_id.hex()), ("type", "=", "ACTOR_CREATION_TASK")]
    )
    assert made.state == "FINISHED"
    assert made.name.endswith("Sees.__init__")
    ray.get(gate.open.remote())
    ray.get(slow)


def test_a_name_that_was_given_is_the_name(ray, state):
    @ray.remote
    def has_another_name():
        pass

    ray.get(has_another_name.options(name="another name").remote())
    wait_until(lambda: states(state, "another name") == ["FINISHED"])
    (task,) = tasks(state, "another name")
    assert task.func_or_class_name.rpartition(".")[2] == "has_another_name"


def test_tasks_are_summarized_by_name(ray, state):
    @ray.remote
    def is_counted(fails):
        if fails:
            raise KeyError("no")

    refs = [is_counted.remote(number == 0) for number in range(5)]
    ray.wait(refs, num_returns=5)

    def summary():
        return state.summarize_tasks()["cluster"]

    wait_until(
        lambda: (
            summary()["summary"].get("is_counted", {}).get("state_counts")
            == {"FINISHED": 4, "FAILED": 1}
        )
    )
    assert summary()["summary"]["is_counted"]["type"] == "NORMAL_TASK"
    assert summary()["summary_by"] == "func_name"
    assert summary()["total_tasks"] >= 5


# Filters


def test_filters_limits_and_details(ray, state):
    @ray.remote
    def is_filtered():
        pass

    ray.get([is_filtered.remote() for _ in range(7)])
    wait_until(lambda: len(tasks(state, "is_filtered")) == 7)
    assert len(tasks(state, "IS_FILTERED")) == 7
    assert len(tasks(state, "is_filtered", limit=3)) == 3
    both = [("name", "=", "is_filtered"), ("state", "!=", "FINISHED")]
    assert state.list_tasks(filters=both) == []
    assert len(state.list_tasks(filters=[both[0], ("attempt_number", "=", "0")])) == 7
    with pytest.warns(UserWarning, match="'name'"):
        assert state.list_tasks(filters=[both[0], ("name", "=", "other")]) == []


def test_bad_filters_are_refused(ray, state):
    exception = importlib.import_module(f"{ray.__name__}.util.state.exception")

    @ray.remote
    def is_there():
        pass

    ray.get(is_there.remote())
    wait_until(lambda: tasks(state, "is_there"))
    with pytest.raises(exception.RayStateApiException, match="call_site"):
        state.list_tasks(filters=[("call_site", "=", "x")])
    with pytest.raises(ValueError, match="predicate"):
        state.list_tasks(filters=[("state", "<", "RUNNING")])
    with pytest.raises(ValueError):
        state.list_tasks(filters=[("state", "RUNNING")])
    with pytest.raises(exception.RayStateApiException, match="limit"):
        state.list_tasks(limit=1_000_000)


def test_what_is_unknown_is_none(state):
    assert state.get_actor("0" * 32) is None
    assert state.get_task("0" * 48) is None
    assert state.get_node("0" * 56) is None
    assert state.get_worker("0" * 56) is None
    assert state.get_placement_group("0" * 36) is None


# Actors and placement groups


def test_actors_from_their_beginning_to_their_end(ray, state):
    @ray.remote(num_cpus=0.5, max_restarts=0)
    class Listed:
        def pid(self):
            return os.getpid()

    actor = Listed.options(name="listed", lifetime="detached").remote()
    pid = ray.get(actor.pid.remote())
    found = state.get_actor(actor._actor_id.hex())
    assert (found.state, found.pid, found.name) == ("ALIVE", pid, "listed")
    assert found.class_name.rpartition(".")[2] == "Listed"
    assert found.ray_namespace == "states"
    assert found.node_id == ray.get_runtime_context().get_node_id()
    assert found.job_id == ray.get_runtime_context().get_job_id()
    assert found.is_detached is True
    assert found.required_resources == {"CPU": 0.5}
    assert found.death_cause is None
    alive = [("state", "=", "alive"), ("name", "=", "listed")]
    assert [each.actor_id for each in state.list_actors(filters=alive)] == [found.actor_id]
    assert state.list_actors(filters=alive)[0].is_detached is None
    assert state.list_actors(filters=[("pid", "=", pid)])[0].name == "listed"

    ray.kill(actor)
    wait_until(lambda: state.get_actor(found.actor_id).state == "DEAD")
    cause = state.get_actor(found.actor_id).death_cause["actor_died_error_context"]
    assert "killed" in cause["error_message"]
    del actor
    dead = state.get_actor(found.actor_id)
    assert (dead.state, dead.name) == ("DEAD", "listed")


def test_an_actor_that_cannot_start_is_pending(ray, state):
    @ray.remote(resources={"custom": 5})
    class TooLarge:
        pass

    actor = TooLarge.remote()
    wait_until(lambda: state.get_actor(actor._actor_id.hex()) is not None)
    assert state.get_actor(actor._actor_id.hex()).state == "PENDING_CREATION"
    groups = state.summarize_actors()["cluster"]["summary"]
    (counts,) = [each["state_counts"] for name, each in groups.items() if "TooLarge" in name]
    assert counts == {"PENDING_CREATION": 1}
    ray.kill(actor)


def test_placement_groups(ray, state):
    group = ray.util.placement_group([{"CPU": 1}], name="listed")
    ray.get(group.ready())
    found = state.get_placement_group(group.id.hex())
    assert (found.name, found.state) == ("listed", "CREATED")
    assert found.creator_job_id == ray.get_runtime_context().get_job_id()
    assert found.is_detached is False
    (bundle,) = found.bundles
    assert bundle["unit_resources"] == {"CPU": 1.0}
    assert bundle["node_id"] == ray.get_runtime_context().get_node_id()
    listed = state.list_placement_groups(filters=[("name", "=", "listed")])
    assert [each.placement_group_id for each in listed] == [group.id.hex()]
    ray.util.remove_placement_group(group)
    wait_until(lambda: state.get_placement_group(group.id.hex()).state == "REMOVED")


# Nodes, processes, jobs, objects, logs


def test_nodes(ray, state):
    (node,) = state.list_nodes(detail=True)
    (known,) = ray.nodes()
    assert (node.node_id, node.node_ip) == (known["NodeID"], known["NodeManagerAddress"])
    assert (node.state, node.is_head_node) == ("ALIVE", True)
    assert node.resources_total["CPU"] == 3
    assert node.resources_total["custom"] == 1
    assert node.start_time_ms > 0
    assert state.get_node(node.node_id).node_id == node.node_id


def test_processes(ray, state):
    @ray.remote(num_cpus=0)
    class Worker:
        def about(self):
            return os.getpid(), ray.get_runtime_context().get_worker_id()

    worker = Worker.remote()
    pid, worker_id = ray.get(worker.about.remote())
    found = state.get_worker(worker_id)
    assert (found.pid, found.is_alive, found.worker_type) == (pid, True, "WORKER")
    assert found.node_id == ray.get_runtime_context().get_node_id()
    assert found.ip == ray.nodes()[0]["NodeManagerAddress"]
    drivers = state.list_workers(filters=[("worker_type", "=", "DRIVER")])
    assert os.getpid() in [each.pid for each in drivers]
    ray.kill(worker)
    wait_until(lambda: not state.get_worker(worker_id).is_alive)


def test_jobs(ray, state):
    job = ray.get_runtime_context().get_job_id()
    (found,) = [each for each in state.list_jobs() if each.job_id == job]
    assert (found.type, found.status) == ("DRIVER", "RUNNING")
    assert found.driver_info.pid == str(os.getpid())
    assert found.submission_id is None


def test_objects(ray, state):
    large = ray.put(bytes(1_000_000))

    def listed():
        return state.list_objects(filters=[("object_id", "=", large.hex())])

    wait_until(listed)
    (found,) = listed()
    assert found.object_size >= 1_000_000
    assert found.reference_type == "LOCAL_REFERENCE"
    assert (found.pid, found.type) == (os.getpid(), "DRIVER")
    assert found.call_site == "disabled"
    assert state.get_objects(large.hex())[0].object_id == large.hex()
    summary = state.summarize_objects()["cluster"]
    assert summary["total_size_mb"] >= 0.9
    assert summary["callsite_enabled"] is False
    assert summary["summary"]["disabled"]["total_objects"] >= 1


def test_objects_that_only_an_actor_refers_to(ray, state):
    @ray.remote(num_cpus=0)
    class Holder:
        def hold(self):
            self.held = [ray.put(bytes(1_000_000)) for _ in range(3)]
            return os.getpid(), [ref.hex() for ref in self.held]

    actor = Holder.remote()
    pid, held = ray.get(actor.hold.remote())

    def listed():
        found = state.list_objects(filters=[("pid", "=", pid)])
        return {each.object_id: each for each in found if each.object_id in held}

    wait_until(lambda: len(listed()) == 3)
    assert all(each.object_size >= 1_000_000 for each in listed().values())
    assert {each.type for each in listed().values()} == {"WORKER"}


def test_logs(ray, state):
    @ray.remote(num_cpus=0)
    class Prints:
        def print(self, text):
            print(text)
            return os.getpid()

    actor = Prints.remote()
    pid = ray.get(actor.print.remote("first line"))
    ray.get(actor.print.remote("second line"))

    def printed(**which):
        return "".join(state.get_log(**which)).splitlines()

    def own(lines):
        return [line for line in lines if line.endswith(" line")]

    by_actor = {"actor_id": actor._actor_id.hex()}
    wait_until(lambda: own(printed(**by_actor)) == ["first line", "second line"])
    assert own(printed(**by_actor, tail=1)) == ["second line"]
    node = ray.get_runtime_context().get_node_id()
    assert own(printed(pid=pid, node_id=node)) == ["first line", "second line"]
    files = state.list_logs(node_id=node, glob_filter=f"*{pid}*")
    (name,) = files["worker_out"]
    assert own(printed(filename=name, node_id=node)) == ["first line", "second line"]
    with pytest.raises(AssertionError):
        state.list_logs()


def test_the_log_of_a_task_has_its_lines_alone(ray, state):
    @ray.remote(num_cpus=0)
    class Noise:
        def print(self):
            print("a line of another process")

    @ray.remote
    def prints(number):
        for line in range(3):
            print("line", line, "of", number)
        print("error of", number, file=sys.stderr)
        print("no end of", number, end="")

    def printed(ref, **which):
        return "".join(state.get_log(task_id=ref.task_id().hex(), **which))

    ray.get(Noise.remote().print.remote())
    refs = [prints.remote(number) for number in range(5)]
    ray.get(refs)
    for number, ref in enumerate(refs):
        lines = [f"line {line} of {number}" for line in range(3)]
        wait_until(lambda: f"no end of {number}" in _printed_or_nothing(printed, ref))  # noqa: B023
        assert printed(ref).strip().splitlines() == [*lines, f"no end of {number}"]
        assert printed(ref, tail=2).strip().splitlines() == [lines[-1], f"no end of {number}"]
        assert printed(ref, suffix="err").strip() == f"error of {number}"


def _printed_or_nothing(printed, ref):
    try:
        return printed(ref)
    except Exception:  # real Ray does not know at once where the task has run
        return ""


def test_environments_of_nodes_are_listed(cluster, state):
    ray = cluster

    @ray.remote
    def value():
        return os.environ["LISTED"]

    assert ray.get(value.options(runtime_env={"env_vars": {"LISTED": "yes"}}).remote()) == "yes"

    def found():
        rows = state.list_runtime_envs(filters=[("success", "=", "True")], detail=True)
        return [row for row in rows if row.runtime_env.get("env_vars") == {"LISTED": "yes"}]

    wait_until(found)
    (row,) = found()
    (node,) = ray.nodes()
    assert (row.success, row.node_id, row.error) == (True, node["NodeID"], None)
    assert row.creation_time_ms >= 0
    assert list(row.asdict()) == [
        *("runtime_env", "success", "creation_time_ms", "node_id", "ref_cnt", "error")
    ]
    assert state.list_runtime_envs(filters=[("node_id", "=", "f" * 56)]) == []


def test_the_timeline_has_the_phases_of_a_call(cluster):
    ray = cluster

    @ray.remote
    def phased(number):
        time.sleep(0.02)
        return number

    ray.get(phased.remote(1))

    def events():
        return [event for event in ray.timeline() if event["cat"] == "task::phased"]

    wait_until(events)
    (call,) = events()
    assert set(call) == {"cat", "name", "pid", "tid", "ts", "dur", "ph", "cname", "args"}
    assert {"name", "task_id"} <= set(call["args"])
    assert (call["ph"], call["cname"]) == ("X", "generic_work")
    phases = {
        event["cat"]: event
        for event in ray.timeline()
        if event["tid"] == call["tid"] and call["ts"] <= event["ts"] <= call["ts"] + call["dur"]
    }
    assert {name: event["cname"] for name, event in phases.items() if name == event["name"]} == {
        "task:deserialize_arguments": "rail_load",
        "task:execute": "rail_animation",
        "task:store_outputs": "rail_idle",
    }
    assert phases["task:execute"]["dur"] >= 0.015e6
