"""The source of objects of the reference, by Sphinx's ``viewcode``: what of it is left out here.

Its links back to the reference are words inside of code, which is the same in each language, and some
lead to another name of an object, which has no entry.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from sphinx.application import Sphinx

_BACK = re.compile(r'<a class="viewcode-back".*?</a>')


def without_links_back(
    app: Sphinx, pagename: str, template: str, context: dict[str, Any], doctree: Any
) -> None:
    """Show the code as it is in the file."""
    if pagename.startswith("_modules/"):
        context["body"] = _BACK.sub("", context["body"])


def without_missing(app: Sphinx) -> Iterator[Any]:
    """Take modules without a Python source, such as `_thread`, from the list of modules."""
    modules = getattr(app.env, "_viewcode_modules", {})
    for name in [name for name, found in modules.items() if not found]:
        del modules[name]
    return iter(())


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension."""
    app.connect("html-page-context", without_links_back)
    # Before viewcode's own, which makes the pages.
    app.connect("html-collect-pages", without_missing, priority=400)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
