"""Files in folders, their names and columns, and columns whose types differ between blocks."""

import datetime
import importlib
import math

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

pytestmark = pytest.mark.timeout(180)


@pytest.fixture
def data(cluster):
    module = importlib.import_module(f"{cluster.__name__}.data")
    module.DataContext.get_current().enable_progress_bars = False
    return module


@pytest.fixture
def in_folders(data, tmp_path):
    """A folder of Parquet files whose folders have the values of the column k."""
    folder = str(tmp_path / "in folders 文件")
    rows = [{"k": f"值{number % 2}", "v": number, "w": -number} for number in range(4)]
    data.from_items(rows).write_parquet(folder, partition_cols=["k"])
    return folder


def write(folder, **tables):
    folder.mkdir()
    for name, columns in tables.items():
        pyarrow.parquet.write_table(pa.table(columns), folder / f"{name}.parquet")
    return str(folder)


def by(rows, key):
    return sorted(rows, key=lambda row: (row[key] is None, row[key]))


@pytest.mark.parametrize("columns", [["v"], ["v", "k"], ["k", "v"]])
def test_columns_of_folders_are_read_if_they_are_named(data, in_folders, columns):
    rows = data.read_parquet(in_folders, columns=columns).take_all()
    values = {"k": ["值0", "值1", "值0", "值1"], "v": [0, 1, 2, 3]}
    expected = [{name: values[name][number] for name in columns} for number in range(4)]
    assert by(rows, "v") == expected


def test_a_schema_for_files_that_differ(data, tmp_path):
    folder = write(tmp_path / "files", first={"a": [1]}, second={"a": [2], "b": ["x"]})
    schema = pa.schema([("a", pa.int64()), ("b", pa.string())])
    rows = data.read_parquet(folder, schema=schema).take_all()
    assert by(rows, "a") == [{"a": 1, "b": None}, {"a": 2, "b": "x"}]


def test_a_file_without_rows_has_columns(data, tmp_path):
    folder = write(tmp_path / "files", only={"a": pa.array([], pa.int64())})
    dataset = data.read_parquet(folder)
    assert dataset.take_all() == []
    assert dataset.count() == 0
    assert dataset.schema().names == ["a"]
    assert dataset.schema().types == [pa.int64()]


@pytest.fixture
def sources(cluster, data):
    return importlib.import_module(f"{cluster.__name__}.data.datasource")


@pytest.fixture
def dated(tmp_path):
    """CSV files in folders that name a year and a month."""
    folder = tmp_path / "dated"
    for number, part in enumerate(["year=2023/month=12", "year=2024/month=1"]):
        (folder / part).mkdir(parents=True)
        (folder / part / "a.csv").write_text(f"v\n{number}\n")
    return folder


def test_folders_name_columns(data, dated):
    expected = [
        {"v": 0, "year": "2023", "month": "12"},
        {"v": 1, "year": "2024", "month": "1"},
    ]
    assert by(data.read_csv(str(dated)).take_all(), "v") == expected
    assert data.read_csv(str(dated / "year=2024")).take_all() == expected[1:]
    assert by(data.read_csv(str(dated), partitioning=None).take_all(), "v") == [{"v": 0}, {"v": 1}]


def test_types_of_columns_of_folders(data, sources, dated):
    partitioning = sources.Partitioning("hive", field_types={"year": int})
    rows = by(data.read_csv(str(dated), partitioning=partitioning).take_all(), "v")
    assert [(row["year"], row["month"]) for row in rows] == [(2023, "12"), (2024, "1")]


def test_folders_that_are_values(data, sources, tmp_path):
    (tmp_path / "a" / "2024" / "x").mkdir(parents=True)
    (tmp_path / "a" / "2024" / "x" / "b.csv").write_text("v\n1\n")
    partitioning = sources.Partitioning(
        "dir", base_dir=str(tmp_path / "a"), field_names=["year", None]
    )
    rows = data.read_csv(str(tmp_path), partitioning=partitioning).take_all()
    assert rows == [{"v": 1, "year": "2024"}]


def test_files_are_chosen_by_their_folders(data, sources, dated):
    chosen = sources.PathPartitionFilter.of(lambda values: values["year"] > "2023")
    assert [row["v"] for row in data.read_csv(str(dated), partition_filter=chosen).take_all()] == [
        1
    ]


@pytest.mark.parametrize(
    "options", [{"style": "other"}, {"style": "dir"}, {"style": "dir", "field_names": []}]
)
def test_bad_partitionings(sources, options):
    with pytest.raises(ValueError):
        sources.PathPartitionFilter.of(lambda values: True, **options)


def test_names_of_files(data, sources, tmp_path):
    class Numbered(sources.FilenameProvider):
        def get_filename_for_task(self, write_uuid, task_index):
            assert write_uuid
            return f"part-{task_index:02}.{self.file_format}"

    tables = data.from_items([{"v": 1}, {"v": 2}], override_num_blocks=2)
    tables.write_csv(str(tmp_path / "csv"), filename_provider=Numbered(file_format="csv"))
    names = sorted(path.name for path in (tmp_path / "csv").iterdir())
    assert names == ["part-00.csv", "part-01.csv"]
    image = np.zeros((2, 2, 3), np.uint8)
    images = data.from_items([{"image": image}, {"image": image}], override_num_blocks=1)
    images.write_images(
        str(tmp_path / "png"), "image", filename_provider=Numbered(file_format="png")
    )
    names = sorted(path.name for path in (tmp_path / "png").iterdir())
    assert names == ["part-00_000000_000000.png", "part-00_000000_000001.png"]


def test_a_sink_of_ones_own_gets_the_operations_on_a_block(data, tmp_path):
    class Lines(data.BlockBasedFileDatasink):
        def write_block_to_file(self, block, file):
            names = ",".join(block.to_arrow().column_names)
            rows = [",".join(map(str, row.values())) for row in block.iter_rows(True)]
            file.write("\n".join([names, str(block.num_rows()), *rows]).encode())

    rows = data.from_items([{"a": 1, "b": 2}, {"a": 3, "b": 4}], override_num_blocks=1)
    rows.write_datasink(Lines(str(tmp_path / "lines"), file_format="txt"))
    (path,) = (tmp_path / "lines").iterdir()
    assert path.read_text().splitlines() == ["a,b", "2", "1,2", "3,4"]


def test_the_operations_on_a_block(ray, data):
    accessor = importlib.import_module(f"{ray.__name__}.data.block").BlockAccessor
    block = accessor.for_block(pa.table({"a": [1, None, 3], "b": ["x", "y", "z"]}))
    assert block.num_rows() == 3
    assert block.schema().names == ["a", "b"]
    assert block.size_bytes() > 0
    assert [block.count("a"), block.count("a", ignore_nulls=True)] == [3, 2]
    assert [block.sum("a", True), block.sum("a", False)] == [4, None]
    assert [block.min("a", True), block.max("a", True), block.mean("a", True)] == [1, 3, 2.0]
    assert list(block.iter_rows(True))[1] == {"a": None, "b": "y"}
    assert block.slice(1, 2)["b"].to_pylist() == ["y"]
    assert block.take([2, 0])["b"].to_pylist() == ["z", "x"]
    assert block.select(["b"]).column_names == ["b"]
    assert block.rename_columns({"a": "c"}).column_names == ["c", "b"]
    assert list(block.to_pandas()["b"]) == ["x", "y", "z"]
    assert list(block.to_numpy("b")) == ["x", "y", "z"]
    assert list(block.to_numpy()) == ["a", "b"]
    assert list(block.to_batch_format("numpy")["b"]) == ["x", "y", "z"]
    assert accessor.batch_to_block({"a": np.arange(2)})["a"].to_pylist() == [0, 1]


def test_an_aggregation_by_the_operations_on_a_block(ray, data):
    aggregate = importlib.import_module(f"{ray.__name__}.data.aggregate")
    accessor = importlib.import_module(f"{ray.__name__}.data.block").BlockAccessor

    class Present(aggregate.AggregateFnV2):
        def __init__(self, on):
            super().__init__(f"present({on})", on=on, ignore_nulls=True, zero_factory=lambda: 0)

        def aggregate_block(self, block):
            return accessor.for_block(block).count(self._target_col_name, ignore_nulls=True)

        def combine(self, current, new):
            return current + new

    rows = data.from_items([{"v": 1}, {"v": None}, {"v": 3}], override_num_blocks=2)
    assert rows.aggregate(Present("v")) == {"present(v)": 2}


@pytest.mark.parametrize("options", [{}, {"file_extensions": ["csv"]}])
def test_a_folder_without_files(data, tmp_path, options):
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError):
        data.read_csv(str(tmp_path / "empty"), **options)


@pytest.mark.parametrize("paths", [5, [5], []])
def test_paths_that_are_none(data, paths):
    with pytest.raises((ValueError, AssertionError)):
        data.read_csv(paths)


def test_a_name_with_brackets_is_not_a_pattern(data, tmp_path):
    (tmp_path / "a [1].csv").write_text("v\n1\n")
    assert data.read_csv(str(tmp_path / "a [1].csv")).take_all() == [{"v": 1}]


def test_a_column_has_another_type_in_each_file(data, tmp_path):
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "1.csv").write_text("v\n1\n")
    (tmp_path / "files" / "2.csv").write_text("v\nx\n")
    dataset = data.read_csv(str(tmp_path / "files"))
    assert sorted(str(row["v"]) for row in dataset.take_all()) == ["1", "x"]
    assert sorted(dataset.to_pandas()["v"].map(str)) == ["1", "x"]
    texts = dataset.map(lambda row: {"v": str(row["v"])})
    assert [row["v"] for row in texts.sort("v").take_all()] == ["1", "x"]


LINES = '{"t": "2024-01-01T00:00:00", "v": 1}\n{"t": "x", "v": "y"}\n'


def test_lines_of_json_are_read_by_pandas(data, tmp_path):
    (tmp_path / "a.jsonl").write_text(LINES)
    rows = data.read_json(str(tmp_path / "a.jsonl"), lines=True).take_all()
    assert rows == [{"t": "2024-01-01T00:00:00", "v": 1}, {"t": "x", "v": "y"}]


def test_json_is_read_by_arrow(data, tmp_path):
    (tmp_path / "a.json").write_text(LINES.splitlines()[0])
    rows = data.read_json(str(tmp_path / "a.json")).take_all()
    assert rows == [{"t": datetime.datetime(2024, 1, 1), "v": 1}]


def test_arguments_of_arrow_are_not_for_lines(data, tmp_path):
    (tmp_path / "a.jsonl").write_text(LINES)
    with pytest.raises(ValueError):
        data.read_json(str(tmp_path / "a.jsonl"), lines=True, read_options=None, memory_pool=None)


def test_nan_is_a_number(data):
    rows = [{"v": math.nan}, {"v": 1.0}, {"v": None}]
    dataset = data.from_items(rows, override_num_blocks=1)
    found = [row["v"] for row in dataset.take_all()]
    assert math.isnan(found[0])
    assert found[1:] == [1.0, None]
    (mapped,) = data.range(1).map(lambda row: {"v": math.nan}).take_all()
    assert math.isnan(mapped["v"])


@pytest.mark.parametrize("unit", ["Y", "M", "D", "h", "s", "ms", "us"])
def test_times_of_numpy(data, unit):
    times = np.array(["2024-01-01"], f"datetime64[{unit}]")
    dataset = data.range(1).map_batches(lambda batch: {"t": times})
    assert dataset.take_all() == [{"t": datetime.datetime(2024, 1, 1)}]
    assert dataset.schema().types == [pa.timestamp(unit if unit in ("ms", "us") else "s")]


KEYS = {
    "booleans": ([True, False], [True, None], [None, None]),
    "integers": ([1, 2], [1, None], [None, None]),
    "text": (["a", "b"], ["a", None], [None, None]),
    "times": ([datetime.datetime(2024, 1, 1)] * 2, [None, None]),
}


@pytest.mark.parametrize("keys", KEYS.values(), ids=KEYS)
def test_a_key_that_is_missing_in_a_block(data, keys):
    """Each block is cut by the hashes of its keys, and has a type by the values that it has."""
    context = data.DataContext.get_current()
    size, context.target_max_block_size = context.target_max_block_size, 1
    try:
        blocks = [pa.table({"k": pa.array(each), "v": [1, 1]}) for each in keys]
        groups = data.from_arrow(blocks).groupby("k", num_partitions=8)
        found = groups.map_groups(lambda group: {"n": [len(group["v"])]}).take_all()
    finally:
        context.target_max_block_size = size
    counts = {key: sum(each.count(key) for each in keys) for each in keys for key in each}
    assert sorted(row["n"] for row in found) == sorted(counts.values())


def test_texts_of_json_lines(data, tmp_path):
    (tmp_path / "rows.jsonl").write_text('{"name": "Ada", "age": 36}\n')
    schema = data.read_json(str(tmp_path / "rows.jsonl"), lines=True).schema()
    assert dict(zip(schema.names, schema.types, strict=True)) == {
        "name": pa.string(),
        "age": pa.int64(),
    }


def test_a_parquet_file_of_another_format(data, tmp_path):
    (tmp_path / "rows.parquet").write_bytes(b"a,b\n1,2\n")
    with pytest.raises(pa.ArrowInvalid):
        data.read_parquet(str(tmp_path / "rows.parquet")).take_all()


def test_a_record_without_a_whole_head(cluster, data, tmp_path):
    pytest.importorskip("tensorflow")
    (tmp_path / "rows.tfrecords").write_bytes(b"a,b\n1\n")
    with pytest.raises(cluster.exceptions.RayTaskError):
        data.read_tfrecords(str(tmp_path / "rows.tfrecords")).take_all()


def test_no_file_has_more_rows(data, tmp_path):
    numbers = data.range(20, override_num_blocks=1)
    numbers.write_parquet(str(tmp_path / "plain"), max_rows_per_file=6)
    found = sorted(
        pyarrow.parquet.read_metadata(each).num_rows for each in (tmp_path / "plain").iterdir()
    )
    assert max(found) <= 6 and sum(found) == 20
    assert sorted(data.read_parquet(str(tmp_path / "plain")).unique("id")) == [*range(20)]
    with pytest.raises(ValueError):
        numbers.write_parquet(str(tmp_path), min_rows_per_file=7, max_rows_per_file=6)


def test_no_file_of_a_folder_has_more_rows(data, tmp_path):
    rows = [{"k": number % 2, "v": number} for number in range(20)]
    folder = tmp_path / "parts"
    data.from_items(rows, override_num_blocks=1).write_parquet(
        str(folder), partition_cols=["k"], max_rows_per_file=4
    )
    files = [*folder.glob("k=0/*.parquet")]
    assert len(files) >= 3
    assert all(pyarrow.parquet.read_metadata(each).num_rows <= 4 for each in files)


def test_bytes_that_are_arrays(data, tmp_path):
    arrays = [np.arange(4), np.arange(4) + 10]
    folder = write(tmp_path / "arrays", a={"x": [each.tobytes() for each in arrays]})
    found = data.read_parquet(folder, tensor_column_schema={"x": (np.int64, (2, 2))}).take_all()
    assert [row["x"].tolist() for row in found] == [each.reshape(2, 2).tolist() for each in arrays]


def test_a_function_changes_what_is_read(data, tmp_path):
    folder = write(tmp_path / "changed", a={"x": [1, 2]})

    def doubled(table):
        return pa.concat_tables([table, table])

    dataset = data.read_parquet(folder, _block_udf=doubled)
    assert [row["x"] for row in dataset.take_all()] == [1, 2, 1, 2]
    assert data.read_parquet(folder, _block_udf=doubled).count() == 4


def test_a_format_of_ones_own(data, sources, tmp_path):
    class Lengths(sources.FileBasedDatasource):
        def _read_stream(self, stream, path):
            import pandas

            yield pandas.DataFrame({"n": [len(stream.readall())]})

    (tmp_path / "a.x").write_text("abc")
    (tmp_path / "b.y").write_text("a")
    assert data.read_datasource(Lengths(str(tmp_path / "a.x"))).take_all() == [{"n": 3}]
    found = data.read_datasource(Lengths(str(tmp_path), file_extensions=["y"]))
    assert found.take_all() == [{"n": 1}]
    with pytest.raises(FileNotFoundError):
        data.read_datasource(Lengths(str(tmp_path / "none"))).take_all()


def test_records_of_avro(data, tmp_path):
    fastavro = pytest.importorskip("fastavro")
    schema = {
        "type": "record",
        "name": "row",
        "fields": [{"name": "x", "type": "long"}, {"name": "y", "type": ["null", "string"]}],
    }
    rows = [{"x": 1, "y": "a"}, {"x": 2, "y": None}]
    with (tmp_path / "rows.avro").open("wb") as file:
        fastavro.writer(file, fastavro.parse_schema(schema), rows)
    assert data.read_avro(str(tmp_path / "rows.avro")).take_all() == rows


def test_sound(data, tmp_path):
    soundfile = pytest.importorskip("soundfile")
    wave = np.linspace(-0.5, 0.5, 8, dtype=np.float32)
    soundfile.write(tmp_path / "a.wav", np.stack([wave, -wave], axis=1), 8000, subtype="FLOAT")
    (row,) = data.read_audio(str(tmp_path)).take_all()
    assert row["sample_rate"] == 8000
    np.testing.assert_array_equal(row["amplitude"], [wave, -wave])


@pytest.fixture
def numbered(data, tmp_path):
    """A folder of 30 files, which are read in the order of the names unless they are shuffled."""
    for number in range(30):
        (tmp_path / f"{number:02}.txt").write_text(str(number))
    data.DataContext.get_current().execution_options.preserve_order = True
    yield str(tmp_path)
    data.DataContext.get_current().execution_options.preserve_order = False


def texts(dataset):
    return [row["text"] for row in dataset.iter_rows()]


@pytest.mark.parametrize("seed", [None, 3])
def test_each_execution_reads_shuffled_files_in_another_order(data, numbered, seed):
    dataset = data.read_text(numbered, shuffle=data.FileShuffleConfig(seed=seed))
    first, second = texts(dataset), texts(dataset)
    assert first != second
    assert sorted(first) == sorted(second) == sorted(map(str, range(30)))


def test_files_shuffled_without_a_configuration(data, numbered):
    dataset = data.read_text(numbered, shuffle="files")
    assert texts(dataset) != texts(dataset)


def test_the_same_order_of_files_in_each_execution(data, numbered):
    config = data.FileShuffleConfig(seed=3, reseed_after_execution=False)
    dataset = data.read_text(numbered, shuffle=config)
    assert texts(dataset) == texts(dataset) == texts(data.read_text(numbered, shuffle=config))
    assert texts(dataset) != texts(data.read_text(numbered))


def test_a_seed_that_is_no_integer_is_refused(data):
    with pytest.raises(ValueError, match="(?i)seed"):
        data.FileShuffleConfig(seed="a")


def test_a_filter_of_folders_values_and_missing_values_after_a_read(cluster, data, in_folders):
    expressions = importlib.import_module(f"{cluster.__name__}.data.expressions")
    rows = data.read_parquet(in_folders)
    chosen = (expressions.col("k") == "值1") & (expressions.col("v") > 1)
    assert rows.filter(expr=chosen).take_all() == [{"v": 3, "w": -3, "k": "值1"}]
    assert rows.filter(expr=chosen).select_columns(["w"]).take_all() == [{"w": -3}]
    assert rows.filter(expr=expressions.col("k") == "none").count() == 0
    assert rows.select_columns(["k"]).filter(expr=expressions.col("k") == "值0").count() == 2


def test_parquet_files_of_different_columns_have_the_columns_of_all(data, tmp_path):
    folder = write(tmp_path / "grown", a={"v": [1]}, b={"v": [2.5], "w": ["x"]})
    rows = data.read_parquet(folder)
    assert by(rows.take_all(), "v") == [{"v": 1.0, "w": None}, {"v": 2.5, "w": "x"}]
    assert by(rows.select_columns(["w"]).take_all(), "w") == [{"w": "x"}, {"w": None}]


def test_parquet_files_whose_types_do_not_fit_together_are_refused(data, tmp_path):
    folder = write(tmp_path / "mixed", a={"v": [1]}, b={"v": ["x"]})
    with pytest.raises(pa.ArrowTypeError, match="v"):
        data.read_parquet(folder).take_all()


@pytest.mark.parametrize("read", ["read_text", "read_csv", "read_parquet", "read_binary_files"])
def test_an_empty_path_names_no_file(data, read):
    with pytest.raises(FileNotFoundError):
        getattr(data, read)("").take_all()
