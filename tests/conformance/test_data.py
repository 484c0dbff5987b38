"""`ray.data`: how data sets are made, mapped, moved, aggregated and read."""

import importlib
import math
import os

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

#: The first test starts the session, and each executor imports Arrow and pandas for its first block.
pytestmark = pytest.mark.timeout(180)


@pytest.fixture
def data(cluster):
    import importlib

    module = importlib.import_module(f"{cluster.__name__}.data")
    module.DataContext.get_current().enable_progress_bars = False
    return module


@pytest.fixture
def aggregates(cluster, data):
    import importlib

    return importlib.import_module(f"{cluster.__name__}.data.aggregate")


@pytest.fixture
def preprocessors(cluster, data):
    import importlib

    return importlib.import_module(f"{cluster.__name__}.data.preprocessors")


def by(rows, key):
    return sorted(rows, key=lambda row: (row[key] is None, row[key]))


def ids(dataset):
    return sorted(row["id"] for row in dataset.take_all())


# Made of values.


def test_range(data):
    assert ids(data.range(5)) == [0, 1, 2, 3, 4]


def test_range_knows_its_rows_and_columns(data):
    dataset = data.range(7)
    assert dataset.count() == 7
    assert dataset.columns() == ["id"]
    assert dataset.schema().types == [pa.int64()]


def test_range_of_nothing(data):
    assert data.range(0).count() == 0
    assert data.range(0).take_all() == []


def test_range_tensor(data):
    rows = data.range_tensor(2, shape=(2, 3)).take_all()
    rows = sorted(rows, key=lambda row: row["data"][0, 0])
    assert rows[1]["data"].tolist() == [[1, 1, 1], [1, 1, 1]]


@pytest.mark.parametrize(
    ("items", "rows"),
    [
        ([1, 2], [{"item": 1}, {"item": 2}]),
        (["a"], [{"item": "a"}]),
        ([{"a": 1}, {"a": 2}], [{"a": 1}, {"a": 2}]),
        ([{"a": 1, "b": "x"}], [{"a": 1, "b": "x"}]),
        ([{"a": 1}, {"b": 2}], [{"a": 1, "b": None}, {"a": None, "b": 2}]),
        ([{"a": None}, {"a": 2.5}], [{"a": None}, {"a": 2.5}]),
        ([{"a": [1, 2]}, {"a": [3]}], [{"a": [1, 2]}, {"a": [3]}]),
        ([{"a": {"b": 1}}], [{"a": {"b": 1}}]),
        ([{"a": True}], [{"a": True}]),
        ([{"a": b"x"}], [{"a": b"x"}]),
        ([], []),
    ],
)
def test_from_items(data, items, rows):
    assert data.from_items(items, override_num_blocks=1).take_all() == rows


def test_from_items_keeps_objects_that_arrow_has_no_type_for(data):
    assert data.from_items([{"a": complex(1, 2)}]).take_all() == [{"a": complex(1, 2)}]


def test_from_pandas(data):
    frame = pd.DataFrame({"a": [1, 2], "b": ["x", "y"]})
    assert data.from_pandas(frame).take_all() == [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]


def test_from_several_frames(data):
    frames = [pd.DataFrame({"a": [1]}), pd.DataFrame({"a": [2]})]
    dataset = data.from_pandas(frames)
    assert dataset.materialize().num_blocks() == 2
    assert by(dataset.take_all(), "a") == [{"a": 1}, {"a": 2}]


def test_from_arrow(data):
    assert data.from_arrow(pa.table({"a": [1, 2]})).take_all() == [{"a": 1}, {"a": 2}]


@pytest.mark.parametrize(
    "values",
    [
        np.arange(6).reshape(3, 2),
        np.ones((3, 2, 2), np.float32),
        np.arange(3),
        np.array([True, False, True]),
        np.ones((3, 2), bool),
        np.arange(3, dtype=np.uint8),
        np.ones((2, 4), np.float16),
    ],
    ids=lambda values: f"{values.dtype}{values.shape}",
)
def test_arrays_keep_their_dtype_and_shape(data, values):
    batch = data.from_numpy(values).take_batch(10)
    assert batch["data"].dtype == values.dtype
    np.testing.assert_array_equal(batch["data"], values)


def test_from_references(cluster, data):
    ref = cluster.put(pd.DataFrame({"a": [1, 2]}))
    assert data.from_pandas_refs([ref]).take_all() == [{"a": 1}, {"a": 2}]
    ref = cluster.put(np.arange(2))
    assert data.from_numpy_refs([ref]).take_all() == [{"data": 0}, {"data": 1}]
    ref = cluster.put(pa.table({"a": [3]}))
    assert data.from_arrow_refs([ref]).take_all() == [{"a": 3}]


# Maps.


def test_map(data):
    rows = data.range(3).map(lambda row: {"double": 2 * row["id"]}).take_all()
    assert by(rows, "double") == [{"double": 0}, {"double": 2}, {"double": 4}]


def test_map_gives_python_values(data):
    rows = data.range(1).map(lambda row: {"type": type(row["id"]).__name__}).take_all()
    assert rows == [{"type": "int"}]


def test_flat_map(data):
    rows = data.range(3).flat_map(lambda row: [row] * row["id"]).take_all()
    assert sorted(row["id"] for row in rows) == [1, 2, 2]


def test_filter(data):
    assert ids(data.range(6).filter(lambda row: row["id"] % 2 == 0)) == [0, 2, 4]


def test_filter_everything(data):
    dataset = data.range(6).filter(lambda row: False)
    assert dataset.count() == 0
    assert dataset.take_all() == []


def test_filter_by_an_expression(data):
    assert ids(data.range(6).filter(expr="id > 3 or id == 0")) == [0, 4, 5]


@pytest.mark.parametrize("batch_format", ["default", "numpy"])
def test_batches_are_dictionaries_of_arrays(data, batch_format):
    def double(batch):
        assert isinstance(batch, dict)
        assert isinstance(batch["id"], np.ndarray)
        return {"id": 2 * batch["id"]}

    assert ids(data.range(3).map_batches(double, batch_format=batch_format)) == [0, 2, 4]


def test_batches_are_frames(data):
    def double(batch):
        assert isinstance(batch, pd.DataFrame)
        return batch * 2

    assert ids(data.range(3).map_batches(double, batch_format="pandas")) == [0, 2, 4]


def test_batches_are_tables(data):
    def keep(batch):
        assert isinstance(batch, pa.Table)
        return batch

    assert ids(data.range(3).map_batches(keep, batch_format="pyarrow")) == [0, 1, 2]


def test_the_size_of_batches(data):
    dataset = data.range(10, override_num_blocks=1)
    rows = dataset.map_batches(lambda b: {"n": [len(b["id"])]}, batch_size=4).take_all()
    assert sorted(row["n"] for row in rows) == [2, 4, 4]


def test_a_batch_may_span_blocks(data):
    dataset = data.range(10, override_num_blocks=10)
    rows = dataset.map_batches(lambda b: {"n": [len(b["id"])]}, batch_size=10).take_all()
    assert [row["n"] for row in rows] == [10]


def test_a_function_of_batches_may_yield(data):
    def two(batch):
        yield {"id": batch["id"]}
        yield {"id": batch["id"] + 100}

    assert ids(data.range(2).map_batches(two)) == [0, 1, 100, 101]


def test_a_function_of_batches_may_return_lists(data):
    dataset = data.range(4, override_num_blocks=1).map_batches(lambda b: {"a": [1, 2]})
    assert dataset.take_all() == [{"a": 1}, {"a": 2}]


def test_arguments_of_functions(data):
    def add(batch, much, factor=1):
        return {"id": batch["id"] * factor + much}

    dataset = data.range(2).map_batches(add, fn_args=[10], fn_kwargs={"factor": 2})
    assert ids(dataset) == [10, 12]


def test_a_class_is_constructed_in_actors(data):
    class Add:
        def __init__(self, much, factor=1):
            self.much = much * factor

        def __call__(self, batch):
            return {"id": batch["id"] + self.much}

    dataset = data.range(2).map_batches(
        Add, concurrency=1, fn_constructor_args=[5], fn_constructor_kwargs={"factor": 2}
    )
    assert ids(dataset) == [10, 11]


def test_a_class_by_a_strategy(data):
    class Keep:
        def __call__(self, row):
            return row

    strategy = data.ActorPoolStrategy(min_size=1, max_size=2)
    assert ids(data.range(3).map(Keep, compute=strategy)) == [0, 1, 2]


def test_tensors_go_through_maps(data):
    dataset = data.from_numpy(np.arange(4).reshape(2, 2)).map_batches(
        lambda b: {"data": b["data"].astype(np.float32) + 0.5}
    )
    batch = dataset.take_batch(2)
    assert batch["data"].dtype == np.float32
    assert batch["data"].tolist() == [[0.5, 1.5], [2.5, 3.5]]


def test_arrays_of_several_shapes(data):
    dataset = data.from_items(
        [{"a": np.ones((2, 2))}, {"a": np.ones((1, 2))}], override_num_blocks=1
    )
    batch = dataset.take_batch(2)
    assert [value.shape for value in batch["a"]] == [(2, 2), (1, 2)]


@pytest.mark.parametrize(
    "returned", [{"a": np.arange(2), "b": np.arange(3)}, [1, 2], None, 3], ids=str
)
def test_what_is_not_a_batch_is_an_error(data, returned):
    with pytest.raises(ValueError):
        data.range(4).map_batches(lambda batch: returned).take_all()


@pytest.mark.parametrize("returned", [1, None, [1]], ids=str)
def test_what_is_not_a_row_is_an_error(data, returned):
    with pytest.raises(ValueError):
        data.range(4).map(lambda row: returned).take_all()


def test_an_error_of_a_function_names_its_type(data, cluster):
    with pytest.raises(cluster.exceptions.RayTaskError) as error:
        data.range(4).map(lambda row: row["id"] / 0).take_all()
    assert "ZeroDivisionError" in str(error.value)


@pytest.mark.parametrize(
    "options",
    [{"batch_size": 0}, {"batch_size": -1}, {"batch_format": "sparse"}, {"concurrency": 0}],
    ids=str,
)
def test_bad_options_of_map_batches(data, options):
    with pytest.raises((ValueError, TypeError)):
        data.range(4).map_batches(lambda batch: batch, **options).take_all()


# Columns.


@pytest.fixture
def table(data):
    return data.from_items([{"a": 1, "b": 2, "c": 3}], override_num_blocks=1)


def test_add_column(table):
    assert table.add_column("d", lambda frame: frame["a"] + frame["b"]).take_all() == [
        {"a": 1, "b": 2, "c": 3, "d": 3}
    ]


def test_add_column_of_arrays(table):
    added = table.add_column("d", lambda batch: batch["a"] * 10, batch_format="numpy")
    assert added.take(1)[0]["d"] == 10


def test_select_columns(table):
    assert table.select_columns(["c", "a"]).take_all() == [{"c": 3, "a": 1}]
    assert table.select_columns("b").take_all() == [{"b": 2}]


def test_drop_columns(table):
    assert table.drop_columns(["a", "c"]).take_all() == [{"b": 2}]


def test_rename_columns(table):
    assert table.rename_columns({"a": "x"}).columns() == ["x", "b", "c"]
    assert table.rename_columns(["x", "y", "z"]).take_all() == [{"x": 1, "y": 2, "z": 3}]


@pytest.mark.parametrize(
    "ask",
    [
        lambda t: t.select_columns(["z"]),
        lambda t: t.drop_columns(["z"]),
        lambda t: t.rename_columns({"z": "y"}),
        lambda t: t.sort("z"),
        lambda t: t.groupby("z").count(),
    ],
    ids=["select", "drop", "rename", "sort", "groupby"],
)
def test_a_column_that_is_not_there(table, ask):
    with pytest.raises(Exception):
        ask(table).take_all()


@pytest.mark.parametrize(
    "ask",
    [
        lambda t: t.select_columns(["a", "a"]),
        lambda t: t.drop_columns(["a", "a"]),
        lambda t: t.rename_columns({}),
        lambda t: t.rename_columns({"a": "x", "b": "x"}),
        lambda t: t.rename_columns([1, 2, 3]),
    ],
    ids=["select", "drop", "none", "same", "numbers"],
)
def test_bad_names_are_told_at_once(table, ask):
    with pytest.raises((ValueError, TypeError)):
        ask(table)


# Rows.


def test_take_and_limit(data):
    assert len(data.range(100).take(7)) == 7
    assert data.range(100).limit(7).count() == 7
    assert data.range(3).limit(7).count() == 3
    assert data.range(3).limit(0).take_all() == []


def test_take_all_with_a_limit(data):
    assert len(data.range(3).take_all(limit=3)) == 3
    with pytest.raises(ValueError):
        data.range(4).take_all(limit=3)


@pytest.mark.parametrize(
    ("batch_format", "kind"),
    [("default", dict), ("numpy", dict), ("pandas", pd.DataFrame), ("pyarrow", pa.Table)],
)
def test_formats_of_take_batch(data, batch_format, kind):
    assert isinstance(data.range(3).take_batch(2, batch_format=batch_format), kind)


def test_take_batch_of_nothing(data):
    with pytest.raises(ValueError):
        data.range(0).take_batch(2)


def test_show(data, capsys):
    data.from_items([{"a": 1}]).show()
    assert capsys.readouterr().out.strip() == "{'a': 1}"


def test_a_dataset_has_no_length(data):
    with pytest.raises((AttributeError, TypeError)):
        len(data.range(3))
    with pytest.raises(TypeError):
        iter(data.range(3))


def test_iter_rows(data):
    assert sorted(row["id"] for row in data.range(5).iter_rows()) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("options", "sizes"),
    [
        ({"batch_size": 2}, [1, 2, 2]),
        ({"batch_size": 2, "drop_last": True}, [2, 2]),
        ({"batch_size": 5}, [5]),
        ({"batch_size": 50}, [5]),
        ({"batch_size": 2, "prefetch_batches": 0}, [1, 2, 2]),
        ({"batch_size": 2, "local_shuffle_buffer_size": 4}, [1, 2, 2]),
    ],
    ids=str,
)
def test_iter_batches(data, options, sizes):
    batches = list(data.range(5).iter_batches(**options))
    assert sorted(len(batch["id"]) for batch in batches) == sizes
    rows = [int(i) for batch in batches for i in batch["id"]]
    assert len(set(rows)) == len(rows)


def test_local_shuffle_mixes_rows(data):
    dataset = data.range(200, override_num_blocks=1)
    batches = dataset.iter_batches(
        batch_size=50, local_shuffle_buffer_size=100, local_shuffle_seed=1
    )
    rows = [int(i) for batch in batches for i in batch["id"]]
    assert rows != sorted(rows)
    assert sorted(rows) == list(range(200))


def test_an_iterator_reads_again_and_again(data):
    iterator = data.range(4).iterator()
    for _ in range(2):
        assert sorted(row["id"] for row in iterator.iter_rows()) == [0, 1, 2, 3]
    batches = iterator.iter_batches(batch_size=4)
    assert [len(b["id"]) for b in batches] == [4]
    assert [len(b["id"]) for b in batches] == [4]


def test_an_iterator_in_a_task(cluster, data):
    iterator = data.range(4).iterator()

    @cluster.remote
    def total(iterator):
        return sum(row["id"] for row in iterator.iter_rows())

    assert cluster.get(total.remote(iterator)) == 6


# Order and blocks.


@pytest.mark.parametrize("descending", [False, True])
def test_sort(data, descending):
    dataset = data.from_items([3, 1, 2, 5, 4] * 4, override_num_blocks=4)
    rows = [row["item"] for row in dataset.sort("item", descending=descending).take_all()]
    assert rows == sorted([3, 1, 2, 5, 4] * 4, reverse=descending)


def test_sort_by_two_columns(data):
    items = [{"a": i % 3, "b": i} for i in range(9)]
    dataset = data.from_items(items, override_num_blocks=3)
    rows = dataset.sort(["a", "b"], descending=[False, True]).take_all()
    assert rows == sorted(items, key=lambda row: (row["a"], -row["b"]))


def test_sort_text(data):
    dataset = data.from_items([{"a": c} for c in "hello"], override_num_blocks=2).sort("a")
    assert [row["a"] for row in dataset.take_all()] == sorted("hello")


def test_sort_with_boundaries(data):
    dataset = data.range(10).sort("id", boundaries=[3, 6]).materialize()
    assert dataset.num_blocks() == 3
    assert [row["id"] for row in dataset.take_all()] == list(range(10))


def test_random_shuffle(data):
    dataset = data.range(100, override_num_blocks=4).random_shuffle()
    rows = [row["id"] for row in dataset.take_all()]
    assert rows != list(range(100))
    assert sorted(rows) == list(range(100))


def test_randomize_block_order(data):
    assert ids(data.range(10, override_num_blocks=5).randomize_block_order()) == list(range(10))


def test_random_sample(data):
    assert 0 < data.range(1000, override_num_blocks=1).random_sample(0.5, seed=1).count() < 1000
    with pytest.raises(ValueError):
        data.range(10).random_sample(1.5)


@pytest.mark.parametrize(("before", "after"), [(1, 4), (6, 2), (3, 3)])
def test_repartition(data, before, after):
    dataset = data.range(12, override_num_blocks=before).repartition(after).materialize()
    assert dataset.num_blocks() == after
    assert ids(dataset) == list(range(12))


def test_repartition_with_a_shuffle(data):
    dataset = data.range(12, override_num_blocks=2).repartition(3, shuffle=True).materialize()
    assert dataset.num_blocks() == 3
    assert ids(dataset) == list(range(12))


def test_repartition_needs_one_number(data):
    with pytest.raises(ValueError):
        data.range(3).repartition()
    with pytest.raises(ValueError):
        data.range(3).repartition(2, 2)


def test_union(data):
    assert ids(data.range(2).union(data.range(3), data.range(1))) == [0, 0, 0, 1, 1, 2]


def test_split(data):
    parts = data.range(10, override_num_blocks=5).split(2, equal=True)
    assert [part.count() for part in parts] == [5, 5]
    assert sorted(i for part in parts for i in ids(part)) == list(range(10))


def test_split_equal_leaves_rows_out(data):
    assert [part.count() for part in data.range(10).split(3, equal=True)] == [3, 3, 3]


@pytest.mark.parametrize(
    ("indices", "counts"),
    [([3], [3, 7]), ([2, 5], [2, 3, 5]), ([0, 10], [0, 10, 0]), ([20], [10, 0])],
)
def test_split_at_indices(data, indices, counts):
    dataset = data.range(10, override_num_blocks=3)
    assert [part.count() for part in dataset.split_at_indices(indices)] == counts


@pytest.mark.parametrize("indices", [[], [-1], [5, 2]], ids=str)
def test_bad_indices(data, indices):
    with pytest.raises(ValueError):
        data.range(10).split_at_indices(indices)


def test_split_proportionately(data):
    parts = data.range(10).split_proportionately([0.2, 0.5])
    assert [part.count() for part in parts] == [2, 5, 3]


@pytest.mark.parametrize("proportions", [[], [0.5, 0.5], [-0.1], [1.5]], ids=str)
def test_bad_proportions(data, proportions):
    with pytest.raises(ValueError):
        data.range(10).split_proportionately(proportions)


@pytest.mark.parametrize(("test_size", "counts"), [(0.25, (6, 2)), (3, (5, 3))])
def test_train_test_split(data, test_size, counts):
    train, test = data.range(8).train_test_split(test_size)
    assert (train.count(), test.count()) == counts
    train, test = data.range(8).train_test_split(test_size, shuffle=True, seed=1)
    assert sorted(ids(train) + ids(test)) == list(range(8))


@pytest.mark.parametrize("test_size", [0, 8, 9, 1.5, -1])
def test_bad_test_sizes(data, test_size):
    with pytest.raises(ValueError):
        data.range(8).train_test_split(test_size)


def test_materialize(data):
    dataset = data.range(10, override_num_blocks=5).map(lambda row: row).materialize()
    assert dataset.num_blocks() == 5
    assert dataset.count() == 10
    assert dataset.stats()


def test_num_blocks_of_what_is_not_made_yet(data):
    with pytest.raises(NotImplementedError):
        data.range(10).map(lambda row: row).num_blocks()


# Aggregations.


@pytest.fixture
def numbers(data):
    return data.from_items(
        [{"k": i % 2, "v": float(i), "w": i} for i in range(6)], override_num_blocks=3
    )


@pytest.mark.parametrize(
    ("method", "value"), [("sum", 15.0), ("min", 0.0), ("max", 5.0), ("mean", 2.5)]
)
def test_aggregations_of_all(numbers, method, value):
    assert getattr(numbers, method)("v") == value


def test_std(numbers):
    assert numbers.std("v") == pytest.approx(np.std(range(6), ddof=1))
    assert numbers.std("v", ddof=0) == pytest.approx(np.std(range(6)))


def test_aggregations_of_several_columns(numbers):
    assert numbers.sum(["v", "w"]) == {"sum(v)": 15.0, "sum(w)": 15}


def test_aggregations_of_nothing(data):
    assert data.range(0).sum("id") is None
    assert data.range(0).min("id") is None


def test_unique(data):
    assert sorted(data.from_items([3, 1, 1, 2]).unique("item")) == [1, 2, 3]


def test_groups_are_counted(numbers):
    assert by(numbers.groupby("k").count().take_all(), "k") == [
        {"k": 0, "count()": 3},
        {"k": 1, "count()": 3},
    ]


@pytest.mark.parametrize(
    ("method", "values"),
    [("sum", [6.0, 9.0]), ("min", [0.0, 1.0]), ("max", [4.0, 5.0]), ("mean", [2.0, 3.0])],
)
def test_aggregations_of_groups(numbers, method, values):
    rows = by(getattr(numbers.groupby("k"), method)("v").take_all(), "k")
    assert [row[f"{method}(v)"] for row in rows] == values


def test_std_of_groups(numbers):
    rows = by(numbers.groupby("k").std("v").take_all(), "k")
    assert [row["std(v)"] for row in rows] == pytest.approx([2.0, 2.0])


def test_several_aggregations(numbers, aggregates):
    made = numbers.groupby("k").aggregate(
        aggregates.Count(),
        aggregates.Sum("v", alias_name="total"),
        aggregates.Quantile("v", q=0.5),
        aggregates.AbsMax("v"),
    )
    row = by(made.take_all(), "k")[1]
    assert row["count()"] == 3
    assert row["total"] == 9.0
    assert row["quantile(v)"] == 3.0
    assert row["abs_max(v)"] == 5.0


def test_groups_by_two_columns(data):
    items = [{"a": i % 2, "b": i % 3, "c": i} for i in range(12)]
    rows = data.from_items(items, override_num_blocks=2).groupby(["a", "b"]).count().take_all()
    assert sorted((row["a"], row["b"], row["count()"]) for row in rows) == [
        (a, b, 2) for a in range(2) for b in range(3)
    ]


@pytest.mark.parametrize("ignore_nulls", [True, False])
def test_missing_values_in_sums(data, ignore_nulls):
    dataset = data.from_items([{"a": 1}, {"a": None}, {"a": 3}], override_num_blocks=2)
    assert dataset.sum("a", ignore_nulls=ignore_nulls) == (4 if ignore_nulls else None)


def test_an_aggregation_of_ones_own(numbers, aggregates):
    product = aggregates.AggregateFn(
        init=lambda key: 1.0,
        accumulate_row=lambda state, row: state * (row["v"] + 1),
        merge=lambda left, right: left * right,
        name="product",
    )
    assert numbers.aggregate(product) == {"product": 720.0}
    rows = by(numbers.groupby("k").aggregate(product).take_all(), "k")
    assert [row["product"] for row in rows] == [15.0, 48.0]


def test_a_function_of_groups_gets_a_data_frame_by_default(numbers):
    def shares(group):
        return group.apply(lambda values: values / values.sum() if values.name == "v" else values)

    for options in ({}, {"batch_format": "default"}):
        rows = numbers.groupby("k").map_groups(shares, **options).take_all()
        shared = {}
        for row in rows:
            shared[row["k"]] = shared.get(row["k"], 0) + row["v"]
        assert len(rows) == numbers.count()
        assert all(abs(total - 1) < 1e-9 for total in shared.values())


@pytest.mark.parametrize("batch_format", ["numpy", "pandas"])
def test_map_groups(numbers, batch_format):
    def summed(group):
        return {
            "k": [int(group["k"][0] if batch_format == "numpy" else group["k"].iloc[0])],
            "total": [float(group["v"].sum())],
        }

    rows = numbers.groupby("k").map_groups(summed, batch_format=batch_format).take_all()
    assert by(rows, "k") == [{"k": 0, "total": 6.0}, {"k": 1, "total": 9.0}]


def test_a_class_maps_groups_in_actors(data):
    class Weighted:
        def __init__(self, weight):
            self.weight = weight

        def __call__(self, group, offset):
            total = self.weight * group["v"].sum() + offset
            return {"k": group["k"][:1], "total": [int(total)], "process": [os.getpid()]}

    rows = (
        data.from_items([{"k": number % 3, "v": number} for number in range(9)])
        .groupby("k")
        .map_groups(Weighted, fn_constructor_args=(10,), fn_args=(1,), concurrency=1)
        .take_all()
    )
    assert {row["k"]: row["total"] for row in rows} == {0: 91, 1: 121, 2: 151}
    assert len({row["process"] for row in rows}) == 1


def test_a_function_of_groups_has_options(cluster, data):
    get_gpu_ids = cluster.get_gpu_ids

    def gpus(group):
        return {"k": group["k"][:1], "gpus": [len(get_gpu_ids())]}

    groups = data.from_items([{"k": number % 2} for number in range(4)]).groupby("k")
    rows = groups.map_groups(gpus, num_gpus=1).take_all()
    assert by(rows, "k") == [{"k": 0, "gpus": 1}, {"k": 1, "gpus": 1}]


# Files.


def test_csv(data, tmp_path):
    data.from_items([{"a": i, "b": f"x{i}"} for i in range(4)]).write_csv(str(tmp_path / "out"))
    rows = data.read_csv(str(tmp_path / "out")).take_all()
    assert by(rows, "a") == [{"a": i, "b": f"x{i}"} for i in range(4)]


def test_json(data, tmp_path):
    data.from_items([{"a": i, "b": [i]} for i in range(3)]).write_json(str(tmp_path / "out"))
    rows = data.read_json(str(tmp_path / "out")).take_all()
    assert by(rows, "a") == [{"a": i, "b": [i]} for i in range(3)]


def test_parquet(data, tmp_path):
    data.from_items([{"a": i, "b": float(i)} for i in range(4)]).write_parquet(
        str(tmp_path / "out")
    )
    dataset = data.read_parquet(str(tmp_path / "out"), columns=["b"])
    assert by(dataset.take_all(), "b") == [{"b": float(i)} for i in range(4)]


def test_parquet_with_arrays(data, tmp_path):
    values = np.arange(12, dtype=np.float32).reshape(3, 2, 2)
    data.from_numpy(values).write_parquet(str(tmp_path / "out"))
    batch = data.read_parquet(str(tmp_path / "out")).take_batch(3)
    np.testing.assert_array_equal(batch["data"], values)


def test_parquet_in_partitions(data, tmp_path):
    dataset = data.from_items([{"k": "a", "v": 1}, {"k": "b", "v": 2}])
    dataset.write_parquet(str(tmp_path / "out"), partition_cols=["k"])
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"k=a", "k=b"}
    rows = data.read_parquet(str(tmp_path / "out")).take_all()
    assert sorted((row["v"], row["k"]) for row in rows) == [(1, "a"), (2, "b")]


def test_numpy_files(data, tmp_path):
    np.save(tmp_path / "a.npy", np.arange(6).reshape(3, 2))
    batch = data.read_numpy(str(tmp_path / "a.npy")).take_batch(3)
    assert batch["data"].tolist() == [[0, 1], [2, 3], [4, 5]]


def test_written_numpy_files(data, tmp_path):
    data.range(3, override_num_blocks=1).write_numpy(str(tmp_path / "out"), column="id")
    (path,) = (tmp_path / "out").iterdir()
    assert np.load(path).tolist() == [0, 1, 2]


def test_text(data, tmp_path):
    (tmp_path / "a.txt").write_text("one\n\ntwo\n")
    path = str(tmp_path / "a.txt")
    assert sorted(row["text"] for row in data.read_text(path).take_all()) == ["one", "two"]
    assert data.read_text(path, drop_empty_lines=False).count() == 3


def test_binary_files(data, tmp_path):
    (tmp_path / "a.bin").write_bytes(b"123")
    rows = data.read_binary_files(str(tmp_path / "a.bin"), include_paths=True).take_all()
    assert rows[0]["bytes"] == b"123"
    assert rows[0]["path"].endswith("a.bin")


def test_images(data, tmp_path):
    image = pytest.importorskip("PIL.Image")
    image.fromarray(np.full((4, 6, 3), 7, np.uint8)).save(tmp_path / "a.png")
    batch = data.read_images(str(tmp_path)).take_batch(1)
    assert batch["image"].shape == (1, 4, 6, 3)
    assert batch["image"].dtype == np.uint8
    batch = data.read_images(str(tmp_path), size=(2, 3), mode="L").take_batch(1)
    assert batch["image"].shape == (1, 2, 3)


def test_lists_of_files_and_folders(data, tmp_path):
    for name in ("a", "b"):
        (tmp_path / f"{name}.csv").write_text(f"x\n{name}\n")
    paths = [str(tmp_path / "a.csv"), str(tmp_path / "b.csv")]
    for each in (paths, str(tmp_path)):
        assert sorted(row["x"] for row in data.read_csv(each).take_all()) == ["a", "b"]


def test_a_file_that_is_not_there(data, tmp_path):
    with pytest.raises(FileNotFoundError):
        data.read_csv(str(tmp_path / "none.csv")).take_all()


def test_missing_files_may_be_ignored(data, tmp_path):
    (tmp_path / "a.csv").write_text("x\n1\n")
    paths = [str(tmp_path / "a.csv"), str(tmp_path / "none.csv")]
    assert data.read_csv(paths, ignore_missing_paths=True).take_all() == [{"x": 1}]


def test_a_file_cut_short(data, tmp_path):
    data.range(100, override_num_blocks=1).write_parquet(str(tmp_path))
    (path,) = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[:-50])
    with pytest.raises(Exception):
        data.read_parquet(str(path)).take_all()


def test_input_files(data, tmp_path):
    (tmp_path / "a.csv").write_text("x\n1\n")
    assert [p.endswith("a.csv") for p in data.read_csv(str(tmp_path)).input_files()] == [True]


def test_a_datasource_of_ones_own(cluster, data):
    block_module = __import__(f"{cluster.__name__}.data.block", fromlist=["BlockMetadata"])

    class Two(data.Datasource):
        def get_read_tasks(self, parallelism, per_task_row_limit=None, data_context=None):
            metadata = block_module.BlockMetadata(
                num_rows=2, size_bytes=16, input_files=None, **extra
            )
            return [data.ReadTask(lambda: [pa.table({"a": [1, 2]})], metadata)]

        def estimate_inmemory_data_size(self):
            return 16

    extra = {"exec_stats": None} if cluster.__name__ == "ray" else {}
    assert data.read_datasource(Two()).take_all() == [{"a": 1}, {"a": 2}]


@pytest.mark.parametrize("version", ["", "2.60"])
@pytest.mark.parametrize("reads_itself", [False, True])
def test_a_datasource_with_a_reader(cluster, data, monkeypatch, version, reads_itself):
    monkeypatch.setenv("RAYCOMPAT_RAY_VERSION", version)
    block_module = importlib.import_module(f"{cluster.__name__}.data.block")
    source_module = importlib.import_module(f"{cluster.__name__}.data.datasource")
    extra = {"exec_stats": None} if cluster.__name__ == "ray" else {}

    def tasks(value):
        metadata = block_module.BlockMetadata(num_rows=1, size_bytes=8, input_files=None, **extra)
        return [data.ReadTask(lambda: [pa.table({"a": [value]})], metadata)]

    class OneReader(source_module.Reader):
        def estimate_inmemory_data_size(self):
            return 8

        def get_read_tasks(self, parallelism, per_task_row_limit="left out", data_context=None):
            return tasks("reader " + str(per_task_row_limit))

    class WithReader(data.Datasource):
        def create_reader(self):
            return OneReader()

    class OfBothTimes(WithReader):
        def estimate_inmemory_data_size(self):
            return 8

        def get_read_tasks(self, parallelism, per_task_row_limit=None, data_context=None):
            return tasks("source")

    source, value = (OfBothTimes(), "source") if reads_itself else (WithReader(), "reader None")
    assert data.read_datasource(source).take_all() == [{"a": value}]


def test_operators_of_arrays_of_tensors_are_those_of_arrays(cluster, data):
    extensions = importlib.import_module(f"{cluster.__name__}.data.extensions")
    tensors = extensions.TensorArray(np.arange(6).reshape(3, 2))
    for found, expected in [
        (2 * tensors + tensors, [[0, 3], [6, 9], [12, 15]]),
        (tensors == tensors, [[True, True]] * 3),
        (tensors > 2, [[False, False], [False, True], [True, True]]),
        (tensors[[0, 2]], [[0, 1], [4, 5]]),
        (tensors[[False, True, False]], [[2, 3]]),
        (tensors[1:], [[2, 3], [4, 5]]),
    ]:
        assert isinstance(found, extensions.TensorArray)
        assert found.to_numpy().tolist() == expected
    assert np.asarray(tensors[1]).tolist() == [2, 3]
    assert np.asarray(tensors).tolist() == [[0, 1], [2, 3], [4, 5]]
    table = pd.DataFrame({"image": tensors * 2})
    rows = data.from_pandas(table).take_all()
    assert [row["image"].tolist() for row in rows] == [[0, 2], [4, 6], [8, 10]]


# Other libraries, and preprocessors.


def test_to_pandas(data):
    frame = data.range(3).to_pandas()
    assert sorted(frame["id"]) == [0, 1, 2]
    with pytest.raises(ValueError):
        data.range(3).to_pandas(limit=2)


def test_references_to_blocks(cluster, data):
    dataset = data.range(4, override_num_blocks=2)
    assert sum(len(cluster.get(ref)) for ref in dataset.to_pandas_refs()) == 4
    assert sum(len(cluster.get(ref)["id"]) for ref in dataset.to_numpy_refs()) == 4
    assert sum(cluster.get(ref).num_rows for ref in dataset.to_arrow_refs()) == 4
    (column,) = data.range(2, override_num_blocks=1).to_numpy_refs(column="id")
    assert cluster.get(column).tolist() == [0, 1]
    with pytest.raises(ValueError, match="zz"):
        cluster.get(dataset.to_numpy_refs(column="zz"))


def test_a_dask_data_frame_is_computed_where_the_blocks_are(data):
    dask = pytest.importorskip("dask")
    pytest.importorskip("dask.dataframe")
    with dask.config.set(scheduler=None):  # and as it was, in the end
        frame = data.from_pandas(pd.DataFrame({"a": range(6)})).repartition(2).to_dask()
        assert frame["a"].sum().compute() == 15
        assert sorted(frame.compute()["a"]) == list(range(6))


def test_standard_scaler(data, preprocessors):
    dataset = data.from_items([{"a": 1.0}, {"a": 3.0}])
    scaler = preprocessors.StandardScaler(["a"])
    rows = scaler.fit_transform(dataset).take_all()
    assert sorted(row["a"] for row in rows) == pytest.approx([-1.0, 1.0])
    frame = scaler.transform_batch(pd.DataFrame({"a": [5.0]}))
    assert frame["a"].tolist() == pytest.approx([3.0])


def test_min_max_scaler(data, preprocessors):
    dataset = data.from_items([{"a": 1.0}, {"a": 3.0}, {"a": 2.0}])
    rows = preprocessors.MinMaxScaler(["a"]).fit_transform(dataset).take_all()
    assert sorted(row["a"] for row in rows) == [0.0, 0.5, 1.0]


def test_label_encoder(data, preprocessors):
    dataset = data.from_items([{"y": "b"}, {"y": "a"}, {"y": "c"}])
    encoder = preprocessors.LabelEncoder("y")
    encoded = encoder.fit_transform(dataset)
    assert sorted(row["y"] for row in encoded.take_all()) == [0, 1, 2]
    back = encoder.inverse_transform(encoded)
    assert sorted(row["y"] for row in back.take_all()) == ["a", "b", "c"]


def test_one_hot_encoder(data, preprocessors):
    dataset = data.from_items([{"c": "red"}, {"c": "green"}, {"c": "red"}])
    rows = preprocessors.OneHotEncoder(["c"]).fit_transform(dataset).take_all()
    assert sorted(tuple(row["c"]) for row in rows) == [(0, 1), (0, 1), (1, 0)]


def test_concatenator(data, preprocessors):
    dataset = data.from_items([{"a": 1.0, "b": 2.0, "y": 0}])
    made = preprocessors.Concatenator(columns=["a", "b"], dtype=np.float32).fit_transform(dataset)
    row = made.take_all()[0]
    assert row["y"] == 0
    assert row["concat_out"].tolist() == [1.0, 2.0]


def test_a_chain(data, preprocessors):
    dataset = data.from_items([{"a": 1.0, "y": "u"}, {"a": 3.0, "y": "v"}])
    chain = preprocessors.Chain(preprocessors.MinMaxScaler(["a"]), preprocessors.LabelEncoder("y"))
    rows = chain.fit_transform(dataset).take_all()
    assert by(rows, "a") == [{"a": 0.0, "y": 0}, {"a": 1.0, "y": 1}]


def test_an_unfitted_preprocessor(data, preprocessors):
    with pytest.raises(RuntimeError):
        preprocessors.StandardScaler(["a"]).transform(data.range(3))


# In several processes.


@pytest.mark.parametrize("equal", [False, True])
def test_streaming_split(cluster, data, equal):
    iterators = data.range(20, override_num_blocks=4).streaming_split(2, equal=equal)

    @cluster.remote
    def read(iterator):
        epochs = []
        for _ in range(2):
            epochs.append([int(i) for b in iterator.iter_batches() for i in b["id"]])
        return epochs

    left, right = cluster.get([read.remote(each) for each in iterators])
    for epoch in range(2):
        assert sorted(left[epoch] + right[epoch]) == list(range(20))
        if equal:
            assert len(left[epoch]) == 10


# Functions and options of later years.


def test_a_class_with_an_async_call(data):
    class AddOne:
        async def __call__(self, batch):
            return {"id": batch["id"] + 1}

    assert ids(data.range(4).map_batches(AddOne, concurrency=1)) == [1, 2, 3, 4]


def test_nanoseconds_are_kept(data):
    moments = [1, None, 1_700_000_000_123_456_789]
    table = pa.table({"t": pa.array(moments, pa.timestamp("ns"))})
    mapped = data.from_arrow(table).map(lambda row: row)
    assert mapped.schema().types == [pa.timestamp("ns")]
    kept = mapped.to_pandas()["t"]
    assert [None if pd.isna(each) else each.value for each in kept] == moments


def test_a_union_has_the_columns_of_all(data):
    union = data.from_items([{"a": 1}]).union(data.from_items([{"b": "x"}]))
    assert union.schema().names == ["a", "b"]
    assert union.count() == 2


def test_a_mode_is_a_text_or_a_member(data, tmp_path):
    for mode in ("overwrite", data.SaveMode.OVERWRITE, "append"):
        data.range(3).write_parquet(str(tmp_path), mode=mode)
    assert data.read_parquet(str(tmp_path)).count() == 6


def test_a_function_gives_the_options_of_each_actor(data):
    class Shown:
        def __call__(self, batch):
            return {"shown": [os.environ.get("SHOWN")]}

    def options():
        return {"runtime_env": {"env_vars": {"SHOWN": "yes"}}}

    rows = data.range(1).map_batches(Shown, concurrency=1, ray_remote_args_fn=options).take_all()
    assert rows == [{"shown": "yes"}]


def test_groups_by_a_function_are_a_value_error(data):
    with pytest.raises(ValueError):
        data.range(4).groupby(lambda row: row["id"] % 2).count().take_all()


def test_a_stratified_split_keeps_the_share_of_each_value(data):
    rows = data.from_items([{"x": x, "y": "rare" if x % 4 == 0 else "often"} for x in range(16)])
    train, test = rows.train_test_split(0.25, stratify="y")
    for part, rare, often in ((train, 3, 9), (test, 1, 3)):
        found = [row["y"] for row in part.take_all()]
        assert (found.count("rare"), found.count("often")) == (rare, often)
    both = [row["x"] for part in (train, test) for row in part.take_all()]
    assert sorted(both) == list(range(16))


def test_rows_without_columns_are_still_rows(data):
    rows = data.range(5).select_columns([])
    assert rows.schema().names == []
    assert rows.columns() == []
    for made in (
        rows,
        rows.limit(5),
        rows.filter(lambda row: True),
        rows.repartition(2),
        rows.random_shuffle(),
        rows.map_batches(lambda frame: frame, batch_format="pandas"),
        rows.materialize(),
        data.range(5).map(lambda row: {}),
    ):
        assert made.count() == 5
    with pytest.raises(TypeError):
        rows.select_columns(None)


def test_a_sample_is_drawn_from_rows_with_a_probability(data):
    assert data.range(20).random_sample(0).count() == 0
    assert data.range(20).random_sample(1).count() == 20
    for wrong in (-0.1, 2):
        with pytest.raises(ValueError):
            data.range(20).random_sample(wrong)
    for nothing in (data.range(0), data.range(0).map(lambda row: row), data.from_items([])):
        with pytest.raises(ValueError):
            nothing.random_sample(0.5)
    for empty in (
        data.range(5).filter(lambda row: False).materialize(),
        data.from_pandas(pd.DataFrame({"a": []})),
        data.from_pandas(pd.DataFrame()),
    ):
        assert empty.random_sample(0.5).count() == 0


def test_blocks_of_several_schemas_show_all_columns(data):
    blocks = [pa.table({"a": [1]}), pa.table({"a": [0.5], "b": ["x"]})]
    schema = data.from_arrow(blocks).schema()
    assert dict(zip(schema.names, schema.types, strict=True)) == {
        "a": pa.float64(),
        "b": pa.string(),
    }


def test_groups_by_several_columns_and_of_no_rows(data):
    rows = data.from_items([{"a": i % 2, "b": i % 3, "c": i} for i in range(12)])
    sums = rows.groupby(["a", "b"]).sum("c").sort(["a", "b"]).take_all()
    assert [tuple(each.values()) for each in sums] == [
        (a, b, sum(i for i in range(12) if (i % 2, i % 3) == (a, b)))
        for a in range(2)
        for b in range(3)
    ]
    empty = rows.filter(lambda row: False)
    assert empty.groupby("a").count().take_all() == []
    assert empty.groupby(["a", "b"]).sum("c").take_all() == []
    assert empty.sum("c") is None
    assert rows.groupby(None).sum("c").take_all() == [{"sum(c)": 66}]


def test_missing_values_in_groups(data, cluster):
    aggregates = importlib.import_module(f"{cluster.__name__}.data.aggregate")
    table = pa.table({"k": [0, 0, 1, 1], "v": pa.array([1.0, None, float("nan"), 3.0])})

    def found(kind, ignore_nulls):
        aggregation = getattr(aggregates, kind)("v", ignore_nulls=ignore_nulls)
        made = data.from_arrow(table).groupby("k").aggregate(aggregation).sort("k")
        return [next(v for k, v in row.items() if k != "k") for row in made.take_all()]

    assert found("Count", False) == [2, 2]
    assert found("Min", True) == [1.0, 3.0]
    assert found("Max", False) == [None, 3.0]
    sums = found("Sum", False)
    assert sums[0] is None
    assert math.isnan(sums[1])
    assert found("Std", False)[0] is None
    assert math.isnan(found("Unique", False)[1][0])


def test_the_error_of_a_function(cluster, data):
    def fail(row):
        raise ZeroDivisionError("no such row")

    def keep(row):
        return row

    errors = importlib.import_module(f"{cluster.__name__}.data.exceptions")
    assert errors.UserCodeException is cluster.exceptions.UserCodeException
    rows = data.range(3)
    for made in (
        rows.map(fail),
        rows.flat_map(fail),
        rows.filter(fail),
        rows.map_batches(fail),
        rows.map(keep).materialize().map(fail),
    ):
        with pytest.raises(errors.UserCodeException, match="no such row") as caught:
            made.take_all()
        assert isinstance(caught.value, cluster.exceptions.RayTaskError)


def test_batches_of_a_fitting_size(data):
    def count(batch):
        return {"rows": [len(batch["data"])]}

    large = data.range_tensor(40, shape=(2**20,), override_num_blocks=1)
    sizes = [row["rows"] for row in large.map_batches(count, batch_size="auto").take_all()]
    assert sum(sizes) == 40
    assert len(sizes) > 1
    small = data.range_tensor(40, shape=(2,), override_num_blocks=1)
    sizes = [row["rows"] for row in small.map_batches(count, batch_size="auto").take_all()]
    assert sizes == [40]


@pytest.mark.parametrize("seed", [1, {"seed": 1}])
def test_blocks_are_sampled_with_different_numbers(data, seed):
    seed = data.RandomSeedConfig(**seed) if isinstance(seed, dict) else seed
    rows = data.range(60, override_num_blocks=60)
    assert 10 < rows.random_sample(0.5, seed=seed).count() < 50
    twice = rows.random_sample(0.5, seed=seed).random_sample(0.5, seed=seed)
    assert 2 < twice.count() < 28


@pytest.mark.parametrize("seed", ["x", 1.5, [1]])
def test_invalid_seeds(data, seed):
    with pytest.raises(ValueError):
        data.RandomSeedConfig(seed=seed)


def test_equal_data_sets_have_equal_random_numbers(cluster, data):
    random = importlib.import_module(f"{cluster.__name__}.data.expressions").random

    def each_way(name):
        rows = data.range(30, override_num_blocks=10)
        made = {
            "shuffle": lambda: rows.random_shuffle(seed=data.RandomSeedConfig(seed=1)),
            "order": lambda: rows.randomize_block_order(seed=data.RandomSeedConfig(seed=1)),
            "sample": lambda: rows.random_sample(0.5, seed=data.RandomSeedConfig(seed=1)),
            "random": lambda: rows.with_column("order", random(seed=1)),
        }[name]()
        return [
            sorted(map(str, made.take_all())) if name == "sample" else made.take_all() for _ in "ab"
        ]

    for name in ("shuffle", "order", "sample", "random"):
        first, again = each_way(name)
        data.range(3).map(lambda row: row).count()  # has no influence on the others
        assert each_way(name) == [first, again]
        assert first != again


def test_an_execution_that_fails_does_not_count(data):
    def order(fails):
        rows = data.range(200, override_num_blocks=2)
        made = rows.random_shuffle(seed=data.RandomSeedConfig(seed=1))

        def fail(row):
            raise ValueError(row)

        if fails:
            with pytest.raises(Exception, match="id"):
                rows.map(fail).materialize()
        return [row["id"] for row in made.take_all()]

    assert order(fails=True) == order(fails=False)


def test_a_condition_takes_no_arguments_for_a_function(data):
    with pytest.raises(ValueError, match="fn_args"):
        data.range(6).filter(expr="id > 3", fn_args=(1,))
    assert data.range(6).filter(expr="id > 3", concurrency=1).count() == 2


def test_seeds_of_one_and_of_all_executions(data):
    rows = data.range(200, override_num_blocks=2)

    def twice(made):
        return [row["id"] for row in made.take_all()], [row["id"] for row in made.take_all()]

    same = data.RandomSeedConfig(seed=1, reseed_after_execution=False)
    first, second = twice(rows.random_shuffle(seed=same))
    assert first == second != list(range(200))
    first, second = twice(rows.random_shuffle(seed=data.RandomSeedConfig(seed=1)))
    assert first != second
    assert sorted(first) == sorted(second) == list(range(200))
    assert rows.randomize_block_order(seed=same).count() == 200
    first, second = twice(rows.random_sample(0.5, seed=same))
    assert sorted(first) == sorted(second)
    first, second = twice(rows.random_sample(0.5, seed=data.RandomSeedConfig(seed=1)))
    assert sorted(first) != sorted(second)
