"""Named actors: namespaces, `get_if_exists`, lists, and detached actors that outlive their driver."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from _polling import is_running, wait_until
from _python_path import before_others

pytestmark = pytest.mark.usefixtures("cluster")

ROOT = Path(__file__).parents[2]

#: Seconds that a separate driver may take.
DRIVER_S = 50

#: What `get_actor` says of a name that it does not find.
NOT_FOUND = "Failed to look up actor with name"

#: The actor classes of these tests, for the test's process and for the drivers.
CLASSES = """
import os

@ray.remote(num_cpus=0)
class Counter:
    def __init__(self, number=0):
        self.number = number

    def add(self, number=1):
        self.number += number
        return self.number

    def pid(self):
        return os.getpid()

    def leave(self):
        ray.actor.exit_actor()

    def namespace(self):
        return ray.get_runtime_context().namespace

    def look_up(self, name):
        return ray.get(ray.get_actor(name).pid.remote())

    def ask_a_task(self):
        @ray.remote(num_cpus=0)
        def double(number):
            return 2 * number

        return ray.get(double.remote(self.number))


@ray.remote(num_cpus=0)
class Maker:
    def make(self, name):
        self.made = Counter.options(name=name).remote()
        return ray.get(self.made.pid.remote())
"""


@pytest.fixture
def classes(ray, cluster):
    """The actor classes of the drivers, for the test's own process."""
    scope = {"ray": ray, "__name__": "__main__"}
    exec(CLASSES, scope)
    return scope


@pytest.fixture
def Counter(classes):
    """An actor class with a number, its process id, and ways to use other actors and tasks."""
    return classes["Counter"]


@pytest.fixture
def Maker(classes):
    """An actor class that makes a named `Counter` and keeps its handle."""
    return classes["Maker"]


@pytest.fixture
def Broken(ray, cluster):
    """An actor class whose constructor fails."""

    @ray.remote(num_cpus=0)
    class Broken:
        def __init__(self):
            raise OSError("cannot be built")

    return Broken


@pytest.fixture
def space(ray, cluster, tmp_path):
    """A namespace of the test's own; the actors left in it are killed."""
    namespace = tmp_path.name
    yield namespace
    for actor in ray.util.list_named_actors(all_namespaces=True):
        if actor["namespace"].startswith(namespace):
            with contextlib.suppress(ValueError):  # it has just ended
                ray.kill(ray.get_actor(**actor))


@pytest.fixture
def driver(ray, cluster, space, tmp_path):
    """`driver(text)` starts a separate driver on the shared cluster.

    It has the classes `Counter` and `Maker`, and `tell(value)` which prints a line for `told`. It is in the
    test's namespace, or in another one, or, with None, in an anonymous one.
    """
    address = ray.get_runtime_context().gcs_address
    started = []

    def start(text, namespace=space):
        script = tmp_path / f"driver{len(started)}.py"
        script.write_text(
            f"import json, sys\nimport {ray.__name__} as ray\n{CLASSES}\n"
            f"ray.init(address={address!r}, namespace={namespace!r}, log_to_driver=False)\n"
            f"def tell(value):\n    print('told', json.dumps(value), flush=True)\n{text}"
        )
        with script.with_suffix(".stderr").open("w") as errors:
            process = subprocess.Popen(
                [sys.executable, str(script)],
                env={**os.environ, "PYTHONPATH": before_others(ROOT)},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        started.append(process)
        return process

    yield start
    for process in started:
        with process:
            process.kill()


@pytest.fixture
def drive(driver):
    """`drive(text)` runs a driver to its end and gives what it told last."""

    def run(text, **options):
        process = driver(text, **options)
        output, _ = process.communicate(timeout=DRIVER_S)
        assert process.returncode == 0, errors_of(process)
        told = [line for line in output.splitlines() if line.startswith("told ")]
        return json.loads(told[-1].removeprefix("told ")) if told else None

    return run


def told(process):
    """Wait for the next thing that a running driver tells."""
    for line in process.stdout:
        if line.startswith("told "):
            return json.loads(line.removeprefix("told "))
    raise AssertionError(errors_of(process))


def errors_of(process):
    """Return what a driver has written to its stderr."""
    return Path(process.args[-1]).with_suffix(".stderr").read_text()


def wait_until_absent(ray, name, **options):
    """Wait until the name is not found any more."""

    def is_absent():
        try:
            ray.get_actor(name, **options)
        except ValueError:
            return True
        return False

    wait_until(is_absent)


# Namespaces


def test_an_actor_is_found_in_its_namespace_only(ray, Counter, space):
    counter = Counter.options(name="counter", namespace=space).remote(5)
    found = ray.get_actor("counter", namespace=space)
    assert ray.get(found.add.remote()) == 6
    for other in (None, space + " other"):
        with pytest.raises(ValueError, match=f"{NOT_FOUND} 'counter'"):
            ray.get_actor("counter", namespace=other)
    assert ray.get(counter.add.remote()) == 7


def test_a_name_is_one_actor_in_each_namespace(ray, Counter, space):
    spaces = [space + "1", space + "2"]
    counters = [
        Counter.options(name="twin", namespace=namespace).remote(number)
        for number, namespace in enumerate(spaces)
    ]
    found = [ray.get_actor("twin", namespace=namespace) for namespace in spaces]
    assert ray.get([counter.add.remote(10) for counter in found]) == [10, 11]
    del counters


def test_a_driver_and_its_tasks_are_in_the_namespace_of_its_init(ray, Counter, driver, space):
    given = Counter.options(name="given", namespace=space).remote(5)
    elsewhere = Counter.options(name="elsewhere", namespace=space + " other").remote()
    process = driver(
        """
counter = Counter.options(name="counter").remote(5)

@ray.remote
def look():
    found = ray.get(ray.get_actor("counter").add.remote())
    return [ray.get_runtime_context().namespace, found, sorted(ray.util.list_named_actors())]

tell([ray.get_runtime_context().namespace, ray.get(counter.namespace.remote())])
tell(ray.get(look.remote()))
tell(ray.get(ray.get_actor("given").add.remote()))
actors = [Counter.options(name=name).remote() for name in ("b", "a")] + [Counter.remote()]
tell(sorted(ray.util.list_named_actors()))
sys.stdin.read()
"""
    )
    assert told(process) == [space, space]
    assert told(process) == [space, 6, ["counter", "given"]]
    assert told(process) == 6
    assert told(process) == ["a", "b", "counter", "given"]
    # Both drivers share the state of both actors.
    assert ray.get(ray.get_actor("counter", namespace=space).add.remote()) == 7
    assert ray.get(given.add.remote()) == 7
    del given, elsewhere


def test_a_driver_without_a_namespace_has_one_of_its_own(ray, Counter, drive):
    counter = Counter.options(name="anonymous").remote()
    namespace, found = drive(
        """
try:
    ray.get_actor("anonymous")
    found = True
except ValueError:
    found = False
tell([ray.get_runtime_context().namespace, found])
""",
        namespace=None,
    )
    assert namespace != ray.get_runtime_context().namespace
    assert not found
    del counter


def test_methods_are_in_the_namespace_of_their_driver_not_of_their_actor(ray, Counter, space):
    counter = Counter.options(name="elsewhere", namespace=space).remote()
    beside = Counter.options(name="beside").remote()
    assert ray.get(counter.namespace.remote()) == ray.get_runtime_context().namespace
    assert ray.get(counter.look_up.remote("beside")) == ray.get(beside.pid.remote())


def test_an_actor_made_by_an_actor_is_in_the_namespace_of_the_driver(ray, Maker):
    maker = Maker.remote()
    pid = ray.get(maker.make.remote("made inside an actor"))
    assert ray.get(ray.get_actor("made inside an actor").pid.remote()) == pid


def test_a_name_that_is_taken_names_the_call_that_finds_the_actor(ray, Counter, space):
    counter = Counter.options(name="taken", namespace=space).remote()
    with pytest.raises(ray.exceptions.ActorAlreadyExistsError, match=r"taken.*ray\.get_actor"):
        Counter.options(name="taken", namespace=space).remote()
    del counter


def test_an_actor_can_be_looked_up_while_its_constructor_runs(ray, space, tmp_path):
    @ray.remote(num_cpus=0)
    class Slow:
        def __init__(self):
            import time

            while not (tmp_path / "go").exists():
                time.sleep(0.005)

        def hello(self):
            return "hello"

    slow = Slow.options(name="slow", namespace=space).remote()
    hello = ray.get_actor("slow", namespace=space).hello.remote()
    assert ray.wait([hello], timeout=0)[0] == []
    (tmp_path / "go").touch()
    assert ray.get(hello) == "hello"
    del slow


def test_a_looked_up_handle_does_not_keep_the_actor(ray, Counter):
    counter = Counter.options(name="not kept").remote()
    pid = ray.get(counter.pid.remote())
    found = ray.get_actor("not kept")
    del counter
    wait_until(lambda: not is_running(pid))
    with pytest.raises(ray.exceptions.ActorDiedError, match="all references"):
        ray.get(found.add.remote())


@pytest.mark.parametrize(
    "options",
    [
        {"name": ""},
        {"name": "valid", "namespace": ""},
        {"name": "valid", "lifetime": "eternal"},
        {"get_if_exists": True},
    ],
    ids=["empty name", "empty namespace", "unknown lifetime", "get_if_exists without a name"],
)
def test_options_that_make_no_sense_are_a_value_error(Counter, options):
    with pytest.raises(ValueError, match="empty|not a valid|must be"):
        Counter.options(**options).remote()


@pytest.mark.parametrize("option", ["name", "namespace"])
def test_names_that_are_no_strings_are_a_type_error(Counter, option):
    with pytest.raises(TypeError, match=f"'{option}' must be"):
        Counter.options(**{"name": "valid", option: 3}).remote()


@pytest.mark.parametrize("name", ["", None])
def test_get_actor_without_a_name_is_a_value_error(ray, name):
    with pytest.raises(ValueError, match="non-empty"):
        ray.get_actor(name)


def test_get_actor_of_an_empty_namespace_is_a_value_error(ray):
    with pytest.raises(ValueError, match="not a valid namespace"):
        ray.get_actor("any", namespace="")


@pytest.mark.parametrize("namespace", [1, 0, b"bytes", True])
def test_get_actor_of_a_namespace_that_is_no_string_is_a_type_error(ray, namespace):
    with pytest.raises(TypeError, match="namespace"):
        ray.get_actor("any", namespace=namespace)


# get_if_exists


def test_get_if_exists_makes_an_actor_and_then_gives_it(ray, Counter, space):
    options = {"name": "only", "namespace": space, "get_if_exists": True}
    first = Counter.options(**options).remote(10)
    again = Counter.options(**options).remote(20)
    assert again._actor_id == first._actor_id
    assert ray.get([first.add.remote(), again.add.remote()]) == [11, 12]


def test_get_if_exists_gives_an_actor_made_without_it(ray, Counter, space):
    made = Counter.options(name="plain", namespace=space).remote(10)
    found = Counter.options(name="plain", namespace=space, get_if_exists=True).remote()
    assert ray.get(found.add.remote()) == 11
    del made


def test_get_if_exists_makes_a_new_actor_when_the_old_one_was_killed(ray, Counter, space):
    options = {"name": "again", "namespace": space, "get_if_exists": True}
    old = Counter.options(**options).remote()
    pid = ray.get(old.pid.remote())
    ray.kill(old)
    wait_until_absent(ray, "again", namespace=space)
    assert ray.get(Counter.options(**options).remote().pid.remote()) != pid


def test_get_if_exists_gives_the_detached_actor_of_another_driver_whose_name_is_taken(drive):
    text = """
shared = Counter.options(name="shared", lifetime="detached", get_if_exists=True).remote()
number = ray.get(shared.add.remote())
try:
    Counter.options(name="shared", lifetime="detached").remote()
except ray.exceptions.ActorAlreadyExistsError:
    tell([number, "taken"])
"""
    assert [drive(text), drive(text)] == [[1, "taken"], [2, "taken"]]


def test_many_tasks_that_get_if_exists_at_once_make_exactly_one(ray, space, tmp_path):
    @ray.remote(num_cpus=0)
    class Only:
        def __init__(self):
            (tmp_path / f"made.{os.getpid()}").touch()

        def pid(self):
            return os.getpid()

    options = {"name": "only", "namespace": space, "get_if_exists": True, "lifetime": "detached"}

    @ray.remote
    def call():
        return ray.get(Only.options(**options).remote().pid.remote())

    pids = ray.get([call.remote() for _ in range(20)])
    assert len(set(pids)) == 1
    assert [path.name for path in tmp_path.glob("made.*")] == [f"made.{pids[0]}"]


# list_named_actors


def test_the_list_of_all_namespaces_has_names_and_namespaces(ray, Counter, space):
    actors = [
        Counter.options(name="one", namespace=space).remote(),
        Counter.options(name="two", namespace=space + " other", lifetime="detached").remote(),
    ]
    listed = ray.util.list_named_actors(all_namespaces=True)
    assert {"name": "one", "namespace": space} in listed
    assert {"name": "two", "namespace": space + " other"} in listed
    assert not {"one", "two"} & set(ray.util.list_named_actors())
    del actors


def test_actors_that_ended_are_not_in_the_list(ray, Counter):
    names = ["killed", "died", "left", "forgotten"]
    actors = [Counter.options(name=name).remote() for name in names]
    pids = ray.get([actor.pid.remote() for actor in actors])
    assert set(names) <= set(ray.util.list_named_actors())
    ray.kill(actors[0])
    os.kill(pids[1], signal.SIGKILL)
    actors[2].leave.remote()
    del actors[3]
    wait_until(lambda: not set(names) & set(ray.util.list_named_actors()))


# Names that are free again


@pytest.mark.parametrize("lifetime", [None, "detached"])
def test_a_name_is_free_when_its_actor_was_killed(ray, Counter, space, lifetime):
    options = {"name": "killed", "namespace": space, "lifetime": lifetime}
    counter = Counter.options(**options).remote(5)
    ray.get(counter.add.remote())
    ray.kill(counter)
    wait_until_absent(ray, "killed", namespace=space)
    assert ray.get(Counter.options(**options).remote(7).add.remote()) == 8


def test_a_name_is_free_when_its_detached_actor_has_left(ray, Counter, space):
    options = {"name": "left", "namespace": space, "lifetime": "detached"}
    counter = Counter.options(**options).remote(5)
    with pytest.raises(ray.exceptions.ActorDiedError, match="exit_actor"):
        ray.get(counter.leave.remote())
    wait_until_absent(ray, "left", namespace=space)
    assert ray.get(Counter.options(**options).remote(7).add.remote()) == 8


def test_a_name_is_free_when_its_detached_actor_has_died(ray, Counter, space):
    options = {"name": "died", "namespace": space, "lifetime": "detached"}
    counter = Counter.options(**options).remote(5)
    os.kill(ray.get(counter.pid.remote()), signal.SIGKILL)
    with pytest.raises(ray.exceptions.ActorDiedError, match="\tname: died\n"):
        ray.get(counter.add.remote())
    wait_until_absent(ray, "died", namespace=space)
    assert ray.get(Counter.options(**options).remote(7).add.remote()) == 8


def test_a_name_is_free_when_its_detached_actor_could_not_be_made(ray, Broken, Counter, space):
    options = {"name": "broken", "namespace": space, "lifetime": "detached"}
    broken = Broken.options(**options).remote()
    with pytest.raises(ray.exceptions.ActorDiedError, match="cannot be built"):
        ray.get(broken.__ray_ready__.remote())
    wait_until_absent(ray, "broken", namespace=space)
    assert ray.get(Counter.options(**options).remote(7).add.remote()) == 8


@pytest.mark.parametrize("end", ["SIGKILL", "exit_actor"])
def test_the_name_of_a_dead_actor_stays_taken_while_its_handle_is_held(ray, Counter, space, end):
    options = {"name": "held", "namespace": space}
    counter = Counter.options(**options).remote(5)
    pid = ray.get(counter.pid.remote())
    if end == "SIGKILL":
        os.kill(pid, signal.SIGKILL)
    else:
        counter.leave.remote()
    wait_until(lambda: not is_running(pid))
    with pytest.raises(ray.exceptions.ActorDiedError):
        ray.get(counter.add.remote())
    assert ray.get_actor(**options)._actor_id == counter._actor_id
    with pytest.raises(ray.exceptions.ActorAlreadyExistsError):
        Counter.options(**options).remote()
    del counter
    wait_until_absent(ray, **options)
    assert ray.get(Counter.options(**options).remote(7).add.remote()) == 8


def test_a_name_is_free_when_the_last_handle_is_gone(ray, Counter, space):
    options = {"name": "forgotten", "namespace": space}
    counter = Counter.options(**options).remote(5)
    ray.get(counter.add.remote())
    del counter
    wait_until_absent(ray, **options)
    assert ray.get(Counter.options(**options).remote(7).add.remote()) == 8


# Detached actors


def test_a_detached_actor_outlives_its_handles(ray, Counter, space):
    counter = Counter.options(name="kept", namespace=space, lifetime="detached").remote(5)
    ray.get(counter.add.remote())
    del counter
    assert ray.get(ray.get_actor("kept", namespace=space).add.remote()) == 7


@pytest.mark.parametrize("end", ["", "ray.shutdown()", "os.kill(os.getpid(), 9)"])
def test_a_detached_actor_outlives_its_driver_however_that_ends(ray, driver, space, end):
    process = driver(
        "counter = Counter.options(name='kept', lifetime='detached').remote(5)\n"
        f"tell([ray.get(counter.add.remote()), ray.get(counter.pid.remote())])\n{end}"
    )
    number, pid = told(process)
    process.wait(DRIVER_S)
    assert number == 6
    counter = ray.get_actor("kept", namespace=space)
    assert ray.get([counter.add.remote(), counter.pid.remote()]) == [7, pid]


def test_detached_actors_whose_driver_has_gone_live_like_others(ray, drive, space):
    pid = drive(
        """
detached = {"lifetime": "detached"}
counter = Counter.options(name="kept", **detached).remote(5)
maker = Maker.options(name="maker", **detached).remote()
parent = Maker.options(name="parent", **detached).remote()
restarted = Counter.options(name="restarted", max_restarts=1, **detached).remote(5)
ray.get([counter.add.remote(), maker.__ray_ready__.remote(), restarted.add.remote()])
tell(ray.get(parent.make.remote("child")))
"""
    )
    # They are in their namespace alone.
    with pytest.raises(ValueError, match=f"{NOT_FOUND} 'kept'"):
        ray.get_actor("kept")
    assert {"name": "kept", "namespace": space} in ray.util.list_named_actors(all_namespaces=True)
    # They start tasks and actors.
    counter = ray.get_actor("kept", namespace=space)
    assert ray.get(counter.ask_a_task.remote()) == 12
    assert ray.get(counter.namespace.remote()) == space
    made = ray.get(ray.get_actor("maker", namespace=space).make.remote("late"))
    assert ray.get(ray.get_actor("late", namespace=space).pid.remote()) == made
    # Their actors live as long as they do.
    child = ray.get_actor("child", namespace=space)
    assert ray.get(child.pid.remote()) == pid
    ray.kill(ray.get_actor("parent", namespace=space))
    wait_until(lambda: not is_running(pid))
    with pytest.raises(ray.exceptions.ActorDiedError, match="owner has died"):
        ray.get(child.pid.remote())
    # They are restarted.
    restarted = ray.get_actor("restarted", namespace=space)
    before = ray.get(restarted.pid.remote())
    os.kill(before, signal.SIGKILL)

    def is_restarted():
        try:
            return ray.get(restarted.pid.remote()) != before
        except ray.exceptions.ActorUnavailableError:
            return False

    wait_until(is_restarted)
    assert ray.get(ray.get_actor("restarted", namespace=space).add.remote()) == 6


def test_a_detached_actor_can_be_killed_by_another_driver(ray, Counter, drive, space):
    options = {"name": "victim", "namespace": space, "lifetime": "detached"}
    counter = Counter.options(**options).remote(5)
    pid = ray.get(counter.pid.remote())
    drive("ray.kill(ray.get_actor('victim'))")
    wait_until(lambda: not is_running(pid))
    with pytest.raises(ray.exceptions.ActorDiedError, match=r"killed by `ray\.kill`"):
        ray.get(counter.add.remote())
    wait_until_absent(ray, "victim", namespace=space)
    assert ray.get(Counter.options(**options).remote(7).add.remote()) == 8


@pytest.mark.parametrize("end", ["end", "kill"])
def test_any_other_actor_ends_with_its_driver_though_another_holds_a_handle(
    ray, driver, space, end
):
    process = driver(
        "counters = [Counter.options(name=str(each), lifetime=each, max_restarts=-1).remote()"
        " for each in (None, 'non_detached')]\n"
        "tell(ray.get([each.pid.remote() for each in counters]))\nsys.stdin.read()"
    )
    pids = told(process)
    counters = [ray.get_actor(name, namespace=space) for name in ("None", "non_detached")]
    assert ray.get([each.add.remote() for each in counters]) == [1, 1]
    if end == "kill":
        process.kill()
    else:
        process.stdin.close()
    process.wait(DRIVER_S)
    wait_until(lambda: not any(is_running(pid) for pid in pids))
    for counter in counters:
        with pytest.raises(ray.exceptions.ActorDiedError, match="owner has died"):
            ray.get(counter.add.remote())
    for name in ("None", "non_detached"):
        wait_until_absent(ray, name, namespace=space)
