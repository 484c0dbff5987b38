"""Metrics at Dask's Prometheus endpoint ``/metrics``: those of programs, and those of the cluster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from raycompat import _dask_adapter as adapter
from raycompat._protocol.measurements import About, about_from_wire
from raycompat._protocol.resource_set import UNITS_PER_ONE

if TYPE_CHECKING:
    from raycompat._scheduler.parts import Parts

#: The most series of programs' metrics: one for each metric and its tags, and for gauges one for each
#: process.
_MANY_SERIES = 10_000

#: The tag with the process that has set a gauge.
_PROCESS_TAG = "WorkerId"

#: States that have a figure also when no actor is in them.
_STATES_OF_ACTORS = ("PENDING", "ALIVE", "RESTARTING", "DEAD")


class Metrics:
    """The values of programs' metrics, and their publication."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        #: The value, or the sum and the buckets, of each series.
        self._series: dict[tuple[About, tuple[str, ...]], tuple[float, list[int]]] = {}
        self._num_dropped = 0
        self._collector = adapter.publish_metrics(self.collect)

    def close(self) -> None:
        """Stop publishing."""
        adapter.withdraw_metrics(self._collector)

    def on_node_report(self, worker: str, process: str, measured: list[Any]) -> None:
        """Record values from a process of a node."""
        self._enter(process, measured)

    def on_caller_report(self, client: str, process: str, measured: list[Any]) -> None:
        """Record values from a driver."""
        self._enter(process, measured)

    def _enter(self, process: str, measured: list[Any]) -> None:
        for wire, tags, value, buckets in measured:
            about = about_from_wire(wire)
            labels = (*tags, process) if about.kind == "gauge" else tuple(tags)
            known = self._series.get((about, labels))
            if known is None and len(self._series) >= _MANY_SERIES:
                self._num_dropped += 1
                continue
            if known is None or about.kind == "gauge":
                known = (0.0, [0] * len(buckets))
            sums = [a + b for a, b in zip(known[1], buckets, strict=True)]
            self._series[about, labels] = (known[0] + value, sums)

    def collect(self) -> Iterator[Any]:
        """Iterate over all metrics, as families of prometheus_client."""
        from prometheus_client.core import (
            CounterMetricFamily,
            GaugeMetricFamily,
            HistogramMetricFamily,
        )

        families: dict[About, Any] = {}
        for (about, labels), (value, buckets) in self._series.items():
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
                family.add_metric(labels, list(_cumulated(about, buckets)), value)
            families[about] = family
        yield from families.values()
        dropped = "Series of the program's metrics that were dropped, because there were too many."
        yield CounterMetricFamily("raycompat_dropped_series", dropped, value=self._num_dropped)
        yield from self._of_cluster(GaugeMetricFamily, CounterMetricFamily)

    def _of_cluster(self, gauge: Any, counter: Any) -> Iterator[Any]:
        ended = counter("ray_finished_tasks", "Tasks that have ended.", labels=("Name", "State"))
        for name, function in self._parts.endings.history.functions.items():
            ended.add_metric((name, "FINISHED"), function.num_done)
            ended.add_metric((name, "FAILED"), function.num_failed)
        yield ended
        actors = gauge("ray_actors", "Actors by state.", labels=("State",))
        counts = Counter(dict.fromkeys(_STATES_OF_ACTORS, 0))
        counts.update(row.state for row in self._parts.actors.rows.values())
        for state, count in counts.items():
            actors.add_metric((state,), count)
        yield actors
        resources = gauge(
            "ray_resources", "Resources of each node.", labels=("Name", "State", "NodeAddress")
        )
        ledger = self._parts.ledger
        for address, info in self._parts.nodes.info.items():
            free = ledger.node_available(address)
            for name, units in ledger.node_total(address).items():
                available = free.get(name)
                labels = (name, "AVAILABLE", info["ip"])
                resources.add_metric(labels, available / UNITS_PER_ONE)
                labels = (name, "USED", info["ip"])
                resources.add_metric(labels, (units - available) / UNITS_PER_ONE)
        yield resources
        stored = gauge(
            "ray_object_store_memory", "Bytes of objects.", labels=("Location", "NodeAddress")
        )
        for address, info in self._parts.nodes.info.items():
            memory, disk = adapter.stored_bytes(self._parts.scheduler, address)
            stored.add_metric(("MMAP_SHM", info["ip"]), memory)
            stored.add_metric(("SPILLED", info["ip"]), disk)
        yield stored


def _cumulated(about: About, buckets: list[int]) -> Iterator[tuple[str, float]]:
    total = 0
    bounds = [*map(str, about.boundaries), "+Inf"]
    for bound, count in zip(bounds, buckets, strict=True):
        total += count
        yield bound, total
