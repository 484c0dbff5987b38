"""What programs measure, and the figures of the cluster, at Dask's Prometheus endpoint."""

from __future__ import annotations

import json
import re
import urllib.request
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

import raycompat as ray
from raycompat.util import dask
from raycompat.util.metrics import Counter, Gauge, Histogram


@pytest.fixture(scope="module")
def url():
    """A cluster with an endpoint; what asks there, with the token that it wants."""
    context = ray.init(num_cpus=2, configure_logging=False)
    place, _, token = context.dashboard_url.partition("/status?token=")
    assert token
    header = {"Authorization": f"Bearer {token}"}
    yield urllib.request.Request(f"http://{place}/metrics", headers=header)
    ray.shutdown()


def read(url):
    """Return all samples: their value by name and tags."""
    with urllib.request.urlopen(url, timeout=30) as answer:
        text = answer.read().decode()
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(url, name, **tags):
    wanted = set(tags.items())
    found = [each for (key, labels), each in read(url).items() if key == name and wanted <= labels]
    return sum(found) if found else None


def test_processes_count_together(url, wait_until):
    requests = Counter("requests", description="Requests.", tag_keys=("route",))

    @ray.remote
    def serve(number):
        requests.inc(number, tags={"route": "/a"})

    @ray.remote(num_cpus=0)
    class Server:
        def serve(self):
            requests.inc(tags={"route": "/b"})

    server = Server.remote()
    ray.get([serve.remote(number) for number in (1, 2, 3)] + [server.serve.remote()])
    requests.inc(0.5, tags={"route": "/a"})
    wait_until(lambda: value(url, "ray_requests_total", route="/a") == 6.5)
    wait_until(lambda: value(url, "ray_requests_total", route="/b") == 1)


def test_gauges_have_the_last_value_of_each_process(url, wait_until):
    depth = Gauge("depth")

    @ray.remote(num_cpus=0)
    class Queue:
        def set(self, number):
            depth.set(number)
            return ray.get_runtime_context().get_worker_id()

    queues = [Queue.remote() for _ in range(2)]
    ray.get([queue.set.remote(9) for queue in queues])
    first, second = ray.get([queue.set.remote(n) for n, queue in enumerate(queues, 1)])
    wait_until(lambda: value(url, "ray_depth", WorkerId=first) == 1)
    wait_until(lambda: value(url, "ray_depth", WorkerId=second) == 2)


def test_the_gauges_of_an_ended_process_may_leave(url, wait_until):
    depth = Gauge("depth_of_an_ended_process")

    @ray.remote(num_cpus=0)
    class Queue:
        def set(self):
            depth.set(1)
            return ray.get_runtime_context().get_worker_id()

    def living(dask_scheduler):
        return list(dask_scheduler.plugins["raycompat"].parts.metrics._processes)

    queue = Queue.remote()
    process = ray.get(queue.set.remote())
    wait_until(lambda: process in dask.client().run_on_scheduler(living))
    ray.kill(queue)
    wait_until(lambda: process not in dask.client().run_on_scheduler(living))


def test_histograms_have_cumulated_buckets(url, wait_until):
    latency = Histogram("latency", boundaries=[1.0, 2.0])
    for each in (0.5, 1.0, 1.5, 7.0):
        latency.observe(each)
    wait_until(lambda: value(url, "ray_latency_count") == 4)
    assert value(url, "ray_latency_sum") == 10
    assert value(url, "ray_latency_bucket", le="1.0") == 2
    assert value(url, "ray_latency_bucket", le="2.0") == 3
    assert value(url, "ray_latency_bucket", le="+Inf") == 4


def test_the_figures_of_the_cluster(url, wait_until):
    @ray.remote
    def is_measured():
        pass

    @ray.remote(num_cpus=1)
    class Holds:
        def ready(self):
            return True

    ray.get([is_measured.remote() for _ in range(10)])
    wait_until(lambda: value(url, "ray_finished_tasks_total", Name="is_measured") == 10)
    before = value(url, "ray_actors", State="ALIVE") or 0
    holds = Holds.remote()
    ray.get(holds.ready.remote())
    assert value(url, "ray_actors", State="ALIVE") == before + 1
    assert value(url, "ray_resources", Name="CPU", State="USED") >= 1
    assert (
        sum(value(url, "ray_resources", Name="CPU", State=each) for each in ("USED", "AVAILABLE"))
        == 2
    )
    assert value(url, "ray_object_store_memory", Location="MMAP_SHM") >= 0


def test_the_panels_of_the_grafana_dashboard_have_figures(url, wait_until):
    @ray.remote
    def is_drawn():
        pass

    ray.get(is_drawn.remote())
    wait_until(lambda: value(url, "ray_finished_tasks_total", Name="is_drawn") == 1)
    file = Path(__file__).parents[2] / "docs" / "_static" / "grafana.json"
    panels = json.loads(file.read_text(encoding="utf-8"))["panels"]
    expressions = [target["expr"] for panel in panels for target in panel["targets"]]
    drawn = {name for each in expressions for name in re.findall(r"\bray_\w+", each)}
    published = {name: dict(labels) for (name, labels), _ in read(url).items()}
    assert len(panels) == 6
    assert drawn <= set(published)
    for each in expressions:
        (name,) = set(re.findall(r"\bray_\w+", each))
        grouped = ", ".join(re.findall(r"by \(([\w, ]+)\)", each))
        labels = set(re.findall(r"(\w+)=", each)) | set(re.findall(r"\w+", grouped))
        assert labels <= set(published[name])
