"""Files beside Ray's example programs are found where a program lies among them, and only there."""

from __future__ import annotations

import importlib
import sys

import pytest

from raycompat._surface import companions
from raycompat.exceptions import UnsupportedRayFeatureError


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """A checkout of Ray with a program in rllib/examples, which runs."""
    examples = tmp_path / "ray" / "rllib" / "examples"
    for name, text in {
        "env/corridor.py": "class Corridor: pass\n",
        "envs/classes/__init__.py": "from raycompat.rllib.examples.env.corridor import Corridor\n",
        "utils.py": "raise AssertionError('the place in raycompat goes first')\n",
    }.items():
        (examples / name).parent.mkdir(parents=True, exist_ok=True)
        (examples / name).write_text(text)
    before = set(sys.modules)
    monkeypatch.setattr(sys, "path", [str(examples), *sys.path])
    yield examples
    for name in set(sys.modules) - before:
        if name.startswith("raycompat.") and "examples" in name:
            del sys.modules[name]


def test_modules_of_examples_are_those_in_the_tree(tree):
    classes = importlib.import_module("raycompat.rllib.examples.envs.classes")
    corridor = importlib.import_module("raycompat.rllib.examples.env.corridor")
    assert classes.Corridor is corridor.Corridor
    assert corridor.__file__ == str(tree / "env" / "corridor.py")


@pytest.mark.filterwarnings("ignore::raycompat.exceptions.OldFormWarning")  # once in a process
def test_libraries_of_the_past_have_examples_too(tree):
    theirs = tree.parents[1] / "util" / "sgd" / "v2" / "examples"
    theirs.mkdir(parents=True)
    (theirs / "line.py").write_text("slope = 2\n")
    assert importlib.import_module("raycompat.util.sgd.v2.examples.line").slope == 2


def test_what_raycompat_has_goes_first(tree):
    utils = importlib.import_module("raycompat.rllib.examples.utils")
    assert callable(utils.add_rllib_example_script_args)


def test_what_the_tree_lacks_refuses_when_it_is_used(tree):
    module = importlib.import_module("raycompat.rllib.examples.env.nothing")
    with pytest.raises(UnsupportedRayFeatureError, match="folder in which Ray has it"):
        module.Nothing()


@pytest.mark.parametrize(
    "name", ["raycompat.rllib.env.corridor", "raycompat.rllib.examples.env.other"]
)
def test_no_other_module_is_looked_for(tree, name):
    (tree.parent / "env").mkdir()
    (tree.parent / "env" / "corridor.py").write_text("")
    assert companions.spec_of(name) is None


def test_programs_elsewhere_have_no_companions(tree, monkeypatch):
    monkeypatch.setattr(sys, "path", [str(tree.parent)])
    assert companions.spec_of("raycompat.rllib.examples.env.corridor") is None
