"""Readers of files, without a cluster."""

import ast
import inspect
import math

import pyarrow as pa
import pyarrow.dataset
import pyarrow.fs
import pyarrow.orc
import pyarrow.parquet
import pytest

from raycompat.data import (
    columns,
    condition,
    expressions,
    grouped_data,
    maps,
    options,
    read_api,
    readers,
    sources,
    transform,
    writing,
)
from raycompat.data.expressions import col, lit, monotonically_increasing_id, random
from raycompat.data.files import resolve
from raycompat.data.pushdown import Uses, uses_of
from raycompat.data.transform import TableStep

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


def used(path, uses, folders=None):
    reader = readers.Parquet(None, None, {}).narrowed(uses, folders or {})
    return pa.concat_tables(reader(pyarrow.fs.LocalFileSystem(), path, {}))


def test_groups_of_rows_that_a_later_filter_drops_are_not_read(path):
    uses = expressions.uses((col("a") > 42) & (col("b") > -68))
    assert used(path, uses)["a"].to_pylist() == list(range(40, 70))
    assert used(path, condition.uses("a > 42 and b > -68"))["a"].to_pylist() == list(range(40, 70))


def test_only_columns_that_later_steps_use_are_read(path):
    steps = [
        TableStep(expressions.kept, (), expressions.uses(col("a") > 94)),
        TableStep(transform.select, (), Uses(("b",), drops_others=True)),
        TableStep(transform.select, (), Uses(("zz",), drops_others=True)),
    ]
    assert used(path, uses_of(steps[1:])).column_names == ["b"]
    assert used(path, uses_of(steps)).column_names == ["a", "b"]
    assert used(path, uses_of(steps[2:])).column_names == ["a", "b"]
    assert not uses_of([transform.MapRows(transform.UserFunction(len)), *steps])


def test_columns_that_a_file_and_its_folders_have_are_enough(path):
    known = Uses(("a", "year"), drops_others=True)
    assert used(path, known, {"year": "2024"}).column_names == ["a"]
    # The step that selects them names all columns in its error.
    assert used(path, known).column_names == ["a", "b"]


def test_orc_leaves_the_error_about_an_unknown_column_to_its_step(tmp_path):
    path = str(tmp_path / "numbers.orc")
    pyarrow.orc.write_table(pa.table({"a": [1], "b": [2]}), path)
    for names, read_names in ((("a",), ["a"]), (("a", "zz"), ["a", "b"])):
        reader = readers.Orc().narrowed(Uses(names, drops_others=True), {})
        (table,) = reader(pyarrow.fs.LocalFileSystem(), path, {})
        assert table.column_names == read_names


IN_FILE = pa.schema([("a", pa.int64()), ("b", pa.int64())])
GIVEN = pa.schema([("b", pa.float64()), ("new", pa.string())])


@pytest.mark.parametrize(
    ("columns", "options", "common", "used", "names", "types"),
    [
        (None, {}, None, (), None, None),
        (["b"], {}, None, (), ["b"], None),
        (["a", "b"], {}, None, ("b",), ["b"], None),
        (["a"], {}, None, ("b",), ["a"], None),
        (None, {"schema": GIVEN}, None, (), ["b"], ["double", "string"]),
        (["new"], {"schema": GIVEN}, None, (), [], ["string"]),
        (None, {}, GIVEN, (), ["b", "a"], ["double", "string", "int64"]),
        (None, {}, GIVEN, ("a", "new"), ["a"], ["int64", "string"]),
        (["b"], {}, GIVEN, (), ["b"], ["double"]),
    ],
)
def test_columns_of_a_parquet_file(columns, options, common, used, names, types):
    uses = Uses(used, drops_others=bool(used))
    reader = readers.Parquet(columns, None, options, uses, common)
    found, schema = reader.columns_of("file", IN_FILE)
    assert found == names
    assert (schema and [str(each) for each in schema.types]) == types


def test_a_file_whose_folder_a_later_filter_drops_is_not_read(path):
    uses = expressions.uses(col("year") == "2024")
    assert used(path, uses, {"year": "2023"}).num_rows == 0
    assert used(path, uses, {"year": "2024"}).num_rows == 100
    assert used(path, uses, {"year": "2023"}).column_names == ["a", "b"]


@pytest.mark.parametrize(
    "dropped",
    [
        col("x").is_in([math.nan]) | (col("x") == 5.0),
        col("x") != 5.0,
        ~(col("x") >= 5.0),
        ~(col("x") == 5.0),
        col("x").not_in([5.0]),
        (col("x") > 2) == lit(False),
        (col("x") > 2) <= False,
        "x != 5",
        "not x >= 5",
        "(x > 2) == False",
        "(x > 2) < True",
    ],
    ids=str,
)
def test_nan_is_not_lost_with_its_group_of_rows(tmp_path, dropped):
    path = str(tmp_path / "nan.parquet")
    pyarrow.parquet.write_table(pa.table({"x": [5.0, float("nan")]}), path)
    uses = (condition if isinstance(dropped, str) else expressions).uses(dropped)
    assert used(path, uses).num_rows == 2


@pytest.mark.parametrize(
    "chosen",
    ["x in [0.0]", "x in [0]", "x in [0.0, 9.0]", col("x").is_in([0]), col("x").is_in([0.0, None])],
)
def test_zeros_are_not_lost_with_their_group_of_rows(tmp_path, chosen):
    path = str(tmp_path / "zeros.parquet")
    values = [0.0, 0.0, -1.0, 0.0, 5.0, 6.0]
    pyarrow.parquet.write_table(pa.table({"x": values}), path, row_group_size=2)
    uses = (condition if isinstance(chosen, str) else expressions).uses(chosen)
    assert used(path, uses)["x"].to_pylist() == values[:4]


@pytest.mark.parametrize("type_", [pa.float16(), pa.float32(), pa.float64()], ids=str)
@pytest.mark.parametrize("other", [0.1, 5.0])
def test_a_membership_compares_in_the_type_of_the_column(tmp_path, type_, other):
    path = str(tmp_path / "short.parquet")
    pyarrow.parquet.write_table(pa.table({"x": pa.array([0.1, other]).cast(type_)}), path)
    assert used(path, condition.uses("x in [0.1]")).num_rows == 2
    if type_ != pa.float16():  # pyarrow 26 reads no statistics of these
        assert used(path, condition.uses("x in [9.0]")).num_rows == 0


def test_false_is_zero_in_a_column_of_floats(tmp_path):
    path = str(tmp_path / "zeros.parquet")
    pyarrow.parquet.write_table(pa.table({"x": [0.0, 0.0]}), path)
    assert used(path, condition.uses("x in [False]")).num_rows == 2


@pytest.mark.parametrize("other", [col("a") > "text", col("zz") > 1], ids=str)
def test_a_condition_that_cannot_be_computed_is_left_to_the_filter(path, other):
    assert used(path, expressions.uses(other)).num_rows == 100


@pytest.mark.parametrize("made", [random() > 0.5, monotonically_increasing_id() < 3], ids=str)
def test_a_condition_that_counts_rows_leaves_out_none(made):
    assert expressions.uses((col("a") > 42) & made) is None


#: Values of a column in groups of two rows, and those that it is compared with.
COMPARED = {
    "integers": ([1, 2, None, 50, 60, None, None, None], [0, 1, 50, 2.5]),
    "floats": (
        [1.0, math.nan, None, 5.0, 5.0, math.nan, math.nan, None],
        [1.0, 5.0, 0.1, math.nan],
    ),
    "texts": (["a", "b", None, "z", "y", "", None, None], ["a", "", "z"]),
    "booleans": ([True, False, None, True, True, True, None, None], [True, False]),
}

CONDITIONS = [
    lambda column, value: column > value,
    lambda column, value: column <= value,
    lambda column, value: column == value,
    lambda column, value: column.is_in([value, None]),
    lambda column, value: ~column.is_in([value]),
    lambda column, value: (column > value) | column.is_null(),
    lambda column, value: (column >= value) & column.is_not_null(),
    lambda column, value: lit(value) > column,
]


@pytest.mark.parametrize("kind", COMPARED)
@pytest.mark.parametrize("number", range(len(CONDITIONS)))
def test_no_row_is_lost_with_its_group(tmp_path, kind, number):
    values, others = COMPARED[kind]
    path, table = str(tmp_path / "values.parquet"), pa.table({"x": pa.array(values)})
    pyarrow.parquet.write_table(table, path, row_group_size=2)
    for other in others:
        chosen = CONDITIONS[number](col("x"), other)
        found = expressions.kept(used(path, expressions.uses(chosen)), chosen)
        assert repr(found.to_pydict()) == repr(expressions.kept(table, chosen).to_pydict()), other


#: What the functions take from the ``locals()`` of readers, writers and maps.
PICKED = {
    *options._NAMED, "fallback_strategy", "ray_remote_args", "ray_remote_args_fn",
    *read_api._OF_FILES, "arrow_open_stream_args", "arrow_open_file_args",
    "paths", "parallelism", "override_num_blocks", "concurrency",
    *writing._OF_SINKS, "min_rows_per_file", "num_rows_per_file",
    "fn", "fn_args", "fn_kwargs", "fn_constructor_args", "fn_constructor_kwargs",
}  # fmt: skip

#: Their docstrings say so.
WITHOUT_EFFECT = {"udf_modifying_row_count", "zero_copy_batch"}


@pytest.mark.parametrize("module", [read_api, writing, maps, sources, columns, grouped_data])
def test_no_parameter_is_dropped_where_locals_are_passed_on(module):
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if not isinstance(node, ast.FunctionDef):
            continue
        used = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
        if "locals" in used:
            arguments = node.args
            names = {each.arg for each in (*arguments.args, *arguments.kwonlyargs)} - {"self"}
            assert names <= used | PICKED | WITHOUT_EFFECT, node.name


def test_a_file_of_ray_s_own_package_is_refused():
    with pytest.raises(FileNotFoundError, match="Give the path of a file of yours"):
        resolve("example://iris.csv", None)
