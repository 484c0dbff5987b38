"""Type each page in an installation that is made by exactly the lines that the page gives.

    python docs/_tools/installed.py _build/doctrees/en docs/quickstart tutorials/rl
    python docs/_tools/installed.py _build/doctrees/en --all

`typed.py` types pages in the installation of the tools, which has all that any page needs. Here a page
has raycompat, what its lines ``pip install …`` name, and nothing else. Pages with the same lines share
an installation; it is deleted before the next one is made.
"""

from __future__ import annotations

import argparse
import re
import shlex
import subprocess
import sys
import tempfile
import venv
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import examples
import typed
from docutils import nodes

#: What the page of the installation says; the other pages add to it.
PLAIN = "."

#: Pages that name several installations for readers to choose from: what their examples need.
CHOSEN = {"docs/installation": [PLAIN], "docs/troubleshooting": [".[tutorials]"]}

_LINE = re.compile(r"^(?:\$ )?pip install ([^#\n]+)", re.MULTILINE)


def requirements(name: str, tree: nodes.document) -> list[str]:
    """Return what a reader of a page has installed, as arguments of pip."""
    if name in CHOSEN:
        return CHOSEN[name]
    shown = [
        node.astext() if isinstance(node, nodes.literal_block) else " ".join(node.astext().split())
        for node in tree.findall(_is_command)
    ]
    named = [part for text in shown for line in _LINE.findall(text) for part in shlex.split(line)]
    has_raycompat = any(part.partition("[")[0] == PLAIN for part in named)
    return named if has_raycompat else [PLAIN, *named]


def _is_command(node: nodes.Node) -> bool:
    is_console = isinstance(node, nodes.literal_block) and node.get("language") == "console"
    return is_console or isinstance(node, nodes.literal)


def make(folder: Path, needed: list[str]) -> str:
    """Make an installation, in the folder of the repository; return its interpreter."""
    venv.create(folder, with_pip=True)
    python = str(folder / "bin" / "python")
    command = [python, "-m", "pip", "install", "-qq", "--disable-pip-version-check", *needed]
    subprocess.run(command, cwd=typed.ROOT, check=True)
    return python


def failures(pages: dict[str, nodes.document]) -> Iterator[str]:
    """Yield what differs from the pages."""
    groups: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for name, tree in pages.items():
        groups[tuple(requirements(name, tree))].append(name)
    for needed, names in groups.items():
        print(f"pip install {shlex.join(needed)}", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            python = make(Path(folder), list(needed))
            for name in names:
                page = typed.Page(typed.shown(pages[name]), typed.downloads(name, pages[name]))
                found = list(typed.failures(page, python))
                print(f"  {name}: {len(page.examples)} examples, {len(found)} fail", flush=True)
                yield from (f"{name}: {line}" for line in found)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("doctrees", type=Path, help="what Sphinx has read, of one language")
    parser.add_argument("pages", nargs="*", help="names such as docs/quickstart")
    parser.add_argument("--all", action="store_true", help="each page with examples")
    given = parser.parse_args()
    pages = {
        name: tree
        for name, tree in examples.doctrees(given.doctrees).items()
        if not name.startswith("docs/api/") and typed.shown(tree)
    }
    if unknown := [name for name in given.pages if name not in pages]:
        parser.error(f"no page {', '.join(unknown)} with examples in {given.doctrees}")
    if not given.all:
        if not given.pages:
            parser.error("name a page, or give --all")
        pages = {name: pages[name] for name in given.pages}
    if found := list(failures(pages)):
        print(*found, sep="\n")
        sys.exit(f"{len(found)} examples fail in the installation that their page describes")


if __name__ == "__main__":
    main()
