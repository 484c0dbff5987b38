"""What a node reports of its GPUs, and where it is shown."""

import asyncio
from types import SimpleNamespace

import pytest

from raycompat._host import nvml
from raycompat._node import accelerators, gpu_watch
from raycompat._node.accelerators import NVIDIA, Device
from raycompat._node.gpu_watch import GpuWatch, describe
from raycompat._scheduler.pages import tables

GIB = 2**30
SAMPLE = nvml.Sample(3 * GIB, 80 * GIB, 57, 41, {100: 2 * GIB, 200: GIB, 300: None})
#: Process 100 holds GPU 0; 200 is of this node and holds another one; 300 is not of this node.
HELD = {100: [0], 200: [1]}


class FakeNvml:
    """A machine with two GPUs; closing it is noted."""

    def __init__(self):
        self.closed = False
        opened.append(self)

    def sample(self, name):
        return SAMPLE if name == "GPU-0" else nvml.Sample(None, None, None, None, {})

    def close(self):
        self.closed = True


opened = []


def test_a_process_that_uses_a_gpu_it_was_not_given_is_named():
    assert describe(0, SAMPLE, HELD)["strangers"] == [200]
    assert describe(1, SAMPLE, HELD)["strangers"] == [100]


def run_until(condition, watch):
    async def run():
        watch.start()
        async with asyncio.timeout(20):
            while not condition():
                await asyncio.sleep(0)
        watch.stop()
        while len(asyncio.all_tasks()) > 1:
            await asyncio.sleep(0)

    asyncio.run(run())


def test_samples_are_reported_until_the_end(monkeypatch):
    monkeypatch.setattr(nvml, "Nvml", FakeNvml)
    monkeypatch.setattr(gpu_watch, "_PERIOD_S", 0)
    reports = []
    watch = GpuWatch(["GPU-0", "GPU-1"], lambda: HELD, reports.append)
    run_until(lambda: len(reports) >= 2, watch)
    first, second = reports[0]
    assert first["memory_used"] == 3 * GIB
    assert first["processes"] == [(100, 2 * GIB), (200, GIB), (300, None)]
    assert (second["index"], second["utilisation"]) == (1, None)
    assert opened.pop().closed


def test_without_nvml_or_gpus_nothing_is_reported(monkeypatch, caplog):
    caplog.set_level("INFO")

    def fail():
        raise nvml.NvmlError("no driver")

    monkeypatch.setattr(nvml, "Nvml", fail)
    GpuWatch([], dict, pytest.fail).start()  # needs no event loop
    run_until(lambda: "no driver" in caplog.text, GpuWatch(["0"], dict, pytest.fail))


def test_the_watch_asks_by_the_full_uuid(monkeypatch):
    devices = [Device("H100", ("0", "GPU-aa11")), Device("H100", ("1", "GPU-bb22"))]
    monkeypatch.setattr(accelerators, "_hardware", lambda: (NVIDIA, devices))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-bb,0")
    assert accelerators.watched_ids() == ["GPU-bb22", "GPU-aa11"]


def test_the_columns_of_a_gpu():
    row = tables._sampled(describe(0, SAMPLE, HELD))
    assert row == {
        "memory": "3.0 of 80.0 GiB",
        "busy": "57 %",
        "temperature": "41 °C",
        "processes": "100: 2.00 GiB, 200: 1.00 GiB, 300",
        "strangers": "200",
    }
    assert set(tables._sampled({}).values()) == {""}


def test_prometheus_has_the_figures_of_each_gpu():
    client = pytest.importorskip("prometheus_client.core")
    from raycompat._scheduler.metrics import Metrics

    gpus = [describe(0, SAMPLE, HELD), describe(1, SAMPLE, HELD)]
    info = {
        "tcp://a": {"ip": "10.0.0.1", "node_id": "a", "gpus": gpus},
        "tcp://b": {"ip": "10.0.0.2", "node_id": "b"},
    }
    nodes = SimpleNamespace(info=info, current=info.__getitem__)
    of = SimpleNamespace(_parts=SimpleNamespace(nodes=nodes, ground=SimpleNamespace(nodes=nodes)))
    found = {each.name: each for each in Metrics._of_gpus(of, client.GaugeMetricFamily)}
    assert [each.value for each in found["ray_node_gpus_utilization"].samples] == [57, 57]
    assert found["ray_node_gram_available"].samples[0].value == 77 * 1024
    by_process = found["ray_component_gpu_memory_mb"].samples
    assert {each.labels["pid"]: each.value for each in by_process} == {"100": 2048, "200": 1024}
