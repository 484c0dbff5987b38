"""What plans know of their rows before they are executed."""

from types import SimpleNamespace

import pyarrow as pa
import pytest

from raycompat.data import transform
from raycompat.data.plan import Input, Map, Union
from raycompat.data.transform import TableStep


def blocks(**types):
    """Return a plan of one block with these columns."""
    metadata = SimpleNamespace(schema=pa.schema(types))
    return Input([SimpleNamespace(metadata=metadata, num_rows=1)])


def test_a_union_of_types_that_do_not_fit_has_no_known_columns():
    assert Union((blocks(a=pa.int64()), blocks(a=pa.string()))).columns() is None
    fitting = Union((blocks(a=pa.int64()), blocks(a=pa.float64(), b=pa.string())))
    assert fitting.columns() == pa.schema({"a": pa.float64(), "b": pa.string()})


def test_two_columns_cannot_be_renamed_to_one_name():
    step = TableStep(transform.rename, ({"a": "b"},))
    renamed = Map(blocks(a=pa.int64(), b=pa.string()), "RenameColumns", (step,))
    assert renamed.columns() is None
    assert renamed.num_rows() is None  # so that count() executes it, and raises the error
    with pytest.raises(ValueError, match=r"two columns the name 'b'.*\['a', 'b'\]"):
        transform.rename(pa.table({"a": [1], "b": ["x"]}), {"a": "b"})
    swapped = transform.rename(pa.table({"a": [1], "b": ["x"]}), {"a": "b", "b": "a"})
    assert swapped.to_pylist() == [{"b": 1, "a": "x"}]
