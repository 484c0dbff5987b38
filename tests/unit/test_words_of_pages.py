"""The words of the pages: each has its Chinese in the catalogue, and the browser's language decides."""

from __future__ import annotations

import ast
import inspect
import string
from pathlib import Path

import pytest
from _plugin_parts import run
from bokeh.document import Document
from bokeh.models import Axis, Div, LegendItem, PreText, TabPanel, Tabs, Title
from bokeh.models.widgets.inputs import Checkbox, InputWidget

from raycompat._scheduler.pages import documents, logs, table_widget, tables, words
from raycompat._scheduler.pages.timeline import Timeline
from raycompat.util.tracking import Experiment

FOLDER = Path(words.__file__).parent


def constants(node):
    return {
        each.value
        for each in ast.walk(node)
        if isinstance(each, ast.Constant) and isinstance(each.value, str)
    }


def words_of_sources():
    """Return the texts that are given to `say`, and the kinds of rows."""
    found = set()
    for file in (*FOLDER.glob("*.py"), FOLDER.parent / "notices.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                name = getattr(node.func, "id", getattr(node.func, "attr", ""))
                for given in node.args[: 2 if name in ("say", "_say") else 0]:
                    found |= (
                        constants(given) if isinstance(given, ast.Constant | ast.IfExp) else set()
                    )
            if isinstance(node, ast.Dict) and file.name == "tables.py":
                for key, value in zip(node.keys, node.values, strict=True):
                    if isinstance(key, ast.Constant) and key.value == "kind":
                        found |= (
                            constants(value)
                            if isinstance(value, ast.Constant | ast.IfExp)
                            else set()
                        )
    return found | {
        logs._ELSEWHERE,
        logs._NEWEST,
        logs._NOTHING,
        logs._NO_LINE,
        logs._NOTHING_AT_ALL,
        *tables.CALLERS,
        inspect.signature(Experiment).parameters["kind"].default,
        *tables._KINDS.values(),
        *tables._RESOURCES.values(),
    }


def static_words(parts):
    """Return the texts of all models of a page with tabs, before it is updated."""
    doc = Document()
    made = [make(parts) for _, make in documents.TABS.values()]
    panels = [
        TabPanel(child=each.root, title=title)
        for each, (title, _) in zip(made, documents.TABS.values(), strict=True)
    ]
    doc.add_root(Tabs(tabs=panels))
    found = set()
    for model in doc.models:
        if isinstance(model, Title | Div | PreText):
            found.add(model.text)
        elif isinstance(model, TabPanel | InputWidget):
            found.add(model.title)
        elif isinstance(model, Checkbox):
            found.add(model.label)
        elif isinstance(model, Axis):
            found.add(model.axis_label)
        elif isinstance(model, LegendItem):
            found.add(model.label.value)
    return {each for each in found if isinstance(each, str) and each and not each.startswith("<")}


def all_words(parts):
    found = words_of_sources() | static_words(parts) | {*table_widget._WORDS.values()}
    found |= {*table_widget._TITLES.values(), *table_widget._EMPTY.values()}
    found |= {hint for _, hint in table_widget._HINTS.values()}
    for columns in table_widget._COLUMNS.values():
        found |= {title for _, title, *_ in columns}
    for one, several in tables._FAILURES.values():
        found |= {one, several}
    return found


def test_each_word_is_in_the_catalogue_and_the_catalogue_has_no_others(monkeypatch):
    def test(cluster):
        monkeypatch.setattr(cluster.parts.surveys, "refresh", lambda: cluster.parts.surveys.last)
        found = all_words(cluster.parts)
        assert found - words.chinese().keys() == set()
        assert words.chinese().keys() - found == set()

    run(monkeypatch, 1, test)


def test_translations_have_the_values_of_their_texts():
    def fields(text):
        return sorted(str(each[1:3]) for each in string.Formatter().parse(text) if each[1])

    for english, chinese in words.chinese().items():
        assert fields(english) == fields(chinese), english
        assert chinese


@pytest.mark.parametrize(
    ("languages", "is_chinese"),
    [
        ("zh-CN,zh;q=0.9,en;q=0.8", True),
        ("ZH", True),
        ("en-US,en;q=0.9,zh;q=0.8", False),
        ("zhx", False),
        ("", False),
    ],
)
def test_the_first_language_of_the_browser_decides(monkeypatch, languages, is_chinese):
    def test(cluster):
        parts = cluster.parts
        monkeypatch.setattr(parts.surveys, "refresh", lambda: parts.surveys.last)
        doc = Document()
        words.choose(doc, languages)
        shown = documents.TABS["cluster"][1](parts)
        timeline = Timeline(parts)
        doc.add_root(shown.root)
        doc.add_root(timeline.root)
        words.translate(doc)
        shown.update()
        text = doc.get_model_by_name("sentence").text
        assert ("一切正常" in text) is is_chinese
        assert ("All is well on 1 node:" in text) is not is_chinese
        legends = [each.label.value for each in doc.models if isinstance(each, LegendItem)]
        assert ("等待的请求" in legends) is is_chinese
        assert ("没有什么占用资源。" in doc.get_model_by_name("running-below").text) is is_chinese
        assert (timeline.root.title.text == "Calls by process") is not is_chinese
        assert ("RAY_WORDS = {};" in words.script(doc)) is not is_chinese

    run(monkeypatch, 1, test)
