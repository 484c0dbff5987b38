"""Long names in narrow columns break after a dot or an underscore, or between words in capitals.

Short words and options of commands stay whole: a browser would break them after their hyphens or dots.
"""

from __future__ import annotations

import html
import re
from typing import Any

from sphinx.application import Sphinx

#: Characters of a word that stays whole.
SHORT = 14

#: A word of inline code as Sphinx writes it.
_WORD = re.compile(r'<span class="pre">([^<]+)</span>')
#: After the dots and underscores between letters, and before a capital after a small letter.
_PLACE = re.compile(r"(?<=\w[._/])(?=\w)|(?<=[a-z0-9])(?=[A-Z])")
#: An option of a command, with the beginning of a short value.
_OPTION = re.compile(r"-{1,2}[a-z][a-z-]{0,24}(?:=.{1,16})?")


def allow(text: str) -> str:
    """Return a page's text with the places where its long names may break."""
    return _WORD.sub(lambda word: _with_places(word[1]), text)


def _with_places(word: str) -> str:
    plain = html.unescape(word)
    if len(plain) <= SHORT or _OPTION.fullmatch(plain):
        return f'<span class="pre whole">{word}</span>'
    return f'<span class="pre">{_PLACE.sub("<wbr>", word)}</span>'


def in_page(
    app: Sphinx, pagename: str, template: str, context: dict[str, Any], doctree: Any
) -> None:
    """Allow breaks in a page."""
    if "body" in context:
        context["body"] = allow(context["body"])


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension."""
    app.connect("html-page-context", in_page)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
