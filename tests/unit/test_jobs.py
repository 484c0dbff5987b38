"""What nodes are told about jobs."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from _plugin_parts import RecordedDask

from raycompat._scheduler.jobs import Job, Jobs


@pytest.mark.parametrize("has_left", [False, True])
def test_a_new_node_sends_output_only_to_a_driver_that_is_there(has_left):
    setup = {"log_to_driver": True, "program": b""}
    job = Job("1", "client", "letters", setup, None, orphaned=has_left)
    message = Jobs(SimpleNamespace(dask=RecordedDask([])))._message(job)
    assert message.setup == {**setup, "log_to_driver": not has_left}
