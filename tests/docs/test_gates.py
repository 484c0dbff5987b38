"""Each gate of the documentation refuses what it is there for.

`make docs` runs the gates; they change seldom, so `make nightly` has these tests.
"""

import asyncio
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from _small_site import CHINESE, DOCS, PAGE, Builder, SmallSite, replace

pytest.importorskip("sphinx")

import browser_check
import check_site
import chromium
import po
from bilingual import SearchChinese

pytestmark = pytest.mark.nightly

ALLOWED = check_site.read_allowed(DOCS / "zh-allowed.txt")


@pytest.fixture(scope="module")
def builder():
    """A process that has imported Sphinx."""
    builder = Builder()
    yield builder
    builder.close()


@pytest.fixture(scope="module")
def made(tmp_path_factory, builder):
    """The small site, built; not to be changed."""
    site = SmallSite(tmp_path_factory.mktemp("made"), builder)
    site.make()
    return site


@pytest.fixture
def site(made, builder, tmp_path):
    """A copy of it, to be broken."""
    shutil.copytree(made.folder, tmp_path / "site")
    return SmallSite(tmp_path / "site", builder)


def refusals(site, least=1):
    """The kinds of problems that `check_site.py` finds."""
    built = site.built
    found = check_site.check(built / "html", built / "doctrees", built / "doctest", ALLOWED, least)
    return {line.split()[0] for line in found}


def po_refusals(site):
    """The kinds of problems that `po.py` finds."""
    found = po.check(site.pots, site.catalogues / "zh_CN" / "LC_MESSAGES")
    return {line.split()[0] for line in found}


def test_a_site_in_order_passes(made):
    assert refusals(made) == po_refusals(made) == set()


def test_the_commands_end_with_a_status(site):
    def status(*arguments):
        command = [sys.executable, *map(str, arguments)]
        return subprocess.run(command, capture_output=True).returncode

    built = site.built
    folders = (built / "html", built / "doctrees", built / "doctest", DOCS / "zh-allowed.txt")
    site_command = (DOCS / "_tools" / "check_site.py", *folders)
    po_command = (DOCS / "_tools" / "po.py", "check", site.pots, site.catalogues, "zh_CN")
    assert status(*site_command) == status(*po_command) == 0
    (built / "html" / "zh_CN" / "docs" / "page.html").unlink()
    (site.catalogues / "zh_CN" / "LC_MESSAGES" / "docs" / "page.po").unlink()
    assert status(*site_command) == status(*po_command) == 1


SWITCHER = '<a lang="zh-CN" hreflang="zh-CN" href="../../zh_CN/docs/page.html">中文</a>'


@pytest.mark.parametrize(
    ("path", "old", "new", "kind"),
    [
        ("en/docs/page.html", SWITCHER, "", "SWITCHER"),
        ("en/docs/page.html", SWITCHER, SWITCHER * 2, "SWITCHER"),
        ("en/docs/page.html", SWITCHER, SWITCHER.replace("page.html", "index.html"), "SWITCHER"),
        ("en/docs/page.html", SWITCHER, SWITCHER.replace('hreflang="zh-CN"', ""), "SWITCHER"),
        ("zh_CN/docs/page.html", '<html lang="zh-CN"', '<html lang="en"', "LANG"),
        ("en/docs/index.html", 'href="page.html"', 'href="pages.html"', "LINK"),
        ("en/docs/page.html", 'href="#later"', 'href="#sooner"', "ANCHOR"),
        (
            "zh_CN/docs/index.html",
            "</main>",
            '<img src="https://example.org/x.png"></main>',
            "OFFSITE",
        ),
        ("zh_CN/docs/page.html", ">print<", ">printf<", "CODE"),
        ("zh_CN/docs/page.html", "</main>", "<pre>more</pre></main>", "CODE"),
        ("en/docs/page.html", ">print<", f">{'p' * 81}<", "WIDE"),
        ("zh_CN/docs/page.ipynb", "start + 1", "start + 7", "NOTEBOOK"),
        ("zh_CN/docs/page.ipynb", '"nbformat": 4', '"nbformat": "four"', "NOTEBOOK"),
        ("en/docs/page.ipynb", "start + 1", "start + (1", "NOTEBOOK"),
        ("zh_CN/docs/page.html", "工作进程的最后一句话。", "The last sentence.", "ENGLISH"),
        (
            "zh_CN/docs/page.html",
            "最后一句话",
            "最后 is a sentence that nobody has translated yet",
            "ENGLISH",
        ),
        ("zh_CN/docs/page.html", 'placeholder="搜索"', 'placeholder="Search"', "ENGLISH"),
        ("zh_CN/docs/page.html", 'aria-label="语言"', 'aria-label="Language"', "ENGLISH"),
        ("zh_CN/docs/page.html", "<title>训练", "<title>Training", "ENGLISH"),
        ("zh_CN/docs/page.html", "最后一句话", "最后``一句话``", "MARKUP"),
        ("en/docs/page.html", "The last sentence", "The :ref:`last <x>` sentence", "MARKUP"),
    ],
)
def test_a_built_page_is_refused(site, path, old, new, kind):
    site.edit_built(path, old, new)
    assert kind in refusals(site)


def test_a_page_in_one_language_alone_is_refused(site):
    (site.built / "html" / "zh_CN" / "docs" / "page.html").unlink()
    assert refusals(site) >= {"PAGE", "SWITCHER", "LINK"}


def test_an_edited_sentence_is_refused_and_so_is_the_old_translation(site):
    sentence = "A graph is built once; see :ref:`page` and ``get_weights``."
    site.edit("index", sentence, sentence.replace("once", "twice"))
    assert site.build("en/gettext") == []
    assert po_refusals(site) >= {"MISSING", "STALE"}


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [
        ('msgstr "训练"', 'msgstr ""', "MISSING"),
        ('msgid "Training"', '#, fuzzy\nmsgid "Training"', "FUZZY"),
    ],
)
def test_a_catalogue_with_gaps_and_guesses_is_refused(site, old, new, kind):
    replace(site.catalogues / "zh_CN" / "LC_MESSAGES" / "docs" / "page.po", old, new)
    assert po_refusals(site) == {kind}


@pytest.mark.parametrize(
    "wrong",
    [
        "参阅 :ref:`page` 与 ``get_weight``。",
        "参阅 :ref:`page`。",
        "参阅 :ref:`index` 与 ``get_weights``。",
        "参阅 :doc:`page` 与 ``get_weights``。",
        "参阅 :ref:`page` 与``get_weights``。",
        "参阅:ref:`page` 与 ``get_weights``。",
    ],
)
def test_a_translation_with_other_markup_is_refused(site, wrong):
    site.translate(
        {**CHINESE, "A graph is built once; see :ref:`page` and ``get_weights``.": wrong}
    )
    assert po_refusals(site) == {"MARKUP"}


def test_words_of_links_may_be_translated():
    text = "See `the manual <https://example.org>`_, :ref:`later <page>` and |name|."
    chinese = "|name| 见 `手册 <https://example.org>`_ 与\\ :ref:`后文 <page>`。"
    assert po.markup(text) == po.markup(chinese)


def test_a_term_that_the_site_translates_otherwise_is_refused():
    def refused(english, chinese):
        return [line.split()[0] for line in po.wrong_terms(Path("page"), english, chinese)]

    assert refused("The driver ends.", "驱动程序结束。") == ["TERM"]
    assert refused("The driver of NVIDIA", "NVIDIA 驱动程序") == []
    assert refused("In a notebook", "在笔记本中") == ["TERM"]
    assert refused("From a laptop", "从笔记本电脑") == []
    assert refused("A list: ``a``", "列表： ``a``") == ["TERM"]
    assert refused("A list: ``a``", "列表：``a``") == []


def test_an_orphan_catalogue_is_refused(site):
    folder = site.catalogues / "zh_CN" / "LC_MESSAGES" / "docs"
    shutil.copy(folder / "page.po", folder / "pages.po")
    assert po_refusals(site) == {"ORPHAN"}


def test_updating_keeps_what_is_translated_and_guesses_nothing(site):
    site.edit("page", "The last sentence.", "The very last sentence.")
    assert site.build("en/gettext") == []
    folder = site.catalogues / "zh_CN" / "LC_MESSAGES"
    po.update(site.pots, folder, "zh_CN")
    catalogue = po.read(folder / "docs" / "page.po")
    assert catalogue["Training"].string == "训练"
    assert catalogue["The very last sentence."].string == ""
    assert "The last sentence." not in catalogue
    assert po_refusals(site) == {"MISSING"}


def test_examples_that_need_an_absent_package_are_skipped_visibly(site):
    site.edit("page", ".. _page:", ":needs: no_such_package\n\n.. _page:")
    assert site.build() == []
    output = site.built / "doctest" / "en" / "output.txt"
    assert "Skipped: docs/page\n" in output.read_text()
    assert refusals(site, least=0) == set()
    replace(output, "Skipped: docs/page", "")
    assert refusals(site, least=0) == {"EXAMPLES"}


def test_the_same_examples_are_run_by_one_build_for_both(site):
    conf = site.folder / "docs" / "conf.py"
    conf.write_text(conf.read_text() + 'shared_examples = "_build/doctest/shared"\n')
    outputs = [site.built / "doctest" / each / "output.txt" for each in ("zh_CN", "en")]
    assert site.build("zh_CN/doctest", "en/doctest") == []
    first, second = (file.read_text() for file in outputs)
    assert "Document: docs/page\n" in first
    assert "Shared: docs/page\n" in second
    assert "Document: docs/page\n" not in second
    assert refusals(site, least=3) == set()
    # Those that neither build has run.
    assert site.build("zh_CN/doctest", "en/doctest") == []
    assert refusals(site) == {"EXAMPLES"}


def test_examples_that_differ_are_run_by_each_build(site):
    conf = site.folder / "docs" / "conf.py"
    conf.write_text(conf.read_text() + 'shared_examples = "_build/doctest/shared"\n')
    assert site.build("zh_CN/doctest") == []
    site.edit("page", "   2\n", "   5\n")
    assert site.build("en/doctest") == ["en/doctest"]


def test_english_that_is_given_as_chinese_is_refused(site):
    site.translate({**CHINESE, "The last sentence.": "The last sentence."})
    assert po_refusals(site) == set()
    assert site.build("zh_CN/html") == []
    assert refusals(site) == {"ENGLISH"}


def test_markup_glued_to_a_character_is_refused(site):
    wrong = "图只构建一次；参阅 :ref:`page` 与``get_weights``。"
    site.translate(
        {**CHINESE, "A graph is built once; see :ref:`page` and ``get_weights``.": wrong}
    )
    assert site.build("zh_CN/html") == [], "Sphinx itself does not see it"
    assert "MARKUP" in refusals(site)


def test_a_wrong_output_fails_in_both_languages(site):
    site.edit("page", "   2\n", "   5\n")
    assert site.build("en/doctest", "zh_CN/doctest") == ["en/doctest", "zh_CN/doctest"]
    assert "EXAMPLES" in refusals(site)


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [
        (".. doctest::\n", "::\n", "UNTESTED"),
        (".. doctest::\n\n   >>>", "   >>>", "UNTESTED"),
        ("start + 2\n", "start + 2  # doctest: +SKIP\n", "SKIPPED"),
        (".. testcode::\n", ".. testcode::\n   :skipif: True\n", "SKIPPED"),
    ],
)
def test_an_example_that_is_not_run_is_refused(site, old, new, kind):
    site.edit("page", old, new)
    assert site.build("en/doctest") == []
    assert kind in refusals(site)


def test_a_site_without_examples_is_refused(site):
    beginning, _, _ = PAGE.partition(".. testsetup::")
    site.write("page", beginning + "An actor adds:\n")
    assert site.build("en/doctest", "zh_CN/doctest") == [], "for Sphinx no tests are right ones"
    assert refusals(site) == {"EXAMPLES"}


def test_too_few_examples_are_refused(made):
    assert refusals(made, least=3) == set()
    assert refusals(made, least=4) == {"EXAMPLES"}


def test_chinese_that_was_tested_in_english_is_refused(site):
    """The doctests of a tree that never saw its catalogues, beside pages that did."""
    shutil.move(site.catalogues, site.folder / "elsewhere")
    shutil.rmtree(site.built / "doctrees" / "zh_CN")
    assert site.build("zh_CN/doctest") == []
    assert refusals(site) == {"UNTRANSLATED"}


class TestCodeThatIsTranslated:
    """Sphinx would run the English original of such a block, or another one than is shown."""

    @pytest.fixture
    def translatable(self, site):
        conf = site.folder / "docs" / "conf.py"
        conf.write_text(conf.read_text() + 'gettext_additional_targets = ["literal-block"]\n')
        return site

    def test_it_is_missing_in_the_catalogue(self, translatable):
        assert translatable.build("en/gettext") == []
        assert "MISSING" in po_refusals(translatable)

    def test_it_is_shown_otherwise(self, translatable):
        chinese = {"print(start + 3)": "print(start * 4)", "4": "4"}
        sessions = ">>> start + 1\n2\n>>> start + 2\n3"
        translatable.translate({**CHINESE, **chinese, sessions: sessions})
        assert translatable.build("zh_CN/html", "zh_CN/doctest") == [], "the wrong block passes"
        assert "CODE" in refusals(translatable)
        assert "EXAMPLES" in refusals(translatable)


def test_a_reference_to_nothing_fails(site):
    site.edit("page", "The last sentence.", "The last :ref:`sentence`.")
    assert "en/html" in site.build("en/html")


def test_a_name_without_an_entry_in_the_reference_fails(site):
    conf = site.folder / "docs" / "conf.py"
    conf.write_text(conf.read_text() + 'extensions.append("complete")\n')
    assert site.build("en/html") == ["en/html"]
    assert "ray.get has no entry in the API reference" in site.log


def test_chinese_is_found_by_characters_and_pairs():
    words = SearchChinese({}).split("工作进程 runs task_1，数据")
    assert words == [*"工作进程", "工作", "作进", "进程", "runs", "task_1", *"数据", "数据"]


@pytest.fixture(scope="module")
def problems():
    """A function that runs methods of `Check` on a site; all in one browser."""

    async def run(site, methods):
        folder = site.built / "html"
        with browser_check.served(folder) as address:
            # The browser may request the last page's icon late: leave that page, then forget its events.
            await browser.go("about:blank")
            browser.events.clear()
            check = browser_check.Check(browser, address, folder)
            for method in methods:
                await getattr(check, method)()
            check.events()
            return check.problems

    with asyncio.Runner() as runner:
        browser = runner.run(chromium.Chromium(chromium.find()).__aenter__())
        yield lambda site, *methods: runner.run(run(site, methods))
        runner.run(browser.__aexit__(None, None, None))


@pytest.mark.skipif(chromium.find() is None, reason="there is no Chromium")
class TestInTheBrowser:
    """`browser_check.py` on the small site."""

    def test_a_site_in_order_passes(self, made, problems):
        assert problems(made, "switch", "narrow", "theme") == []

    def test_words_are_found_and_others_are_not(self, made, problems, monkeypatch):
        monkeypatch.setattr(
            browser_check, "FOUND", {"en": ["weights"], "zh_CN": ["工作进程", "权重"]}
        )
        assert problems(made, "search") == []
        monkeypatch.setattr(browser_check, "FOUND", {"en": ["weights"], "zh_CN": ["作工"]})
        assert len(problems(made, "search")) == 1

    @pytest.mark.parametrize(
        ("path", "old", "new", "method", "problem"),
        [
            ("en/_static/bilingual.js", "keepSection)", "(link) => link)", "switch", "the section"),
            (
                "en/docs/page.html",
                "../../zh_CN/docs/page",
                "../../zh_CN/docs/index",
                "switch",
                "leads to",
            ),
            (
                "zh_CN/docs/page.html",
                '<html lang="zh-CN"',
                '<html lang="en"',
                "switch",
                "a page in en",
            ),
            (
                "en/docs/page.html",
                "</main>",
                '<p style="width: 500px">wide</p></main>',
                "narrow",
                "too wide",
            ),
            ("en/docs/page.html", "</main>", "<script>lost()</script></main>", "narrow", "script"),
            (
                "en/docs/page.html",
                "</main>",
                '<img src="http://elsewhere.invalid/x.png"></main>',
                "narrow",
                "elsewhere",
            ),
            ("en/docs/page.html", "</main>", '<img src="lost.png"></main>', "narrow", "not there"),
            (
                "zh_CN/docs/index.html",
                "localStorage.getItem(",
                "String(",
                "theme",
                "dark",
            ),
        ],
    )
    def test_a_built_page_is_refused(self, site, problems, path, old, new, method, problem):
        site.edit_built(path, old, new)
        assert any(problem in found for found in problems(site, method))
