"""Take the picture of the home page: the dashboard's page *Ray* while a program runs.

    python docs/_tools/home_picture.py docs/_static/dashboard_ray.png

The program is that of `docs/watching.rst`, with four actors. It needs Chromium.
"""

from __future__ import annotations

import asyncio
import sys
from functools import partial
from pathlib import Path

from chromium import Chromium, find
from watching_pictures import (
    DRAWINGS_JS,
    NUM_SCALERS,
    WIDTH,
    is_busy,
    open_page,
    scale_all,
    wait_until,
)

import raycompat as ray

#: Opens a tab by its title, and says whether it is there.
OPEN_JS = """(() => {{
  const tab = deep().find((each) => each.matches(".bk-tab") && each.textContent.trim() === {title!r});
  if (!tab || tab.matches(".bk-active")) return Boolean(tab);
  tab.click();
  return false;
}})()"""


async def take(url: str, file: Path) -> None:
    """Run the program while the page is open, and take a picture of it."""
    executable = find()
    if executable is None:
        sys.exit("There is no Chromium.")
    async with Chromium(executable) as browser:
        await browser.resize(WIDTH, 800)
        await browser.go(url)  # its token becomes a cookie
        await open_page(browser, f"{url.partition('/status')[0]}/ray")
        await wait_until(lambda: browser.evaluate(OPEN_JS.format(title="Tasks")), "The tab Tasks")
        program = asyncio.create_task(asyncio.to_thread(scale_all, NUM_SCALERS))
        await wait_until(partial(is_busy, browser, NUM_SCALERS), "The program")
        boxes = await browser.evaluate(DRAWINGS_JS)
        await browser.resize(WIDTH, int(max(top + height for _, top, _, height in boxes)) + 20)
        await browser.picture(file)
        await program


def main() -> None:
    """Run the command line."""
    with ray.init(num_cpus=4, configure_logging=False, dashboard_port=0) as context:
        asyncio.run(take(f"http://{context.dashboard_url}", Path(sys.argv[1])))


if __name__ == "__main__":
    main()
