"""Access: no other host without ``--node-ip-address``, and no process without the password.

The tests try all means of an attacker: plain connections, TLS without a certificate or with a
self-made one, and pickles that leave a mark if a process loads them.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import http.cookiejar
import json
import os
import pickle
import re
import socket
import ssl
import stat
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

import psutil
import pytest
from _commands import OUTSIDE, CommandLine
from distributed.comm.tcp import TCP
from tornado.iostream import StreamClosedError
from tornado.tcpclient import TCPClient

import raycompat as ray
from raycompat._launch.process import Process
from raycompat._protocol.shared_secret import Authority

PASSWORD = "correct horse battery staple"

QUIET = {"configure_logging": False, "include_dashboard": False}

#: Seconds for a server to close the connection of an attacker.
HANG_UP_S = 30


@pytest.fixture
def commands(tmp_path, no_cluster):
    commands = CommandLine(tmp_path)
    yield commands
    commands.close()


@pytest.fixture(scope="module")
def password_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("secret") / "password"
    path.touch(mode=0o600)
    path.write_text(PASSWORD + "\n")
    return path


@pytest.fixture(scope="module")
def secured_cluster(tmp_path_factory, password_file):
    """A cluster with a password and two nodes, for all tests that leave it as it is."""
    commands = CommandLine(tmp_path_factory.mktemp("secured"))
    try:
        password = f"--redis-password-file={password_file}"
        address = commands.start_head(password, has_dashboard=True)
        variables = {"RAYCOMPAT_PASSWORD_FILE": str(password_file)}
        commands.must("start", f"--address={address}", "--num-cpus=1", **variables)
        yield commands
    finally:
        commands.close()


@pytest.fixture
def secured(secured_cluster, no_cluster):
    """Commands in the folder of the cluster with a password; nothing is connected to it."""
    return secured_cluster


def place(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition("/")[2].rpartition(":")
    return host, int(port)


def authority_at(address: str) -> Authority:
    """Return the authority of a cluster, made of its password."""
    authority = Authority(PASSWORD)
    authority.join(*place(address))
    return authority


def listeners(processes: list[psutil.Process]) -> list[tuple[int, str, int]]:
    """Return pid, host and port of each socket that one of these processes listens on."""
    found = []
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):  # an executor that has just left
            found += [
                (process.pid, each.laddr.ip, each.laddr.port)
                for each in process.net_connections("inet")
                if each.status == psutil.CONN_LISTEN
            ]
    return found


def of_this_process() -> list[psutil.Process]:
    me = psutil.Process()
    return [me, *me.children(recursive=True)]


def use_everything() -> None:
    """Use tasks, actors, their channels and large objects."""

    @ray.remote
    def nested(n):
        return ray.get(nested.remote(n - 1)) + 1 if n else len(ray.get(ray.put(b"x" * (1 << 21))))

    @ray.remote
    class Actor:
        def call(self, value):
            return len(value)

    actor = Actor.remote()
    assert ray.get(nested.remote(2)) == (1 << 21) + 2
    assert ray.get(actor.call.remote(ray.put(b"y" * (1 << 21)))) == 1 << 21
    assert ray.get(ray.remote(lambda a: ray.get(a.call.remote(b"z"))).remote(actor)) == 1


# What listens


@pytest.mark.parametrize(("options", "num_ports"), [({}, 2), ({"_redis_password": PASSWORD}, 4)])
def test_after_init_everything_listens_on_loopback_and_with_a_password_nothing_is_plain(
    no_cluster, options, num_ports
):
    with ray.init(num_cpus=2, dashboard_port=0, configure_logging=False, **options) as context:
        use_everything()
        found = listeners(of_this_process())
        assert len(found) >= num_ports  # pages; with a password the scheduler's and the node's too
        assert {host for _, host, _ in found} == {"127.0.0.1"}
        if options:
            assert context.dashboard_url.startswith("https://127.0.0.1:")
            for port in {port for _, _, port in found}:
                assert_only_tls(port)


def test_after_start_everything_listens_on_loopback_where_no_other_host_reaches_it(commands):
    address = commands.start_head(has_dashboard=True)
    commands.must("start", f"--address={address}")
    found = listeners(commands.processes())
    assert len(found) >= 6
    assert {host for _, host, _ in found} == {"127.0.0.1"}
    if OUTSIDE is None:
        return  # this machine has no other address than loopback
    for _, _, port in found:
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((OUTSIDE, port), 10)


def init_options() -> dict[str, object]:
    return {"configure_logging": False}


@pytest.mark.skipif(OUTSIDE is None, reason="this machine has no other address than loopback")
def test_a_cluster_that_is_told_to_be_reached_from_elsewhere_is(commands):
    options = [f"--node-ip-address={OUTSIDE}", "--num-cpus=1"]
    address = commands.start_head(*options, has_dashboard=True, RAYCOMPAT_PASSWORD=PASSWORD)
    commands.must("start", f"--address={address}", RAYCOMPAT_PASSWORD=PASSWORD)
    where = {host for _, host, _ in listeners(commands.processes())}
    assert where == {"127.0.0.1", OUTSIDE}  # pages stay at home
    with ray.init(address, _redis_password=PASSWORD, **init_options()):
        use_everything()
        assert len(ray.nodes()) == 2


@pytest.mark.skipif(OUTSIDE is None, reason="this machine has no other address than loopback")
def test_being_reached_from_elsewhere_without_a_password_is_warned_of(commands):
    options = ("--port=0", "--dashboard-port=0", f"--node-ip-address={OUTSIDE}")
    done = commands.run("start", "--head", *options)
    assert done.returncode == 0
    assert "can run programs as you" in done.stderr


def test_a_mode_that_ray_does_not_know_starts_nothing(commands):
    done = commands.run("start", "--head", "--port=0", "--dashboard-port=0", RAY_AUTH_MODE="maybe")
    assert done.returncode != 0
    assert "expected 'token'" in done.stderr
    assert "Traceback" not in done.stderr
    assert not commands.processes()


# With the password


def test_the_environment_has_the_password_too(no_cluster, monkeypatch, password_file):
    monkeypatch.setenv("RAYCOMPAT_PASSWORD_FILE", str(password_file))
    with ray.init(num_cpus=1, **QUIET):
        address = sys.modules["raycompat._caller.current_session"].get().setup.scheduler
        assert address.startswith("tls://")
        variables = ray.get(ray.remote(lambda: dict(os.environ)).remote())
        assert "RAYCOMPAT_PASSWORD_FILE" not in variables


@pytest.mark.parametrize("connection", ["unix", "node", "scheduler"])
def test_every_connection_to_an_actor_is_there_with_a_password(secured, monkeypatch, connection):
    monkeypatch.setenv("RAYCOMPAT_CONNECTIONS", connection)
    with ray.init(secured.current["address"], _redis_password=PASSWORD, **init_options()):
        use_everything()
        assert len(ray.nodes()) == 2


def test_nothing_that_listens_is_plain(secured):
    ports = [port for _, _, port in listeners(secured.processes())]
    assert len(ports) == 6
    for port in ports:
        assert_only_tls(port)


def assert_only_tls(port: int) -> None:
    """Check that a client that does not begin with TLS gets no data and is disconnected."""
    for words in (b"GET / HTTP/1.1\r\nHost: here\r\n\r\n", b"\x00" * 64):
        with socket.create_connection(("127.0.0.1", port), HANG_UP_S) as stream:
            stream.sendall(words)
            try:
                answer = stream.recv(4096)
            except ConnectionResetError:
                answer = b""
            assert not answer or answer.startswith(b"\x15\x03")  # a TLS alert
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with socket.create_connection(("127.0.0.1", port), HANG_UP_S) as stream:
        with pytest.raises(ssl.SSLError):
            context.wrap_socket(stream)


# Without it


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, "who know its password"),
        ({"_redis_password": "wrong"}, "is not that of the cluster"),
    ],
)
def test_init_without_the_password_is_refused_and_told_why(secured, options, text):
    for address in (secured.current["address"], secured.current["address"].replace("tls://", "")):
        with pytest.raises(ConnectionError, match=text):
            ray.init(address, **options, **init_options())
        assert not ray.is_initialized()


@pytest.mark.parametrize("arguments", [[], ["--redis-password=wrong"]])
@pytest.mark.parametrize("verb", ["start", "status"])
def test_commands_without_the_password_are_refused_and_told_why(secured, verb, arguments):
    before = secured.records()
    done = secured.run(verb, f"--address={secured.current['address']}", *arguments)
    assert done.returncode == 1
    assert re.search("who know its password|is not that of the cluster", done.stderr)
    assert "--redis-password-file" in done.stderr
    assert secured.records() == before


#: Of a refused connection Dask may leave a socket open; it ends with this process.
STRANGERS = """
import sys
from distributed import Client, Security
from raycompat._dask import security

from raycompat._protocol.shared_secret import Authority

address = sys.argv[1]
for where, how in [
    (address.replace("tls://", "tcp://"), None),
    (address, Security.temporary()),
    (address, security.dask_security(Authority("wrong").credentials())),
]:
    try:
        Client(where, security=how, set_as_default=False)
    except OSError:
        print("refused")
"""


def test_a_dask_client_without_the_password_is_refused(secured):
    done = subprocess.run(
        [sys.executable, "-c", STRANGERS, secured.current["address"]],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stdout.split() == ["refused"] * 3, done.stderr


def test_a_node_with_the_wrong_password_never_joins(secured, tmp_path):
    own = tmp_path / "stranger"
    own.mkdir()
    options = {"directory": str(own), "resources": {"CPU": 1}, "memory_bytes": 1 << 30}
    stranger = Process("raycompat._node.main", options, tmp_path / "stranger.log", {})
    try:
        address = secured.current["address"]
        (log,) = secured.own_folder.glob("session-*/logs/scheduler.log")
        before = log.read_text().count("TLS handshake failed")
        stranger.tell({"scheduler": address, "credentials": Authority("wrong").credentials()})
        deadline = time.monotonic() + 60
        while log.read_text().count("TLS handshake failed") == before:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        with ray.init(address, _redis_password=PASSWORD, **init_options()):
            assert len(ray.nodes()) == 2
    finally:
        stranger.kill()


class Mark:
    """Makes a folder where it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)

    def __reduce__(self):
        return os.mkdir, (self.path,)


def attack(address: str, context: ssl.SSLContext | None, mark: Path) -> None:
    """Send what runs code on a Dask server that listens; return when it has answered or hung up."""

    async def send() -> None:
        host, port = place(address)
        try:
            stream = await TCPClient().connect(host, port, ssl_options=context)
            comm = TCP(stream, f"tcp://{host}:1", f"tcp://{host}:{port}", True)
            await comm.write({"compression": None, "python": (3, 11), "pickle-protocol": 5})
            function = pickle.dumps(Mark(mark))
            request = {"op": "run_function", "function": function, "args": pickle.dumps(())}
            await comm.write({"op": "run", **request, "wait": True, "reply": True})
            await comm.write({**request, "wait": True, "reply": True})
            for _ in range(3):
                await comm.read()
        except (OSError, StreamClosedError):
            return  # it has hung up: what Dask raises is one

    asyncio.run(asyncio.wait_for(send(), HANG_UP_S))


def strangers() -> dict[str, ssl.SSLContext | None]:
    """Return how strangers come: plainly, and by TLS without looking at who answers."""

    def careless(credentials: dict[str, str] | None) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        if credentials is not None:
            with tempfile.NamedTemporaryFile("w") as file:
                file.write(credentials["key"] + credentials["certificate"])
                file.flush()
                context.load_cert_chain(file.name)
        return context

    return {
        "plain": None,
        "without a certificate": careless(None),
        "with a certificate of their own": careless(Authority("wrong").credentials()),
    }


def test_no_pickle_of_a_stranger_is_ever_loaded(secured, tmp_path):
    dask_ports = {place(secured.current["address"])[1]}
    with ray.init(secured.current["address"], _redis_password=PASSWORD, **init_options()):
        dask_ports |= {node["NodeManagerPort"] for node in ray.nodes()}
        assert len(dask_ports) == 3
        for port in dask_ports:
            for number, context in enumerate(strangers().values()):
                mark = tmp_path / f"mark-{port}-{number}"
                attack(f"127.0.0.1:{port}", context, mark)
                assert not mark.exists()
        use_everything()


def test_the_same_pickles_are_loaded_where_there_is_no_password(commands, tmp_path):
    """That the test above can fail."""
    address = commands.start_head()
    attack(address, None, tmp_path / "mark")
    assert (tmp_path / "mark").exists()
    # And a password is told to be none of its.
    with pytest.raises(ConnectionError, match="has no password, but one was given"):
        ray.init(address.replace("tcp://", ""), _redis_password=PASSWORD, **init_options())
    with pytest.raises(ValueError, match="does not use one"):
        ray.init(address, _redis_password=PASSWORD, **init_options())


# Where the password is not


def test_the_password_is_in_no_command_line_no_environment_and_no_file(secured):
    with ray.init(secured.current["address"], _redis_password=PASSWORD, **init_options()):
        use_everything()
        token = authority_at(secured.current["address"]).credentials()["token"]
        secrets = [PASSWORD.encode(), token.encode(), b"PRIVATE KEY"]
        # The titles of executors cover their first environment, so a task looks at the present one.
        inside = ray.remote(lambda: repr(dict(os.environ)).encode())
        assert not any(secret in ray.get(inside.remote()) for secret in secrets)
        for process in secured.processes():
            seen = Path(f"/proc/{process.pid}/cmdline").read_bytes()
            seen += Path(f"/proc/{process.pid}/environ").read_bytes()
            assert not any(secret in seen for secret in secrets)
        files = [path for path in secured.folder.rglob("*") if path.is_file()]
        assert any(path.name == "scheduler.log" for path in files)
        for path in files:
            content = path.read_bytes()
            assert not any(secret in content for secret in secrets), path


def test_nobody_else_may_enter_the_folders(secured):
    for path in [secured.own_folder, *secured.own_folder.glob("session-*")]:
        assert stat.S_IMODE(path.stat().st_mode) == 0o700


# The dashboard


class Browser:
    """Opens pages of a cluster whose certificate it does not know, and keeps cookies."""

    def __init__(self) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        self.jar = http.cookiejar.CookieJar()
        self._opener = urllib.request.build_opener(
            urllib.request.HTTPSHandler(context=context),
            urllib.request.HTTPCookieProcessor(self.jar),
        )

    def open(self, url: str, **headers: str) -> tuple[int, str, str]:
        """Return status, the address that it has come to, and the page."""
        accepts = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
        request = urllib.request.Request(url, headers={**accepts, **headers})
        try:
            with self._opener.open(request, timeout=HANG_UP_S) as answer:
                return answer.status, answer.url, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, url, error.read().decode()


def test_a_password_is_not_passed_on_and_the_dashboard_opens_with_its_token_alone(commands):
    options = ("--port=0", "--dashboard-port=0", "--num-cpus=1")
    printed = commands.must("start", "--head", *options, RAYCOMPAT_PASSWORD=PASSWORD)
    for process in commands.processes():
        assert b"RAYCOMPAT_PASSWORD" not in Path(f"/proc/{process.pid}/environ").read_bytes()
    # The titles of executors cover their first environment, so a task looks at the present one.
    with ray.init(commands.current["address"], _redis_password=PASSWORD, **init_options()):
        variables = ray.get(ray.remote(lambda: list(os.environ)).remote())
    assert "PATH" in variables
    assert "RAYCOMPAT_PASSWORD" not in variables

    url = re.search(r"https://\S+", printed)[0]
    assert f"Dashboard: {url}" in commands.must("status", RAYCOMPAT_PASSWORD=PASSWORD)
    bare, _, token = url.partition("?token=")
    site = bare.rpartition("/")[0]
    browser = Browser()
    for path in (
        "",
        "/status",
        "/status/ws",
        "/json/counts.json",
        "/metrics",
        "/individual-plots.json",
    ):
        status, _, page = browser.open(f"{site}{path}")
        assert status == 401
        assert "requires the token" in page
    assert browser.open(f"{bare}?token=wrong")[0] == 401
    assert browser.open(bare, Authorization="Bearer wrong")[0] == 401
    assert browser.open(bare, Authorization=f"Bearer {token}")[0] == 200

    # A program, such as JupyterLab's extension, keeps no cookie, and sends the token in each address.
    plots = f"{site}/individual-plots.json?token="
    assert "/individual-ray-tasks" in browser.open(f"{plots}{token}", Accept="*/*")[2]
    assert browser.open(f"{plots}wrong", Accept="*/*")[0] == 401
    assert not list(browser.jar)

    status, came_to, page = browser.open(url)
    assert (status, came_to) == (200, bare)  # the token is in no address any more
    assert "Bokeh" in page
    (cookie,) = browser.jar
    assert cookie.secure
    assert cookie.has_nonstandard_attr("HttpOnly")
    assert browser.open(f"{site}/json/counts.json")[0] == 200
    assert browser.open(f"{site}/status/ws")[0] == 400  # it is the page's own, and no WebSocket


def test_the_pages_of_nodes_are_guarded_too(secured):
    node = secured.records()[0]
    pids = {each["pid"] for each in secured.records() if each["role"] == "node"}
    with ray.init(secured.current["address"], _redis_password=PASSWORD, **init_options()):
        dask_ports = {each["NodeManagerPort"] for each in ray.nodes()}
    found = listeners([each for each in secured.processes() if each.pid in pids])
    pages = [port for _, _, port in found if port not in dask_ports]
    assert len(pages) == 2, node
    token = authority_at(secured.current["address"]).credentials()["token"]
    for port in pages:
        assert Browser().open(f"https://127.0.0.1:{port}/health")[0] == 401
        assert Browser().open(f"https://127.0.0.1:{port}/health?token={token}")[0] == 200


def test_without_a_password_the_dashboard_is_as_it_was_and_a_mode_of_init_s_is_warned_of(commands):
    done = commands.run("start", "--head", "--port=0", "--dashboard-port=0", RAY_AUTH_MODE="token")
    assert done.returncode == 0
    assert "RAY_AUTH_MODE=token is for clusters that programs start" in done.stderr
    url = re.search(r"http://(\S+)", done.stdout)[1]
    assert f"Dashboard: http://{url}" in commands.must("status")
    connection = http.client.HTTPConnection(url, timeout=HANG_UP_S)
    connection.request("GET", "/json/counts.json")
    assert json.loads(connection.getresponse().read())["workers"] == 1
    connection.close()
