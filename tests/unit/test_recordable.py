"""Metrics of any kind: every writer records them, and none raises."""

from __future__ import annotations

import csv
import json
import logging
import math
import types
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from raycompat import _recordable
from raycompat._recordable import as_json_text, as_number, as_text, recordable
from raycompat._storage import Folder
from raycompat.train._progress import shown
from raycompat.train._run_state import METRICS_FILE, RunState
from raycompat.tune.logger.dashboard import DashboardCallback
from raycompat.tune.logger.files import CSVLoggerCallback, JsonLoggerCallback
from raycompat.tune.logger.tensorboardx import TBXLoggerCallback
from raycompat.tune.progress_reporter import _cell
from raycompat.tune.trainable.nested import flatten_dict
from raycompat.util import tracking


def raising(*names: str, base: type = object) -> type:
    """Return a class whose methods of these names raise."""

    def fail(self, *_):
        raise ZeroDivisionError("in user code")

    return type("Odd", (base,), {"__hash__": object.__hash__, **dict.fromkeys(names, fail)})


ITSELF: dict = {}
ITSELF["itself"] = [ITSELF]
LIST: list = []
LIST.append(LIST)
DEEP: dict = {}
for _ in range(3000):
    DEEP = {"below": DEEP}

ODD = [
    10**400,
    -(10**5000),
    ITSELF,
    LIST,
    DEEP,
    raising("__repr__")(),
    raising("__str__", "__format__")(),
    raising("__float__", base=float)(1.0),
    raising("__str__", "__repr__", base=int)(1),
    raising("__getattr__")(),
    raising("__bool__", "__eq__")(),
    raising("items", "__iter__", "__len__", base=dict)(a=1),
    types.SimpleNamespace(size=1, item=lambda: 1 / 0),
    {raising("__str__", "__repr__")(): 1, (1, 2): 2, None: 3, "\ud800": 4, 5: {}},
    np.array([raising("__repr__")()], dtype=object),
    math.nan,
    math.inf,
    1j,
    b"\xff\0",
    "x" * 100_000,
    "<script>alert(1)</script>",
    "\ud800 a\0b\r\n",
    np.float32(1),
    np.uint64(2**64 - 1),
    np.arange(3),
    np.array([2.0]),
    np.array(["a"]),
    np.array([]),
    np.datetime64("2020-01-01"),
    np.timedelta64(3, "s"),
    np.complex128(1j),
    Decimal("1e999"),
    Fraction(10**400, 3),
    {1, 2},
    lambda: 1,
    int,
]

values = st.recursive(
    st.sampled_from(range(len(ODD))).map(lambda which: ODD[which])
    | st.floats()
    | st.text(st.characters(exclude_categories=()))
    | st.integers(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


class Trial:
    """What writers read of a trial."""

    trial_id = "0"

    def __init__(self, path, config) -> None:
        self.folder = Folder(path)
        self.path = str(path)
        self.evaluated_params = config
        self.config = recordable(config)  # others cannot be sent to a trial


@pytest.fixture
def sent(monkeypatch):
    """What experiments send to the dashboard, encoded as messages."""
    notes = []
    monkeypatch.setattr(tracking.Experiment, "_note", lambda self, *note: notes.append(note))
    return notes


@settings(deadline=None, max_examples=30, suppress_health_check=list(HealthCheck))
@given(st.dictionaries(st.text(st.characters(exclude_categories=())), values, max_size=3))
def test_no_writer_raises(tmp_path_factory, sent, metrics):
    check_writers(tmp_path_factory.mktemp("trial"), sent, metrics)


@pytest.mark.parametrize("which", range(len(ODD)))
def test_no_writer_raises_for_a_value(tmp_path, sent, which):
    check_writers(tmp_path, sent, {"metric": ODD[which]})


def check_writers(folder, sent, metrics) -> None:
    trial = Trial(folder, metrics)
    result = {**metrics, "training_iteration": 1, "config": metrics}
    dashboard = DashboardCallback("name", None, None)
    for writer in (JsonLoggerCallback(), CSVLoggerCallback(), TBXLoggerCallback(), dashboard):
        writer.log_trial_start(trial)
        for _ in range(2):
            writer.log_trial_result(1, trial, result)
        writer.log_trial_end(trial)
    for line in (folder / "result.json").read_text().splitlines():
        assert json.loads(line)["training_iteration"] == 1
    with (folder / "progress.csv").open(newline="") as file:
        assert len(list(csv.reader(line.replace("\0", "") for line in file))) == 3
    state = RunState(Folder(folder), None)
    state.add_report(result, None)
    json.loads((folder / METRICS_FILE).read_text())
    plain = recordable(result)
    shown(plain)
    for value in flatten_dict(plain).values():
        _cell(value, 20)
    for note in sent:
        repr(note)
        assert not any(isinstance(each, int) and abs(each) >= 2**63 for each in note)
    sent.clear()


@pytest.mark.parametrize(
    ("value", "recorded"),
    [
        (10**400, str(10**400)),
        (10**5000, f"an integer of {(10**5000).bit_length()} bits"),
        (ITSELF, {"itself": ["..."]}),
        (LIST, ["..."]),
        (raising("__repr__", "__str__")(), "<Odd object: ZeroDivisionError: in user code>"),
        (raising("__float__", base=float)(1.5), "1.5"),
        (raising("items", "__iter__", base=dict)(a=1), {"a": 1}),
        ({(1, 2): 3}, {"(1, 2)": 3}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_recorded(value, recorded):
    assert recordable({"metric": value}) == {"metric": recorded}


def test_ordinary_values_stay_what_they_are():
    array, text = np.arange(3), "text"
    metrics = {"a": 1, "b": {"c": array, "d": (1.5, None)}, "e": np.float32(1), "f": text, 5: True}
    found = recordable(metrics)
    assert found["b"]["c"] is array
    assert found["f"] is text
    assert type(found["e"]) is np.float32
    assert list(found) == list(metrics)
    assert found["b"]["d"] == (1.5, None)


def test_a_metric_is_named_once(caplog):
    _recordable._warned.clear()
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            recordable({"good": 1, "group": {"bad": 10**400}}, "tune.report")
    assert caplog.messages == [
        "tune.report: the metric 'group/bad' is recorded as text: it is larger than any float."
    ]


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (1, 1.0),
        (True, 1.0),
        (np.float32(0.5), 0.5),
        (np.array([2.0]), 2.0),
        (Fraction(1, 2), 0.5),
        (np.array([1, 2]), None),
        (np.array(["a"]), None),
        (np.datetime64("2020-01-01"), None),
        ("1", None),
        (1j, None),
        (10**400, None),
        (raising("__float__", base=float)(1.0), None),
    ],
    ids=lambda value: type(value).__name__,
)
def test_numbers(value, number):
    assert as_number(value) == number


def test_json_of_what_json_lacks():
    given = {"a": np.float32(0.5), "b": np.arange(2), "c": np.datetime64("2020-01-01"), "d": {1}}
    assert json.loads(as_json_text(given)) == {"a": 0.5, "b": [0, 1], "c": "2020-01-01", "d": "{1}"}
    assert as_text(raising("__str__")()) == "<Odd object: ZeroDivisionError: in user code>"
