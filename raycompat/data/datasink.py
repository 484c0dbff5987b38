"""`Datasink`: where data sets are written to; files as one."""

from __future__ import annotations

import abc
import enum
import functools
import posixpath
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import pyarrow as pa
import pyarrow.fs

from raycompat._surface.modules import names_of
from raycompat.data import block, files
from raycompat.data.block import Block, BlockAccessor
from raycompat.data.filename_provider import FilenameProvider

if TYPE_CHECKING:
    from raycompat.data.block import Row
    from raycompat.data.files import FileSystem

T = TypeVar("T")


class SaveMode(enum.StrEnum):
    """The action of a write when the target exists; its name as a text serves too.

    Examples
    --------
    >>> import tempfile
    >>> from raycompat.data import SaveMode
    >>> folder = tempfile.mkdtemp()
    >>> ray.data.range(2).write_parquet(folder)
    >>> ray.data.range(3).write_parquet(folder, mode=SaveMode.OVERWRITE)
    >>> ray.data.read_parquet(folder).count()
    3

    Notes
    -----
    Ray source: ``ray.data.SaveMode``, 2.60.0. Differs from Ray: ``UPSERT`` is not supported.
    """

    CREATE = "create"
    APPEND = "append"
    OVERWRITE = "overwrite"
    IGNORE = "ignore"
    ERROR = "error"
    UPSERT = "upsert"


@dataclass
class TaskContext:
    """The context of the task that writes.

    Parameters
    ----------
    task_idx : int
        Its number, in the order of the rows.
    op_name : str
        The name of the writing operator.
    """

    task_idx: int
    op_name: str = "Write"


@dataclass
class WriteResult(Generic[T]):
    """The result of a write.

    Parameters
    ----------
    num_rows, size_bytes : int
        Totals of all tasks.
    write_returns : list
        The result of `Datasink.write` in each task, in order.
    """

    num_rows: int
    size_bytes: int
    write_returns: list[T]

    @classmethod
    def combine(cls, *wrs: WriteResult[T]) -> WriteResult[T]:
        """Return one result of several writes.

        Parameters
        ----------
        *wrs : WriteResult
            The results.

        Examples
        --------
        >>> from raycompat.data.datasource import WriteResult
        >>> WriteResult.combine(WriteResult(1, 8, ["a"]), WriteResult(2, 16, ["b"]))
        WriteResult(num_rows=3, size_bytes=24, write_returns=['a', 'b'])
        """
        return cls(
            sum(each.num_rows for each in wrs),
            sum(each.size_bytes for each in wrs),
            [value for each in wrs for value in each.write_returns],
        )


class Datasink(Generic[T]):
    """Something that data sets are written to. Subclass it, and give it to `Dataset.write_datasink`.

    Examples
    --------
    >>> from raycompat.data import Datasink
    >>> class Printed(Datasink):
    ...     def write(self, blocks, ctx):
    ...         return sum(block.num_rows for block in blocks)
    ...
    ...     def on_write_complete(self, write_result):
    ...         print("rows:", sum(write_result.write_returns))
    >>> ray.data.range(4).write_datasink(Printed())
    rows: 4
    >>> Printed().min_rows_per_write, Printed().supports_distributed_writes
    (None, True)

    One that collects the files of all tasks, and cleans up when a task fails; `get_name` is what the
    dashboard shows:

    >>> class Parts(Datasink):
    ...     def on_write_start(self, schema=None):
    ...         print("begins")
    ...
    ...     def write(self, blocks, ctx):
    ...         for block in blocks:
    ...             if max(block["id"].to_pylist()) > 5:
    ...                 raise ValueError("too large")
    ...         return ctx.task_idx
    ...
    ...     def on_write_failed(self, error):
    ...         print("cleans up")
    ...
    ...     def get_name(self):
    ...         return "numbered parts"
    >>> try:
    ...     ray.data.range(8, override_num_blocks=2).write_datasink(Parts())
    ... except Exception as error:
    ...     print("too large" in str(error))
    begins
    cleans up
    True
    """

    def on_write_start(self, schema: pa.Schema | None = None) -> None:
        """Prepare the write, in the driver, before all tasks."""

    def write(self, blocks: Iterable[Block], ctx: TaskContext) -> T:
        """Write blocks, in a task; it may be called again for the same task after a failure.

        Parameters
        ----------
        blocks : iterable of pyarrow.Table
            The rows.
        ctx : TaskContext
            Which task it is.
        """
        raise NotImplementedError(f"{type(self).__name__} has no write(blocks, ctx): define it.")

    def on_write_complete(self, write_result: WriteResult[T]) -> None:
        """Finish the write, in the driver, after all tasks."""

    def on_write_failed(self, error: Exception) -> None:
        """Clean up after a failed task, in the driver."""

    def get_name(self) -> str:
        """Return a name for readers."""
        return type(self).__name__.removesuffix("Datasink")

    @property
    def supports_distributed_writes(self) -> bool:
        """Whether tasks of other nodes may write."""
        return True

    @property
    def min_rows_per_write(self) -> int | None:
        """Rows that a task should get at least."""
        return None


class _FileDatasink(Datasink[list[str]], abc.ABC):
    """Writes files to a folder: the common part of the two public classes."""

    def __init__(
        self,
        path: str,
        *,
        filesystem: FileSystem | None = None,
        try_create_dir: bool = True,
        open_stream_args: Mapping[str, object] | None = None,
        filename_provider: FilenameProvider | None = None,
        dataset_uuid: str | None = None,
        file_format: str | None = None,
        mode: SaveMode = SaveMode.APPEND,
    ) -> None:
        modes = [each.value for each in SaveMode if each is not SaveMode.UPSERT]
        if not isinstance(mode, str) or mode not in modes:
            raise ValueError(f"mode={mode!r} should be one of {', '.join(modes)}, or its SaveMode.")
        mode = SaveMode(mode)
        self.path = str(path)
        self._filesystem, self._folder = files.resolve(path, filesystem)
        self._creates = try_create_dir
        self._opening = dict(open_stream_args or {})
        self._names = filename_provider or FilenameProvider(dataset_uuid, file_format)
        self._uuid = uuid.uuid4().hex
        self._mode = mode
        self.is_skipped = False

    def on_write_start(self, schema: pa.Schema | None = None) -> None:
        """Make the folder, depending on the mode."""
        info = self._filesystem.get_file_info(self._folder)
        is_there = info.type != pyarrow.fs.FileType.NotFound
        if is_there and self._mode in (SaveMode.ERROR, SaveMode.CREATE):
            raise ValueError(f"{self.path!r} is there already, and the mode is {self._mode}.")
        self.is_skipped = is_there and self._mode is SaveMode.IGNORE
        if is_there and self._mode is SaveMode.OVERWRITE:
            self._filesystem.delete_dir_contents(self._folder)
        if self._creates and not self.is_skipped:
            self._filesystem.create_dir(self._folder, recursive=True)

    def open_output_stream(self, path: str) -> pa.NativeFile:
        """Open a file to write to.

        Examples
        --------
        A file beside those of the tasks, written by the driver at the end:

        >>> import os, tempfile
        >>> class Counted(ray.data.BlockBasedFileDatasink):
        ...     def write_block_to_file(self, block, file):
        ...         file.write(b"rows")
        ...
        ...     def on_write_complete(self, result):
        ...         with self.open_output_stream(
        ...             os.path.join(self.path, "_DONE")
        ...         ) as stream:
        ...             stream.write(str(result.num_rows).encode())
        >>> folder = tempfile.mkdtemp()
        >>> ray.data.range(3).write_datasink(Counted(folder))
        >>> open(os.path.join(folder, "_DONE")).read()
        '3'
        """
        return self._filesystem.open_output_stream(path, **self._opening)

    def _write_file(self, name: str, write: Callable[[pa.NativeFile], None]) -> str:
        """Write a file under another name and rename it, so that readers see only complete files."""
        path = posixpath.join(self._folder, name)
        if not isinstance(self._filesystem, pyarrow.fs.LocalFileSystem):
            with self.open_output_stream(path) as stream:
                write(stream)
            return path
        partial = posixpath.join(posixpath.dirname(path), f".{posixpath.basename(path)}.partial")
        try:
            with self.open_output_stream(partial) as stream:
                write(stream)
            self._filesystem.move(partial, path)
        except BaseException:
            if self._filesystem.get_file_info(partial).type != pyarrow.fs.FileType.NotFound:
                self._filesystem.delete_file(partial)
            raise
        return path


class BlockBasedFileDatasink(_FileDatasink):
    """Writes a file for each task. Subclass it, and define `write_block_to_file`.

    Parameters
    ----------
    path : str
        The folder.
    min_rows_per_file : int, optional
        Minimum number of rows of a file, if there are enough.
    **file_datasink_kwargs
        ``filesystem``, ``try_create_dir``, ``open_stream_args``, ``filename_provider``,
        ``dataset_uuid``, ``file_format``, ``mode``.

    Examples
    --------
    >>> import tempfile
    >>> class Reports(ray.data.BlockBasedFileDatasink):
    ...     def write_block_to_file(self, block, file):
    ...         file.write(f"{block.num_rows()} rows".encode())
    >>> folder = tempfile.mkdtemp()
    >>> numbers = ray.data.range(4, override_num_blocks=1)
    >>> numbers.write_datasink(Reports(folder, file_format="txt"))
    >>> ray.data.read_text(folder).take_all()
    [{'text': '4 rows'}]
    >>> sink = Reports(folder, file_format="txt", min_rows_per_file=100)
    >>> sink.min_rows_per_write, sink.supports_distributed_writes
    (100, True)
    """

    def __init__(
        self, path: str, *, min_rows_per_file: int | None = None, **file_datasink_kwargs: Any
    ) -> None:
        super().__init__(path, **file_datasink_kwargs)
        if min_rows_per_file is not None and min_rows_per_file < 1:
            raise ValueError(f"min_rows_per_file={min_rows_per_file!r} is not a number of rows.")
        self._min_rows = min_rows_per_file

    @property
    def min_rows_per_write(self) -> int | None:
        """Rows that a task should get at least."""
        return self._min_rows

    def write_block_to_file(self, block: BlockAccessor, file: pa.NativeFile) -> None:
        """Write a block to an open file: ``block.to_arrow()`` is a table, for example."""
        raise NotImplementedError(
            f"{type(self).__name__} has no write_block_to_file(block, file): define it."
        )

    def write(self, blocks: Iterable[Block], ctx: TaskContext) -> list[str]:
        """Write one file."""
        table = block.concat(blocks)
        if not table.num_rows:
            return []
        accessor = BlockAccessor(table)
        name = self._names.get_filename_for_task(self._uuid, ctx.task_idx)
        return [self._write_file(name, lambda file: self.write_block_to_file(accessor, file))]


class RowBasedFileDatasink(_FileDatasink):
    """Writes a file for each row. Subclass it, and define `write_row_to_file`.

    Parameters
    ----------
    path : str
        The folder.
    filesystem, try_create_dir, open_stream_args, filename_provider, dataset_uuid, file_format, mode
        As for `BlockBasedFileDatasink`.

    Examples
    --------
    >>> import tempfile
    >>> class Letters(ray.data.RowBasedFileDatasink):
    ...     def write_row_to_file(self, row, file):
    ...         file.write(f"Dear customer {row['id']}".encode())
    >>> folder = tempfile.mkdtemp()
    >>> ray.data.range(2).write_datasink(Letters(folder, file_format="txt"))
    >>> sorted(row["text"] for row in ray.data.read_text(folder).take_all())
    ['Dear customer 0', 'Dear customer 1']
    >>> sink = Letters(folder, file_format="txt")
    >>> sink.min_rows_per_write, sink.supports_distributed_writes
    (None, True)
    """

    def write_row_to_file(self, row: Row, file: pa.NativeFile) -> None:
        """Write a row to an open file."""
        raise NotImplementedError(
            f"{type(self).__name__} has no write_row_to_file(row, file): define it."
        )

    def write(self, blocks: Iterable[Block], ctx: TaskContext) -> list[str]:
        """Write the files of some blocks."""
        written = []
        of_task = self._names.get_filename_for_task(self._uuid, ctx.task_idx)
        beginning, ending = posixpath.splitext(of_task)
        for number, row in enumerate(block.rows(block.concat(blocks))):
            name = f"{beginning}_000000_{number:06}{ending}"
            written.append(self._write_file(name, functools.partial(self.write_row_to_file, row)))
        return written


class TableSink(BlockBasedFileDatasink):
    """Writes tables with a function of (table, file)."""

    def __init__(
        self,
        path: str,
        write: Callable[[pa.Table, pa.NativeFile], None],
        *,
        max_rows_per_file: int | None = None,
        **options: Any,
    ) -> None:
        super().__init__(path, **options)
        least = self._min_rows or 1
        if max_rows_per_file is not None and max_rows_per_file < least:
            raise ValueError(
                f"max_rows_per_file={max_rows_per_file!r} should be {least} or more rows, the least "
                "that a file has."
            )
        self._function = write
        self.max_rows = max_rows_per_file

    def write(self, blocks: Iterable[Block], ctx: TaskContext) -> list[str]:
        """Write one file, or several of limited length."""
        if self.max_rows is None:
            return super().write(blocks, ctx)
        beginning, ending = posixpath.splitext(
            self._names.get_filename_for_task(self._uuid, ctx.task_idx)
        )
        table = block.concat(blocks)
        return [
            self._write_file(
                f"{beginning}-{number}{ending}",
                functools.partial(self._function, table.slice(start, self.max_rows)),
            )
            for number, start in enumerate(range(0, table.num_rows, self.max_rows))
        ]

    def write_block_to_file(self, block: BlockAccessor, file: pa.NativeFile) -> None:
        """Write a table."""
        self._function(block.to_arrow(), file)


class RowSink(RowBasedFileDatasink):
    """Writes rows with a function of (row, file)."""

    def __init__(
        self, path: str, write: Callable[[Row, pa.NativeFile], None], **options: Any
    ) -> None:
        super().__init__(path, **options)
        self._function = write

    def write_row_to_file(self, row: Row, file: pa.NativeFile) -> None:
        """Write a row."""
        self._function(row, file)


@dataclass
class PartitionedSink(Datasink[list[str]]):
    """Writes Parquet files to folders named after values of columns, by ``pyarrow.parquet``."""

    sink: TableSink
    columns: list[str]
    options: Mapping[str, Any]

    def on_write_start(self, schema: pa.Schema | None = None) -> None:
        """Make the folder."""
        self.sink.on_write_start(schema)

    def write(self, blocks: Iterable[Block], ctx: TaskContext) -> list[str]:
        """Write the files of some blocks."""
        import pyarrow.parquet

        table = block.concat(blocks)
        if table.num_rows:
            options = dict(self.options)
            table = block.of_schema(table, options.pop("schema", None), "write_parquet")
            block.require_columns(self.columns, table.column_names, "write_parquet")
            name = self.sink._names.get_filename_for_task(self.sink._uuid, ctx.task_idx)
            beginning, ending = posixpath.splitext(name)
            pyarrow.parquet.write_to_dataset(
                table,
                self.sink._folder,
                partition_cols=self.columns,
                filesystem=self.sink._filesystem,
                basename_template=f"{beginning}-{{i}}{ending}",
                existing_data_behavior="overwrite_or_ignore",
                **self._limits(),
                **options,
            )
        return []

    def _limits(self) -> dict[str, int]:
        most = self.sink.max_rows
        return {} if most is None else {"max_rows_per_file": most, "row_group_size": most}


__getattr__ = names_of(__name__)
