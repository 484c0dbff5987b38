"""The series of programs' metrics in the scheduler: which leave, and what happens when there are too many."""

from __future__ import annotations

import pytest
from _plugin_parts import RecordedDask
from hypothesis import given
from hypothesis import strategies as st

from raycompat._messages.watching import Measured, ProcessEnded
from raycompat._scheduler import metrics
from raycompat._scheduler.job_table import Job
from raycompat._scheduler.watched_parts import WatchedParts

JOB, NODE = "01000000", "tcp://node"


class Cluster:
    """The metrics of a cluster with one open job, a clock that the test moves, and its warnings."""

    def __init__(self, monkeypatch, most=3):
        self.now = 1000.0
        monkeypatch.setattr(metrics, "_MANY_SERIES", most)
        monkeypatch.setattr(metrics.dask_pages, "publish_metrics", lambda collect: None)
        monkeypatch.setattr(metrics.time, "monotonic", lambda: self.now)
        self.dask = RecordedDask([])
        parts = WatchedParts(self.dask)
        self.metrics, self.open = parts.metrics, parts.jobs.open
        self.begin(JOB)
        monkeypatch.setattr(self.metrics, "_of_cluster", lambda *_: iter(()))

    def begin(self, job):
        self.open[job] = Job(job, "driver", "n", {}, None, orphaned=False)

    @property
    def warnings(self):
        told = [message for _, _, message in self.dask.instructions]
        return [(each.job, each.data.decode()) for each in told]

    def gauge(self, process, value, name="depth", job=JOB):
        measured = [[["gauge", name, "", [], []], [], value, []]]
        self.metrics.on_report(NODE, Measured(process, job, measured))

    def counter(self, route, value=1.0, job=JOB, description="Requests.", keys=("route",)):
        about = ["counter", "requests", description, list(keys), []]
        self.metrics.on_report(NODE, Measured("p", job, [[about, [route], value, []]]))

    def families(self):
        return list(self.metrics.collect())

    def values(self):
        return {
            (sample.name, *sample.labels.values()): sample.value
            for family in self.families()
            for sample in family.samples
        }

    def shown(self):
        return {labels[0] for _, *labels in self.values() if labels}

    @property
    def num_dropped(self):
        return self.values()["raycompat_dropped_series_total",]


@pytest.fixture
def cluster(monkeypatch):
    return Cluster(monkeypatch)


@pytest.mark.parametrize("how", ["process", "node"])
def test_the_gauges_of_an_ended_process_leave_two_minutes_after_their_last_report(cluster, how):
    cluster.gauge("a", 1)
    if how == "process":
        cluster.metrics.process_ended(NODE, ProcessEnded("a"))
    else:
        cluster.metrics.lose(NODE)
    cluster.now += 119
    assert cluster.shown() == {"a"}
    cluster.now += 2
    assert cluster.shown() == set()


def test_the_gauges_of_a_living_process_stay(cluster):
    cluster.gauge("a", 1)
    cluster.metrics.lose("tcp://another")
    cluster.now += 1e6
    assert cluster.shown() == {"a"}


def test_a_sum_stays_until_all_its_jobs_have_ended(cluster):
    cluster.begin("02000000")
    cluster.counter("/a")
    cluster.counter("/a", job="02000000")
    cluster.metrics.process_ended(NODE, ProcessEnded("p"))
    del cluster.open[JOB]
    cluster.now += 1000
    assert cluster.values()["ray_requests_total", "/a"] == 2
    del cluster.open["02000000"]
    assert cluster.shown() == set()


def test_ended_series_make_room_for_new_ones_at_once(cluster):
    for process in "abc":
        cluster.gauge(process, 1)
    cluster.metrics.process_ended(NODE, ProcessEnded("b"))
    cluster.now += 1
    cluster.gauge("d", 1)
    assert cluster.shown() == {"a", "c", "d"}
    assert cluster.num_dropped == 0
    assert not cluster.warnings


def test_without_room_new_series_are_dropped_and_each_job_gets_one_warning(cluster):
    cluster.begin("02000000")
    for process in "abcd":
        cluster.gauge(process, 1)
    cluster.gauge("a", 2)
    cluster.counter("/a")
    cluster.counter("/a", job="02000000")
    assert cluster.values()["ray_depth", "a"] == 2
    assert cluster.shown() == {"a", "b", "c"}
    assert cluster.num_dropped == 3
    assert [job for job, _ in cluster.warnings] == [JOB, "02000000"]
    assert "3 series of metrics" in cluster.warnings[0][1]


def test_a_name_is_on_the_page_once(cluster):
    cluster.counter("/a", description="Requests.")
    cluster.counter("/a", description="All requests.")
    cluster.counter("b", keys=("host",))
    (family,) = [each for each in cluster.families() if each.name == "ray_requests"]
    assert [(each.labels, each.value) for each in family.samples] == [
        ({"route": "/a"}, 2.0),
        ({"host": "b"}, 1.0),
    ]


steps = st.one_of(
    st.tuples(st.just("gauge"), st.sampled_from("abcdef")),
    st.tuples(st.just("end"), st.sampled_from("abcdef")),
    st.tuples(st.just("wait"), st.sampled_from([0.5, 1.0, 119.0, 121.0])),
)


@given(st.lists(steps, max_size=60))
def test_there_are_never_too_many_and_a_living_process_keeps_what_it_has(given):
    with pytest.MonkeyPatch.context() as monkeypatch:
        cluster = Cluster(monkeypatch, most=4)
        kept = set()
        for step, what in given:
            if step == "gauge":
                cluster.gauge(what, 1)
                kept |= {what} & {labels[-1] for _, labels in cluster.metrics._series}
            elif step == "end":
                cluster.metrics.process_ended(NODE, ProcessEnded(what))
                kept.discard(what)
            else:
                cluster.now += what
            assert len(cluster.metrics._series) <= 4
            assert kept <= {labels[-1] for _, labels in cluster.metrics._series}
        assert cluster.metrics._processes.keys() <= kept
