"""Values stay what they are in each format of batches: each type of Arrow, with and without missing ones."""

import io
import json

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raycompat.data import block, frames, writing

#: The largest integer up to which all integers are floats too.
EXACT = 2**53

MOMENTS = st.integers(-6 * 10**16, 6 * 10**16)
WORDS = st.text(max_size=3)

#: Types of Arrow, and their values as Arrow takes them.
KINDS = {
    **{
        name: (getattr(pa, name)(), st.integers(low, high))
        for name, low, high in [
            *((f"int{n}", -(2 ** (n - 1)), 2 ** (n - 1) - 1) for n in (8, 16, 32, 64)),
            *((f"uint{n}", 0, 2**n - 1) for n in (8, 16, 32, 64)),
        ]
    },
    "float32": (pa.float32(), st.floats(width=32, allow_nan=False)),
    "float64": (pa.float64(), st.floats(allow_nan=False)),
    "bool": (pa.bool_(), st.booleans()),
    "string": (pa.string(), WORDS),
    "large_string": (pa.large_string(), WORDS),
    "binary": (pa.binary(), st.binary(max_size=3)),
    "date32": (pa.date32(), st.dates()),
    **{f"timestamp_{unit}": (pa.timestamp(unit), MOMENTS) for unit in ("us", "ns")},
    **{f"duration_{unit}": (pa.duration(unit), MOMENTS) for unit in ("us", "ns")},
    "time_us": (pa.time64("us"), st.times()),
    "decimal": (pa.decimal128(20, 3), st.decimals(-(10**9), 10**9, places=3)),
    "list": (pa.list_(pa.int32()), st.lists(st.integers(-9, 9), max_size=3)),
    "lists": (pa.list_(pa.list_(pa.int64())), st.lists(st.lists(st.integers(-9, 9)), max_size=3)),
    "words": (pa.list_(pa.string()), st.lists(WORDS, max_size=3)),
    "struct": (
        pa.struct([("a", pa.int64()), ("b", pa.string())]),
        st.fixed_dictionaries({"a": st.none() | st.integers(-9, 9), "b": WORDS}),
    ),
    "structs": (
        pa.list_(pa.struct([("a", pa.int64())])),
        st.lists(st.fixed_dictionaries({"a": st.integers(-9, 9)}), max_size=2),
    ),
}


def plain(value):
    """Return a value with lists in place of arrays."""
    if isinstance(value, np.ndarray):
        value = list(value)
    if isinstance(value, list):
        return [plain(each) for each in value]
    return value.item() if isinstance(value, np.generic) else value


def as_missing(value):
    """Return None for numpy's missing float: that of a batch in which a value is missing."""
    return None if isinstance(value, float) and np.isnan(value) else value


@pytest.mark.parametrize("kind", KINDS)
@settings(deadline=None, max_examples=15)
@given(data=st.data())
def test_a_batch_returns_with_the_values_that_it_had(kind, data):
    type_, values = KINDS[kind]
    column = pa.array(data.draw(st.lists(st.none() | values, min_size=1, max_size=5)), type_)
    table = pa.table({"a": column, "i": np.arange(len(column))})
    expected = column.to_pylist()
    for name in ("numpy", "pandas", frames.NUMPY_BACKED, "pyarrow"):
        made = block.to_table(block.BlockAccessor(table).to_batch_format(name))
        found = [as_missing(value) for value in rows_of(made)]
        assert found == expected, name
    assert [plain(value) for value in rows_of(block.from_rows(list(block.rows(table))))] == expected


def rows_of(table):
    found = [plain(row["a"]) for row in block.rows(table)]
    if pa.types.is_timestamp(table["a"].type) and found and table["a"].type.unit == "s":
        return [None if each is None else each.date() for each in found]  # numpy has no days
    return found


def test_integers_that_floats_cannot_hold_stay_integers_where_one_is_missing():
    table = pa.table({"a": pa.array([EXACT + 1, None]), "b": pa.array([EXACT, None])})
    numbers = block.BlockAccessor(table).to_batch_format("numpy")
    assert numbers["a"].tolist() == [EXACT + 1, None]
    assert numbers["b"].dtype == np.float64
    frame = frames.to_pandas(table, arrow_backed=False)
    assert str(frame["a"].dtype) == "int64[pyarrow]"
    assert frame["b"].dtype == np.float64
    assert list(frame.columns) == ["a", "b"]
    assert block.to_table(frame)["a"].to_pylist() == [EXACT + 1, None]


def test_times_of_nanoseconds_stay_so_in_pandas():
    table = pa.table({"a": pa.array([3_600_000_000_001, None], pa.time64("ns"))})
    for arrow_backed in (True, False):
        assert block.to_table(frames.to_pandas(table, arrow_backed)).equals(table)


def test_json_has_whole_integers_and_dates_where_values_are_missing():
    table = pa.table({"i": [1, None], "day": pa.array([1, None], pa.date32())})
    file = io.BytesIO()
    writing._JsonWriter({"date_format": "iso"}, None)(table, file)
    first, second = file.getvalue().decode().splitlines()
    assert json.loads(first)["i"] == 1
    assert '"i":1,' in first
    assert json.loads(first)["day"].startswith("1970-01-02")
    assert json.loads(second) == {"i": None, "day": None}


def test_lists_are_arrays_of_their_type():
    column = pa.array([[1, 2], [], None], pa.list_(pa.int32()))
    first, second, third = block.to_numpy(pa.table({"a": column}))["a"]
    assert first.dtype == second.dtype == np.int32
    assert third is None
    nested = block.to_numpy(pa.table({"a": [[[1], [2, 3]]]}))["a"][0]
    assert [each.tolist() for each in nested] == [[1], [2, 3]]
