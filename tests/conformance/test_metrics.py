"""Counters, gauges and histograms of the program: what they take, and what they refuse."""

from __future__ import annotations

import importlib
import pickle

import pytest


@pytest.fixture
def metrics(ray, cluster):
    return importlib.import_module(f"{ray.__name__}.util.metrics")


def test_what_they_say_of_themselves(metrics):
    counter = metrics.Counter("requests", description="Requests.", tag_keys=("route", "kind"))
    assert counter.set_default_tags({"kind": "get"}) is counter
    assert counter.info == {
        "name": "requests",
        "description": "Requests.",
        "tag_keys": ("route", "kind"),
        "default_tags": {"kind": "get"},
    }
    histogram = metrics.Histogram("latency", boundaries=[0.1, 1.0])
    assert histogram.info["boundaries"] == [0.1, 1.0]
    gauge = metrics.Gauge("depth")
    assert gauge.info["tag_keys"] == ()


def test_values_are_checked(metrics):
    counter = metrics.Counter("checked", tag_keys=("route",))
    counter.inc(2, tags={"route": "/"})
    for wrong in (0, -1):
        with pytest.raises(ValueError, match="value must be >0"):
            counter.inc(wrong, tags={"route": "/"})
    for record in (
        counter.inc,
        metrics.Gauge("g").set,
        metrics.Histogram("h", boundaries=[1]).observe,
    ):
        with pytest.raises(TypeError, match="value must be int or float"):
            record("1")
    assert metrics.Gauge("g").set(None) is None
    with pytest.raises(ValueError, match="Missing value for tag key"):
        counter.inc()
    with pytest.raises(TypeError, match="Tag values must be str"):
        counter.inc(tags={"route": 1})


def test_names_tags_and_boundaries_are_checked(metrics):
    with pytest.raises(ValueError, match="Empty name is not allowed"):
        metrics.Counter("")
    with pytest.warns(UserWarning, match="Invalid metric name"):
        metrics.Counter("not a name").inc()
    with pytest.raises(TypeError, match="tag_keys should be a tuple type"):
        metrics.Counter("c", tag_keys=["route"])
    with pytest.raises(TypeError, match="Tag keys must be str"):
        metrics.Counter("c", tag_keys=(1,))
    with pytest.raises(ValueError, match="Unrecognized tag key"):
        metrics.Counter("c").set_default_tags({"route": "/"})
    with pytest.raises(TypeError, match="Tag values must be str"):
        metrics.Counter("c", tag_keys=("route",)).set_default_tags({"route": 1})
    for wrong in (None, []):
        with pytest.raises(ValueError):
            metrics.Histogram("h", boundaries=wrong)
    with pytest.raises(ValueError, match="Invalid `boundaries` argument at index 0"):
        metrics.Histogram("h", boundaries=[-1.0])


def test_they_travel_to_tasks(ray, metrics):
    counter = metrics.Counter("travels", tag_keys=("route",))

    @ray.remote
    def count():
        counter.inc(tags={"route": "/"})
        return counter.info["name"]

    assert ray.get(count.remote()) == "travels"
    histogram = pickle.loads(pickle.dumps(metrics.Histogram("h", boundaries=[1.0, 2.0])))
    assert histogram.info["boundaries"] == [1.0, 2.0]
