"""The scheduler imports the pages of its dashboard when the first one is requested.

Each program runs in a separate process: the forkserver of the tests has imported the pages.
"""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

from _python_path import before_others

START = """
    import socket, sys, urllib.error, urllib.request
    from concurrent.futures import ThreadPoolExecutor

    import raycompat as ray

    context = ray.init(num_cpus=1, configure_logging=False)
    url = f"http://{context.dashboard_url}"

    def read(path):
        with urllib.request.urlopen(url + path, timeout=60) as answer:
            return answer.read().decode()

    def call():
        assert ray.get(ray.remote(lambda: 1).remote()) == 1
"""


def run(program: str, **variables: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(START) + textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=100,
        env={**os.environ, "RAY_AUTH_MODE": "disabled", **variables},
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_calls_and_probes_import_no_page():
    run(
        """
        from distributed import Client

        def is_imported():
            with Client(context.address_info["address"]) as client:
                return client.run_on_scheduler(lambda: "bokeh" in sys.modules)

        call()
        assert read("/health") == "ok"
        assert "dask_scheduler_workers" in read("/metrics")
        assert not is_imported()
        assert 'href="ray"' in read("/status")
        assert is_imported()
        """
    )


def test_first_requests_that_come_together_are_all_answered():
    run(
        """
        host, _, port = context.dashboard_url.partition(":")
        with socket.create_connection((host, port)) as gone:
            gone.sendall(b"GET /status HTTP/1.1\\r\\nHost: here\\r\\n\\r\\n")

        def status(path):
            try:
                return 200, read(path)
            except urllib.error.HTTPError as error:
                return error.code, ""

        pages = ["/", "/status", "/ray", "/individual-ray-tasks", "/individual-plots.json"]
        with ThreadPoolExecutor(len(pages) + 1) as threads:
            *found, nothing = threads.map(status, [*pages, "/nothing"])
        assert [code for code, _ in found] == [200] * len(pages)
        assert all('href="ray"' in text for _, text in found[:4])
        assert "individual-task-stream" in found[4][1]
        assert nothing == (404, "")
        call()
        """
    )


def test_the_first_request_may_be_that_of_an_open_page_for_its_updates():
    run(
        """
        from bokeh.client import pull_session

        session = pull_session(url=f"{url}/ray")  # connects by a websocket at once
        assert session.document.roots
        session.close()
        """
    )


def test_where_bokeh_cannot_be_imported_the_page_says_which_is_needed(tmp_path):
    (tmp_path / "bokeh.py").write_text("raise ImportError('broken')")
    run(
        """
        assert "Dask needs bokeh" in read("/status")
        assert "Dask needs bokeh" in read("/")
        call()
        """,
        PYTHONPATH=before_others(tmp_path),
    )


def test_pages_that_were_taken_off_before_they_were_imported_come_once():
    run(
        """
        from raycompat.cluster_utils import Cluster
        from raycompat.util import dask

        ray.shutdown()
        cluster = Cluster(initialize_head=True, head_node_args={"include_dashboard": True})
        for _ in range(2):
            ray.init(address=cluster.address, configure_logging=False)
            assert dask.detach(dask.client())
            ray.shutdown()
        ray.init(address=cluster.address, configure_logging=False)
        url = f"http://{cluster.webui_url}"
        assert read("/status").count('href="ray"') == 1
        ray.shutdown()
        cluster.shutdown()
        """
    )
