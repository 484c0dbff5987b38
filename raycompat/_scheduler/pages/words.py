"""The words of the pages in the language of the browser: English, or Chinese from one catalogue.

States and errors have the words of Ray's API, which are English.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from bokeh.core.properties import value
from bokeh.core.property.vectorization import Value
from bokeh.models.annotations import LegendItem, Title
from bokeh.models.axes import Axis
from bokeh.models.layouts import TabPanel
from bokeh.models.widgets.inputs import Checkbox, InputWidget
from bokeh.models.widgets.markups import Div, PreText

if TYPE_CHECKING:
    from bokeh.document import Document
    from bokeh.model import Model

_CATALOGUE = Path(__file__).with_name("words.zh.json")

#: Whether a page is Chinese, among the variables of its template.
_IS_CHINESE = "raycompat_is_chinese"


@cache
def chinese() -> dict[str, str]:
    """Return the Chinese of all words that the pages say themselves."""
    words: dict[str, str] = json.loads(_CATALOGUE.read_text(encoding="utf-8"))
    return words


def choose(doc: Document, languages: str) -> None:
    """Choose the language of a page from those of a browser, as its request has them."""
    first = languages.partition(",")[0].strip().lower()
    doc.template_variables[_IS_CHINESE] = first == "zh" or first.startswith("zh-")


def _is_chinese(doc: Document | None) -> bool:
    return doc is not None and bool(doc.template_variables.get(_IS_CHINESE))


def say(model: Model, text: str, **values: object) -> str:
    """Return a text of the catalogue with its values, in the language of the page of a model."""
    if _is_chinese(model.document):
        text = chinese()[text]
    return text.format(**values) if values else text


def word(model: Model, text: str) -> str:
    """Return a word that may be one of the catalogue, or a name that a user has given."""
    return chinese().get(text, text) if _is_chinese(model.document) else text


def script(doc: Document) -> str:
    """Return the words for the scripts of a page."""
    words = chinese() if _is_chinese(doc) else {}
    return f"const RAY_WORDS = {json.dumps(words)};\n"


def translate(doc: Document) -> None:
    """Translate the words that never change: titles of tabs, drawings, axes and inputs."""
    if not _is_chinese(doc):
        return
    words = chinese()
    for model in doc.models:
        if isinstance(model, Title | Div | PreText) and isinstance(model.text, str):
            model.text = words.get(model.text, model.text)
        elif isinstance(model, TabPanel | InputWidget) and isinstance(model.title, str):
            model.title = words.get(model.title, model.title)
        elif isinstance(model, Checkbox):
            model.label = words.get(model.label, model.label)
        elif isinstance(model, Axis) and isinstance(model.axis_label, str):
            model.axis_label = words.get(model.axis_label, model.axis_label)
        elif isinstance(model, LegendItem) and isinstance(model.label, Value):
            label = str(model.label.value)
            model.label = value(words.get(label, label))
