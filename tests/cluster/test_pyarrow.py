"""Arrow's tables and arrays on all roads, without copies."""

from __future__ import annotations

import pytest

import raycompat as ray

pa = pytest.importorskip("pyarrow")

VALUES = {
    "array": lambda: pa.array([1, None, 3]),
    "texts": lambda: pa.array(["a", None, "ç"]),
    "nested": lambda: pa.array([[1], None, [2, 3]]),
    "dictionary": lambda: pa.array(["a", "b", "a"]).dictionary_encode(),
    "slice": lambda: pa.array(range(1000))[10:20],
    "chunked": lambda: pa.chunked_array([[1, 2], [3]]),
    "batch": lambda: pa.record_batch({"a": [1, 2]}),
    "table": lambda: pa.table({"a": [1, 2], "b": ["x", None]}).replace_schema_metadata({"k": "v"}),
    "empty table": lambda: pa.table({"a": pa.array([], pa.int64())}),
    "large table": lambda: pa.table({"a": range(100_000), "b": ["text"] * 100_000}),
    "schema": lambda: pa.schema([("a", pa.timestamp("us", tz="UTC"))]),
    "scalar": lambda: pa.scalar(3),
}


@pytest.fixture
def roads(cluster):
    """Functions that send a value away and return what arrives."""

    @ray.remote
    def echo(value):
        return value

    @ray.remote(num_cpus=0)
    class Echo:
        def echo(self, value):
            return value

    actor = Echo.remote()
    return [
        lambda value: ray.get(ray.put(value)),
        lambda value: ray.get(echo.remote(value)),
        lambda value: ray.get(echo.remote(ray.put(value))),
        lambda value: ray.get(actor.echo.remote([value]))[0],
    ]


@pytest.mark.parametrize("name", VALUES)
def test_values_of_arrow_survive(roads, name):
    value = VALUES[name]()
    for send in roads:
        copy = send(value)
        assert type(copy) is type(value)
        assert copy.equals(value)
        if isinstance(value, pa.Table):
            assert copy.schema.metadata == value.schema.metadata


def test_large_tables_are_shared_not_copied(cluster):
    ref = ray.put(pa.table({"a": range(1_000_000)}))
    before = pa.total_allocated_bytes()
    table = ray.get(ref)
    assert table["a"][-1].as_py() == 999_999
    assert pa.total_allocated_bytes() - before < 1_000_000
    [_, values] = table["a"].chunk(0).buffers()
    assert not values.is_mutable


def test_buffers_arrive_as_buffers(roads):
    for send in roads:
        copy = send(pa.py_buffer(b"0123456789" * 100_000))
        assert isinstance(copy, pa.Buffer)
        assert copy.size == 1_000_000
        assert copy.slice(0, 10).to_pybytes() == b"0123456789"
