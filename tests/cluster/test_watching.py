"""Watching a program: commands, bars, reports."""

from __future__ import annotations

import asyncio
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

import pytest
import yaml
from click.testing import CliRunner

import raycompat as ray
from raycompat._cli.commands import cli
from raycompat._common.test_utils import SignalActor
from raycompat._messages.watching import Overview
from raycompat.data.streaming_split import SplitCoordinator
from raycompat.experimental import tqdm_ray
from raycompat.util.queue import Queue
from raycompat.util.state import get_log, list_actors, list_tasks
from raycompat.util.state.exception import ServerUnavailable


class Commands:
    """Runs commands in this process."""

    def __init__(self):
        self.runner = CliRunner(env={"RAY_ADDRESS": ray.get_runtime_context().gcs_address})

    def run(self, *arguments, **environment):
        return self.runner.invoke(cli, arguments, env=environment)

    def must(self, *arguments, **environment):
        done = self.run(*arguments, **environment)
        assert done.exit_code == 0, done.output
        return done.stdout


@pytest.fixture(scope="module")
def cluster():
    """A cluster on which commands look, and what runs them.

    A command runs with this process's standard output replaced. What this driver prints of its actors at
    that moment would be in the command's output, so it prints nothing.
    """
    ray.init(num_cpus=2, configure_logging=False, log_to_driver=False, namespace="watched")
    yield Commands()
    ray.shutdown()


@ray.remote(num_cpus=0)
class Watched:
    def print(self, text):
        print(text)
        return os.getpid()


@ray.remote
def fails(number):
    raise ValueError(f"wrong {number}")


def test_commands_show_tasks_actors_objects_and_logs(cluster, wait_until):
    actor = Watched.options(name="watched").remote()
    pid = ray.get(actor.print.remote("printed by the actor"))
    large = ray.put(bytes(2_000_000))
    ref = fails.remote(7)
    ray.wait([ref])
    task = ref.task_id().hex()

    rows = json.loads(
        cluster.must("list", "tasks", "-f", "state=FAILED", "--detail", "--format", "json")
    )
    assert [(row["task_id"], row["error_message"]) for row in rows] == [
        (task, "ValueError: wrong 7")
    ]
    listed = cluster.must("list", "actors", "--filter", "name=watched")
    assert "Total: 1" in listed
    assert str(pid) in listed
    assert "wrong 7" in cluster.must("get", "tasks", task)
    assert "There are no nodes" in cluster.must("list", "nodes", "-f", "state=dead")
    summary = cluster.must("summary", "tasks")
    assert "Watched.print" in summary
    assert "FAILED: 1" in summary
    memory = cluster.must("memory")
    assert large.hex() in memory
    assert f"driver {os.getpid()}" in memory
    printed = cluster.must("logs", "actor", "--id", actor._actor_id.hex())
    assert printed == "printed by the actor\n"
    files = cluster.must("logs")
    (name,) = [line[3:] for line in files.splitlines() if line.endswith(f"-{pid}.out")]
    assert cluster.must("logs", name, "--tail", "1") == "printed by the actor\n"
    assert "Watched" in cluster.must("status", "-v")
    group = ray.util.placement_group([{"CPU": 1000}], name="evaluation")
    wait_until(lambda: "1 pending placement group(s), which no nodes" in cluster.must("status"))
    (waits,) = json.loads(cluster.must("status", "--format", "json"))["pending_placement_groups"]
    assert (waits["name"], waits["bundles"]) == ("evaluation", [{"CPU": 1000.0}])
    ray.util.remove_placement_group(group)
    top = cluster.must("top", "-n", "1", COLUMNS="160")
    assert "Watched.print" in top
    assert "ALIVE" in top


def test_an_actor_that_failed_in_its_constructor_has_a_process_and_a_log(cluster):
    @ray.remote(num_cpus=0)
    class Fails:
        def __init__(self):
            print("printed before the error")
            raise ValueError("no model")

        def call(self):
            pass

    actor = Fails.remote()
    with pytest.raises(ray.exceptions.ActorDiedError):
        ray.get(actor.call.remote())
    key = actor._actor_id.hex()
    for words in ((key,), ("--id", key)):
        assert cluster.must("logs", "actor", *words) == "printed before the error\n"
    (row,) = yaml.safe_load(cluster.must("get", "actors", key))
    assert row["state"] == "DEAD"
    assert row["pid"] > 0
    assert row["node_id"] == ray.nodes()[0]["NodeID"]
    made = ("-f", f"actor_id={key}", "-f", "type=ACTOR_CREATION_TASK")
    (task,) = json.loads(cluster.must("list", "tasks", *made, "--detail", "--format", "json"))
    assert task["worker_pid"] == row["pid"]
    for words in ((task["task_id"],), ("--id", task["task_id"])):
        assert cluster.must("logs", "task", *words) == "printed before the error\n"


@ray.remote(num_cpus=0, max_concurrency=3)
class InThreads:
    def __init__(self):
        print("constructed")
        self.together = threading.Barrier(3)

    def print(self, number):
        for line in range(20):
            self.together.wait()
            sys.stdout.write(f"{number} {line}\n")


@ray.remote(num_cpus=0)
class InALoop:
    async def print(self, number):
        for line in range(20):
            sys.stdout.write(f"{number} {line}\n")
            await asyncio.sleep(0)


@ray.remote(num_cpus=0)
class InTurn:
    def print(self, number):
        print(number, 0)

    def run(self):
        subprocess.run(["echo", "native"], check=True)


@ray.remote
def native(path):
    while not os.path.exists(path):
        subprocess.run(["echo", "native"], check=True)
        time.sleep(0.01)


def test_the_log_of_a_task_has_its_lines_alone(cluster, wait_until):
    def lines(task):
        return "".join(get_log(task_id=task)).splitlines()

    for kind, num_lines in ((InThreads, 20), (InALoop, 20), (InTurn, 1)):
        actor = kind.remote()
        refs = [actor.print.remote(number) for number in range(3)]
        ray.get(refs)
        for number, ref in enumerate(refs):
            expected = [f"{number} {line}" for line in range(num_lines)]
            wait_until(lambda ref=ref, expected=expected: lines(ref.task_id().hex()) == expected)
    # What a child process prints after that is of no task.
    ref = actor.run.remote()
    ray.get(ref)
    assert lines(ref.task_id().hex()) == []
    wait_until(lambda: "native\n" in "".join(get_log(actor_id=actor._actor_id.hex())))
    assert lines(refs[-1].task_id().hex()) == ["2 0"]
    assert "2 0\n" in cluster.must("logs", "task", "--id", refs[-1].task_id().hex())

    rows = json.loads(cluster.must("list", "tasks", "--detail", "--format", "json"))
    (made,) = (row["task_id"] for row in rows if row["name"] == "InThreads.__init__")
    assert lines(made) == ["constructed"]


@pytest.mark.parametrize("num_cpus", [1, 0])  # in a lease, and granted by the scheduler
def test_what_a_child_process_of_a_long_task_prints_is_of_it(
    cluster, tmp_path, wait_until, num_cpus
):
    ref = native.options(num_cpus=num_cpus).remote(str(tmp_path / "go"))
    listed = {"filters": [("task_id", "=", ref.task_id().hex())]}
    wait_until(lambda: [each.state for each in list_tasks(**listed)] == ["RUNNING"])
    wait_until(lambda: "native\n" in "".join(get_log(task_id=ref.task_id().hex())))
    (tmp_path / "go").touch()
    ray.get(ref)


@ray.remote(num_cpus=0)
class Waits:
    def __init__(self):
        self.held = bytearray(100_000_000)

    def in_user_code(self, path):
        open(path, "w").close()
        while os.path.exists(path):
            time.sleep(0.01)


def test_all_commands_have_one_number_for_the_memory_of_objects(cluster, session):
    @ray.remote
    def make(number):
        return bytes(1_000_000)

    kept = [make.remote(number) for number in range(10)]
    ray.wait(kept, num_returns=10)
    large = ray.put(bytes(20_000_000))
    shown = json.loads(cluster.must("status", "--format", "json"))
    stores = session.rpc(Overview())["stores"]  # what the pages and `top` show
    assert shown["object_store_bytes"] == pytest.approx(stores[0]["memory"], rel=0.01)
    assert shown["object_store_bytes"] > 30_000_000
    name = "object_store_memory"
    occupied = shown["resources_total"][name] - shown["resources_available"][name]
    assert occupied == pytest.approx(shown["object_store_bytes"], rel=0.01)
    occupied = ray.cluster_resources()[name] - ray.available_resources()[name]
    assert occupied == pytest.approx(shown["object_store_bytes"], rel=0.01)
    summary = json.loads(cluster.must("summary", "objects", "--format", "json"))
    total = summary["total_size_mb"] * 2**20
    assert shown["object_store_bytes"] == pytest.approx(total, rel=0.05)
    del kept, large


@pytest.mark.skipif(shutil.which("py-spy") is not None, reason="py-spy shows the stacks here")
def test_memory_names_the_lines_that_made_the_objects(no_cluster, monkeypatch):
    monkeypatch.setenv("RAY_record_ref_creation_sites", "1")
    ray.init(num_cpus=1, include_dashboard=False, configure_logging=False, log_to_driver=False)

    @ray.remote(num_cpus=0)
    class Keeper:
        def keep(self):
            self.kept = ray.put(bytes(3_000_000))

    @ray.remote(num_returns="streaming")
    def yields():
        yield 1

    def put_one():
        return ray.put(bytes(2_000_000))

    keeper = Keeper.remote()
    ray.get(keeper.keep.remote())
    refs = [put_one(), put_one()]
    refs += list(yields.remote())
    groups = {
        each["group"]: each
        for each in json.loads(
            Commands().must("memory", "--group-by", "call-site", "--format", "json")
        )["groups"]
    }
    of_driver = next(site for site in groups if ":put_one:" in site)
    assert of_driver.startswith(f"(put object)  | {__file__}:put_one:")
    assert groups[of_driver]["num_objects"] == 2
    assert groups[of_driver]["num_bytes"] >= 4_000_000
    assert any(":keep:" in site and "_executor" not in site for site in groups)
    assert refs[-1].call_site().startswith(f"(task call)  | {__file__}:test_memory_names")
    assert ":put_one:" in Commands().must("memory")


def test_stacks_and_memory_of_actors(cluster, tmp_path, wait_until):
    actor, path = Waits.options(name="waits").remote(), tmp_path / "running"
    ref = actor.in_user_code.remote(str(path))
    wait_until(path.exists)
    (row,) = list_actors(filters=[("name", "=", "waits")], detail=True)
    assert row.rss_bytes > 100_000_000
    assert "in in_user_code\n" in cluster.must("stack")
    (found, *_) = json.loads(cluster.must("stack", "--format", "json")).values()
    assert str(row.pid) in str(found["processes"])
    (got,) = json.loads(cluster.must("get", "actors", row.actor_id, "--format", "json"))
    assert got["pid"] == row.pid
    shown = cluster.must("stack", "--pid", str(row.pid))
    assert f"Process {row.pid} on 127.0.0.1: actor Waits" in shown
    assert f"It runs Waits.in_user_code (task {ref.task_id().hex()})." in shown
    assert "in in_user_code\n" in shown
    os.kill(row.pid, signal.SIGSTOP)
    try:
        assert "It has not answered" in cluster.must("stack", "--pid", str(row.pid))
    finally:
        os.kill(row.pid, signal.SIGCONT)
    path.unlink()
    ray.get(ref)
    wait_until(lambda: "It waits for calls." in cluster.must("stack", "--pid", str(row.pid)))
    everything = cluster.must("stack")
    assert f"Process {os.getpid()}: the driver of the job" in everything
    assert "test_stacks_and_memory_of_actors" in everything
    assert ": the scheduler\n" in everything
    assert " on 127.0.0.1: the node\n" in everything
    own = cluster.must("stack", "--pid", str(os.getpid()))
    assert own.startswith(f"Process {os.getpid()}: the driver of the job")
    assert "the scheduler" not in own
    missing = cluster.run("stack", "--pid", "1")
    assert missing.exit_code == 1
    assert "no process 1 that runs" in missing.output
    missing = cluster.run("stack", "--node-ip", "192.0.2.1")
    assert "There is no node '192.0.2.1'" in missing.output


def test_py_spy_reads_stacks_where_it_is_installed(no_cluster, tmp_path, monkeypatch):
    spy = tmp_path / "py-spy"
    spy.write_text('#!/bin/sh\n[ "$*" = "dump --pid $3" ] && echo "py-spy has read $3"\n')
    spy.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)
    actor = Watched.remote()
    pid = ray.get(actor.print.remote("x"))
    commands = Commands()
    assert f"  py-spy has read {pid}\n" in commands.must("stack", "--pid", str(pid))
    spy.write_text("#!/bin/sh\nexit 1\n")  # it is not allowed to
    assert "It waits for calls." in commands.must("stack", "--pid", str(pid))


def test_lists_say_how_many_rows_match_and_name_the_nearest_value(cluster):
    @ray.remote
    def counted():
        pass

    ray.get([counted.remote() for _ in range(5)])
    done = cluster.run("list", "tasks", "-f", "name=counted", "--limit", "2")
    assert "Total: 5, of which 2 are shown" in done.stdout
    assert "a larger limit" in done.stderr
    for wrong, near in (("state=finish", "FINISHED"), ("NAME=count", "counted")):
        printed = cluster.must("list", "tasks", "-f", wrong)
        assert (
            f"None of them has {wrong}. Did you mean {wrong.partition('=')[0]}={near}?" in printed
        )
    printed = cluster.must("list", "tasks", "-f", "name=counted", "-f", "state=running")
    assert "Did you mean" not in printed  # no task runs now
    done = cluster.run("list", "actors", "-f", "state=ALIV", "--format", "json")
    assert json.loads(done.stdout) == []
    assert "Did you mean state=ALIVE?" in done.stderr


def test_figures_for_programs(cluster):
    ref = ray.put(bytes(1_000_000))
    status = json.loads(cluster.must("status", "-v", "--format", "json"))
    assert [each["resources"]["CPU"] for each in status["nodes"]] == [2]
    assert status["resources_total"]["CPU"] == 2
    assert status["pending"] == []
    assert isinstance(status["running"], list)
    assert "running" not in yaml.safe_load(cluster.must("status", "--format", "yaml"))
    summary = json.loads(cluster.must("summary", "objects", "--format", "json"))
    assert summary["total_objects"] >= 1
    memory = json.loads(cluster.must("memory", "--format", "json"))
    assert memory["num_bytes"] >= 1_000_000
    assert ref.hex() in [each["object_id"] for each in memory["groups"][0]["largest"]]
    top = yaml.safe_load(cluster.must("top", "--format", "yaml"))
    assert top.keys() == {"nodes", "functions", "actors", "num_internal"}


def test_status_prints_its_report_before_it_asks_what_runs(cluster, monkeypatch):
    def refuse(client):
        raise ServerUnavailable("The scheduler is busy.")

    monkeypatch.setattr("raycompat._cli.status.running", refuse)
    done = cluster.run("status", "--verbose")
    assert "Total Usage:" in done.stdout
    assert (done.exit_code, done.stderr) == (1, "Error: The scheduler is busy.\n")


def test_what_top_prints_to_a_program_is_whole(cluster, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    actor = Watched.options(name="a-name-that-is-longer-than-most-names-of-actors" * 3).remote()
    ray.get(actor.print.remote("x"))
    top = cluster.must("top", "-n", "1")
    (line,) = (each for each in top.splitlines() if "a-name-that" in each)
    assert re.search(r"most-names-of-actors\) +ALIVE +[0-9.]+:[0-9]+ +[0-9]+ +[0-9.]+ MiB ", line)


def test_an_actor_of_a_class_without_a_module_is_in_top(cluster):
    NoModule = type("NoModule", (), {"f": lambda self: 1})
    NoModule.__module__ = None
    actor = ray.remote(NoModule).remote()
    assert ray.get(actor.f.remote()) == 1
    assert "NoModule" in _names_in_top(cluster, "actors", "class")


def test_top_leaves_out_the_actors_that_raycompat_makes_and_not_those_of_users(cluster):
    queue, theirs = Queue(), ray.remote(SplitCoordinator).remote(ray.data.range(1), 1, False)
    ray.get(theirs.__ray_ready__.remote())
    queue.put(1)
    names = _names_in_top(cluster, "actors", "class")
    assert "SplitCoordinator" in names
    assert "_QueueActor" not in names
    assert "_QueueActor" in _names_in_top(cluster, "actors", "class", "--internal")


def test_top_has_the_calls_of_a_users_class_with_a_name_of_raycompats(cluster, wait_until):
    @ray.remote(num_cpus=0)
    class _QueueActor:
        def work(self):
            return 1

    @ray.remote
    def function():
        return 1

    queue, theirs = Queue(), _QueueActor.remote()
    queue.put(1)
    ray.get([theirs.work.remote(), function.options(name="_QueueActor").remote()])
    expected = {"_QueueActor", "_QueueActor.work", "_QueueActor.__init__"}
    wait_until(lambda: expected <= set(_names_in_top(cluster, "functions", "name")))
    del theirs
    other = SignalActor.remote()
    assert ray.get(other.cur_num_waiters.remote()) == 0
    wait_until(lambda: "SignalActor" in _names_in_top(cluster, "actors", "class"))
    assert expected <= set(_names_in_top(cluster, "functions", "name"))
    assert "itself, not shown: functions: " in cluster.must("top", "-n", "1")
    assert "itself, not shown" not in cluster.must("top", "-n", "1", "--internal")


def _names_in_top(cluster, table, field, *flags):
    return [
        row[field] for row in yaml.safe_load(cluster.must("top", "--format", "yaml", *flags))[table]
    ]


def test_the_most_important_columns_are_whole_in_a_narrow_window(cluster, monkeypatch):
    actor = Watched.options(name="narrow").remote()
    ray.get(actor.print.remote(""))
    piped = cluster.must("list", "actors", "-f", "name=narrow", COLUMNS="80")
    assert "not shown" not in piped
    monkeypatch.setattr("raycompat._cli.tables.window_width", lambda: 80)
    listed = cluster.must("list", "actors", "-f", "name=narrow")
    assert actor._actor_id.hex() in listed
    assert "ALIVE" in listed
    assert "not shown in 80 columns" in listed
    top = cluster.must("top", "-n", "1", COLUMNS="80")
    assert re.search(r"Watched \(narrow\) +ALIVE +[0-9]+ ", top)
    for printed in (listed.partition("(not shown")[0], top):
        assert max(map(len, printed.splitlines())) <= 80


def test_the_timeline_is_written_to_a_file(cluster, tmp_path):
    @ray.remote
    def drawn():
        pass

    ray.get(drawn.remote())
    file = tmp_path / "calls.json"
    printed = cluster.must("timeline", "-o", str(file))
    assert str(file) in printed
    assert "task::drawn" in {each["cat"] for each in json.loads(file.read_text())}
    assert cluster.must("health-check") == ""


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("debug", "3"), "no breakpoint waits"),
        (("health-check", "--address", "127.0.0.1:1"), "127.0.0.1:1"),
        (("list", "tasks", "-f", "nothing"), "field=value"),
        (("list", "tasks", "-f", "call_site=x"), "not supported"),
        (("get", "tasks", "0" * 48), "no"),
        (("logs", "no-such-file"), "no log"),
        (("logs", "actor"), "--id"),
        (("logs", "actor", "--id", "0" * 32), "not known"),
        (("logs", "actor", "0" * 32), "not known"),
        (("logs", "actor", "0" * 32, "--id", "1" * 32), "once"),
        (("logs", "worker", "0" * 32), "--pid"),
        (("list", "tasks", "--address", "127.0.0.1:1"), "127.0.0.1:1"),
    ],
)
def test_commands_say_what_is_wrong(cluster, arguments, words):
    done = cluster.run(*arguments)
    assert done.exit_code in (1, 2)
    assert isinstance(done.exception, SystemExit)
    assert words in done.stderr


def test_a_bar_follows_references(cluster):
    drawn = io.StringIO()
    refs = [fails.remote(number) for number in range(5)]
    ray.util.progress(refs, desc="five", file=drawn)
    assert "five" in drawn.getvalue()
    assert "5/5" in drawn.getvalue()
    ray.util.progress([], file=drawn)


def test_bars_of_tasks_are_drawn_by_the_driver(no_cluster, capsys, wait_until):
    ray.init(num_cpus=2, include_dashboard=False, configure_logging=False)

    @ray.remote
    def steps(name):
        for _ in tqdm_ray.tqdm(range(10), desc=name, flush_interval_s=0):
            print("beside the bar of", name)
        bar = tqdm_ray.tqdm(total=3, desc=f"{name} by hand", flush_interval_s=0)
        bar.update(3)
        bar.close()

    ray.get([steps.remote("left"), steps.remote("right")])
    drawn, printed = "", ""

    def is_drawn():
        nonlocal drawn, printed
        found = capsys.readouterr()
        drawn, printed = drawn + found.err, printed + found.out
        return all(f"{name} by hand: 100%" in drawn for name in ("left", "right"))

    wait_until(is_drawn)
    assert "left: 100%" in drawn
    assert tqdm_ray.RAY_TQDM_MAGIC not in drawn + printed
    assert "beside the bar of left" in printed


def test_bars_of_a_killed_process_end_with_the_cluster(no_cluster, capsys, wait_until):
    import builtins

    @ray.remote
    class Actor:
        def begin(self):
            self.bar = tqdm_ray.tqdm(total=3, desc="never closed", flush_interval_s=0)
            self.bar.update(1)

    before = builtins.print
    with ray.init(num_cpus=1, include_dashboard=False, configure_logging=False):
        actor = Actor.remote()
        ray.get(actor.begin.remote())
        wait_until(lambda: "never closed" in capsys.readouterr().err)
        assert builtins.print is not before
        ray.kill(actor)
    assert builtins.print is before


def test_a_report_outlives_the_cluster(cluster, tmp_path):
    file = tmp_path / "report.html"
    actor = Watched.remote()
    with pytest.raises(KeyError), ray.util.performance_report(file):
        ray.get([actor.print.remote(f"number {number}") for number in range(3)])
        ray.wait([fails.options(name="fails <here>").remote(8)])
        raise KeyError("the report is written nevertheless")
    report = file.read_text(encoding="utf-8")
    assert "Watched.print" in report
    for title in ("Functions", "Actors", "Tasks that have failed", "Memory of objects"):
        assert f"<caption>{title}</caption>" in report
    assert ">fails &lt;here&gt;</td>" in report
    assert ">ValueError: wrong 8</td>" in report
    assert re.search(r'"Median" class="number">[0-9.]+ (us|ms)</td>', report)
    assert re.search(r'"Meant for objects" class="number">[0-9.]+ GiB</td>', report)
    assert "cdn.bokeh.org" not in report.partition("</head>")[0]
    assert report.rstrip().endswith("</html>")
    assert "<title>Report of raycompat</title>" in report
    assert "favicon" not in report


PROGRAM = """
import raycompat as ray

ray.init(num_cpus=1, configure_logging=False, log_to_driver=False, dashboard_port=0)

@ray.remote
def counted(number):
    return number

ray.get([counted.remote(number) for number in range(3)])
raise SystemExit("the program has failed")
"""


def test_a_program_leaves_a_report_when_it_ends(tmp_path):
    file = tmp_path / "report.html"
    command = [sys.executable, "-c", PROGRAM]
    environment = {**os.environ, "RAYCOMPAT_REPORT": str(file)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.stderr == "the program has failed\n"
    report = file.read_text(encoding="utf-8")
    assert ">counted</td>" in report
    assert report.rstrip().endswith("</html>")


@pytest.mark.parametrize(
    ("file", "error", "words"),
    [
        (3, TypeError, "path of a file"),
        ("/", IsADirectoryError, "is a folder"),
        (
            "/no-such-folder/report.html",
            FileNotFoundError,
            "folder does not exist: /no-such-folder",
        ),
    ],
)
def test_a_report_that_cannot_be_written_is_refused_at_once(cluster, file, error, words):
    with pytest.raises(error, match=words), ray.util.performance_report(file):
        pytest.fail("The block must not run.")
    with pytest.raises(error, match=words):
        ray.init(_report=file)


def test_events_say_which_nodes_and_drivers_came_and_which_actors_died(cluster):
    @ray.remote(num_cpus=0)
    class Dies:
        def exit(self):
            os._exit(3)

    actor = Dies.options(name="fragile").remote()
    with pytest.raises(ray.exceptions.RayActorError):
        ray.get(actor.exit.remote())
    killed = Dies.options(name="killed").remote()
    ray.get(killed.__ray_ready__.remote())
    ray.kill(killed)
    events = json.loads(cluster.must("list", "cluster-events", "--detail", "--format", "json"))
    node, job = ray.nodes()[0], ray.get_runtime_context().get_job_id()
    about = [
        (each["severity"], each["source_type"], each["message"], each["custom_fields"])
        for each in events
    ]
    joined = f"The node {node['NodeName']} ({node['NodeManagerAddress']}) has joined the cluster."
    assert ("INFO", "RAYLET", joined, {"node_id": node["NodeID"]}) in about
    begun = f"The driver {os.getpid()} of the job {job} has begun."
    assert ("INFO", "JOBS", begun, {"job_id": job}) in about
    (died,) = [each for each in events if "fragile" in each["message"]]
    assert died["severity"] == "ERROR"
    assert died["message"].startswith("The actor Dies (fragile) has died: ")
    assert died["message"].endswith("exit code 3.")
    assert died["custom_fields"] == {"actor_id": actor._actor_id.hex(), "job_id": job}
    assert not [each for each in events if "killed" in each["message"]]
    assert events == sorted(events, key=lambda each: each["event_id"])
    assert "fragile" in cluster.must("list", "cluster-events", "--filter", "severity=error")
    done = cluster.run("get", "cluster-events", died["event_id"])
    assert done.exit_code == 2
    assert "'cluster-events' is not one of" in done.stderr
