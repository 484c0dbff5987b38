"""Decisions of Tune's schedulers on reported values; no trial runs."""

from __future__ import annotations

import importlib
import json
import random
from types import SimpleNamespace

import numpy as np
import pytest
from _tune_stand_ins import Controller, Trial


@pytest.fixture(scope="session")
def tune(ray):
    return importlib.import_module(f"{ray.__name__}.tune")


@pytest.fixture(scope="session")
def schedulers(ray):
    return importlib.import_module(f"{ray.__name__}.tune.schedulers")


@pytest.fixture(scope="session")
def pbt(ray):
    return importlib.import_module(f"{ray.__name__}.tune.schedulers.pbt")


@pytest.fixture
def asha(schedulers):
    def make(**options):
        chosen = {"time_attr": "t", "metric": "m", "mode": "max", **options}
        return schedulers.ASHAScheduler(**chosen)

    return make


def test_decisions_are_words(schedulers):
    base = schedulers.TrialScheduler
    assert (base.CONTINUE, base.PAUSE, base.STOP) == ("CONTINUE", "PAUSE", "STOP")


def test_fifo_lets_everything_go_on(schedulers):
    controller = Controller(schedulers.FIFOScheduler(), 2, running=1)
    assert controller.report(0, m=1, t=1) == "CONTINUE"
    assert controller.resume() == "t1"
    assert controller.resume() is None


def test_fifo_runs_pending_trials_before_paused_ones(schedulers):
    controller = Controller(schedulers.FIFOScheduler(), 2, running=0)
    controller.trials[0].status = "PAUSED"
    assert [controller.resume(), controller.resume()] == ["t1", "t0"]


def test_asha_stops_at_max_t(asha):
    controller = Controller(asha(max_t=10, grace_period=1), 1)
    assert controller.report(0, t=9, m=1) == "CONTINUE"
    assert controller.report(0, t=10, m=1) == "STOP"


def test_asha_can_go_on_past_max_t(asha):
    controller = Controller(asha(max_t=10, grace_period=1, stop_last_trials=False), 1)
    assert controller.report(0, t=20, m=1) == "CONTINUE"


def test_asha_stops_the_worse_at_a_rung(asha):
    controller = Controller(asha(max_t=100, grace_period=10, reduction_factor=2), 4)
    assert controller.report(0, t=9, m=0) == "CONTINUE"
    assert controller.report(0, t=10, m=8) == "CONTINUE"
    assert controller.report(1, t=10, m=9) == "CONTINUE"
    assert controller.report(2, t=10, m=1) == "STOP"
    assert controller.report(3, t=10, m=8.2) == "CONTINUE"


def test_asha_minimizes(asha):
    controller = Controller(asha(mode="min", max_t=100, grace_period=1, reduction_factor=2), 3)
    assert controller.report(0, t=1, m=1) == "CONTINUE"
    assert controller.report(1, t=1, m=2) == "STOP"
    assert controller.report(2, t=1, m=0.5) == "CONTINUE"


def test_asha_compares_a_trial_once_at_a_rung(asha):
    controller = Controller(asha(max_t=100, grace_period=1, reduction_factor=3), 3)
    assert controller.report(0, t=1, m=5) == "CONTINUE"
    assert controller.report(1, t=1, m=6) == "CONTINUE"
    assert controller.report(0, t=2, m=0) == "CONTINUE"


def test_asha_a_late_first_report_counts_at_the_last_rung(asha):
    controller = Controller(asha(max_t=81, grace_period=1, reduction_factor=3), 2)
    assert controller.report(0, t=9, m=5) == "CONTINUE"
    assert controller.report(1, t=9, m=4) == "STOP"


@pytest.mark.parametrize("eta", [2, 3, 4])
@pytest.mark.parametrize("seed", range(4))
def test_asha_keeps_the_best_of_many(asha, eta, seed):
    """The rule itself: below the percentile of those before."""
    controller = Controller(asha(max_t=100, grace_period=1, reduction_factor=eta), 40)
    rng, seen = np.random.default_rng(seed), []
    for number in range(40):
        score = float(rng.normal())
        worse = bool(seen) and score < np.nanpercentile(seen, (1 - 1 / eta) * 100)
        assert controller.report(number, t=1, m=score) == ("STOP" if worse else "CONTINUE")
        seen.append(score)


def test_asha_nan_goes_on_and_is_not_compared_with(asha):
    controller = Controller(asha(max_t=100, grace_period=1, reduction_factor=2), 3)
    assert controller.report(0, t=1, m=float("nan")) == "CONTINUE"
    assert controller.report(1, t=1, m=1.0) == "CONTINUE"
    assert controller.report(2, t=1, m=0.5) == "STOP"


def test_asha_looks_over_results_without_metric_or_time(asha):
    controller = Controller(asha(), 1)
    assert controller.report(0, t=1) == "CONTINUE"
    assert controller.report(0, m=1) == "CONTINUE"


def test_asha_needs_metric_and_mode(schedulers):
    with pytest.raises(ValueError):
        Controller(schedulers.ASHAScheduler(), 1)


@pytest.mark.parametrize(
    "options",
    [
        {"max_t": 0},
        {"grace_period": 0},
        {"grace_period": 101},
        {"reduction_factor": 1},
        {"brackets": 0},
        {"mode": "best"},
    ],
)
def test_asha_refuses(asha, options):
    with pytest.raises(AssertionError):
        asha(**options)


def test_asha_several_brackets(asha):
    np.random.seed(0)
    controller = Controller(asha(max_t=81, grace_period=1, reduction_factor=3, brackets=3), 30)
    decisions = [controller.report(number, t=1, m=-number) for number in range(30)]
    assert "STOP" in decisions
    assert decisions.count("STOP") < 29  # trials of later brackets are not compared yet


def test_properties_of_the_experiment(schedulers):
    scheduler = schedulers.ASHAScheduler()
    assert scheduler.set_search_properties("m", "max")
    assert scheduler.metric == "m"
    assert not scheduler.set_search_properties("other", None)
    assert not scheduler.set_search_properties(None, "min")


def test_a_mode_alone_means_the_anonymous_metric(schedulers):
    scheduler = schedulers.HyperBandScheduler()
    assert scheduler.set_search_properties(None, "max")
    assert scheduler.metric == "_metric"


@pytest.fixture
def hyperband(schedulers):
    def make(**options):
        chosen = {"time_attr": "t", "metric": "m", "mode": "max", "max_t": 9, **options}
        return schedulers.HyperBandScheduler(**chosen)

    return make


def test_hyperband_fills_brackets_of_its_table(hyperband):
    """R = 9, eta = 3: brackets of 3 trials for 9, of 5 for 3, of 9 for 1."""
    controller = Controller(hyperband(), 17)
    first = [controller.report(number, t=1, m=0) for number in range(17)]
    assert first[:8] == ["CONTINUE"] * 8
    assert first[8:16] == ["PAUSE"] * 8


def test_hyperband_halves_when_all_have_come(hyperband):
    controller = Controller(hyperband(), 17)
    for number in range(8, 17):
        controller.report(number, t=1, m=number)
    states = [trial.status for trial in controller.trials[8:]]
    assert states == ["TERMINATED"] * 6 + ["PAUSED"] * 2 + ["RUNNING"]
    controller.trials[16].status = "RUNNING"
    resumed = {controller.resume(), controller.resume()}
    assert resumed == {"t14", "t15"}
    assert controller.resume() is None


def test_hyperband_runs_its_last_bracket_to_the_end(hyperband):
    controller = Controller(hyperband(), 3)
    assert [controller.report(n, t=8, m=n) for n in range(3)] == ["CONTINUE"] * 3
    assert controller.report(0, t=9, m=0) == "PAUSE"
    assert controller.report(1, t=9, m=1) == "PAUSE"
    assert controller.report(2, t=9, m=2) == "STOP"
    assert {trial.status for trial in controller.trials} == {"TERMINATED"}


def test_hyperband_whole_bracket(hyperband):
    """Nine trials for 1, three for 3, one for 9: the best alone comes to the end."""
    controller = Controller(hyperband(), 17)
    for number in range(8):
        controller.stop_trial(controller.trials[number])
    for milestone in (1, 3, 9):
        for trial in [t for t in controller.trials if t.status == "RUNNING"]:
            controller.report(int(trial.trial_id[1:]), t=milestone, m=int(trial.trial_id[1:]))
        while controller.resume():
            pass
    assert all(trial.is_finished() for trial in controller.trials)
    assert [t.last_result.get("t", 0) for t in controller.trials[8:]] == [1] * 6 + [3, 3, 9]


def test_hyperband_minimizes(hyperband):
    controller = Controller(hyperband(mode="min"), 17)
    for number in range(8, 17):
        controller.report(number, t=1, m=number)
    assert [t.status for t in controller.trials[8:11]] == ["PAUSED"] * 3


@pytest.fixture
def of_bohb(schedulers):
    """Make a runner with trials under HyperBandForBOHB, and a searcher that hears of pauses."""

    def make(num_trials, **options):
        chosen = {"time_attr": "t", "metric": "m", "mode": "max", "max_t": 9, **options}
        controller = Controller(schedulers.HyperBandForBOHB(**chosen), num_trials)
        searcher = SimpleNamespace(on_pause=lambda _: None, on_unpause=lambda _: None)
        controller.search_alg = SimpleNamespace(searcher=searcher)
        return controller

    return make


def test_hyperband_of_bohb_fills_its_largest_bracket_first(of_bohb):
    """R = 9, eta = 3: nine trials for 1 come first, then five for 3."""
    controller = of_bohb(14)
    assert [controller.report(number, t=1, m=0) for number in range(8)] == ["PAUSE"] * 8
    assert controller.report(13, t=1, m=0) == "CONTINUE"
    assert controller.report(13, t=3, m=0) == "PAUSE"


def test_hyperband_of_bohb_halves_a_full_bracket(of_bohb):
    controller = of_bohb(9)
    for number in range(9):
        controller.report(number, t=1, m=number)
    states = [trial.status for trial in controller.trials]
    assert states == ["TERMINATED"] * 6 + ["PAUSED"] * 2 + ["RUNNING"]


def test_hyperband_of_bohb_waits_for_more_trials_while_one_runs(of_bohb):
    """A bracket of nine has three: they are halved when nothing runs that could bring more."""
    controller = of_bohb(3)
    assert [controller.report(number, t=1, m=number) for number in (0, 1)] == ["PAUSE"] * 2
    assert controller.resume() is None
    assert controller.report(2, t=1, m=2) == "PAUSE"
    assert controller.resume() is not None


def test_hyperband_of_bohb_says_at_which_limit_a_trial_is(of_bohb):
    controller = of_bohb(9)
    early, late = {"t": 0, "m": 1}, {"t": 1, "m": 1}
    for result in (early, late):
        controller.scheduler.on_trial_result(controller, controller.trials[0], result)
    assert "budget" not in early["hyperband_info"]
    assert late["hyperband_info"]["budget"] == 1


def test_hyperband_goes_on_when_a_trial_fails(hyperband):
    controller = Controller(hyperband(), 17)
    for number in range(8, 16):
        controller.report(number, t=1, m=number)
    failed = controller.trials[16]
    failed.status = "ERROR"
    controller.scheduler.on_trial_error(controller, failed)
    assert [t.status for t in controller.trials[8:16]].count("TERMINATED") == 5


def test_hyperband_a_second_round(hyperband):
    controller = Controller(hyperband(), 20)
    assert controller.report(17, t=8, m=0) == "CONTINUE"
    assert controller.report(17, t=9, m=0) == "PAUSE"


@pytest.fixture
def median(schedulers):
    def make(**options):
        chosen = {"time_attr": "t", "metric": "m", "mode": "max", **options}
        return schedulers.MedianStoppingRule(**chosen)

    return make


def curves(controller, *scores, times=range(1, 6)):
    for number, score in enumerate(scores):
        for time in times:
            controller.report(number, t=time, m=score)


def test_median_waits_for_the_grace_period(median):
    controller = Controller(median(grace_period=3, min_samples_required=1), 3)
    curves(controller, 10, 10)
    assert controller.report(2, t=1, m=0) == "CONTINUE"
    assert controller.report(2, t=2, m=0) == "CONTINUE"
    assert controller.report(2, t=3, m=0) == "STOP"


def test_median_needs_others(median):
    controller = Controller(median(grace_period=0, min_samples_required=3), 4)
    curves(controller, 10, 10)
    assert controller.report(2, t=1, m=0) == "CONTINUE"
    curves(controller, 10, 10, 10)
    assert controller.report(3, t=1, m=0) == "STOP"


def test_median_looks_at_the_best_score(median):
    controller = Controller(median(grace_period=0, min_samples_required=2), 3)
    curves(controller, 5, 7)
    assert controller.report(2, t=1, m=6) == "CONTINUE"
    assert controller.report(2, t=2, m=0) == "CONTINUE"


def test_median_minimizes(median):
    controller = Controller(median(mode="min", grace_period=0, min_samples_required=2), 3)
    curves(controller, 5, 7)
    assert controller.report(2, t=1, m=6.5) == "STOP"


def test_median_of_running_means(median):
    controller = Controller(median(grace_period=0, min_samples_required=1), 2)
    for time, score in ((1, 0), (2, 10), (3, 20)):
        controller.report(0, t=time, m=score)
    assert controller.report(1, t=2, m=5) == "CONTINUE"
    assert controller.report(1, t=3, m=5) == "STOP"


def test_median_softly(median):
    controller = Controller(median(grace_period=0, min_samples_required=2, hard_stop=False), 3)
    curves(controller, 5, 7)
    assert controller.report(2, t=1, m=0) == "PAUSE"
    assert controller.report(2, t=2, m=0) == "CONTINUE"


def test_median_yields_to_those_that_wait(median):
    controller = Controller(median(grace_period=0, min_time_slice=2), 3, running=1)
    assert controller.report(0, t=1, m=0) == "PAUSE"
    assert controller.report(0, t=2, m=0) == "CONTINUE"
    assert controller.report(0, t=4, m=0) == "PAUSE"


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("space", ["list", "uniform", "function", "int", "nested", "bool"])
def test_pbt_explores_the_same(pbt, tune, space, seed):
    """The same seed makes the same config; here it is worked out by hand."""
    explore = getattr(pbt, "_explore", None) or pbt.explore
    spaces = {
        "list": [1, 2, 3, 4],
        "uniform": tune.uniform(0, 1),
        "function": lambda: 7.0,
        "int": tune.randint(1, 100),
        "nested": {"inner": [1, 2, 3]},
        "bool": tune.choice([True, False]),
    }
    values = {
        "list": 2,
        "uniform": 0.5,
        "function": 2.0,
        "int": 50,
        "nested": {"inner": 1},
        "bool": True,
    }
    random.seed(seed)
    np.random.seed(seed)
    found, _ = explore({"x": values[space], "y": 1}, {"x": spaces[space]}, 0.25, (1.2, 0.8), None)
    assert found["y"] == 1
    assert found["x"] == by_hand(space, values[space], spaces[space], seed)


def by_hand(space, value, choices, seed):
    random.seed(seed)
    np.random.seed(seed)
    resample = random.random() < 0.25
    if space in ("list", "nested"):
        options = choices if space == "list" else choices["inner"]
        value = value if space == "list" else value["inner"]
        if resample:
            new = random.choice(options)
        else:
            index = options.index(value) + random.choice([-1, 1])
            new = options[min(max(index, 0), len(options) - 1)]
        return new if space == "list" else {"inner": new}
    if resample:
        return choices() if space == "function" else choices.sample()
    new = value * random.choice((1.2, 0.8))
    return bool(new) if space == "bool" else round(new) if space == "int" else new


def test_pbt_custom_exploration(pbt):
    explore = getattr(pbt, "_explore", None) or pbt.explore
    new, _ = explore({"x": 1}, {}, 0.0, (1.2, 0.8), lambda config: {**config, "y": 2})
    assert new == {"x": 1, "y": 2}


def make_pbt(schedulers, **options):
    chosen = {
        "time_attr": "t",
        "metric": "m",
        "mode": "max",
        "perturbation_interval": 2,
        "hyperparam_mutations": {"x": [1, 2]},
        "log_config": False,
        **options,
    }
    return schedulers.PopulationBasedTraining(**chosen)


def test_pbt_waits_for_the_interval(schedulers):
    controller = Controller(make_pbt(schedulers), 1)
    assert controller.report(0, t=1, m=1) == "CONTINUE"
    assert controller.report(0, t=2, m=1) == "CONTINUE"


def test_pbt_makes_room_for_waiting_trials(schedulers):
    controller = Controller(make_pbt(schedulers, quantile_fraction=0), 3, running=2)
    assert controller.report(0, t=2, m=1) == "PAUSE"


def test_pbt_runs_first_who_has_trained_least(schedulers):
    controller = Controller(make_pbt(schedulers, quantile_fraction=0), 3)
    for number, time in ((0, 6), (1, 2), (2, 4)):
        controller.report(number, t=time, m=1)
        controller.trials[number].status = "PAUSED"
    assert [controller.resume() for _ in range(3)] == ["t1", "t2", "t0"]


def test_pbt_draws_what_the_config_lacks(schedulers):
    controller = Controller(make_pbt(schedulers), 2)
    assert all(trial.config["x"] in (1, 2) for trial in controller.trials)
    assert all(trial.evaluated_params["x"] in (1, 2) for trial in controller.trials)


@pytest.mark.parametrize("missing", ["m", "t"])
def test_pbt_needs_its_attributes(schedulers, missing):
    result = {name: 2 for name in ("m", "t") if name != missing}
    controller = Controller(make_pbt(schedulers), 1)
    with pytest.raises(RuntimeError):
        controller.report(0, **result)
    controller = Controller(make_pbt(schedulers, require_attrs=False), 1)
    assert controller.report(0, **result) == "CONTINUE"


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"quantile_fraction": 0.6}, ValueError),
        ({"quantile_fraction": -0.1}, ValueError),
        ({"perturbation_interval": 0}, ValueError),
        ({"hyperparam_mutations": {"x": 3}}, TypeError),
        ({"mode": "highest"}, AssertionError),
    ],
)
def test_pbt_refuses(schedulers, options, error):
    with pytest.raises(error):
        make_pbt(schedulers, **options)


def test_pbt_refuses_functions_of_the_config(schedulers, tune):
    with pytest.raises(ValueError):
        make_pbt(schedulers, hyperparam_mutations={"x": tune.sample_from(lambda c: 1)})


def test_pbt_needs_something_to_change(schedulers, tune):
    with pytest.raises(tune.TuneError):
        schedulers.PopulationBasedTraining(metric="m", mode="max")


@pytest.fixture
def policy(tmp_path):
    lines = [
        ["a", "b", 1, 2, {"x": 1}, {"x": 2}],
        ["c", "a", 3, 4, {"x": 2}, {"x": 3}],
        ["c", "a", 5, 6, {"x": 5}, {"x": 6}],
    ]
    path = tmp_path / "pbt_policy_c.txt"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return str(path)


def test_replay_reads_the_chain_of_changes(schedulers, tmp_path):
    lines = [
        ["0", "1", 5, 5, {"x": 10}, {"x": 12}],
        ["2", "0", 10, 10, {"x": 12}, {"x": 14}],
    ]
    path = tmp_path / "policy.txt"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    replay = schedulers.PopulationBasedTrainingReplay(str(path))
    assert replay.config == {"x": 10}
    assert replay._policy == [(5, {"x": 12}), (10, {"x": 14})]


def test_replay_leaves_out_what_was_overwritten(schedulers, policy):
    replay = schedulers.PopulationBasedTrainingReplay(policy)
    assert replay.config == {"x": 5}
    assert replay._policy == [(6, {"x": 6})]


def test_replay_is_for_one_trial(schedulers, policy):
    replay = schedulers.PopulationBasedTrainingReplay(policy)
    trial = Trial(0)
    replay.on_trial_add(None, trial)
    assert trial.config == {"x": 5}
    assert replay.on_trial_result(None, trial, {"training_iteration": 1}) == "CONTINUE"
    with pytest.raises(ValueError):
        replay.on_trial_add(None, Trial(1))


@pytest.mark.parametrize("content", [None, "not json\n"])
def test_replay_refuses_files(schedulers, tmp_path, content):
    path = tmp_path / "policy.txt"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ValueError):
        schedulers.PopulationBasedTrainingReplay(str(path))


@pytest.mark.parametrize(
    ("name", "cls"),
    [
        ("fifo", "FIFOScheduler"),
        ("async_hyperband", "AsyncHyperBandScheduler"),
        ("hb_bohb", "HyperBandForBOHB"),
        ("hyperband", "HyperBandScheduler"),
        ("median_stopping_rule", "MedianStoppingRule"),
    ],
)
def test_schedulers_by_name(tune, schedulers, name, cls):
    made = tune.create_scheduler(name, metric="m", mode="max", unknown=1)
    assert type(made) is getattr(schedulers, cls)


def test_unknown_scheduler(tune):
    with pytest.raises(ValueError):
        tune.create_scheduler("typo")
