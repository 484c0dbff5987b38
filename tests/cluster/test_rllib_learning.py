"""Algorithms learn CartPole-v1 within their steps, for several seeds. A long test."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", ["PPO", "ES"])
def test_cart_pole_is_learned(name, seed, monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    learning = importlib.import_module("learning")
    task = learning.tasks()[name]
    points = learning.curve(task, seed)
    assert max(value for _, value in points) >= task.target
