"""Environment variables that no process can have, and those with which Python does not start."""

from __future__ import annotations

import pytest

from raycompat._launch.node_options import node_options
from raycompat._protocol import runtime_env, variables


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("", "1", "not empty"),
        ("A=B", "1", "without '='"),
        ("A\0", "1", "without null"),
        ("A", "1\0", "without null"),
        ("A", "\ud800", "cannot store it"),
        ("PYTHONHASHSEED", "abc", "PYTHONHASHSEED='abc': Fatal Python error"),
        ("PYTHONHASHSEED", "-1", "does not start"),
        ("PYTHONHOME", "/no/such/folder", "PYTHONHOME='/no/such/folder'"),
        ("PYTHONIOENCODING", "klingon", "PYTHONIOENCODING='klingon'"),
        ("PYTHONUTF8", "7", "PYTHONUTF8='7'"),
    ],
)
def test_a_variable_that_is_not_valid_is_named(name, value, reason):
    good = {"FIRST": "1", "PYTHONHASHSEED": "7"}
    for check in (
        lambda given: runtime_env.checked({"env_vars": given}),
        lambda given: runtime_env.checked_for_call({"env_vars": given}),
        lambda given: node_options({"env_vars": given}, is_head=False),
    ):
        with pytest.raises(ValueError, match="env_vars") as caught:
            check({**good, name: value})
        assert reason in str(caught.value)
        assert "FIRST" not in str(caught.value)


@pytest.mark.parametrize(
    "given",
    [
        {"PYTHONHASHSEED": "random"},
        {"PYTHONHASHSEED": "${SEED}"},  # known where it is set
        {"PYTHONPATH": "/no/such/folder"},
        {"A B": "a\nb=c", "UMLAUT": "ü", "EMPTY": "", "BYTES": "\udcff"},
    ],
)
def test_every_other_variable_passes(given):
    assert runtime_env.checked({"env_vars": given}) == {"env_vars": given}


def test_variables_that_only_together_are_wrong_are_all_named(monkeypatch):
    monkeypatch.setattr(
        variables, "_error_of_python", lambda given: "a conflict" if len(given) == 2 else ""
    )
    reason = variables.why_python_does_not_start({"PYTHONA": "1", "PYTHONB": "2"})
    assert "PYTHONA='1'" in reason
    assert "PYTHONB='2'" in reason
