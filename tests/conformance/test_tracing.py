"""Calls as OpenTelemetry's spans, where a program turns them on."""

from __future__ import annotations

import json
import textwrap
import time

import pytest
from _python_path import before_others

pytest.importorskip("opentelemetry.sdk", reason="opentelemetry-sdk is not installed")

#: Writes the spans of each process to a file.
HOOK = """
    import os
    from pathlib import Path

    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult

    class Writer(SpanExporter):
        def export(self, spans):
            with (Path(__file__).parent / f"{os.getpid()}.spans").open("a") as out:
                out.writelines(each.to_json(None) + "\\n" for each in spans)
            return SpanExportResult.SUCCESS

    def setup():
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(Writer()))
        trace.set_tracer_provider(provider)
"""


@pytest.fixture
def spans(tmp_path, monkeypatch):
    """A function that returns the spans that all processes have written, once there are so many."""
    (tmp_path / "hook_of_tracing.py").write_text(textwrap.dedent(HOOK))
    monkeypatch.setenv("PYTHONPATH", before_others(tmp_path))
    monkeypatch.syspath_prepend(str(tmp_path))

    def read(number):
        deadline = time.monotonic() + 30
        while True:
            lines = [
                line for each in tmp_path.glob("*.spans") for line in each.read_text().splitlines()
            ]
            found = [json.loads(line) for line in lines]
            if len(found) >= number or time.monotonic() > deadline:
                return found
            time.sleep(0.05)  # polling with a deadline: other processes write them

    return read


def test_a_call_has_two_spans_one_below_the_other(fresh, spans):
    ray = fresh(num_cpus=2, _tracing_startup_hook="hook_of_tracing:setup")

    @ray.remote
    def inner(number):
        return number + 1

    @ray.remote
    def outer():
        return ray.get(inner.remote(1))

    @ray.remote
    class Counter:
        def __init__(self, start=0):
            self.count = start

        def add(self, number):
            self.count += number
            return self.count

        async def later(self, **options):
            return options

    assert ray.get(outer.remote(), timeout=60) == 2
    counter = Counter.remote(start=1)
    assert ray.get(counter.add.remote(1), timeout=60) == 2
    assert ray.get(counter.later.remote(a=2), timeout=60) == {"a": 2}
    found = spans(10)
    by_name = {each["name"]: each for each in found}
    module, cls = outer._function_name.rpartition(".")[0], "<locals>.Counter"
    name = f"{test_a_call_has_two_spans_one_below_the_other.__name__}.{cls}"
    calls = [
        (f"{module}.outer", f"{module}.outer"),
        (f"{module}.inner", f"{module}.inner"),
        *((f"{name}.{each}", f"Counter.{each}") for each in ("__init__", "add", "later")),
    ]
    assert by_name.keys() == {
        each
        for here, there in calls
        for each in (f"{here} ray.remote", f"{there} ray.remote_worker")
    }
    assert len(found) == 10
    for here, there in calls:
        sent, run = by_name[f"{here} ray.remote"], by_name[f"{there} ray.remote_worker"]
        assert (sent["kind"], run["kind"]) == ("SpanKind.PRODUCER", "SpanKind.CONSUMER")
        assert run["parent_id"] == sent["context"]["span_id"]
        assert run["context"]["trace_id"] == sent["context"]["trace_id"]
        kind = "actor" if "Counter" in there else "function"
        for span, function in ((sent, here), (run, there)):
            about = span["attributes"]
            assert (about["ray.remote"], about["ray.function"]) == (kind, function)
            assert about["ray.job_id"] == ray.get_runtime_context().get_job_id()
            assert about["ray.node_id"] == ray.get_runtime_context().get_node_id()
            assert about.get("ray.actor_id") == (
                counter._actor_id.hex() if kind == "actor" else None
            )
            assert about.keys() >= {"ray.pid", "ray.worker_id"}
        assert sent["attributes"]["ray.pid"] != run["attributes"]["ray.pid"]
        if kind == "actor":
            assert run["attributes"]["ray.actor_method"] == there.partition(".")[2]
            assert (
                sent["attributes"]["ray.actor_class"],
                run["attributes"]["ray.actor_class"],
            ) == (
                name,
                "Counter",
            )
    # What a task calls is below its own span.
    above = by_name[f"{module}.outer ray.remote_worker"]["context"]
    assert by_name[f"{module}.inner ray.remote"]["parent_id"] == above["span_id"]
    assert by_name[f"{module}.outer ray.remote"]["parent_id"] is None
