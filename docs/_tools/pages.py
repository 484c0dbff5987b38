"""What the gates look at in a built page: its texts, its links, its code."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path

#: Elements without an end tag.
VOID = {"area", "base", "br", "col", "hr", "img", "input", "link", "meta", "source", "wbr"}
#: Elements inside of a line of text; all others begin a separate text.
INLINE = {
    "a", "abbr", "b", "br", "cite", "code", "em", "i", "kbd", "mark", "samp", "small", "span", "strong",
    "sub", "sup", "wbr",
}  # fmt: skip
#: What is not prose.
CODE = {"code", "kbd", "pre", "samp", "script", "style"}
#: Attributes that readers see, or hear.
SEEN = ("title", "alt", "placeholder", "aria-label", "data-copy", "data-copied")


@dataclass
class Element:
    """An element of a page, with its texts and elements in order."""

    tag: str
    attributes: dict[str, str]
    children: list[Element | str] = field(default_factory=list)

    def walk(self) -> Iterator[Element]:
        """Yield it and all elements in it."""
        yield self
        for child in self.children:
            if isinstance(child, Element):
                yield from child.walk()

    def text(self) -> str:
        """Return all text in it."""
        parts = (child if isinstance(child, str) else child.text() for child in self.children)
        return "".join(parts)

    def has_class(self, name: str) -> bool:
        """Tell whether it is of a class."""
        return name in self.attributes.get("class", "").split()


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open = [Element("", {})]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, {name: value or "" for name, value in attrs})
        self.open[-1].children.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_endtag(self, tag: str) -> None:
        while len(self.open) > 1 and tag not in VOID:
            if self.open.pop().tag == tag:
                break

    def handle_data(self, data: str) -> None:
        self.open[-1].children.append(data)


def read(file: Path) -> Element:
    """Return the tree of a page."""
    reader = _Reader()
    reader.feed(file.read_text(encoding="utf-8"))
    reader.close()
    return next(element for element in reader.open[0].walk() if element.tag == "html")


def prose(element: Element, language: str) -> Iterator[str]:
    """Yield the texts that should be in a language: line by line, without code.

    Code becomes a space, since prose must be apart from it. Parts that are marked with another
    language are left out.
    """
    yield from (" ".join(text.split()) for text in _lines(element, language) if text.strip())
    for part in _in_language(element, language):
        yield from (part.attributes[name] for name in SEEN if part.attributes.get(name, "").strip())


def _in_language(element: Element, language: str) -> Iterator[Element]:
    if element.attributes.get("lang", language) != language:
        for part in _islands(element, language):
            yield from _in_language(part, language)
        return
    yield element
    for child in element.children:
        if isinstance(child, Element):
            yield from _in_language(child, language)


def _islands(element: Element, language: str) -> Iterator[Element]:
    """Yield the parts of an element in another language that say that they are in this one."""
    for child in element.children:
        if isinstance(child, Element):
            if child.attributes.get("lang") == language:
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
    if element.attributes.get("lang", language) != language:
        for part in _islands(element, language):
            yield None
            yield from _pieces(part, language)
            yield None
        return
    if element.tag in CODE or element.has_class("sig") or element.has_class("headerlink"):
        yield " "
        return
    for child in element.children:
        if isinstance(child, str):
            yield child
            continue
        if child.tag in INLINE:
            yield from _pieces(child, language)
        else:
            yield None
            yield from _pieces(child, language)
            yield None
