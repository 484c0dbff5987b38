"""Every function, class and error of the rooms that programs use most has an example in its entry."""

from __future__ import annotations

from collections.abc import Iterator

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util import logging

#: The pages of the reference whose entries are checked.
PAGES = [f"docs/api/{name}" for name in ("core", "actor", "data", "train", "tune", "util")]
#: The kinds of entries; a method can be shown by the example of its class.
KINDS = ("class", "exception", "function")

#: Entries without an example, by the reason.
WITHOUT = {
    "they are always refused": (
        *(
            f"raycompat.util.collective.collective.{name}_multigpu"
            for name in (
                "allgather",
                "allreduce",
                "broadcast",
                "recv",
                "reduce",
                "reducescatter",
                "send",
            )
        ),
    ),
    "they are other names of entries with one": ("raycompat.data.expressions.pyarrow_udf",),
    "they are never raised here": (
        "raycompat.train.NCCLHangError",
        "raycompat.train.PreemptionError",
    ),
    "they are names of types": (
        "raycompat.data.collate_fn.DataBatchType",
        "raycompat.train.ValidationFn",
        "raycompat.util.dask.callbacks.RayCallbacks",
    ),
}


def without_example(doctree: nodes.document) -> Iterator[str]:
    """Yield the names of entries that have no example, outside of the entries within them."""
    for entry in doctree.findall(addnodes.desc):
        signature = entry.next_node(addnodes.desc_signature)
        if entry["objtype"] not in KINDS or signature is None or not signature["ids"]:
            continue
        if not any(_owner(block) is entry for block in _blocks(entry)):
            yield signature["ids"][0]


def _blocks(entry: addnodes.desc) -> Iterator[nodes.Element]:
    yield from entry.findall(nodes.literal_block)
    yield from entry.findall(nodes.doctest_block)


def _owner(node: nodes.Node | None) -> nodes.Node | None:
    while node is not None and not isinstance(node, addnodes.desc):
        node = node.parent
    return node


def check(app: Sphinx, environment: BuildEnvironment) -> None:
    """Warn of entries without an example, and of exceptions that have one."""
    allowed = {name for names in WITHOUT.values() for name in names}
    found = {name for page in PAGES for name in without_example(environment.get_doctree(page))}
    logger = logging.getLogger(__name__)
    for name in sorted(found - allowed):
        logger.warning("%s has no example in the API reference", name)
    for name in sorted(allowed - found):
        logger.warning("%s needs no exception in %s: it has an example", name, __name__)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the check."""
    app.connect("env-check-consistency", check)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
