"""What the gates look at in a built page: its texts, its links, its code."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from lxml import html

Element = html.HtmlElement

#: Elements inside of a line of text; all others begin a separate text.
INLINE = {
    "a", "abbr", "b", "br", "cite", "code", "em", "i", "kbd", "mark", "samp", "small", "span", "strong",
    "sub", "sup", "wbr",
}  # fmt: skip
#: What is not prose.
CODE = {"code", "kbd", "pre", "samp", "script", "style"}
#: Attributes that readers see, or hear.
SEEN = ("title", "alt", "placeholder", "aria-label", "data-copy", "data-copied")


def read(file: Path) -> Element:
    """Return the tree of a page, without its comments."""
    parser = html.HTMLParser(encoding="utf-8", remove_comments=True, remove_pis=True)
    return html.document_fromstring(file.read_bytes(), parser)


def prose(element: Element, language: str) -> Iterator[str]:
    """Yield the texts that should be in a language: line by line, without code.

    Code becomes a space, since prose must be apart from it. Parts that are marked with another
    language are left out.
    """
    yield from (" ".join(text.split()) for text in _lines(element, language) if text.strip())
    for part in _in_language(element, language):
        yield from (part.attrib[name] for name in SEEN if part.attrib.get(name, "").strip())


def _in_language(element: Element, language: str) -> Iterator[Element]:
    if element.attrib.get("lang", language) != language:
        for part in _islands(element, language):
            yield from _in_language(part, language)
        return
    yield element
    for child in element:
        yield from _in_language(child, language)


def _islands(element: Element, language: str) -> Iterator[Element]:
    """Yield the parts of an element in another language that say that they are in this one."""
    for child in element:
        if child.attrib.get("lang") == language:
            yield child
        else:
            yield from _islands(child, language)


def _lines(element: Element, language: str) -> Iterator[str]:
    line: list[str] = []
    for text in _pieces(element, language):
        if text is None:
            yield "".join(line)
            line = []
        else:
            line.append(text)
    yield "".join(line)


def _pieces(element: Element, language: str) -> Iterator[str | None]:
    """Yield the texts in order; None where a line ends."""
    if element.attrib.get("lang", language) != language:
        for part in _islands(element, language):
            yield None
            yield from _pieces(part, language)
            yield None
        return
    if element.tag in CODE or not element.classes.isdisjoint({"sig", "headerlink"}):
        yield " "
        return
    yield element.text or ""
    for child in element:
        if child.tag in INLINE:
            yield from _pieces(child, language)
        else:
            yield None
            yield from _pieces(child, language)
            yield None
        yield child.tail or ""
