"""Take the pictures of `docs/watching.rst`: a slow program on the tab *Tasks*, the same one mended, and
trials on the tab *Experiments*.

    python docs/_tools/watching_pictures.py docs/_static

The marks are numbers, which the text explains: so both languages have the same pictures. It needs
Chromium.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from chromium import DEADLINE_S, Chromium, find

import raycompat as ray
from raycompat.util.tracking import Experiment

#: Images that the program scales, and actors that do so once it is mended.
NUM_IMAGES, NUM_SCALERS = 160, 4

#: The width of the window; its height is that of what it shows.
WIDTH = 1100

#: All elements of the page, also those in the shadow roots of Bokeh.
DEEP_JS = """
window.deep = (root = document.body) => [...root.querySelectorAll("*")].flatMap(
  (each) => each.shadowRoot ? [each, ...deep(each.shadowRoot)] : [each]);
window.shown = (each) => each.getBoundingClientRect().height > 0;
"""

#: The cells of all tables in view, row by row.
CELLS_JS = """deep().filter((each) => each.matches("tr.row") && shown(each)).map(
  (row) => [...row.querySelectorAll("td")].map((cell) => cell.textContent.trim()))"""

#: The rectangle of a cell, those of the drawings, and that of the first.
CELL_JS = """(() => {{
  const row = deep().find((each) => each.matches("tr.row") && shown(each)
    && each.textContent.trim().startsWith({name!r}));
  const box = row.querySelectorAll("td")[{column}].getBoundingClientRect();
  return [box.x, box.y, box.width, box.height];
}})()"""
DRAWINGS_JS = """deep().filter((each) => each.matches(".bk-events") && shown(each)).map((each) => {
  const box = each.getBoundingClientRect();
  return [box.x, box.y, box.width, box.height];
})"""
DRAWING_JS = f"{DRAWINGS_JS}[0]"

#: A frame with a number.
MARK_JS = """((x, y, width, height, number) => {{
  const frame = document.createElement("div");
  frame.style = `position: fixed; z-index: 9999; border: 2px solid #c2185b; border-radius: 4px;
    left: ${{x - 2}}px; top: ${{y - 2}}px; width: ${{width}}px; height: ${{height}}px;`;
  const label = document.createElement("div");
  label.textContent = number;
  label.style = `position: absolute; {side}: 4px; top: 2px; width: 20px; height: 20px;
    border-radius: 10px; background: #c2185b; color: white; font: bold 13px/20px sans-serif;
    text-align: center;`;
  frame.append(label);
  document.body.append(frame);
}})(...{box}, {number})"""


@ray.remote
def load(number: int) -> int:
    """Load an image."""
    time.sleep(0.02)
    return number


@ray.remote(num_cpus=0)
class Scaler:
    """Scales images, one after the other."""

    def scale(self, image: int) -> int:
        """Return a scaled image."""
        time.sleep(0.1)
        return image


def scale_all(num_scalers: int) -> None:
    """Load and scale all images."""
    scalers = [Scaler.remote() for _ in range(num_scalers)]
    ray.get(
        [
            scalers[number % num_scalers].scale.remote(load.remote(number))
            for number in range(NUM_IMAGES)
        ]
    )


async def wait_until(condition: Callable[[], Awaitable[Any]], what: str) -> Any:
    """Return what `condition` returns, as soon as that is true."""
    deadline = asyncio.get_running_loop().time() + DEADLINE_S
    while not (found := await condition()):
        if asyncio.get_running_loop().time() > deadline:
            raise TimeoutError(f"{what} is not on the page.")
        await asyncio.sleep(0.1)
    return found


async def row(browser: Chromium, name: str) -> list[str]:
    """Return the cells of a row by the text of its first cell; empty if there is none."""
    found: list[list[str]] = await browser.evaluate(CELLS_JS)
    return next((cells for cells in found if cells and cells[0] == name), [])


async def mark(browser: Chromium, boxes: Iterable[str], side: str = "left") -> None:
    """Draw a frame around what expressions give the rectangles of, with a number on a side."""
    for number, expression in enumerate(boxes, 1):
        box = await browser.evaluate(expression)
        await browser.evaluate(MARK_JS.format(box=box, number=number, side=side))


async def open_page(browser: Chromium, url: str) -> None:
    """Open a page of the dashboard and wait until Bokeh has drawn it."""
    await browser.go(url)
    await browser.evaluate(DEEP_JS)
    await wait_until(lambda: browser.evaluate("deep().length > 50"), "Bokeh")


async def is_busy(browser: Chromium, num_scalers: int) -> bool:
    """Whether all images are loaded, and so many scalers have run for a while."""
    scales, loads = await row(browser, "Scaler.scale"), await row(browser, "load")
    if not scales or not loads:
        return False
    is_loaded = [int(cell) for cell in loads[1:4]] == [0, 0, NUM_IMAGES]
    return is_loaded and int(scales[2]) == num_scalers and int(scales[3]) >= 30


@asynccontextmanager
async def page_of(url: str, part: str) -> AsyncIterator[Chromium]:
    """Open a part of the page *Ray* in a browser; `url` is what `init` returns."""
    executable = find()
    if executable is None:
        sys.exit("There is no Chromium.")
    async with Chromium(executable) as browser:
        await browser.resize(WIDTH, 800)
        await browser.go(url)  # its token becomes a cookie
        await open_page(browser, f"{url.partition('/status')[0]}/individual-ray-{part}")
        yield browser


async def take(url: str, file: Path, num_scalers: int) -> None:
    """Take a picture of the program while it runs."""
    async with page_of(url, "tasks") as browser:
        program = asyncio.create_task(asyncio.to_thread(scale_all, num_scalers))
        await wait_until(
            partial(is_busy, browser, num_scalers), f"Scaler.scale, {num_scalers} times"
        )
        waiting, running = (CELL_JS.format(name="Scaler.scale", column=column) for column in (1, 2))
        _, top, _, height = await browser.evaluate(DRAWING_JS)
        await browser.resize(WIDTH, int(top + height) + 40)
        await mark(browser, [waiting, running, DRAWING_JS])
        await browser.picture(file)
        await program


def report_trials() -> Experiment:
    """Report sixteen trials whose loss depends on their learning rate and their width."""
    experiment = Experiment("digits", metric="loss", mode="min")
    for number in range(16):
        rate, width = 10 ** (-3 + number / 6), (16, 32, 64)[number % 3]
        best = 0.05 + (number - 10) ** 2 / 200 + 2 / width
        name = f"trial {number:02}"
        experiment.trial(name, parameters={"lr": rate, "width": width})
        for step in range(1, 31):
            time.sleep(0.003)
            experiment.report(name, step, {"loss": best + 2 * (1 + 30 * rate) ** (-step / 3)})
        experiment.trial(name, "TERMINATED")
    return experiment


async def take_experiments(url: str, file: Path) -> None:
    """Take a picture of the trials."""
    async with page_of(url, "experiments") as browser:
        experiment = report_trials()

        async def are_there() -> bool:
            return bool(await row(browser, "trial 15"))

        await wait_until(are_there, "The last trial")
        boxes = await drawings(browser)
        _, top, _, height = boxes[0]
        await browser.resize(WIDTH, int(top + height) + 230)
        # The titles of the drawings are on the left.
        await mark(browser, map(repr, await drawings(browser)), side="right")
        await browser.picture(file)
        experiment.end()


async def drawings(browser: Chromium) -> list[list[float]]:
    """Return the rectangles of the drawings in view."""
    boxes: list[list[float]] = await browser.evaluate(DRAWINGS_JS)
    return boxes


def take_all(folder: Path) -> None:
    """Take the pictures, each of a cluster that has run nothing else."""
    with ray.init(num_cpus=2, configure_logging=False, dashboard_port=0) as context:
        file = folder / "watching_experiments.png"
        asyncio.run(take_experiments(f"http://{context.dashboard_url}", file))
    for file, num_scalers in (("watching_slow.png", 1), ("watching_mended.png", NUM_SCALERS)):
        with ray.init(num_cpus=4, configure_logging=False, dashboard_port=0) as context:
            asyncio.run(take(f"http://{context.dashboard_url}", folder / file, num_scalers))


if __name__ == "__main__":
    take_all(Path(sys.argv[1]))
