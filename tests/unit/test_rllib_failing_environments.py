"""An environment that cannot be made shows its own error, and what to do about it."""

from __future__ import annotations

import importlib

import pytest

from raycompat.rllib.env.construction import make_env
from raycompat.rllib.env.env_context import EnvContext
from raycompat.rllib.utils.error import EnvError


def import_missing(name):
    raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def error_of(create):
    with pytest.raises(EnvError) as raised:
        make_env(create, EnvContext({}, 0), "Mine")
    return str(raised.value)


def test_a_known_package_has_the_line_that_installs_it():
    said = error_of(lambda context: import_missing("cv2"))
    assert said.endswith("No module named 'cv2'. The program needs cv2: pip install opencv-python.")


def test_a_package_that_another_error_was_raised_from_counts():
    def create(context):
        try:
            import_missing("Box2D")
        except ImportError as error:
            raise RuntimeError("no physics") from error

    assert "RuntimeError: no physics. The program needs Box2D: pip install" in error_of(create)


@pytest.mark.parametrize("name", ["numpy.nothing_here", "my_helper_of_this_program"])
def test_no_package_is_guessed(name):
    said = error_of(lambda context: importlib.import_module(name))
    assert f"No module named {name!r}" in said
    assert "working_dir" in said
    assert "pip install" not in said


def test_an_error_that_follows_a_missing_package_is_the_one_that_is_shown():
    def create(context):
        try:
            import_missing("cv2")
        except ImportError:
            raise ValueError("size must be 3")  # noqa: B904

    assert "ValueError: size must be 3. Correct env_config" in error_of(create)
