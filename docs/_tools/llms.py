"""Write the page for language models, with the versions that the package has.

    python docs/_tools/llms.py docs/_root/llms.txt _build/html

Every page that it names must be in the built site.
"""

from __future__ import annotations

import argparse
import re
import string
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

import raycompat  # noqa: E402
from raycompat._dask import versions  # noqa: E402
from raycompat._surface import era  # noqa: E402

_LINK = re.compile(r"\]\(([^)]+)\)")
_PYTHON = "Programming Language :: Python :: 3."


def values() -> dict[str, str]:
    """Return what stands for the names with ``$`` in the text."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    minors = [
        int(each.removeprefix(_PYTHON))
        for each in project["classifiers"]
        if each.startswith(_PYTHON)
    ]
    return {
        "version": raycompat.__version__,
        "ray": era.TODAY.rpartition(".")[0],
        "oldest_dask": versions.OLDEST.rpartition(".")[0],
        "oldest_python": f"3.{min(minors)}",
        "newest_python": f"3.{max(minors)}",
    }


def written(template: str) -> str:
    """Return the text of the page.

    Raises
    ------
    KeyError
        When the template has another name with ``$``.
    """
    return string.Template(template).substitute(values())


def links(text: str) -> list[str]:
    """Return the pages that a text names."""
    return _LINK.findall(text)


def missing(text: str, site: Path) -> Iterator[str]:
    """Yield the links that lead nowhere."""
    for link in links(text):
        if not (site / link).is_file():
            yield f"LLMS {link} is not in {site}"


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("template", type=Path)
    parser.add_argument("site", type=Path)
    given = parser.parse_args()
    text = written(given.template.read_text(encoding="utf-8"))
    problems = list(missing(text, given.site))
    print(*problems, sep="\n", end="\n" if problems else "")
    if problems:
        sys.exit(1)
    (given.site / given.template.name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
