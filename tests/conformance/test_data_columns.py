"""Columns by expressions, joins, mixtures, more preprocessors and aggregations, ORC files."""

import importlib
from importlib.util import find_spec

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest

pytestmark = pytest.mark.timeout(180)


@pytest.fixture
def data(cluster):
    module = importlib.import_module(f"{cluster.__name__}.data")
    module.DataContext.get_current().enable_progress_bars = False
    return module


@pytest.fixture
def expressions(cluster, data):
    return importlib.import_module(f"{cluster.__name__}.data.expressions")


@pytest.fixture
def aggregates(cluster, data):
    return importlib.import_module(f"{cluster.__name__}.data.aggregate")


@pytest.fixture
def preprocessors(cluster, data):
    return importlib.import_module(f"{cluster.__name__}.data.preprocessors")


def skip_ray_without(ray, library):
    if ray.__name__ == "ray" and find_spec(library) is None:
        pytest.skip(f"Ray does it by {library}, which is not installed")


@pytest.fixture
def polars(ray):
    skip_ray_without(ray, "polars")


@pytest.fixture
def datasketches(ray):
    skip_ray_without(ray, "datasketches")


@pytest.fixture
def numbers(data):
    """Rows with a column that has a missing value, and text."""
    rows = [
        {"a": 1, "b": 2.5, "t": "x"},
        {"a": 2, "b": None, "t": "y"},
        {"a": -3, "b": 0.5, "t": "x"},
    ]
    return data.from_items(rows, override_num_blocks=1)


# Expressions: each as what it gives for the three rows.


@pytest.mark.parametrize(
    ("make", "values"),
    [
        (lambda col, lit: col("a") + 1, [2, 3, -2]),
        (lambda col, lit: 1 + col("a"), [2, 3, -2]),
        (lambda col, lit: col("a") - col("a"), [0, 0, 0]),
        (lambda col, lit: 10 - col("a"), [9, 8, 13]),
        (lambda col, lit: col("a") * col("b"), [2.5, None, -1.5]),
        (lambda col, lit: col("b") / 2, [1.25, None, 0.25]),
        (lambda col, lit: 5 / col("b"), [2.0, None, 10.0]),
        (lambda col, lit: col("b") // 2, [1, None, 0]),
        (lambda col, lit: col("b") % 2, [0.5, None, 0.5]),
        (lambda col, lit: col("a") > 1, [False, True, False]),
        (lambda col, lit: col("a") >= 1, [True, True, False]),
        (lambda col, lit: col("a") < 1, [False, False, True]),
        (lambda col, lit: col("a") <= -3, [False, False, True]),
        (lambda col, lit: col("t") == "x", [True, False, True]),
        (lambda col, lit: col("t") != "x", [False, True, False]),
        (lambda col, lit: (col("a") > 0) & (col("t") == "x"), [True, False, False]),
        (lambda col, lit: (col("a") > 1) | (col("t") == "x"), [True, True, True]),
        (lambda col, lit: ~(col("a") > 1), [True, False, True]),
        (lambda col, lit: col("b").is_null(), [False, True, False]),
        (lambda col, lit: col("b").is_not_null(), [True, False, True]),
        (lambda col, lit: col("a").is_in([1, -3]), [True, False, True]),
        (lambda col, lit: col("a").not_in([1, -3]), [False, True, False]),
        (lambda col, lit: col("t") + "!", ["x!", "y!", "x!"]),
        (lambda col, lit: "!" + col("t"), ["!x", "!y", "!x"]),
        (lambda col, lit: lit(7), [7, 7, 7]),
        (lambda col, lit: lit("z"), ["z", "z", "z"]),
        (lambda col, lit: col("b").ceil(), [3, None, 1]),
        (lambda col, lit: col("b").floor(), [2, None, 0]),
        (lambda col, lit: col("b").round(), [2, None, 0]),
        (lambda col, lit: (col("b") * -1).trunc(), [-2, None, 0]),
        (lambda col, lit: col("a").abs(), [1, 2, 3]),
        (lambda col, lit: col("a").negate(), [-1, -2, 3]),
        (lambda col, lit: col("a").sign(), [1, 1, -1]),
        (lambda col, lit: col("a").power(2), [1, 4, 9]),
        (lambda col, lit: (col("b") * 2).log2(), [pytest.approx(2.32, abs=0.01), None, 0.0]),
        (lambda col, lit: (col("a") * 0).exp(), [1.0, 1.0, 1.0]),
        (lambda col, lit: (col("a") * 0).cos(), [1.0, 1.0, 1.0]),
    ],
)
def test_an_expression_for_a_column(numbers, expressions, make, values):
    made = numbers.with_column("c", make(expressions.col, expressions.lit))
    assert [row["c"] for row in made.take_all()] == values
    assert made.columns() == ["a", "b", "t", "c"]


def test_whether_a_value_is_in_another_column(data, expressions):
    col = expressions.col
    rows = [{"a": 1, "b": 3}, {"a": 2, "b": 2}, {"a": 3, "b": 9}]
    made = data.from_items(rows, override_num_blocks=1)
    assert [row["a"] for row in made.filter(expr=col("a").is_in(col("b"))).take_all()] == [2, 3]
    assert [row["a"] for row in made.filter(expr=col("a").not_in(col("b") - 1)).take_all()] == [3]
    assert repr(col("a").is_in(col("b"))).splitlines()[0] == "IN"


def test_all_columns_are_no_value(numbers, expressions):
    star = expressions.star
    assert star().structurally_equals(star())
    assert not star().structurally_equals(expressions.col("a"))
    assert repr(star()) == "COL(*)"
    with pytest.raises(Exception, match="star|Star"):
        numbers.with_column("c", star()).take_all()


def test_a_column_is_replaced(numbers, expressions):
    made = numbers.with_column("a", expressions.col("a") * 2)
    assert [row["a"] for row in made.take_all()] == [2, 4, -6]


def test_several_columns_at_once(numbers, expressions):
    col = expressions.col
    made = numbers.with_columns({"a": col("a") * 2, "c": col("a") + 1}, {"d": col("t")})
    assert [(row["a"], row["c"], row["d"]) for row in made.take_all()] == [
        (2, 2, "x"),
        (4, 3, "y"),
        (-6, -2, "x"),
    ]


def test_rows_are_kept_by_an_expression(numbers, expressions):
    kept = numbers.filter(expr=expressions.col("a") > 0)
    assert [row["a"] for row in kept.take_all()] == [1, 2]


def test_a_function_of_columns(cluster, numbers, expressions):
    datatype = importlib.import_module(f"{cluster.__name__}.data.datatype").DataType

    @expressions.udf(return_dtype=datatype.string())
    def upper(column):
        return pc.utf8_upper(column)

    number = expressions.col("a").cast(datatype.float32())
    made = numbers.with_columns({"u": upper(expressions.col("t")), "f": number})
    assert [row["u"] for row in made.take_all()] == ["X", "Y", "X"]
    assert dict(zip(made.columns(), made.schema().types, strict=True))["f"] == pa.float32()


def test_a_column_of_groups(data, expressions):
    rows = [{"k": 1, "v": 1}, {"k": 2, "v": 5}, {"k": 1, "v": 2}]
    made = data.from_items(rows).groupby("k").with_column("w", expressions.col("v") * 2)
    assert sorted((row["k"], row["v"], row["w"]) for row in made.take_all()) == [
        (1, 1, 2),
        (1, 2, 4),
        (2, 5, 10),
    ]


def test_what_is_no_expression(numbers):
    with pytest.raises(TypeError):
        numbers.with_columns([1])


# Several data sets.


@pytest.mark.usefixtures("polars")
@pytest.mark.parametrize(
    ("join_type", "expected"),
    [
        ("inner", [(2, 20, "b"), (3, 30, "c")]),
        ("left_outer", [(1, 10, None), (2, 20, "b"), (3, 30, "c")]),
        ("right_outer", [(2, 20, "b"), (3, 30, "c"), (4, None, "d")]),
        ("full_outer", [(1, 10, None), (2, 20, "b"), (3, 30, "c"), (4, None, "d")]),
        ("left_semi", [(2, 20), (3, 30)]),
        ("right_semi", [(2, "b"), (3, "c")]),
        ("left_anti", [(1, 10)]),
        ("right_anti", [(4, "d")]),
    ],
)
def test_join(data, join_type, expected):
    left = data.from_items([{"id": i, "x": 10 * i} for i in (1, 2, 3)], override_num_blocks=2)
    right = data.from_items([{"id": i, "y": "abcd"[i - 1]} for i in (2, 3, 4)])
    joined = left.join(right, join_type, num_partitions=2)
    rows = [
        tuple(row[name] for name in ("id", "x", "y") if name in row) for row in joined.take_all()
    ]
    assert sorted(rows) == expected


@pytest.mark.usefixtures("polars")
def test_join_by_integers_of_several_widths(data):
    left = data.from_arrow(pa.table({"k": pa.array([1, 2], pa.int32()), "v": [1, 2]}))
    right = data.from_arrow(pa.table({"k": pa.array([1, None], pa.int64()), "w": [3, 4]}))
    joined = left.join(right, join_type="inner", num_partitions=2, on=("k",))
    assert joined.take_all() == [{"k": 1, "v": 1, "w": 3}]


def test_join_by_keys_of_other_names_and_columns_of_equal_names(data):
    left = data.from_items([{"k": 1, "v": "l"}])
    right = data.from_items([{"n": 1, "v": "r"}])
    joined = left.join(
        right, "inner", 1, on=("k",), right_on=("n",), left_suffix="_l", right_suffix="_r"
    )
    assert joined.take_all() == [{"k": 1, "v_l": "l", "v_r": "r"}]
    with pytest.raises(ValueError, match="v"):
        left.join(right, "inner", 1, on=("k",), right_on=("n",)).take_all()


@pytest.mark.parametrize(("join_type", "on"), [("sideways", ("id",)), ("inner", "id")])
def test_bad_joins(data, join_type, on):
    with pytest.raises(ValueError):
        data.range(2).join(data.range(2), join_type, 1, on=on)


def test_mix_takes_blocks_in_turn(data):
    left = data.range(6, override_num_blocks=3)
    right = data.range(3, override_num_blocks=3).map(lambda row: {"id": row["id"] + 100})
    assert sorted(row["id"] for row in left.mix(right).take_all()) == [*range(6), 100, 101, 102]
    shortest = data.MixStoppingCondition.STOP_ON_SHORTEST
    some = left.mix(right, weights=[1, 2], stopping_condition=shortest).take_all()
    assert [row["id"] for row in some[:2]] == [100, 0]
    assert len(some) < 9
    with pytest.raises(ValueError):
        left.mix(right, weights=[1])


def test_a_split_that_streams(data):
    dataset = data.range(400, override_num_blocks=4)
    train, test = dataset.streaming_train_test_split(0.25, seed=3)
    found = [sorted(row["id"] for row in each.take_all()) for each in (train, test)]
    assert sorted(found[0] + found[1]) == list(range(400))
    assert 50 < len(found[1]) < 150


def test_a_split_by_hash_keeps_equal_keys_together(data):
    dataset = data.range(60).map(lambda row: {"key": row["id"] % 20})
    parts = dataset.streaming_train_test_split(0.5, split_type="hash", hash_column="key")
    keys = [{row["key"] for row in part.take_all()} for part in parts]
    assert keys[0].isdisjoint(keys[1])
    assert keys[0] | keys[1] == set(range(20))
    assert sorted(keys[1]) == [0, 1, 3, 5, 7, 8, 9, 10, 11, 13, 15, 19]


@pytest.mark.parametrize(
    "options",
    [
        {"test_size": 0},
        {"test_size": 1.0},
        {"test_size": 0.5, "split_type": "other"},
        {"test_size": 0.5, "split_type": "hash"},
        {"test_size": 0.5, "hash_column": "id"},
        {"test_size": 0.5, "split_type": "hash", "hash_column": "id", "seed": 1},
    ],
    ids=str,
)
def test_bad_splits(data, options):
    with pytest.raises(ValueError):
        data.range(4).streaming_train_test_split(**options)


def test_explain_prints_the_plan(data, capsys):
    data.range(2).map(lambda row: row).explain()
    assert "ReadRange" in capsys.readouterr().out


def test_orc_files(data, tmp_path):
    data.range(10, override_num_blocks=2).write_orc(str(tmp_path))
    assert sorted(row["id"] for row in data.read_orc(str(tmp_path)).take_all()) == list(range(10))


# Aggregations.


def test_values_are_counted(numbers, aggregates):
    found = numbers.aggregate(aggregates.ValueCounter("t"))["value_counter(t)"]
    assert dict(zip(found["values"], found["counts"], strict=True)) == {"x": 2, "y": 1}


@pytest.mark.usefixtures("datasketches")
def test_quantiles_and_most_frequent_values(data, aggregates):
    dataset = data.from_items([{"v": float(v), "w": "aab"[v % 3]} for v in range(1, 101)])
    quantiles = aggregates.ApproximateQuantile("v", [0.1, 0.5, 0.9])
    found = dataset.aggregate(quantiles, aggregates.ApproximateTopK("w", 1))
    assert found["approx_quantile(v)"] == pytest.approx([10, 50, 90], abs=1)
    assert found["approx_topk(w)"] == [{"w": "a", "count": 67}]


@pytest.mark.usefixtures("datasketches")
def test_robust_scaler(data, preprocessors):
    dataset = data.from_items([{"a": float(a)} for a in range(1, 6)])
    rows = preprocessors.RobustScaler(["a"]).fit_transform(dataset).take_all()
    assert sorted(row["a"] for row in rows) == [-1.0, -0.5, 0.0, 0.5, 1.0]


# Preprocessors; each is given the rows, and what it makes of them is compared.


def transformed(data, preprocessor, rows):
    made = preprocessor.fit_transform(data.from_items(rows, override_num_blocks=1))
    return [
        {name: value.tolist() if hasattr(value, "tolist") else value for name, value in row.items()}
        for row in made.take_all()
    ]


@pytest.mark.parametrize(
    ("norm", "values"), [("l2", [0.6, 0.8]), ("l1", [3 / 7, 4 / 7]), ("max", [0.75, 1.0])]
)
def test_normalizer(data, preprocessors, norm, values):
    (row,) = transformed(data, preprocessors.Normalizer(["a", "b"], norm), [{"a": 3.0, "b": 4.0}])
    assert list(row.values()) == pytest.approx(values)


@pytest.mark.parametrize(
    ("method", "power", "values"),
    [
        ("yeo-johnson", 2, [4.0, -0.6931]),
        ("yeo-johnson", 0, [1.0986, -1.5]),
        ("box-cox", 2, [1.5, 0.0]),
        ("box-cox", 0, [0.6931, 0.0]),
    ],
)
def test_power_transformer(data, preprocessors, method, power, values):
    rows = [{"a": 2.0}, {"a": -1.0 if method == "yeo-johnson" else 1.0}]
    made = transformed(data, preprocessors.PowerTransformer(["a"], power, method), rows)
    assert [row["a"] for row in made] == pytest.approx(values, abs=1e-4)


def test_tokenizer(data, preprocessors):
    rows = [{"t": "one two"}, {"t": None}]
    made = transformed(data, preprocessors.Tokenizer(["t"]), rows)
    assert made == [{"t": ["one", "two"]}, {"t": None}]
    made = transformed(data, preprocessors.Tokenizer(["t"], list, ["c"]), [{"t": "ab"}])
    assert made == [{"t": "ab", "c": ["a", "b"]}]


def test_hashing_vectorizer(data, preprocessors):
    rows = [{"t": "a b a"}, {"t": "c"}]
    made = transformed(data, preprocessors.HashingVectorizer(["t"], 4), rows)
    assert [row["t"] for row in made] == [[0, 1, 0, 2], [0, 0, 1, 0]]


def test_count_vectorizer(data, preprocessors):
    rows = [{"t": "a b a"}, {"t": "b a c"}]
    made = transformed(data, preprocessors.CountVectorizer(["t"], max_features=2), rows)
    assert [row["t"] for row in made] == [[2, 1], [1, 1]]


def test_feature_hasher(data, preprocessors):
    rows = [{"a": 1, "b": 2}, {"a": 3, "b": 4}]
    made = transformed(data, preprocessors.FeatureHasher(["a", "b"], 3, "h"), rows)
    assert [sum(row["h"]) for row in made] == [3, 7]
    assert [len(row["h"]) for row in made] == [3, 3]


def test_multi_hot_encoder(data, preprocessors):
    rows = [{"g": ["x", "y"]}, {"g": ["y", "y"]}, {"g": []}]
    made = transformed(data, preprocessors.MultiHotEncoder(["g"]), rows)
    assert [row["g"] for row in made] == [[1, 1], [0, 2], [0, 0]]


def test_categorizer(data, preprocessors):
    rows = [{"c": "x"}, {"c": None}, {"c": "y"}]
    preprocessor = preprocessors.Categorizer(["c"])
    made = transformed(data, preprocessor, rows)
    assert [row["c"] for row in made] == ["x", None, "y"]
    frame = preprocessor.transform_batch(pd.DataFrame({"c": ["y", "x"]}))
    assert sorted(frame["c"].cat.categories) == ["x", "y"]


def test_custom_bins(data, preprocessors):
    rows = [{"a": 0.5, "b": 1.0}, {"a": 2.0, "b": 2.0}]
    bins = {"a": [0, 1, 3], "b": [0, 1.5, 3]}
    made = transformed(data, preprocessors.CustomKBinsDiscretizer(["a", "b"], bins), rows)
    assert made == [{"a": 0, "b": 0}, {"a": 1, "b": 1}]
    with pytest.raises(ValueError):
        preprocessors.CustomKBinsDiscretizer(["a", "c"], bins)


def test_uniform_bins(data, preprocessors):
    rows = [{"a": float(a)} for a in (0, 1, 2, 3)]
    made = transformed(data, preprocessors.UniformKBinsDiscretizer(["a"], 3), rows)
    assert [row["a"] for row in made] == [0, 0, 1, 2]


def test_bad_options_of_preprocessors(preprocessors):
    with pytest.raises(ValueError):
        preprocessors.Normalizer(["a"], "l3")
    with pytest.raises(ValueError):
        preprocessors.PowerTransformer(["a"], 1, "other")


@pytest.fixture
def lists(data):
    rows = {"c": ["r", "g", "b", "r"], "l": [["x", "y"], ["y"], [], ["z", "x", "x"]]}
    return data.from_pandas(pd.DataFrame(rows))


def test_numbers_of_the_items_of_lists(lists, data, preprocessors):
    encoder = preprocessors.OrdinalEncoder(["l"]).fit(lists)
    assert encoder.stats_ == {"unique_values(l)": {"x": 0, "y": 1, "z": 2}}
    numbers = [list(row["l"]) for row in encoder.transform(lists).take_all()]
    assert numbers == [[0, 1], [1], [], [2, 0, 0]]
    (row,) = encoder.transform(data.from_items([{"l": ["x", "new"]}])).take_all()
    assert row["l"][0] == 0
    assert pd.isna(row["l"][1])


def test_numbers_of_whole_lists(lists, preprocessors):
    encoder = preprocessors.OrdinalEncoder(["l"], encode_lists=False).fit(lists)
    values = {(): 0, ("x", "y"): 1, ("y",): 2, ("z", "x", "x"): 3}
    assert encoder.stats_ == {"unique_values(l)": values}
    assert [row["l"] for row in encoder.transform(lists).take_all()] == [1, 2, 0, 3]


def test_of_values_that_are_as_frequent_the_first_stay(lists, preprocessors):
    counts = preprocessors.CountVectorizer(["c"], max_features=2).fit(lists)
    assert counts.stats_ == {"token_counts(c)": {"r": 2, "g": 1}}
    one_hot = preprocessors.OneHotEncoder(["c"], max_categories={"c": 2}).fit(lists)
    assert one_hot.stats_ == {"unique_values(c)": {"g": 0, "r": 1}}
    multi_hot = preprocessors.MultiHotEncoder(["l"], max_categories={"l": 1}).fit(lists)
    assert multi_hot.stats_ == {"unique_values(l)": {"x": 0}}
