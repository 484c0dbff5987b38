"""Run downloaded notebooks from top to bottom, each in an empty folder.

    python docs/_tools/run_notebooks.py _build/html/en docs/quickstart docs/actors
    python docs/_tools/run_notebooks.py _build/html/en --all

A notebook writes the programs that it needs itself. A cell whose error belongs to the page has the tag
with which Jupyter goes on. The kernel is that of this interpreter.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
from jupyter_client.manager import start_new_kernel

#: Seconds for one cell; the longest trains for about 40.
LIMIT_S = 300

#: The tag of a cell that shows an error.
RAISES = "raises-exception"

_COLOUR = re.compile(r"\x1b\[[\d;]*m")


def failures(notebook: Path) -> Iterator[str]:
    """Yield the cells that end otherwise than the notebook says, until one does not end."""
    cells = nbformat.read(notebook, as_version=4).cells
    with tempfile.TemporaryDirectory() as folder:
        # The clusters are those of the notebook, whatever runs on this machine.
        manager, client = start_new_kernel(
            cwd=folder,
            env=os.environ | {"RAY_ADDRESS": "local"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            for cell in cells:
                if cell.cell_type == "code" and (problem := _problem(client, cell)):
                    yield problem
        except TimeoutError:
            yield f"{_begin(cell)}: no end after {LIMIT_S} s"
        finally:
            client.stop_channels()
            manager.shutdown_kernel()


def _problem(client: Any, cell: Any) -> str | None:
    """Run a cell; return how its end differs from what the notebook says."""
    # What an example prints was compared elsewhere; here it must not fill the build's output.
    reply = client.execute_interactive(
        cell.source, timeout=LIMIT_S, stop_on_error=False, output_hook=lambda message: None
    )["content"]
    is_error, is_meant = reply["status"] == "error", RAISES in cell.metadata.get("tags", ())
    if is_error == is_meant:
        return None
    said = f"{reply['ename']}: {reply['evalue']}" if is_error else "no error, which the page shows"
    return f"{_begin(cell)}: {_COLOUR.sub('', said)}"


def _begin(cell: Any) -> str:
    return repr(cell.source.strip().splitlines()[0])


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="the site of one language")
    parser.add_argument("pages", nargs="*", help="names such as docs/quickstart")
    parser.add_argument("--all", action="store_true", help="each notebook of the folder")
    given = parser.parse_args()
    files = [given.folder / f"{name}.ipynb" for name in given.pages]
    if given.all:
        files = sorted(given.folder.rglob("*.ipynb"))
    if not files:
        parser.error("name a page, or give --all")
    if missing := [str(file) for file in files if not file.exists()]:
        parser.error(f"no notebook {', '.join(missing)}")
    num_failed = 0
    for file in files:
        start = time.monotonic()
        found = list(failures(file))
        num_failed += len(found)
        name = file.relative_to(given.folder).with_suffix("")
        for line in found:
            print(f"{name}: {line}")
        print(f"{name}: {time.monotonic() - start:.0f} s", flush=True)
    if num_failed:
        sys.exit(f"{num_failed} cells end otherwise than their notebooks say")


if __name__ == "__main__":
    main()
