"""When trials end: `Stopper`s on reported values; no trial runs."""

from __future__ import annotations

import importlib
import pickle

import pytest


@pytest.fixture(scope="session")
def stoppers(ray):
    return importlib.import_module(f"{ray.__name__}.tune.stopper")


def first_stop(stopper, values, metric="m", trial="a"):
    """Return the index of the first value at which a stopper ends a trial; None if it never does."""
    for index, value in enumerate(values):
        if stopper(trial, {metric: value, "training_iteration": index + 1}):
            return index
    return None


@pytest.mark.parametrize("limit", [1, 2, 5])
def test_a_maximum_of_iterations(stoppers, limit):
    assert first_stop(stoppers.MaximumIterationStopper(limit), range(9)) == limit - 1


def test_iterations_are_counted_for_each_trial(stoppers):
    stopper = stoppers.MaximumIterationStopper(2)
    assert [stopper(trial, {}) for trial in "abab"] == [False, False, True, True]
    assert not stopper.stop_all()


@pytest.mark.parametrize(
    ("values", "grace", "expected"),
    [
        ([1.0, 1.0, 1.0, 1.0, 1.0, 1.0], 4, 3),
        ([1.0, 2.0, 3.0, 3.0, 3.0, 3.0, 3.0], 6, 5),
        ([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 4, None),
        ([1.0, 1.001, 1.002, 1.003], 4, 3),
    ],
)
def test_a_trial_on_a_plateau(stoppers, values, grace, expected):
    stopper = stoppers.TrialPlateauStopper("m", std=0.01, num_results=4, grace_period=grace)
    assert first_stop(stopper, values) == expected


@pytest.mark.parametrize("grace", [2, 4, 7])
def test_a_plateau_within_the_grace_period(stoppers, grace):
    stopper = stoppers.TrialPlateauStopper("m", num_results=2, grace_period=grace)
    assert first_stop(stopper, [1.0] * 10) == grace - 1


@pytest.mark.parametrize(
    ("mode", "threshold", "expected"),
    [("min", 2.0, 3), ("min", 0.5, None), ("max", 0.5, 3), ("max", 2.0, None)],
)
def test_a_plateau_counts_beyond_a_threshold(stoppers, mode, threshold, expected):
    stopper = stoppers.TrialPlateauStopper(
        "m", num_results=4, grace_period=4, metric_threshold=threshold, mode=mode
    )
    assert first_stop(stopper, [1.0] * 6) == expected


def test_a_threshold_needs_a_mode(stoppers):
    with pytest.raises(ValueError, match="mode"):
        stoppers.TrialPlateauStopper("m", metric_threshold=1.0, mode=None)


@pytest.mark.parametrize(
    ("mode", "values"), [("min", [3, 2, 1, 1, 1, 1]), ("max", [1, 2, 3, 3, 3])]
)
def test_an_experiment_on_a_plateau(stoppers, mode, values):
    stopper = stoppers.ExperimentPlateauStopper("m", std=0.001, top=3, mode=mode)
    found = [stopper(f"t{index}", {"m": value}) for index, value in enumerate(values)]
    assert found[:4] == [False] * 4
    assert found[4]
    assert stopper.stop_all()


def test_an_experiment_with_patience(stoppers):
    stopper = stoppers.ExperimentPlateauStopper("m", top=2, patience=3)
    found = [stopper(f"t{index}", {"m": 1.0}) for index in range(8)]
    assert found.index(True) == 3


def test_an_experiment_that_improves_goes_on(stoppers):
    stopper = stoppers.ExperimentPlateauStopper("m", top=3, std=0.1)
    assert not any(stopper("t", {"m": -float(value)}) for value in range(20))
    assert not stopper.stop_all()


@pytest.mark.parametrize(
    "wrong", [{"mode": "up"}, {"top": 1}, {"patience": -1}, {"std": -1.0}, {"top": 2.5}]
)
def test_wrong_plateaus(stoppers, wrong):
    with pytest.raises(ValueError, match="."):
        stoppers.ExperimentPlateauStopper("m", **wrong)


def test_functions(stoppers):
    stopper = stoppers.FunctionStopper(lambda trial_id, result: result["m"] > 2)
    assert first_stop(stopper, [1, 2, 3, 4]) == 2
    assert not stopper.stop_all()


def test_functions_are_recognized(stoppers):
    assert stoppers.FunctionStopper.is_valid_function(lambda trial_id, result: True)
    assert not stoppers.FunctionStopper.is_valid_function(3)
    assert not stoppers.FunctionStopper.is_valid_function(stoppers.NoopStopper())


@pytest.mark.parametrize("values", [[0, 0], [1, 2, 3]])
def test_nothing_stops_by_default(stoppers, values):
    assert first_stop(stoppers.NoopStopper(), values) is None
    assert not stoppers.NoopStopper().stop_all()


@pytest.mark.parametrize("seconds", [0, 3600])
def test_a_budget_of_time(stoppers, seconds):
    stopper = stoppers.TimeoutStopper(seconds)
    assert not stopper("a", {})
    stopper.stop_all()  # the clock runs from the first question
    assert stopper.stop_all() == (seconds == 0)


def test_a_budget_survives_a_pickle(stoppers):
    stopper = pickle.loads(pickle.dumps(stoppers.TimeoutStopper(3600)))
    assert not stopper.stop_all()


def test_a_budget_has_a_unit(stoppers):
    with pytest.raises(ValueError, match="."):
        stoppers.TimeoutStopper("an hour")


def test_a_stopper_that_is_not_a_subclass_is_told(stoppers):
    class Alike:
        def __call__(self, trial_id, result):
            return False

        def stop_all(self):
            return False

    with pytest.raises(ValueError, match="Stopper"):
        stoppers.FunctionStopper.is_valid_function(Alike())


def test_any_of_several(stoppers):
    several = stoppers.CombinedStopper(
        stoppers.MaximumIterationStopper(3),
        stoppers.FunctionStopper(lambda trial_id, result: result["m"] > 5),
    )
    assert first_stop(several, [1, 2, 3]) == 2
    assert several("b", {"m": 6})
    assert not several.stop_all()
