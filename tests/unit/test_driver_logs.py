"""The thread that prints the output of tasks."""

from __future__ import annotations

import time
from types import SimpleNamespace

from raycompat._caller.driver_logs import DriverLogs
from raycompat._messages.logs import OutputPiece


def test_a_count_of_folded_lines_is_shown_while_the_program_runs(monkeypatch, capsys):
    monkeypatch.setenv("RAY_DEDUP_LOGS_AGG_WINDOW_S", "1")
    monkeypatch.setenv("RAY_DEDUP_LOGS", "1")
    here = SimpleNamespace(host="h", ip="1.2.3.4")
    setup = SimpleNamespace(host="h", job="j")
    logs = DriverLogs(SimpleNamespace(home=here, setup=setup, send=lambda message: None))
    for pid in (1, 2, 3):
        piece = OutputPiece("j", "1.2.3.4", 5, pid, "stdout", "f", b"same\n", True, "node")
        logs.receive(piece)
    shown, deadline = "", time.monotonic() + 20
    while "[repeated 2x across cluster]" not in shown:
        assert time.monotonic() < deadline, shown
        time.sleep(0.05)  # polling with a deadline: a timer of the logs shows the count
        shown += capsys.readouterr().out
    logs.close()
    assert shown.count("same") == 2
