"""References keep their objects alive, however they travel, and nothing longer than that."""

from __future__ import annotations

import gc
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import psutil
import pytest

import raycompat as ray
from raycompat._launch.process import those_left
from raycompat.util import dask

LARGE = 200_000  # elements: 1.6 MB, well above what travels inline


def test_small_values_never_reach_the_scheduler(cluster, inventory):
    refs = [ray.put(number) for number in range(100)]
    assert ray.get(refs) == list(range(100))
    assert inventory("tasks") == []


def test_a_small_value_goes_with_its_reference_though_nothing_is_sent(cluster, session, wait_until):
    ref = ray.put(1)
    key = ref._key
    assert key in session.table.entries
    del ref
    wait_until(lambda: key not in session.table.entries)


def test_a_large_put_is_unknown_to_dask_until_somebody_else_needs_it(cluster, inventory):
    ref = ray.put(np.ones(LARGE))
    assert ray.get(ref).sum() == LARGE
    assert inventory("tasks") == []

    @ray.remote
    def total(array):
        return float(array.sum())

    by_the_scheduler = total.options(scheduling_strategy="SPREAD")  # no lease is asked for that
    assert ray.get(by_the_scheduler.remote(ref)) == LARGE
    assert len([key for key in inventory("tasks") if key.startswith("put-")]) == 1


def test_a_large_array_is_not_copied_on_its_way(cluster):
    ref = ray.put(np.ones(LARGE))
    first, second = ray.get(ref), ray.get(ref)
    assert np.shares_memory(first, second)
    assert not first.flags.writeable


def test_a_nested_reference_survives_its_owner_letting_go_at_once(cluster):
    @ray.remote
    def make():
        return np.ones(LARGE)

    @ray.remote
    def read(box):
        return float(ray.get(box["ref"]).sum())

    ref = make.remote()
    result = read.remote({"ref": ref})
    del ref
    gc.collect()
    assert ray.get(result) == LARGE


def test_references_made_by_a_task_outlive_it(cluster):
    @ray.remote
    def inner(x):
        return x + 1

    @ray.remote
    def outer():
        return [ray.put(np.ones(LARGE)), inner.remote(1), ray.put(1)]

    large, pending, small = ray.get(outer.remote())
    assert ray.get(large).sum() == LARGE
    assert ray.get(pending) == 2
    assert ray.get(small) == 1


def test_references_inside_of_references(cluster):
    ref = ray.put(np.ones(LARGE))
    for _ in range(5):
        ref = ray.put([ref])
    gc.collect()

    @ray.remote
    def dig(box):
        value = box
        while isinstance(value, list):
            value = ray.get(value[0])
        return float(value.sum())

    assert ray.get(dig.remote([ref])) == LARGE


def test_an_actor_keeps_what_it_was_given(cluster, inventory, wait_until):
    @ray.remote
    class Keeper:
        def take(self, box):
            self.box = box

        def total(self):
            return float(ray.get(self.box[0]).sum())

        def drop(self):
            del self.box

    keeper = Keeper.remote()
    ref = ray.put(np.ones(LARGE))
    ray.get(keeper.take.remote([ref]))
    del ref
    gc.collect()
    for _ in range(3):
        assert ray.get(keeper.total.remote()) == LARGE
    ray.get(keeper.drop.remote())
    wait_until(lambda: not [key for key in inventory("tasks") if key.startswith("put-")])


def test_a_pickled_reference_keeps_its_object(cluster, session):
    ref = ray.put(np.ones(LARGE))
    data = ray.cloudpickle.dumps(ref)
    del ref
    gc.collect()
    copy = ray.cloudpickle.loads(data)
    assert ray.get(copy).sum() == LARGE
    session.leaked.clear()  # it would be kept for as long as the driver lives


def test_a_pickled_reference_keeps_what_its_value_refers_to(cluster, session):
    inner = ray.put(np.ones(LARGE))
    data = pickle.dumps(ray.put([inner]))
    del inner
    gc.collect()
    (copy,) = ray.get(pickle.loads(data))
    assert ray.get(copy, timeout=30).sum() == LARGE
    session.leaked.clear()


def driver(source: str) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(source)],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def test_a_driver_that_is_killed_leaves_nothing(no_cluster):
    process = driver(
        """
        import numpy as np, os, time, raycompat as ray
        ray.init(num_cpus=2, include_dashboard=False, configure_logging=False)
        @ray.remote
        def sleep(x):
            time.sleep(1000)
        @ray.remote
        class Actor:
            def ping(self): return 1
        actor = Actor.remote()
        ray.get(actor.ping.remote())
        ref = ray.put(np.ones(1_000_000))
        pending = [sleep.remote(ref), sleep.remote(np.ones(1_000_000))]
        ray.wait(pending, timeout=0.5)
        print("ready", flush=True)
        time.sleep(1000)
        """
    )
    assert process.stdout.readline() == "ready\n"
    family = psutil.Process(process.pid).children(recursive=True)
    assert len(family) >= 5
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert not those_left(family, 30)  # the fixture checks that no segment of a dead node is left


def test_an_executor_that_is_killed_leaves_no_segment(cluster):
    @ray.remote(max_retries=0)
    def put_and_die():
        ray.put(np.ones(LARGE))
        kept = ray.put(np.ones(LARGE))
        os.kill(os.getpid(), signal.SIGKILL)
        return kept

    with pytest.raises(ray.exceptions.WorkerCrashedError, match="SIGKILL"):
        ray.get(put_and_die.remote())


def test_a_killed_executor_is_replaced_and_the_call_tried_again(cluster, tmp_path):
    @ray.remote(max_retries=2)
    def die_twice(path):
        tries = Path(path)
        tries.write_text(tries.read_text() + "x" if tries.exists() else "x")
        if len(tries.read_text()) < 3:
            os.kill(os.getpid(), signal.SIGKILL)
        return tries.read_text()

    assert ray.get(die_twice.remote(str(tmp_path / "tries"))) == "xxx"


def test_a_generator_whose_caller_has_died_leaves_nothing(cluster, tmp_path, wait_until):
    @ray.remote(num_cpus=0)
    def items(directory):
        (directory / "begun").touch()
        while not (directory / "go on").exists():
            time.sleep(0.01)
        for _ in range(3):
            yield np.zeros(500_000)

    @ray.remote(num_cpus=0)
    class Caller:
        def begin(self, directory):
            self.items = items.remote(directory)
            return [self.items.completed()]

    def callers(dask_scheduler):
        return set(dask_scheduler.client_comms)

    client = dask.client()
    before = client.run_on_scheduler(callers)
    caller = Caller.remote()
    (completed,) = ray.get(caller.begin.remote(tmp_path))
    wait_until((tmp_path / "begun").exists)
    ray.kill(caller)
    wait_until(lambda: client.run_on_scheduler(callers) <= before)
    (tmp_path / "go on").touch()
    assert ray.get(completed) is None


OTHER_JOB = """
    import sys, time, raycompat as ray
    from pathlib import Path
    address, kind, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    ray.init(
        address=address, namespace="n", configure_logging=False, _leases=kind == "leased"
    )

    @ray.remote
    def wait(folder):
        (folder / "begun").touch()
        while not (folder / "go on").exists():
            time.sleep(0.01)
        return "value"

    @ray.remote
    def after(value):
        return value

    options = {"resources": {"nowhere": 1}} if kind == "infeasible" else {}
    if kind == "without retries":
        options = {"max_retries": 0}
    ref = wait.options(**options).remote(folder)
    if kind == "dependent":
        ref = after.remote(ref)
    ray.get(ray.get_actor("keeper").keep.remote([ref]))
    while kind != "infeasible" and not (folder / "begun").exists():
        time.sleep(0.01)
"""


@pytest.mark.parametrize(
    "kind", ["leased", "running", "without retries", "dependent", "infeasible"]
)
def test_a_call_of_an_ended_job_fails_for_others_because_its_owner_has_died(
    no_cluster, tmp_path, kind
):
    context = ray.init(num_cpus=2, namespace="n", include_dashboard=False, configure_logging=False)

    @ray.remote(num_cpus=0)
    class Keeper:
        def keep(self, refs):
            self.refs = refs

        def get(self):
            return ray.get(self.refs[0], timeout=30)

        def given(self):
            return self.refs[0]

    keeper = Keeper.options(name="keeper").remote()
    address = context.address_info["address"]
    command = [sys.executable, "-c", textwrap.dedent(OTHER_JOB), address, kind, str(tmp_path)]
    subprocess.run(command, check=True, timeout=120)
    (tmp_path / "go on").touch()
    with pytest.raises(ray.exceptions.OwnerDiedError, match="owner has ended"):
        ray.get(keeper.get.remote(), timeout=60)
    with pytest.raises(ray.exceptions.OwnerDiedError, match="owner has ended"):
        ray.get(ray.get(keeper.given.remote()), timeout=60)
