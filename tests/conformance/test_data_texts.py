"""The texts of data sets and schemas, and the classes of errors for columns that do not exist."""

import importlib

import numpy as np
import pandas as pd
import pytest

pytestmark = pytest.mark.timeout(180)


@pytest.fixture
def data(cluster):
    module = importlib.import_module(f"{cluster.__name__}.data")
    module.DataContext.get_current().enable_progress_bars = False
    return module


def lines(text):
    return [line.rstrip() for line in repr(text).splitlines()]


def test_a_data_set_that_is_not_materialized_shows_its_columns(data):
    assert lines(data.range(5)) == [
        "shape: (5, 1)",
        "╭───────╮",
        "│ id    │",
        "│ ---   │",
        "│ int64 │",
        "╰───────╯",
        "(Dataset isn't materialized)",
    ]


def test_a_materialized_one_shows_its_rows(data):
    rows = [{"a": 1, "text": "x\ny"}, {"a": 20000000, "text": "z" * 50}]
    assert lines(data.from_items(rows)) == [
        "shape: (2, 2)",
        "╭──────────┬──────────────────────────────────────────╮",
        "│ a        ┆ text                                     │",
        "│ ---      ┆ ---                                      │",
        "│ int64    ┆ string                                   │",
        "╞══════════╪══════════════════════════════════════════╡",
        "│ 1        ┆ x y                                      │",
        f"│ 20000000 ┆ {'z' * 39}… │",
        "╰──────────┴──────────────────────────────────────────╯",
        "(Showing 2 of 2 rows)",
    ]


@pytest.mark.parametrize("num_rows", [10, 11, 1000])
def test_a_long_one_shows_both_ends(data, num_rows):
    shown = lines(data.range(num_rows, override_num_blocks=2).materialize())
    assert shown[-1] == f"(Showing 10 of {num_rows} rows)"
    cells = [line.strip("│ ") for line in shown[6:-2]]
    ends = [str(row) for row in [*range(5), *range(num_rows - 5, num_rows)]]
    assert cells == (ends if num_rows == 10 else [*ends[:5], "…", *ends[5:]])


def test_a_name_is_shown(data):
    dataset = data.range(2)
    dataset.set_name("numbers")
    assert lines(dataset)[0] == "name: numbers"


def test_a_plan_whose_columns_are_not_known_is_a_tree(data):
    def same(row):
        return row

    assert lines(data.range(2).map(same)) == [
        "Map(same)",
        "+- Dataset(num_rows=2, schema={id: int64})",
    ]


def test_groups_and_iterators(data):
    dataset = data.range(2)
    assert repr(dataset.groupby("id")) == f"GroupedData(dataset={dataset!r}, key='id')"
    assert repr(dataset.iterator()) == f"DataIterator({dataset!r})"


def test_the_schema_of_arrays(data):
    text = repr(data.range_tensor(2, shape=(2, 3)).schema())
    assert text.splitlines()[-1] == "data    ArrowTensorTypeV2(shape=(2, 3), dtype=int64)"


def test_rows_of_arrays_in_the_text(data):
    assert lines(data.from_numpy(np.zeros((1, 2))))[6].strip("│ ") == "[0. 0.]"


def test_a_column_that_does_not_exist(data):
    rows = data.range(2)
    with pytest.raises(KeyError):
        rows.drop_columns(["nothing"]).take_all()
    with pytest.raises(ValueError, match="nothing"):
        rows.sort("nothing").take_all()
    with pytest.raises(ValueError, match="nothing"):
        rows.sum("nothing")


@pytest.mark.parametrize("make", ["from_pandas", "from_arrow"])
def test_sources_of_another_kind(data, make):
    with pytest.raises(TypeError):
        getattr(data, make)(3)


def test_settings_of_the_executor_can_be_set(data):
    context = data.DataContext.get_current()
    assert context.use_push_based_shuffle is False
    context.verbose_stats_logs = True
    try:
        dataset = data.range(2)
        assert dataset.context.verbose_stats_logs is True
        assert dataset.count() == 2
    finally:
        context.verbose_stats_logs = False


def test_an_index_of_pandas_is_left_out(data):
    frame = pd.DataFrame({"a": [1]}, index=["x"])
    assert data.from_pandas(frame).columns() == ["a"]
