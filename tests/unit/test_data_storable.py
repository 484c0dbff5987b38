"""Tables of which Arrow cannot take rows, and tables of rows without columns."""

import pickle

import pyarrow as pa
import pytest

from raycompat.data import block
from raycompat.data.storable import storable

RUNS = pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int32()), ["x", None])
MAP = pa.map_(pa.string(), pa.string_view())


@pytest.mark.parametrize(
    ("column", "values"),
    [
        (pa.array(["x", None, ""], pa.string_view()), ["x", None, ""]),
        (pa.array([b"x", None, b""], pa.binary_view()), [b"x", None, b""]),
        (pa.array([["x"], None, []], pa.list_(pa.string_view())), [["x"], None, []]),
        (pa.array([[1], None, []], pa.list_view(pa.int64())), [[1], None, []]),
        (pa.array([{"a": "x"}, None], pa.struct([("a", pa.string_view())])), [{"a": "x"}, None]),
        (pa.array([None, ["x"], []], pa.list_view(pa.string_view())).slice(1), [["x"], []]),
        (pa.array([["x"], None], pa.list_(pa.string_view(), 1)).slice(1), [None]),
        (pa.array([None, ["x"], None], pa.list_(pa.string_view(), 1)).slice(1), [["x"], None]),
        (pa.array([[("j", "w")], None, [("k", "x")]], MAP).slice(1), [None, [("k", "x")]]),
        (pa.StructArray.from_arrays([RUNS], ["a"]).slice(1), [{"a": "x"}, {"a": None}]),
        (pa.LargeListArray.from_arrays([0, 2, 3], RUNS).slice(1), [[None]]),
        (RUNS, ["x", "x", None]),
        (RUNS.slice(1, 2), ["x", None]),
    ],
)
def test_rows_can_be_taken(column, values):
    table = storable(pa.table({"v": column}))
    table.validate(full=True)
    taken = table.filter(pa.array([True] * len(values)))
    assert taken == table.take(pa.array(range(len(values))))
    assert taken["v"].to_pylist() == values
    assert block.to_table(pa.table({"v": column})) == table


def test_a_usual_table_is_itself():
    table = pa.table({"v": pa.array(["x"]), "d": pa.array(["x"]).dictionary_encode()})
    assert storable(table) is table


def test_rows_without_columns_are_pickled_and_put_together():
    rows = storable(pa.table({"a": [1, 2, 3]}).select([]))
    kept = pickle.loads(pickle.dumps(rows))
    assert list(block.rows(block.concat([kept, rows]))) == [{}] * 6
    assert block.concat([kept, pa.table({"a": [1]})]).column_names == ["a"]
    assert block.to_numpy(rows) == {}
    assert block.BlockAccessor(rows).to_pandas().shape == (3, 0)
    assert block.BlockAccessor(rows).to_arrow().num_columns == 0
