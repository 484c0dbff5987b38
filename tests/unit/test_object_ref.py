"""References: how they are counted."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest

from raycompat._caller.object_ref import ObjectRef
from raycompat._caller.object_table import ObjectTable


@pytest.fixture
def session():
    table = ObjectTable(threading.RLock(), lambda keys: None, lambda link: None, lambda entry: None)
    return SimpleNamespace(table=table, wake=lambda: None)


def test_a_reference_that_was_not_counted_is_not_uncounted(session, monkeypatch):
    def interrupt(key):
        raise KeyboardInterrupt

    first = ObjectRef._of_new(session.table.add("put-1"), session)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(session.table, "count_up", interrupt)
        ObjectRef._from_key("put-1", session)
    session.table.collect_dropped()
    assert first._entry.count == 1
