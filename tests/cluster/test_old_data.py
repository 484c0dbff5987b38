"""Data sets of older Rays: pipelines of windows and epochs, modules that moved, options that left."""

from __future__ import annotations

import importlib
import warnings

import numpy as np
import pandas as pd
import pytest

import raycompat as ray
from raycompat._old.data import ml_dataset
from raycompat._surface import era
from raycompat.data.preprocessors import Concatenator
from raycompat.exceptions import OldFormWarning, UnsupportedRayFeatureError
from raycompat.util.iter import from_items

pytestmark = pytest.mark.filterwarnings("ignore::raycompat.exceptions.OldFormWarning")


@pytest.fixture(scope="module", autouse=True)
def cluster():
    ray.init(num_cpus=2)
    yield
    ray.shutdown()


def ids(rows):
    return [row["id"] for row in rows]


def numbers(n, blocks):
    return ray.data.range(n, override_num_blocks=blocks)


def test_windows_are_some_blocks_each_and_have_all_rows():
    pipeline = numbers(10, 5).window(blocks_per_window=2)
    assert [ids(window.take_all()) for window in pipeline.iter_datasets()] == [
        [0, 1, 2, 3],
        [4, 5, 6, 7],
        [8, 9],
    ]
    assert ids(pipeline.take_all()) == list(range(10))  # it can be read again
    assert (pipeline.count(), pipeline.sum(), ids(pipeline.take(2))) == (10, 45, [0, 1])
    assert [
        window.count() for window in numbers(10, 5).window(bytes_per_window=1).iter_datasets()
    ] == [2] * 5
    with pytest.raises(ValueError, match="more rows"):
        pipeline.take_all(limit=9)


def test_each_window_is_changed():
    pipeline = numbers(8, 4).window(blocks_per_window=2).map(lambda row: {"id": 10 * row["id"]})
    batches = list(pipeline.filter(lambda row: row["id"] > 0).iter_batches(batch_size=4))
    assert [batch["id"].tolist() for batch in batches] == [[10, 20, 30], [40, 50, 60, 70]]
    shuffled = pipeline.random_shuffle_each_window(seed=1)
    assert [sorted(ids(window.take_all())) for window in shuffled.iter_datasets()] == [
        [0, 10, 20, 30],
        [40, 50, 60, 70],
    ]


def test_epochs():
    pipeline = numbers(3, 1).repeat(2)
    assert ids(pipeline.iter_rows()) == [0, 1, 2, 0, 1, 2]
    assert [epoch.count() for epoch in pipeline.iter_epochs()] == [3, 3]
    endless = numbers(3, 1).repeat()
    assert ids(endless.take(7)) == [0, 1, 2, 0, 1, 2, 0]
    assert [ids(epoch.iter_rows()) for epoch in endless.iter_epochs(2)] == [[0, 1, 2]] * 2
    both = numbers(4, 2).window(blocks_per_window=1).repeat(2)
    assert [[w.count() for w in e.iter_datasets()] for e in both.iter_epochs()] == [[2, 2]] * 2


def test_to_tf_reads_windows_one_after_the_other():
    pytest.importorskip("tensorflow")
    columns = {"feature_columns": "id", "label_columns": "id", "batch_size": 2}
    endless = numbers(4, 2).repeat().to_tf(**columns)
    assert [x.numpy().tolist() for x, _ in endless.take(3)] == [[0, 1], [2, 3], [0, 1]]
    empty = type(numbers(1, 1).repeat(1))(lambda: iter([]))
    with pytest.raises(ValueError, match="no windows"):
        empty.to_tf(**columns)


def test_what_a_pipeline_cannot_do_says_what_to_do():
    pipeline = numbers(4, 2).window(blocks_per_window=1)
    with pytest.raises(ValueError, match=r"split\(0\)"):
        pipeline.split(0)
    with pytest.raises(UnsupportedRayFeatureError, match=r"Use Dataset\.groupby before"):
        pipeline.groupby("id")
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = pipeline.nonsense
    with pytest.raises(ValueError, match=r"repeat\(0\)"):
        pipeline.repeat(0)
    with pytest.raises(ValueError, match="blocks_per_window=0"):
        numbers(4, 2).window(blocks_per_window=0)


def test_the_chosen_ray_has_no_pipelines(monkeypatch):
    monkeypatch.setenv(era.VARIABLE, "2.60")
    with pytest.raises(AttributeError, match="does not have it"):
        numbers(4, 2).repeat(2)


@pytest.mark.parametrize(
    ("options", "rest", "values"),
    [
        ({"exclude": ["label"]}, ["label"], [1.0, 2.0]),
        ({"exclude": "label"}, ["label"], [1.0, 2.0]),
        ({"include": ["y", "x"]}, ["label"], [1.0, 2.0]),
        ({"include": ["x", "y"], "exclude": ["y"]}, ["y", "label"], [1.0]),
        ({"exclude": ["y"], "include": ["x", "y"]}, ["y", "label"], [1.0]),
    ],
)
def test_concatenator_of_its_time(options, rest, values):
    frame = pd.DataFrame({"x": [1.0], "y": [2.0], "label": [0]})
    made = Concatenator(output_column_name="all", **options).transform(ray.data.from_pandas(frame))
    (row,) = made.take_all()
    assert list(row) == [*rest, "all"]
    np.testing.assert_array_equal(row["all"], values)


def test_numpy_files_have_the_only_column(tmp_path):
    numbers(3, 1).write_numpy(str(tmp_path))
    (file,) = tmp_path.iterdir()
    np.testing.assert_array_equal(np.load(file), [0, 1, 2])
    pairs = ray.data.from_items([{"a": 1, "b": 2}])
    with pytest.raises(ValueError, match=r"2: \['a', 'b'\]\. Say which"):
        pairs.write_numpy(str(tmp_path))


def test_names_of_their_time():
    assert ids(ray.data.read_api.from_items([{"id": 1}]).take()) == [1]
    assert ray.data.range_arrow(2).take_all() == [{"value": 0}, {"value": 1}]
    pipeline = importlib.import_module("raycompat.data.dataset_pipeline").DatasetPipeline
    assert isinstance(numbers(2, 1).repeat(1), pipeline)
    hasher = importlib.import_module("raycompat.data.preprocessors.hasher")
    assert hasher.FeatureHasher is ray.data.preprocessors.FeatureHasher
    with pytest.raises(UnsupportedRayFeatureError, match="read_parquet"):
        ray.data.datasource.ParquetDatasource("file")
    with pytest.raises(UnsupportedRayFeatureError, match="from_items"):
        ray.data.read_lance("file")


def test_an_old_form_warns(monkeypatch):
    from raycompat._surface import forms

    monkeypatch.setattr(forms, "_seen", set())
    monkeypatch.setattr(forms, "_is_first_in_program", None)
    with pytest.warns(OldFormWarning, match="for each epoch"):
        numbers(2, 1).repeat(2)


# Tables of `ray.util.data`.


def tables(num_shards=2, batch_size=2, repeat=False):
    rows = from_items([{"a": i} for i in range(6)], num_shards, repeat)
    return ml_dataset.from_parallel_iter(rows, batch_size=batch_size, repeated=repeat)


def test_data_sets_are_joined_with_their_like():
    ours = tables()
    assert ours.union(tables()).batch_size == 2
    assert ours.union(tables(batch_size=3)).batch_size == 0
    with pytest.raises(TypeError, match="MLDataset"):
        ours.union(from_items([1], 1))
    with pytest.raises(TypeError, match="only one of them has an end"):
        ours.union(tables(repeat=True))


@pytest.mark.parametrize("method", ["flatten", "combine"])
def test_operators_that_make_no_tables_are_refused(method):
    with pytest.raises(UnsupportedRayFeatureError, match="Use transform"):
        getattr(tables(), method)(*[list] * (method == "combine"))


def test_rows_without_columns_are_refused():
    with pytest.raises(ValueError, match="0 is not a row of a table"):
        ml_dataset.to_pandas(from_items([0, 1], 1)).take(1)


def test_tables_of_all_shards_come_in_turn():
    found = [table.a.tolist() for table in tables().get_repeatable_shard(-1, num_async=0)]
    assert found == [[0, 2], [1, 3], [4], [5]]


def test_tables_are_rows_of_tensorflow():
    tf = pytest.importorskip("tensorflow")
    frame = pd.DataFrame({"a": [0, 2], "b": [1, 3], "c": [0, -1]})
    asked = []

    class Data(ml_dataset.MLDataset):
        def __init__(self):
            """Without actors: TensorFlow keeps the rows for as long as the process lives."""

        def num_shards(self):
            return 2

        def repartition(self, num_partitions):
            asked.append(num_partitions)
            return self

        def get_repeatable_shard(self, index, *order):
            asked.append((index, *order))
            return [frame]

    data = Data().to_tf(["a", "b"], label_column="c")
    data.set_num_shards(2)
    data.set_num_shards(1)
    rows = list(data.get_shard(0, 5).as_numpy_iterator())
    assert rows == [((0.0, 1.0), 0.0), ((2.0, 3.0), -1.0)]
    assert asked == [1, (0, 5)]
    one = Data().to_tf("a", None, [tf.int64], label_column="c")
    assert next(iter(one.get_shard(-1)))[0].dtype == tf.int64


def test_a_function_of_batches_is_a_preprocessor():
    from raycompat.data.preprocessors import BatchMapper, Chain

    sizes = BatchMapper(lambda batch: {"id": [len(batch["id"])]}, "numpy", batch_size=2)
    assert ids(sizes.transform(numbers(5, 1)).take_all()) == [2, 2, 1]
    chain = Chain(BatchMapper(lambda frame: frame * 2), sizes)
    assert ids(chain.fit_transform(numbers(5, 1)).take_all()) == [2, 2, 1]
    assert BatchMapper(str).fit_status().name == "NOT_FITTABLE"
    frame = pd.DataFrame({"id": [1, 2]})
    assert chain.preprocessors[0].transform_batch(frame).id.tolist() == [2, 4]


def test_annotations_name_the_type_of_rows():
    classes = (ray.data.Dataset, ray.data.Datasource, ray.data.grouped_data.GroupedData)
    assert [of[int].__args__ for of in classes] == [(int,)] * 3


def test_a_part_of_a_data_set_is_one_itself():
    part, other = ray.data.range(5).streaming_split(2, equal=True)
    assert (part.count(), part.sum("id")) == (2, 1)  # without the other one
    assert ids(part.map_batches(lambda batch: batch).take_all()) == [0, 1]  # and the same rows
    assert other.to_pandas().id.tolist() == [2, 3]
    assert sum(table.num_rows for table in ray.get(other.to_arrow())) == 2
    whole = ray.data.range(4).iterator()
    assert (whole.count(), whole.sum("id"), len(whole.to_pandas())) == (4, 6, 4)


def test_a_part_of_a_data_set_has_the_methods_of_its_time(monkeypatch):
    part = ray.data.range(4).iterator()
    for name in ("nothing", "context", "name", "copy", "streaming_split", "write_datasource"):
        assert not hasattr(part, name)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert hasattr(part, "count")  # the call warns
    monkeypatch.setenv(era.VARIABLE, "2.2")
    assert (part.count(), hasattr(part, "to_arrow")) == (4, False)
    monkeypatch.setenv(era.VARIABLE, "2.60")
    with pytest.raises(AttributeError, match=r"Ray 2\.60\.0 was chosen, which does not have it"):
        part.count  # noqa: B018


def test_parquet_files_are_read_by_row_groups(tmp_path):
    for part in range(2):
        folder = tmp_path / f"part={part}"
        folder.mkdir()
        frame = pd.DataFrame({"a": range(part * 4, part * 4 + 4), "b": 0.5})
        frame.to_parquet(folder / "rows.parquet", row_group_size=2)
    read = ml_dataset.read_parquet(str(tmp_path), num_shards=2, columns=["a", "part"])
    found = list(read.gather_sync())
    assert [table.a.tolist() for table in found] == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert [int(table.part[0]) for table in found] == [0, 0, 1, 1]
    by_file = ml_dataset.read_parquet(str(tmp_path), 2, rowgroup_split=False, shuffle=True)
    shards = [{i for table in shard for i in table.a} for shard in by_file.shards()]
    assert sorted(map(sorted, shards)) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    with pytest.raises(ValueError, match="has only 2 files"):
        ml_dataset.read_parquet(str(tmp_path), 3, rowgroup_split=False)
