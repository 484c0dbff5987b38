"""Leases: calls that go straight to executors are as good as those that go by the scheduler."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections import Counter

import numpy as np
import psutil
import pytest

import raycompat as ray
from raycompat._messages.nodes import Inventory
from raycompat.util.scheduling_strategies import PlacementGroupSchedulingStrategy

LARGE = 1 << 20


@ray.remote
def number(value=0):
    return value


@ray.remote
def pid_of():
    return os.getpid()


@ray.remote
def wait_for(path, value=None):
    """Run until the file exists."""
    while not os.path.exists(path):
        time.sleep(0.001)
    return value


@ray.remote
def log_and_wait(log, path, value):
    with open(log, "a") as file:
        file.write(f"{value}\n")
    while not os.path.exists(path):
        time.sleep(0.001)
    return value


@pytest.fixture(scope="module", autouse=True)
def switched_on():
    """Whatever the rest of the suite runs with."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAYCOMPAT_LEASES", "1")
        yield


def lines_of(path) -> list[str]:
    return path.read_text().split() if path.exists() else []


def warm_up() -> None:
    """Make short calls, so that their estimated duration is short and many are sent at once."""
    for _ in range(20):
        assert ray.get([number.remote(each) for each in range(100)]) == list(range(100))


# --- many sizes share leases ---------------------------------------------------------------------


def test_hundreds_of_sizes_share_a_few_leases(cluster, session, monkeypatch):
    """Count the requests for leases: without sharing, each size would request three."""
    submit, asked = session.submit, []

    def count(spec):
        asked.extend([spec["key"]] if spec["kind"] == "lease" else [])
        submit(spec)

    monkeypatch.setattr(session, "submit", count)
    sizes = [(each % 200 + 1) / 200 for each in range(2000)]
    refs = [number.options(num_cpus=size).remote(each) for each, size in enumerate(sizes)]
    assert ray.get(refs) == list(range(2000))
    assert len(asked) < 100


def test_short_calls_without_resources_share_a_few_processes(cluster):
    calls = [pid_of.options(num_cpus=0).remote() for _ in range(200)]
    assert len(set(ray.get(calls))) < 20


def test_calls_without_resources_all_run_at_the_same_time(cluster, tmp_path, wait_until):
    stop, log = tmp_path / "stop", tmp_path / "log"
    refs = [
        log_and_wait.options(num_cpus=0).remote(str(log), str(stop), each) for each in range(10)
    ]
    wait_until(lambda: len(lines_of(log)) == 10)
    wait_until(lambda: ray.available_resources().get("CPU") == 2)
    stop.touch()
    assert ray.get(refs) == list(range(10))


def test_a_lease_is_as_large_as_a_call_that_goes_on_in_it(cluster, session, tmp_path, wait_until):
    """CPUs that the call did not ask for are free for others, and the lease returns the rest."""
    stop = tmp_path / "stop"
    warm_up()
    refs = [wait_for.options(num_cpus=0.25).remote(str(stop)) for _ in range(2)]
    wait_until(lambda: ray.available_resources().get("CPU") == 1.5)
    assert ray.get(number.options(num_cpus=1.5).remote(1)) == 1
    stop.touch()
    ray.get(refs)
    wait_until(lambda: ray.available_resources().get("CPU") == 2)


def test_a_call_that_is_too_large_for_a_trimmed_lease_goes_elsewhere(cluster, tmp_path, wait_until):
    """Even when it was sent before its caller knew."""
    warm_up()
    for turn in range(5):
        stop = tmp_path / f"stop {turn}"
        first = [wait_for.options(num_cpus=0.25).remote(str(stop)) for _ in range(2)]
        others = [number.options(num_cpus=0.25 + each % 4 / 4).remote(each) for each in range(100)]
        assert ray.get(others) == list(range(100))
        stop.touch()
        ray.get(first)


# --- no call is a task ----------------------------------------------------------------------------


def test_short_calls_are_no_tasks_and_their_leases_are_returned(cluster, session, inventory):
    refs = [number.remote(each) for each in range(500)]
    assert ray.get(refs) == list(range(500))
    assert all(key.startswith("lease-") for key in inventory("tasks"))
    assert all(
        entry.channel is not None for entry in map(session.table.get, [r._key for r in refs])
    )


def test_idle_leases_come_back_by_themselves(cluster, inventory, wait_until):
    ray.get(number.remote())
    wait_until(lambda: not inventory("leases") and not inventory("tasks"))
    wait_until(lambda: ray.available_resources().get("CPU") == 2)


def test_dask_knows_neither_a_small_result_nor_a_large_argument(cluster, inventory, wait_until):
    large = ray.put(np.ones(LARGE))

    @ray.remote
    def total(array):
        return float(array.sum())

    ref = total.remote(large)
    assert ray.get(ref) == LARGE
    wait_until(lambda: inventory("tasks") == [])  # the lease was one
    assert ray.get(ref) == LARGE


# --- no call waits in vain ------------------------------------------------------------------------


@pytest.fixture
def group(cluster):
    """All CPUs of the cluster, in one bundle."""
    made = ray.util.placement_group([{"CPU": 2}])
    ray.get(made.ready())
    yield made
    ray.util.remove_placement_group(made)


def in_group(function, group, **options):
    strategy = PlacementGroupSchedulingStrategy(group)
    return function.options(scheduling_strategy=strategy, **options)


def test_calls_in_a_placement_group_are_no_tasks_either(group, inventory):
    assert ray.get([in_group(number, group).remote(i) for i in range(200)]) == list(range(200))
    assert inventory("leases")
    assert all(key.startswith("lease-") for key in inventory("tasks"))


def test_leases_of_a_placement_group_make_room_for_its_other_calls(group, tmp_path):
    """One that needs all CPUs at once, between small ones that come without end."""
    small, stop = in_group(number, group), threading.Event()

    def call_on():
        while not stop.is_set():
            ray.get([small.remote() for _ in range(50)])

    caller = threading.Thread(target=call_on)
    caller.start()
    try:
        large = in_group(number, group, num_cpus=2)
        for value in range(5):
            assert ray.get(large.remote(value), timeout=60) == value
        actor = in_group(ray.remote(Answer), group, num_cpus=1).remote()
        assert ray.get(actor.answer.remote(), timeout=60) == 42
        del actor
    finally:
        stop.set()
        caller.join()


class Answer:
    def answer(self):
        return 42


@pytest.mark.parametrize("max_retries", [0, 3])
def test_a_call_ends_with_its_placement_group(cluster, tmp_path, wait_until, max_retries):
    made = ray.util.placement_group([{"CPU": 2}])
    log = tmp_path / "log"
    running = in_group(log_and_wait, made, max_retries=max_retries).remote(
        str(log), str(tmp_path / "never"), 1
    )
    wait_until(lambda: lines_of(log))
    ray.util.remove_placement_group(made)
    with pytest.raises(ray.exceptions.TaskPlacementGroupRemoved):
        ray.get(running, timeout=60)


def test_each_call_in_a_removed_group_fails(cluster):
    made = ray.util.placement_group([{"CPU": 1}])
    assert made.wait(30)
    ray.util.remove_placement_group(made)
    calls = [in_group(log_and_wait, made).remote("", "", 1) for _ in range(5)]
    for call in calls:
        with pytest.raises(ray.exceptions.TaskPlacementGroupRemoved):
            ray.get(call, timeout=30)


def test_what_was_sent_behind_a_long_call_is_run_elsewhere(cluster, tmp_path):
    warm_up()
    go = tmp_path / "go"

    @ray.remote
    def sometimes_long(path):
        while path and not os.path.exists(path):
            time.sleep(0.001)
        return path

    for _ in range(20):
        ray.get([sometimes_long.remote("") for _ in range(50)])
    long = sometimes_long.remote(str(go))
    short = [sometimes_long.remote("") for _ in range(200)]
    assert ray.get(short, timeout=60) == [""] * 200
    assert ray.wait([long], timeout=0)[0] == []
    go.touch()
    assert ray.get(long) == str(go)


def test_actors_and_calls_that_go_by_the_scheduler_get_their_turn(cluster):
    @ray.remote
    class Someone:
        def one(self):
            return 1

    @ray.remote
    def short(_):
        time.sleep(0.002)

    def refill(refs):
        ready, rest = ray.wait(refs, num_returns=min(20, len(refs)))
        return [*rest, *(short.remote(each) for each in range(len(ready)))]

    refs = [short.remote(each) for each in range(200)]
    others = [
        Someone.remote().one.remote(),
        number.options(scheduling_strategy="SPREAD").remote(1),
        number.options(num_cpus=2).remote(1),
        number.options(num_gpus=1).remote(1),
    ]
    deadline = time.monotonic() + 60
    while len(ray.wait(others, num_returns=len(others), timeout=0)[0]) < len(others):
        assert time.monotonic() < deadline
        refs = refill(refs)
    assert ray.get(others) == [1] * 4
    ray.get(refs)


# --- failures -------------------------------------------------------------------------------------


def test_calls_survive_the_death_of_the_process_that_they_were_sent_to(cluster, tmp_path):
    warm_up()

    @ray.remote
    def die_once(path, value):
        if value == 300 and not os.path.exists(path):
            with open(path, "w"):
                pass
            os.kill(os.getpid(), signal.SIGKILL)
        return value

    for _ in range(20):
        ray.get([die_once.remote("", each) for each in range(50)])
    refs = [die_once.remote(str(tmp_path / "died"), each) for each in range(1000)]
    assert ray.get(refs, timeout=60) == list(range(1000))


def test_of_calls_that_may_not_be_tried_again_only_the_one_that_had_begun_fails(cluster, tmp_path):
    log = tmp_path / "log"

    @ray.remote(max_retries=0)
    def note(path, value):
        if path:
            with open(path, "a") as file:
                file.write(f"{value}\n")
            if value == 100:
                os.kill(os.getpid(), signal.SIGKILL)
        return value

    for _ in range(20):
        ray.get([note.remote("", each) for each in range(50)])
    refs = [note.remote(str(log), each) for each in range(300)]
    outcomes = []
    for ref in refs:
        try:
            outcomes.append(ray.get(ref, timeout=60))
        except ray.exceptions.WorkerCrashedError as error:
            assert "The process of note " in str(error)
            assert "SIGKILL" in str(error)
            outcomes.append(None)
    assert outcomes == [each if each != 100 else None for each in range(300)]
    assert sorted(map(int, lines_of(log))) == list(range(300))


def test_a_call_that_always_kills_its_process_spends_its_tries(cluster, tmp_path):
    log = tmp_path / "log"

    @ray.remote(max_retries=2)
    def die():
        with open(log, "a") as file:
            file.write("begun\n")
        os._exit(3)

    with pytest.raises(ray.exceptions.WorkerCrashedError, match="exit code 3"):
        ray.get(die.remote(), timeout=60)
    assert lines_of(log) == ["begun"] * 3


def test_an_exception_is_tried_again_when_that_was_asked_for(cluster, tmp_path):
    log = tmp_path / "log"

    @ray.remote(max_retries=3, retry_exceptions=[KeyError])
    def stubborn():
        with open(log, "a") as file:
            file.write("begun\n")
        if len(open(log).read().split()) < 3:
            raise KeyError("not yet")
        return "done"

    assert ray.get(stubborn.remote(), timeout=60) == "done"
    assert lines_of(log) == ["begun"] * 3


def test_an_idle_process_that_is_killed_is_replaced(cluster):
    pids = set(ray.get([pid_of.remote() for _ in range(50)]))
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    assert ray.get([number.remote(each) for each in range(50)], timeout=60) == list(range(50))
    assert pids.isdisjoint(ray.get([pid_of.remote() for _ in range(50)], timeout=60))


# --- cancellation ---------------------------------------------------------------------------------


@pytest.mark.parametrize("force", [False, True])
def test_a_call_is_cancelled_wherever_it_is(cluster, tmp_path, force, wait_until):
    log, go = tmp_path / "log", tmp_path / "go"
    refs = [log_and_wait.remote(str(log), str(go), each) for each in range(6)]
    wait_until(lambda: len(lines_of(log)) == 2)  # two run, the others wait here
    ray.cancel(refs[5], force=force)
    ray.cancel(refs[0], force=force)
    for ref in (refs[5], refs[0]):
        with pytest.raises(ray.exceptions.TaskCancelledError):
            ray.get(ref, timeout=60)
    go.touch()
    assert ray.get(refs[1:5], timeout=60) == [1, 2, 3, 4]
    assert sorted(map(int, lines_of(log))) == [0, 1, 2, 3, 4]


# --- results for others ---------------------------------------------------------------------------


@ray.remote
class Reader:
    def read(self, refs):
        return ray.get(refs)


def test_a_result_is_passed_on_before_it_is_there(cluster, tmp_path):
    go = tmp_path / "go"
    ref = wait_for.remote(str(go), 5)
    by_scheduler = number.options(num_gpus=1).remote(ref)
    reader = Reader.remote()
    inside = reader.read.remote([ref])
    nested = number.remote([ref])
    go.touch()
    assert ray.get([by_scheduler, inside, ref], timeout=60) == [5, [5], 5]
    assert ray.get(ray.get(nested, timeout=60)) == [5]


def test_several_results_are_passed_on_before_they_are_there(cluster, tmp_path):
    go = tmp_path / "go"

    @ray.remote(num_returns=3)
    def several(path):
        while not os.path.exists(path):
            time.sleep(0.001)
        return 1, np.full(LARGE, 2.0), [3]

    first, second, third = several.remote(str(go))
    reader = Reader.remote()
    inside = reader.read.remote([first, second, third])
    go.touch()
    one, two, three = ray.get(inside, timeout=60)
    assert (one, float(two[-1]), three) == (1, 2.0, [3])
    assert float(ray.get(second)[0]) == 2.0


def test_of_several_large_results_some_are_dropped_before_they_are_there(cluster, tmp_path):
    go = tmp_path / "go"

    @ray.remote(num_returns=3)
    def several(path, array):
        while not os.path.exists(path):
            time.sleep(0.001)
        return array, 2 * array, 3 * array

    second = several.remote(str(go), np.ones(LARGE))[1]
    reader = Reader.remote()
    go.touch()
    assert float(ray.get(second, timeout=60)[0]) == 2.0
    assert float(ray.get(reader.read.remote([second]), timeout=60)[0][-1]) == 2.0


def test_an_error_is_passed_on_before_it_is_there(cluster, tmp_path):
    @ray.remote
    def fail(path):
        while not os.path.exists(path):
            time.sleep(0.001)
        raise KeyError("no")

    failing = fail.remote(str(tmp_path / "go"))
    dependent = number.options(num_gpus=1).remote(failing)
    inside = Reader.remote().read.remote([failing])
    (tmp_path / "go").touch()
    for ref in (failing, dependent, inside):
        with pytest.raises(KeyError, match="no"):
            ray.get(ref, timeout=60)


# --- on separate clusters --------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["argument", "variable"])
def test_leases_can_be_switched_off(no_cluster, monkeypatch, way):
    options = {"num_cpus": 1, "include_dashboard": False, "configure_logging": False}
    if way == "argument":
        ray.init(**options, _leases=False)
    else:
        monkeypatch.setenv("RAYCOMPAT_LEASES", "0")
        ray.init(**options)
    session = sys.modules["raycompat._caller.current_session"].get()

    @ray.remote
    def parent():
        return ray.get(number.remote(1))

    refs = [number.remote(0), parent.remote()]
    assert not session.leases
    assert all(ref._entry.is_held_in_dask for ref in refs)
    assert ray.get(refs) == [0, 1]
    assert session.rpc(Inventory())["leases"] == ()
    ray.shutdown()


def test_a_switch_that_says_neither_is_refused(no_cluster, monkeypatch):
    with pytest.raises(TypeError, match="True or False"):
        ray.init(_leases="off")
    monkeypatch.setenv("RAYCOMPAT_LEASES", "off")
    with pytest.raises(ValueError, match="expected 0 or 1"):
        ray.init()
    assert not ray.is_initialized()


def test_what_was_sent_behind_a_call_that_waits_for_an_object_is_run_elsewhere(
    no_cluster, tmp_path
):
    with ray.init(num_cpus=1, include_dashboard=False, configure_logging=False):
        warm_up()

        @ray.remote
        def parent(refs):
            return ray.get(refs[0])

        # The first waits for what the last of those behind it makes; there is one CPU.
        gate = wait_for.options(num_cpus=0).remote(str(tmp_path / "go"), 7)
        waiting = parent.remote([gate])
        behind = [number.remote(each) for each in range(100)]
        assert ray.get(behind, timeout=60) == list(range(100))
        (tmp_path / "go").touch()
        assert ray.get(waiting, timeout=60) == 7


def test_calls_within_calls_need_one_cpu(no_cluster):
    @ray.remote
    def depth(left):
        return 0 if not left else 1 + ray.get(depth.remote(left - 1))

    with ray.init(num_cpus=1, include_dashboard=False, configure_logging=False):
        assert ray.get(depth.remote(5), timeout=60) == 5
        assert sorted(ray.get([depth.remote(2) for _ in range(4)], timeout=60)) == [2] * 4


OTHER_DRIVER = """
    import sys, time
    import raycompat as ray
    ray.init(address={address!r}, configure_logging=False)

    @ray.remote
    def short():
        time.sleep(0.005)

    refs = [short.remote() for _ in range(50)]
    print("ready", flush=True)
    while True:
        ready, refs = ray.wait(refs, num_returns=10)
        refs += [short.remote() for _ in ready]
"""


@pytest.fixture
def start_driver(dask_cluster):
    """Return a function that starts another driver, and returns when it is at work."""
    processes = []

    def start(source, **settings):
        code = textwrap.dedent(source).format(address=dask_cluster.address, **settings)
        process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
        processes.append(process)
        assert process.stdout.readline() == "ready\n"
        return process

    yield start
    for process in processes:
        process.kill()
        process.wait()
        process.stdout.close()


def test_two_drivers_share_the_cpus(dask_cluster, start_driver, inventory_of):
    dask_cluster.add_worker()
    start_driver(OTHER_DRIVER)
    dask_cluster.connect()

    @ray.remote
    def short():
        time.sleep(0.005)

    refs = [short.remote() for _ in range(50)]
    shares = []
    deadline = time.monotonic() + 60
    while shares != [1, 1]:
        assert time.monotonic() < deadline, shares
        ready, refs = ray.wait(refs, num_returns=10)
        refs += [short.remote() for _ in ready]
        shares = sorted(Counter(inventory_of("leases")).values())
    # And it stays so.
    for _ in range(50):
        ready, refs = ray.wait(refs, num_returns=10)
        refs += [short.remote() for _ in ready]
        assert max(Counter(inventory_of("leases")).values()) == 1
    ray.get(refs)


@pytest.fixture
def inventory_of():
    def ask(what):
        session = sys.modules["raycompat._caller.current_session"].get()
        return list(session.rpc(Inventory())[what])

    return ask


def test_a_chain_of_large_values_is_made_again(dask_cluster, tmp_path, wait_until):
    dask_cluster.add_worker()
    dask_cluster.connect()
    log = tmp_path / "log"

    @ray.remote
    def make():
        with open(log, "a") as file:
            file.write("make\n")
        return np.ones(LARGE)

    @ray.remote
    def double(array):
        with open(log, "a") as file:
            file.write("double\n")
        return 2 * array

    refs = [make.remote()]
    refs += [double.remote(refs[0])]
    ray.wait(refs, num_returns=2)
    client = sys.modules["raycompat._caller.current_session"].get().client
    keys = [ref._key for ref in refs]  # `double` could not be run again without `make`
    wait_until(lambda: all(client.who_has().get(key) for key in keys))
    os.unlink(refs[0]._entry.value.path)  # as if the store had lost it
    assert float(ray.get(refs[0], timeout=60)[0]) == 1.0
    assert float(ray.get(refs[1], timeout=60)[0]) == 2.0
    assert Counter(lines_of(log)) == {"make": 2, "double": 1}


def test_a_free_cpu_is_found_by_what_waits_behind_long_calls(no_cluster, tmp_path):
    """Of calls that wait for one another, all run at once if there are as many CPUs."""

    @ray.remote
    def meet(directory, number):
        open(os.path.join(directory, str(number)), "w").close()
        while len(os.listdir(directory)) % 4:
            time.sleep(0.001)
        return number

    with ray.init(num_cpus=4, include_dashboard=False, configure_logging=False):
        warm_up()
        for start in range(0, 80, 4):
            refs = [meet.remote(str(tmp_path), start + each) for each in range(4)]
            assert ray.get(refs, timeout=60) == list(range(start, start + 4))


SHARING_DRIVER = """
    import sys, time
    import raycompat as ray
    ray.init(address={address!r}, configure_logging=False)

    @ray.remote
    def last(seconds):
        time.sleep(seconds)

    refs = [last.remote({seconds}) for _ in range(40)]
    print("ready", flush=True)
    while True:
        ready, refs = ray.wait(refs)
        print(len(ready), flush=True)
        refs += [last.remote({seconds}) for _ in ready]
"""


def test_long_calls_of_one_driver_leave_half_of_the_time_to_another(dask_cluster, start_driver):
    dask_cluster.add_worker()
    other = start_driver(SHARING_DRIVER, seconds=0.2)
    dask_cluster.connect()

    @ray.remote
    def last(seconds):
        time.sleep(seconds)

    refs = [last.remote(0.01) for _ in range(40)]

    def ours_while_the_other_does(number):
        nonlocal refs
        count = 0
        done = threading.Event()

        def follow():
            for _ in range(number):
                other.stdout.readline()
            done.set()

        threading.Thread(target=follow).start()
        while not done.is_set():
            ready, refs = ray.wait(refs, num_returns=5)
            refs += [last.remote(0.01) for _ in ready]
            count += len(ready)
        return count

    ours_while_the_other_does(10)  # a second, once each has half
    ours = ours_while_the_other_does(20)  # four seconds of work
    # With half of the CPUs each, we do 400; with next to none, or nearly all, it would be off by far.
    assert 150 <= ours <= 1000
    ray.get(refs)


# Beside other work, an executor may return the call, and the test does not let its return be read.
@pytest.mark.nightly
def test_an_answer_that_was_not_read_when_its_lease_ended_still_counts(
    no_cluster, tmp_path, wait_until, monkeypatch
):
    """As in a driver whose code holds the interpreter lock for long, so that no thread reads."""
    ray.init(num_cpus=1, include_dashboard=False, configure_logging=False)
    session = sys.modules["raycompat._caller.current_session"].get()
    monkeypatch.setattr(sys.modules["raycompat._caller.direct_sender"], "_DRAIN_S", 0.2)
    # The second call goes to the lease of the first, however late this process makes it.
    monkeypatch.setattr(sys.modules["raycompat._caller.by_lease"], "_IDLE_S", 60.0)

    @ray.remote(max_retries=0)
    def note(path):
        with open(path, "a") as file:
            file.write("ran\n")
        return "answer"

    path = tmp_path / "runs"
    assert ray.get(note.remote(tmp_path / "first")) == "answer"
    (lease,) = session.leases.values()
    connection = lease.connection
    with connection.read_lock:
        ref = note.remote(path)
        session.flush()
        wait_until(lambda: path.exists() and not connection.is_silent)
        session.call_soon(lease.ended, None, "")
        assert lease.is_over.wait(30)
        ready, _ = ray.wait([ref], timeout=1)  # five times as long as the connection waits
        assert not ready
    connection.read_soon()
    assert ray.get(ref, timeout=30) == "answer"
    assert path.read_text() == "ran\n"


def test_a_call_that_is_cancelled_while_it_is_submitted_does_not_run(no_cluster, tmp_path):
    """As when a parent is cancelled by another thread while it makes a call."""
    ray.init(num_cpus=1, include_dashboard=False, configure_logging=False)
    session = sys.modules["raycompat._caller.current_session"].get()

    class Calls(dict):
        def __setitem__(self, key, call):
            super().__setitem__(key, call)
            thread = threading.Thread(target=session.cancel_children, args=[call.parent])
            thread.start()
            thread.join()

    @ray.remote
    def note(path):
        path.touch()

    ray.get(note.remote(tmp_path / "first"))
    calls, session.calls = session.calls, Calls()
    refs = [note.remote(tmp_path / "cancelled") for _ in range(2)]
    session.calls = calls
    for ref in refs:
        with pytest.raises(ray.exceptions.TaskCancelledError):
            ray.get(ref, timeout=30)
    ray.get(note.remote(tmp_path / "last"), timeout=30)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["first", "last"]
    assert [len(pool._waiting) for pool in session._pools.values()] == [0]


@pytest.mark.parametrize(
    "options", [{}, {"scheduling_strategy": "SPREAD"}], ids=["lease", "scheduler"]
)
def test_a_process_that_dies_and_leaves_a_child_is_noticed(
    no_cluster, tmp_path, wait_until, options
):
    """The child has copies of all its connections, as those of a pool of processes have. It ends too."""
    ray.init(num_cpus=1, include_dashboard=False, configure_logging=False)

    @ray.remote(max_retries=0, **options)
    def die(path):
        if (child := os.fork()) == 0:
            while True:
                signal.pause()
        path.write_text(str(child))
        os.kill(os.getpid(), signal.SIGKILL)

    path = tmp_path / "child"
    with pytest.raises(ray.exceptions.WorkerCrashedError):
        ray.get(die.remote(path), timeout=60)
    assert ray.get(number.remote(3), timeout=60) == 3
    child = int(path.read_text())
    wait_until(lambda: not psutil.pid_exists(child))


def test_a_call_that_was_made_just_before_the_interrupt_of_its_maker_is_cancelled(
    cluster, tmp_path, wait_until
):
    @ray.remote(num_cpus=0)
    def child(folder):
        (folder / "begun").touch()
        try:
            time.sleep(600)
        finally:
            (folder / "ended").touch()

    @ray.remote
    def parent(folder):
        interrupts = {signal.SIGUSR2}
        signal.pthread_sigmask(signal.SIG_BLOCK, interrupts)
        (folder / "blocked").touch()
        while not ray.get_runtime_context().is_canceled():
            time.sleep(0.01)
        time.sleep(0.2)  # the calls that it has made are cancelled meanwhile
        child.remote(folder)
        while not (folder / "begun").exists():
            time.sleep(0.01)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, interrupts)

    ref = parent.remote(tmp_path)
    wait_until((tmp_path / "blocked").exists)
    ray.cancel(ref)
    with pytest.raises(ray.exceptions.TaskCancelledError):
        ray.get(ref, timeout=30)
    wait_until((tmp_path / "ended").exists)


def test_cancelled_calls_in_a_long_queue_of_an_actor_do_not_run(cluster):
    """Of more than 10,000 calls."""

    @ray.remote
    class Counter:
        def __init__(self):
            self.count = 0

        def wait_until_cancelled(self):
            while not ray.get_runtime_context().is_canceled():
                time.sleep(0.01)

        def add(self):
            self.count += 1

        def total(self):
            return self.count

    counter = Counter.remote()
    waiting = counter.wait_until_cancelled.remote()
    refs = [counter.add.remote() for _ in range(10_500)]
    for ref in [*refs, waiting]:  # the actor gets the cancellations in this order
        ray.cancel(ref)
    assert ray.get(counter.total.remote(), timeout=60) == 0
