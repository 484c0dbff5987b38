"""Drivers as separate scripts: what they need and leave, and more tests of `init`."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from _polling import is_running, wait_until
from _python_path import before_others

ROOT = Path(__file__).parents[2]

#: Seconds that a separate driver may take.
DRIVER_S = 50

QUIET = {"configure_logging": False, "include_dashboard": False, "log_to_driver": False}

#: The first line of a separate driver.
INIT = "ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)\n"


@pytest.fixture
def ended(ray, fresh):
    """No session runs, nor will after the test."""
    ray.shutdown()
    return ray


def run_script(ray, folder, text):
    """Run a script in a folder as a driver of its own, with `ray` imported; return what it was."""
    script = folder / "driver.py"
    script.write_text(f"import {ray.__name__} as ray\n{text}")
    environment = {**os.environ, "PYTHONPATH": before_others(ROOT)}
    return subprocess.run(
        [sys.executable, str(script)],
        check=False,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=DRIVER_S,
    )


@pytest.fixture
def drive(ray, tmp_path):
    """`drive(text)` runs a script as a separate driver, with `ray` imported; returns its output."""
    ray.shutdown()
    return lambda text: run_script(ray, tmp_path, text)


# Scripts

SCRIPT = f"""
import os

CONSTANT = 5

def helper(number):
    return CONSTANT * number

class Point:
    pass

class Mine(Exception):
    pass

@ray.remote
def task(number):
    return helper(number)

@ray.remote
def same(point):
    assert isinstance(point, Point)
    return point

@ray.remote
def fail():
    raise Mine("own")

if __name__ == "__main__":
    os.environ["OF_THE_DRIVER"] = "seen"
    {INIT}

    @ray.remote
    def beside():
        import beside_the_script
        return beside_the_script.VALUE

    @ray.remote
    def folder():
        return os.getcwd()

    @ray.remote
    def variable():
        return os.environ.get("OF_THE_DRIVER")

    print("answer", ray.get(task.remote(4)))
    print("is point:", type(ray.get(same.remote(Point()))) is Point)
    try:
        ray.get(fail.remote())
    except Mine:
        print("caught")
    print("value", ray.get(beside.remote()))
    print("folder", ray.get(folder.remote()))
    print("variable", ray.get(variable.remote()))
"""


@pytest.fixture(scope="module")
def script(ray, tmp_path_factory):
    """A script that has ended, with its folder."""
    ray.shutdown()
    folder = tmp_path_factory.mktemp("script")
    (folder / "beside_the_script.py").write_text("VALUE = 7\n")
    done = run_script(ray, folder, SCRIPT)
    assert done.returncode == 0, done.stderr
    done.folder = folder
    return done


def test_a_task_finds_what_the_script_defines(script):
    assert "answer 20" in script.stdout


def test_an_instance_of_a_class_of_the_script_comes_back_as_one(script):
    assert "is point: True" in script.stdout


def test_an_error_class_of_the_script_can_be_caught(script):
    assert "caught" in script.stdout


def test_a_task_can_import_what_lies_beside_the_script(script):
    assert "value 7" in script.stdout


def test_a_task_runs_in_the_folder_of_the_driver(script):
    assert f"folder {script.folder}" in script.stdout


def test_a_task_has_the_environment_of_the_driver(script):
    assert "variable seen" in script.stdout


#: Prints the process ids of all that the driver has started.
LIST = (
    INIT
    + """
import json, os, psutil

@ray.remote
class Worker:
    def pid(self):
        return os.getpid()

worker = Worker.remote()
workers = [ray.get(worker.pid.remote())]
children = [child.pid for child in psutil.Process().children(recursive=True)]
print(json.dumps(workers + children), flush=True)
"""
)


#: Ends a driver by the error of a task.
FAILS = """
@ray.remote
def fail():
    raise KeyError("nobody catches this")

ray.get(fail.remote())
"""


def pids_of(done):
    """Return the process id of the actor, and those of all processes that the driver started."""
    pids = json.loads(done.stdout.splitlines()[-1])
    assert len(pids) >= 2
    return pids[0], pids


@pytest.mark.parametrize(
    ("end", "status"),
    [("", 0), ("ray.shutdown()", 0), (FAILS, 1)],
    ids=["its end", "shutdown", "error"],
)
def test_a_driver_leaves_no_process_however_it_ends(drive, end, status):
    done = drive(LIST + end)
    assert done.returncode == status, done.stderr
    assert ("nobody catches this" in done.stderr) == (end == FAILS)
    _, pids = pids_of(done)
    wait_until(lambda: not any(is_running(pid) for pid in pids))


@pytest.mark.parametrize(
    ("end", "status"),
    [("os._exit(4)", 4), ("os.kill(os.getpid(), 9)", -9)],
    ids=["_exit", "SIGKILL"],
)
def test_a_driver_that_dies_takes_its_actors_with_it(drive, end, status):
    done = drive(LIST + end)
    assert done.returncode == status, done.stderr
    actor, _ = pids_of(done)
    wait_until(lambda: not is_running(actor))


#: The task ends when the main thread has ended, and Python accepts no more work for its pools of threads.
WAITS_AT_ITS_END = (
    INIT
    + """
import concurrent.futures.thread, os, threading, time

@ray.remote
def wait_for_file():
    while not os.path.exists("go"):
        time.sleep(0.01)
    return "arrived"

def wait_for_future():
    threading.main_thread().join()
    while not concurrent.futures.thread._shutdown:
        time.sleep(0.01)
    open("go", "w").close()
    print(future.result(30), flush=True)

future = wait_for_file.remote().future()
threading.Thread(target=wait_for_future).start()
"""
)


def test_a_thread_gets_the_result_of_a_future_after_the_main_thread_has_ended(drive):
    done = drive(WAITS_AT_ITS_END)
    assert done.stdout == "arrived\n"
    assert "Traceback" not in done.stderr


# init


def test_a_session_that_started_by_itself_has_the_machine_s_cpus(ended):
    ended.put(1)
    assert ended.cluster_resources()["CPU"] == len(os.sched_getaffinity(0))


def test_a_detached_actor_ends_with_the_cluster_that_its_driver_started(fresh):
    ray = fresh(num_cpus=1, namespace="kept")

    @ray.remote
    class Named:
        pass

    actor = Named.options(name="named", lifetime="detached").remote()
    ray.get(actor.__ray_ready__.remote())
    ray = fresh(num_cpus=1, namespace="kept")
    with pytest.raises(ValueError, match="Failed to look up actor"):
        ray.get_actor("named")


def test_a_namespace_that_is_no_string_is_a_type_error(ended):
    with pytest.raises(TypeError, match="namespace"):
        ended.init(num_cpus=1, namespace=1, **QUIET)
    assert not ended.is_initialized()


def test_auto_without_a_cluster_is_a_connection_error(ended):
    with pytest.raises(ConnectionError, match="Could not find any running Ray instance"):
        ended.init(address="auto", **QUIET)
    assert not ended.is_initialized()


def test_after_a_wrong_init_a_right_one_works_with_functions_from_before(ended):
    @ended.remote
    def double(number):
        return 2 * number

    with pytest.raises(RuntimeError, match="Unknown keyword"):
        ended.init(no_such_keyword=1)
    ended.init(num_cpus=1, object_store_memory=200_000_000, **QUIET)
    assert ended.cluster_resources()["CPU"] == 1
    assert ended.cluster_resources()["object_store_memory"] == 200_000_000
    assert ended.get(double.remote(2)) == 4


def test_a_cluster_of_no_cpus_has_no_entry_for_them_and_runs_tasks_that_need_none(fresh):
    ray = fresh(num_cpus=0)
    assert "CPU" not in ray.cluster_resources()

    @ray.remote(num_cpus=0)
    def task():
        return "ran"

    assert ray.get(task.remote()) == "ran"


def test_too_small_an_object_store_is_a_value_error(ended):
    with pytest.raises(ValueError, match="object store"):
        ended.init(num_cpus=1, object_store_memory=1000, **QUIET)


def test_an_anonymous_namespace_is_a_random_uuid(cluster):
    namespace = cluster.get_runtime_context().namespace
    assert [len(part) for part in namespace.split("-")] == [8, 4, 4, 4, 12]


def test_the_context_repeats_the_address_when_the_second_init_is_ignored(cluster):
    context = cluster.init(ignore_reinit_error=True)
    assert context.address_info["gcs_address"] == cluster.get_runtime_context().gcs_address


PLACES = """
import os
os.environ["RAY_record_ref_creation_sites"] = WANTED

@ray.remote
def called():
    return 1

@ray.remote
class Actor:
    def method(self):
        return 1

def call_both(actor):
    return called.remote(), actor.method.remote()

ray.init(num_cpus=1)
of_task, of_actor = call_both(Actor.remote())
ray.get([of_task, of_actor])
print([of_task.call_site(), of_actor.call_site()])
"""


def test_references_know_the_lines_that_made_them_if_the_environment_says_so(drive, tmp_path):
    line = 1 + next(
        number for number, text in enumerate(PLACES.splitlines(), 1) if "return called" in text
    )
    done = drive(PLACES.replace("WANTED", "'1'"))
    place = f"{tmp_path}/driver.py:call_both:{line}"
    of_task, of_actor = ast.literal_eval(done.stdout.splitlines()[-1])
    assert of_task.startswith(f"(task call)  | {place} | "), done.stderr
    assert of_actor.startswith(f"(actor call)  | {place} | ")
    done = drive(PLACES.replace("WANTED", "'0'"))
    assert done.stdout.splitlines()[-1] == "['', '']", done.stderr
