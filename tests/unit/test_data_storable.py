"""Tables of which Arrow cannot take rows, and tables of rows without columns."""

import pickle

import pyarrow as pa
import pytest

from raycompat.data import block
from raycompat.data.storable import storable

RUNS = pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int32()), ["x", None])


@pytest.mark.parametrize(
    ("column", "values"),
    [
        (pa.array(["x", None, ""], pa.string_view()), ["x", None, ""]),
        (pa.array([b"x", None, b""], pa.binary_view()), [b"x", None, b""]),
        (pa.array([["x"], None, []], pa.list_(pa.string_view())), [["x"], None, []]),
        (pa.array([[1], None, []], pa.list_view(pa.int64())), [[1], None, []]),
        (pa.array([{"a": "x"}, None], pa.struct([("a", pa.string_view())])), [{"a": "x"}, None]),
        (RUNS, ["x", "x", None]),
        (RUNS.slice(1, 2), ["x", None]),
    ],
)
def test_rows_can_be_taken(column, values):
    table = storable(pa.table({"v": column}))
    taken = table.take(pa.array(range(len(values))))
    assert taken["v"].to_pylist() == values
    assert block.to_table(pa.table({"v": column})) == table


def test_a_usual_table_is_itself():
    table = pa.table({"v": pa.array(["x"]), "d": pa.array(["x"]).dictionary_encode()})
    assert storable(table) is table


def test_rows_without_columns_are_pickled_and_put_together():
    rows = storable(pa.table({"a": [1, 2, 3]}).select([]))
    kept = pickle.loads(pickle.dumps(rows))
    assert list(block.rows(block.concat([kept, rows]))) == [{}] * 6
    assert block.BlockAccessor(rows).to_pandas().shape == (3, 0)
    assert block.BlockAccessor(rows).to_arrow().num_columns == 0
