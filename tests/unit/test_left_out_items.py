"""Items and errors of a generator that are in no result of a call: the process's log names them."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from raycompat._executor import run_call


def one(error=None):
    yield 1
    if error is not None:
        raise error


@pytest.fixture(autouse=True)
def no_notes():
    run_call._note_left_out.cache_clear()


@pytest.mark.parametrize(
    ("items", "left_out"),
    [
        (lambda: iter([1, 2, 3]), "further items"),
        (lambda: one(KeyError("x")), "the error KeyError('x')"),
    ],
    ids=["items", "error"],
)
def test_what_is_left_out_is_said_once(caplog, items, left_out):
    call = SimpleNamespace(name="read")
    for _ in range(2):
        assert list(run_call._split(None, call, items(), 1)) == [1]
    (record,) = caplog.records
    assert (
        f"Task read has num_returns=1 and returned a generator, of which it leaves out {left_out}."
        in (record.getMessage())
    )


def test_a_generator_with_as_many_items_leaves_out_nothing(caplog):
    assert list(run_call._split(None, SimpleNamespace(name="read"), one(), 1)) == [1]
    assert not caplog.records
