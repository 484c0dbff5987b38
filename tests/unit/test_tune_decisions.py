"""The pure parts of Tune: HyperBand's table, percentiles, quantiles, bookkeeping."""

from __future__ import annotations

import math
import threading
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raycompat.tune.callback import Callback, CallbackList
from raycompat.tune.config import ResumeConfig
from raycompat.tune.execution.ledger import Ledger
from raycompat.tune.execution.placement_groups import (
    PlacementGroupFactory,
    resource_dict_to_pg_factory,
)
from raycompat.tune.execution.restore import resume_config_of
from raycompat.tune.logger.files import cut_torn_line
from raycompat.tune.schedulers import hyperband
from raycompat.tune.schedulers.async_hyperband import Bracket, percentile
from raycompat.tune.schedulers.hyperband import bracket_sizes, halvings
from raycompat.tune.schedulers.median_stopping_rule import Curve, MedianStoppingRule
from raycompat.tune.schedulers.pbt import quantile_sizes
from raycompat.tune.trainable.nested import flatten_dict, merge_dicts, unflatten_dict
from raycompat.tune.trainable.session import FunctionSession, report

numbers = st.floats(-1e6, 1e6, allow_nan=False)


@given(st.lists(numbers, min_size=1, max_size=60), st.sampled_from([0.5, 2 / 3, 0.75, 0.9]))
@settings(max_examples=50, deadline=None)
def test_percentiles_are_those_of_numpy(values, fraction):
    assert percentile(sorted(values), fraction) == np.nanquantile(values, fraction)


def test_the_brackets_of_the_paper():
    """JMLR 18, table 1: R = 81, eta = 3; from s = 0 to s = 4."""
    assert bracket_sizes(81, 3) == [(5, 81), (8, 27), (15, 9), (34, 3), (81, 1)]


@pytest.mark.parametrize(
    ("s", "rounds"),
    [
        (4, [(81, 1), (27, 3), (9, 9), (3, 27), (1, 81)]),
        (3, [(34, 3), (12, 9), (4, 27), (2, 81)]),  # the paper rounds down: 11, 3, 1
        (2, [(15, 9), (5, 27), (2, 81)]),
        (1, [(8, 27), (3, 81)]),
        (0, [(5, 81)]),
    ],
)
def test_the_rounds_of_a_bracket(s, rounds):
    size, first = bracket_sizes(81, 3)[s]
    assert halvings(size, first, s, 3, 81) == rounds


@pytest.mark.parametrize(
    ("arguments", "milestones"),
    [
        ((1, 81, 3, 0), [81, 27, 9, 3, 1]),
        ((1, 81, 3, 1), [81, 27, 9, 3]),
        ((4, 100, 4, 0), [64, 16, 4]),
    ],
)
def test_the_rungs_of_asha(arguments, milestones):
    assert [rung.milestone for rung in Bracket(*arguments).rungs] == milestones


@pytest.mark.parametrize(
    ("count", "fraction", "size"),
    [(1, 0.25, 0), (2, 0.25, 1), (4, 0.25, 1), (5, 0.25, 2), (3, 0.5, 1), (8, 0.5, 4), (9, 0, 0)],
)
def test_the_best_and_the_worst_of_a_population(count, fraction, size):
    assert quantile_sizes(count, fraction) == size


@given(
    st.lists(st.tuples(st.integers(0, 20), numbers), min_size=1, max_size=30), st.integers(0, 20)
)
@settings(max_examples=25, deadline=None)
def test_running_means(points, time):
    points = sorted(points, key=lambda point: point[0])
    curve = Curve(grace_period=2)
    for each in points:
        curve.append(*each)
    within = [score for at, score in points if 2 <= at <= time]
    found = curve.running_mean(time)
    assert np.isnan(found) if not within else found == pytest.approx(np.mean(within), abs=1e-6)


def test_scores_that_are_no_numbers_are_not_in_the_median():
    rule = MedianStoppingRule("step", "score", "max", grace_period=1, min_samples_required=1)
    nobody_waits = SimpleNamespace(get_live_trials=list)
    scores = {"first": math.nan, "second": 5.0, "third": math.nan, "fourth": 6.0, "fifth": 4.0}
    decisions = {
        trial: rule.on_trial_result(nobody_waits, trial, {"step": 1, "score": score})
        for trial, score in scores.items()
    }
    assert [trial for trial, decision in decisions.items() if decision == "STOP"] == [
        "third",
        "fifth",
    ]


@given(st.permutations([math.nan, math.nan, 1.0, 2.0, 3.0]))
@settings(max_examples=25, deadline=None)
def test_trials_without_a_number_leave_a_bracket_first(scores):
    race = hyperband.Bracket("step", [(5, 1), (2, 2)], stop_last_trials=True)
    race.results = {index: {"step": 1, "score": score} for index, score in enumerate(scores)}
    stay, stop = race.halve(lambda result: result["score"])
    assert sorted(scores[index] for index in stay) == [2.0, 3.0]
    assert len(stop) == 3


names = st.text("abc", min_size=1, max_size=3)
inner = st.dictionaries(names, st.integers(), min_size=1, max_size=3)


@given(st.dictionaries(names, st.integers() | inner, max_size=4))
@settings(max_examples=25, deadline=None)
def test_flat_and_nested(value):
    assert unflatten_dict(flatten_dict(value)) == value


def test_merged_dicts_are_new():
    first = {"a": {"b": 1}, "c": 2}
    assert merge_dicts(first, {"a": {"d": 3}}) == {"a": {"b": 1, "d": 3}, "c": 2}
    assert first == {"a": {"b": 1}, "c": 2}


def test_the_ledger_counts_fractions():
    ledger = Ledger(lambda: {"CPU": 1, "GPU": 1})
    tenth = PlacementGroupFactory([{"CPU": 0.1}])
    for _ in range(10):
        assert ledger.fits(tenth)
        ledger.take(tenth)
    assert not ledger.fits(tenth)
    ledger.give_back(tenth)
    assert ledger.fits(tenth)
    assert not ledger.can_ever_fit(PlacementGroupFactory([{"CPU": 1}, {"CPU": 1}]))


def test_resources_of_2018():
    assert resource_dict_to_pg_factory({"cpu": 1, "gpu": 0.5}).bundles == [{"CPU": 1, "GPU": 0.5}]
    found = resource_dict_to_pg_factory({"cpu": 1, "extra_cpu": 2})
    assert found.bundles == [{"CPU": 1}, {"CPU": 2}]
    assert resource_dict_to_pg_factory(None).bundles == [{"CPU": 1}]
    assert resource_dict_to_pg_factory({"cpu": 1, "custom": 3}).required_resources["custom"] == 3
    with pytest.raises(ValueError, match="cpu='two'"):
        resource_dict_to_pg_factory({"cpu": "two"})


def test_a_torn_line_is_cut(tmp_path):
    path = tmp_path / "result.json"
    path.write_bytes(b'{"a": 1}\n{"a"')
    cut_torn_line(path)
    assert path.read_bytes() == b'{"a": 1}\n'
    cut_torn_line(path)
    assert path.read_bytes() == b'{"a": 1}\n'
    path.write_bytes(b"torn")
    cut_torn_line(path)
    assert path.read_bytes() == b""
    cut_torn_line(tmp_path / "missing")


def test_what_resume_means():
    types = ResumeConfig.ResumeType
    assert resume_config_of(None) is None
    assert resume_config_of(True) == ResumeConfig()
    assert resume_config_of("AUTO+ERRORED").errored is types.RESUME
    assert resume_config_of("ERRORED_ONLY").unfinished is types.SKIP
    assert resume_config_of("LOCAL+RESTART_ERRORED").errored is types.RESTART
    with pytest.raises(ValueError, match="typo"):
        resume_config_of("typo")


@pytest.fixture
def session():
    made = []

    def make(function):
        made.append(FunctionSession(function, None))
        return made[-1]

    yield make
    for each in made:
        assert each.stop(5)


def test_a_function_moves_only_when_asked(session):
    steps = []

    def train():
        for step in range(2):
            steps.append(step)
            report({"step": step})

    running = session(train)
    assert steps == []
    assert running.next_result()["step"] == 0
    assert steps == [0]
    assert running.next_result()["step"] == 1
    assert running.next_result() == {"__duplicate__": True}


def test_a_stopped_function_ends_in_its_report(session):
    ended = threading.Event()

    def train():
        try:
            while True:
                report({"step": 1})
        finally:
            ended.set()

    running = session(train)
    running.next_result()
    assert running.stop(5)
    assert ended.is_set()


def test_errors_of_a_function_are_raised(session):
    def train():
        raise KeyError("x")

    with pytest.raises(KeyError):
        session(train).next_result()


def test_a_function_may_end_while_a_thread_of_it_reports():
    taken = threading.Event()

    def train():
        threading.Thread(target=lambda: report({"score": 1}), daemon=True).start()
        taken.wait()

    trial = FunctionSession(train, None)
    assert trial.next_result()["score"] == 1
    taken.set()
    trial._thread.join()
    assert "score" not in trial.next_result()


@pytest.mark.parametrize("stored", [[None, {"seen": 3}], {1: {"seen": 3}}])
def test_callbacks_take_their_states_as_a_list_and_by_position(stored):
    class Counts(Callback):
        state = None

        def set_state(self, state):
            self.state = state

    first, second = Counts(), Counts()
    CallbackList([first, second]).set_state(stored)
    assert first.state is None
    assert second.state == {"seen": 3}
