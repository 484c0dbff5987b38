"""The types of columns in DataFrames: Arrow's for blocks of Arrow, pandas's own for those of pandas."""

import importlib

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

pytestmark = pytest.mark.timeout(180)


@pytest.fixture
def data(cluster):
    module = importlib.import_module(f"{cluster.__name__}.data")
    module.DataContext.get_current().enable_progress_bars = False
    return module


@pytest.fixture
def numpy_backed(data):
    context = data.DataContext.get_current()
    context.enable_arrow_backed_pandas_conversion = False
    yield data
    context.enable_arrow_backed_pandas_conversion = True


def types(frame):
    return {name: str(dtype) for name, dtype in frame.dtypes.items()}


def describe():
    """Return a function of batches that gives the types of the columns; it travels by value."""

    def kinds(frame):
        text = str({name: str(dtype) for name, dtype in frame.dtypes.items()})
        return pd.DataFrame({"kinds": [text]})

    return kinds


TABLE = pa.table(
    {
        "int": [1, None],
        "float": [None, 2.5],
        "text": ["a", None],
        "bool": [True, None],
        "list": [[1], None],
        "struct": [{"x": 1}, None],
        "time": pa.array([0, None], pa.timestamp("ns", "UTC")),
        "day": pa.array([0, None], pa.date32()),
        "bytes": [b"a", None],
        "null": pa.nulls(2),
        "category": pa.array(["x", None]).dictionary_encode(),
        "uint8": pa.array([1, 2], pa.uint8()),
    }
)
OF_TABLE = {
    "int": "int64[pyarrow]",
    "float": "double[pyarrow]",
    "text": "string[pyarrow]",
    "bool": "bool[pyarrow]",
    "list": "list<item: int64>[pyarrow]",
    "struct": "struct<x: int64>[pyarrow]",
    "time": "timestamp[ns, tz=UTC][pyarrow]",
    "day": "date32[day][pyarrow]",
    "bytes": "binary[pyarrow]",
    "null": "object",
    "category": "category",
    "uint8": "uint8[pyarrow]",
}


def test_frames_of_arrow_blocks_have_arrow_types(cluster, data):
    dataset = data.from_arrow(TABLE)
    assert types(dataset.to_pandas()) == OF_TABLE
    assert types(dataset.take_batch(2, batch_format="pandas")) == OF_TABLE
    assert [types(each) for each in dataset.iter_batches(batch_format="pandas")] == [OF_TABLE]
    assert [types(each) for each in cluster.get(dataset.to_pandas_refs())] == [OF_TABLE]
    found = dataset.map_batches(describe(), batch_format="pandas").take_all()
    assert found == [{"kinds": str(OF_TABLE)}]


def test_missing_values_keep_integers(data):
    frame = data.from_arrow(TABLE).to_pandas()
    assert frame["int"][0] == 1
    assert frame["int"][1] is pd.NA
    assert frame["text"].isna().tolist() == [False, True]


def test_groups_have_arrow_types(data):
    rows = data.from_items([{"a": 1, "b": "x"}, {"a": 1, "b": "y"}])
    found = rows.groupby("a").map_groups(describe(), batch_format="pandas").take_all()
    assert found == [{"kinds": "{'a': 'int64[pyarrow]', 'b': 'string[pyarrow]'}"}]
    assert types(rows.groupby("a").count().to_pandas()) == {
        "a": "int64[pyarrow]",
        "count()": "int64[pyarrow]",
    }


def test_columns_that_pandas_makes(data):
    def more(frame):
        frame["half"] = frame["id"] / 2
        frame["text"] = "t"
        frame["position"] = np.arange(len(frame))
        return frame

    made = data.range(2, override_num_blocks=1).map_batches(more, batch_format="pandas")
    frame = made.to_pandas()
    assert types(frame) == {
        "id": "int64[pyarrow]",
        "half": "double[pyarrow]",
        "text": "large_string[pyarrow]",
        "position": "int64[pyarrow]",
    }
    assert frame["half"].tolist() == [0.0, 0.5]
    assert made.schema().types == [pa.int64(), pa.float64(), pa.large_string(), pa.int64()]


def test_arrays_are_objects(data):
    frame = data.range_tensor(2, shape=(2, 2)).to_pandas()
    assert types(frame) == {"data": "object"}
    assert isinstance(frame["data"][0], np.ndarray)


def original():
    return pd.DataFrame(
        {
            "int": [3, 1, 2],
            "text": ["x", None, "z"],
            "Int64": pd.array([1, None, 3], dtype="Int64"),
            "object": [1, None, "q"],
            "category": pd.Categorical(["a", "b", "a"]),
            "time": pd.to_datetime(["2020-01-01"] * 3),
        }
    )


def test_frames_of_pandas_keep_their_types(cluster, data):
    frame = original()
    dataset = data.from_pandas(frame)
    pd.testing.assert_frame_equal(dataset.to_pandas(), frame)
    pd.testing.assert_frame_equal(dataset.take_batch(3, batch_format="pandas"), frame)
    pd.testing.assert_frame_equal(cluster.get(dataset.to_pandas_refs())[0], frame)
    (batch,) = dataset.iter_batches(batch_format=None)
    pd.testing.assert_frame_equal(batch, frame)
    found = dataset.map_batches(describe(), batch_format="pandas").take_all()
    assert found == [{"kinds": str(types(frame))}]


@pytest.mark.parametrize(
    "operation",
    [
        lambda ds: ds.limit(2),
        lambda ds: ds.random_shuffle(),
        lambda ds: ds.repartition(2),
        lambda ds: ds.select_columns(["int", "text", "Int64", "object"]),
        lambda ds: ds.split_at_indices([2])[0],
        lambda ds: ds.union(ds),
        lambda ds: ds.materialize(),
    ],
    ids=["limit", "random_shuffle", "repartition", "select", "split", "union", "materialize"],
)
def test_operators_that_move_rows_keep_the_types_of_pandas(data, operation):
    found = types(operation(data.from_pandas(original())).to_pandas())
    assert found["Int64"] == "Int64"
    assert found["text"] == str(original()["text"].dtype)
    assert found["object"] == "object"


@pytest.mark.parametrize(
    "operation",
    [
        lambda ds: ds.sort("int"),
        lambda ds: ds.filter(lambda row: True),
        lambda ds: ds.map(lambda row: row),
        lambda ds: ds.drop_columns(["text"]),
        lambda ds: ds.map_batches(lambda frame: frame, batch_format="pandas"),
        lambda ds: ds.map_batches(lambda table: table, batch_format="pyarrow"),
        lambda ds: ds.add_column("more", lambda frame: frame["int"] + 1),
    ],
    ids=["sort", "filter", "map", "drop", "map pandas", "map pyarrow", "add_column"],
)
def test_operators_that_make_rows_give_arrow_types(data, operation):
    frame = original().drop(columns=["object", "category"])
    found = operation(data.from_pandas(frame))
    assert types(found.to_pandas())["int"] == "int64[pyarrow]"
    assert types(found.to_pandas())["Int64"] == "int64[pyarrow]"


def test_renamed_columns_keep_the_types_of_pandas(data):
    found = data.from_pandas(original()).rename_columns({"Int64": "renamed", "int": "Int64"})
    assert types(found.to_pandas())["renamed"] == "Int64"
    assert types(found.to_pandas())["Int64"] == "int64"


def test_schema_of_pandas(data):
    schema = data.from_pandas(original().drop(columns=["category"])).schema()
    assert schema.types == [pa.int64(), pa.string(), pa.int64(), object, pa.timestamp("us")]


def test_files_do_not_remember_pandas(data, tmp_path):
    frame = original().drop(columns=["object", "category"])
    data.from_pandas(frame).write_parquet(str(tmp_path))
    assert types(data.read_parquet(str(tmp_path)).to_pandas())["Int64"] == "int64[pyarrow]"


def test_the_setting_for_types_of_numpy(numpy_backed):
    dataset = numpy_backed.range(2)
    assert types(dataset.to_pandas()) == {"id": "int64"}
    assert types(dataset.take_batch(2, batch_format="pandas")) == {"id": "int64"}
    mapped = dataset.map_batches(describe(), batch_format="pandas").take_all()
    assert mapped[0] == {"kinds": "{'id': 'int64'}"}
    grouped = dataset.groupby("id").map_groups(describe(), batch_format="pandas").take_all()
    assert grouped == [{"kinds": "{'id': 'int64'}"}] * 2
    added = dataset.add_column("kind", lambda frame: [str(frame["id"].dtype)] * len(frame))
    assert added.take_all()[0]["kind"] == "int64"
