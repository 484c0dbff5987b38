"""The command line: clusters that outlive the command, what it prints, and how they end."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from _commands import CommandLine
from _killing import killing

from raycompat._host import processes, segment

#: What a driver does first and last, in the tests' programs.
DRIVER = """
import raycompat as ray
ray.init({address!r}, configure_logging=False)
{body}
ray.shutdown()
"""


@pytest.fixture
def commands(tmp_path, no_cluster):
    """Commands in a folder of the test's own; what they have started ends with the test."""
    commands = CommandLine(tmp_path)
    yield commands
    commands.close()


def drive(commands: CommandLine, body: str, address: str = "auto") -> str:
    done = commands.python(DRIVER.format(address=address, body=body))
    assert done.returncode == 0, done.stderr
    return done.stdout


def wait_for(condition, deadline_s: float = 60.0):
    deadline = time.monotonic() + deadline_s
    while not (found := condition()):
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)
    return found


# From start to stop


def test_a_cluster_outlives_the_command_and_ends_when_told(commands):
    address = commands.start_head(__DASK_PARENT_PID=str(os.getpid()))  # as below a nanny of Dask
    for record in commands.records():
        command = psutil.Process(record["pid"]).cmdline()
        assert [word for word in command if word.startswith("raycompat._")], command
    # The entry of the current cluster names its scheduler.
    entry = commands.current
    assert address.startswith("tcp://127.0.0.1:")
    assert entry["pid"] == commands.pid_of("scheduler")
    assert entry["start"] == processes.start_of(entry["pid"])
    body = """
print(ray.get([ray.remote(lambda x: x * x).remote(x) for x in (1, 2)]))
print([n['Resources']['CPU'] for n in ray.nodes()])
"""
    assert drive(commands, body) == "[1, 4]\n[2.0]\n"
    commands.note()
    assert re.search(r"Stopped all [3-9] processes", commands.must("stop"))
    assert commands.left() == []
    assert commands.records() == []
    assert not (commands.own_folder / "current.json").exists()
    assert "No process of" in commands.must("stop")


def test_what_start_prints_is_what_works_and_nodes_have_what_they_were_started_with(
    commands, tmp_path
):
    (tmp_path / "labels.yaml").write_text("zone: b\nkind: large\n")
    printed = commands.must(
        "start",
        "--head",
        "--port=0",
        "--dashboard-port=0",
        "--num-cpus=1",
        "--num-gpus=1",
        f"--memory={3 << 30}",
        f"--object-store-memory={1 << 30}",
    )
    join = re.search(r"raycompat (start --address='([^']+)')", printed)
    assert join is not None
    assert re.search(rf"ray\.init\(address='{join[2]}'\)", printed)
    assert Path(re.search(r"Its logs: +(\S+)", printed)[1], "scheduler.log").exists()
    commands.must(
        *join[1].replace("'", "").split(),
        "--num-cpus=3",
        '--resources={"special": 2}',
        "--labels=zone=a",
        f"--labels-file={tmp_path / 'labels.yaml'}",
    )
    printed = drive(commands, "import json; print(json.dumps(ray.nodes()))", address=join[2])
    head, node = sorted(json.loads(printed), key=lambda each: "special" in each["Resources"])
    assert head["Resources"]["GPU"] == 1.0
    assert head["Resources"]["memory"] == float(3 << 30)
    assert head["Resources"]["object_store_memory"] == float(1 << 30)
    assert node["Resources"]["special"] == 2.0
    assert node["Resources"]["CPU"] == 3.0
    given = {name: node["Labels"].get(name) for name in ("zone", "kind")}
    assert given == {"zone": "a", "kind": "large"}  # the flag goes before the file
    listed = commands.must("list", "nodes")
    assert "memory: 3.00 GiB" in listed
    assert "has no logs: no task or actor there has printed anything." in commands.must("logs")


def test_two_clusters_run_beside_each_other_and_the_last_is_found(commands):
    first = commands.start_head()
    second = commands.start_head()
    assert first != second
    assert second.rpartition("/")[2] in drive(
        commands, "print(ray.get_runtime_context().gcs_address)"
    )
    commands.must("stop")
    assert commands.left() == []


# Stopping


def test_stop_removes_segments(commands):
    commands.start_head()
    with_segment = (
        "import numpy as np\n"
        "@ray.remote\n"
        "class Keeper:\n"
        "    def keep(self): self.ref = ray.put(np.ones(1 << 20)); return ray.get(self.ref).sum()\n"
        "keeper = Keeper.options(name='k', lifetime='detached').remote()\n"
        "print(ray.get(keeper.keep.remote()))"
    )
    drive(commands, with_segment)
    node = commands.pid_of("node")
    assert list(Path("/dev/shm").glob(f"*/{segment.PREFIX}{node}.*"))
    commands.must("stop", "--force")
    assert not list(Path("/dev/shm").glob(f"*/{segment.PREFIX}{node}.*"))


def test_what_does_not_end_by_itself_is_killed_and_told(commands):
    commands.start_head()
    node = commands.pid_of("node")
    os.kill(node, signal.SIGSTOP)
    done = commands.run("stop", "--grace-period=2")
    assert done.returncode == 0
    assert re.search(rf"were killed: .*\b{node}\b", done.stderr)
    assert commands.left() == []


def test_stop_ends_what_actors_have_started_but_not_who_has_the_pid_of_another(commands):
    commands.start_head()
    printed = drive(
        commands,
        "import subprocess\n"
        "@ray.remote\n"
        "class Starter:\n"
        "    def start(self):\n"
        "        return subprocess.Popen(['sleep', '1000']).pid\n"
        "starter = Starter.options(name='starter', lifetime='detached').remote()\n"
        "print(ray.get(starter.start.remote()))",
    )
    child = psutil.Process(int(printed))
    assert child.is_running()
    (record,) = [each for each in commands.records() if each["role"] == "node"]
    with subprocess.Popen(["sleep", "1000"], start_new_session=True) as other:
        path = commands.own_folder / "processes" / f"{other.pid}.json"
        began = processes.start_of(other.pid)
        path.write_text(
            (commands.own_folder / "processes" / f"{record['pid']}.json")
            .read_text()
            .replace(str(record["pid"]), str(other.pid))
            .replace(str(record["start"]), str(began - 1))
        )
        commands.must("stop", "--grace-period=4")
        assert other.poll() is None
        other.kill()
    assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE
    assert commands.left() == []


def test_a_folder_that_others_may_enter_is_refused(commands):
    folder = commands.own_folder
    folder.chmod(0o755)
    done = commands.run("start", "--head", "--port=0")
    assert done.returncode == 1
    assert "no other user can enter" in done.stderr
    assert "Traceback" not in done.stderr
    folder.chmod(0o700)


# When it does not come up


def test_a_port_that_is_taken_is_told_at_once(commands):
    port = commands.start_head().rpartition(":")[2]
    done = commands.run("start", "--head", f"--port={port}")
    assert done.returncode == 1
    assert f"port {port}" in done.stderr
    assert "raycompat stop" in done.stderr
    assert len(commands.records()) == 2


def test_a_scheduler_that_does_not_come_up_is_shown_by_its_log_and_nothing_is_left(commands):
    done = commands.run("start", "--head", "--port=0", "--dashboard-host=203.0.113.1")
    assert done.returncode == 1
    assert "Cannot assign requested address" in done.stderr
    assert commands.records() == []
    assert commands.processes() == []
    commands.wait_until_none_is_left()


def test_a_node_that_does_not_come_up_ends_the_scheduler_too(commands):
    done = commands.run(
        "start", "--head", "--port=0", "--dashboard-port=0", "--node-manager-port=1", PORT="1"
    )
    if os.getuid() == 0:  # who may listen on port 1: then it is taken by the next
        commands.must("stop")
        with_listener = "import socket; s = socket.create_server(('127.0.0.1', 1)); input()"
        with subprocess.Popen(
            [sys.executable, "-c", with_listener], stdin=subprocess.PIPE
        ) as taken:
            wait_for(lambda: psutil.Process(taken.pid).net_connections())
            done = commands.run("start", "--head", "--port=0", "--node-manager-port=1")
            taken.stdin.close()
    assert done.returncode == 1
    assert "ermission denied" in done.stderr or "already in use" in done.stderr
    assert commands.records() == []
    commands.wait_until_none_is_left()


def test_joining_what_does_not_answer_starts_nothing(commands):
    done = commands.run("start", "--address=127.0.0.1:1")
    assert done.returncode == 1
    assert "No Dask scheduler answers at tcp://127.0.0.1:1" in done.stderr
    assert commands.records() == []


# --block


@contextmanager
def begin_blocking(commands: CommandLine) -> Iterator[subprocess.Popen[str]]:
    """Begin `start --block`; go on when it has said that it stays."""
    process = commands.begin(
        "start", "--head", "--block", "--port=0", "--include-dashboard=false", "--num-cpus=1"
    )
    with process:
        try:
            for line in process.stdout:
                if line.startswith("--block"):
                    break
            else:
                pytest.fail(process.stderr.read())
            commands.note()
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_what_a_blocking_start_has_started_ends_with_it(commands, number):
    with begin_blocking(commands) as process:
        assert "1.0" in drive(commands, "print(ray.cluster_resources()['CPU'])")
        process.send_signal(number)
        assert process.wait(60) == 0
    assert commands.left() == []
    assert commands.records() == []


def test_a_blocking_start_ends_well_when_its_cluster_is_stopped(commands):
    with begin_blocking(commands) as process:
        commands.must("stop")
        assert process.wait(60) == 0
    assert commands.left() == []


def test_what_a_blocking_start_has_started_ends_when_it_is_killed(commands):
    with begin_blocking(commands) as process:
        process.kill()
    commands.wait_until_none_is_left()


def test_a_blocking_start_fails_when_its_node_dies(commands):
    with begin_blocking(commands) as process:
        os.kill(commands.pid_of("node"), signal.SIGKILL)
        assert process.wait(60) == 1
        said = process.stderr.read()
    log = re.search(r"The node has ended. Its log is (\S+)\.$", said, re.MULTILINE)
    assert Path(log[1]).exists()
    assert commands.left() == []


# Status


def test_status_shows_what_is_used_and_what_waits(commands):
    commands.start_head("--num-gpus=1")
    body = (
        "import time\n"
        "@ray.remote(num_gpus=1)\n"
        "def hold(path):\n"
        "    import pathlib\n"
        "    while not pathlib.Path(path).exists(): time.sleep(0.02)\n"
        "held = hold.remote('go')\n"
        "waits = [ray.remote(num_gpus=1)(lambda: 1).remote() for _ in range(3)]\n"
        "never = ray.remote(num_cpus=64)(lambda: 1).remote()\n"
        "ray.get(held)\n"
    )
    with (
        subprocess.Popen(
            [sys.executable, "-c", DRIVER.format(address="auto", body=body)],
            env=commands.environment,
            cwd=commands.folder,
        ) as driver,
        killing(driver),
    ):

        def shown() -> str | None:
            printed = commands.must("status")
            return printed if "3 pending" in printed and "64" in printed else None

        printed = wait_for(shown)
        assert re.search(r"^ 1\.0/1\.0 GPU$", printed, re.MULTILINE)
        assert re.search(r"^ 1\.0/2\.0 CPU$", printed, re.MULTILINE)
        assert re.search(r"'GPU': 1\.0.*: 3 pending task", printed)
        assert re.search(r"'CPU': 64\.0.*no node can ever provide", printed)
        assert re.search(r"^ node_[0-9a-f]{12}  127\.0\.0\.1 ", printed, re.MULTILINE)
        (commands.folder / "go").touch()
        assert driver.wait(60) == 0


def test_status_without_a_cluster_says_how_to_get_one(commands):
    done = commands.run("status")
    assert done.returncode == 1
    assert "raycompat start --head" in done.stderr


def test_status_of_a_dask_cluster_that_nobody_has_used_yet(commands, dask_cluster):
    done = commands.run("status", f"--address={dask_cluster.address}")
    assert done.returncode == 1
    assert "raycompat is not on the Dask cluster at tcp://" in done.stderr
    assert "no driver has connected to it, or it was taken off" in done.stderr
