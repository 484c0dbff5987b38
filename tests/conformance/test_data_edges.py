"""Edges of data sets: files with a schema, names, blocks, and divisions by values."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet
import pytest


def test_a_schema_of_write_parquet_gives_the_types(ray, tmp_path):
    path = str(tmp_path / "typed")
    schema = pa.schema([("id", pa.float32())])
    ray.data.range(2, override_num_blocks=1).write_parquet(path, schema=schema)
    (file,) = (tmp_path / "typed").iterdir()
    assert pyarrow.parquet.read_schema(file).field("id").type == pa.float32()


def test_a_schema_of_write_parquet_gives_the_types_in_folders_of_values(ray, tmp_path):
    schema = pa.schema([("k", pa.int64()), ("v", pa.float32())])
    rows = [{"k": i % 2, "v": i} for i in range(4)]
    table = ray.data.from_items(rows, override_num_blocks=1)
    table.write_parquet(str(tmp_path), schema=schema, partition_cols=["k"])
    for name, values in (("k=0", [0.0, 2.0]), ("k=1", [1.0, 3.0])):
        (file,) = (tmp_path / name).iterdir()
        written = pyarrow.parquet.ParquetFile(file).read()
        assert written.schema.field("v").type == pa.float32()
        assert written["v"].to_pylist() == values


@pytest.mark.parametrize("method", ["write_csv", "write_json", "write_parquet"])
def test_two_names_of_the_least_number_of_rows_are_refused(ray, tmp_path, method):
    write = getattr(ray.data.range(20), method)
    with pytest.raises(ValueError, match="num_rows_per_file"):
        write(str(tmp_path), min_rows_per_file=5, num_rows_per_file=5)


def test_a_name_goes_on_to_what_is_made_of_a_data_set(ray):
    numbers = ray.data.range(3)
    numbers.set_name("numbers")
    assert numbers.map(lambda row: row).name == "numbers"
    assert numbers.limit(2).filter(lambda row: True).name == "numbers"
    assert ray.data.range(3).name is None


def test_zip_without_a_data_set_is_refused_at_once_or_when_executed(ray):
    with pytest.raises((AssertionError, ValueError)):
        ray.data.range(3).zip().take_all()


@pytest.mark.parametrize(("rows", "share", "tests"), [(11, 0.25, 2), (10, 0.25, 2), (6, 0.5, 3)])
def test_each_value_gives_whole_rows_for_tests(ray, rows, share, tests):
    labelled = ray.data.from_items(
        [{"label": 0, "v": i} for i in range(rows)], override_num_blocks=1
    )
    train, test = labelled.train_test_split(share, stratify="label")
    assert (train.count(), test.count()) == (rows - tests, tests)


def test_blocks_are_changed_by_their_columns(ray):
    table = pa.table({"a": [3, 1, 2], "b": ["x", "y", "z"]})
    access = ray.data.block.BlockAccessor.for_block(table)
    assert access.drop(["a"]).column_names == ["b"]
    assert list(access.column_names()) == ["a", "b"]
    assert access.zip(pa.table({"a": [1, 2, 3]}))["a_1"].to_pylist() == [1, 2, 3]
    with pytest.raises(ValueError, match="row|length"):
        access.zip(pa.table({"a": [1]}))
    assert access.upsert_column("b", pa.array([1, 2, 3])).column_names == ["a", "b"]
    assert access.upsert_column("b", pa.array([1, 2, 3]))["b"].to_pylist() == [1, 2, 3]
    assert access.upsert_column("c", pa.array([1, 2, 3])).column_names == ["a", "b", "c"]
    assert access.fill_column("c", 7)["c"].to_pylist() == [7, 7, 7]


def test_rows_of_a_block_are_shuffled_by_a_seed(ray):
    access = ray.data.block.BlockAccessor.for_block(pa.table({"a": list(range(50))}))
    shuffled = access.random_shuffle(3)["a"].to_pylist()
    assert shuffled == access.random_shuffle(3)["a"].to_pylist()
    assert shuffled != list(range(50))
    assert sorted(shuffled) == list(range(50))


def test_bundles_have_the_references_and_counts_of_blocks(ray):
    numbers = ray.data.range(4, override_num_blocks=2).map(lambda row: {"id": row["id"] + 1})
    bundles = list(numbers.iter_internal_ref_bundles())
    blocks = [block for bundle in bundles for block in ray.get(list(bundle.block_refs))]
    assert sorted(value for block in blocks for value in block["id"].to_pylist()) == [1, 2, 3, 4]
    assert sum(bundle.num_rows() for bundle in bundles) == 4
    assert sum(bundle.size_bytes() for bundle in bundles) == 32
    assert [metadata.num_rows for bundle in bundles for metadata in bundle.metadata] == [2, 2]
    assert all(bundle.schema.names == ["id"] for bundle in bundles)
    entries = [entry for bundle in bundles for entry in bundle.blocks]
    assert [ray.get(entry.ref).num_rows for entry in entries] == [2, 2]
    assert [entry.metadata.num_rows for entry in entries] == [2, 2]
