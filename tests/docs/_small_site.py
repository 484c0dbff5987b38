"""A site of two pages, made as the documentation is, for what its gates have to refuse."""

import json
import subprocess
import sys
from pathlib import Path

from babel.messages.pofile import write_po

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
sys.path[:0] = [str(DOCS / "_tools"), str(DOCS / "_ext")]

import po  # noqa: E402

INDEX = """\
.. _index:

Weights
=======

A graph is built once; see :ref:`page` and ``get_weights``.

.. toctree::

   page
"""

PAGE = """\
.. _page:

Training
========

.. testsetup::

   start = 1

An actor adds:

.. doctest::

   >>> start + 1
   2
   >>> start + 2
   3

.. _later:

Later
-----

.. testcode::

   print(start + 3)

.. testoutput::

   4

The last sentence.
"""

CHINESE = {
    "Weights": "权重",
    "A graph is built once; see :ref:`page` and ``get_weights``.": (
        "图只构建一次；参阅 :ref:`page` 与 ``get_weights``。"
    ),
    "Training": "训练",
    "An actor adds:": "actor 做加法：",
    "Later": "然后",
    "The last sentence.": "工作进程的最后一句话。",
}

#: The real configuration, with the small site's own sources.
CONF = f"""\
import runpy

real = runpy.run_path({str(DOCS / "conf.py")!r})
globals().update({{name: value for name, value in real.items() if not name.startswith("_")}})
extensions = ["sphinx.ext.doctest", "bilingual", "notebooks", "timed"]
"""

#: Imports Sphinx once, and forks for each line: the folder, and its builds, which are in one process, as
#: `make docs` has them. Answers which have failed, which warnings do too, and what Sphinx has said.
BUILDER = """\
import importlib, json, os, sys, tempfile, traceback
from sphinx.application import builtin_extensions
from sphinx.cmd.build import main

for name in (*builtin_extensions, "sphinx.ext.doctest", "nbformat", "pydata_sphinx_theme"):
    importlib.import_module(name)

def build(folder, pairs):
    os.chdir(folder)
    failed = []
    for language, builder in [pair.split("/") for pair in pairs]:
        arguments = ["-q", "-W", "--keep-going", "-n", "-c", "docs", "-D", f"language={language}"]
        doctrees = "gettext" if builder == "gettext" else language
        arguments += ["-d", f"_build/doctrees/{doctrees}", "-b", builder, ".", f"_build/{builder}/{language}"]
        if main(arguments):
            failed.append(f"{language}/{builder}")
    return failed

for line in sys.stdin:
    with tempfile.TemporaryFile("w+") as log, tempfile.TemporaryFile("w+") as answer:
        child = os.fork()
        if not child:
            os.dup2(log.fileno(), 1)
            os.dup2(log.fileno(), 2)
            status = 1
            try:
                json.dump(build(*json.loads(line)), answer)
                answer.flush()
                status = 0
            except BaseException:
                traceback.print_exc()
            sys.stdout.flush()
            os._exit(status)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        log.seek(0)
        answer.seek(0)
        found = json.load(answer) if status == 0 else None
        print(json.dumps([found, log.read()]), flush=True)
"""
EVERYTHING = [
    f"{language}/{builder}" for language in ("en", "zh_CN") for builder in ("html", "doctest")
]


class Builder:
    """A process that builds sites, one after the other."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", BUILDER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def build(self, folder: Path, builds: list[str]) -> tuple[list[str], str]:
        """Run Sphinx; return the builds that have failed, and what it has said."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([str(folder), builds]) + "\n")
        self._process.stdin.flush()
        failed, log = json.loads(self._process.stdout.readline())
        assert failed is not None, log
        return failed, log

    def close(self) -> None:
        """End the process."""
        self._process.communicate()
        assert self._process.returncode == 0


class SmallSite:
    """Sources in a folder, and what was built of them."""

    def __init__(self, folder: Path, builder: Builder) -> None:
        self.folder = folder
        self._builder = builder
        #: What Sphinx has complained of in the latest builds.
        self.log = ""
        self.built = folder / "_build"
        self.catalogues = folder / "locale"

    def make(self) -> None:
        """Write the sources, and build everything."""
        (self.folder / "docs").mkdir(parents=True)
        (self.folder / "docs" / "conf.py").write_text(CONF)
        self.write("index", INDEX)
        self.write("page", PAGE)
        self.translate(CHINESE)
        assert self.build() == [], self.log

    def write(self, page: str, text: str) -> None:
        (self.folder / "docs" / f"{page}.rst").write_text(text)

    def edit(self, page: str, old: str, new: str) -> None:
        """Change a page's source."""
        file = self.folder / "docs" / f"{page}.rst"
        replace(file, old, new)

    def edit_built(self, path: str, old: str, new: str) -> None:
        """Change a built page."""
        replace(self.built / "html" / path, old, new)

    def translate(self, chinese: dict[str, str]) -> None:
        """Bring the catalogues in step, and fill in what there is in Chinese."""
        assert self.build("en/gettext") == []
        po.update(self.pots, self.catalogues / "zh_CN" / "LC_MESSAGES", "zh_CN")
        real = po.read(ROOT / "locale" / "zh_CN" / "LC_MESSAGES" / "sphinx.po")
        for file in self.catalogues.rglob("*.po"):
            catalogue = po.read(file)
            for message in catalogue:
                if message.id in chinese:
                    message.string = chinese[message.id]
                elif file.stem == "sphinx" and message.id:
                    message.string = real[message.id].string
            with file.open("wb") as stream:
                write_po(stream, catalogue)

    @property
    def pots(self) -> Path:
        return self.built / "gettext" / "en"

    def build(self, *builds: str) -> list[str]:
        """Run Sphinx, and return the builds that have failed, which warnings do too."""
        failed, self.log = self._builder.build(self.folder, [*(builds or EVERYTHING)])
        return failed


def replace(file: Path, old: str, new: str) -> None:
    """Replace what must be in a file."""
    text = file.read_text(encoding="utf-8")
    assert old in text, f"{old!r} is not in {file}"
    file.write_text(text.replace(old, new), encoding="utf-8")
