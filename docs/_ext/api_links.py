"""Links from the guides to the reference and to the glossary: a name in a section leads to its entry.

``ray.get`` in the text is a link to `raycompat.get`, ``ActorPool`` one to the class of that name, and
*placement group* one to the term: the first time in each section, in every language. Names in the
inventories of other documentations lead there: ``time.sleep``, ``LocalCluster``.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import NamedTuple

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.nodes import make_refnode

#: Pages of guides, in which names become links; the reference has its own links.
GUIDES = re.compile(r"docs/\w+|tutorials/\w+")
#: Chinese terms have the English one in brackets.
BRACKET = "\uff08"
#: The name in ``@ray.remote(num_gpus=1)``.
_NAME = re.compile(r"@?([A-Za-z_][\w.]*)(?:\(.*\))?", re.DOTALL)


#: Documentations whose names may be without their module.
BY_LAST_WORD = "Distributed"


class Entry(NamedTuple):
    """Where a name is described; an address has no place."""

    page: str
    place: str


def names(app: Sphinx) -> dict[str, Entry]:
    """Return the entries of functions by ``ray.``-name, and of classes also by their last word."""
    objects = app.env.domains["py"].get_objects()
    described = [
        (name, kind, Entry(page, place))
        for name, _, kind, page, place, _ in objects
        if kind in ("function", "class", "exception", "method")
    ]
    last = Counter(name.rpartition(".")[2] for name, kind, _ in described if kind != "method")
    found, here = elsewhere(app), set[str]()
    for name, kind, entry in described:
        found["ray" + name.removeprefix("raycompat")] = entry
        word = name.rpartition(".")[2]
        if kind not in ("function", "method") and (last[word] == 1 or word not in here):
            found[word] = entry
            here.add(word)
    return found


def elsewhere(app: Sphinx) -> dict[str, Entry]:
    """Return what other documentations describe, by full name and some also by their last word."""
    found = {}
    for kind, items in app.env.intersphinx_inventory.items():  # type: ignore[attr-defined]
        for name, item in items.items():
            assert kind.startswith("py:")
            found[name] = Entry(item.uri, "")
            if item.project_name == BY_LAST_WORD and name.count(".") == 1:
                found[name.partition(".")[2]] = found[name]
    return found


def terms(app: Sphinx) -> dict[str, Entry]:
    """Return the glossary's entries by term; of a Chinese one what is before the bracket."""
    return {
        name.partition(BRACKET)[0].lower(): Entry(page, place)
        for name, _, kind, page, place, _ in app.env.domains["std"].get_objects()
        if kind == "term"
    }


def link(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Make links of the names in a page's prose."""
    if app.builder.format != "html" or not GUIDES.fullmatch(docname):
        return
    known, glossary = names(app), terms(app)
    for section in doctree.findall(nodes.section):
        seen: set[Entry] = set()
        for node in _prose(section):
            entry = _entry(node, known, glossary)
            if entry is None or entry in seen or entry.page == docname:
                continue
            seen.add(entry)
            words = node.deepcopy()
            node.replace_self(
                make_refnode(app.builder, docname, entry.page, entry.place, words)
                if entry.place
                else nodes.reference("", "", words, refuri=entry.page, internal=False)
            )


def _prose(section: nodes.section) -> list[nodes.Element]:
    """Return the names and emphasized words of a section itself, but not those in links or titles."""
    return [
        node
        for kind in (nodes.literal, nodes.emphasis)
        for node in section.findall(kind)
        if _parent(node, nodes.section) is section
        and _parent(node, nodes.reference) is None
        and _parent(node, nodes.title) is None
    ]


def _parent(node: nodes.Node, kind: type[nodes.Element]) -> nodes.Element | None:
    while node.parent is not None and not isinstance(node.parent, kind):
        node = node.parent
    return node.parent


def _entry(
    node: nodes.Element, known: dict[str, Entry], glossary: dict[str, Entry]
) -> Entry | None:
    if isinstance(node, nodes.emphasis):
        return glossary.get(node.astext().lower())
    match = _NAME.fullmatch(node.astext())
    if match is None:
        return None
    return known.get(node.get("dotted", "")) or known.get(match[1])


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension."""
    app.connect("doctree-resolved", link)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
