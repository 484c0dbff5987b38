"""Drive a Chromium without a window, over its DevTools protocol."""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

from tornado.httpclient import AsyncHTTPClient
from tornado.websocket import WebSocketClientConnection, websocket_connect

#: Seconds for anything to happen.
DEADLINE_S = 30.0

#: Without connections that the browser itself would open.
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--remote-debugging-port=0",
]


def find() -> str | None:
    """Return the path of a Chromium, if there is one."""
    paths = (shutil.which(name) for name in ("chromium", "chromium-browser", "google-chrome"))
    return next((path for path in paths if path), None)


class Chromium:
    """One window: its page, and the events it has sent."""

    def __init__(self, executable: str) -> None:
        self._executable = executable
        self._profile = tempfile.mkdtemp(prefix="chromium-")
        self._numbers = itertools.count(1)
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._loaded = asyncio.Event()
        self._connection: WebSocketClientConnection
        #: All events since the caller last cleared them: the method and its parameters.
        self.events: list[tuple[str, dict[str, Any]]] = []

    async def __aenter__(self) -> Chromium:
        self._process = subprocess.Popen(
            [self._executable, *FLAGS, f"--user-data-dir={self._profile}", "about:blank"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            await asyncio.wait_for(self._connect(), DEADLINE_S)
        except BaseException:
            await self._end()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._reader.cancel()
        self._connection.close()
        await self._end()

    async def _end(self) -> None:
        self._process.terminate()
        await asyncio.to_thread(self._process.wait, DEADLINE_S)
        # Its children may write a last time.
        shutil.rmtree(self._profile, ignore_errors=True)

    async def _connect(self) -> None:
        reply = await AsyncHTTPClient().fetch(f"http://127.0.0.1:{await self._port()}/json/list")
        windows = json.loads(reply.body)
        url = next(each["webSocketDebuggerUrl"] for each in windows if each["type"] == "page")
        self._connection = await websocket_connect(url, max_message_size=1 << 28)
        self._reader = asyncio.create_task(self._read())
        for domain in ("Page", "Runtime", "Network", "Log"):
            await self.send(f"{domain}.enable")

    async def _port(self) -> int:
        file = Path(self._profile) / "DevToolsActivePort"
        while not (file.exists() and file.read_text().count("\n")):
            if self._process.poll() is not None:
                raise RuntimeError(f"{self._executable} has ended with {self._process.returncode}.")
            await asyncio.sleep(0.05)
        return int(file.read_text().splitlines()[0])

    async def _read(self) -> None:
        while (line := await self._connection.read_message()) is not None:
            message = json.loads(line)
            if "id" in message:
                self._answers.pop(message["id"]).set_result(message)
                continue
            self.events.append((message["method"], message["params"]))
            if message["method"] == "Page.loadEventFired":
                self._loaded.set()

    async def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command to the browser, and return the answer."""
        number = next(self._numbers)
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        await self._connection.write_message(
            json.dumps({"id": number, "method": method, "params": parameters})
        )
        message = await asyncio.wait_for(answer, DEADLINE_S)
        if "error" in message:
            raise RuntimeError(f"{method} was refused: {message['error']['message']}")
        result: dict[str, Any] = message["result"]
        return result

    async def evaluate(self, expression: str) -> Any:
        """Return the value of a JavaScript expression in the page."""
        answer = await self.send(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{expression} raised {answer['exceptionDetails']}")
        return answer["result"].get("value")

    @asynccontextmanager
    async def loading(self) -> AsyncIterator[None]:
        """Wait at the end until another page has been loaded."""
        self._loaded.clear()
        yield
        await asyncio.wait_for(self._loaded.wait(), DEADLINE_S)

    async def go(self, address: str) -> None:
        """Load a page, even if it is shown already."""
        async with self.loading():
            answer = await self.send("Page.navigate", url=address)
            if "errorText" in answer:
                raise RuntimeError(f"{address} could not be loaded: {answer['errorText']}")
            if "loaderId" not in answer:  # only the place in the page has changed
                await self.send("Page.reload")

    async def click(self, selector: str) -> None:
        """Click with the mouse on the middle of an element."""
        box = await self.evaluate(
            f"(() => {{ const box = document.querySelector({selector!r}).getBoundingClientRect();"
            " return [box.x + box.width / 2, box.y + box.height / 2]; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            await self.send(
                "Input.dispatchMouseEvent",
                type=kind,
                x=box[0],
                y=box[1],
                button="left",
                clickCount=1,
            )

    async def resize(self, width: int, height: int) -> None:
        """Set the size of the window in pixels."""
        await self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 500,
        )

    async def picture(self, file: Path) -> None:
        """Take a picture of what the window shows."""
        answer = await self.send("Page.captureScreenshot", format="png")
        file.write_bytes(base64.b64decode(answer["data"]))
