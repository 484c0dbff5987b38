"""What another user of the same host can do to a cluster: nothing.

The attacker is a real second user, whose programs run with another uid (`_other_user`).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import tempfile
import uuid
from pathlib import Path
from types import SimpleNamespace

import _other_user
import numpy as np
import pytest
from distributed.comm import connect
from distributed.comm.core import FatalCommClosedError

import raycompat as ray
from raycompat._caller import connections
from raycompat._host import own_folder, processes, segment
from raycompat._launch.local_cluster import LocalCluster
from raycompat._launch.node_options import NodeOptions
from raycompat._messages.actors import ActorState
from raycompat._node.relay import Relays
from raycompat._protocol import current_cluster, local_address
from raycompat.util import dask

QUIET = {"configure_logging": False, "include_dashboard": False}

#: Values of a segment: 8 MB, so that it is recycled.
MANY = 1 << 20


@pytest.fixture(scope="module", autouse=True)
def other_user():
    _other_user.needed()


def use_objects() -> None:
    """Write, read, free and write large values, in this process and in others."""
    total = ray.remote(lambda array: float(array.sum()))
    make = ray.remote(lambda value: np.full(MANY, value))
    for value in (1.0, 2.0, 3.0):
        ref = ray.put(np.full(MANY, value))
        assert ray.get(total.remote(ref)) == MANY * value
        assert ray.get(ref)[-1] == value
        assert ray.get(make.remote(value))[-1] == value
        del ref


# --- segments -----------------------------------------------------------------------------------

#: Makes the folder of free segments of a node that is about to start, with large files in it, wherever
#: it can. Then says what a value that was written there has, and writes something else.
PLANT_FREE_SEGMENTS = """
import glob, os, sys
os.umask(0)
store, size = sys.argv[1], int(sys.argv[2])
files = []
for parent in ["/dev/shm", *glob.glob("/dev/shm/raycompat-*")]:
    try:
        folder = f"{parent}/{store}-free"
        os.makedirs(folder, mode=0o777, exist_ok=True)
        for number in range(8):
            path = f"{folder}/{size + 4096}-1-{number}"
            files.append((path, os.open(path, os.O_RDWR | os.O_CREAT, 0o666)))
            os.ftruncate(files[-1][1], size + 4096)
    except OSError:
        pass
print(len(files), flush=True)
input()
seen = 0
for _, file in files:
    content = os.pread(file, size, 0)
    seen += len(content) - content.count(0)
    os.pwrite(file, b"planted" * 1000, 0)
print(seen, flush=True)
try:
    input()
except EOFError:
    pass
for path, _ in files:
    if os.path.exists(path):
        os.unlink(path)
for path, _ in files:
    try:
        os.rmdir(os.path.dirname(path))
    except OSError:
        pass
"""


def test_a_folder_that_another_user_has_made_first_is_not_used(no_cluster):
    with_one_node = LocalCluster(dashboard_address=None, temp_dir=None)
    try:
        node = with_one_node.start_node(NodeOptions({"CPU": 2}, 1 << 30))
        pid = node.process.pid
        store = f"{segment.PREFIX}{pid}.{processes.start_of(pid)}"
        with _other_user.Running(PLANT_FREE_SEGMENTS, store, 8 * MANY) as attacker:
            assert int(attacker.first_line) >= 8
            node.join(with_one_node.address)
            node.wait_until_up()
            with ray.init(with_one_node.address, configure_logging=False):
                refs = [ray.put(np.full(MANY, 7.0)) for _ in range(4)]
                assert attacker.ask("What was written?") == "0"
                assert [ray.get(ref)[0] for ref in refs] == [7.0] * 4
                use_objects()
    finally:
        with_one_node.close()


#: Makes names that a careless reader stumbles over, in a folder where everybody may write.
PLANT_NAMES = """
import os, sys
os.umask(0)
parent, prefix = sys.argv[1:]
files = ["raycompat-\\u00b2.1", "raycompat-\\u00b2.1-\\u00b3-0", "raycompat-1.\\u0661-1-0", "raycompat-.-",
         "raycompat-99999999999999999999.1-1-1", "raycompat-4194305.7-free", "raycompat-4194305.7-4194306-1"]
folders = ["raycompat-0", f"{prefix}{'0' * 16}"]
link = f"{prefix}{'1' * 16}"
for name in files:
    open(f"{parent}/{name}", "w").close()
for name in folders:
    os.mkdir(f"{parent}/{name}", 0o777)
os.symlink(f"{parent}/{folders[0]}", f"{parent}/{link}")
print("planted", flush=True)
sys.stdin.read()
for name in [*files, link]:
    os.unlink(f"{parent}/{name}")
for name in folders:
    os.rmdir(f"{parent}/{name}")  # nobody has put anything there
"""


@pytest.fixture
def open_tmp(tmp_path_factory, monkeypatch):
    """A folder for temporary files where every user may write, like ``/tmp``."""
    folder = tempfile.mkdtemp(prefix="raycompat-open-", dir="/tmp")
    os.chmod(folder, 0o1777)
    monkeypatch.setenv("TMPDIR", folder)
    monkeypatch.setattr(tempfile, "tempdir", None)
    yield folder
    for path in own_folder.all_in(folder):
        path.rmdir()
    os.rmdir(folder)


def plant_names(folder: str) -> _other_user.Running:
    return _other_user.Running(PLANT_NAMES, folder, own_folder.prefix())


def test_no_name_that_another_user_makes_stops_a_cluster(no_cluster, open_tmp):
    with plant_names("/dev/shm"), plant_names(open_tmp):
        with ray.init(num_cpus=1, **QUIET):
            use_objects()
        current_cluster.record("tcp://127.0.0.1:1", os.getpid())
        assert current_cluster.find() == "tcp://127.0.0.1:1"
        current_cluster.forget(os.getpid())


def test_a_running_node_goes_on_tidying_whatever_others_put_there(no_cluster, wait_until):
    with ray.init(num_cpus=1, **QUIET), plant_names("/dev/shm"):
        for _ in range(2):  # that it tidies, and goes on
            left = Path(segment.shared_folder(), f"{segment.PREFIX}4194305.7-4194306-1")
            left.touch(mode=0o600)
            wait_until(lambda left=left: not left.exists())


# --- Unix sockets -------------------------------------------------------------------------------

#: Listens at a name, and prints the data of each client that connects.
LISTEN = """
import socket, sys
listener = socket.socket(socket.AF_UNIX)
listener.bind("\\0" + sys.argv[1])
listener.listen()
print("listening", flush=True)
stream, _ = listener.accept()
print(stream.recv(100), flush=True)
"""


class NoParty:
    """A party that must not get a connection."""

    key = "an actor"

    def connected(self, connection, incarnation):
        raise AssertionError("connected to another user's process")


def test_a_caller_does_not_talk_to_another_user_s_process():
    name = f"raycompat-{uuid.uuid4().hex}"
    place = ActorState("A-1", socket=name, incarnation=1)
    with _other_user.Running(LISTEN, name) as attacker:
        assert attacker.first_line == "listening"
        assert (
            asyncio.run(connections._by_socket(SimpleNamespace(pump=None), place, NoParty()))
            is False
        )
        assert attacker.next_line() == "b''"


def test_a_relay_does_not_talk_to_another_user_s_process():
    name = f"raycompat-{uuid.uuid4().hex}"
    with _other_user.Running(LISTEN, name) as attacker:
        assert asyncio.run(Relays(None, lambda key: name)._connect("an actor")) is None
        assert attacker.next_line() == "b''"


#: Connects to a name, and prints the data that it gets and whether the connection is closed.
CONNECT = """
import socket, sys
stream = socket.socket(socket.AF_UNIX)
stream.settimeout(30)
stream.connect("\\0" + sys.argv[1])
try:
    print(stream.recv(100))
except ConnectionResetError:
    print(b"")
"""


def test_an_actor_does_not_talk_to_another_user_s_process(no_cluster):
    with ray.init(num_cpus=1, **QUIET):
        actor = ray.remote(Listening).remote()
        (name,) = ray.get(actor.names.remote())
        assert _other_user.run(CONNECT, name) == "b''\n"
        assert ray.get(actor.names.remote()) == [name]


class Listening:
    def names(self) -> list[str]:
        """Return the abstract names at which this process listens."""
        own = set()
        for descriptor in os.listdir("/proc/self/fd"):
            with contextlib.suppress(FileNotFoundError):  # the one that lists them
                own.add(os.readlink(f"/proc/self/fd/{descriptor}"))
        rows = [line.split() for line in Path("/proc/net/unix").read_text().splitlines()]
        found = [row[7][1:] for row in rows if len(row) > 7 and f"socket:[{row[6]}]" in own]
        return sorted({name for name in found if name.startswith("raycompat-")})


# --- clusters that programs start -----------------------------------------------------------------

#: Tries to have a Dask server at an address run code, as Dask's own clients do.
ATTACK_BY_DASK = """
import asyncio, os, pickle, sys
import raycompat._dask.local_comm
from distributed.comm import connect
from raycompat._host import unix_socket

unix_socket.is_of_this_user = lambda _: True  # an attacker does not mind who is attacked

class Mark:
    def __reduce__(self):
        return os.mkdir, (sys.argv[2],)

async def attack():
    comm = await connect(sys.argv[1], timeout=60)
    function, arguments = pickle.dumps(Mark()), pickle.dumps(())
    await comm.write(
        {"op": sys.argv[3], "function": function, "args": arguments, "wait": True, "reply": True}
    )
    await comm.read()

try:
    asyncio.run(attack())
except OSError as error:
    print(type(error).__name__, error)
"""


#: What schedulers and workers of Dask call the request to run code.
OPERATIONS = ("run_function", "run")


def addresses_of_servers() -> list[str]:
    """Return the addresses of the scheduler and of the only node."""
    client = dask.client()
    (node,) = client.scheduler_info(n_workers=-1)["workers"]
    return [client.scheduler.address, node]


def test_another_user_runs_nothing_on_a_cluster_that_init_has_started(
    no_cluster, open_tmp, monkeypatch
):
    monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
    with ray.init(num_cpus=1, **QUIET):
        for address, operation in zip(addresses_of_servers(), OPERATIONS, strict=True):
            port = int(address.rpartition(":")[2])
            mark = Path(open_tmp, operation)
            assert "Error" in _other_user.run(ATTACK_BY_DASK, address, mark, operation)
            assert _other_user.run(CONNECT, f"raycompat-dask-{port}") == "b''\n"
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(("127.0.0.1", port), 10)
            assert not mark.exists()
        use_objects()


def test_the_same_attack_works_on_a_cluster_that_is_open(no_cluster, open_tmp, monkeypatch):
    """That the test above can fail."""
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    with ray.init(num_cpus=1, **QUIET):
        for address, operation in zip(addresses_of_servers(), OPERATIONS, strict=True):
            assert address.startswith("tcp://")
            mark = Path(open_tmp, operation)
            assert _other_user.run(ATTACK_BY_DASK, address, mark, operation) == ""
            mark.rmdir()


def test_nothing_is_sent_to_another_user_s_server():
    port = 1  # raycompat never listens there
    with _other_user.Running(LISTEN, f"raycompat-dask-{port}") as attacker:
        assert not local_address.is_served("127.0.0.1", port)
        assert attacker.next_line() == "b''"
    with _other_user.Running(LISTEN, f"raycompat-dask-{port}") as attacker:
        connecting = connect(f"raycompat://127.0.0.1:{port}", timeout=10)
        with pytest.raises(FatalCommClosedError, match="[Aa]nother user"):
            asyncio.run(connecting)
        assert attacker.next_line() == "b''"
