"""Refuse a built site whose languages differ in more than their words.

    python docs/_tools/check_site.py _build/html _build/doctrees _build/doctest docs/zh-allowed.txt

Every page must be there in both languages, lead to the other one, and lead nowhere that is not there;
what is shown as code and what is run must be the same, in lines of at most 80 columns; every example
must have been run, by both builds or by one for both; and what is not code in the Chinese pages must be
Chinese.
"""

from __future__ import annotations

import argparse
import gc
import os.path
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

import examples
import notebook_gate
import pages
from docutils import nodes
from pages import Element

#: The languages' folders, and what HTML calls them.
LANGUAGES = {"en": "en", "zh_CN": "zh-CN"}
SOURCE, TRANSLATION = LANGUAGES

HAN = re.compile(r"[\u3400-\u9fff]")
WORD = re.compile(r"[A-Za-z]{2,}")
#: So many English words in a row are not a name.
SENTENCE = re.compile(r"(?:\b[A-Za-z][A-Za-z'’-]*[ ,;]+){6,}[A-Za-z]")
#: The full name of a class or function, in the title of a link.
NAME = re.compile(r"[a-z]\w*(?:\.\w+)+")
#: A quantity with its unit, which is the same in both languages.
QUANTITY = re.compile(r"[\d.,]+ (?:[kMG]i?B|[mµ]?s)")
#: reStructuredText that reached the reader: ``code``, :role:`x`, `link`_, **strong**
RAW_MARKUP = re.compile(r"``|:[a-z][\w:+-]*:`|`_|\*\*[^\s*]+\*\*")
#: Columns of a block of code: more would be cut on a page of usual width.
WIDTH = 80

Site = dict[str, Element]
Trees = dict[str, nodes.document]


def read_site(folder: Path) -> dict[str, Site]:
    """Return the pages of each language, by their path."""
    return {
        language: {
            file.relative_to(folder / language).as_posix(): pages.read(file)
            for file in sorted((folder / language).rglob("*.html"))
            if "_static" not in file.parts
        }
        for language in LANGUAGES
    }


def same_pages(sites: dict[str, Site]) -> Iterator[str]:
    """Find pages that only one language has."""
    for path in sorted(sites[SOURCE].keys() ^ sites[TRANSLATION].keys()):
        there = SOURCE if path in sites[SOURCE] else TRANSLATION
        yield f"PAGE {path} is in {there} alone"


def switchers(folder: Path, sites: dict[str, Site]) -> Iterator[str]:
    """Find pages without their language, or without one switcher to the same page in the other."""
    for language, site in sites.items():
        (other,) = LANGUAGES.keys() - {language}
        for path, page in site.items():
            where = f"{language}/{path}"
            if page.attrib.get("lang") != LANGUAGES[language]:
                yield f"LANG {where}: it says lang={page.attrib.get('lang')!r}"
            found = [nav for nav in page.iter("nav") if "languages" in nav.classes]
            links = [link.attrib for nav in found for link in nav.iter("a")]
            if len(found) != 1 or len(links) != 1:
                yield f"SWITCHER {where}: {len(found)} switchers with {len(links)} links"
                continue
            target = (folder / where).parent / unquote(links[0].get("href", ""))
            if target.resolve() != (folder / other / path).resolve() or not target.exists():
                yield f"SWITCHER {where}: it leads to {links[0].get('href')!r}"
            if links[0].get("hreflang") != LANGUAGES[other]:
                yield f"SWITCHER {where}: it says hreflang={links[0].get('hreflang')!r}"


def links(folder: Path, sites: dict[str, Site]) -> Iterator[str]:
    """Find local links that lead nowhere, and what is loaded from elsewhere."""
    there = {folder, *folder.rglob("*")}
    ids: dict[Path, set[str]] = {
        folder / language / path: set(page.xpath("//@id"))
        for language, site in sites.items()
        for path, page in site.items()
    }
    for language, site in sites.items():
        for path, page in site.items():
            file = folder / language / path
            for element, link in _links(page):
                address = urlsplit(link)
                if address.scheme or address.netloc:
                    if element.tag != "a":
                        yield f"OFFSITE {language}/{path}: <{element.tag}> loads {link}"
                    continue
                target = (
                    Path(os.path.normpath(file.parent / unquote(address.path)))
                    if address.path
                    else file
                )
                if target not in there:
                    yield f"LINK {language}/{path}: {link} is not there"
                elif address.fragment and unquote(address.fragment) not in ids.get(
                    target, {unquote(address.fragment)}
                ):
                    yield f"ANCHOR {language}/{path}: {link} has no such place"


def _links(page: Element) -> Iterator[tuple[Element, str]]:
    for name in ("href", "src"):
        for link in page.xpath(f"//@{name}"):
            yield link.getparent(), link


def same_code(sites: dict[str, Site]) -> Iterator[str]:
    """Find code that is shown differently in the two languages."""
    for path in sites[SOURCE].keys() & sites[TRANSLATION].keys():
        ours, theirs = (_code(sites[language][path]) for language in LANGUAGES)
        for number, (one, other) in enumerate(zip(ours, theirs, strict=False), 1):
            if one != other:
                yield f"CODE {path}: block {number} differs: {one[:40]!r} and {other[:40]!r}"
        if len(ours) != len(theirs):
            yield f"CODE {path}: {len(ours)} blocks in {SOURCE}, {len(theirs)} in {TRANSLATION}"


def wide_code(sites: dict[str, Site]) -> Iterator[str]:
    """Find blocks of code that are wider than a page shows; the package's own sources may be."""
    for path, page in sites[SOURCE].items():
        for number, block in enumerate(_code(page), 1):
            lines = block.splitlines() if not path.startswith("_modules/") else []
            if wide := next((line for line in lines if len(line) > WIDTH), None):
                yield f"WIDE {path}: block {number} has {len(wide)} columns: {wide[:60]!r}"


def _code(page: Element) -> list[str]:
    return [block.text_content() for block in page.iter("pre")]


def words(sites: dict[str, Site], allowed: set[str]) -> Iterator[str]:
    """Find markup that reaches the reader, and English in the Chinese pages."""
    for language, site in sites.items():
        for path, page in site.items():
            for text in pages.prose(page, LANGUAGES[language]):
                if RAW_MARKUP.search(text):
                    yield f"MARKUP {language}/{path}: {text[:80]!r}"
                if language == TRANSLATION and _is_english(text, allowed):
                    yield f"ENGLISH {language}/{path}: {text[:80]!r}"


def _is_english(text: str, allowed: set[str]) -> bool:
    if HAN.search(text):
        return bool(SENTENCE.search(text))
    # A window's title is the page's and the site's.
    parts = (part.strip(" .|,:()") for part in text.split("·"))
    return any(
        WORD.search(part)
        and part not in allowed
        and not NAME.fullmatch(part)
        and not QUANTITY.fullmatch(part)
        for part in parts
    )


def same_examples(trees: dict[str, Trees], outputs: Path, least: int) -> Iterator[str]:
    """Find examples that only one tree has, that were not run, or that have failed."""
    files = {language: outputs / language / "output.txt" for language in LANGUAGES}
    skipped = {language: examples.skipped(file) for language, file in files.items()}
    num_run = examples_run(outputs)
    for language in LANGUAGES:
        for name, tree in trees[language].items():
            yield from examples.problems(f"{language}/{name}", tree)
            if name not in trees[SOURCE] or examples.tests(tree) != examples.tests(
                trees[SOURCE][name]
            ):
                yield f"EXAMPLES {language}/{name}: they differ from those in {SOURCE}"
            num = num_run[language].get(name, 0)
            if examples.tests(tree) and num == 0 and name not in skipped[language]:
                yield f"EXAMPLES {language}/{name}: none was run"
            if num != num_run[SOURCE].get(name, 0):
                yield f"EXAMPLES {language}/{name}: {num} were run, not as many as in {SOURCE}"
        if sum(num_run[language].values()) < least:
            yield f"EXAMPLES {language}: {sum(num_run[language].values())} were run, not {least}"
        if examples.has_failures(files[language]):
            yield f"EXAMPLES {language}: some have failed"


def examples_run(outputs: Path) -> dict[str, dict[str, int]]:
    """Return how many examples of each page were run, by language.

    A page that one build has left to the other has those of the other: their examples are the same.
    """
    files = {language: outputs / language / "output.txt" for language in LANGUAGES}
    counts = {language: examples.counts(file) for language, file in files.items()}
    found = {language: dict(counts[language]) for language in LANGUAGES}
    for language, other in (LANGUAGES, reversed(LANGUAGES)):
        for name in examples.shared(files[language]):
            found[language][name] = counts[other].get(name, 0)
    return found


def translated(trees: Trees, english_only: set[str]) -> Iterator[str]:
    """Find what the tested Chinese tree has in English."""
    for name, tree in trees.items():
        parts = examples.translated_entries(tree) if name in english_only else [tree]
        for part in parts:
            for text in examples.untranslated(part):
                yield f"UNTRANSLATED {name}: {text}"


def read_allowed(file: Path) -> set[str]:
    """Return the texts that are the same in both languages: one a line, after # what is not one."""
    lines = file.read_text(encoding="utf-8").splitlines()
    return {line.strip() for line in lines if line.strip() and not line.startswith("#")}


def check(html: Path, doctrees: Path, outputs: Path, allowed: set[str], least: int) -> list[str]:
    """Return what is wrong with a site: what was built of it, and what was tested."""
    sites = read_site(html)
    trees = {language: examples.doctrees(doctrees / language) for language in LANGUAGES}
    return [
        *same_pages(sites),
        *switchers(html, sites),
        *links(html, sites),
        *same_code(sites),
        *wide_code(sites),
        *notebook_gate.problems(html / SOURCE, html / TRANSLATION),
        *words(sites, allowed),
        *same_examples(trees, outputs, least),
        *translated(trees[TRANSLATION], examples.english_only(doctrees / TRANSLATION)),
    ]


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("html", type=Path)
    parser.add_argument("doctrees", type=Path)
    parser.add_argument("doctest", type=Path)
    parser.add_argument("allowed", type=Path, help="texts that need not be Chinese, one a line")
    parser.add_argument("--least", type=int, default=1, help="examples that must have been run")
    given = parser.parse_args()
    if not (given.html / SOURCE).is_dir():
        sys.exit(f"There is no {given.html / SOURCE}; run `make docs`.")
    # All pages' trees are kept until the end: looking for garbage in them would take half of the time.
    gc.disable()
    allowed = read_allowed(given.allowed)
    found = check(given.html, given.doctrees, given.doctest, allowed, given.least)
    for line in found:
        print(line)
    if found:
        sys.exit(f"{len(found)} problems with the site in {given.html}")
    num_run = sum(examples_run(given.doctest)[SOURCE].values())
    for name in sorted(examples.skipped(given.doctest / SOURCE / "output.txt")):
        print(f"Not run: the examples of {name}")
    print(f"The same pages and the same {num_run} examples in {' and '.join(LANGUAGES)}")


if __name__ == "__main__":
    main()
