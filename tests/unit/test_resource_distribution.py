"""How resources are distributed to trials: the numbers that Ray Tune gives, for a cluster in memory."""

import pytest

from raycompat.tune import PlacementGroupFactory
from raycompat.tune.experiment import Trial
from raycompat.tune.schedulers import ResourceChangingScheduler
from raycompat.tune.schedulers.resource_changing_scheduler import (
    DistributeResources,
    DistributeResourcesToTopJob,
)


class Runner:
    def __init__(self, cpus, gpus, trials):
        self._total = {"CPU": cpus, "GPU": gpus}
        self._trials = trials

    def cluster_resources(self):
        return self._total

    def get_live_trials(self):
        return [trial for trial in self._trials if not trial.is_finished()]


def distributed(cpus, gpus, base, num_trials, function, scores=None):
    """Ask for each trial in turn, twice: the second round changes nothing."""
    base = PlacementGroupFactory(base)
    trials = [Trial("f", stub=True, placement_group_factory=base) for _ in range(num_trials)]
    runner = Runner(cpus, gpus, trials)
    scheduler = ResourceChangingScheduler(resources_allocation_function=function)
    for trial, score in zip(trials, scores or [0] * num_trials, strict=True):
        scheduler.on_trial_add(runner, trial)
        trial.status, trial.last_result = Trial.RUNNING, {"m": score, "training_iteration": 1}
    for trial in trials:
        wanted = scheduler.reallocate_trial_resources_if_needed(runner, trial, trial.last_result)
        trial.placement_group_factory = wanted or trial.placement_group_factory
    for trial in trials:
        again = scheduler.reallocate_trial_resources_if_needed(runner, trial, trial.last_result)
        assert again is None
    return [trial.placement_group_factory.bundles for trial in trials]


ONE = [{"CPU": 1}]


@pytest.mark.parametrize(
    ("cluster", "base", "num_trials", "options", "expected"),
    [
        ((8, 0), ONE, 1, {}, [[{"CPU": 8}]]),
        ((8, 0), ONE, 3, {}, [[{"CPU": 3}], [{"CPU": 3}], [{"CPU": 2}]]),
        ((7, 0), ONE, 2, {}, [[{"CPU": 4}], [{"CPU": 3}]]),
        ((2, 0), ONE, 3, {}, [ONE] * 3),
        ((8, 4), [{"CPU": 1, "GPU": 1}], 2, {}, [[{"CPU": 1, "GPU": 2}]] * 2),
        (
            (4, 2),
            [{"CPU": 1, "GPU": 0.5}],
            2,
            {},
            [[{"CPU": 1, "GPU": 1.5}], [{"CPU": 1, "GPU": 0.5}]],
        ),
        ((8, 0), [{}, {"CPU": 1}], 2, {}, [[{"CPU": 4}]] * 2),
        ((8, 0), ONE, 2, {"add_bundles": True}, [[{"CPU": 1}] * 4] * 2),
        (
            (8, 0),
            [{"CPU": 1}, {"CPU": 2}],
            1,
            {"add_bundles": True},
            [[{"CPU": 1}, *[{"CPU": 2}] * 3]],
        ),
        ((8, 0), ONE, 2, {"increase_by": {"CPU": 2}}, [[{"CPU": 5}], [{"CPU": 3}]]),
        (
            (8, 0),
            ONE,
            2,
            {"increase_by": {"CPU": 2}, "increase_by_times": 1},
            [[{"CPU": 3}]] * 2,
        ),
        ((8, 0), ONE, 2, {"reserve_resources": {"CPU": 2}}, [[{"CPU": 3}]] * 2),
    ],
)
def test_equal_shares(cluster, base, num_trials, options, expected):
    assert distributed(*cluster, base, num_trials, DistributeResources(**options)) == expected


@pytest.mark.parametrize(
    ("mode", "scores", "expected"),
    [("max", [1, 2], [1, 7]), ("min", [1, 2], [7, 1]), ("max", [1, 3, 2], [1, 6, 1])],
)
def test_all_for_the_best(mode, scores, expected):
    function = DistributeResourcesToTopJob(metric="m", mode=mode)
    found = distributed(8, 0, ONE, len(scores), function, scores)
    assert found == [[{"CPU": amount}] for amount in expected]


def test_what_cannot_be_distributed():
    with pytest.raises(ValueError, match="add_bundles"):
        distributed(8, 0, [{"CPU": 1}] * 2, 1, DistributeResources())
    with pytest.raises(ValueError, match="only CPU and GPU"):
        distributed(8, 0, ONE, 1, DistributeResources(increase_by={"disk": 1}))
    with pytest.raises(ValueError, match="metric"):
        distributed(8, 0, ONE, 1, DistributeResourcesToTopJob())


def test_trials_that_start_differently():
    scheduler = ResourceChangingScheduler()
    scheduler.on_trial_add(None, Trial("f", stub=True))
    two = Trial("f", stub=True, placement_group_factory=PlacementGroupFactory([{"CPU": 2}]))
    with pytest.raises(RuntimeError, match="start alike"):
        scheduler.on_trial_add(None, two)
