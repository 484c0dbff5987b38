"""What the gates look at in a tested tree: its examples, what was run, and what was translated."""

from __future__ import annotations

import pickle
import re
from collections.abc import Iterator
from pathlib import Path

from docutils import nodes
from sphinx import addnodes
from sphinx.util.nodes import is_translatable

#: A page's head in the output of Sphinx's doctest builder, and its counts.
_PAGE = re.compile(r"^Document: (.+)$")
_COUNT = re.compile(r"^ +(\d+) tests? in (?!.*\((?:setup|cleanup) code\)$).+$")
_FAILED = re.compile(r"^ *([1-9]\d*) failures? in ", re.MULTILINE)
#: Colours, which doctest writes if its options ask for them.
_COLOUR = re.compile(r"\x1b\[[\d;]*m")
_SKIPPED = re.compile(r"doctest:.*\+SKIP")
#: A page of which the builder runs nothing, because a package is not installed.
_SKIPPED_PAGE = re.compile(r"^Skipped: (.+)$", re.MULTILINE)
#: A page whose examples the build of another language runs, because they are the same.
_SHARED_PAGE = re.compile(r"^Shared: (.+)$", re.MULTILINE)


def doctrees(folder: Path) -> dict[str, nodes.document]:
    """Return the pages' trees by name."""
    # They were pickled by the build that is being checked.
    return {
        file.relative_to(folder).with_suffix("").as_posix(): pickle.loads(file.read_bytes())
        for file in sorted(folder.rglob("*.doctree"))
    }


def english_only(folder: Path) -> set[str]:
    """Return the names of the pages that say that they stay English."""
    return {name for name, fields in _metadata(folder).items() if "english-only" in fields}


def needs(folder: Path) -> dict[str, str]:
    """Return the packages without which pages are skipped, by the names of these pages."""
    return {
        name: fields["needs"] for name, fields in _metadata(folder).items() if "needs" in fields
    }


def _metadata(folder: Path) -> dict[str, dict[str, str]]:
    with (folder / "environment.pickle").open("rb") as stream:
        found: dict[str, dict[str, str]] = pickle.load(stream).metadata
    return found


def tests(tree: nodes.document) -> list[tuple[str, tuple[str, ...], str]]:
    """Return a page's examples, hidden ones too: kind, groups, and the code that is run."""
    return [
        (node["testnodetype"], tuple(node["groups"]), node.get("test", node.astext()))
        for node in tree.findall(nodes.Element)
        if "testnodetype" in node
    ]


def problems(name: str, tree: nodes.document) -> Iterator[str]:
    """Yield what of a page looks tested and is not."""
    for node in tree.findall(nodes.Element):
        if "testnodetype" in node:
            if "skipif" in node or _SKIPPED.search(node.get("test", node.astext())):
                yield f"SKIPPED {name}: an example is not run: {_begin(node)}"
        elif isinstance(node, nodes.literal_block | nodes.doctest_block) and re.search(
            r"^\s*>>>", node.astext(), re.MULTILINE
        ):
            yield f"UNTESTED {name}: a block with a prompt is no doctest: {_begin(node)}"


def translated_entries(tree: nodes.document) -> list[nodes.Element]:
    """Return the entries of a page that stays English which are translated nevertheless."""
    return [node for node in tree.findall(addnodes.desc) if "translated-entry" in node]


def untranslated(tree: nodes.Element) -> Iterator[str]:
    """Yield the beginnings of the texts of a page, or of a part of it, that were left in English."""
    for node in tree.findall(is_translatable):
        # Sphinx does not mark tables of contents and pictures. Napoleon translates its heads itself.
        is_head = isinstance(node, nodes.field_name | nodes.rubric)
        if isinstance(node, nodes.TextElement) and not node.get("translated") and not is_head:
            yield _begin(node)


def _begin(node: nodes.Element) -> str:
    return repr(node.astext()[:60])


def counts(output: Path) -> dict[str, int]:
    """Return how many examples of each page were run, from the builder's ``output.txt``."""
    found: dict[str, int] = {}
    page = ""
    for line in _COLOUR.sub("", output.read_text(encoding="utf-8")).splitlines():
        if match := _PAGE.match(line):
            page = match[1]
            found[page] = 0
        elif page and (match := _COUNT.match(line)):
            found[page] += int(match[1])
    return found


def skipped(output: Path) -> set[str]:
    """Return the pages that the builder has skipped."""
    return set(_SKIPPED_PAGE.findall(output.read_text(encoding="utf-8")))


def shared(output: Path) -> set[str]:
    """Return the pages that the builder has left to the build of another language."""
    return set(_SHARED_PAGE.findall(output.read_text(encoding="utf-8")))


def has_failures(output: Path) -> bool:
    """Tell whether the builder's summary counts a failure."""
    return bool(_FAILED.search(output.read_text(encoding="utf-8")))
