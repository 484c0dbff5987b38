"""Reading the value of an object."""

from __future__ import annotations

import pytest

from raycompat._caller import resolve
from raycompat._caller.object_table import Entry


def test_a_value_that_another_thread_has_just_given_to_a_node_must_be_fetched():
    entry = Entry("key")
    with pytest.raises(FileNotFoundError):
        resolve.read(entry)
