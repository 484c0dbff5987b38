"""The processes of trials: each trial has a fresh one, whose start is cheap."""

from __future__ import annotations

import os
import sys

import pytest

import raycompat as ray
from raycompat import tune

pytestmark = pytest.mark.timeout(120)


def test_processes_of_later_trials_are_forked_with_tune(cluster, tmp_path, wait_until):
    def train(config):
        tune.report({"process": os.getpid()})

    grid = tune.Tuner(
        train,
        tune_config=tune.TuneConfig(num_samples=6),
        run_config=tune.RunConfig(storage_path=str(tmp_path), verbose=0),
    ).fit()
    assert len({result.metrics["process"] for result in grid}) == 6

    class Fresh:
        def has(self, module):
            return module in sys.modules

    def forked_with_tune():
        actor = ray.remote(Fresh).options(num_cpus=0).remote()
        found = ray.get(actor.has.remote("raycompat.tune"))
        ray.kill(actor)
        return found

    wait_until(forked_with_tune, 30)
