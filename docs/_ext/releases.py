"""The release notes, made from CHANGES.md and its fragments, and the switch between versions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.util.docutils import SphinxDirective

ROOT = Path(__file__).parents[2]
NOTES, FRAGMENTS = ROOT / "CHANGES.md", ROOT / "changes"

#: The kinds of fragments, by the ends of their names, and their titles.
KINDS = {"feature": "Features", "bugfix": "Corrections"}

_HEAD = re.compile(r"(#+) (.+)")
#: What these files use of Markdown inside of a line.
_INLINE = re.compile(r"`+([^`]+)`+|\*\*([^*]+)\*\*|\*([^*]+)\*")


def offer_versions(app: Sphinx, config: Config) -> None:
    """Show the theme's switch between versions, where the site says which ones there are."""
    if config.versions_url:
        options = config.html_theme_options
        # The file is not read now: it may be where the site will be, and builds read no network.
        options["check_switcher"] = False
        options["switcher"] = {"json_url": config.versions_url, "version_match": config.version}
        options["navbar_end"] = ["version-switcher", *options["navbar_end"]]


class ReleaseNotes(SphinxDirective):
    """``.. release-notes::``: a section for each release, and one for what is not released yet."""

    def run(self) -> list[nodes.Node]:
        """Return the sections."""
        for file in [NOTES, *FRAGMENTS.glob("*.md")]:
            self.env.note_dependency(str(file))
        text = "\n".join([*_unreleased(), NOTES.read_text(encoding="utf-8")])
        return list(_sections(text))


def _unreleased() -> Iterator[str]:
    """Yield the lines of what the next release will say."""
    yield "# The next release"
    for kind, title in KINDS.items():
        files = sorted(FRAGMENTS.glob(f"*.{kind}*.md"))
        if files:
            yield f"## {title}"
        for file in files:
            yield "- " + " ".join(file.read_text(encoding="utf-8").split())


def _sections(text: str) -> Iterator[nodes.Node]:
    """Yield the sections of a text in the little Markdown that towncrier writes."""
    open_sections: list[nodes.section] = []
    items: nodes.bullet_list | None = None
    for line in text.splitlines():
        if match := _HEAD.fullmatch(line):
            level, title = len(match[1]), match[2]
            del open_sections[level - 1 :]
            above = open_sections[0]["ids"][0] + "-" if open_sections else "release-"
            section = nodes.section("", ids=[above + nodes.make_id(title)])
            section += _text(nodes.title, title)
            if open_sections:
                open_sections[-1] += section
            else:
                yield section
            open_sections.append(section)
            items = None
        elif line.startswith("- "):
            if items is None:
                items = nodes.bullet_list()
                open_sections[-1] += items
            items += nodes.list_item("", _text(nodes.paragraph, line[2:]))
        elif line.strip():
            open_sections[-1] += _text(nodes.paragraph, line.strip())
            items = None


def _text(kind: type[nodes.TextElement], text: str) -> nodes.TextElement:
    """Return a title or a paragraph, which is not translated."""
    node = kind("", "", translatable=False)
    start = 0
    for match in _INLINE.finditer(text):
        node += nodes.Text(text[start : match.start()])
        code, strong, emphasized = match.groups()
        if code:
            node += nodes.literal(code, code)
        else:
            node += nodes.strong("", strong) if strong else nodes.emphasis("", emphasized)
        start = match.end()
    node += nodes.Text(text[start:])
    return node


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("release-notes", ReleaseNotes)
    app.add_config_value("versions_url", "", "html", types=[str])
    # Before the theme, which reads its options when the builder begins.
    app.connect("config-inited", offer_versions)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
