"""Take the picture of `tutorials/convolutional_network.rst`: the tab *GPUs* while two networks train.

    python docs/_tools/digits_picture.py docs/_static/digits_gpus.png

The GPUs are logical ones. It needs Chromium.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from chromium import Chromium
from watching_pictures import CELLS_JS, WIDTH, page_of, wait_until

import raycompat as ray


async def take(url: str, file: Path) -> None:
    """Take the picture as soon as both GPUs have an actor."""
    from convolutional_network_with_keras import DigitReader
    from digits28 import load_digits28

    _, digits, held_out = load_digits28()
    async with page_of(url, "gpus") as browser:
        remote_reader = ray.remote(num_gpus=1)(DigitReader)
        readers = [remote_reader.remote(digits, held_out) for _ in range(2)]
        results = [reader.train.remote(10) for reader in readers]
        await wait_until(lambda: both_are_taken(browser), "Both actors")
        await browser.resize(WIDTH, 240)
        await browser.picture(file)
        await asyncio.to_thread(ray.get, results)


async def both_are_taken(browser: Chromium) -> bool:
    """Return whether the page shows an actor on each of two GPUs."""
    rows: list[list[str]] = await browser.evaluate(CELLS_JS)
    return sum("DigitReader" in " ".join(row) for row in rows) == 2


def main() -> None:
    """Run the command line."""
    # Before `init`: the actors look for modules where the driver does.
    sys.path.insert(0, str(Path(__file__).parents[2] / "tutorials"))
    with ray.init(num_cpus=2, num_gpus=2, configure_logging=False, dashboard_port=0) as context:
        asyncio.run(take(f"http://{context.dashboard_url}", Path(sys.argv[1])))


if __name__ == "__main__":
    main()
