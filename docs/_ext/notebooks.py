"""Guides as notebooks: prose as Markdown, examples as code with their expected output."""

from __future__ import annotations

import base64
import doctest
import itertools
import mimetypes
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
from docutils import nodes
from nbformat import NotebookNode, v4
from sphinx import addnodes
from sphinx.application import Sphinx

#: Reference pages have examples too, but are not read from top to bottom.
GUIDES = re.compile(r"docs/\w+|tutorials/\w+")

#: A notebook has an event loop already, so it awaits what a program runs in a new one.
_IN_A_LOOP = re.compile(r"^asyncio\.run\((.+)\)$", re.MULTILINE)

#: What a notebook does without.
LEFT_OUT = (nodes.raw, nodes.comment, nodes.target, addnodes.index, addnodes.toctree)
#: What is one block of Markdown.
BLOCKS = (nodes.TextElement, nodes.image, nodes.table, nodes.Admonition)
MARKS = {nodes.emphasis: "*", nodes.strong: "**", nodes.title_reference: "*"}


@dataclass
class Code:
    """An example: its source, and what it prints."""

    source: str
    output: str = ""
    #: Of `doctest`, `testcode`, `testoutput`, `testsetup`, `testcleanup`.
    kind: str = "testcode"
    #: Whether it shows an error, after which Jupyter has to go on.
    raises: bool = False


class Writer:
    """The Markdown and the examples of one page, with the pictures that the Markdown shows."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.pictures: dict[str, Path] = {}

    def pieces(self, node: nodes.Node, level: int = 0) -> Iterator[str | Code]:
        """Yield the blocks of a node in order: Markdown, and examples."""
        if isinstance(node, nodes.Element) and "testnodetype" in node:
            yield from _examples(node)
        elif isinstance(node, nodes.bullet_list | nodes.enumerated_list):
            yield from self._list(node, level)
        elif isinstance(node, BLOCKS):
            yield self._block(node, level)
        elif not isinstance(node, LEFT_OUT):
            inner = level + isinstance(node, nodes.section)
            for child in node.children:
                yield from self.pieces(child, inner)

    def _block(self, node: nodes.Element, level: int) -> str:
        match node:
            case nodes.literal_block():
                return f"```{node.get('language', '')}\n{node.astext()}\n```"
            case nodes.image():
                return self._picture(node)
            case nodes.table():
                return self._table(node)
            case nodes.Admonition():
                return "> " + "\n>\n> ".join(self._text(child) for child in node.children)
            case nodes.title():
                return f"{'#' * level} {self.inline(node)}"
            case nodes.term():
                return f"**{self.inline(node)}**"
        return self.inline(node)

    def inline(self, node: nodes.Node) -> str:
        """Return the Markdown of a line of text."""
        if isinstance(node, nodes.Text):
            return re.sub(r"([\\`*_<$\[\]])", r"\\\1", " ".join(node.astext().split("\n")))
        if isinstance(node, nodes.literal):
            return f"`{node.astext()}`"
        if isinstance(node, nodes.raw):
            return ""
        text = "".join(self.inline(child) for child in node.children)
        if isinstance(node, nodes.reference) and "://" in node.get("refuri", ""):
            return f"[{text}]({node['refuri']})"
        mark = MARKS.get(type(node), "")
        return f"{mark}{text}{mark}"

    def _text(self, node: nodes.Node) -> str:
        return "\n\n".join(piece for piece in self.pieces(node) if isinstance(piece, str))

    def _list(self, node: nodes.Element, level: int) -> Iterator[str | Code]:
        for number, item in enumerate(node.children, 1):
            mark = f"{number}. " if isinstance(node, nodes.enumerated_list) else "* "
            for piece in self.pieces(item, level):
                if isinstance(piece, Code):
                    yield piece
                else:
                    yield mark + piece.replace("\n", "\n" + " " * len(mark))
                    mark = " " * len(mark)

    def _picture(self, node: nodes.Element) -> str:
        file = self._root / node["uri"]
        self.pictures[file.name] = file
        return f"![{node.get('alt', '')}](attachment:{file.name})"

    def _table(self, table: nodes.Element) -> str:
        rows = [
            [self._text(entry).replace("\n", " ").replace("|", "\\|") for entry in row.children]
            for row in table.findall(nodes.row)
        ]
        if not any(table.findall(nodes.thead)):
            rows.insert(0, [""] * len(rows[0]))
        rows.insert(1, ["---"] * len(rows[0]))
        return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _examples(node: nodes.Element) -> Iterator[Code]:
    kind, text = node["testnodetype"], node.get("test", node.astext())
    if kind != "doctest":
        yield Code(text, kind=kind)
        return
    source: list[str] = []
    for example in doctest.DocTestParser().get_examples(text):
        if example.exc_msg and source:
            yield Code("".join(source).rstrip())
            source = []
        source.append(_IN_A_LOOP.sub(r"await \1", example.source))
        # Jupyter shows the value of a cell's last line only.
        if example.want:
            raises = example.exc_msg is not None
            yield Code("".join(source).rstrip(), example.want, raises=raises)
            source = []
    if source:
        yield Code("".join(source).rstrip())


def _in_order(pieces: list[str | Code]) -> Iterator[str | Code]:
    """Yield the pieces as they run: what cleans up last, and outputs with what prints them."""
    last: list[Code] = []
    code: Code | None = None
    for piece in pieces:
        if isinstance(piece, str):
            yield piece
        elif piece.kind == "testcleanup":
            last.append(piece)
        elif piece.kind == "testoutput" and code is not None:
            code.output = piece.source
        else:
            code = piece
            yield piece
    yield from last


def notebook(tree: nodes.document, root: Path, language: str) -> NotebookNode | None:
    """Return a page's notebook; None if the page has no examples."""
    writer = Writer(root)
    pieces = list(_in_order(list(writer.pieces(tree))))
    if not any(isinstance(piece, Code) for piece in pieces):
        return None
    cells = [_file_cell(file) for file in _downloads(tree, root)]
    for is_prose, group in itertools.groupby(pieces, lambda piece: isinstance(piece, str)):
        if is_prose:
            cells.append(_markdown_cell("\n\n".join(map(str, group)), writer.pictures))
        else:
            cells += (_code_cell(piece) for piece in group if isinstance(piece, Code))
    for number, cell in enumerate(cells):
        cell.id = f"cell-{number}"  # not a random one
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return v4.new_notebook(cells=cells, metadata={"kernelspec": kernel, "language": language})


def _downloads(tree: nodes.document, root: Path) -> list[Path]:
    """Return the programs that a page lets readers download."""
    folder = Path(tree["source"]).parent
    targets = [node["reftarget"] for node in tree.findall(addnodes.download_reference)]
    files = [root / t[1:] if t.startswith("/") else folder / t for t in targets]
    return [file for file in dict.fromkeys(files) if file.suffix == ".py"]


def _file_cell(file: Path) -> NotebookNode:
    """Return a cell that writes a program beside the notebook."""
    return v4.new_code_cell(f"%%writefile {file.name}\n{file.read_text(encoding='utf-8').rstrip()}")


def _code_cell(code: Code) -> NotebookNode:
    shown = [v4.new_output("stream", name="stdout", text=code.output)] if code.output else []
    tags = {"metadata": {"tags": ["raises-exception"]}} if code.raises else {}
    return v4.new_code_cell(code.source, outputs=shown, **tags)


def _markdown_cell(text: str, pictures: dict[str, Path]) -> NotebookNode:
    shown = {name: _data(file) for name, file in pictures.items() if f"(attachment:{name})" in text}
    return v4.new_markdown_cell(text, **({"attachments": shown} if shown else {}))


def _data(file: Path) -> dict[str, str]:
    kind = mimetypes.guess_type(file.name)[0] or "image/png"
    return {kind: base64.b64encode(file.read_bytes()).decode()}


def write(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Write a guide's notebook beside its page."""
    if app.builder.format != "html" or not GUIDES.fullmatch(docname):
        return
    made = notebook(doctree, Path(app.srcdir), app.config.language)
    if made is not None:
        file = Path(app.outdir, f"{docname}.ipynb")
        file.parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(made, file)


def link(app: Sphinx, pagename: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Give a page's template the name of its notebook."""
    file = Path(app.outdir, f"{pagename}.ipynb")
    context["notebook"] = file.name if file.exists() else None


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension."""
    app.connect("doctree-resolved", write)
    app.connect("html-page-context", link)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
