"""Long names in narrow columns break after a dot or an underscore, or between words in capitals.

Options of commands stay whole: a browser would break them after their hyphens.
"""

from __future__ import annotations

import re
from typing import Any

from sphinx.application import Sphinx

#: Shorter names stay whole.
SHORT = 14

#: A word of inline code as Sphinx writes it.
_WORD = re.compile(r'(?<=<span class="pre">)[^<]+(?=</span>)')
#: After the dots and underscores between letters, and before a capital after a small letter.
_PLACE = re.compile(r"(?<=\w[._/])(?=\w)|(?<=[a-z0-9])(?=[A-Z])")
#: An option of a command, with the beginning of a short value.
_OPTION = re.compile(r'<span class="pre">(?=-{1,2}[a-z][a-z-]{0,24}(?:=[^<]{1,40})?</span>)')


def allow(html: str) -> str:
    """Return a page's text with the places where its long names may break."""
    html = _OPTION.sub('<span class="pre option">', html)
    return _WORD.sub(
        lambda word: word[0] if len(word[0]) <= SHORT else _PLACE.sub("<wbr>", word[0]), html
    )


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
