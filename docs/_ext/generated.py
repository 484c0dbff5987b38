"""Directives whose tables are made from files: of Ray's names, and of what was measured."""

from __future__ import annotations

from sphinx.application import Sphinx


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension."""
    return {"parallel_read_safe": True, "parallel_write_safe": True}
