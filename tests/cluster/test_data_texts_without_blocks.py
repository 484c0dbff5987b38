"""The text of a data set whose blocks cannot be had: it shows the columns; Ray raises an error."""

from __future__ import annotations

import dataclasses
import threading

import pytest

import raycompat as ray
from raycompat.data.dataset import from_bundles

pytestmark = [pytest.mark.timeout(120), pytest.mark.usefixtures("no_cluster")]

COLUMNS = """shape: (20, 1)
╭───────╮
│ id    │
│ ---   │
│ int64 │
╰───────╯
(Showing 0 of 20 rows)"""


def test_a_block_that_is_being_made_again():
    ray.init(num_cpus=1, include_dashboard=False)

    @ray.remote
    class Maker:
        def __init__(self):
            self._may_end = threading.Event()

        def make(self):
            self._may_end.wait()

        def end(self):
            self._may_end.set()

    maker = Maker.options(max_concurrency=2).remote()
    ref = maker.make.remote()
    (bundle,) = ray.data.range(20, override_num_blocks=1).materialize()._bundles()
    dataset = from_bundles([dataclasses.replace(bundle, ref=ref)])
    assert repr(dataset) == COLUMNS
    ray.get(maker.end.remote())
    ray.get(ref)


def test_blocks_of_a_session_that_has_ended():
    ray.init(num_cpus=1, include_dashboard=False)
    dataset = ray.data.range(20).materialize()
    ray.shutdown()
    assert repr(dataset) == COLUMNS
    assert not ray.is_initialized()
    ray.init(num_cpus=1, include_dashboard=False)
    assert repr(dataset) == COLUMNS
