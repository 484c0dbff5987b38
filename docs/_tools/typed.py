"""Type the examples of pages into Python as they are printed, in an empty folder.

    python docs/_tools/typed.py _build/doctrees/en docs/quickstart docs/actors
    python docs/_tools/typed.py _build/doctrees/en --all

The examples of a page run as its tests, with what the page hides. Here a page has only what a reader
sees: without its import, its ``init`` or a file of the repository, it fails. The files that it lets
readers download are in the folder. ``--all`` types each page with examples but those of `NOT_YET`.
The interpreter is that of ``--python``: give one of an installation that was made as the page says.
"""

from __future__ import annotations

import argparse
import ast
import doctest
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import examples
from docutils import nodes
from sphinx import addnodes

ROOT = Path(__file__).parents[2]

#: Pages that do not pass yet, and what a reader lacks. A page that passes must leave this table.
NOT_YET: dict[str, str] = {}

#: Seconds for one example. The longest trains for about 40, and took 150 on two cores with a load of
#: 25: the limit ends what waits for ever, not what is slow.
LIMIT_S = 600

FLAGS = (
    doctest.ELLIPSIS
    | doctest.NORMALIZE_WHITESPACE
    | doctest.IGNORE_EXCEPTION_DETAIL
    | doctest.DONT_ACCEPT_TRUE_FOR_1
)

#: How an error begins on stderr, after prompts.
_FAILED = re.compile(
    r"^(?:>>> |\.\.\. )*(?:Traceback \(most recent|  File \"<stdin>\")", re.MULTILINE
)


class Page(NamedTuple):
    """What a page shows, and the files that it lets readers download."""

    examples: list[Example]
    files: list[Path]


class Example(NamedTuple):
    """Inputs that are typed one after the other, and what the page shows below them."""

    inputs: tuple[str, ...]
    want: str = ""
    #: The name of the exception that the page shows.
    error: str = ""
    flags: int = FLAGS


def shown(tree: nodes.document) -> list[Example]:
    """Return the examples that readers see; what sets up and cleans up is hidden."""
    found: list[Example] = []
    for node in tree.findall(nodes.literal_block):
        text = node.get("test", node.astext())
        match node.get("testnodetype"):
            case "doctest":
                found += _prompts(text)
            case "testcode":
                found.append(Example(tuple(_statements(text))))
            case "testoutput" if found:
                found[-1] = found[-1]._replace(want=text + "\n")
    return found


def downloads(name: str, tree: nodes.document) -> list[Path]:
    """Return the files that a page lets readers download."""
    folder = (ROOT / name).parent
    targets = [node["reftarget"] for node in tree.findall(addnodes.download_reference)]
    return [ROOT / t[1:] if t.startswith("/") else folder / t for t in targets]


def _prompts(text: str) -> Iterator[Example]:
    for each in doctest.DocTestParser().get_examples(text):
        flags = FLAGS
        for flag, is_on in each.options.items():
            flags = flags | flag if is_on else flags & ~flag
        error = (each.exc_msg or "").partition(":")[0].strip().rpartition(".")[2]
        yield Example((each.source,), each.want, error, flags)


def _statements(text: str) -> Iterator[str]:
    """Yield the statements of a block without prompts, each with its decorators and comments."""
    lines, start = text.splitlines(), 0
    for statement in ast.parse(text).body:
        block = lines[start : statement.end_lineno]
        start = statement.end_lineno or start
        # An empty line would end a function at the prompt.
        yield "\n".join(line for line in block if line.strip()) + "\n"


class Session:
    """An interactive Python in an empty folder, with a plain environment."""

    def __init__(self, python: str, folder: Path) -> None:
        # The clusters are those of the page, whatever runs on this machine.
        plain = {"PATH": os.environ["PATH"], "HOME": str(folder), "RAY_ADDRESS": "local"}
        plain |= {name: os.environ[name] for name in ("LANG", "TMPDIR") if name in os.environ}
        self._errors = (folder.parent / "stderr").open("a+b")
        self._process = subprocess.Popen(
            [python, "-i", "-q", "-u"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            cwd=folder,
            env=plain,
            start_new_session=True,
        )
        self._number = 0

    def type(self, source: str) -> tuple[str, str]:
        """Return what an input has printed, on stdout and on stderr; raise TimeoutError if it waits."""
        self._number += 1
        end = f"<end of {self._number}>"
        # An expression, so that it leaves no variable behind; its value is None, which is not shown.
        marks = (
            f'[print("{end}", file=getattr(__import__("sys"), each), flush=True)'
            ' for each in ("stderr", "stdout")] and None\n'
        )
        assert self._process.stdin is not None
        # The empty line ends a function, a class or a loop; after others it does nothing.
        self._process.stdin.write(f"{source}\n{marks}".encode())
        self._process.stdin.flush()
        output = self._read_until(end.encode())
        return output.decode(errors="replace"), self._new_errors(end)

    def _read_until(self, end: bytes) -> bytes:
        stream, found = self._process.stdout, b""
        assert stream is not None
        deadline = time.monotonic() + LIMIT_S
        while end not in found:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([stream], [], [], left)[0]:
                raise TimeoutError(f"no end after {LIMIT_S} s; it printed {found[-500:]!r}")
            if not (part := os.read(stream.fileno(), 1 << 16)):
                raise TimeoutError(f"the interpreter has ended; it printed {found[-500:]!r}")
            found += part
        return found.partition(end)[0]

    def _new_errors(self, end: str) -> str:
        self._errors.seek(0)
        text = self._errors.read().decode(errors="replace")
        return text.rpartition(end)[0].rpartition("<end of ")[2]

    def end(self) -> str | None:
        """End the interpreter as a reader does; return what is wrong with its end."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            return "The interpreter does not end."
        return None

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *error: object) -> None:
        """End the interpreter, and what it has started in its session, if that has not ended."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        with self._process, self._errors:
            pass


def failures(page: Page, python: str = sys.executable) -> Iterator[str]:
    """Yield what differs from the page, until an example does not end."""
    with tempfile.TemporaryDirectory() as parent:
        folder = Path(parent, "empty")
        folder.mkdir()
        for file in page.files:
            shutil.copy(file, folder)
        with Session(python, folder) as session:
            yield from _type(session, page.examples)


def _type(session: Session, typed: list[Example]) -> Iterator[str]:
    """Type examples, and end the interpreter as a reader does."""
    for example in typed:
        begin = example.inputs[0].strip().splitlines()[0]
        try:
            printed = [session.type(each) for each in example.inputs]
        except TimeoutError as error:
            yield f"{begin!r}: {error}"
            return
        output, errors = ("".join(part) for part in zip(*printed, strict=True))
        if problem := _difference(example, output, errors):
            yield f"{begin!r}: {problem}"
    if problem := session.end():
        yield problem


def _difference(example: Example, output: str, errors: str) -> str | None:
    """Return how an output differs from what the page shows; None if it does not."""
    if example.error:
        return None if example.error in errors else f"expected {example.error}, got {output!r}"
    if example.want:
        is_same = doctest.OutputChecker().check_output(example.want, output, example.flags)
        got = output.strip() or _raised(errors)
        return None if is_same else f"expected {example.want!r}, got {got!r}"
    return _raised(errors) if _FAILED.search(errors) else None


def _raised(errors: str) -> str:
    """Return the last line of a traceback."""
    lines = [line for line in errors.splitlines() if re.match(r"[\w.]*(Error|Exception)\b", line)]
    return lines[-1] if lines else errors.strip()[-200:]


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("doctrees", type=Path, help="what Sphinx has read, of one language")
    parser.add_argument("pages", nargs="*", help="names such as docs/quickstart")
    parser.add_argument("--all", action="store_true", help="each page but those that fail today")
    parser.add_argument("--python", default=sys.executable, help="the interpreter")
    given = parser.parse_args()
    pages = {
        name: Page(shown(tree), downloads(name, tree))
        for name, tree in examples.doctrees(given.doctrees).items()
        if not name.startswith("docs/api/")
    }
    with_examples = [name for name, page in pages.items() if page.examples]
    names = [n for n in with_examples if n not in NOT_YET] if given.all else given.pages
    if not names:
        parser.error("name a page, or give --all")
    if unknown := [name for name in names if name not in pages]:
        parser.error(f"no page {', '.join(unknown)} in {given.doctrees}")
    num_failed, needs = 0, examples.needs(given.doctrees)
    for name in names:
        if name in needs and find_spec(needs[name]) is None:
            print(f"{name}: skipped, because {needs[name]} is not installed")
            continue
        start = time.monotonic()
        found = list(failures(pages[name], given.python))
        num_failed += len(found)
        for line in found:
            print(f"{name}: {line}")
        print(
            f"{name}: {len(pages[name].examples)} examples, {time.monotonic() - start:.0f} s",
            flush=True,
        )
    if num_failed:
        sys.exit(f"{num_failed} examples fail when they are typed as printed")


if __name__ == "__main__":
    main()
