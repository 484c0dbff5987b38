"""Spans of calls that go on after their function has returned, and what happens without OpenTelemetry."""

from __future__ import annotations

import sys

import pytest

import raycompat as ray
from raycompat._caller import tracing

QUIET = {"configure_logging": False, "include_dashboard": False, "log_to_driver": False}


@pytest.fixture
def spans(no_cluster, monkeypatch):
    """The spans that have ended, in a session of local mode: callers and calls are in this process."""
    sdk = pytest.importorskip(
        "opentelemetry.sdk.trace", reason="opentelemetry-sdk is not installed"
    )
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    ended = InMemorySpanExporter()
    provider = sdk.TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(ended))
    ray.init(local_mode=True, **QUIET)
    monkeypatch.setattr(tracing, "_tracer", provider.get_tracer("test"))
    yield lambda: {each.name.partition(" ")[0]: each for each in _runs(ended)}
    ray.shutdown()
    provider.shutdown()


def _runs(ended):
    return [each for each in ended.get_finished_spans() if each.name.endswith("remote_worker")]


def test_a_span_lasts_until_a_coroutine_or_a_generator_has_ended(spans):
    @ray.remote
    def leaf():
        return 1

    @ray.remote
    def items():
        for _ in range(2):
            yield ray.get(leaf.remote())

    @ray.remote
    class Asynchronous:
        async def value(self):
            return await leaf.remote()

        async def items(self):
            yield await leaf.remote()

    def parents():
        found = spans()
        leaves = found.pop(f"{__name__}.leaf")
        (above,) = [
            each for each in found.values() if each.context.trace_id == leaves.context.trace_id
        ]
        assert above.end_time >= leaves.end_time
        return above.name.partition(" ")[0].rpartition(".")[2]

    assert [ray.get(each) for each in items.remote()] == [1, 1]
    assert parents() == "items"
    actor = Asynchronous.remote()
    assert ray.get(actor.value.remote()) == 1
    assert parents() == "value"
    assert [ray.get(each) for each in actor.items.remote()] == [1]
    assert parents() == "items"


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
def test_what_never_starts_has_a_span_that_ends(spans):
    def items():
        yield

    async def value():
        pass

    async def items_later():
        yield

    functions = [items, value, items_later]
    for function in functions:
        kwargs = dict(tracing.for_function({}, function.__name__))
        never_started = tracing.traced(function, kwargs)()
        assert function.__name__ not in spans()
        del never_started
    assert spans().keys() == {each.__name__ for each in functions}


def test_the_span_of_a_call_that_fails_has_its_error(spans):
    @ray.remote
    def fails():
        raise ValueError("too bad")

    with pytest.raises(ValueError, match="too bad"):
        ray.get(fails.remote())
    (span,) = spans().values()
    assert not span.status.is_ok
    assert [each.attributes["exception.message"] for each in span.events] == ["too bad"]


def test_a_call_with_a_span_runs_where_tracing_is_off(spans, monkeypatch):
    def count(**named):
        return named

    (sent,) = tracing.for_function({}, "f").items()
    monkeypatch.setattr(tracing, "_tracer", None)
    assert tracing.for_function({"a": 1}, "f") == {"a": 1}
    given = dict([sent, ("a", 1)])
    assert tracing.traced(count, given) is count
    assert given == {"a": 1}


def test_a_hook_that_cannot_run_is_an_error(no_cluster, monkeypatch):
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        ray.init(_tracing_startup_hook="no_such_module:setup", **QUIET)
    assert not ray.is_initialized()
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(ImportError, match="pip install opentelemetry-sdk"):
        ray.init(_tracing_startup_hook="json:loads", **QUIET)
    assert not ray.is_initialized()


def test_a_hook_that_fails_in_an_executor_is_told_by_its_calls(no_cluster, tmp_path, monkeypatch):
    pytest.importorskip("opentelemetry", reason="opentelemetry-api is not installed")
    (tmp_path / "only_here.py").write_text("setup = print")
    monkeypatch.syspath_prepend(str(tmp_path))
    ray.init(num_cpus=1, _tracing_startup_hook="only_here:setup", **QUIET)
    (tmp_path / "only_here.py").write_text("def setup():\n    raise OSError('no exporter')")
    with pytest.raises(ray.exceptions.WorkerCrashedError) as caught:
        ray.get(ray.remote(lambda: 1).remote(), timeout=60)
    assert "_tracing_startup_hook, only_here:setup, failed" in str(caught.value)
    assert "no exporter" in str(caught.value)
    ray.shutdown()
    ray.init(num_cpus=1, **QUIET)  # the next session is not traced
    assert tracing.for_function({}, "f") == {}
    ray.shutdown()
