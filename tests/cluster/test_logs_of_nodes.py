"""What executors print: on several nodes, for several drivers, in large amounts, and in files."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from collections import Counter
from pathlib import Path

import pytest

import raycompat as ray
from raycompat._caller import driver_logs
from raycompat.util import dask

#: Seconds that a driver of these tests may take.
DRIVER_S = 150


def start(body: str, stdout=subprocess.PIPE, **variables: str) -> subprocess.Popen[bytes]:
    source = "import os, sys, raycompat as ray\n" + textwrap.dedent(body)
    environment = {**os.environ, "RAY_DEDUP_LOGS": "0", "RAY_COLOR_PREFIX": "0", **variables}
    return subprocess.Popen(
        [sys.executable, "-c", source], stdout=stdout, stderr=subprocess.PIPE, env=environment
    )


def end(driver: subprocess.Popen[bytes]) -> tuple[str, str]:
    stdout, stderr = driver.communicate(timeout=DRIVER_S)
    assert driver.returncode == 0, stderr.decode()
    return (stdout or b"").decode(), stderr.decode()


# --- several nodes ------------------------------------------------------------------------------


def test_each_line_of_each_node_comes_once_with_its_address(dask_cluster, capsys, monkeypatch):
    monkeypatch.setenv("RAY_COLOR_PREFIX", "0")
    for host in ("127.0.0.1", "127.0.0.1", "127.0.0.2"):
        dask_cluster.add_worker(host)
    dask_cluster.connect()

    @ray.remote(scheduling_strategy="SPREAD")
    def speak(number):
        print("number", number)
        return os.getpid(), ray.get_runtime_context().get_node_id()

    where = ray.get([speak.remote(number) for number in range(30)])
    nodes = {node["NodeID"]: node["NodeManagerAddress"] for node in ray.nodes()}
    home = nodes[ray.get_runtime_context().get_node_id()]
    ray.shutdown()
    printed = Counter(capsys.readouterr().out.splitlines())
    expected = Counter()
    for number, (pid, node) in enumerate(where):
        ip = "" if nodes[node] == home else f", ip={nodes[node]}"
        expected[f"(speak pid={pid}{ip}) number {number}"] += 1
    assert printed == expected
    assert len({node for _, node in where}) == 3
    assert sorted(nodes.values()) == ["127.0.0.1", "127.0.0.1", "127.0.0.2"]


def test_each_driver_sees_its_own_lines_alone(dask_cluster):
    dask_cluster.add_worker()
    body = """
    ray.init({address!r}, configure_logging=False)

    @ray.remote(num_cpus=0)
    def speak(number):
        print({name!r}, number)

    ray.get([speak.remote(number) for number in range(50)])
    ray.shutdown()
    """
    names = ("first", "second")
    drivers = [start(body.format(address=dask_cluster.address, name=name)) for name in names]
    for name, driver in zip(names, drivers, strict=True):
        out, _ = end(driver)
        texts = [line.partition(") ")[2] for line in out.splitlines()]
        assert sorted(texts) == sorted(f"{name} {number}" for number in range(50))


def test_a_driver_does_not_wait_for_the_output_of_a_node_that_is_gone(dask_cluster, capsys):
    first, second = dask_cluster.add_worker(), dask_cluster.add_worker()
    dask_cluster.connect()

    @ray.remote(scheduling_strategy="SPREAD")
    def speak(number):
        print("before", number)

    ray.get([speak.remote(number) for number in range(4)])
    for worker in (first, second):
        worker.send_signal(signal.SIGKILL)
        worker.wait()
    ray.shutdown()  # would wait for its own deadline, and the test's, if it counted on them
    printed = capsys.readouterr().out
    assert all(printed.count(f"before {number}") <= 1 for number in range(4)), printed


# --- large amounts ------------------------------------------------------------------------------

LARGE = """
import threading, time

def peak(pid):
    with open(f"/proc/{pid}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) // 1024

def family():
    import psutil
    (forkserver,) = psutil.Process().children()
    found = forkserver.children()
    return {" ".join(each.cmdline()).partition("raycompat.")[2].split()[0]: each.pid for each in found}

ray.init(num_cpus=2, include_dashboard=False, configure_logging=False)

@ray.remote
def chatter(num_lines):
    for number in range(num_lines):
        print(f"{number:09d} " + "x" * 89)

@ray.remote
class Other:
    def work(self):
        return 1

other = Other.remote()
ray.get([chatter.remote(1000), other.work.remote()])
pids = {**family(), "driver": os.getpid()}
before = {name: peak(pid) for name, pid in pids.items()}
ref, calls = chatter.remote(1_000_000), 0
while not ray.wait([ref], timeout=0)[0]:
    ray.get(other.work.remote())
    calls += 1
ray.get(ref)
sys.modules["raycompat._caller.current_session"].get().logs.flush()
for name, pid in pids.items():
    print("grew", name, peak(pid) - before[name], file=sys.stderr)
print("calls", calls, file=sys.stderr)
ray.shutdown()
"""


@pytest.mark.nightly
@pytest.mark.timeout(2 * DRIVER_S)
def test_a_hundred_megabytes_arrive_in_little_memory_while_others_work(tmp_path):
    with (tmp_path / "out").open("wb") as file:
        _, err = end(start(LARGE, stdout=file))
    numbers = []
    with (tmp_path / "out").open() as file:
        for line in file:
            found = re.fullmatch(r"\(chatter pid=\d+\) (\d{9}) x{89}\n", line)
            assert found, line[:300]
            numbers.append(int(found[1]))
    assert numbers == [*range(1000), *range(1_000_000)]
    grew = {name: int(mb) for name, mb in re.findall(r"^grew (\S+) (\d+)$", err, re.MULTILINE)}
    assert grew.keys() == {"_scheduler.main", "_node.main", "driver"}
    assert max(grew.values()) < 30, grew  # MB: a few times what is on the way, not what is printed
    assert int(re.search(r"^calls (\d+)$", err, re.MULTILINE)[1]) > 100


def test_a_driver_whose_output_nobody_reads_holds_up_no_task():
    driver = start(
        """
        ray.init(num_cpus=2, include_dashboard=False, configure_logging=False)

        @ray.remote
        def chatter():
            for number in range(100_000):
                print(f"{number:09d} " + "x" * 89)
            return "done"

        print(ray.get(chatter.remote(), timeout=100), file=sys.stderr, flush=True)
        ray.shutdown()
        """,
        RAY_ROTATION_MAX_BYTES="1000000",
    )
    assert driver.stderr.readline() == b"done\n"  # and nothing was read of its 10 MB
    out, _ = end(driver)
    (note,) = re.findall(r"raycompat: ([\d.]+) MB of the output were left out here.* in (\S+)", out)
    shown = [int(number) for number in re.findall(r"^\(chatter pid=\d+\) (\d{9}) x", out, re.M)]
    assert shown == sorted(set(shown))
    assert float(note[0]) == pytest.approx((100_000 - len(shown)) * 1e-4, abs=0.1)
    assert re.search(r"raycompat-logs/worker-\w+-\w+-\d+\.out$", note[1])


# --- files --------------------------------------------------------------------------------------


def test_the_node_keeps_a_file_of_each_stream_of_each_executor(no_cluster, wait_until):
    context = ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)

    @ray.remote
    def speak():
        print("to the file")
        print("to the other", file=sys.stderr)
        return os.getpid(), ray.get_runtime_context().get_worker_id()

    pid, worker = ray.get(speak.remote())
    lines = {"out": "to the file\n", "err": "to the other\n"}
    job = ray.get_runtime_context().get_job_id()
    folder = Path(context.address_info["session_dir"])
    stem = f"worker-{worker}-{job}-{pid}"
    for ending, line in lines.items():
        wait_until(lambda: any(line in p.read_text() for p in folder.rglob(f"{stem}.{ending}")))


def test_files_are_rotated(no_cluster, monkeypatch, wait_until):
    monkeypatch.setenv("RAY_ROTATION_MAX_BYTES", "10000")
    monkeypatch.setenv("RAY_ROTATION_BACKUP_COUNT", "2")
    context = ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)

    @ray.remote
    def speak():
        for _ in range(1000):
            print("x" * 99)
        print("the end")
        return os.getpid()

    pid = ray.get(speak.remote())
    folder = Path(context.address_info["session_dir"])

    def files():
        return {path.suffix: path for path in folder.rglob(f"worker-*-{pid}.out*")}

    def has_ended():
        with contextlib.suppress(KeyError, FileNotFoundError):  # it is being rotated
            return "the end" in files()[".out"].read_text()

    wait_until(has_ended)
    sizes = {suffix: path.stat().st_size for suffix, path in files().items()}
    # 1,000 lines, the name of the task and the end: the last file has just been begun.
    assert sizes.keys() == {".out", ".1", ".2"}
    assert sizes[".out"] < 1000
    assert sizes[".1"] == sizes[".2"] == 10_000


def test_a_process_that_outlives_its_executor_keeps_nobody(no_cluster, capsys):
    ray.init(num_cpus=1, include_dashboard=False, configure_logging=False)

    @ray.remote(max_retries=0)
    def leave():
        subprocess.Popen(["sh", "-c", "sleep 30; echo late"], start_new_session=True)
        print("left", flush=True)
        os._exit(1)

    with pytest.raises(ray.exceptions.WorkerCrashedError):
        ray.get(leave.remote(), timeout=20)
    ray.shutdown()
    assert capsys.readouterr().out.count("left") == 1


def test_a_driver_waits_for_the_output_of_a_node_that_is_busy(no_cluster, caplog):
    """A node may write values to disk for seconds, and answers nothing meanwhile."""
    ray.init(num_cpus=1, include_dashboard=False, configure_logging=False)
    ray.get(ray.remote(lambda: print("begun")).remote())
    busy_s = 1.5 * driver_logs._LAST_WORDS_S
    dask.client().run(lambda dask_worker: dask_worker.loop.add_callback(time.sleep, busy_s))
    ray.shutdown()
    assert "may be missing" not in caplog.text
