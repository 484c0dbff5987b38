"""The tables of `raycompat top` in narrow windows: which columns remain."""

from __future__ import annotations

import pytest
from rich.console import Console

from raycompat._cli import top

LONG = "a_function_with_a_long_name"


@pytest.mark.parametrize("width", [60, 80, 120])
def test_names_and_failures_are_readable_at_each_width(monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    row = {"name": LONG, "waiting": 106_251, "running": 12, "done": 103_748, "failed": 118}
    row |= {"rate": 10.0, "median": 0.35218, "high": 0.35218, "longest": 0.35218}
    console = Console(width=width, record=True, file=None)
    with console.capture() as captured:
        console.print(top._functions([row]))
    lines = captured.get().splitlines()
    assert max(map(len, lines)) <= width
    text = "".join(captured.get().split())
    for expected in ("FUNCTION", "WAITING", "FAILED", "106,251", "103,748", "118"):
        assert expected in text
    assert ("352.18ms" in text) == ("MEDIAN" in text) == (width >= 80)
    first = [line.strip().partition(" ")[0] for line in lines]
    start = next(at for at, part in enumerate(first) if LONG.startswith(part) and part)
    assert LONG.startswith(first[start])
    assert len(first[start]) >= min(len(LONG), top._NAME_CHARS)


@pytest.mark.parametrize(("height", "most"), [(20, 1), (30, None), (200, top._MOST_ROWS)])
def test_all_tables_of_an_update_fit_the_height_of_the_window(monkeypatch, height, most):
    monkeypatch.setenv("COLUMNS", "80")
    error = "ValueError: the file is damaged, as the next eighty or more characters say " * 2
    actor = {"class": "Learner", "name": "", "state": "DEAD", "pid": 1, "rss": None, "cpu": None}
    counts = dict.fromkeys(("waiting", "running", "done", "failed"), 1)
    timed = dict.fromkeys(("rate", "median", "high", "longest"), 1.0)
    found = {
        "state": {"total": {"CPU": 1.0}, "nodes": []},
        "functions": [{"name": "load", **counts, **timed}] * 30,
        "actors": [{**actor, "error": error}] * 30,
        "num_internal": {"functions": 0, "actors": 3},
    }
    console = Console(width=80, height=height, force_terminal=True)
    with console.capture() as captured:
        console.print(top._fitting(found, console))
    lines = captured.get().splitlines()
    assert len(lines) < max(height, 24)
    num_rows = sum("load" in line for line in lines)
    assert num_rows == sum("Learner" in line for line in lines)
    assert num_rows == most or (most is None and 1 < num_rows < top._MOST_ROWS)
