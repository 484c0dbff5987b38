"""`Dataset.summary`, and files whose libraries are missing. Ray's own summary fails with pandas 3."""

import datetime
import importlib.util

import numpy as np
import pyarrow as pa
import pytest

import raycompat as ray
import raycompat.data
from raycompat.data.aggregate import Sum
from raycompat.data.datatype import DataType

pytestmark = pytest.mark.timeout(180)


@pytest.fixture
def people(cluster):
    ray.data.DataContext.get_current().enable_progress_bars = False
    return ray.data.from_items(
        [
            {"age": 25, "salary": 50000, "city": "Oslo"},
            {"age": 35, "salary": None, "city": None},
            {"age": 0, "salary": 60000, "city": "Oslo"},
        ]
    )


def test_statistics_by_types(people):
    table = people.summary().to_pandas().set_index("statistic")
    assert list(table.columns) == ["age", "city", "salary"]
    assert table["age"].to_dict() == pytest.approx(
        {
            "approx_quantile[0]": 25,
            "approx_topk[0]": float("nan"),
            "count": 3,
            "max": 35,
            "mean": 20,
            "min": 0,
            "missing_pct": 0,
            "std": 14.719601,
            "zero_pct": 100 / 3,
        },
        nan_ok=True,
    )
    assert table.loc["approx_topk[0]", "city"] == {"city": "Oslo", "count": 2}
    assert table.loc["missing_pct", "salary"] == pytest.approx(100 / 3)
    assert table.loc["mean", "city"] is None


def test_some_columns(people):
    summary = people.summary(columns=["age"])
    assert list(summary.to_pandas().columns) == ["statistic", "age"]
    stats = summary.get_column_stats("age").set_index("statistic")["value"]
    assert (stats["min"], stats["count"]) == (0, 3)
    for wrong in (
        lambda: people.summary(columns=["none"]),
        lambda: summary.get_column_stats("city"),
    ):
        with pytest.raises(ValueError, match="no column"):
            wrong()


def test_other_aggregations_of_a_type(people):
    summary = people.summary(
        override_dtype_agg_mapping={DataType.int64(): lambda name: [Sum(name)]}
    )
    assert summary.statistics["age"] == {"sum": 60}
    assert "missing_pct" in summary.statistics["city"]


def test_every_type_has_a_summary(cluster):
    day = datetime.date(2020, 1, 1)
    columns = {
        "time": [datetime.datetime(2020, 1, 1), None],
        "date": [day, day],
        "duration": [datetime.timedelta(1)] * 2,
        "bool": [True, False],
        "list": [[1, 2], [3]],
        "struct": [{"a": 1}] * 2,
        "structs": [[{"a": 1}], []],
        "bytes": [b"x", b"y"],
        "null": pa.nulls(2),
    }
    found = ray.data.from_arrow(pa.table(columns)).summary().statistics
    assert all(stats["count"] == 2 for stats in found.values())
    assert found["time"]["missing_pct"] == 50 and found["null"]["missing_pct"] == 100
    assert found["date"]["min"] == day and found["bool"]["mean"] == 0.5
    assert found["list"]["approx_topk[0]"]["count"] == 1


def test_tensors_have_no_frequent_values(cluster):
    same = ray.data.range_tensor(4, shape=(2, 2)).summary().statistics["data"]
    assert same == {"count": 4, "missing_pct": 0}
    other = ray.data.from_items([{"t": np.zeros((size, 2))} for size in (1, 2)])
    assert other.summary().statistics["t"] == {"count": 2, "missing_pct": 0}


def test_columns_are_a_list(people):
    with pytest.raises(TypeError, match=r"expected a list of names, \['age'\]"):
        people.summary(columns="age")


def test_a_data_set_without_columns(cluster):
    assert list(ray.data.from_items([]).summary().to_pandas().columns) == ["statistic"]


@pytest.mark.parametrize(
    ("function", "library", "name"),
    [("read_avro", "fastavro", "a.avro"), ("read_audio", "soundfile", "a.wav")],
)
def test_a_library_is_missing(cluster, tmp_path, function, library, name):
    if importlib.util.find_spec(library):
        pytest.skip(f"{library} is installed")
    (tmp_path / name).write_bytes(b"")
    with pytest.raises(ImportError, match=f"pip install {library}"):
        getattr(ray.data, function)(str(tmp_path / name))
