"""JupyterLab with Dask's extension shows the pages of a cluster of `init`, whose dashboard asks for a token."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "docs" / "_tools"))
import chromium

import raycompat as ray
from raycompat.util import dask

#: A server of another environment will do.
LAB = shutil.which("jupyter-lab")

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.timeout(240),
    pytest.mark.skipif(chromium.find() is None, reason="there is no Chromium"),
    pytest.mark.skipif(
        LAB is None, reason="no JupyterLab: pip install jupyterlab dask-labextension"
    ),
]

#: Seconds for JupyterLab to start.
START_S = 90

#: The panel of the extension, in the page of JupyterLab.
PANEL = """[...jupyterapp.shell.widgets("left")]
  .find((each) => each.id === "dask-dashboard-launcher").dashboardLauncher"""


async def until(condition, what):
    """Wait until `condition` returns something true: the pages are imported at the first request."""
    deadline = time.monotonic() + START_S
    while not await condition():
        assert time.monotonic() < deadline, f"{what} is not there"
        await asyncio.sleep(0.05)  # polling with a deadline: a browser works


@pytest.fixture
def lab(tmp_path):
    """A server without a token of its own; its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    options = [
        "--no-browser",
        "--allow-root",
        "--expose-app-in-browser",
        "--IdentityProvider.token=",
    ]
    log = tmp_path / "lab.log"
    with log.open("w") as out:
        server = subprocess.Popen(
            [LAB, *options, f"--ServerApp.port={port}", f"--ServerApp.root_dir={tmp_path}"],
            stdout=out,
            stderr=out,
            # The user's own workspace may hold panels, and is not to get more.
            env={**os.environ, "HOME": str(tmp_path), "JUPYTERLAB_WORKSPACES_DIR": str(tmp_path)},
        )
        try:
            deadline = time.monotonic() + START_S
            while True:
                try:
                    urllib.request.urlopen(f"{url}/api", timeout=5).close()
                    break
                except urllib.error.URLError:
                    assert server.poll() is None, log.read_text()
                    assert time.monotonic() < deadline, log.read_text()
                    time.sleep(0.2)  # polling with a deadline: another process starts
            yield url
        finally:
            server.terminate()
            server.wait(START_S)


def test_the_extension_finds_and_shows_the_pages(no_cluster, lab):
    context = ray.init(num_cpus=1, configure_logging=False)
    assert "?token=" in context.dashboard_url

    async def look():
        async with chromium.Chromium(chromium.find()) as browser:
            await browser.go(f"{lab}/lab")

            async def evaluate(code, what):
                await until(lambda: browser.evaluate(code), what)

            await evaluate(
                "typeof jupyterapp !== 'undefined' && jupyterapp.commands.hasCommand("
                "'dask:launch-dashboard')",
                "the extension",
            )
            # Panels that open before the layout is restored are lost.
            await browser.evaluate(
                "jupyterapp.restored.then(() => { window.isRestored = true }), true"
            )
            await evaluate("Boolean(window.isRestored)", "the layout")
            url = json.dumps(f"http://{context.dashboard_url}")
            await browser.evaluate(f"{PANEL}.input.url = {url}")
            item = f"{PANEL}.items.find((each) => each.label === 'Ray Tasks')"
            await evaluate(f"{PANEL}.input.urlInfo.isActive && Boolean({item})", "the pages")
            await browser.evaluate(
                f"jupyterapp.commands.execute('dask:launch-dashboard', {{item: {item}}}), true"
            )
            await until(is_connected, "the connection of the page")

    async def is_connected():
        return await asyncio.to_thread(client.run_on_scheduler, num_connections)

    def num_connections(dask_scheduler, page="/individual-ray-tasks"):
        return sum(
            session.connection_count
            for application in dask_scheduler.http_application.applications
            if page in application.app_paths
            for session in application.get_sessions(page)
        )

    client = dask.client()
    asyncio.run(look())
    ray.shutdown()
