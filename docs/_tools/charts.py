"""Write the Chinese versions of the charts that are drawn from measured files.

    python docs/_tools/charts.py

A chart is a picture that a benchmark writes, ``docs/_static/NAME.svg`` with English words. Its Chinese
version has the same lines and numbers. ``docs/_diagrams/charts.zh_CN.toml`` has the words. Run this
after a chart was drawn again.
"""

from __future__ import annotations

import html
import re
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path

DOCS = Path(__file__).parents[1]
WORDS = DOCS / "_diagrams" / "charts.zh_CN.toml"
PICTURES = DOCS / "_static"

NAMES = (
    "data_streaming",
    "microbenchmark",
    "put_get_by_size",
    "scaling",
    "scheduler_by_nodes",
    "training_by_actors",
)

#: The words of a picture: in its texts, and for those who do not see it.
TEXT = re.compile(r'(?<=>)[^<>]+(?=</text>)|(?<=aria-label=")[^"]+(?=")|(?<=<title>)[^<]+')
#: What is the same in each language: numbers, sizes, names.
SAME = re.compile(r"[\W\d]*|[\d.,]+ [KMG]?i?B(/s)?|Ray|raycompat")


def translated(picture: str, words: Mapping[str, str]) -> str:
    """Return a picture with its words replaced.

    Raises
    ------
    KeyError
        When a text has no translation.
    """

    def word(match: re.Match[str]) -> str:
        text = html.unescape(match[0])
        return match[0] if SAME.fullmatch(text) else html.escape(words[text])

    return TEXT.sub(word, picture)


def main() -> None:
    """Write the pictures."""
    words = tomllib.loads(WORDS.read_text(encoding="utf-8"))
    for name in NAMES:
        picture = (PICTURES / f"{name}.svg").read_text(encoding="utf-8")
        try:
            chinese = translated(picture, words)
        except KeyError as error:
            sys.exit(f"{name}: {error} has no translation in {WORDS}")
        (PICTURES / f"{name}.zh_CN.svg").write_text(chinese, encoding="utf-8")


if __name__ == "__main__":
    main()
