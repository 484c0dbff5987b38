"""Blocks: what goes in comes out, without copies and read-only."""

from __future__ import annotations

import pickle
import runpy
import sys
from types import FunctionType, SimpleNamespace

import cloudpickle
import numpy as np
import pytest
from _interruption import interruptions
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from raycompat._pickling.serialization import (
    INLINE_LIMIT_BYTES,
    collecting_refs,
    deserialize,
    report_ref,
    serialize,
)

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary(),
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)
arrays = hnp.arrays(
    # Not big-endian dates: numpy's own pickling changes their byte order.
    dtype=hnp.boolean_dtypes()
    | hnp.integer_dtypes()
    | hnp.floating_dtypes()
    | hnp.complex_number_dtypes()
    | hnp.datetime64_dtypes(endianness="<")
    | hnp.unicode_string_dtypes()
    | hnp.byte_string_dtypes(),
    shape=hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=6),
)


@given(values)
def test_plain_values_survive(value):
    block, _ = serialize(value)
    assert deserialize(block.to_bytes()) == value


@given(st.lists(arrays, max_size=4))
def test_arrays_survive_with_shape_and_dtype(originals):
    block, _ = serialize({"arrays": originals})
    copies = deserialize(block.to_bytes())["arrays"]
    for copy, original in zip(copies, originals, strict=True):
        assert copy.dtype == original.dtype
        np.testing.assert_array_equal(copy, original)


@given(st.lists(arrays, max_size=4))
def test_the_size_is_the_number_of_bytes(originals):
    block, _ = serialize(originals)
    assert block.size == len(block.to_bytes())


def test_arrays_are_views_of_the_block_and_read_only():
    block, _ = serialize(np.arange(1000))
    data = bytearray(block.to_bytes())
    array = deserialize(memoryview(data))
    assert not array.flags.writeable
    assert not array.flags.owndata
    assert np.shares_memory(array, np.frombuffer(data, dtype=np.uint8))


def test_buffers_are_aligned_to_cache_lines():
    block, _ = serialize([np.arange(5, dtype=np.int8), np.arange(7, dtype=np.float64)])
    data = np.frombuffer(block.to_bytes(), dtype=np.uint8)
    base = data.__array_interface__["data"][0]
    for array in deserialize(memoryview(data)):
        assert (array.__array_interface__["data"][0] - base) % 64 == 0


@pytest.mark.parametrize("order", ["C", "F"])
def test_memory_order_is_kept(order):
    original = np.asarray(np.arange(12).reshape(3, 4), order=order)
    block, _ = serialize(original)
    assert deserialize(block.to_bytes()).flags[f"{order}_CONTIGUOUS"]


def test_what_numpy_defines_goes_by_name_also_the_second_time(monkeypatch):
    values = [np.zeros(3), np.ndarray, np.dtype("uint8"), np.mean, np.add, np.random.default_rng(1)]
    first = serialize(values)[0].to_bytes()
    asked = []
    decide = cloudpickle.Pickler.reducer_override
    monkeypatch.setattr(
        cloudpickle.Pickler,
        "reducer_override",
        lambda self, obj: asked.append(obj) or decide(self, obj),
    )
    assert serialize(values)[0].to_bytes() == first
    assert not any(isinstance(each, type | FunctionType) for each in asked)
    copies = deserialize(first)
    assert copies[1:5] == values[1:5]
    assert copies[5].integers(1000) == values[5].integers(1000)


def test_a_class_that_only_says_it_is_of_numpy_goes_whole():
    for number in range(2):  # the second may have the id of the first
        made = type("Made", (), {"__module__": "numpy", "number": number})
        code = serialize(made)[0].to_bytes()
        del made
        assert deserialize(code).number == number


def test_only_small_blocks_may_travel_inline():
    small, _ = serialize(bytes(INLINE_LIMIT_BYTES - 100))
    large, _ = serialize(bytes(INLINE_LIMIT_BYTES))
    assert small.is_small
    assert not large.is_small


def test_a_foreign_block_is_refused():
    with pytest.raises(ValueError, match="not a raycompat block"):
        deserialize(pickle.dumps([1, 2, 3]) + bytes(16))


def test_functions_and_classes_of_main_travel_by_value():
    scope: dict[str, object] = {"__name__": "__main__"}
    exec("class Point:\n    x = 3\n\ndef f():\n    return Point.x", scope)
    block, _ = serialize([scope["f"], scope["Point"]])
    function, cls = deserialize(block.to_bytes())
    assert function() == 3
    assert cls.x == 3


class Reporter:
    """Reports a key when it is pickled, as references do."""

    def __init__(self, key: str) -> None:
        self.key = key

    def __reduce__(self):
        self.reported = report_ref(self.key, self)
        return Reporter, (self.key,)


def test_keys_inside_a_value_are_found_however_deep():
    inside = [{"a": (Reporter("one"), [Reporter("two")])}, Reporter("one")]
    block, found = serialize(inside)
    assert sorted(block.refs) == ["one", "two"]
    assert isinstance(found["two"], Reporter)


def test_nested_collections_do_not_mix():
    def pickled() -> bytes:
        report_ref("outer", None)
        return serialize(Reporter("inner"))[0].to_bytes()

    assert list(collecting_refs(pickled)[1]) == ["outer"]


def test_a_pickling_that_is_not_ours_is_noticed():
    reporter = Reporter("one")
    pickle.dumps(reporter)
    assert reporter.reported is False


def test_a_pickling_that_was_interrupted_anywhere_is_over():
    for interruption in interruptions(step=1):
        interruption.run(lambda: serialize(Reporter("one")))
        reporter = Reporter("two")
        pickle.dumps(reporter)
        assert reporter.reported is False, interruption.where


def test_code_keeps_the_name_of_its_file():
    """Tracebacks show it; cloudpickle leaves it out from 3.1.3 on."""

    def outer():
        return lambda: None

    for block in (serialize(outer)[0].to_bytes(), serialize([outer()])[0].to_bytes()):
        copy = deserialize(block)
        function = copy if callable(copy) else copy[0]
        assert function.__code__.co_filename == __file__


#: A class with another object in its place, as `ray.remote` puts one there.
CLASS = """
@stand_in_for
class Doubler:
    def double(self, x):
        return 2 * x

send()
"""


def test_what_a_file_defines_that_is_run_as_a_function_goes_by_value(tmp_path):
    """`runpy.run_path` makes a module that no other process can import."""
    found = []

    def stand_in_for(kind):
        found.append(kind)
        return SimpleNamespace(double=kind.double)

    def send():
        found.append(serialize(found.pop())[0].to_bytes())

    file = tmp_path / "file.py"
    file.write_text(CLASS)
    runpy.run_path(str(file), {"stand_in_for": stand_in_for, "send": send})
    assert deserialize(found[0])().double(2) == 4


def test_a_library_that_puts_an_object_in_its_place_goes_by_name(monkeypatch):
    library = SimpleNamespace(__name__="lazy_library")
    exec("def f():\n    return 1", found := {"__name__": "lazy_library"})
    library.f = found["f"]
    monkeypatch.setitem(sys.modules, "lazy_library", library)
    assert deserialize(serialize(library.f)[0].to_bytes()) is library.f
