"""Writing a data set's rows: the ``write_`` methods of `Dataset`."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

import raycompat as ray
from raycompat._old_forms.data.options import writes_its_one_column
from raycompat.data import block, frames, tensor, tensorflow
from raycompat.data.block import Block, Bundle
from raycompat.data.datasink import (
    Datasink,
    PartitionedSink,
    RowSink,
    SaveMode,
    TableSink,
    TaskContext,
    WriteResult,
)
from raycompat.data.options import refuse_options
from raycompat.data.sql import SqlDatasink
from raycompat.data.webdataset import SampleWriter

if TYPE_CHECKING:
    from raycompat.data.block import Row
    from raycompat.data.filename_provider import FilenameProvider
    from raycompat.data.files import FileSystem
    from raycompat.data.plan import Node
    from raycompat.data.schema import Schema
    from raycompat.data.sql import Connection
    from raycompat.data.webdataset import Coders


class Writing:
    """The methods of a data set that write it."""

    _plan: Node
    _bundles: Callable[..., Iterator[Bundle]]
    schema: Callable[..., Schema | None]

    def write_sql(
        self,
        sql: str,
        connection_factory: Callable[[], Connection],
        ray_remote_args: Mapping[str, object] | None = None,
        concurrency: int | None = None,
    ) -> None:
        """Execute a statement of SQL with the values of each row.

        Each task writes in a separate transaction: after an error, some rows may have been written.

        Parameters
        ----------
        sql : str
            The statement, with a mark for each column in order: ``INSERT INTO t VALUES(?, ?)``.
        connection_factory : callable
            Called without arguments in each task, it returns a connection of Python's DB-API.
        ray_remote_args : dict, optional
            Options of the tasks that write, as for `raycompat.remote`.
        concurrency : int, optional
            Maximum number of concurrent tasks. Default: twice the number of CPUs.

        Examples
        --------
        >>> import os, sqlite3, tempfile
        >>> path = os.path.join(tempfile.mkdtemp(), "numbers.db")
        >>> def connect():
        ...     return sqlite3.connect(path, timeout=30)
        >>> _ = connect().execute("CREATE TABLE numbers (id INTEGER)")
        >>> ray.data.range(4).write_sql("INSERT INTO numbers VALUES (?)", connect)
        >>> connect().execute("SELECT sum(id) FROM numbers").fetchone()
        (6,)
        """
        sink = SqlDatasink(sql, connection_factory)
        self.write_datasink(sink, ray_remote_args=ray_remote_args, concurrency=concurrency)

    def write_datasink(
        self,
        datasink: Datasink[Any],
        *,
        ray_remote_args: Mapping[str, object] | None = None,
        concurrency: int | None = None,
    ) -> None:
        """Execute the plan, and write its blocks to a user's sink.

        Parameters
        ----------
        datasink : Datasink
            Where to.
        ray_remote_args : dict, optional
            Options of the tasks that write, as for `raycompat.remote`.
        concurrency : int, optional
            Maximum number of concurrent tasks. Default: twice the number of CPUs.

        Examples
        --------
        >>> class Counted(ray.data.Datasink):
        ...     def write(self, blocks, ctx):
        ...         return sum(block.num_rows for block in blocks)
        ...
        ...     def on_write_complete(self, write_result):
        ...         print("rows:", sum(write_result.write_returns))
        >>> ray.data.range(3).write_datasink(Counted())
        rows: 3
        """
        try:
            datasink.on_write_start(self._plan.columns())
            if getattr(datasink, "is_skipped", False):
                return
            results = _written(self._bundles(), datasink, dict(ray_remote_args or {}), concurrency)
            rows, size = (sum(each[index] for each in results) for index in (0, 1))
            datasink.on_write_complete(WriteResult(rows, size, [each[2] for each in results]))
        except Exception as error:
            datasink.on_write_failed(error)
            raise

    def write_csv(
        self,
        path: str,
        *,
        filesystem: FileSystem | None = None,
        try_create_dir: bool = True,
        arrow_open_stream_args: Mapping[str, object] | None = None,
        filename_provider: FilenameProvider | None = None,
        arrow_csv_args_fn: Callable[[], Mapping[str, object]] | None = None,
        min_rows_per_file: int | None = None,
        ray_remote_args: Mapping[str, object] | None = None,
        concurrency: int | None = None,
        num_rows_per_file: int | None = None,
        mode: SaveMode = SaveMode.APPEND,
        **arrow_csv_args: object,
    ) -> None:
        """Write CSV files, with ``pyarrow.csv``.

        Parameters
        ----------
        path : str
            The folder.
        filesystem : pyarrow.fs.FileSystem or fsspec.AbstractFileSystem, optional
            The file system of the path. Default: that of its URL.
        try_create_dir : bool, default True
            Make the folder.
        arrow_open_stream_args : dict, optional
            Arguments of ``open_output_stream``.
        filename_provider : raycompat.data.datasource.FilenameProvider, optional
            Names the files.
        min_rows_per_file, num_rows_per_file : int, optional
            Rows that a file has at least; the second is the older name.
        ray_remote_args, concurrency : optional
            As for `write_datasink`.
        mode : SaveMode, default APPEND
            The action when the folder exists.
        arrow_csv_args_fn : callable, optional
            Returns more arguments; called in the task that writes.
        **arrow_csv_args
            Arguments of ``pyarrow.csv.write_csv``.

        Examples
        --------
        >>> import tempfile
        >>> folder = tempfile.mkdtemp()
        >>> ray.data.range(3).write_csv(folder)
        >>> ray.data.read_csv(folder).sum("id")
        3
        """
        sink = TableSink(
            path,
            _CsvWriter(arrow_csv_args, arrow_csv_args_fn),
            file_format="csv",
            **_sink_options(locals()),
        )
        self.write_datasink(sink, ray_remote_args=ray_remote_args, concurrency=concurrency)

    def write_json(
        self,
        path: str,
        *,
        filesystem: FileSystem | None = None,
        try_create_dir: bool = True,
        arrow_open_stream_args: Mapping[str, object] | None = None,
        filename_provider: FilenameProvider | None = None,
        pandas_json_args_fn: Callable[[], Mapping[str, object]] | None = None,
        min_rows_per_file: int | None = None,
        ray_remote_args: Mapping[str, object] | None = None,
        concurrency: int | None = None,
        num_rows_per_file: int | None = None,
        mode: SaveMode = SaveMode.APPEND,
        **pandas_json_args: object,
    ) -> None:
        """Write JSON files, a row on each line, with pandas.

        Parameters
        ----------
        path : str
            The folder.
        filesystem : pyarrow.fs.FileSystem or fsspec.AbstractFileSystem, optional
            The file system of the path. Default: that of its URL.
        try_create_dir : bool, default True
            Make the folder.
        arrow_open_stream_args : dict, optional
            Arguments of ``open_output_stream``.
        filename_provider : raycompat.data.datasource.FilenameProvider, optional
            Names the files.
        min_rows_per_file, num_rows_per_file : int, optional
            Rows that a file has at least; the second is the older name.
        ray_remote_args, concurrency : optional
            As for `write_datasink`.
        mode : SaveMode, default APPEND
            The action when the folder exists.
        pandas_json_args_fn : callable, optional
            Returns more arguments; called in the task that writes.
        **pandas_json_args
            Arguments of ``DataFrame.to_json``.

        Examples
        --------
        >>> import tempfile
        >>> folder = tempfile.mkdtemp()
        >>> ray.data.range(3).write_json(folder)
        >>> ray.data.read_json(folder).sum("id")
        3
        """
        sink = TableSink(
            path,
            _JsonWriter(pandas_json_args, pandas_json_args_fn),
            file_format="json",
            **_sink_options(locals()),
        )
        self.write_datasink(sink, ray_remote_args=ray_remote_args, concurrency=concurrency)

    def write_parquet(
        self,
        path: str,
        *,
        partition_cols: list[str] | None = None,
        filesystem: FileSystem | None = None,
        catalog: object = None,
        try_create_dir: bool = True,
        arrow_open_stream_args: Mapping[str, object] | None = None,
        filename_provider: FilenameProvider | None = None,
        arrow_parquet_args_fn: Callable[[], Mapping[str, object]] | None = None,
        min_rows_per_file: int | None = None,
        max_rows_per_file: int | None = None,
        min_bytes_per_file: int | None = None,
        ray_remote_args: Mapping[str, object] | None = None,
        concurrency: int | None = None,
        num_rows_per_file: int | None = None,
        mode: SaveMode = SaveMode.APPEND,
        **arrow_parquet_args: object,
    ) -> None:
        """Write Parquet files, with ``pyarrow.parquet``.

        Parameters
        ----------
        path : str
            The folder.
        partition_cols : list of str, optional
            Columns whose values name folders, as Hive does: ``year=2024/``.
        catalog, min_bytes_per_file : optional
            Not supported.
        filesystem : pyarrow.fs.FileSystem or fsspec.AbstractFileSystem, optional
            The file system of the path. Default: that of its URL.
        try_create_dir : bool, default True
            Make the folder.
        arrow_open_stream_args : dict, optional
            Arguments of ``open_output_stream``.
        filename_provider : raycompat.data.datasource.FilenameProvider, optional
            Names the files.
        max_rows_per_file : int, optional
            Maximum number of rows of a file.
        min_rows_per_file, num_rows_per_file : int, optional
            Rows that a file has at least; the second is the older name.
        ray_remote_args, concurrency : optional
            As for `write_datasink`.
        mode : SaveMode, default APPEND
            The action when the folder exists.
        arrow_parquet_args_fn : callable, optional
            Returns more arguments; called in the task that writes.
        **arrow_parquet_args
            Arguments of ``pyarrow.parquet.write_table``; `schema` chooses the columns and their types.

        Examples
        --------
        >>> import tempfile
        >>> folder = tempfile.mkdtemp()
        >>> ray.data.range(3).write_parquet(folder)
        >>> ray.data.read_parquet(folder).sum("id")
        3

        Notes
        -----
        Ray source: ``Dataset.write_parquet``, 2.60.0. Differs from Ray: columns that `schema` does not
        have are left out; Ray refuses them.
        """
        refuse_options(
            "write_parquet",
            catalog=catalog,
            min_bytes_per_file=min_bytes_per_file,
        )
        sink = TableSink(
            path,
            _ParquetWriter(arrow_parquet_args, arrow_parquet_args_fn),
            file_format="parquet",
            **_sink_options(locals()),
        )
        if partition_cols:
            parts = PartitionedSink(sink, partition_cols, arrow_parquet_args)
            self.write_datasink(parts, ray_remote_args=ray_remote_args, concurrency=concurrency)
            return
        self.write_datasink(sink, ray_remote_args=ray_remote_args, concurrency=concurrency)

    def write_orc(
        self,
        path: str,
        *,
        filesystem: FileSystem | None = None,
        try_create_dir: bool = True,
        arrow_open_stream_args: Mapping[str, object] | None = None,
        filename_provider: FilenameProvider | None = None,
        arrow_orc_args_fn: Callable[[], Mapping[str, object]] | None = None,
        min_rows_per_file: int | None = None,
        ray_remote_args: Mapping[str, object] | None = None,
        concurrency: int | None = None,
        mode: SaveMode = SaveMode.APPEND,
        **arrow_orc_args: object,
    ) -> None:
        """Write ORC files, with ``pyarrow.orc``.

        Parameters
        ----------
        path : str
            The folder.
        filesystem : pyarrow.fs.FileSystem or fsspec.AbstractFileSystem, optional
            The file system of the path. Default: that of its URL.
        try_create_dir : bool, default True
            Make the folder.
        arrow_open_stream_args : dict, optional
            Arguments of ``open_output_stream``.
        filename_provider : raycompat.data.datasource.FilenameProvider, optional
            Names the files.
        min_rows_per_file : int, optional
            Rows that a file has at least.
        ray_remote_args, concurrency : optional
            As for `write_datasink`.
        mode : SaveMode, default APPEND
            The action when the folder exists.
        arrow_orc_args_fn : callable, optional
            Returns more arguments; called in the task that writes.
        **arrow_orc_args
            Arguments of ``pyarrow.orc.write_table``.

        Examples
        --------
        >>> import tempfile
        >>> folder = tempfile.mkdtemp()
        >>> ray.data.range(3).write_orc(folder)
        >>> ray.data.read_orc(folder).sum("id")
        3
        """
        sink = TableSink(
            path,
            _OrcWriter(arrow_orc_args, arrow_orc_args_fn),
            file_format="orc",
            **_sink_options(locals()),
        )
        self.write_datasink(sink, ray_remote_args=ray_remote_args, concurrency=concurrency)

    @writes_its_one_column
    def write_numpy(
        self,
        path: str,
        *,
        column: str,
        filesystem: FileSystem | None = None,
        try_create_dir: bool = True,
        arrow_open_stream_args: Mapping[str, object] | None = None,
        filename_provider: FilenameProvider | None = None,
        min_rows_per_file: int | None = None,
        ray_remote_args: Mapping[str, object] | None = None,
        concurrency: int | None = None,
        num_rows_per_file: int | None = None,
        mode: SaveMode = SaveMode.APPEND,
    ) -> None:
        """Write a column as arrays in ``.npy`` files.

        Parameters
        ----------
        path : str
            The folder.
        column : str
            The column.
        filesystem : pyarrow.fs.FileSystem or fsspec.AbstractFileSystem, optional
            The file system of the path. Default: that of its URL.
        try_create_dir : bool, default True
            Make the folder.
        arrow_open_stream_args : dict, optional
            Arguments of ``open_output_stream``.
        filename_provider : raycompat.data.datasource.FilenameProvider, optional
            Names the files.
        min_rows_per_file, num_rows_per_file : int, optional
            Rows that a file has at least; the second is the older name.
        ray_remote_args, concurrency : optional
            As for `write_datasink`.
        mode : SaveMode, default APPEND
            The action when the folder exists.

        Examples
        --------
        >>> import tempfile
        >>> folder = tempfile.mkdtemp()
        >>> ray.data.range(3).write_numpy(folder, column="id")
        >>> ray.data.read_numpy(folder).count()
        3
        """
        sink = TableSink(path, _NumpyWriter(column), file_format="npy", **_sink_options(locals()))
        self.write_datasink(sink, ray_remote_args=ray_remote_args, concurrency=concurrency)

    def write_tfrecords(
        self,
        path: str,
        *,
        tf_schema: object = None,
        filesystem: FileSystem | None = None,
        try_create_dir: bool = True,
        arrow_open_stream_args: Mapping[str, object] | None = None,
        filename_provider: FilenameProvider | None = None,
        min_rows_per_file: int | None = None,
        ray_remote_args: Mapping[str, object] | None = None,
        concurrency: int | None = None,
        num_rows_per_file: int | None = None,
        mode: SaveMode = SaveMode.APPEND,
    ) -> None:
        """Write TFRecord files of examples, by TensorFlow.

        Parameters
        ----------
        path : str
            The folder.
        tf_schema : optional
            Not supported.
        filesystem : pyarrow.fs.FileSystem or fsspec.AbstractFileSystem, optional
            The file system of the path. Default: that of its URL.
        try_create_dir : bool, default True
            Make the folder.
        arrow_open_stream_args : dict, optional
            Arguments of ``open_output_stream``.
        filename_provider : raycompat.data.datasource.FilenameProvider, optional
            Names the files.
        min_rows_per_file, num_rows_per_file : int, optional
            Rows that a file has at least; the second is the older name.
        ray_remote_args, concurrency : optional
            As for `write_datasink`.
        mode : SaveMode, default APPEND
            The action when the folder exists.

        Examples
        --------
        >>> import tempfile
        >>> folder = tempfile.mkdtemp()
        >>> ray.data.from_items([{"label": 3, "text": "three"}]).write_tfrecords(folder)
        >>> ray.data.read_tfrecords(folder).take_all()
        [{'label': 3, 'text': b'three'}]

        Notes
        -----
        Ray source: ``Dataset.write_tfrecords``, 2.60.0. An array becomes the bytes that
        ``tf.io.serialize_tensor`` makes of it. Differs from Ray: values of bool are written too, as
        integers.
        """
        refuse_options("write_tfrecords", tf_schema=tf_schema)
        sink = TableSink(path, _write_examples, file_format="tfrecords", **_sink_options(locals()))
        self.write_datasink(sink, ray_remote_args=ray_remote_args, concurrency=concurrency)

    def write_webdataset(
        self,
        path: str,
        *,
        filesystem: FileSystem | None = None,
        try_create_dir: bool = True,
        arrow_open_stream_args: Mapping[str, object] | None = None,
        filename_provider: FilenameProvider | None = None,
        min_rows_per_file: int | None = None,
        ray_remote_args: Mapping[str, object] | None = None,
        encoder: Coders = True,
        concurrency: int | None = None,
        num_rows_per_file: int | None = None,
        mode: SaveMode = SaveMode.APPEND,
    ) -> None:
        """Write archives in the form of WebDataset: tar files, with a file for each value.

        The column ``__key__`` names the files of a row, and the name of a column is their ending:
        ``0007.png``. Without it, keys are random. Other columns that begin with ``__`` are left out.

        Parameters
        ----------
        path : str
            The folder.
        filesystem : pyarrow.fs.FileSystem or fsspec.AbstractFileSystem, optional
            The file system of the path. Default: that of its URL.
        try_create_dir : bool, default True
            Make the folder.
        arrow_open_stream_args : dict, optional
            Arguments of ``open_output_stream``.
        filename_provider : raycompat.data.datasource.FilenameProvider, optional
            Names the archives.
        min_rows_per_file, num_rows_per_file : int, optional
            Rows that an archive has at least; the second is the older name.
        ray_remote_args, concurrency : optional
            As for `write_datasink`.
        encoder : bool, callable or list of these, default True
            Makes bytes or texts of the values of a row. True: depending on the columns' endings, which
            are ``cls``, ``json``, ``npy``, ``mp``, ``pkl``, ``pt`` and those of images. A function
            takes a row and returns one. None: the values are bytes or texts already.
        mode : SaveMode, default APPEND
            The action when the folder exists.

        Raises
        ------
        ValueError
            When a value is not bytes or text after the encoder.

        Examples
        --------
        >>> import tempfile
        >>> folder = tempfile.mkdtemp()
        >>> row = {"__key__": "0007", "cls": 3, "json": {"author": "Ada"}}
        >>> ray.data.from_items([row]).write_webdataset(folder)
        >>> ray.data.read_webdataset(folder).select_columns(["cls", "json"]).take_all()
        [{'cls': 3, 'json': {'author': 'Ada'}}]
        """
        sink = TableSink(path, SampleWriter(encoder), file_format="tar", **_sink_options(locals()))
        self.write_datasink(sink, ray_remote_args=ray_remote_args, concurrency=concurrency)

    def write_images(
        self,
        path: str,
        column: str,
        file_format: str = "png",
        *,
        filesystem: FileSystem | None = None,
        try_create_dir: bool = True,
        arrow_open_stream_args: Mapping[str, object] | None = None,
        filename_provider: FilenameProvider | None = None,
        ray_remote_args: Mapping[str, object] | None = None,
        concurrency: int | None = None,
        mode: SaveMode = SaveMode.APPEND,
    ) -> None:
        """Write a column of arrays as images, a file for each row, by Pillow.

        Parameters
        ----------
        path : str
            The folder.
        column : str
            The column.
        file_format : str, default "png"
            Pillow's name of the format.
        filesystem : pyarrow.fs.FileSystem or fsspec.AbstractFileSystem, optional
            The file system of the path. Default: that of its URL.
        try_create_dir : bool, default True
            Make the folder.
        arrow_open_stream_args : dict, optional
            Arguments of ``open_output_stream``.
        filename_provider : raycompat.data.datasource.FilenameProvider, optional
            Names the files.
        ray_remote_args, concurrency : optional
            As for `write_datasink`.
        mode : SaveMode, default APPEND
            The action when the folder exists.

        Examples
        --------
        >>> import numpy as np, tempfile
        >>> folder = tempfile.mkdtemp()
        >>> image = np.zeros((4, 6, 3), np.uint8)
        >>> ray.data.from_items([{"image": image}]).write_images(folder, "image")
        >>> ray.data.read_images(folder).take(1)[0]["image"].shape
        (4, 6, 3)
        """
        sink = RowSink(
            path,
            _ImageWriter(column, file_format),
            file_format=file_format,
            **_sink_options(locals()),
        )
        self.write_datasink(sink, ray_remote_args=ray_remote_args, concurrency=concurrency)


#: The options of methods that sinks have, under the same names.
_OF_SINKS = ("filesystem", "try_create_dir", "filename_provider", "mode", "max_rows_per_file")


def _sink_options(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return a method's options for its sink.

    `parameters` are the method's ``locals()``: each option is written once, in the method's signature.
    """
    options = {name: parameters[name] for name in _OF_SINKS if name in parameters}
    options["open_stream_args"] = parameters["arrow_open_stream_args"]
    if "min_rows_per_file" in parameters:
        options["min_rows_per_file"] = _least_rows(
            parameters["min_rows_per_file"], parameters.get("num_rows_per_file")
        )
    return options


def _least_rows(min_rows_per_file: int | None, num_rows_per_file: int | None) -> int | None:
    """Return the one that is given of an option's two names."""
    if None not in (min_rows_per_file, num_rows_per_file):
        raise ValueError(
            f"min_rows_per_file={min_rows_per_file!r} and num_rows_per_file={num_rows_per_file!r} are "
            "two names of one option: give min_rows_per_file only."
        )
    return num_rows_per_file if min_rows_per_file is None else min_rows_per_file


def _written(
    bundles: Iterable[Bundle],
    datasink: Datasink[Any],
    options: dict[str, Any],
    concurrency: int | None,
) -> list[Any]:
    """Write blocks as they come, some at once; return what each task says, in order."""
    function = _write.options(**options) if options else _write
    limit = concurrency or int(2 * ray.cluster_resources().get("CPU", 1))
    sink = ray.put(datasink)
    refs: list[object] = []
    running: list[object] = []
    for group in _groups(bundles, datasink.min_rows_per_write or 0):
        if len(running) >= limit:
            done, running = ray.wait(running)
            ray.get(done)  # an error ends the writing
        ref = function.remote(sink, TaskContext(len(refs), datasink.get_name()), *group)
        refs.append(ref)
        running.append(ref)
        del ref
    results: list[object] = ray.get(refs)
    return results


def _groups(bundles: Iterable[Bundle], min_rows: int) -> Iterator[list[Any]]:
    """Put blocks together that have enough rows for a file."""
    group: list[object] = []
    num_rows = 0
    for bundle in bundles:
        group.append(bundle.ref)
        num_rows += bundle.num_rows
        if num_rows >= min_rows:
            yield group
            group, num_rows = [], 0
    if group:
        yield group


@ray.remote
def _write(datasink: Datasink[Any], context: TaskContext, *tables: Block) -> tuple[int, int, Any]:
    rows = sum(table.num_rows for table in tables)
    size = sum(table.nbytes for table in tables)
    return rows, size, datasink.write([*map(frames.unrecorded, tables)], context)


class _Writer:
    """Writes tables, with arguments of another library."""

    def __init__(
        self, args: Mapping[str, object], more: Callable[[], Mapping[str, object]] | None
    ) -> None:
        self._args, self._more = args, more

    def args(self) -> dict[str, Any]:
        return {**self._args, **(self._more() if self._more is not None else {})}


class _CsvWriter(_Writer):
    def __call__(self, table: Block, file: pa.NativeFile) -> None:
        import pyarrow.csv

        pyarrow.csv.write_csv(table, file, **self.args())


class _ParquetWriter(_Writer):
    def __call__(self, table: Block, file: pa.NativeFile) -> None:
        import pyarrow.parquet

        args = self.args()
        table = block.of_schema(table, args.pop("schema", None), "write_parquet")
        pyarrow.parquet.write_table(table, file, **args)


class _OrcWriter(_Writer):
    def __call__(self, table: Block, file: pa.NativeFile) -> None:
        import pyarrow.orc

        pyarrow.orc.write_table(table, file, **self.args())


class _JsonWriter(_Writer):
    def __call__(self, table: Block, file: pa.NativeFile) -> None:
        args = {"orient": "records", "lines": True, **self.args()}
        text = io.BytesIO()
        frame = frames.to_pandas(table)
        for field in table.schema:
            if pa.types.is_date(field.type):  # pandas cannot write Arrow's dates as JSON
                frame[field.name] = table[field.name].to_pandas()
        frame.to_json(text, **args)
        file.write(text.getvalue())


class _NumpyWriter:
    def __init__(self, column: str) -> None:
        self._column = column

    def __call__(self, table: Block, file: pa.NativeFile) -> None:
        block.require_columns([self._column], table.column_names, "write_numpy")
        data = io.BytesIO()
        np.save(data, tensor.to_numpy(table[self._column]))
        file.write(data.getvalue())


class _ImageWriter:
    def __init__(self, column: str, file_format: str) -> None:
        self._column, self._format = column, file_format

    def __call__(self, row: Row, file: pa.NativeFile) -> None:
        from PIL import Image

        block.require_columns([self._column], list(row), "write_images")
        data = io.BytesIO()
        Image.fromarray(row[self._column]).save(data, format=self._format)
        file.write(data.getvalue())


def _write_examples(table: Block, file: pa.NativeFile) -> None:
    """Write examples to a file of this host, which TensorFlow can write to, and copy that."""
    import tempfile

    tf = tensorflow.imported()
    with tempfile.NamedTemporaryFile(suffix=".tfrecords") as local:
        with tf.io.TFRecordWriter(local.name) as writer:
            for row in block.rows(table):
                writer.write(_example(row).SerializeToString())
        file.write(local.read())


def _example(row: Mapping[str, object]) -> Any:
    tf = tensorflow.imported()
    features = {}
    for name, value in row.items():
        if isinstance(value, np.ndarray):
            values = [tf.io.serialize_tensor(value).numpy()]
        else:
            values = value if isinstance(value, list) else [value]
        features[name] = _feature(name, [each for each in values if each is not None])
    return tf.train.Example(features=tf.train.Features(feature=features))


def _feature(name: str, values: list[Any]) -> Any:
    tf = tensorflow.imported()
    if all(isinstance(each, bool | int | np.integer | np.bool_) for each in values) and values:
        return tf.train.Feature(int64_list=tf.train.Int64List(value=map(int, values)))
    if all(isinstance(each, float | np.floating) for each in values) and values:
        return tf.train.Feature(float_list=tf.train.FloatList(value=map(float, values)))
    if all(isinstance(each, bytes | str) for each in values):
        encoded = [each.encode() if isinstance(each, str) else each for each in values]
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=encoded))
    raise ValueError(
        f"Column {name!r} has values of {type(values[0]).__name__}, which an example cannot have: "
        "it has integers, floats, bytes and text."
    )
