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


def column(values, dtype):
    return pd.DataFrame({"x": pd.array(values, dtype=dtype)})


def expression(data):
    module = importlib.import_module(f"{data.__name__}.expressions")
    return module.col, importlib.import_module(f"{data.__name__}.datatype").DataType


@pytest.mark.parametrize(
    ("compute", "dtype", "values"),
    [
        (lambda x: x / 2.0, "Float64", [0.5, 1.0, None]),
        (lambda x: x > 1, "boolean", [False, True, None]),
        (lambda x: x + 1, "Int64", [2, 3, None]),
    ],
    ids=["divide", "compare", "add"],
)
@pytest.mark.parametrize("name", ["x", "y"])
def test_a_computed_column_has_the_type_of_its_values(data, name, compute, dtype, values):
    col, _ = expression(data)
    dataset = data.from_pandas(column([1, 2, None], "Int64")).with_column(name, compute(col("x")))
    found = dataset.to_pandas()
    assert types(found) == {"x": "Int64", name: dtype}
    assert [None if value is pd.NA else value for value in found[name]] == values


def test_a_cast_column_has_its_new_type(data):
    col, datatype = expression(data)
    texts = data.from_pandas(column(["1", "2"], "string"))
    found = texts.with_column("x", col("x").cast(datatype.int64())).to_pandas()
    assert types(found) == {"x": "int64"}
    assert found["x"].tolist() == [1, 2]


@pytest.mark.parametrize(
    ("compute", "dtype"),
    [
        (lambda o, i, _: o > 1, "bool"),
        (lambda o, i, _: o + 1, "object"),
        (lambda o, i, datatype: o.cast(datatype.int64()), "int64"),
        (lambda o, i, datatype: i.cast(datatype.float64()), "float64"),
        (lambda o, i, _: i.is_null(), "bool"),
        (lambda o, i, _: i.is_in([1]), "boolean"),
    ],
    ids=["compare", "add", "cast object", "cast Int64", "is_null", "is_in"],
)
def test_the_types_of_expressions(data, compute, dtype):
    col, datatype = expression(data)
    frame = pd.DataFrame({"o": pd.Series([1, 2], dtype=object)}).assign(
        i=pd.array([1, None], dtype="Int64")
    )
    made = data.from_pandas(frame).with_column("new", compute(col("o"), col("i"), datatype))
    assert types(made.to_pandas()) == {"o": "object", "i": "Int64", "new": dtype}


def test_a_new_column_has_no_type_of_a_removed_one(data):
    col, datatype = expression(data)
    frame = pd.DataFrame({"x": ["1"], "y": [1.5]}).astype({"x": "string", "y": "Float64"})
    dataset = data.from_pandas(frame).select_columns(["x"])
    found = dataset.with_column("y", col("x").cast(datatype.int64())).to_pandas()
    assert types(found) == {"x": "string", "y": "int64"}


@pytest.mark.parametrize(
    ("first", "second", "dtype", "values"),
    [
        (([1.5], "Float32"), ([1e300], "float64"), "Float64", [1.5, 1e300]),
        (([1, None], "Int64"), ([1.5], "float64"), "Float64", [1, None, 1.5]),
        (([1], "Int8"), ([300], "int64"), "Int64", [1, 300]),
        (([1, None], "Int64"), ([3], "int64"), "Int64", [1, None, 3]),
        (([1, None], "Int64"), ([3], "Int64"), "Int64", [1, None, 3]),
    ],
    ids=["Float32 float64", "Int64 float64", "Int8 int64", "Int64 int64", "Int64 Int64"],
)
def test_frames_of_different_types_are_joined_as_by_pandas(data, first, second, dtype, values):
    dataset = data.from_pandas([column(*first), column(*second)])
    (batch,) = dataset.iter_batches(batch_format="pandas", batch_size=len(values))
    for found in (dataset.to_pandas(), batch):
        assert types(found) == {"x": dtype}
        assert [None if value is pd.NA else value for value in found["x"]] == values


def test_zipped_frames_keep_the_types_of_pandas(data):
    dataset = data.from_pandas(column([1, None], "Int64"))
    assert types(dataset.zip(dataset).to_pandas()) == {"x": "Int64", "x_1": "Int64"}


def test_tables_tell_nothing_of_raycompat(cluster, data):
    dataset = data.from_pandas(column([1, None], "Int64"))
    (table,) = cluster.get(dataset.to_arrow_refs())
    assert table["x"].to_pylist() == [1, None]
    assert not [key for key in table.schema.metadata or {} if b"raycompat" in key]


@pytest.mark.parametrize("value", [{"a": [1]}, pa.table({"a": [1]})], ids=["dict", "table"])
def test_what_is_no_frame_is_refused(data, value):
    with pytest.raises((TypeError, AttributeError)):
        data.from_pandas(value)


def test_a_record_batch_is_no_table(data):
    with pytest.raises((TypeError, AttributeError)):
        data.from_arrow([pa.record_batch({"a": [1]})]).take_all()


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
