"""What the scheduler keeps of experiments: all that was reported, within its bounds."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raycompat._messages.watching import Tracked
from raycompat._protocol import tracked
from raycompat._scheduler import experiments
from raycompat._scheduler.experiments import Curve, Experiments
from raycompat._scheduler.pages import experiments as pages
from raycompat._scheduler.pages.experiments import Axis
from raycompat.util import tracking

JOB = "01000000"


@pytest.fixture
def kept():
    """The table, and a function that adds an experiment."""
    table = Experiments()

    def add(id_, mode="max"):
        enter(table, (tracked.EXPERIMENT, id_, id_, "test", "score", mode, JOB))
        return table.all[id_]

    return SimpleNamespace(table=table, add=add)


def enter(table, *records):
    table.on_report("client", Tracked([list(record) for record in records]))


def report(table, id_, trial, step, **figures):
    enter(table, (tracked.FIGURES, id_, trial, step, figures, 100.0 + step))


def test_trials_are_ordered_by_the_figure_and_the_mode(kept):
    smallest = kept.add("a", mode="min")
    for trial, score in (("x", 3.0), ("y", 1.0), ("z", 2.0)):
        report(kept.table, "a", trial, 1, score=score)
    enter(kept.table, (tracked.TRIAL, "a", "without", "PENDING", {"lr": 0.1}, ""))
    assert [trial.name for trial in smallest.best("score")] == ["y", "z", "x"]
    assert smallest.trials["without"].parameters == {"lr": 0.1}
    assert smallest.version == 4


@pytest.mark.parametrize(("mode", "expected"), [("min", "ywxz"), ("max", "xwyz")])
def test_trials_whose_figure_is_nan_are_last(kept, mode, expected):
    experiment = kept.add("a", mode)
    for trial, score in zip("xzyw", (3.0, math.nan, 1.0, 2.0), strict=True):
        report(kept.table, "a", trial, 1, score=score)
    enter(kept.table, (tracked.TRIAL, "a", "without", "PENDING", {}, ""))
    assert "".join(trial.name for trial in experiment.best("score")) == expected
    page = pages.Experiments(SimpleNamespace(experiments=kept.table))
    page.update()
    rows = page._rows()
    assert [row["name"] for row in rows] == [*expected, "without"]
    assert [row["best"] for row in rows] == ["\u2605", "", "", "", ""]


def test_a_trial_whose_figure_is_nan_is_not_the_best(kept):
    kept.add("a")
    report(kept.table, "a", "x", 1, score=math.nan)
    page = pages.Experiments(SimpleNamespace(experiments=kept.table))
    page.update()
    assert [row["best"] for row in page._rows()] == [""]


def test_an_axis_has_no_height_for_nan():
    axis = Axis("loss", [math.nan, 1.0, 3.0])
    assert math.isnan(axis.heights[0]) and axis.heights[1:] == [0.0, 1.0]
    assert [text for _, text in axis.marks] == ["1", "3"]


def test_a_job_that_ends_ends_its_experiments(kept):
    experiment = kept.add("a")
    report(kept.table, "a", "runs", 1, score=1.0)
    enter(kept.table, (tracked.TRIAL, "a", "done", "TERMINATED", None, ""))
    kept.table.job_ended("another")
    assert not experiment.has_ended
    kept.table.job_ended(JOB)
    assert experiment.has_ended
    states = {name: trial.state for name, trial in experiment.trials.items()}
    assert states == {"runs": "STOPPED", "done": "TERMINATED"}


@given(st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=2_000))
def test_a_curve_is_thinned_evenly(values):
    curve = Curve()
    for step, value in enumerate(values):
        curve.add(step, value)
    assert 1 <= len(curve.steps) <= 200
    assert [values[int(step)] for step in curve.steps] == list(curve.values)
    gaps = {b - a for a, b in zip(curve.steps, curve.steps[1:], strict=False)}
    assert len(gaps) <= 1
    assert curve.steps[0] == 0


def test_all_tables_are_bounded(kept, monkeypatch):
    monkeypatch.setattr(experiments, "_MANY_EXPERIMENTS", 3)
    monkeypatch.setattr(experiments, "_MANY_TRIALS", 10)
    monkeypatch.setattr(experiments, "_MANY_WITH_CURVES", 4)
    monkeypatch.setattr(experiments, "_MANY_FIGURES", 5)
    for number in range(6):
        kept.add(f"exp {number}")
        if number == 4:
            enter(kept.table, (tracked.END, "exp 4"))
    assert list(kept.table.all) == ["exp 2", "exp 3", "exp 5"]  # that which has ended goes first
    last = kept.table.all["exp 5"]
    for number in range(20):
        report(
            kept.table, "exp 5", f"trial {number}", 1, **{f"f{i}": 1.0 for i in range(9)}, score=2
        )
    assert len(last.trials) == 10
    with_curves = [trial.name for trial in last.trials.values() if trial.curves]
    assert with_curves == ["trial 6", "trial 7", "trial 8", "trial 9"]
    assert list(last.trials["trial 9"].figures) == ["f0", "f1", "f2", "f3", "f4", "score"]
    kept.add("next")
    assert list(kept.table.all) == ["next"]  # the table was full
    report(kept.table, "exp 5", "late", 1, score=1.0)
    assert list(kept.table.all) == ["next"]


def test_what_cannot_be_drawn_is_left_out():
    experiment = tracking.Experiment("nowhere")  # there is no session
    notes = []
    experiment._note = lambda *record: notes.append(record)
    experiment.report(
        "a", 1, {"x": 1, "nan": math.nan, "text": "no", "flag": True, "inf": math.inf}
    )
    experiment.trial("a", "RUNNING", {"lr": 0.1, "layers": [1, 2], "long": "x" * 100, "flag": True})
    assert notes[0][3] == {"x": 1.0}
    assert notes[1][3] == {"lr": 0.1, "layers": "[1, 2]", "long": "x" * 60, "flag": "True"}
    with pytest.raises(ValueError, match="state='DONE': expected one of PENDING"):
        experiment.trial("a", "DONE")
    with pytest.raises(ValueError, match="mode='best': expected 'max' or 'min'"):
        tracking.Experiment("x", mode="best")


def test_an_axis_has_numbers_between_their_extremes_and_names_in_a_row():
    numbers = Axis("lr", [0.1, 0.3, None, 0.2])
    assert numbers.heights[:2] == [0.0, 1.0]
    assert math.isnan(numbers.heights[2])
    assert numbers.heights[3] == pytest.approx(0.5)
    assert [text for _, text in numbers.marks] == ["0.1", "0.3"]
    assert Axis("lr", [1e-4, 1e-2, 1e-3]).heights == pytest.approx([0.0, 1.0, 0.5])
    assert Axis("loss", [0.0, 100.0, 50.0]).heights == [0.0, 1.0, 0.5]
    names = Axis("activation", ["tanh", "relu", "tanh"])
    assert names.heights == [1.0, 0.0, 1.0]
    assert names.differs
    assert not Axis("same", [1, 1]).differs


def test_a_tracker_sends_once_and_drops_only_figures_that_are_too_many(monkeypatch):
    monkeypatch.setattr(tracked, "_MANY_RECORDS", 3)
    sent, timers = [], []
    tracker = tracked.Tracker(sent.append, lambda seconds, flush: timers.append(flush))
    for number in range(5):
        tracker.note(tracked.FIGURES, "a", "trial", number, {}, 0.0)
    tracker.note(tracked.TRIAL, "a", "trial", "TERMINATED", None, "")
    (flush,) = timers
    flush()
    flush()
    (records,) = sent
    assert [record[0] for record in records] == [tracked.FIGURES] * 3 + [tracked.TRIAL]
