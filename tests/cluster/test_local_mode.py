"""``init(local_mode=True)``: calls run in this process, and debuggers see the user's code."""

from __future__ import annotations

import asyncio
import io
import os
import pdb
import signal
import sys
import threading
import traceback

import pytest

import raycompat as ray
from raycompat import tune
from raycompat.util.metrics import Counter
from raycompat.util.scheduling_strategies import PlacementGroupSchedulingStrategy
from raycompat.util.tracking import Experiment

QUIET = {"local_mode": True, "configure_logging": False}


@pytest.fixture(autouse=True)
def handler_of_interrupts():
    """Restore the handler of SIGINT, which Python's debugger replaces after ``continue``."""
    before = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(autouse=True)
def local(request):
    ray.init(num_cpus=2, num_gpus=2, resources={"custom": 3}, **QUIET)
    yield
    ray.shutdown()


def test_calls_run_in_this_process_and_thread():
    @ray.remote
    def place():
        return os.getpid(), threading.get_ident()

    @ray.remote
    class Actor:
        def place(self):
            return os.getpid(), threading.get_ident()

    here = (os.getpid(), threading.get_ident())
    assert ray.get([place.remote(), Actor.remote().place.remote()]) == [here, here]


def test_a_call_has_run_when_remote_returns(tmp_path):
    @ray.remote
    def write(text):
        with (tmp_path / "order").open("a") as file:
            file.write(text)

    refs = [write.remote(text) for text in "abc"]
    assert (tmp_path / "order").read_text() == "abc"
    assert ray.wait(refs, num_returns=3, timeout=0) == (refs, [])


def test_the_traceback_of_a_failed_function_begins_in_the_users_frames():
    @ray.remote
    def outer():
        inner("seven")

    def inner(text):
        return int(text)

    with pytest.raises(ValueError, match="seven") as caught:
        ray.get(outer.remote())
    original = caught.value.__cause__
    assert type(original) is ValueError
    assert [frame.name for frame in traceback.extract_tb(original.__traceback__)] == [
        "outer",
        "inner",
    ]
    assert original.__traceback__.tb_frame.f_code.co_filename == __file__


def test_a_post_mortem_sees_the_variables_of_the_failed_method():
    @ray.remote
    class Divider:
        def divide(self, number):
            rest = number - 1
            return 1 / rest

    with pytest.raises(ZeroDivisionError) as caught:
        ray.get(Divider.remote().divide.remote(1))
    frames = list(traceback.walk_tb(caught.value.__cause__.__traceback__))
    assert frames[-1][0].f_locals["rest"] == 0


def test_breakpoint_stops_in_the_function(monkeypatch):
    said = io.StringIO()
    debugger = pdb.Pdb(stdin=io.StringIO("p seen * 2\ncontinue\n"), stdout=said, readrc=False)

    def stop():
        debugger.set_trace(sys._getframe(1))

    monkeypatch.setattr(sys, "breakpointhook", stop)
    trace = sys.gettrace()

    @ray.remote
    def function(seen):
        breakpoint()
        return seen

    try:
        assert ray.get(function.remote(21)) == 21
    finally:
        sys.settrace(trace)
    assert "42" in said.getvalue()
    assert "test_local_mode.py" in said.getvalue()


def test_an_interrupt_leaves_remote_and_the_session_goes_on():
    @ray.remote
    def interrupted():
        raise KeyboardInterrupt

    @ray.remote
    def fine():
        return 1

    with pytest.raises(KeyboardInterrupt):
        interrupted.remote()
    assert ray.get(fine.remote()) == 1


def test_tensors_of_an_actor_are_ordinary_results():
    torch = pytest.importorskip("torch")

    @ray.remote(enable_tensor_transport=True)
    class Maker:
        @ray.method(tensor_transport="gloo")
        def ones(self):
            return torch.ones(3)

    assert ray.get(Maker.remote().ones.remote()).tolist() == [1.0, 1.0, 1.0]


def test_arguments_results_and_globals_are_copies():
    shared = [0]

    @ray.remote
    def change(items):
        items.append(1)
        shared.append(1)
        return items

    items = [0]
    ref = change.remote(items)
    result = ray.get(ref)
    result.append(2)
    assert (items, shared, ray.get(ref)) == ([0], [0], [0, 1])


def test_async_methods_run_to_their_end_also_in_a_running_loop():
    @ray.remote
    class Actor:
        async def twice(self, number):
            await asyncio.sleep(0)
            return 2 * number

        async def of_itself(self, handle):
            return await handle.twice.remote(3)

    actor = Actor.remote()

    async def main():
        return await actor.twice.remote(4)

    assert ray.get(actor.twice.remote(2)) == 4
    assert ray.get(actor.of_itself.remote(actor)) == 6
    assert asyncio.run(main()) == 8


def test_async_generators_and_generators_of_methods():
    @ray.remote
    class Actor:
        def plain(self):
            yield from (1, 2)

        async def late(self):
            for number in (3, 4):
                await asyncio.sleep(0)
                yield number

    actor = Actor.remote()
    for method, expected in ((actor.plain, [1, 2]), (actor.late, [3, 4])):
        assert [ray.get(ref) for ref in method.remote()] == expected


def test_an_actor_ends_with_its_last_handle_and_frees_its_name():
    @ray.remote
    class Actor:
        def ping(self):
            return ray.get_runtime_context().get_actor_name()

    actor = Actor.options(name="short").remote()
    assert ray.get(ray.get_actor("short").ping.remote()) == "short"
    with pytest.raises(ValueError, match="already taken"):
        Actor.options(name="short").remote()
    del actor
    ray.put(None)  # dropped handles are collected by the next operation
    with pytest.raises(ValueError, match="Failed to look up actor"):
        ray.get_actor("short")


def test_a_killed_actor_restarts_if_it_may():
    @ray.remote(max_restarts=1)
    class Counter:
        def __init__(self):
            self.count = 0

        def add(self):
            self.count += 1
            return self.count

    counter = Counter.remote()
    ray.get([counter.add.remote(), counter.add.remote()])
    ray.kill(counter, no_restart=False)
    assert ray.get(counter.add.remote()) == 1
    ray.kill(counter, no_restart=False)
    with pytest.raises(ray.exceptions.ActorDiedError):
        ray.get(counter.add.remote())


def test_a_constructor_that_fails_is_the_error_of_all_calls(capsys):
    @ray.remote
    class Actor:
        def __init__(self):
            raise RuntimeError("no")

        def ping(self):
            return 1

    with pytest.raises(ray.exceptions.ActorDiedError, match="RuntimeError: no"):
        ray.get(Actor.remote().ping.remote())
    assert "Exception raised in creation task" in capsys.readouterr().err


def test_a_task_that_exits_does_not_end_the_driver():
    @ray.remote
    def leave():
        sys.exit(3)

    with pytest.raises(ray.exceptions.WorkerCrashedError, match=r"sys.exit\(3\)"):
        ray.get(leave.remote())


def test_exceptions_are_retried_if_wanted(tmp_path):
    @ray.remote(max_retries=2, retry_exceptions=True)
    def third_time():
        with (tmp_path / "tries").open("a") as file:
            file.write("x")
        if len((tmp_path / "tries").read_text()) < 3:
            raise OSError("again")
        return "there"

    assert ray.get(third_time.remote()) == "there"


def test_placement_groups_are_ready_at_once():
    group = ray.util.placement_group([{"CPU": 100}], name="large")
    assert group.wait(0)
    assert ray.util.get_placement_group("large") == group

    strategy = PlacementGroupSchedulingStrategy(group)

    @ray.remote(num_cpus=1, scheduling_strategy=strategy)
    def inside():
        return ray.util.get_current_placement_group()

    assert ray.get(inside.remote()) == group
    ray.util.remove_placement_group(group)
    with pytest.raises(ray.exceptions.TaskPlacementGroupRemoved):
        ray.get(inside.remote())


def test_resources_and_the_context_answer():
    @ray.remote(num_gpus=1)
    def context():
        found = ray.get_runtime_context()
        return found.get_assigned_resources(), ray.get_gpu_ids(), found.get_node_id()

    resources, gpus, node = ray.get(context.remote())
    assert resources == {"CPU": 1, "GPU": 1}
    assert (gpus, node) == ([0], ray.nodes()[0]["NodeID"])
    assert ray.cluster_resources()["custom"] == 3
    assert ray.get_gpu_ids() == []
    with pytest.raises(AssertionError):
        ray.get_runtime_context().get_assigned_resources()


def test_large_values_leave_no_segment_behind():
    store = ray.get_runtime_context()._session.home.place
    ref = ray.put(bytes(1_000_000))
    assert [name for name in os.listdir(store.directories[0]) if name.startswith(store.store)]
    assert len(ray.get(ref)) == 1_000_000
    ray.shutdown()
    assert not [name for name in os.listdir(store.directories[0]) if name.startswith(store.store)]


@pytest.mark.parametrize("what", ["client", "environment", "state"])
def test_what_needs_a_cluster_says_so(what):
    from raycompat.util import dask, state

    @ray.remote(runtime_env={"env_vars": {"A": "1"}})
    def function():
        return None

    needed = {"client": dask.client, "environment": function.remote, "state": state.list_tasks}
    with pytest.raises(NotImplementedError, match="local_mode=True"):
        needed[what]()


def test_no_thread_and_no_process_is_started():
    @ray.remote
    def function():
        return threading.active_count()

    before = threading.active_count()
    assert ray.get(function.remote()) == before


def test_set_trace_uses_the_terminal_of_the_program(monkeypatch, capsys):
    from raycompat.util import pdb as ray_pdb

    @ray.remote
    def function(seen):
        ray_pdb.set_trace()
        return seen

    monkeypatch.setattr(sys, "stdin", io.StringIO("p seen * 3\ncontinue\n"))
    trace = sys.gettrace()
    try:
        assert ray.get(function.remote(7)) == 7
    finally:
        sys.settrace(trace)
    assert "21" in capsys.readouterr().out


def test_experiments_and_metrics_have_no_effect():
    with Experiment("by hand", metric="loss") as experiment:
        experiment.report("run", 1, {"loss": 1.0})
    Counter("calls").inc()
    session = sys.modules["raycompat._caller.current_session"].get()
    assert not session.tracker._records
    assert not session.measurements._samples


def test_trials_of_tune_take_turns(tmp_path):
    def train(config):
        for step in range(3):
            tune.report({"score": config["x"] * step, "x": config["x"]})

    grid = tune.Tuner(
        train,
        param_space={"x": tune.grid_search([1, 2])},
        run_config=tune.RunConfig(storage_path=str(tmp_path), verbose=0),
    ).fit()
    assert sorted((result.metrics["x"], result.metrics["score"]) for result in grid) == [
        (1, 2),
        (2, 4),
    ]
    assert grid.num_errors == 0


def test_notebooks_show_functions_methods_and_references():
    @ray.remote
    def square(number):
        return number * number

    @ray.remote
    class Adder:
        def add(self, amount):
            return amount

    adder = Adder.remote()
    assert "<td>State</td><td>ready</td>" in square.remote(2)._repr_html_()
    failed = square.remote("<b>")._repr_html_()
    assert "<td>State</td><td>failed</td>" in failed
    assert "<td>Error</td><td>TypeError: can&#x27;t multiply sequence" in failed
    assert "<td>Signature</td><td>(number)</td>" in square._repr_html_()
    assert "<td>Signature</td><td>(amount)</td>" in adder.add._repr_html_()
    assert "Adder</td></tr><tr><td>Id</td>" in adder._repr_html_()
