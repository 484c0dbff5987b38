"""What two languages need: messages, links to the other one, Chinese search, pages in English alone."""

from __future__ import annotations

import re
from typing import Any

import entries
import sphinx.search
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.builders.gettext import MessageCatalogBuilder
from sphinx.locale import _
from sphinx.search.en import SearchEnglish
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util.nodes import NodeMatcher, extract_messages

#: For each folder of a language: the name of the language in that language, and in HTML.
LANGUAGES = {"en": ("English", "en"), "zh_CN": ("中文", "zh-CN")}

#: Characters of a page's description, which search engines show.
DESCRIPTION_LENGTH = 160

#: A run of Chinese characters, or a word of anything else.
_RUNS = re.compile(r"[\u3400-\u9fff]+|[^\W\u3400-\u9fff]+")


class SearchChinese(SearchEnglish):
    """Chinese by characters and by pairs of neighbours, what is English in it as in English.

    A question is cut into pairs, all of which a page must have: words need no dictionary.
    """

    lang = "zh"
    # Sphinx 9.0 names the stemmer after the language; the English one it is.
    language_name = "English"
    js_splitter_code = r"""
var splitQuery = (query) =>
  (query.match(/[\u3400-\u9fff]+|[\p{L}\p{N}_]+/gu) || []).flatMap((run) =>
    /[\u3400-\u9fff]/.test(run)
      ? (run.match(/[\u3400-\u9fff]+|[^\u3400-\u9fff]+/g) || []).flatMap((part) =>
          /[\u3400-\u9fff]/.test(part) && part.length > 1
            ? Array.from({ length: part.length - 1 }, (_, i) => part.slice(i, i + 2))
            : [part])
      : [run]);
"""

    def split(self, input: str) -> list[str]:
        """Return the words, the characters and the pairs of a text."""
        words = []
        for run in _RUNS.findall(input):
            if "\u3400" <= run[0] <= "\u9fff":
                words += [*run, *(run[i : i + 2] for i in range(len(run) - 1))]
            else:
                words.append(run)
        return words


class Messages(MessageCatalogBuilder):
    """Writes messages from the pages as they are read for HTML; Sphinx's reads them anew."""

    versioning_method = "none"

    def write_doc(self, docname: str, doctree: nodes.document) -> None:
        """Write a page's messages, whose nodes have numbers only where Sphinx tells versions apart."""
        for node, _text in extract_messages(doctree):
            node.uid = ""
        super().write_doc(docname, doctree)


class WithoutPlaceholders(SphinxPostTransform):
    """Takes out of HTML what marks a part of a paragraph as a message.

    Sphinx does so where it reads pages, but not where it reads them for messages.
    """

    default_priority = 1
    formats = ("html",)

    def run(self, **kwargs: Any) -> None:
        """Put the placeholders' children in their places."""
        for inline in list(self.document.findall(NodeMatcher(nodes.inline, translatable=Any))):
            inline.replace_self(inline.children)


def switcher(
    app: Sphinx, pagename: str, template: str, context: dict[str, Any], doctree: Any
) -> None:
    """Give a page's template the links to the same page in each language."""
    up = "../" * (pagename.count("/") + 1)
    # Search engines take whole addresses only.
    site = app.config.html_baseurl.removesuffix(f"{app.config.language}/")
    context["languages"] = [
        {
            "name": name,
            "lang": lang,
            "current": folder == app.config.language,
            "href": f"{up}{folder}/{pagename}.html",
            "alternate": f"{site or up}{folder}/{pagename}.html",
        }
        for folder, (name, lang) in LANGUAGES.items()
    ]
    # Options of themes are the same in all languages.
    context["theme_search_bar_text"] = _("Search")
    metadata = app.env.metadata.get(pagename, {})
    context["english_only"] = "english-only" in metadata and app.config.language != "en"
    context["has_translated_entries"] = entries.MARK in metadata
    context["description"] = _description(doctree)


def _description(doctree: nodes.document | None) -> str:
    """Return the first paragraph of a page, without what is behind its last word or character."""
    paragraph = doctree.next_node(nodes.paragraph) if doctree is not None else None
    text = " ".join(paragraph.astext().split()) if paragraph is not None else ""
    if len(text) <= DESCRIPTION_LENGTH:
        return text
    cut = text[:DESCRIPTION_LENGTH]
    return (
        cut if "\u3400" <= text[DESCRIPTION_LENGTH] <= "\u9fff" else cut.rpartition(" ")[0]
    ) + "…"


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension."""
    sphinx.search.languages["zh"] = SearchChinese
    app.add_builder(Messages, override=True)
    app.add_post_transform(WithoutPlaceholders)
    app.connect("html-page-context", switcher)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
