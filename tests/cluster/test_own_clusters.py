"""How programs of the same user get to a cluster that another program has started by `init`."""

from __future__ import annotations

import logging
import re
import subprocess
import sys
import urllib.error
import urllib.request

import psutil
import pytest

import raycompat as ray

QUIET = {"include_dashboard": False}

#: Connects by `init`, or by Dask alone, to the address that it is given.
BY_INIT = """
import sys
import raycompat as ray
ray.init(sys.argv[1], configure_logging=False)
print(ray.get(ray.remote(lambda: 7).remote()))
"""
BY_DASK = """
import sys
from distributed import Client
with Client(sys.argv[1]) as client:
    print(client.submit(lambda: 7).result())
"""


@pytest.fixture(scope="module")
def printed():
    """What `init` said of a cluster that this process has started, and that runs."""
    ray.shutdown()
    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())
    logger = logging.getLogger("raycompat")
    logger.addHandler(handler)
    with pytest.MonkeyPatch.context() as environment:
        environment.delenv("RAY_AUTH_MODE", raising=False)
        cluster = ray.init(num_cpus=1, dashboard_port=0)
    with cluster:
        yield "\n".join(lines)
    logger.removeHandler(handler)


def run(program: str, address: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program, address],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_dask_s_own_client_gets_in_with_the_address_that_init_prints(printed):
    address = re.search(r" at (raycompat://127\.0\.0\.1:\d+), which only this user can", printed)[1]
    assert run(BY_DASK, address) == "7\n"


def test_host_and_port_are_enough(printed):
    assert run(BY_INIT, ray.get_runtime_context().gcs_address) == "7\n"


def test_a_program_that_wants_its_own_cluster_gets_its_own_and_auto_finds_this_one(printed):
    program = """
import raycompat as ray
print(ray.init(num_cpus=1, include_dashboard=False).address_info["address"])
"""
    assert run(program, "").strip() != ray.get_runtime_context().gcs_address
    assert run(BY_INIT, "auto") == "7\n"  # the one that ended is not in the way


def test_pages_ask_for_the_token_that_init_has_printed(printed):
    url = re.search(r"http://\S+\?token=[\w-]{43}", printed)[0]
    ports = {
        connection.laddr.port
        for process in psutil.Process().children(recursive=True)
        for connection in process.net_connections("tcp")
        if connection.status == psutil.CONN_LISTEN
    }
    assert len(ports) == 2  # the scheduler's pages, and the node's
    for port in ports:
        for path in ("/status", "/json/counts.json", "/health", "/metrics", "/status?token=wrong"):
            with pytest.raises(urllib.error.HTTPError, match="401"):
                urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30)
    browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    browser.addheaders = [("Accept", "text/html")]
    with browser.open(url, timeout=30) as page:
        assert page.url == url.partition("?")[0]  # no history has the token
        assert b"Bokeh" in page.read()


def test_status_prints_the_link_again(printed):
    url = re.search(r"http://\S+\?token=[\w-]{43}", printed)[0]
    command = [sys.executable, "-m", "raycompat", "status", "--address=auto"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert f"Dashboard: {url}" in done.stdout


def test_nodes_run_the_raycompat_of_the_driver_whatever_the_current_folder_has(tmp_path):
    (tmp_path / "raycompat").mkdir()
    (tmp_path / "raycompat" / "__init__.py").write_text("raise ImportError('not this one')")
    driver = tmp_path / "driver"
    driver.mkdir()
    (driver / "program.py").write_text(
        "import raycompat as ray\n"
        "ray.init(num_cpus=1, include_dashboard=False, configure_logging=False)\n"
        "print(ray.get(ray.remote(lambda: 7).remote()))\n"
    )
    done = subprocess.run(
        [sys.executable, driver / "program.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout == "7\n", done.stderr


def test_the_switch_has_it_listen_on_tcp(no_cluster, monkeypatch):
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    with ray.init(num_cpus=1, configure_logging=False, **QUIET):
        place = ray.get_runtime_context().gcs_address
        assert run(BY_DASK, f"tcp://{place}") == "7\n"
        assert run(BY_INIT, place) == "7\n"


def test_a_mode_that_ray_does_not_know_is_refused(no_cluster, monkeypatch):
    monkeypatch.setenv("RAY_AUTH_MODE", "maybe")
    with pytest.raises(ValueError, match="expected 'token'"):
        ray.init(num_cpus=1, **QUIET)
    assert not ray.is_initialized()


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"logging_level": "verbos"}, "logging_level='verbos'"),
        ({"logging_level": [1]}, "logging_level="),
        ({"logging_format": "no fields"}, "logging_format='no fields'"),
    ],
)
@pytest.mark.parametrize("local_mode", [False, True])
def test_an_init_that_refuses_its_logging_leaves_no_session(no_cluster, options, text, local_mode):
    with pytest.raises(ValueError, match=text):
        ray.init(num_cpus=1, local_mode=local_mode, **options)
    assert not ray.is_initialized()
