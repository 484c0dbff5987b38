"""Functions of text, times, lists, structs and maps in expressions, classes in them, and their types."""

import datetime
import importlib
from types import SimpleNamespace

import numpy as np
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
def types(cluster, data):
    return importlib.import_module(f"{cluster.__name__}.data.datatype").DataType


@pytest.fixture
def evaluate(data, expressions):
    """Return the values of an expression of the columns of a table, and the type."""

    def run(table, make):
        made = data.from_arrow(pa.table(table)).with_column("made", make(expressions.col))
        column = made.materialize()
        type_ = dict(zip(column.columns(), column.schema().types, strict=True))["made"]
        return SimpleNamespace(values=[row["made"] for row in column.take_all()], type=type_)

    return run


TEXTS = {"t": ["Ada Lovelace", None, " x1 "]}


@pytest.mark.parametrize(
    ("make", "values"),
    [
        (lambda t: t.len(), [12, None, 4]),
        (lambda t: t.byte_len(), [12, None, 4]),
        (lambda t: t.upper(), ["ADA LOVELACE", None, " X1 "]),
        (lambda t: t.lower(), ["ada lovelace", None, " x1 "]),
        (lambda t: t.capitalize(), ["Ada lovelace", None, " x1 "]),
        (lambda t: t.title(), ["Ada Lovelace", None, " X1 "]),
        (lambda t: t.swapcase(), ["aDA lOVELACE", None, " X1 "]),
        (lambda t: t.reverse(), ["ecalevoL adA", None, " 1x "]),
        (lambda t: t.is_alpha(), [False, None, False]),
        (lambda t: t.is_ascii(), [True, None, True]),
        (lambda t: t.is_title(), [True, None, False]),
        (lambda t: t.starts_with("A"), [True, None, False]),
        (lambda t: t.ends_with("e"), [True, None, False]),
        (lambda t: t.contains("love"), [False, None, False]),
        (lambda t: t.contains("love", ignore_case=True), [True, None, False]),
        (lambda t: t.match("%da%"), [True, None, False]),
        (lambda t: t.match_regex("^A"), [True, None, False]),
        (lambda t: t.find("a"), [2, None, -1]),
        (lambda t: t.find_regex("[aeiou]l"), [7, None, -1]),
        (lambda t: t.count("a"), [2, None, 0]),
        (lambda t: t.count_regex("[aeiou]"), [5, None, 0]),
        (lambda t: t.slice(1, 3), ["da", None, "x1"]),
        (lambda t: t.slice(0, 5, 2), ["AaL", None, " 1"]),
        (lambda t: t.replace("a", "_"), ["Ad_ Lovel_ce", None, " x1 "]),
        (lambda t: t.replace("a", "_", max_replacements=1), ["Ad_ Lovelace", None, " x1 "]),
        (lambda t: t.replace_regex("[a-c]", "_"), ["Ad_ Lovel__e", None, " x1 "]),
        (lambda t: t.replace_slice(0, 2, "ZZ"), ["ZZa Lovelace", None, "ZZ1 "]),
        (lambda t: t.split(" "), [["Ada", "Lovelace"], None, ["", "x1", ""]]),
        (lambda t: t.split_regex("[ d]"), [["A", "a", "Lovelace"], None, ["", "x1", ""]]),
        (lambda t: t.split_whitespace(), [["Ada", "Lovelace"], None, ["", "x1", ""]]),
        (lambda t: t.extract("(?P<first>[A-Z])"), [{"first": "A"}, None, None]),
        (lambda t: t.repeat(2), ["Ada LovelaceAda Lovelace", None, " x1  x1 "]),
        (lambda t: t.center(14, "*"), ["*Ada Lovelace*", None, "***** x1 *****"]),
        (lambda t: t.lpad(14, "."), ["..Ada Lovelace", None, ".......... x1 "]),
        (lambda t: t.rpad(14), ["Ada Lovelace  ", None, " x1           "]),
        (lambda t: t.pad(14, "-", "left"), ["--Ada Lovelace", None, "---------- x1 "]),
        (lambda t: t.pad(14, "-", "both"), ["-Ada Lovelace-", None, "----- x1 -----"]),
        (lambda t: t.strip(), ["Ada Lovelace", None, "x1"]),
        (lambda t: t.strip("A"), ["da Lovelace", None, " x1 "]),
        (lambda t: t.lstrip(), ["Ada Lovelace", None, "x1 "]),
        (lambda t: t.rstrip("e"), ["Ada Lovelac", None, " x1 "]),
        (lambda t: t.upper().str.len() + 1, [13, None, 5]),
    ],
)
def test_text(evaluate, make, values):
    assert evaluate(TEXTS, lambda col: make(col("t").str)).values == values


def test_text_that_is_padded_nowhere(expressions):
    with pytest.raises(ValueError, match="side"):
        expressions.col("t").str.pad(3, "-", "middle")


DAYS = {"d": [datetime.datetime(2024, 2, 29, 13, 45, 59), None]}


@pytest.mark.parametrize(
    ("make", "value"),
    [
        (lambda d: d.year(), 2024),
        (lambda d: d.month(), 2),
        (lambda d: d.day(), 29),
        (lambda d: d.hour(), 13),
        (lambda d: d.minute(), 45),
        (lambda d: d.second(), 59),
        (lambda d: d.ceil("day"), datetime.datetime(2024, 3, 1)),
        (lambda d: d.floor("hour"), datetime.datetime(2024, 2, 29, 13)),
        (lambda d: d.round("minute"), datetime.datetime(2024, 2, 29, 13, 46)),
    ],
)
def test_times(evaluate, make, value):
    assert evaluate(DAYS, lambda col: make(col("d").dt)).values == [value, None]


def test_a_time_as_text(evaluate):
    made = evaluate(DAYS, lambda col: col("d").dt.strftime("%Y/%m"))
    assert made.values == ["2024/02", None]


LISTS = {"l": [[3, 1, 2], [], None, [5, None]]}


@pytest.mark.parametrize(
    ("make", "values"),
    [
        (lambda x: x.len(), [3, 0, None, 2]),
        (lambda x: x[0:2], [[3, 1], [], None, [5, None]]),
        (lambda x: x[1:], [[1, 2], [], None, [None]]),
        (lambda x: x[::2], [[3, 2], [], None, [5]]),
        (lambda x: x.slice(0, 1), [[3], [], None, [5]]),
        (lambda x: x.slice(), [[3, 1, 2], [], None, [5, None]]),
        (lambda x: x.sort(), [[1, 2, 3], [], None, [5, None]]),
        (lambda x: x.sort(order="descending"), [[3, 2, 1], [], None, [5, None]]),
        (lambda x: x.sort(null_placement="at_start"), [[1, 2, 3], [], None, [None, 5]]),
    ],
)
def test_lists(evaluate, make, values):
    assert evaluate(LISTS, lambda col: make(col("l").list)).values == values


@pytest.mark.parametrize("index", [0, 1])
def test_a_value_of_each_list(evaluate, index):
    table = {"l": [[3, 1, 2], [4, 5]]}
    values = [each[index] for each in table["l"]]
    assert evaluate(table, lambda col: col("l").list[index]).values == values
    assert evaluate(table, lambda col: col("l").list.get(index)).values == values


def test_lists_of_lists(evaluate):
    made = evaluate({"l": [[[3, 1], [2]], [[]], []]}, lambda col: col("l").list.flatten())
    assert made.values == [[3, 1, 2], [], []]


def test_sorted_lists_that_are_slices_of_others(evaluate):
    lists = pa.array([[9, 8], [3, 1], None, [2]]).slice(1)
    assert evaluate({"l": lists}, lambda col: col("l").list.sort()).values == [[1, 3], None, [2]]


@pytest.mark.parametrize("start", [0, 1])
def test_lists_of_a_fixed_size_of_which_one_is_missing(evaluate, start):
    pairs = pa.array([[9, 8], [2, 1], None, [4, 3]], pa.list_(pa.int64(), 2)).slice(start)
    values = pairs.to_pylist()
    ordered = [each and sorted(each) for each in values]
    assert evaluate({"l": pairs}, lambda col: col("l").list.sort()).values == ordered
    assert evaluate({"l": pairs}, lambda col: col("l").arr.to_list()).values == values
    nested = pa.array([[[2], [1, 5]], None, [[4], []]], pa.list_(pa.list_(pa.int64()), 2))
    made = evaluate({"l": nested}, lambda col: col("l").list.flatten())
    assert made.values == [[2, 1, 5], None, [4]]


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda col: col("l").list.sort(order="up"), ValueError),
        (lambda col: col("l").list.sort(null_placement="middle"), ValueError),
        (lambda col: col("l").list["a"], TypeError),
        (lambda col: col("l").struct[1.5], TypeError),
        (lambda col: col("l").str.nothing, AttributeError),
    ],
)
def test_what_is_no_function_of_a_column(expressions, make, error):
    with pytest.raises(error):
        make(expressions.col)


@pytest.mark.parametrize(
    ("make", "values"),
    [
        (lambda u: u.struct["a"], [1, 2]),
        (lambda u: u.struct.field("a"), [1, 2]),
        (lambda u: u.struct[0], [1, 2]),
        (lambda u: u.struct.field_by_index(0), [1, 2]),
        (lambda u: u.struct["b"].struct["c"], ["x", "y"]),
    ],
)
def test_structs(evaluate, make, values):
    table = {"u": [{"a": 1, "b": {"c": "x"}}, {"a": 2, "b": {"c": "y"}}]}
    assert evaluate(table, lambda col: make(col("u"))).values == values


def test_maps(evaluate):
    maps = pa.array([[("a", 1), ("b", 2)], [], None], pa.map_(pa.string(), pa.int64()))
    assert evaluate({"m": maps}, lambda col: col("m").map.keys()).values == [["a", "b"], [], None]
    assert evaluate({"m": maps}, lambda col: col("m").map.values()).values == [[1, 2], [], None]
    part = maps.slice(1)
    assert evaluate({"m": part}, lambda col: col("m").map.values()).values == [[], None]


def test_arrays_of_a_fixed_size(evaluate):
    arrays = pa.array([[1, 2], [3, 4], None], pa.list_(pa.int64(), 2))
    made = evaluate({"a": arrays}, lambda col: col("a").arr.to_list())
    assert made.values == [[1, 2], [3, 4], None]
    assert made.type == pa.list_(pa.int64())


@pytest.mark.parametrize(
    "make",
    [
        lambda x: x.str.upper(),
        lambda x: x.list.len(),
        lambda x: x.list.sort(),
        lambda x: x.list.flatten(),
        lambda x: x.map.keys(),
        lambda x: x.arr.to_list(),
        lambda x: x.struct["a"],
    ],
)
def test_a_column_of_another_kind(cluster, data, expressions, make):
    made = data.range(2).with_column("made", make(expressions.col("id")))
    with pytest.raises(cluster.exceptions.UserCodeException):
        made.take_all()


def test_a_class_in_an_expression(data, expressions, types):
    @expressions.udf(return_dtype=types.int64())
    class Add:
        def __init__(self, number=1):
            self.number = number

        def __call__(self, values):
            return pc.add(values, self.number)

    five, one, column = Add(5), Add(), expressions.col("id")
    made = data.range(3).with_columns({"a": five(column), "b": one(column) * 2})
    assert [(row["a"], row["b"]) for row in made.take_all()] == [(5, 2), (6, 4), (7, 6)]


def test_fields_as_columns(data, expressions, types):
    @expressions.udf(return_dtype=types.struct([("a", types.int64()), ("b", types.int64())]))
    def both(values):
        parts = [pc.add(values, number).combine_chunks() for number in (1, 2)]
        return pa.StructArray.from_arrays(parts, names=["a", "b"])

    structs = expressions.unnest(both(expressions.col("id")))
    assert data.range(2).with_columns(structs).take_all() == [
        {"id": 0, "a": 1, "b": 2},
        {"id": 1, "a": 2, "b": 3},
    ]
    made = data.range(1).with_columns({"c": expressions.col("id")}, structs)
    assert made.take_all() == [{"id": 0, "c": 0, "a": 1, "b": 2}]


def test_what_has_no_fields(data, expressions):
    col, unnest = expressions.col, expressions.unnest
    with pytest.raises(TypeError):
        unnest(unnest(col("id")))
    with pytest.raises(TypeError):
        unnest(3)
    with pytest.raises(TypeError):
        data.range(2).with_column("made", unnest(col("id")))
    with pytest.raises(TypeError):
        data.range(2).with_columns(unnest(col("id"))).take_all()


def test_numbers_that_no_other_row_has(data, expressions):
    rows = data.range(6, override_num_blocks=2)
    made = rows.with_column("n", expressions.monotonically_increasing_id()).take_all()
    assert sorted(row["n"] for row in made) == [*range(3), *(2**33 + row for row in range(3))]
    keys = [row["k"] for row in rows.with_column("k", expressions.uuid()).take_all()]
    assert len(set(keys)) == 6
    assert {len(key) for key in keys} == {36}


def test_random_numbers(data, expressions):
    rows = data.range(40, override_num_blocks=2)

    def values(made):
        return sorted(row["r"] for row in made.take_all())

    one = values(rows.with_column("r", expressions.random()))
    assert len(set(one)) == 40
    assert 0 <= one[0] < one[-1] < 1
    same = expressions.random(seed=1, reseed_after_execution=False)
    assert values(rows.with_column("r", same)) == values(rows.with_column("r", same))
    other = rows.with_column("r", expressions.random(seed=1))
    assert values(other) != values(other)


def test_contents_of_files(data, expressions, tmp_path):
    (tmp_path / "name.txt").write_bytes(b"Ada")
    paths = [str(tmp_path / "name.txt"), str(tmp_path / "missing.txt"), None]
    uris = data.from_items([{"path": each} for each in paths], override_num_blocks=1)
    made = uris.with_column("text", expressions.download("path"))
    assert [row["text"] for row in made.take_all()] == [b"Ada", None, None]


def test_types(types):
    assert repr(types.list(types.int64())) == "DataType(arrow:list<item: int64>)"
    assert repr(types.struct([("a", types.string())])) == "DataType(arrow:struct<a: string>)"
    assert repr(types.map(types.string(), types.int64())) == "DataType(arrow:map<string, int64>)"
    assert repr(types.from_numpy("int32")) == "DataType(numpy:int32)"
    assert repr(types(str)) == "DataType(python:str)"
    assert types.int64() == types.int64() != types.int32()
    assert types.int64().to_numpy_dtype() == np.int64
    assert types.string().to_numpy_dtype() == np.dtype(object)
    assert types.from_numpy("int8").to_arrow_dtype() == pa.int8()
    assert types(int).to_python_type() is int
    assert types.infer_dtype([1]) == types.list(types.int64())
    assert types.infer_dtype(np.int32(3)) == types.from_numpy("int32")
    with pytest.raises(ValueError, match="int64"):
        types.int64().to_python_type()
    with pytest.raises(TypeError):
        types("int")


@pytest.mark.parametrize(
    ("make", "kinds"),
    [
        (lambda t: t.int64(), {"numerical"}),
        (lambda t: t.from_numpy("float32"), {"numerical"}),
        (lambda t: t(str), {"string"}),
        (lambda t: t.bool(), set()),
        (lambda t: t.binary(), {"binary"}),
        (lambda t: t.list(t.int64()), {"list", "nested"}),
        (lambda t: t.fixed_size_list(t.int64(), 2), {"list", "nested"}),
        (lambda t: t.struct([("a", t.int64())]), {"struct", "nested"}),
        (lambda t: t.map(t.string(), t.int64()), {"map", "nested"}),
        (lambda t: t.temporal("date32"), {"temporal"}),
        (lambda t: t.temporal("timestamp", unit="s", tz="UTC"), {"temporal"}),
    ],
)
def test_kinds_of_types(types, make, kinds):
    names = ["numerical", "string", "binary", "list", "struct", "map", "nested", "temporal"]
    made = make(types)
    assert {name for name in names if getattr(made, f"is_{name}_type")()} == kinds


def test_a_type_of_no_times(types):
    with pytest.raises(ValueError, match="era"):
        types.temporal("era")


@pytest.mark.parametrize(
    ("make", "lines"),
    [
        (lambda x: x.col("a"), ["COL('a')"]),
        (lambda x: x.lit("a"), ["LIT('a')"]),
        (
            lambda x: (x.col("a") + 1) * (2 - x.col("b")),
            [
                "MUL",
                "    ├── left: ADD",
                "    │   ├── left: COL('a')",
                "    │   └── right: LIT(1)",
                "    └── right: SUB",
                "        ├── left: LIT(2)",
                "        └── right: COL('b')",
            ],
        ),
        (
            lambda x: (x.col("a") >= 1.5) & ~x.col("b").is_null(),
            [
                "AND",
                "    ├── left: GE",
                "    │   ├── left: COL('a')",
                "    │   └── right: LIT(1.5)",
                "    └── right: NOT",
                "        └── operand: IS_NULL",
                "            └── operand: COL('b')",
            ],
        ),
        (
            lambda x: x.col("a").is_in([1, 2]) | x.col("a").not_in(x.lit([3])),
            [
                "OR",
                "    ├── left: IN",
                "    │   ├── left: COL('a')",
                "    │   └── right: LIT([1, 2])",
                "    └── right: NOT_IN",
                "        ├── left: COL('a')",
                "        └── right: LIT([3])",
            ],
        ),
        (
            lambda x: (x.col("a") // 2 % 3).alias("z"),
            [
                "ALIAS('z')",
                "    └── MOD",
                "        ├── left: FLOORDIV",
                "        │   ├── left: COL('a')",
                "        │   └── right: LIT(2)",
                "        └── right: LIT(3)",
            ],
        ),
        (
            lambda x: x.udf(None)(_added)(x.col("a"), second=x.lit(1)),
            ["UDF(_added)", "    ├── arg[0]: COL('a')", "    └── kwarg['second']: LIT(1)"],
        ),
        (lambda x: x.download("uri"), ["DOWNLOAD('uri')"]),
        (lambda x: x.random(), ["RANDOM()"]),
        (lambda x: x.random(seed=1), ["RANDOM(seed=1, reseed_after_execution=True)"]),
        (lambda x: x.uuid(), ["UUID()"]),
        (lambda x: x.monotonically_increasing_id(), ["MONOTONICALLY_INCREASING_ID()"]),
    ],
)
def test_the_text_of_an_expression_is_its_tree(expressions, make, lines):
    assert repr(make(expressions)).splitlines() == lines


def _added(first, second):
    return first + second


def test_values_to_be_among_may_be_a_constant(evaluate, expressions):
    made = evaluate({"a": [1, 2, 3]}, lambda col: col("a").is_in(expressions.lit([1, 3])))
    assert made.values == [True, False, True]


def test_a_program_can_walk_to_the_column_of_an_alias(expressions):
    alias = expressions.col("x").alias("y")
    assert isinstance(alias, expressions.AliasExpr) and isinstance(
        alias.expr, expressions.ColumnExpr
    )
    assert (alias.name, alias.expr.name) == ("y", "x")
