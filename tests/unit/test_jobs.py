"""What nodes are told about jobs."""

from __future__ import annotations

import pytest
from _plugin_parts import run

from raycompat._scheduler.job_table import Job


@pytest.mark.parametrize("has_left", [False, True])
def test_a_new_node_sends_output_only_to_a_driver_that_is_there(monkeypatch, has_left):
    setup = {"log_to_driver": True, "program": b""}
    job = Job("1", "client", "letters", setup, None, orphaned=has_left)

    def test(cluster):
        message = cluster.parts.jobs._message(job)
        assert message.setup == {**setup, "log_to_driver": not has_left}

    run(monkeypatch, 0, test)
