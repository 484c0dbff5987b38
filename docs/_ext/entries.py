"""The most used entries of the API reference are translated; the other entries stay in English."""

from __future__ import annotations

from collections.abc import Iterator

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util import logging

#: The names whose entries are translated, with the methods of classes.
NAMES = {
    f"raycompat.{name}"
    for name in (
        *("init", "shutdown", "remote", "get", "put", "wait", "kill", "cancel"),
        *("get_actor", "method", "ObjectRef", "remote_function.RemoteFunction"),
        *("actor.ActorClass", "actor.ActorHandle", "util.placement_group.placement_group"),
        *("available_resources", "cluster_resources", "nodes"),
        *("get_gpu_ids", "get_runtime_context"),
    )
}

#: The attribute of an entry's node that says that it is translated.
MARK = "translated-entry"


def marked(doctree: nodes.document) -> Iterator[addnodes.desc]:
    """Yield the translated entries of a page."""
    yield from (node for node in doctree.findall(addnodes.desc) if MARK in node)


def mark(app: Sphinx, doctree: nodes.document) -> None:
    """Mark the translated entries of a page that stays English, for this build and for the gates."""
    metadata = app.env.metadata[app.env.docname]
    if "english-only" not in metadata:
        return
    for entry in doctree.findall(addnodes.desc):
        signature = entry.next_node(addnodes.desc_signature)
        if signature is not None and NAMES.intersection(signature["ids"]):
            entry[MARK] = True
            metadata[MARK] = "true"


def missing(app: Sphinx, environment: BuildEnvironment) -> None:
    """Warn of names without an entry."""
    described = {name for name, *_ in environment.domains["py"].get_objects()}
    for name in sorted(NAMES - described):
        logging.getLogger(__name__).warning("%s is to be translated and has no entry", name)


def only_entries(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Offer the titles and the translated entries of an English page to translators."""
    metadata = app.env.metadata[docname]
    if app.builder.name == "gettext" and "english-only" in metadata:
        titles = list(doctree.findall(nodes.title))
        doctree.children = [*(titles if MARK in metadata else titles[:1]), *marked(doctree)]


def say_language(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Say in HTML which parts of an English page are in the site's language: titles and entries."""
    is_translation = app.builder.format == "html" and app.config.language != "en"
    if not is_translation or MARK not in app.env.metadata[docname]:
        return
    language = app.config.language.replace("_", "-")
    for title in doctree.findall(nodes.title):
        _enclose(title, "span", language)
    for entry in marked(doctree):
        for content in entry.children:
            if isinstance(content, addnodes.desc_content):
                _enclose(content, "div", language)


def _enclose(node: nodes.Element, tag: str, language: str) -> None:
    node.insert(0, nodes.raw("", f'<{tag} lang="{language}">', format="html"))
    node.append(nodes.raw("", f"</{tag}>", format="html"))


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension."""
    app.connect("doctree-read", mark)
    app.connect("env-check-consistency", missing)
    app.connect("doctree-resolved", only_entries)
    app.connect("doctree-resolved", say_language)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
