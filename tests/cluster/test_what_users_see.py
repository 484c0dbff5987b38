"""What a user sees: warnings, the time it takes to import, and where calls are shown."""

from __future__ import annotations

import collections
import json
import os
import re
import subprocess
import sys
import textwrap
import time

import pytest

import raycompat as ray

ONE_AFTER_ANOTHER = """
import time, raycompat as ray
with ray.init(num_cpus=1, include_dashboard=False, configure_logging=False):
    @ray.remote
    def train():
        pass
    refs = [train.options(num_gpus=1).remote()]
    ray.wait(refs, timeout=4)
    refs.append(train.options(resources={"tpu": 1}).remote())
    ray.wait(refs, timeout=15)
    for ref in refs:
        ray.cancel(ref)
"""

HELD_BY_ACTORS = """
import raycompat as ray
from raycompat.util.scheduling_strategies import PlacementGroupSchedulingStrategy
with ray.init(num_cpus=3, include_dashboard=False, configure_logging=False):
    group = ray.util.placement_group([{"CPU": 1}])
    ray.get(group.ready())
    inside = PlacementGroupSchedulingStrategy(group)

    @ray.remote(num_cpus=1)
    class Worker:
        def ready(self):
            return True

    @ray.remote
    def one():
        pass

    holders = [Worker.remote() for _ in range(2)]
    holders.append(Worker.options(scheduling_strategy=inside).remote())
    ray.get([holder.ready.remote() for holder in holders])
    waiting = [Worker.remote() for _ in range(5)]
    calls = [one.remote(), one.options(scheduling_strategy=inside).remote()]
    second = ray.util.placement_group([{"CPU": 2}])
    ray.wait([second.ready(), *calls], timeout=13)
"""

BEHIND_LONG_CALLS = """
import raycompat as ray
with ray.init(num_cpus=1, include_dashboard=False, configure_logging=False):
    @ray.remote
    def long(seconds):
        import time
        time.sleep(seconds)
    ray.get([long.remote(11), long.options(num_gpus=0).remote(0)])
"""


@pytest.fixture(scope="module")
def waiting():
    """Run the programs that wait, all at once; return what each has said on its standard error."""
    programs = {
        source: subprocess.Popen([sys.executable, "-c", source], stderr=subprocess.PIPE, text=True)
        for source in (ONE_AFTER_ANOTHER, HELD_BY_ACTORS, BEHIND_LONG_CALLS)
    }
    said = {source: program.communicate(timeout=100)[1] for source, program in programs.items()}
    assert [program.returncode for program in programs.values()] == [0, 0, 0], said
    return said


def run(source: str, *, timeout_s: float = 100) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(source)],
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=True,
    )


def test_each_request_is_told_of_after_its_own_ten_seconds(waiting):
    said = waiting[ONE_AFTER_ANOTHER]
    first, second = [line for line in said.splitlines() if "has waited" in line]
    assert "train has waited 10 s for {CPU: 1, GPU: 1}: " in first
    assert "The largest node has {CPU: 1, GPU: 0}, the cluster in total {CPU: 1, GPU: 0}. " in first
    assert re.search(r"train has waited 1[01] s for {CPU: 1, tpu: 1}: ", second)


def test_init_prints_one_line_that_ends_with_the_address_of_the_dashboard():
    done = run(
        """
        import raycompat as ray
        with ray.init(num_cpus=1) as context:
            print(f"Dashboard: http://{context.dashboard_url}")
        """
    )
    (line,) = done.stderr.splitlines()
    assert "Connected to the cluster at raycompat://127.0.0.1:" in line
    assert ", which only this user can enter. " in line
    assert line.endswith(done.stdout.strip())


def test_what_waits_for_actors_and_groups_is_told_who_holds_what_it_needs(waiting):
    said = waiting[HELD_BY_ACTORS]
    told = [line for line in said.splitlines() if "has waited" in line]
    actors, inside, bundles = sorted(told, key=lambda line: ("bundles" in line, "one has" in line))
    outside = "2 of the actor Worker ({CPU: 1}), the placement group "
    # The notice names the first call of a line: calls for the same resources share one notice.
    assert "Worker.__init__ has waited" in actors
    assert outside in actors
    assert "one has waited" in inside
    assert "1 of the actor Worker ({CPU: 1})." in inside
    assert "a placement group has waited" in bundles
    assert outside in bundles


def test_a_call_behind_long_calls_is_not_said_to_wait_in_vain(waiting):
    said = waiting[BEHIND_LONG_CALLS]
    assert "has waited" not in said


def test_importing_is_quick_and_brings_no_tensorflow():
    done = run(
        """
        import sys, time
        start = time.perf_counter()
        import distributed
        before = time.perf_counter()
        import raycompat
        after = time.perf_counter()
        assert "tensorflow" not in sys.modules and "keras" not in sys.modules
        print(before - start, after - before)
        """
    )
    of_distributed, of_raycompat = map(float, done.stdout.split())
    assert of_raycompat < 0.1 + of_distributed  # generous: machines are noisy


def test_calls_are_in_dask_s_task_stream(cluster, session, wait_until):
    session.client.get_task_stream()  # from now on Dask keeps it

    @ray.remote
    def watched():
        return 1

    @ray.remote
    def failing():
        raise ValueError("no")

    ray.get([watched.remote() for _ in range(3)])
    with pytest.raises(ValueError, match="no"):
        ray.get(failing.remote())

    def shown() -> dict[tuple[str, str], int]:
        counts = collections.Counter()
        for task in session.client.get_task_stream():
            name, _, *many = str(task["key"]).split("-")
            if name in ("watched", "failing"):  # and not what ran before
                counts[name, task["status"]] += int(many[0][1:]) if many else 1
        return counts

    wait_until(lambda: shown() == {("failing", "error"): 1, ("watched", "OK"): 3})


@pytest.mark.parametrize("leases", [True, False], ids=["leases", "scheduler"])
def test_the_timeline_has_each_call_with_its_process_and_time(
    no_cluster, tmp_path, wait_until, leases
):
    ray.init(num_cpus=2, include_dashboard=False, configure_logging=False, _leases=leases)

    @ray.remote
    def work(fails):
        time.sleep(0.05)
        if fails:
            raise ValueError("expected")
        return os.getpid()

    @ray.remote
    class Worker:
        def step(self):
            return os.getpid()

    begin = time.time()
    ray.get([work.remote(False) for _ in range(4)])
    ray.wait([work.remote(True)])
    worker = Worker.remote()
    pid = ray.get([worker.step.remote() for _ in range(10)])[0]
    end = time.time()

    def calls(name):
        events = [event for event in ray.timeline() if event["name"] == name]
        return events, sum(event["args"]["calls"] for event in events)

    wait_until(lambda: calls("work")[1] == 5 and calls("Worker.step")[1] == 10)
    events, _ = calls("work")
    assert sum(event["args"]["failed"] for event in events) == 1
    for event in events:
        assert event["ph"] == "X"
        assert event["dur"] >= 0.04e6
        assert begin - 0.01 <= event["ts"] / 1e6 <= end
    assert {event["cat"] for event in events} == {"task::work"}
    for one in (event for event in events if not event["args"]["failed"]):
        whole = (one["ts"], one["ts"] + one["dur"])
        parts = [
            event
            for event in ray.timeline()
            if event["tid"] == one["tid"]
            and event["cat"].startswith("task:")
            and event["cat"] == event["name"]
            and whole[0] <= event["ts"] <= whole[1]
        ]
        assert sum(event["dur"] for event in parts) <= one["dur"] + 1
        executed = [event["dur"] for event in parts if event["cat"] == "task:execute"]
        assert sum(executed) >= 0.04e6
        assert {"task:deserialize_arguments", "task:store_outputs"} < {e["cat"] for e in parts}
    assert {event["tid"] for event in calls("Worker.step")[0]} == {f"worker:{pid}"}
    assert ray.timeline(str(tmp_path / "trace.json")) is None
    assert [event["name"] for event in json.loads((tmp_path / "trace.json").read_text())]
