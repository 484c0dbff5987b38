"""The fields of runtime environments, and what children inherit."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raycompat._executor.start import expanded
from raycompat._protocol import runtime_env
from raycompat._protocol.runtime_env import (
    EMPTY,
    checked,
    checked_for_call,
    dumps,
    inherited,
    loads,
)
from raycompat.exceptions import RuntimeEnvSetupError, UnsupportedRayFeatureError
from raycompat.runtime_env import RuntimeEnv, RuntimeEnvConfig

names = st.sampled_from(["A", "B", "C"])
environments = st.fixed_dictionaries(
    {},
    optional={
        "env_vars": st.dictionaries(names, names, min_size=1),
        "working_dir": st.sampled_from(["local:///a", "file:///b.zip"]),
        "py_modules": st.lists(st.sampled_from(["local:///m", "file:///w.whl"]), min_size=1),
        "pip": st.lists(names, min_size=1, unique=True),
    },
)


# --- fields -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "given_", "kept"),
    [
        ("env_vars", {}, None),
        ("env_vars", None, None),
        ("pip", [], None),
        ("pip", ["a", "b", "a"], {"packages": ["a", "b"], "pip_check": False}),
        (
            "pip",
            {"packages": ["a"], "pip_check": True},
            {"packages": ["a"], "pip_check": True},
        ),
        ("excludes", [], None),
        ("py_modules", [], None),
        ("working_dir", "local:///folder", "local:///folder"),
        ("conda", None, None),
    ],
)
def test_a_field_is_kept_as_nodes_need_it(field, given_, kept):
    assert runtime_env.checked_field(field, given_) == kept


def test_a_file_of_requirements_is_read(tmp_path):
    path = tmp_path / "requirements.txt"
    path.write_text("# what we need\na==1  # this\n\nb>=2\n")
    assert checked({"pip": str(path)})["pip"]["packages"] == ["a==1", "b>=2"]
    assert checked({"pip": {"packages": str(path)}})["pip"]["packages"] == ["a==1", "b>=2"]


def test_an_empty_environment_asks_for_nothing():
    assert checked({}) == checked({"env_vars": {}, "pip": None}) == {}
    assert dumps({}) == EMPTY


def test_what_the_user_changes_later_has_no_effect():
    variables, modules = {"A": "1"}, ["local:///a"]
    fields = checked_for_call({"env_vars": variables, "py_modules": modules})
    variables["A"], modules[0] = "2", "local:///b"
    assert fields == {"env_vars": {"A": "1"}, "py_modules": ["local:///a"]}


@pytest.mark.parametrize(
    ("given_", "error", "text"),
    [
        ({"working_dir": "."}, ValueError, "only supported at the job level"),
        (
            {"working_dir": "/no/such/folder"},
            ValueError,
            "working_dir: '/no/such/folder' is not a valid path.*Nothing is there",
        ),
        ({"working_dir": "ftp://a.zip"}, ValueError, "is not a valid URI"),
        ({"working_dir": "local://a"}, ValueError, "absolute path"),
        ({"working_dir": "file:///a.whl"}, ValueError, r"Only \.zip, .* for working_dir URIs"),
        (
            {"py_modules": ["file:///a.txt"]},
            ValueError,
            r"\.whl files are supported for py_modules",
        ),
        ({"working_dir": "https://a/b.zip"}, UnsupportedRayFeatureError, "from https://"),
        ({"pip": {"packages": ["a"], "pip_version": 5}}, TypeError, "must be of type str"),
        ({"pip": {"packages": 5}}, ValueError, "are a list or a file's name"),
        ({"config": {"setup_timeout_seconds": True}}, TypeError, "of type int"),
        ({"unknown": None}, RuntimeEnvSetupError, "unknown fields: 'unknown'"),
        ({"workingdir": "."}, RuntimeEnvSetupError, "Did you mean working_dir"),
        ("text", TypeError, "must be a dict or a RuntimeEnv, got <class 'str'>"),
    ],
)
def test_what_is_wrong_is_told(given_, error, text):
    with pytest.raises(error, match=text):
        checked_for_call(given_)


# --- inheritance --------------------------------------------------------------------------------


def test_variables_are_added_and_other_fields_replace():
    parent = dumps({"env_vars": {"A": "1", "B": "1"}, "working_dir": "local:///a"})
    child = {"env_vars": {"B": "2", "C": "2"}, "working_dir": "local:///b"}
    assert loads(inherited(parent, child)) == {
        "env_vars": {"A": "1", "B": "2", "C": "2"},
        "working_dir": "local:///b",
    }


@given(environments)
def test_who_asks_for_nothing_has_what_its_parent_has(parent):
    text = dumps(checked_for_call(parent))
    assert inherited(text, None) == inherited(text, {}) == text


@given(environments, environments)
def test_a_child_has_what_it_asks_for_and_the_rest_of_its_parent_s(parent, child):
    parent, child = checked_for_call(parent), checked_for_call(child)
    both = loads(inherited(dumps(parent), child))
    assert both.keys() == parent.keys() | child.keys()
    for name in both.keys() - {"env_vars"}:
        assert both[name] == (child if name in child else parent)[name]
    assert both.get("env_vars", {}) == {**parent.get("env_vars", {}), **child.get("env_vars", {})}


@given(environments, environments)
def test_equal_environments_are_equal_texts(parent, child):
    parent, child = checked_for_call(parent), checked_for_call(child)
    once = inherited(dumps(parent), child)
    assert inherited(once, child) == once == dumps(json.loads(once))


# --- variables ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("plain", "plain"),
        ("${X}:b", "x:b"),
        ("$X:b", "x:b"),
        ("a${NO_SUCH}b", "ab"),
        ("a$NO_SUCH b", "a$NO_SUCH b"),
        ("${lower_case}", "${lower_case}"),
        ("$", "$"),
        ("100 %", "100 %"),
    ],
)
def test_values_may_name_what_was_there(value, expected):
    assert expanded({"V": value}, {"X": "x"}) == {"X": "x", "V": expected}


def test_a_variable_may_be_made_longer_and_used_by_the_next():
    made = expanded({"A": "1${A}", "B": "${A}2"}, {"A": "0"})
    assert made == {"A": "10", "B": "102"}


def test_a_path_has_no_empty_end():
    assert expanded({"PYTHONPATH": "/a:${PYTHONPATH}"}, {})["PYTHONPATH"] == "/a"


@given(
    st.dictionaries(names, st.text(alphabet="ab${}A_", max_size=10)), st.dictionaries(names, names)
)
def test_variables_that_are_not_named_stay(variables, environment):
    made = expanded(variables, environment)
    assert made.keys() == variables.keys() | environment.keys()
    assert all(made[name] == environment[name] for name in environment.keys() - variables.keys())


# --- the classes --------------------------------------------------------------------------------


def test_a_config_has_ray_s_defaults():
    made = {"setup_timeout_seconds": 600, "eager_install": True, "log_files": []}
    assert RuntimeEnvConfig() == made
    assert RuntimeEnvConfig(setup_timeout_seconds=-1).to_dict() == {
        **made,
        "setup_timeout_seconds": -1,
    }
    assert RuntimeEnv(config=RuntimeEnvConfig())["config"] == made


def test_unknown_fields_of_an_environment_raise():
    with pytest.raises(RuntimeEnvSetupError, match="unknown fields"):
        RuntimeEnv(unknown=1)
    with pytest.raises(RuntimeEnvSetupError, match="unknown fields"):
        RuntimeEnv()["unknown"] = 1


def test_an_environment_is_eager_unless_it_says_otherwise():
    assert not runtime_env.is_eager(EMPTY)
    assert runtime_env.is_eager(dumps({"env_vars": {"A": "1"}}))
    lazy = {"env_vars": {"A": "1"}, "config": {"eager_install": False}}
    assert not runtime_env.is_eager(dumps(checked(lazy)))
