"""Try a built site in Chromium, as its readers do.

    python docs/_tools/browser_check.py _build/html _build/pictures

On every page, in both languages, by HTTP and from the disk: the switcher leads to the same page and
section; no script fails; nothing is asked of another site; nothing is wider than a narrow window. The
search finds what it should and nothing else, code is copied without prompts, dark is dark. Pictures of
eight pages in each language are to be looked at.
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import chromium
from chromium import Chromium

LANGUAGES = {"en": "en", "zh_CN": "zh-CN"}
WIDE, NARROW = (1280, 900), (390, 844)

#: Questions to the search, by language: those with results, and one without.
FOUND = {"en": ["actor", "weights"], "zh_CN": ["工作进程", "数据并行", "权重", "actor"]}
NOT_FOUND = {"en": "chromodynamics", "zh_CN": "量子计算"}

#: Pages to take pictures of.
PICTURES = [
    "docs/index",
    "docs/quickstart",
    "docs/compatibility",
    "docs/performance",
    "docs/troubleshooting",
    "docs/api/core",
    "tutorials/weights",
    "tutorials/convolutional_network",
]

#: The id of a section in the middle of the page that is shown, if it has any.
SECTION = """(() => {
  const sections = [...document.querySelectorAll("main section section[id]")];
  return sections.length ? sections[sections.length >> 1].id : "";
})()"""
HERE = "[location.pathname, document.documentElement.lang, location.hash]"
#: What is wider than the window.
TOO_WIDE = """(() => {
  const width = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth <= width) return "";
  const wide = [...document.body.querySelectorAll("*")].filter(
    (element) => element.getBoundingClientRect().right > width + 1);
  return wide.slice(-3).map((e) => `<${e.tagName} class="${e.className}">`).join(" ") || "the page";
})()"""


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve a folder, and give its address."""
    handler = functools.partial(_Quiet, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


class Check:
    """One run of a browser over a site at an address; `problems` is what it has found."""

    def __init__(self, browser: Chromium, address: str, folder: Path) -> None:
        self.browser = browser
        self.address = address
        self.pages = sorted(
            file.relative_to(folder / "en").with_suffix("").as_posix()
            for file in (folder / "en").rglob("*.html")
            if "_static" not in file.parts
        )
        self.problems: list[str] = []
        self.num_clicks = 0

    def expect(self, right: bool, problem: str) -> None:
        """Note a problem unless something is right."""
        if not right:
            self.problems.append(problem)

    def url(self, language: str, page: str) -> str:
        """Return the address of a page."""
        return f"{self.address}/{language}/{page}.html"

    async def switch(self) -> None:
        """Click on the switcher of every page, in both languages, at the top and in a section."""
        await self.browser.resize(*WIDE)
        for language in LANGUAGES:
            (other,) = LANGUAGES.keys() - {language}
            for page in self.pages:
                await self.browser.go(self.url(language, page))
                section = await self.browser.evaluate(SECTION)
                if section:
                    await self.browser.evaluate(f"void (location.hash = {section!r})")
                async with self.browser.loading():
                    await self.browser.click("nav.languages a")
                self.num_clicks += 1
                path, lang, place = await self.browser.evaluate(HERE)
                what = f"{self.url(language, page)}#{section}"
                self.expect(path.endswith(f"/{other}/{page}.html"), f"{what} leads to {path}")
                self.expect(lang == LANGUAGES[other], f"{what} leads to a page in {lang}")
                self.expect(place.lstrip("#") == section, f"{what} leads to the section {place!r}")

    async def search(self) -> None:
        """Ask the search what is there, and what is not."""
        for language, questions in FOUND.items():
            for question in [*questions, NOT_FOUND[language]]:
                results = await self._results(language, question)
                found = f"{question} in {language} finds {results}"
                self.expect(bool(results) == (question in questions), found)
                self.expect(all(f"/{language}/" in result for result in results), found)

    async def _results(self, language: str, question: str) -> list[str]:
        await self.browser.go(self.url(language, "search") + f"?q={question}")
        results = await self.browser.evaluate("""new Promise((resolve) => {
          const summary = () => document.querySelector("#search-results .search-summary");
          const look = () => {
            if (summary() && summary().innerText) {
              observer.disconnect();
              resolve([...document.querySelectorAll("#search-results li a")].map((a) => a.href));
            }
          };
          const observer = new MutationObserver(look);
          observer.observe(document.body, { childList: true, subtree: true, characterData: true });
          look();
        })""")
        return list(results)

    async def narrow(self) -> None:
        """Look for what is too wide, in a narrow window and in a wide one."""
        for size in (NARROW, WIDE):
            await self.browser.resize(*size)
            for language in LANGUAGES:
                for page in self.pages:
                    await self.browser.go(self.url(language, page))
                    wide = await self.browser.evaluate(TOO_WIDE)
                    where = f"{self.url(language, page)} at {size[0]} pixels"
                    self.expect(not wide, f"{where} is too wide: {wide}")

    async def copy(self) -> None:
        """Copy code with prompts and output, and see that both are left out."""
        await self.browser.go(self.url("en", "docs/api/util"))
        copied = await self.browser.evaluate("""new Promise((resolve) => {
          // What is to be copied is put into a text field, and copied from there.
          document.execCommand = () => resolve(document.querySelector("body > textarea").value);
          document.querySelector("div.highlight:has(.gp) button.copybtn").click();
        })""")
        self.expect(">>>" not in copied and "import" in copied, f"copied was {copied!r}")

    async def theme(self) -> None:
        """Switch between light and dark, and see that the next page remembers it."""
        background = "getComputedStyle(document.body).backgroundColor"
        await self.browser.resize(*WIDE)
        await self.browser.go(self.url("en", "docs/index"))
        light = await self.browser.evaluate(background)
        await self.browser.click("button.theme-switch-button")
        await self.browser.click("button.theme-change-button[data-mode=dark]")
        dark = await self.browser.evaluate(background)
        await self.browser.go(self.url("zh_CN", "docs/index"))
        self.expect(light != dark, f"light and dark are both {dark}")
        self.expect(dark == await self.browser.evaluate(background), "the next page is not dark")
        await self.browser.evaluate("localStorage.clear()")

    async def pictures(self, folder: Path) -> None:
        """Take pictures of some pages, wide and light, and narrow and dark."""
        folder.mkdir(parents=True, exist_ok=True)
        for language in LANGUAGES:
            for page in PICTURES:
                if page not in self.pages:
                    self.problems.append(f"there is no page {page} to take a picture of")
                    continue
                for name, size, scheme in (("wide", WIDE, "light"), ("narrow", NARROW, "dark")):
                    features = [{"name": "prefers-color-scheme", "value": scheme}]
                    await self.browser.send("Emulation.setEmulatedMedia", features=features)
                    await self.browser.resize(*size)
                    await self.browser.go(self.url(language, page))
                    await self.browser.evaluate("document.fonts.ready.then(() => true)")
                    await self.browser.picture(
                        folder / f"{language}-{page.replace('/', '-')}-{name}.png"
                    )
        await self.browser.send("Emulation.setEmulatedMedia", features=[])

    def events(self) -> None:
        """Note what the browser has complained about, and what it has asked of others."""
        for method, told in self.browser.events:
            if method == "Runtime.exceptionThrown":
                self.problems.append(f"a script has failed: {told['exceptionDetails']}")
            elif method == "Log.entryAdded" and told["entry"]["level"] == "error":
                self.problems.append(f"the browser complains: {told['entry']}")
            elif method == "Network.requestWillBeSent":
                url = told["request"]["url"]
                local = url.startswith((self.address, "data:", "about:"))
                self.expect(local, f"{url} is asked for, which is elsewhere")
            elif method == "Network.responseReceived" and told["response"]["status"] >= 400:
                self.problems.append(f"{told['response']['url']} is not there")
        self.browser.events.clear()


async def check(executable: str, folder: Path, pictures: Path) -> list[str]:
    """Return what is wrong with the site in a folder."""
    problems = []
    with served(folder) as address:
        async with Chromium(executable) as browser:
            for place in (address, folder.resolve().as_uri()):
                run = Check(browser, place, folder)
                await run.switch()
                await run.search()
                if place == address:
                    await run.narrow()
                    await run.copy()
                    await run.theme()
                    await run.pictures(pictures)
                run.events()
                print(f"{place}: {run.num_clicks} clicks, {len(run.problems)} problems")
                problems += run.problems
    return problems


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("html", type=Path)
    parser.add_argument("pictures", type=Path, help="the folder for pictures")
    given = parser.parse_args()
    executable = chromium.find()
    if executable is None:
        sys.exit("There is no Chromium; on Debian and Ubuntu it is the package chromium.")
    problems = asyncio.run(check(executable, given.html, given.pictures))
    for problem in problems:
        print(problem)
    if problems:
        sys.exit(f"{len(problems)} problems in the browser")


if __name__ == "__main__":
    main()
