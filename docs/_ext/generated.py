"""Tables and words made from files: Ray's names, and measured figures."""

from __future__ import annotations

import importlib
import json
import statistics
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective, SphinxRole

ROOT = Path(__file__).parents[2]
NAMES = ROOT / "raycompat" / "_surface" / "names.toml"

#: What is said of each name.
Table = dict[str, dict[str, Any]]
#: One row: the cells, each with what it has and its class.
Row = list[tuple[nodes.paragraph, str]]


class GeneratedTable(SphinxDirective):
    """A table with the given heads; subclasses say what its rows are."""

    required_arguments = 1
    final_argument_whitespace = True
    option_spec: ClassVar[dict[str, Callable[[str], Any]]] = {"head": directives.unchanged_required}

    def run(self) -> list[nodes.Node]:
        """Return the table."""
        heads = [text.strip() for text in self.options["head"].split("|")]
        rows = list(self.rows(self.arguments[0]))
        group = nodes.tgroup(cols=len(heads))
        group += [nodes.colspec(colwidth=1) for _ in heads]
        kinds = (
            [kind if kind == "number" else "" for _, kind in rows[0]] if rows else [""] * len(heads)
        )
        texts = (self.prose(text) for text in heads)
        group += nodes.thead("", _row(list(zip(texts, kinds, strict=True))))
        group += nodes.tbody("", *(_row(row) for row in rows))
        return [nodes.table("", group, classes=["colwidths-auto"])]

    def rows(self, what: str) -> Iterator[Row]:
        """Yield the table's rows."""
        raise NotImplementedError

    def read(self, name: str) -> Any:
        """Return what a file of JSON has; the page depends on it."""
        _, file = self.env.relfn2path(name)
        self.env.note_dependency(file)
        return json.loads(Path(file).read_text(encoding="utf-8"))

    def prose(self, text: str) -> nodes.paragraph:
        """Return a text that is translated."""
        content, _ = self.parse_inline(text, lineno=self.lineno)
        paragraph = nodes.paragraph(text, "", *content)
        self.set_source_info(paragraph)
        return paragraph


def _row(cells: Row) -> nodes.row:
    entries = (nodes.entry("", cell, classes=[kind] if kind else []) for cell, kind in cells)
    return nodes.row("", *entries)


def _code(names: list[str], module: str = "") -> nodes.paragraph:
    """Return names, which are the same in each language; `module` is for `api_links`."""
    paragraph = nodes.paragraph(translatable=False)
    for name in names:
        paragraph += [nodes.Text(", ")] if len(paragraph) else []
        paragraph += nodes.literal(name, name, dotted=f"{module}.{name}" if module else name)
    return paragraph


def _figure(value: float) -> str:
    """Return a measured value without digits that mean nothing: three are enough."""
    places = next((places for places, least in enumerate((100, 10, 0.1)) if value >= least), 3)
    return f"{value:,.{places}f}"


def _number(text: str) -> tuple[nodes.paragraph, str]:
    return nodes.paragraph("", text, translatable=False), "number"


class RayNames(GeneratedTable):
    """``.. ray-names:: WHAT``: names of a status, or ``old``, ``options``, ``additions``."""

    def rows(self, what: str) -> Iterator[Row]:
        """Yield the rows asked for."""
        self.env.note_dependency(str(NAMES))
        table = tomllib.loads(NAMES.read_text(encoding="utf-8"))
        additions = table.pop("additions")
        with_status = {name: entry for name, entry in table.items() if entry["status"] == what}
        if what == "supported":
            yield from self._by_module(with_status)
        elif what in ("partial", "refused"):
            yield from self._by_reason(with_status)
        elif what == "old":
            yield from self._each({name: e["old"] for name, e in table.items() if "old" in e})
        elif what == "options":
            yield from self._old_options(table)
        elif what == "additions":
            yield from self._each(additions)
        else:
            raise self.error(f"{what!r} is not one of the statuses, old, options or additions.")

    def _by_module(self, table: Table) -> Iterator[Row]:
        pairs = (name.rpartition(".")[::2] for name in table)
        for module, names in _grouped(pairs).items():
            yield [(_code([module]), ""), (_code(names, module), "many")]

    def _by_reason(self, table: Table) -> Iterator[Row]:
        pairs = ((entry["reason"], name) for name, entry in table.items())
        for reason, names in _grouped(pairs).items():
            yield [(_code(names), "many"), (self.prose(reason), "")]

    def _old_options(self, table: Table) -> Iterator[Row]:
        for name, entry in table.items():
            for option, meaning in entry.get("old_options", {}).items():
                yield [(_code([name]), ""), (_code([option]), ""), (self.prose(meaning), "")]

    def _each(self, texts: dict[str, str]) -> Iterator[Row]:
        for name, text in texts.items():
            yield [(_code([name]), ""), (self.prose(text), "")]


def _grouped(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    for group, value in pairs:
        groups.setdefault(group, []).append(value)
    return groups


class Microbenchmark(GeneratedTable):
    """``.. microbenchmark:: FILE``: the medians that ``benchmarks/report.py`` makes of its figures.

    Of several files, each has a column: the rate, and in brackets how many times Ray's it is.
    Of one file, each implementation beside the first two has a column, at the end.
    """

    def rows(self, what: str) -> Iterator[Row]:
        """Yield a row for each line of the microbenchmark."""
        report = _benchmark("report")
        each = [report.medians(self.read(file)) for file in what.split()]
        for name in each[0]:
            pairs = [figures[name] for figures in each if name in figures]
            ratios = [report.ratio(name, *pair) for pair in pairs]
            if len(each) == 1:
                ours, theirs = pairs[0]
                cells = [_figure(ours), _figure(theirs), f"{ratios[0]:.1f}"]
                cells += self._of_others(what, name)
            else:
                cells = [
                    f"{_figure(ours)} ({r:.1f})" for (ours, _), r in zip(pairs, ratios, strict=True)
                ]
            yield [(_code([name]), ""), *(_number(text) for text in cells)]

    def _of_others(self, file: str, line: str) -> list[str]:
        rounds = self.read(file)
        others = list(rounds)[2:]
        medians = (statistics.median(r[line] for r in rounds[name]) for name in others)
        return [_figure(median) for median in medians]


class Learning(GeneratedTable):
    """``.. learning:: FILE``: what ``benchmarks/learning_report.py`` makes of the curves."""

    def rows(self, what: str) -> Iterator[Row]:
        """Yield a row for each task."""
        for cells in _benchmark("learning_report").rows(self.read(what)):
            algorithm, environment, *numbers = cells
            names = _code([algorithm, environment])
            yield [(names, ""), *(_number(text) for text in numbers)]


class Measured(SphinxRole):
    """``:measured:`NAME```: a figure of ``benchmarks/figures.py`` in a sentence."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        """Return the figure as text; the page depends on the files of figures."""
        module = _benchmark("figures")
        for file in sorted(module.FOLDER.glob("*.json")):
            self.env.note_dependency(str(file))
        found = module.figures()
        if self.text not in found:
            message = self.inliner.reporter.error(
                f"No figure {self.text!r}; there are {', '.join(found)}.", line=self.lineno
            )
            return [], [message]
        return [nodes.inline("", found[self.text], classes=["measured"])], []


def _benchmark(name: str) -> Any:
    """Return a module of the benchmarks, which makes the rows of tables."""
    folder = str(ROOT / "benchmarks")
    if folder not in sys.path:
        sys.path.append(folder)
    return importlib.import_module(name)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directives."""
    app.add_directive("ray-names", RayNames)
    app.add_directive("microbenchmark", Microbenchmark)
    app.add_directive("learning", Learning)
    app.add_role("measured", Measured())
    return {"parallel_read_safe": True, "parallel_write_safe": True}
