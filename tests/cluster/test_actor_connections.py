"""The connections to an actor: by a Unix socket, through its node (with TLS too), through the scheduler."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

#: Seconds that one program here may take.
PROGRAM_S = 60

PROGRAM = """
import sys
import numpy as np
import raycompat as ray
from raycompat._caller import current_session

ray.init(address=sys.argv[1] if len(sys.argv) > 1 else None, **{"include_dashboard": False}
         if len(sys.argv) == 1 else {})

@ray.remote
class Counter:
    def __init__(self):
        self.value = 0

    def add(self, by=1):
        self.value += by
        return self.value

    def total(self, array):
        return float(array.sum()), not array.flags.writeable

    def large(self):
        return np.ones(300_000)

    def count(self, number):
        for index in range(number):
            yield index

    def fail(self):
        raise KeyError("no")

    def die(self):
        import os
        os._exit(3)

    def give(self):
        return [ray.put(np.arange(100_000))]

@ray.remote
def double(value):
    return 2 * value

counter = Counter.remote()
assert ray.get([counter.add.remote() for _ in range(2000)]) == list(range(1, 2001))
assert ray.get(counter.total.remote(np.ones(300_000))) == (300_000.0, True)
assert ray.get(counter.total.remote(counter.large.remote())) == (300_000.0, True)
assert ray.get(double.remote(counter.add.remote())) == 4002
assert ray.get(double.remote(counter.large.remote())).sum() == 600_000
assert [ray.get(ref) for ref in counter.count.remote(50)] == list(range(50))
(inner,) = ray.get(counter.give.remote())
assert ray.get(inner)[-1] == 99_999
try:
    ray.get(counter.fail.remote())
except KeyError:
    pass
else:
    raise AssertionError("no KeyError")
channel = current_session.get().channels[counter._actor_ref._key]
connection, relays = type(channel._connection).__name__, list(current_session.get().relays)
lost = [counter.die.remote(), *(counter.add.remote() for _ in range(100))]
for ref in lost:
    try:
        ray.get(ref, timeout=30)
    except ray.exceptions.ActorDiedError:
        continue
    raise AssertionError("no ActorDiedError")
print(connection, *relays)
ray.shutdown()
"""


def run(program: Path, allowed: str, *arguments: str, **environment: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, str(program), *arguments],
        env={**os.environ, **environment, "RAYCOMPAT_CONNECTIONS": allowed},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PROGRAM_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout.strip().splitlines()[-1].split()


@pytest.fixture
def program(tmp_path) -> Path:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return path


@pytest.mark.parametrize(
    ("allowed", "kind", "by_scheduler"),
    [
        ("unix", "Connection", False),
        ("node", "RelayedConnection", False),
        ("scheduler", "RelayedConnection", True),
    ],
)
def test_everything_works_on_every_connection(program, no_cluster, allowed, kind, by_scheduler):
    connection, *relays = run(program, allowed)
    assert (connection, bool(relays)) == (kind, by_scheduler)


@pytest.fixture
def tls_environment(tmp_path) -> dict[str, str]:
    """Certificates that Dask makes, and the settings that have every process use them."""
    from distributed.security import Security

    security = Security.temporary()
    files = {}
    for name in ("tls_ca_file", "tls_scheduler_cert", "tls_scheduler_key"):
        files[name] = tmp_path / f"{name}.pem"
        files[name].write_text(getattr(security, name))
        files[name].chmod(0o600)
    prefix = "DASK_DISTRIBUTED__COMM__"
    settings = {f"{prefix}REQUIRE_ENCRYPTION": "True"}
    settings[f"{prefix}TLS__CA_FILE"] = str(files["tls_ca_file"])
    for role in ("SCHEDULER", "WORKER", "CLIENT"):
        settings[f"{prefix}TLS__{role}__CERT"] = str(files["tls_scheduler_cert"])
        settings[f"{prefix}TLS__{role}__KEY"] = str(files["tls_scheduler_key"])
    return settings


def _start(arguments: list[str], environment: dict[str, str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "distributed.cli." + arguments[0], *arguments[1:]],
        env={**os.environ, **environment},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        text=True,
    )


@pytest.fixture
def tls_cluster(tmp_path, tls_environment):
    """A Dask cluster of a scheduler and a worker, with TLS; gives its address."""
    address_file = tmp_path / "scheduler.json"
    scheduler = _start(
        [
            "dask_scheduler",
            *("--host", "tls://127.0.0.1:0", "--scheduler-file", str(address_file)),
            *("--no-dashboard",),
        ],
        tls_environment,
    )
    deadline = time.monotonic() + PROGRAM_S
    while not (address_file.exists() and address_file.read_text().endswith("}")):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    address = json.loads(address_file.read_text())["address"]
    worker = _start(
        [
            "dask_worker",
            *(address, "--nthreads", "2", "--no-nanny", "--no-dashboard"),
            *("--local-directory", str(tmp_path)),
        ],
        tls_environment,
    )
    yield address
    for process in (worker, scheduler):
        process.send_signal(signal.SIGTERM)
        process.wait(PROGRAM_S)


@pytest.mark.parametrize("allowed", ["node", "scheduler"])
def test_frames_are_relayed_with_tls(program, no_cluster, tls_cluster, tls_environment, allowed):
    assert tls_cluster.startswith("tls://")
    assert run(program, allowed, tls_cluster, **tls_environment)[0] == "RelayedConnection"
