"""Readers of files, without a cluster."""

import pyarrow as pa
import pyarrow.dataset
import pyarrow.fs
import pyarrow.parquet
import pytest

from raycompat.data import readers

FIELD = pyarrow.dataset.field


@pytest.fixture
def path(tmp_path):
    path = str(tmp_path / "numbers.parquet")
    table = pa.table({"a": list(range(100)), "b": [-a for a in range(100)]})
    pyarrow.parquet.write_table(table, path, row_group_size=10)
    return path


def read(path, columns=None, groups=None, **options):
    reader = readers.Parquet(columns, groups, options)
    return pa.concat_tables(reader(pyarrow.fs.LocalFileSystem(), path, {}))


def test_a_condition_may_be_of_a_column_that_is_not_read(path):
    assert read(path, ["b"], filter=FIELD("a") > 97).to_pydict() == {"b": [-98, -99]}


def test_a_condition_and_some_groups_of_rows(path):
    assert read(path, ["a"], [2, 3], filter=FIELD("a") < 22)["a"].to_pylist() == [20, 21]


def test_a_condition_that_nothing_fits_leaves_the_columns(path):
    table = read(path, filter=FIELD("a") > 1000)
    assert (table.num_rows, table.column_names) == (0, ["a", "b"])


def test_a_condition_of_a_schema(path):
    schema = pa.schema([("a", pa.float64()), ("new", pa.string())])
    table = read(path, schema=schema, filter=FIELD("a") > 98)
    assert table.to_pylist() == [{"a": 99.0, "new": None}]


def test_groups_of_rows_that_cannot_fit_are_not_read(path):
    first = pyarrow.parquet.read_metadata(path).row_group(0).column(0)
    with open(path, "r+b") as file:
        file.seek(first.data_page_offset)
        file.write(b"\xff" * 16)
    with pytest.raises(OSError):
        read(path)
    assert read(path, ["a"], filter=FIELD("a") >= 98)["a"].to_pylist() == [98, 99]


def test_a_column_that_is_missing_is_named(path):
    with pytest.raises(ValueError, match="zz"):
        read(path, ["zz"], filter=FIELD("a") > 1)
