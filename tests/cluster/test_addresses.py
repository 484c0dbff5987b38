"""Every way to say which cluster `init` connects to; what is wrong is said, and nothing is left of it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import stat
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from _dask_cluster import DaskCluster
from click.testing import CliRunner
from distributed import Client, LocalCluster
from distributed.security import Security

import raycompat as ray
from raycompat._cli.commands import cli
from raycompat._connect import addresses, connect
from raycompat._dask import client as adapter
from raycompat._host import segment
from raycompat._launch import prepare
from raycompat._protocol import current_cluster, refusals

QUIET = {"configure_logging": False, "log_to_driver": False}

#: Bytes that a value must have to be kept by a node.
LARGE = 1_000_000


@ray.remote
def square(x):
    return x * x


@ray.remote
def ones(size):
    return np.ones(size, dtype=np.uint8)


@ray.remote
def total(array):
    return int(array.sum())


@ray.remote
def nested(x):
    return ray.get(square.remote(x)) + 1


@ray.remote
class Counter:
    def __init__(self):
        self.count = 0

    def add(self, amount):
        self.count += int(np.sum(amount))
        return self.count


def use_everything():
    """Use every kind of connection between processes."""
    assert ray.get([square.remote(x) for x in range(5)], timeout=60) == [0, 1, 4, 9, 16]
    assert ray.get(nested.remote(3), timeout=60) == 10
    made = ones.remote(LARGE)
    assert int(ray.get(made, timeout=60).sum()) == LARGE
    assert ray.get(total.remote(made), timeout=60) == LARGE
    assert ray.get(total.remote(ray.put(np.ones(LARGE, dtype=np.uint8))), timeout=60) == LARGE
    counter = Counter.remote()
    assert ray.get([counter.add.remote(1) for _ in range(3)], timeout=60) == [1, 2, 3]
    assert ray.get(counter.add.remote(np.ones(LARGE, dtype=np.uint8)), timeout=60) == LARGE + 3


@pytest.fixture(autouse=True)
def nothing_is_said(monkeypatch, no_cluster):
    """No variable says where a cluster is, and none is connected, before and after."""
    for variable in ("RAY_ADDRESS", "DASK_SCHEDULER_ADDRESS"):
        monkeypatch.delenv(variable, raising=False)


@pytest.fixture
def is_connected_to():
    """Whether this process is a driver of the cluster at an address."""

    def look(address):
        session = sys.modules["raycompat._caller.current_session"].get()
        return session is not None and session.setup.scheduler == address

    return look


# --- what says where a cluster is ---------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["tcp://", "", "ray://"])
def test_an_address_may_be_text(one_worker, is_connected_to, scheme):
    place = one_worker.address.partition("://")[2]
    context = ray.init(address=scheme + place, **QUIET)
    assert is_connected_to(one_worker.address)
    assert context.address_info["address"] == place
    assert ray.get(square.remote(3)) == 9


@pytest.mark.parametrize("kind", [str, Path])
def test_an_address_may_be_a_scheduler_file(one_worker, is_connected_to, kind):
    ray.init(address=kind(one_worker.scheduler_file), **QUIET)
    assert is_connected_to(one_worker.address)
    assert ray.get(square.remote(3)) == 9


def test_an_address_may_be_a_client(one_worker, is_connected_to):
    with Client(one_worker.address, set_as_default=False) as client:
        ray.init(address=client, **QUIET)
        assert is_connected_to(one_worker.address)
        use_everything()
        ray.shutdown()
        assert client.submit(sum, [1, 2]).result() == 3  # the client is its owner's


@pytest.mark.parametrize(
    ("variables", "given"),
    [
        ({"RAY_ADDRESS": "{}"}, None),
        ({"RAY_ADDRESS": "{}"}, "auto"),
        ({"DASK_SCHEDULER_ADDRESS": "{}"}, None),
        ({"RAY_ADDRESS": "{}", "DASK_SCHEDULER_ADDRESS": "tcp://127.0.0.1:1"}, None),
        ({"RAY_ADDRESS": "", "DASK_SCHEDULER_ADDRESS": "{}"}, None),
    ],
)
def test_the_environment_may_say_it(one_worker, is_connected_to, monkeypatch, variables, given):
    for name, value in variables.items():
        monkeypatch.setenv(name, value.format(one_worker.address))
    ray.init(address=given, **QUIET)
    assert is_connected_to(one_worker.address)


def test_the_first_call_connects_where_the_environment_says(
    one_worker, is_connected_to, monkeypatch
):
    monkeypatch.setenv("DASK_SCHEDULER_ADDRESS", one_worker.address)
    assert ray.get(square.remote(3)) == 9
    assert is_connected_to(one_worker.address)


@pytest.mark.parametrize("variable", ["RAY_ADDRESS", "DASK_SCHEDULER_ADDRESS"])
def test_local_ignores_the_environment(one_worker, is_connected_to, monkeypatch, variable):
    monkeypatch.setenv(variable, one_worker.address)
    ray.init(address="local", num_cpus=1, include_dashboard=False, **QUIET)
    assert not is_connected_to(one_worker.address)
    assert ray.is_initialized()


def test_auto_does_not_look_at_dask_s_variable(one_worker, monkeypatch):
    monkeypatch.setenv("DASK_SCHEDULER_ADDRESS", one_worker.address)
    with pytest.raises(ConnectionError, match="Could not find any running Ray instance"):
        ray.init(address="auto", **QUIET)


@pytest.mark.parametrize("option", ["num_cpus", "num_gpus", "object_store_memory"])
def test_what_nodes_have_cannot_be_said_of_a_cluster_that_runs(one_worker, option):
    with pytest.raises(ValueError, match=r"must not be provided: .*address='local'"):
        ray.init(address=one_worker.address, **{option: 1})
    assert not ray.is_initialized()


def test_init_works_beside_a_running_event_loop(one_worker, is_connected_to):
    async def start():
        ray.init(address=one_worker.address, **QUIET)
        assert await square.remote(4) == 16

    asyncio.run(start())
    assert is_connected_to(one_worker.address)


# --- the cluster that is found ------------------------------------------------------------------


@pytest.fixture
def entry(tmp_path, monkeypatch):
    """The file that says which cluster runs here; there is none yet."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return current_cluster.folder() / "current.json"


def test_a_recorded_cluster_is_found(one_worker, entry, is_connected_to):
    current_cluster.record(one_worker.address, one_worker.scheduler.pid)
    assert stat.S_IMODE(entry.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(entry.stat().st_mode) == 0o600
    assert list(entry.parent.iterdir()) == [entry]
    ray.init(address="auto", **QUIET)
    assert is_connected_to(one_worker.address)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_the_port_of_ray_s_client_server_leads_to_the_head_of_this_machine(
    entry, host, monkeypatch
):
    current_cluster.record("tcp://127.0.0.1:1", os.getpid())
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        port = server.getsockname()[1]
        monkeypatch.setattr(addresses, "CLIENT_PORT", port)
        assert addresses.require(f"ray://{host}:{port}").address == "tcp://127.0.0.1:1"
        assert addresses.require(f"{host}:{port}").address == f"tcp://{host}:{port}"
        server.listen()
        assert addresses.require(f"ray://{host}:{port}").address == f"tcp://{host}:{port}"


def test_the_environment_goes_before_what_is_recorded(
    one_worker, entry, is_connected_to, monkeypatch
):
    current_cluster.record("tcp://127.0.0.1:1", os.getpid())
    monkeypatch.setenv("RAY_ADDRESS", one_worker.address)
    ray.init(address="auto", **QUIET)
    assert is_connected_to(one_worker.address)


def test_an_entry_whose_process_is_gone_does_not_count(entry):
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        current_cluster.record("tcp://127.0.0.1:1", process.pid)
        assert current_cluster.find() == "tcp://127.0.0.1:1"
    assert current_cluster.find() is None
    with pytest.raises(ConnectionError, match="Could not find any running Ray instance"):
        ray.init(address="auto", **QUIET)


def test_an_entry_of_another_process_with_the_same_pid_does_not_count(entry):
    current_cluster.record("tcp://127.0.0.1:1", os.getpid())
    words = json.loads(entry.read_text())
    entry.write_text(json.dumps({**words, "start": words["start"] - 1}))
    assert current_cluster.find() is None


def test_only_its_own_entry_is_forgotten(entry):
    current_cluster.record("tcp://127.0.0.1:1", os.getpid())
    current_cluster.forget(os.getppid())
    assert current_cluster.find() is not None
    current_cluster.forget(os.getpid())
    assert current_cluster.find() is None
    current_cluster.forget(os.getpid())


@pytest.mark.parametrize("text", ["", "[]", '{"address": "tcp://127.0.0.1:1"}', "{"])
def test_an_entry_that_is_none_does_not_count(entry, text):
    current_cluster.record("tcp://127.0.0.1:1", os.getpid())
    entry.write_text(text)
    assert current_cluster.find() is None


def test_an_entry_in_a_folder_that_others_may_write_to_does_not_count(entry):
    current_cluster.record("tcp://127.0.0.1:1", os.getpid())
    entry.parent.chmod(0o777)
    assert current_cluster.find() is None
    with pytest.raises(PermissionError, match="no other user can enter"):
        current_cluster.record("tcp://127.0.0.1:1", os.getpid())


# --- Dask's clusters ----------------------------------------------------------------------------


@contextlib.contextmanager
def dask_local_cluster(**options):
    given = {
        "n_workers": 2,
        "threads_per_worker": 1,
        "dashboard_address": "127.0.0.1:0",
        "processes": True,
    }
    with LocalCluster(**{**given, **options}) as cluster:
        yield cluster
        ray.shutdown()


def test_a_local_cluster_of_dask_s_is_a_cluster_of_nodes():
    with dask_local_cluster() as cluster:
        ray.init(address=cluster, **QUIET)
        assert ray.cluster_resources()["CPU"] == 2
        assert len(ray.nodes()) == 2
        use_everything()


def test_workers_that_join_later_become_nodes(wait_until):
    with dask_local_cluster(n_workers=1) as cluster:
        ray.init(address=cluster, **QUIET)
        cluster.scale(2)
        wait_until(lambda: ray.cluster_resources()["CPU"] == 2)
        use_everything()


def test_a_cluster_that_has_been_asked_for_workers_is_waited_for():
    with dask_local_cluster(n_workers=0) as cluster:
        cluster.scale(1)
        ray.init(address=cluster, **QUIET)
        assert ray.get(square.remote(3)) == 9


def test_a_cluster_without_workers_is_an_error_at_once():
    with dask_local_cluster(n_workers=0) as cluster:
        with pytest.raises(
            ConnectionError, match=r"LocalCluster has no workers.*cluster.scale\(2\)"
        ):
            ray.init(address=cluster, **QUIET)
        assert not ray.is_initialized()


def test_a_scheduler_without_workers_is_an_error_after_a_while(dask_cluster, monkeypatch):
    monkeypatch.setattr(prepare, "_FIRST_NODE_S", 0.1)
    with pytest.raises(ConnectionError, match="has no workers, and none came within"):
        ray.init(address=dask_cluster.address, **QUIET)
    assert not ray.is_initialized()


def test_a_closed_cluster_is_an_error():
    with dask_local_cluster(n_workers=0) as cluster:
        pass
    with pytest.raises(ConnectionError, match="the cluster is closed"):
        ray.init(address=cluster, **QUIET)


def test_a_closed_client_is_an_error(one_worker):
    with Client(one_worker.address, set_as_default=False) as client:
        pass
    with pytest.raises(ConnectionError, match="the client is closed"):
        ray.init(address=client, **QUIET)


def test_a_cluster_inside_this_process_is_an_error():
    with dask_local_cluster(n_workers=1, processes=False) as cluster:
        with pytest.raises(ConnectionError, match=r"LocalCluster\(processes=True\)"):
            ray.init(address=cluster, **QUIET)
        with Client(cluster, set_as_default=False) as client:
            with pytest.raises(ConnectionError, match=r"LocalCluster\(processes=True\)"):
                ray.init(address=client, **QUIET)


def test_the_security_of_a_cluster_is_everybody_s():
    with dask_local_cluster(security=True) as cluster:
        assert cluster.scheduler_address.startswith("tls://")
        ray.init(address=cluster, **QUIET)
        use_everything()
        with pytest.raises(
            ConnectionError, match="who know its password .* or have its certificates"
        ):
            ray.shutdown()
            ray.init(address=cluster.scheduler_address, **QUIET)


def test_the_security_of_a_client_is_everybody_s(monkeypatch):
    monkeypatch.setenv("RAYCOMPAT_CONNECTIONS", "node")
    security = Security.temporary()
    with (
        dask_local_cluster(n_workers=1, security=security) as cluster,
        Client(cluster.scheduler_address, security=security, set_as_default=False) as client,
    ):
        ray.init(address=client, **QUIET)
        use_everything()


# --- what is wrong ------------------------------------------------------------------------------


@pytest.fixture
def nothing_stays():
    """After a failed `init` there is no session, no thread and no connection more than before."""
    before = threading.active_count()
    yield
    assert not ray.is_initialized()
    assert threading.active_count() == before


@pytest.fixture
def soon(monkeypatch):
    """Shorten the wait for processes that do not answer."""
    monkeypatch.setattr(connect, "_ANSWER_S", 2)
    monkeypatch.setattr(refusals, "_STEP_S", 1)


def test_an_address_where_nobody_listens_is_an_error(soon, nothing_stays, monkeypatch):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        monkeypatch.setattr(connect, "CLIENT_PORT", port)
        with pytest.raises(
            ConnectionError, match="No Dask scheduler answers at tcp://127.*HOST:6379"
        ):
            ray.init(address=f"127.0.0.1:{port}", **QUIET)


@pytest.mark.parametrize("answer", [None, b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\0" * 64])
def test_somebody_who_is_no_scheduler_is_an_error(soon, nothing_stays, answer):
    """Somebody says nothing, or hangs up, or speaks another language."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        calls = []

        def serve():
            with contextlib.suppress(OSError):
                while True:
                    calls.append(server.accept()[0])
                    if answer is not None:
                        calls[-1].sendall(answer)
                        calls[-1].shutdown(socket.SHUT_WR)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            with pytest.raises(ConnectionError, match="No Dask scheduler answers"):
                ray.init(address=f"127.0.0.1:{server.getsockname()[1]}", **QUIET)
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()
            for each in calls:
                each.close()
    assert calls


def test_the_address_of_a_worker_is_an_error(one_worker, nothing_stays):
    with Client(one_worker.address, set_as_default=False) as client:
        [worker] = client.scheduler_info()["workers"]
    with pytest.raises(ConnectionError, match=f"is a Dask Worker, not.*at {one_worker.address}"):
        ray.init(address=worker, **QUIET)


@pytest.mark.parametrize(
    "address",
    ["nonsense", "", "localhost", ":8786", "host:", "host:port", "tcp://host", "host:99999", "a:0"],
)
def test_an_address_that_is_none_is_an_error(nothing_stays, address):
    for kind in (ConnectionError, ValueError):
        with pytest.raises(kind, match="Invalid address format"):
            ray.init(address=address, **QUIET)


def test_an_unknown_scheme_is_an_error(nothing_stays):
    with pytest.raises(ConnectionError, match="unknown address scheme 'wave'"):
        ray.init(address="wave://127.0.0.1:8786", **QUIET)


def test_the_address_of_web_pages_is_an_error(nothing_stays):
    with pytest.raises(
        ConnectionError, match=r"'http://127.* is the address of web pages\. Expected"
    ):
        ray.init(address="http://127.0.0.1:8265/status", **QUIET)


def test_a_host_that_nobody_knows_is_an_error(soon, nothing_stays):
    with pytest.raises(ConnectionError, match="No Dask scheduler answers"):
        ray.init(address="no-such-host.invalid:8786", **QUIET)


def test_a_scheduler_file_that_is_not_there_is_an_error(nothing_stays, tmp_path):
    with pytest.raises(ConnectionError, match="The scheduler file .* does not exist"):
        ray.init(address=tmp_path / "scheduler.json", **QUIET)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"address": "nonsense"}'])
def test_a_file_that_is_no_scheduler_file_is_an_error(nothing_stays, tmp_path, text):
    (tmp_path / "scheduler.json").write_text(text)
    with pytest.raises(ConnectionError, match="not a scheduler file|Invalid address format"):
        ray.init(address=str(tmp_path / "scheduler.json"), **QUIET)


@pytest.mark.parametrize("address", [8786, ["127.0.0.1:8786"], object()])
def test_what_leads_to_no_cluster_is_a_type_error(nothing_stays, address):
    with pytest.raises(TypeError, match="Expected 'auto'"):
        ray.init(address=address, **QUIET)


def test_after_a_wrong_address_a_right_one_works(soon, one_worker):
    with pytest.raises(ConnectionError):
        ray.init(address="tls://" + one_worker.address.partition("://")[2], **QUIET)
    ray.init(address=one_worker.address, **QUIET)
    assert ray.get(square.remote(3)) == 9


# --- plugins ------------------------------------------------------------------------------------


def test_the_plugins_are_registered_once(one_worker):
    def node_id(dask_worker):
        from raycompat._protocol import task_bodies

        return task_bodies.runners[dask_worker].id

    with Client(one_worker.address, set_as_default=False) as client:
        nodes = []
        for _ in range(2):
            ray.init(address=one_worker.address, **QUIET)
            use_everything()
            nodes.append(client.run(node_id))
            ray.shutdown()
    assert nodes[0] == nodes[1]


def test_a_worker_that_gets_the_plugin_twice_goes_on(one_worker):
    """As one does that joins while the first driver registers the plugin with all workers."""

    async def add_again(dask_worker):
        from raycompat._node.door import node_plugin

        return await dask_worker.plugin_add(node_plugin(), name="raycompat")

    ray.init(address=one_worker.address, **QUIET)
    counter = Counter.remote()
    assert ray.get(counter.add.remote(1)) == 1
    before = ray.nodes()
    with Client(one_worker.address, set_as_default=False) as client:
        for _ in range(2):
            assert list(client.run(add_again).values()) == [{"status": "OK"}]
    assert ray.get(counter.add.remote(1)) == 2
    assert ray.nodes() == before
    use_everything()


def test_several_drivers_register_at_once(dask_cluster):
    """Workers join meanwhile."""
    script = (
        "import sys, raycompat as ray\n"
        "ray.init(address=sys.argv[1], configure_logging=False)\n"
        "print(ray.get(ray.remote(lambda: ray.get_runtime_context().get_job_id()).remote()))\n"
    )
    for _ in range(2):
        dask_cluster.add_worker()
    command = [sys.executable, "-c", script, dask_cluster.address]
    drivers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    dask_cluster.add_worker()
    jobs = {driver.communicate(timeout=90)[0].strip() for driver in drivers}
    assert [driver.returncode for driver in drivers] == [0, 0, 0]
    assert len(jobs) == 3
    dask_cluster.connect()
    assert sum(node["Alive"] for node in ray.nodes()) == 3


def test_the_end_of_a_driver_ends_its_actors_and_leaves_others(one_worker, wait_until):
    script = (
        "import sys, raycompat as ray\n"
        "ray.init(address=sys.argv[1], namespace='theirs', configure_logging=False)\n"
        "actor = ray.remote(type('Named', (), {})).options(name='named', num_cpus=0).remote()\n"
        "ray.get(actor.__ray_ready__.remote())\n"
        "print('there', flush=True)\n"
        "sys.stdin.read()\n"
    )
    ray.init(address=one_worker.address, **QUIET)
    counter = Counter.remote()
    other = subprocess.Popen(
        [sys.executable, "-c", script, one_worker.address],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert other.stdout.readline() == "there\n"
        with pytest.raises(ValueError, match="named"):
            ray.get_actor("named")
        assert ray.get_actor("named", namespace="theirs")
    finally:
        other.stdin.close()
        other.wait(60)
        other.stdout.close()

    def is_gone():
        with contextlib.suppress(ValueError):
            return not ray.get_actor("named", namespace="theirs")
        return True

    wait_until(is_gone)
    assert ray.get(counter.add.remote(1)) == 1


# --- a client that cannot reach workers ---------------------------------------------------------


@pytest.fixture
def elsewhere(monkeypatch):
    """This process takes itself to be on another host than all nodes."""
    monkeypatch.setattr(segment, "host_id", lambda: "another host")


@pytest.fixture
def no_way(monkeypatch):
    """Whoever connects to a node fails; how often it was tried."""
    tried = []

    async def fail(client, address, *args, **kwargs):
        tried.append(address)
        raise OSError(f"there is no way to {address}")

    monkeypatch.setattr(adapter, "ask_worker", fail)
    monkeypatch.setattr(adapter, "open_comm", fail)
    return tried


def test_a_client_that_does_not_reach_workers_asks_the_scheduler(one_worker, elsewhere, no_way):
    with Client(one_worker.address, direct_to_workers=False, set_as_default=False) as client:
        ray.init(address=client, **QUIET)
        use_everything()
    assert no_way == []


def test_where_there_is_no_way_to_a_node_the_scheduler_is_asked(one_worker, elsewhere, no_way):
    ray.init(address=one_worker.address, **QUIET)
    use_everything()
    assert no_way != []


def test_a_node_that_dies_while_the_scheduler_asks_it_is_not_waited_for(
    dask_cluster, elsewhere, no_way, tmp_path
):
    @ray.remote(max_retries=0)
    def make():
        return np.ones(LARGE)

    node = dask_cluster.add_worker()
    dask_cluster.connect()
    ref = make.remote()
    ray.wait([ref], fetch_local=False)
    node.kill()
    with pytest.raises((ray.exceptions.ObjectLostError, ray.exceptions.NodeDiedError)):
        ray.get(ref, timeout=90)


# --- versions -----------------------------------------------------------------------------------


#: What Python runs first in processes that are to have no raycompat, or an older one.
PRETENCES = {
    "none": """
import sys

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "raycompat":
            raise ModuleNotFoundError("No module named 'raycompat'", name="raycompat")

sys.meta_path.insert(0, Hidden())
""",
    "old": """
import sys, types

module = types.ModuleType("raycompat._protocol.version")
module.VERSION = "0.0.9"
sys.modules[module.__name__] = module
""",
}


@pytest.fixture
def pretend(tmp_path, monkeypatch):
    """`pretend(kind)` has the processes that are started next have another raycompat, or none."""
    own = os.environ.get("PYTHONPATH", "")

    def change(kind):
        folder = tmp_path / kind
        folder.mkdir(exist_ok=True)
        (folder / "sitecustomize.py").write_text(PRETENCES[kind])
        monkeypatch.setenv("PYTHONPATH", f"{folder}{os.pathsep}{own}")

    yield change
    monkeypatch.setenv("PYTHONPATH", own)


def registered(client):
    """Return whether the scheduler has anything of raycompat."""
    return client.run_on_scheduler(
        lambda dask_scheduler: (
            "raycompat" in dask_scheduler.plugins or "raycompat" in dask_scheduler.worker_plugins
        )
    )


@pytest.mark.parametrize(
    ("kind", "text"), [("none", "is not installed there"), ("old", "it has raycompat 0.0.9")]
)
def test_a_worker_with_another_version_stays_a_worker_of_dask(
    dask_cluster, pretend, wait_until, capfd, caplog, kind, text
):
    dask_cluster.add_worker()
    with Client(dask_cluster.address, set_as_default=False) as client:
        client.wait_for_workers(1, timeout=60)
        [right] = client.scheduler_info()["workers"]
        pretend(kind)
        dask_cluster.add_worker()  # it is there when the plugin comes
        client.wait_for_workers(2, timeout=60)
        dask_cluster.connect(nodes=1)
        assert text in caplog.text
        assert right not in caplog.text
        capfd.readouterr()
        dask_cluster.add_worker()  # it gets the plugin when it joins
        client.wait_for_workers(3, timeout=60)
        wait_until(lambda: text in capfd.readouterr().err, 60)
        assert len(ray.nodes()) == 1
        use_everything()
        everywhere = client.scheduler_info(n_workers=-1)["workers"]
        assert client.gather(
            [client.submit(abs, -3, workers=each, pure=False) for each in everywhere]
        )
        shown = CliRunner().invoke(cli, ["status", "--address", dask_cluster.address]).output
        assert shown.count(text) == 2


def test_a_cluster_without_a_fit_worker_is_refused(dask_cluster, pretend):
    with Client(dask_cluster.address, set_as_default=False) as client:
        pretend("none")
        dask_cluster.add_worker()
        client.wait_for_workers(1, timeout=60)
        with pytest.raises(
            ValueError, match=r"No Dask worker can be a node: .*is not installed there"
        ):
            ray.init(address=dask_cluster.address, **QUIET)
        assert client.submit(abs, -3).result() == 3
    assert not ray.is_initialized()


@pytest.mark.parametrize(("kind", "text"), [("none", "has none"), ("old", "has 0.0.9")])
def test_a_scheduler_with_another_version_is_named(tmp_path, pretend, kind, text):
    pretend(kind)
    cluster = DaskCluster(tmp_path)
    try:
        with pytest.raises(RuntimeError, match=f"the scheduler at {cluster.address} {text}"):
            ray.init(address=cluster.address, **QUIET)
        with Client(cluster.address, set_as_default=False) as client:
            assert not registered(client)
    finally:
        cluster.close()


def test_a_driver_with_another_version_is_refused_and_others_go_on(one_worker, pretend):
    ray.init(address=one_worker.address, **QUIET)
    counter = Counter.remote()
    assert ray.get(counter.add.remote(1)) == 1
    pretend("old")
    script = f"import raycompat as ray\nray.init(address={one_worker.address!r})\n"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=90, check=False
    )
    assert done.returncode == 1
    assert "RuntimeError: Version mismatch: this process has raycompat 0.0.9" in done.stderr
    assert ray.get(counter.add.remote(1)) == 2
    use_everything()
