"""The column that counts the rows of a data set without columns is not shown; Ray shows it."""

from __future__ import annotations

import dask
import pyarrow as pa
import pytest

import raycompat as ray
from raycompat.data.expressions import lit

pytestmark = pytest.mark.usefixtures("cluster")


def test_the_column_that_counts_rows_is_not_shown():
    rows = ray.data.range(5).select_columns([])
    assert rows.to_pandas().shape == (5, 0)
    assert sum(len(frame) for frame in ray.get(rows.to_pandas_refs())) == 5
    assert [part.to_pandas().shape for part in rows.split(2)] == [(3, 0), (2, 0)]
    assert all(found == {} for found in ray.get(rows.to_numpy_refs()))
    with dask.config.set(scheduler=None):
        assert rows.to_dask().compute().shape == (5, 0)
        dask.config.serialize(dask.config.global_config)  # as clusters do that the program starts


def test_rows_without_columns_get_columns_alone():
    rows = ray.data.range(2).select_columns([])
    more = ray.data.from_items([{"x": 1}, {"x": 2}])
    for made in (
        rows.union(more),
        rows.union(more).repartition(1),
        rows.zip(more),
        more.zip(rows),
        rows.add_column("x", lambda frame: [1] * len(frame)),
        rows.with_column("x", lit(1)),
    ):
        assert made.to_pandas().columns.tolist() == ["x"]
        assert made.repartition(1).rename_columns(["y"]).columns() == ["y"]
    tables = ray.get(rows.zip(more).to_arrow_refs())
    assert pa.concat_tables(tables).column_names == ["x"]
    assert rows.zip(rows).to_pandas().shape == (2, 0)
