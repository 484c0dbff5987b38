"""Examples do not hang: a page whose examples run for too long is ended, and says where it stood.

They run in the folder of their page, where the programs are that it lets readers download. TensorFlow's
greetings would fill the output of the build, so they are off. A page with the field ``:needs: torch``
at its top is skipped where that package is not installed.

Builds of two languages at the same time can share the work: with ``-D shared_examples=FOLDER`` a
page whose examples are the same in both is run by the build that comes to it first.
"""

from __future__ import annotations

import contextlib
import faulthandler
import hashlib
import os
import sys
import time
from collections.abc import Iterator, Set
from importlib.util import find_spec
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.ext.doctest import DocTestBuilder

#: Seconds for the examples of one page; the longest takes about 150 where nothing else runs.
LIMIT = 1200


class TimedDocTestBuilder(DocTestBuilder):
    """Tests the examples of the pages, with a limit and a line of the time for each page."""

    def write_documents(self, docnames: Set[str]) -> None:
        """Test the pages, the longest first, so that builds which share them end together."""
        for docname in sorted(docnames, reverse=True):
            is_right = self.test_doc(docname, self.env.get_doctree(docname))
            if not is_right and self.config.doctest_fail_fast:
                break

    def test_doc(self, docname: str, doctree: nodes.Node) -> bool:
        """Test the examples of a page; past the limit the stacks are printed and the build ends."""
        needed = self.env.metadata[docname].get("needs")
        if needed is not None and find_spec(needed) is None:
            self._out(f"\nSkipped: {docname}\n")
            print(
                f"Examples of {docname} are skipped: {needed} is not installed (make setup-{needed})",
                file=sys.__stderr__,
                flush=True,
            )
            return True
        folder = self.config.shared_examples
        if folder and not _is_first(Path(folder), docname, doctree):
            self._out(f"\nShared: {docname}\n")
            return True
        begin = time.monotonic()
        faulthandler.dump_traceback_later(LIMIT, exit=True, file=sys.__stderr__)
        try:
            with _working_in(Path(self.env.doc2path(docname)).parent):
                return super().test_doc(docname, doctree)
        finally:
            faulthandler.cancel_dump_traceback_later()
            if (seconds := time.monotonic() - begin) > 1:
                print(f"Examples of {docname}: {seconds:.0f} s", file=sys.__stderr__, flush=True)


def _is_first(folder: Path, docname: str, doctree: nodes.Node) -> bool:
    """Claim the examples of a page; tell whether no other build has claimed the same ones."""
    code = [
        (node["testnodetype"], node["groups"], node.get("test", node.astext()), node["options"])
        for node in doctree.findall(nodes.Element)
        if "testnodetype" in node
    ]
    if not code:
        return True
    digest = hashlib.sha256(repr(code).encode()).hexdigest()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        (folder / f"{docname.replace('/', '.')}-{digest}").touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


@contextlib.contextmanager
def _working_in(folder: Path) -> Iterator[None]:
    """Work in a folder, whose modules can be imported as at Python's prompt."""
    path = str(folder)
    with contextlib.chdir(folder):
        sys.path.insert(0, path)
        try:
            yield
        finally:
            sys.path.remove(path)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the builder in place of Sphinx's."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
    app.add_builder(TimedDocTestBuilder, override=True)
    app.add_config_value("shared_examples", "", "", str)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
