"""How the command line shows values."""

from __future__ import annotations

from raycompat._cli.tables import cell, table


def test_amounts_of_bytes_have_a_unit():
    total = {"CPU": 2.0, "memory": 15.5 * 2**30, "object_store_memory": 6.0 * 2**30}
    text = "CPU: 2, memory: 15.50 GiB, object_store_memory: 6.00 GiB"
    assert cell("resources_total", total) == text
    assert cell("object_size", 3 << 20) == "3.00 MiB"


def test_columns_without_values_are_left_out():
    rows = [{"name": "a", "empty": None, "pid": 1}, {"name": "bcd", "empty": None, "pid": None}]
    assert table(rows) == "NAME  PID\na     1\nbcd"
