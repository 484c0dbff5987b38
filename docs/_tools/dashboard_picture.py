"""Take a picture of the dashboard's page Status after the parameter server of `tutorials/ideas.rst`.

    python docs/_tools/dashboard_picture.py docs/_static/dashboard_status.png

Twelve rounds in step, then twelve steps of each of two workers at their own pace, with a million points
so that the bars can be told apart. It needs Chromium.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import numpy as np
from chromium import Chromium, find

import raycompat as ray
from raycompat.util import dask

#: Rounds in step, and steps of each worker after that.
ROUNDS = 12
#: Whether the page has drawn the bars of both workers, which come last.
DRAWN_JS = """
Bokeh.documents
  .flatMap(page => [...page._all_models.values()])
  .some(source => source.data && source.data.duration
        && Array.from(source.data.name).filter(name => name.startsWith("worker")).length >= 2)
"""


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
    executable = find()
    if executable is None:
        sys.exit("There is no Chromium.")
    async with Chromium(executable) as browser:
        await browser.resize(1100, 760)
        await browser.go(url)
        await asyncio.to_thread(train)
        deadline = asyncio.get_running_loop().time() + 30
        while not await browser.evaluate(DRAWN_JS):
            if asyncio.get_running_loop().time() > deadline:
                sys.exit("The task stream has no bars of both workers.")
            await asyncio.sleep(0.5)
        await browser.picture(file)


def main() -> None:
    """Run the command line."""
    with ray.init(num_cpus=2, configure_logging=False, dashboard_port=0) as context:
        dask.client().get_task_stream()
        asyncio.run(take(f"http://{context.dashboard_url}", Path(sys.argv[1])))


if __name__ == "__main__":
    main()
