"""Take a picture of the dashboard's page of tasks after the parameter server of `tutorials/ideas.rst`.

    python docs/_tools/dashboard_picture.py docs/_static/dashboard_tasks.png

Twelve rounds in step, then twelve steps of each of two workers at their own pace, with a million points
so that the bars can be told apart. It needs Chromium.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import numpy as np
from chromium import Chromium
from watching_pictures import CELLS_JS, DRAWING_JS, WIDTH, page_of, wait_until

import raycompat as ray

#: Rounds in step, and steps of each worker after that.
ROUNDS = 12


@ray.remote
class ParameterServer:
    """Holds the weights."""

    def __init__(self, size: int, rate: float) -> None:
        self.weights, self.rate = np.zeros(size), rate

    def pull(self) -> Any:
        """Return the weights."""
        return self.weights

    def push(self, *gradients: Any) -> Any:
        """Apply the mean of gradients, and return the weights."""
        self.weights = self.weights - self.rate * np.mean(gradients, axis=0)
        return self.weights


def slope(weights: Any, share: Any) -> Any:
    """Return the gradient of the squared error on a share of the points."""
    inputs, outputs = share
    return 2 * inputs.T @ (inputs @ weights - outputs) / len(outputs)


@ray.remote
def worker(server: Any, share: Any) -> None:
    """Compute and push gradients at its own pace."""
    for _ in range(ROUNDS):
        ray.get(server.push.remote(slope(ray.get(server.pull.remote()), share)))


def train() -> None:
    """Learn a line from a million points, in step and then not."""
    points = np.random.default_rng(0).normal(size=(1_000_000, 3))
    truth = np.array([2.0, -1.0, 0.5])
    shares = [ray.put((part, part @ truth)) for part in np.array_split(points, 2)]
    gradient = ray.remote(slope)
    server = ParameterServer.remote(3, 0.2)
    weights = server.pull.remote()
    for _ in range(ROUNDS):
        weights = server.push.remote(*[gradient.remote(weights, share) for share in shares])
    ray.get(weights)
    ray.get([worker.remote(server, share) for share in shares])


async def take(url: str, file: Path) -> None:
    """Run the program while the page is open, and take a picture of it."""
    async with page_of(url, "tasks") as browser:
        await asyncio.to_thread(train)
        await wait_until(lambda: has_ended(browser), "both workers done")
        _, top, _, height = await browser.evaluate(DRAWING_JS)
        await browser.resize(WIDTH, int(top + height) + 20)
        await browser.picture(file)


async def has_ended(browser: Chromium) -> bool:
    """Return whether the page shows that both workers have ended, and that nothing waits or runs."""
    rows: list[list[str]] = await browser.evaluate(CELLS_JS)
    done = {name: number for name, _, _, number, *_ in rows}
    return done.get("worker") == "2" and all(row[1:3] == ["0", "0"] for row in rows)


def main() -> None:
    """Run the command line."""
    with ray.init(num_cpus=2, configure_logging=False, dashboard_port=0) as context:
        asyncio.run(take(f"http://{context.dashboard_url}", Path(sys.argv[1])))


if __name__ == "__main__":
    main()
