"""Draw the diagrams of the pages with Graphviz, in each language, into docs/_static.

    python docs/_tools/diagrams.py [NAME...]

A diagram is ``docs/_diagrams/NAME.dot`` with English words in its labels. ``zh_CN.toml`` beside it
has their Chinese. The pictures are committed, so building the pages does not need Graphviz.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tomllib
from pathlib import Path

DOCS = Path(__file__).parents[1]
SOURCES = DOCS / "_diagrams"
PICTURES = DOCS / "_static"

#: What all diagrams have in common; a diagram's own attributes come after it.
STYLE = """
  bgcolor="transparent"; pad=0.15; fontname="{font}"; fontsize=12; fontcolor="#606870";
  node [shape=box, style="rounded", fontname="{font}", fontsize=12, color="#2b83d9",
        fontcolor="#303840", penwidth=1.4, margin="0.14,0.08", height=0.35];
  edge [fontname="{font}", fontsize=11, color="#808890", fontcolor="#606870", arrowsize=0.7];
"""
FONTS = {"en": "DejaVu Sans", "zh_CN": "Noto Sans CJK SC"}

#: A label; other attributes are not words.
LABEL = re.compile(r'(?<=label=")([^"]+)(?=")')
#: Labels that are the same in each language: code, numbers, signs.
SAME = re.compile(r"[\W\d]*|.*[()=_.].*|[a-z]+ \d")


def source(name: str, language: str, words: dict[str, str]) -> str:
    """Return a diagram's text with its words in a language.

    Raises
    ------
    KeyError
        When a label has no translation.
    """
    text = (SOURCES / f"{name}.dot").read_text(encoding="utf-8")
    if language != "en":
        text = LABEL.sub(lambda match: translated(match[1], words), text)
    return text.replace("{", "{" + STYLE.format(font=FONTS[language]), 1)


def translated(label: str, words: dict[str, str]) -> str:
    """Return a label with each of its lines translated."""
    lines = label.split("\\n")
    return "\\n".join(
        words[line] if line in words or not SAME.fullmatch(line) else line for line in lines
    )


def draw(name: str, words: dict[str, str]) -> None:
    """Draw a diagram in each language."""
    for language in FONTS:
        suffix = "" if language == "en" else f".{language}"
        command = ["dot", "-Tsvg", "-o", str(PICTURES / f"{name}{suffix}.svg")]
        subprocess.run(command, input=source(name, language, words), text=True, check=True)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="diagrams; by default all")
    names = parser.parse_args().names or sorted(file.stem for file in SOURCES.glob("*.dot"))
    words = tomllib.loads((SOURCES / "zh_CN.toml").read_text(encoding="utf-8"))
    for name in names:
        try:
            draw(name, words)
        except KeyError as error:
            sys.exit(f"{name}: {error} has no translation in {SOURCES / 'zh_CN.toml'}")


if __name__ == "__main__":
    main()
