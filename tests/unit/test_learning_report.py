"""The table and the picture of learning curves, from curves of a few points."""

from __future__ import annotations

import importlib
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
MEASURED = {
    "PPO": {
        "environment": "CartPole-v1",
        "num_steps": 1000,
        "target": 475,
        "first_seed": 0,
        "curves": [
            [[100, 20.0], [600, 480.0], [1000, 500.0]],
            [[100, 30.0], [800, 475.0], [1000, 400.0]],
            [[100, 10.0], [900, 470.0], [1001, 490.0]],
        ],
    }
}


@pytest.fixture
def report(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module("learning_report")


def test_a_target_counts_within_the_steps_of_the_task(report):
    # The third seed reaches it after 1,001 steps.
    assert report.rows(MEASURED) == [
        ["PPO", "CartPole-v1", "1,000", "475", "2 / 3", "700 (800)", "490 (400)"]
    ]


def test_a_task_whose_target_no_seed_reaches_has_no_steps(report):
    never = {"PPO-Pendulum": {**MEASURED["PPO"], "environment": "Pendulum-v1", "target": 600}}
    assert report.rows(never)[0][4:6] == ["0 / 3", "–"]


def test_the_band_goes_from_the_smallest_to_the_largest(report):
    drawn = ET.fromstring(report.picture(MEASURED, report.WORDS[""]))
    svg = "{http://www.w3.org/2000/svg}"
    band = [
        tuple(map(float, point.split(",")))
        for point in next(drawn.iter(f"{svg}polygon")).attrib["points"].split()
    ]
    upper, lower = band[: len(band) // 2], band[: len(band) // 2 - 1 : -1]
    assert len(upper) == len(lower) == report.NUM_PLACES
    assert all(u[0] == w[0] and u[1] <= w[1] for u, w in zip(upper, lower, strict=True))
    # At the first place the returns are 10 to 30 of 500, at the last 400 to 500.
    heights = [report.PANEL_HEIGHT * part / 500 for part in (30, 10, 500, 400)]
    places = [upper[0][1], lower[0][1], upper[-1][1], lower[-1][1]]
    expected = [report.TOP + report.PANEL_HEIGHT - height for height in heights]
    assert places == pytest.approx(expected, abs=0.06)


def test_the_words_of_a_picture_are_those_of_its_language(report):
    titles = [
        report.picture(MEASURED, words).count(words["title"]) for words in report.WORDS.values()
    ]
    assert titles == [2, 2]
