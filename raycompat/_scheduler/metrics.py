"""Metrics at Dask's Prometheus endpoint ``/metrics``: those of programs, and those of the cluster."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from raycompat._dask import pages as dask_pages
from raycompat._messages.watching import Measured, ProcessEnded
from raycompat._protocol.measurements import About, about_from_wire
from raycompat._protocol.resource_set import UNITS_PER_ONE
from raycompat._scheduler import stores

if TYPE_CHECKING:
    from raycompat._scheduler.parts import Parts

logger = logging.getLogger(__name__)

#: The most series of programs' metrics: one for each metric and its tags, and for gauges one for each
#: process.
_MANY_SERIES = 10_000

#: Seconds for which a series stays after its last report when its process or jobs have ended: twice
#: Prometheus's default period, so that the last values of a short program are read.
_KEPT_S = 120.0

#: Seconds between two searches for series that may leave, while there is no room for new ones.
_SEARCH_S = 1.0

#: The tag with the process that has set a gauge.
_PROCESS_TAG = "WorkerId"

#: States that have a figure also when no actor is in them.
_STATES_OF_ACTORS = ("PENDING", "ALIVE", "RESTARTING", "DEAD")


@dataclass(slots=True)
class _Series:
    """The value, or the sum and the buckets, of one metric with one set of tags."""

    buckets: list[int]
    value: float = 0.0
    #: The process that has set a gauge; empty for a sum, which belongs to the jobs that added to it.
    process: str = ""
    jobs: set[str] = field(default_factory=set)
    #: The last report, by the monotonic clock.
    reported: float = 0.0


class Metrics:
    """The values of programs' metrics, and their publication.

    A gauge leaves when its process has ended, and a counter or histogram when all its jobs have: two
    minutes after the last report, or earlier if another series needs the room. When there is no room,
    new series are dropped and counted, and each job gets one warning.
    """

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._series: dict[tuple[About, tuple[str, ...]], _Series] = {}
        #: The living processes with gauges, and the node or client of each.
        self._processes: dict[str, str] = {}
        self._num_dropped = 0
        #: The jobs that were warned of dropped series.
        self._warned: set[str] = set()
        self._searched = 0.0
        self._collector = dask_pages.publish_metrics(self.collect)

    def close(self) -> None:
        """Stop publishing."""
        dask_pages.withdraw_metrics(self._collector)

    def on_report(self, sender: str, message: Measured) -> None:
        """Record values from a driver or from a process of a node."""
        self._enter(sender, message.process, message.job, message.measured)

    def process_ended(self, worker: str, message: ProcessEnded) -> None:
        """Handle a node's report that a process which recorded values has ended."""
        self._processes.pop(message.process, None)

    def lose(self, source: str) -> None:
        """Record that the processes of a node or client that has left have ended."""
        for process in [each for each, of in self._processes.items() if of == source]:
            del self._processes[process]

    def _enter(self, source: str, process: str, job: str, measured: list[tuple[Any, ...]]) -> None:
        now = time.monotonic()
        for wire, tags, value, buckets in measured:
            about = about_from_wire(wire)
            is_gauge = about.kind == "gauge"
            labels = (*tags, process) if is_gauge else tuple(tags)
            series = self._series.get((about, labels))
            if series is None:
                if not self._has_room(now):
                    self._note_dropped(job)
                    continue
                series = self._series[about, labels] = _Series([0] * len(buckets))
            series.reported = now
            if is_gauge:
                self._processes[process] = source
                series.process, series.value = process, value
            else:
                series.jobs.add(job)
                series.value += value
                series.buckets = [a + b for a, b in zip(series.buckets, buckets, strict=True)]

    def _has_room(self, now: float) -> bool:
        if len(self._series) >= _MANY_SERIES and now - self._searched >= _SEARCH_S:
            self._searched = now
            self._remove_ended(now)
        return len(self._series) < _MANY_SERIES

    def _remove_ended(self, reported_before: float) -> None:
        """Remove series that no living process and no open job can change any more."""
        open_jobs = self._parts.jobs.open
        for key, series in list(self._series.items()):
            if series.process:
                is_over = series.process not in self._processes
            else:
                series.jobs &= open_jobs.keys()
                is_over = not series.jobs
            if is_over and series.reported < reported_before:
                del self._series[key]
        self._warned &= open_jobs.keys()

    def _note_dropped(self, job: str) -> None:
        self._num_dropped += 1
        if job not in self._warned:
            self._warned.add(job)
            line = (
                f"raycompat: the cluster has {_MANY_SERIES} series of metrics, so new series are "
                "dropped (raycompat_dropped_series at /metrics counts them). A series is one metric "
                "with one set of tag values, and for gauges one process. Use tags with fewer values."
            )
            logger.warning("%s (job %s)", line, job)
            self._parts.logs.tell(job, line)

    def collect(self) -> Iterator[Any]:
        """Iterate over all metrics, as families of prometheus_client."""
        from prometheus_client.core import (
            CounterMetricFamily,
            GaugeMetricFamily,
            HistogramMetricFamily,
        )

        self._remove_ended(time.monotonic() - _KEPT_S)
        families: dict[About, Any] = {}
        for (about, labels), series in self._series.items():
            value = series.value
            family = families.get(about)
            name, text = f"ray_{about.name}", about.description
            if about.kind == "counter":
                family = family or CounterMetricFamily(name, text, labels=about.tag_keys)
                family.add_metric(labels, value)
            elif about.kind == "gauge":
                keys = (*about.tag_keys, _PROCESS_TAG)
                family = family or GaugeMetricFamily(name, text, labels=keys)
                family.add_metric(labels, value)
            else:
                family = family or HistogramMetricFamily(name, text, labels=about.tag_keys)
                family.add_metric(labels, list(_cumulated(about, series.buckets)), value)
            families[about] = family
        yield from _merged(families)
        dropped = "Series of the program's metrics that were dropped, because there were too many."
        yield CounterMetricFamily("raycompat_dropped_series", dropped, value=self._num_dropped)
        yield from self._of_cluster(GaugeMetricFamily, CounterMetricFamily)

    def _of_cluster(self, gauge: Any, counter: Any) -> Iterator[object]:
        ended = counter("ray_finished_tasks", "Tasks that have ended.", labels=("Name", "State"))
        for name, function in self._parts.history.functions.items():
            ended.add_metric((name, "FINISHED"), function.num_done)
            ended.add_metric((name, "FAILED"), function.num_failed)
        yield ended
        actors = gauge("ray_actors", "Actors by state.", labels=("State",))
        counts = Counter(dict.fromkeys(_STATES_OF_ACTORS, 0))
        counts.update(row.state for row in self._parts.actors.rows.values())
        for state, count in counts.items():
            actors.add_metric((state,), count)
        yield actors
        # By the node's id too: a host may have several nodes, which have one address.
        place = ("NodeAddress", "NodeId")
        resources = gauge(
            "ray_resources", "Resources of each node.", labels=("Name", "State", *place)
        )
        ledger = self._parts.ground.ledger
        self._parts.surveys.refresh()
        about = self._parts.ground, self._parts.surveys.own
        bytes_of, free_of = stores.stored(*about), stores.available(*about)
        for address, info in self._parts.nodes.info.items():
            free = free_of[address]
            for name, units in ledger.node_total(address).items():
                available = free.get(name)
                for state, amount in (("AVAILABLE", available), ("USED", units - available)):
                    labels = (name, state, info["ip"], info["node_id"])
                    resources.add_metric(labels, amount / UNITS_PER_ONE)
        yield resources
        stored = gauge("ray_object_store_memory", "Bytes of objects.", labels=("Location", *place))
        for address, info in self._parts.nodes.info.items():
            memory, disk = bytes_of[address]
            for location, size in (("MMAP_SHM", memory), ("SPILLED", disk)):
                stored.add_metric((location, info["ip"], info["node_id"]), size)
        yield stored
        yield from self._of_gpus(gauge)

    def _of_gpus(self, gauge: Any) -> Iterator[object]:
        """Iterate over what nodes with NVML report of their GPUs; the names are Ray's."""
        labels = ("ip", "NodeId", "GpuIndex")
        busy = gauge("ray_node_gpus_utilization", "Use of each GPU, 0 to 100.", labels=labels)
        used = gauge("ray_node_gram_used", "Memory of each GPU in use, in MB.", labels=labels)
        free = gauge("ray_node_gram_available", "Free memory of each GPU, in MB.", labels=labels)
        warm = gauge("ray_node_gpu_temperature_celsius", "Temperature of each GPU.", labels=labels)
        held = gauge(
            "ray_component_gpu_memory_mb", "Memory of a GPU by process.", labels=(*labels, "pid")
        )
        for info in map(self._parts.ground.nodes.current, self._parts.nodes.info):
            for each in info.get("gpus", ()):
                place = (info["ip"], info["node_id"], str(each["index"]))
                if each["utilisation"] is not None:
                    busy.add_metric(place, each["utilisation"])
                if each["memory_used"] is not None:
                    used.add_metric(place, each["memory_used"] / 2**20)
                    free.add_metric(place, (each["memory_total"] - each["memory_used"]) / 2**20)
                if each["temperature"] is not None:
                    warm.add_metric(place, each["temperature"])
                for pid, size in each["processes"]:
                    if size is not None:
                        held.add_metric((*place, str(pid)), size / 2**20)
        yield from (busy, used, free, warm, held)


def _merged(families: dict[About, Any]) -> Iterator[Any]:
    """Merge the families of one name and kind, whose tags differ: a page describes a name once."""
    by_name: dict[tuple[str, str], Any] = {}
    for about, family in families.items():
        first = by_name.setdefault((about.kind, about.name), family)
        if first is not family:
            first.samples.extend(family.samples)
    yield from by_name.values()


def _cumulated(about: About, buckets: list[int]) -> Iterator[tuple[str, float]]:
    total = 0
    bounds = [*map(str, about.boundaries), "+Inf"]
    for bound, count in zip(bounds, buckets, strict=True):
        total += count
        yield bound, total
