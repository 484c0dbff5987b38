"""The page for language models: its links, versions and commands."""

import ast
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import raycompat as ray
from raycompat._cli import commands as cli
from raycompat._dask import versions
from raycompat._surface import era

ROOT = Path(__file__).parents[2]
TEMPLATE = ROOT / "docs" / "_root" / "llms.txt"
TOOL = ROOT / "docs" / "_tools" / "llms.py"
sys.path.insert(0, str(TOOL.parent))

import llms  # noqa: E402


@pytest.fixture(scope="module")
def text():
    return llms.written(TEMPLATE.read_text(encoding="utf-8"))


@pytest.fixture
def site(tmp_path):
    """A site with the pages of all sources, empty."""
    for source in [*ROOT.glob("docs/**/*.rst"), *ROOT.glob("tutorials/**/*.rst")]:
        page = (tmp_path / "en" / source.relative_to(ROOT)).with_suffix(".html")
        page.parent.mkdir(parents=True, exist_ok=True)
        page.touch()
    return tmp_path


def run(site):
    return subprocess.run(
        [sys.executable, TOOL, TEMPLATE, site], capture_output=True, text=True, timeout=100
    )


def test_it_is_written_into_the_site(site, text):
    ended = run(site)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert (site / "llms.txt").read_text(encoding="utf-8") == text
    assert len(llms.links(text)) > 15
    assert set(llms.links(text)) <= {f"{each.relative_to(site)}" for each in site.rglob("*.html")}


def test_a_page_that_is_gone_is_refused_by_name(site):
    (site / "en/docs/actors.html").unlink()
    ended = run(site)
    assert ended.returncode == 1
    assert "en/docs/actors.html is not in" in ended.stdout
    assert not (site / "llms.txt").exists()


def test_make_docs_writes_it():
    rules = subprocess.run(
        ["make", "--dry-run", "--always-make", "docs"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "docs/_tools/llms.py docs/_root/llms.txt _build/html" in rules.stdout


def test_versions_are_those_of_the_package(text):
    assert "$" not in text
    for version in (
        ray.__version__,
        era.TODAY.removesuffix(".0"),
        versions.OLDEST.removesuffix(".0"),
    ):
        assert re.search(rf"(?<![\d.]){re.escape(version)}(?!\d)", text), version
    oldest, newest = map(int, re.search(r"Python 3\.(\d+) to 3\.(\d+)", text).groups())
    assert oldest <= sys.version_info.minor <= newest


def test_its_commands_exist(text):
    commands = re.findall(r"`raycompat ([^`]+)`", text)
    assert commands
    for name, *options in map(str.split, commands):
        command = cli.cli.commands[name]
        known = {each for parameter in command.params for each in parameter.opts}
        assert set(options) <= known


def test_its_calls_are_possible(text):
    calls = re.findall(r"`(ray\.[^`]+)`", text)
    assert calls
    for call in calls:
        node = ast.parse(call, mode="eval").body
        function = getattr(ray, node.func.attr)
        arguments = [ast.literal_eval(each) for each in node.args]
        named = {each.arg: ast.literal_eval(each.value) for each in node.keywords}
        inspect.signature(function).bind(*arguments, **named)
