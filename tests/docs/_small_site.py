"""A site of two pages, made as the documentation is, for what its gates have to refuse."""

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
extensions = ["sphinx.ext.doctest", "bilingual", "notebooks"]
"""

#: All builds in one process, as `make docs` has them; the last line says which have failed.
BUILDS = """\
import sys
from sphinx.cmd.build import main

failed = []
for language, builder in [pair.split("/") for pair in sys.argv[1:]]:
    arguments = ["-q", "-W", "--keep-going", "-n", "-c", "docs", "-D", f"language={language}"]
    doctrees = "gettext" if builder == "gettext" else language
    arguments += ["-d", f"_build/doctrees/{doctrees}", "-b", builder, ".", f"_build/{builder}/{language}"]
    if main(arguments):
        failed.append(f"{language}/{builder}")
print(*failed)
"""
EVERYTHING = [
    f"{language}/{builder}" for language in ("en", "zh_CN") for builder in ("html", "doctest")
]


class SmallSite:
    """Sources in a folder, and what was built of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
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
        done = subprocess.run(
            [sys.executable, "-c", BUILDS, *(builds or EVERYTHING)],
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=True,
        )
        self.log = done.stderr
        return done.stdout.splitlines()[-1].split()


def replace(file: Path, old: str, new: str) -> None:
    """Replace what must be in a file."""
    text = file.read_text(encoding="utf-8")
    assert old in text, f"{old!r} is not in {file}"
    file.write_text(text.replace(old, new), encoding="utf-8")
