"""Readers: functions that make tables from one file, for each format, with the formats' libraries."""

from __future__ import annotations

import gzip
import importlib
import io
import itertools
import posixpath
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa

from raycompat._old_forms.data import plain_rows
from raycompat.data import block, tensor, tensorflow
from raycompat.data.block import Block
from raycompat.data.datasource.partitioning import Partitioning
from raycompat.data.pushdown import EVERYTHING, Uses

if TYPE_CHECKING:
    from types import ModuleType

    import pyarrow.compute as pc
    from pyarrow.parquet import ParquetFile

    from raycompat.data.files import ArrowFileSystem

#: Bytes of one read from a file.
_CHUNK_BYTES = 8 * 2**20

#: Rows of a table of a reader that makes them one by one.
_ROWS = 1024


@dataclass(frozen=True)
class FileRead:
    """Reads some files, one after the other; a `ReadTask` of files calls it.

    Parameters
    ----------
    read : callable
        Given an open file, its path and the file system, it yields tables.
    filesystem : pyarrow.fs.FileSystem
        Where the files are.
    paths : sequence of str
        The files.
    partitioning : Partitioning, optional
        How names of folders are columns. Default: they are not.
    folder_columns : sequence of str, optional
        Those of these columns that are read. Default: all.
    opening : dict
        Arguments of ``open_input_stream``.
    """

    read: Callable[..., Iterator[Block]]
    filesystem: ArrowFileSystem
    paths: Sequence[str]
    include_paths: bool = False
    partitioning: Partitioning | None = None
    folder_columns: Sequence[str] | None = None
    opening: Mapping[str, object] = field(default_factory=dict)

    #: What the next steps use of the rows.
    uses: Uses = EVERYTHING

    @property
    def can_narrow(self) -> bool:
        """Whether it can leave out what is not used."""
        return isinstance(self.read, Parquet | Orc)

    def _reader(self, columns: Mapping[str, object]) -> Callable[..., Iterator[Block]]:
        """Return the reader of a file with these values in the columns of folders."""
        if self.uses and isinstance(self.read, Parquet | Orc):
            return self.read.narrowed(self.uses, columns)
        return self.read

    def __call__(self) -> Iterator[Block]:
        """Read; an error names its file."""
        for path in self.paths:
            columns = {} if self.partitioning is None else self.partitioning.values_of(path)
            if self.folder_columns is not None:
                columns = {name: columns[name] for name in self.folder_columns}
            if self.include_paths:
                columns["path"] = path
            try:
                for table in self._reader(columns)(self.filesystem, path, self.opening):
                    yield _with_columns(table, columns)
            except (pa.ArrowException, OSError, ValueError, EOFError) as error:
                raise _named(error, path) from error


def _named(error: Exception, path: str) -> Exception:
    kind = type(error) if type(error) in (FileNotFoundError, PermissionError) else ValueError
    return kind(not_read(path, error))


def not_read(path: str, error: Exception) -> str:
    """Return the text of the error for a file that could not be read."""
    return (
        f"{path!r} could not be read: {error}. The file may be cut short, or be of another format."
    )


def _with_columns(table: Block, columns: Mapping[str, object]) -> Block:
    for name, value in columns.items():
        if name not in table.column_names:
            table = table.append_column(name, pa.repeat(value, table.num_rows))
    return table


def _opened(filesystem: ArrowFileSystem, path: str, opening: Mapping[str, object]) -> pa.NativeFile:
    """Open a file for reading; pyarrow decompresses it depending on its name."""
    return filesystem.open_input_stream(path, **{"buffer_size": _CHUNK_BYTES, **opening})


@dataclass(frozen=True)
class Csv:
    """CSV, by ``pyarrow.csv``."""

    options: Mapping[str, Any]

    def __call__(
        self, filesystem: ArrowFileSystem, path: str, opening: Mapping[str, object]
    ) -> Iterator[Block]:
        """Yield tables."""
        import pyarrow.csv

        options = dict(self.options)
        options.setdefault("read_options", pyarrow.csv.ReadOptions(block_size=_CHUNK_BYTES))
        options["read_options"].use_threads = False
        with _opened(filesystem, path, opening) as stream:
            try:
                reader = pyarrow.csv.open_csv(stream, **options)
            except pa.ArrowInvalid as error:
                if "Empty CSV" in str(error):
                    return
                raise
            for batch in reader:
                yield pa.Table.from_batches([batch])


@dataclass(frozen=True)
class Json:
    """JSON, by ``pyarrow.json``: rows, one on each line, or a list of rows."""

    options: Mapping[str, Any]

    def __call__(
        self, filesystem: ArrowFileSystem, path: str, opening: Mapping[str, object]
    ) -> Iterator[Block]:
        """Yield tables."""
        import json

        import pyarrow.json

        with _opened(filesystem, path, opening) as stream:
            data = stream.read()
        head = data[:64].lstrip()
        if head[:1] == b"[":
            yield block.from_rows(json.loads(data))
            return
        if not head:
            return
        options = dict(self.options)
        size = max(_CHUNK_BYTES, 4 * max(map(len, data[: 2**20].splitlines() or [b""])))
        options.setdefault(
            "read_options", pyarrow.json.ReadOptions(use_threads=False, block_size=size)
        )
        try:
            yield pyarrow.json.read_json(io.BytesIO(data), **options)
        except pa.ArrowInvalid:
            rows = json.loads(data)  # one row on several lines
            yield block.from_rows([rows] if isinstance(rows, dict) else rows)


@dataclass(frozen=True)
class JsonLines:
    """JSON, a row on each line, by pandas: text that looks like a time stays text."""

    def __call__(
        self, filesystem: ArrowFileSystem, path: str, opening: Mapping[str, object]
    ) -> Iterator[Block]:
        """Yield tables."""
        with (
            _opened(filesystem, path, opening) as stream,
            pd.read_json(io.BufferedReader(stream), lines=True, chunksize=_ROWS) as frames,
        ):
            yield from (_with_short_texts(block.to_table(frame)) for frame in frames)


def _with_short_texts(table: Block) -> Block:
    """Return the table with the type of texts that other readers have; pandas has large texts."""
    fields = [
        field.with_type(pa.string()) if field.type == pa.large_string() else field
        for field in table.schema
    ]
    return table.cast(pa.schema(fields, table.schema.metadata))


@dataclass(frozen=True)
class Parquet:
    """Groups of rows of a Parquet file, by ``pyarrow.parquet``."""

    columns: Sequence[str] | None
    row_groups: Sequence[int] | None
    options: Mapping[str, Any]
    uses: Uses = EVERYTHING
    #: The columns of all files, in types that fit all, where the files differ.
    common: pa.Schema | None = None
    #: The values of the columns that the folders of the file give.
    folders: Mapping[str, object] = field(default_factory=dict)

    def narrowed(self, uses: Uses, folders: Mapping[str, object]) -> Parquet:
        """Return a reader that may leave out what is not used of the rows."""
        changes = ("filter", "schema", "tensor_column_schema", "_block_udf")
        if any(self.options.get(name) is not None for name in changes):
            return self
        return replace(self, uses=uses, folders=folders)

    def __call__(
        self, filesystem: ArrowFileSystem, path: str, opening: Mapping[str, object]
    ) -> Iterator[Block]:
        """Yield tables; a file without rows yields one, which has its columns."""
        import pyarrow.parquet

        options = dict(self.options)
        condition, given = options.pop("filter", None), options.pop("schema", None)
        tensors = options.pop("tensor_column_schema", None) or {}
        change = options.pop("_block_udf", None) or _unchanged
        if condition is not None:
            for table in self._that_fit(condition, given, filesystem, path, options):
                yield change(_with_tensors(table, tensors))
            return
        with filesystem.open_input_file(path) as source:
            parquet = pyarrow.parquet.ParquetFile(source)
            in_file = parquet.schema_arrow
            wanted, schema = self.columns_of(path, in_file)
            batches = parquet.iter_batches(
                row_groups=self._fitting(source, in_file.names),
                columns=wanted,
                batch_size=options.pop("batch_size", 65536),
                use_threads=False,
                **options,
            )
            tables = (pa.Table.from_batches([batch]) for batch in batches)
            no_rows = pa.Table.from_batches([], in_file)
            first = next(tables, no_rows if wanted is None else no_rows.select(wanted))
            for table in itertools.chain([first], tables):
                conformed = table if schema is None else _of_schema(table, schema)
                yield change(_with_tensors(conformed, tensors))

    def columns_of(
        self, path: str, in_file: pa.Schema
    ) -> tuple[Sequence[str] | None, pa.Schema | None]:
        """Return the columns to read of a file, and the schema that its tables get.

        None: all columns; the schema of the file.
        """
        schema = self.options.get("schema")
        if schema is None and self.common is not None:
            more = (each for each in in_file if each.name not in self.common.names)
            schema = pa.schema([*self.common, *more])
        known = (in_file if schema is None else schema).names
        if self.columns is not None:
            block.require_columns(self.columns, known, f"read_parquet({path!r})")
        wanted = self.uses.enough(self.columns or known, self.folders) or self.columns
        if schema is None:
            return wanted, None
        if wanted is not None:
            schema = pa.schema([schema.field(name) for name in wanted])
        return [name for name in schema.names if name in in_file.names], schema

    def _fitting(self, source: ParquetFile, present: Sequence[str]) -> Sequence[int] | None:
        """Return the groups of rows that may have rows to keep, by their statistics."""
        import pyarrow.dataset

        in_folders = {name: self.folders[name] for name in self.folders if name not in present}
        if any(each.excludes(in_folders) for each in self.uses.conditions):
            return []
        known = [each for each in self.uses.conditions if each.columns <= {*present}]
        if not known:
            return self.row_groups
        file_format = pyarrow.dataset.ParquetFileFormat()
        file = file_format.make_fragment(source, row_groups=self.row_groups)
        for condition in known:
            try:
                file = file.subset(filter=condition.expression)
            except (pa.ArrowException, TypeError):
                continue  # of types that cannot be compared: the step that filters raises the error
        return [group.id for group in file.row_groups]

    def _that_fit(
        self,
        condition: pc.Expression,
        schema: pa.Schema,
        filesystem: ArrowFileSystem,
        path: str,
        options: dict[str, Any],
    ) -> Iterator[Block]:
        """Yield the rows that fit a condition, which may be of columns that are not read.

        Arrow's scanner leaves out the groups of rows in which no row can fit, by their statistics.
        """
        import pyarrow.dataset

        with filesystem.open_input_file(path) as source:
            file_format = pyarrow.dataset.ParquetFileFormat()
            file = file_format.make_fragment(source, row_groups=self.row_groups)
            known = schema or self.common or file.physical_schema
            if self.columns is not None:
                block.require_columns(self.columns, known.names, f"read_parquet({path!r})")
            options = {"batch_size": 65536, **options}
            scanner = file.scanner(
                schema=known,
                columns=self.columns,
                filter=condition,
                batch_readahead=1,
                use_threads=False,
                **options,
            )
            tables = _joined(scanner.to_batches(), options["batch_size"])
            first = next(tables, pa.Table.from_batches([], scanner.projected_schema))
            yield from itertools.chain([first], tables)


def _joined(batches: Iterable[pa.RecordBatch], size: int) -> Iterator[Block]:
    """Yield tables of at least `size` rows, but the last: groups of rows in a file may be small."""
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        if batch.num_rows:
            waiting.append(batch)
        if sum(each.num_rows for each in waiting) >= size:
            yield pa.Table.from_batches(waiting)
            waiting = []
    if waiting:
        yield pa.Table.from_batches(waiting)


def _unchanged(table: Block) -> Block:
    return table


def _with_tensors(
    table: Block, tensors: Mapping[str, tuple[pa.DataType, tuple[int, ...]]]
) -> Block:
    """Return a table with arrays for the bytes of some columns, by their dtypes and shapes."""
    for name, (dtype, shape) in tensors.items():
        if name not in table.column_names:
            continue
        made = [
            None if value is None else np.ndarray(shape, dtype, buffer=value)
            for value in table[name].to_pylist()
        ]
        table = table.set_column(table.column_names.index(name), name, tensor.from_list(made))
    return table


def _of_schema(table: Block, schema: pa.Schema) -> Block:
    """Return a table with the columns of a schema; what it lacks is missing in all rows."""
    columns = [
        table[field.name].cast(field.type)
        if field.name in table.column_names
        else pa.nulls(table.num_rows, field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)


@dataclass(frozen=True)
class Orc:
    """ORC files, stripe by stripe, by ``pyarrow.orc``."""

    uses: Uses = EVERYTHING
    #: The values of the columns that the folders of the file give.
    folders: Mapping[str, object] = field(default_factory=dict)

    def narrowed(self, uses: Uses, folders: Mapping[str, object]) -> Orc:
        """Return a reader that may leave out columns that are not used."""
        return replace(self, uses=uses, folders=folders)

    def __call__(
        self, filesystem: ArrowFileSystem, path: str, opening: Mapping[str, object]
    ) -> Iterator[Block]:
        """Yield tables."""
        import pyarrow.orc

        with filesystem.open_input_file(path) as source:
            file = pyarrow.orc.ORCFile(source)
            used = self.uses.enough(file.schema.names, self.folders)
            if not file.nstripes:
                yield pa.Table.from_batches([], file.schema)
            for number in range(file.nstripes):
                yield pa.Table.from_batches([file.read_stripe(number, columns=used)])


@dataclass(frozen=True)
class Text:
    """Lines of text."""

    encoding: str
    drops_empty: bool

    def __call__(
        self, filesystem: ArrowFileSystem, path: str, opening: Mapping[str, object]
    ) -> Iterator[Block]:
        """Yield tables."""
        with _opened(filesystem, path, opening) as stream:
            lines: list[str] = []
            for line in io.TextIOWrapper(stream, encoding=self.encoding, newline=None):
                text = line.rstrip("\n")
                if self.drops_empty and not text.strip():
                    continue
                lines.append(text)
                if len(lines) == 64 * _ROWS:
                    yield pa.table({plain_rows.column_of_text(): lines})
                    lines = []
        yield pa.table({plain_rows.column_of_text(): pa.array(lines, pa.string())})


@dataclass(frozen=True)
class Binary:
    """Files as they are."""

    def __call__(
        self, filesystem: ArrowFileSystem, path: str, opening: Mapping[str, object]
    ) -> Iterator[Block]:
        """Yield one row."""
        with _opened(filesystem, path, opening) as stream:
            yield pa.table({plain_rows.column("bytes"): pa.array([stream.read()], pa.binary())})


@dataclass(frozen=True)
class Numpy:
    """Arrays in ``.npy`` files."""

    allow_pickle: bool
    options: Mapping[str, Any]

    def __call__(
        self, filesystem: ArrowFileSystem, path: str, opening: Mapping[str, object]
    ) -> Iterator[Block]:
        """Yield one table; its rows are those of the array's first axis."""
        with _opened(filesystem, path, opening) as stream:
            data = io.BytesIO(stream.read())
        values = np.load(data, allow_pickle=self.allow_pickle, **self.options)
        column = plain_rows.column(block.TENSOR_COLUMN)
        yield pa.table({column: tensor.from_numpy(np.atleast_1d(values))})


@dataclass(frozen=True)
class Image:
    """Images, by Pillow."""

    size: tuple[int, int] | None
    mode: str | None

    def __call__(
        self, filesystem: ArrowFileSystem, path: str, opening: Mapping[str, object]
    ) -> Iterator[Block]:
        """Yield one row."""
        try:
            from PIL import Image as Pillow
        except ImportError as error:
            raise ImportError("read_images needs Pillow: pip install pillow") from error
        with _opened(filesystem, path, opening) as stream:
            image: Pillow.Image = Pillow.open(io.BytesIO(stream.read()))
        if self.size is not None:
            height, width = self.size
            image = image.resize((width, height))
        if self.mode is not None:
            image = image.convert(self.mode)
        yield pa.table({"image": tensor.from_list([np.asarray(image)])})


def _imported(function: str, library: str) -> ModuleType:
    try:
        return importlib.import_module(library)
    except ImportError as error:
        raise ImportError(f"{function} needs {library}: pip install {library}") from error


@dataclass(frozen=True)
class Avro:
    """Records of Avro files, by fastavro."""

    def __post_init__(self) -> None:
        self._library()  # so that the call fails, and not a task

    @staticmethod
    def _library() -> ModuleType:
        return _imported("read_avro", "fastavro")

    def __call__(
        self, filesystem: ArrowFileSystem, path: str, opening: Mapping[str, object]
    ) -> Iterator[Block]:
        """Yield tables."""
        fastavro = self._library()
        with _opened(filesystem, path, opening) as stream:
            records = iter(fastavro.reader(stream))
            while rows := list(itertools.islice(records, _ROWS)):
                yield block.from_rows(rows)


@dataclass(frozen=True)
class Audio:
    """Sound, by soundfile: an array of (channels, samples) for each file."""

    def __post_init__(self) -> None:
        self._library()

    @staticmethod
    def _library() -> ModuleType:
        return _imported("read_audio", "soundfile")

    def __call__(
        self, filesystem: ArrowFileSystem, path: str, opening: Mapping[str, object]
    ) -> Iterator[Block]:
        """Yield one row."""
        soundfile = self._library()
        with _opened(filesystem, path, opening) as stream:
            data = io.BytesIO(stream.read())
        samples, rate = soundfile.read(data, dtype="float32", always_2d=True)
        yield pa.table({"amplitude": tensor.from_list([samples.T]), "sample_rate": [rate]})


#: Bytes of a TFRecord beside its contents: their length and two checksums.
_RECORD_FRAME_BYTES = 16


@dataclass(frozen=True)
class TfRecords:
    """Examples in TFRecord files, by TensorFlow."""

    def __call__(
        self, filesystem: ArrowFileSystem, path: str, opening: Mapping[str, object]
    ) -> Iterator[Block]:
        """Yield tables."""
        import tempfile

        tf = tensorflow.imported()
        with _opened(filesystem, path, opening) as stream:
            data = stream.read()
        if posixpath.splitext(path)[1] == ".gz" and data[:2] == b"\x1f\x8b":
            data = gzip.decompress(data)
        # TensorFlow reads records from files alone; this one may be anywhere.
        with tempfile.NamedTemporaryFile(suffix=".tfrecords") as local:
            local.write(data)
            local.flush()
            try:
                examples = tf.data.TFRecordDataset(local.name, buffer_size=_CHUNK_BYTES)
                records = [each.numpy() for each in examples]
            except tf.errors.DataLossError as error:
                raise ValueError(str(error).partition("[")[0]) from error
        if len(data) != sum(len(record) + _RECORD_FRAME_BYTES for record in records):
            raise ValueError(
                "its last record is not whole"
            )  # TensorFlow passes over a part of a head
        for start in range(0, len(records), _ROWS):
            yield _examples(records[start : start + _ROWS])


#: The type of a column, by the kind of its features.
_FEATURE_TYPES = {"bytes_list": pa.binary(), "float_list": pa.float32(), "int64_list": pa.int64()}


def _examples(records: Sequence[bytes]) -> Block:
    """Return a table of serialized examples; fields that an example lacks are missing in its row."""
    tf = tensorflow.imported()
    rows = [tf.train.Example.FromString(record).features.feature for record in records]
    names = sorted({name for row in rows for name in row})
    return pa.table({name: _feature(name, [row.get(name) for row in rows]) for name in names})


def _feature(name: str, features: Sequence[Any]) -> pa.Array:
    """Return a column: of lists, unless each feature has one value at most."""
    kinds = [None if each is None else each.WhichOneof("kind") for each in features]
    values = [
        [] if kind is None else list(getattr(feature, kind).value)
        for feature, kind in zip(features, kinds, strict=True)
    ]
    found = {kind for kind, several in zip(kinds, values, strict=True) if several}
    if len(found) > 1:
        raise ValueError(
            f"Feature {name!r} is {' and '.join(sorted(map(str, found)))} in examples of one file: "
            "a column has one type. Write the examples with one kind of values."
        )
    type_ = _FEATURE_TYPES[str(found.pop())] if found else pa.null()
    if all(len(several) <= 1 for several in values):
        return pa.array([several[0] if several else None for several in values], type_)
    return pa.array(values, pa.list_(type_))
