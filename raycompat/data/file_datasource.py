"""`FileDatasource`: files of one format as a data source."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa

from raycompat.data import files, readers
from raycompat.data.block import Block, BlockMetadata, require_columns, to_table
from raycompat.data.context import DataContext
from raycompat.data.datasource import Datasource, ReadTask
from raycompat.data.datasource.partitioning import Partitioning
from raycompat.data.files import File

if TYPE_CHECKING:
    from raycompat.data.block import DataBatch
    from raycompat.data.datasource.partitioning import PathPartitionFilter
    from raycompat.data.files import ArrowFileSystem, FileShuffleConfig, FileSystem, Paths
    from raycompat.data.readers import FileRead

#: Parquet files whose schemas are compared before a read.
_SAMPLED_FILES = 16


class FileDatasource(Datasource):
    """Files of one format.

    Parameters
    ----------
    name : str
        The format.
    reader : callable
        Yields the tables of one file; see `readers`.
    paths : str, list of str
        Files, folders and patterns.
    growth : float
        How many times larger a table is than its file, about.
    """

    def __init__(
        self,
        name: str,
        reader: Callable[..., Iterator[Block]],
        paths: Paths,
        *,
        filesystem: FileSystem | None = None,
        file_extensions: Sequence[str] | None = None,
        ignore_missing_paths: bool = False,
        include_paths: bool = False,
        partitioning: Partitioning | None = None,
        partition_filter: PathPartitionFilter | None = None,
        shuffle: Literal["files"] | FileShuffleConfig | None = None,
        opening: Mapping[str, object] | None = None,
        growth: float = 1.0,
    ) -> None:
        self._name = name
        self._reader = reader
        self._growth = growth
        self._include_paths = include_paths
        self._partitioning = partitioning
        self._folder_columns: list[str] | None = None
        self._opening = dict(opening or {})
        self._shuffle = files.shuffle_of(shuffle)
        self.filesystem, self.files = files.find(
            paths, filesystem, file_extensions, ignore_missing_paths
        )
        if partition_filter is not None:
            is_wanted: Any = getattr(partition_filter, "apply", partition_filter)
            self.files = [file for file in self.files if is_wanted(file.path)]
            if not self.files:
                raise ValueError(f"partition_filter chooses none of the files of {paths!r}.")

    def get_name(self) -> str:
        """Return the format."""
        return self._name

    @property
    def is_shuffled(self) -> bool:
        """Whether each execution reads the files in a different order."""
        return self._shuffle is not None

    def in_execution(self, number: int) -> FileDatasource:
        """Return this source with its files in the order of an execution."""
        assert self._shuffle is not None
        ordered = copy.copy(self)
        ordered.files = files.shuffled(self.files, self._shuffle, number)
        return ordered

    def estimate_inmemory_data_size(self) -> int | None:
        """Return about how many bytes all tables take."""
        return int(sum(file.size_bytes for file in self.files) * self._growth)

    def get_read_tasks(
        self,
        parallelism: int,
        per_task_row_limit: int | None = None,
        data_context: DataContext | None = None,
    ) -> list[ReadTask]:
        """Return a task for each file, or for several small ones."""
        groups = np.array_split(np.arange(len(self.files)), min(parallelism, len(self.files)))
        return [
            self._task([self.files[index] for index in group], per_task_row_limit)
            for group in groups
        ]

    def _task(self, group: Sequence[File], limit: int | None) -> ReadTask:
        paths = [file.path for file in group]
        size = int(sum(file.size_bytes for file in group) * self._growth)
        return ReadTask(self.read_of(paths), BlockMetadata(None, size, paths), None, limit)

    def read_of(
        self, paths: Sequence[str], reader: Callable[..., Iterator[Block]] | None = None
    ) -> FileRead:
        """Return a function that reads some of the files."""
        return readers.FileRead(
            reader or self._reader,
            self.filesystem,
            paths,
            self._include_paths,
            self._partitioning,
            self._folder_columns,
            self._opening,
        )


class FileBasedDatasource(FileDatasource):
    """Files of your own format. Subclass it, and define `_read_stream`.

    Parameters
    ----------
    paths : str or list of str
        Files, folders (all files below) and patterns, with ``*``.
    filesystem : pyarrow.fs.FileSystem or fsspec.AbstractFileSystem, optional
        The file system of the paths. Default: that of their URLs.
    schema, meta_provider : optional
        Not used: files and their sizes are listed, and types are those of the rows.
    open_stream_args : dict, optional
        Arguments of ``open_input_stream`` of the file system.
    partition_filter : PathPartitionFilter or callable, optional
        Chooses files by the names of their folders.
    partitioning : Partitioning, optional
        How names of folders are columns. Default: they are not.
    ignore_missing_paths : bool, default False
        Skip missing files instead of raising an error.
    shuffle : "files" or FileShuffleConfig, optional
        Read the files in a random order.
    include_paths : bool, default False
        Add a column ``path``.
    file_extensions : list of str, optional
        Endings of the files to read in a folder.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from raycompat.data.datasource import FileBasedDatasource
    >>> class Letters(FileBasedDatasource):
    ...     def _read_stream(self, stream, path):
    ...         yield {"letter": list(stream.readall().decode())}
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "word.txt").write_text("ab")
    >>> ray.data.read_datasource(Letters(str(folder))).take_all()
    [{'letter': 'a'}, {'letter': 'b'}]

    Notes
    -----
    Ray source: ``ray.data.datasource.FileBasedDatasource``, 2.60.0. Differs from Ray: see `schema`.
    """

    def __init__(
        self,
        paths: Paths,
        *,
        filesystem: FileSystem | None = None,
        schema: pa.Schema | None = None,
        open_stream_args: Mapping[str, object] | None = None,
        meta_provider: object = None,
        partition_filter: PathPartitionFilter | None = None,
        partitioning: Partitioning | None = None,
        ignore_missing_paths: bool = False,
        shuffle: Literal["files"] | FileShuffleConfig | None = None,
        include_paths: bool = False,
        file_extensions: Sequence[str] | None = None,
    ) -> None:
        super().__init__(
            type(self).__name__.removesuffix("Datasource"),
            self._tables,
            paths,
            filesystem=filesystem,
            file_extensions=file_extensions,
            ignore_missing_paths=ignore_missing_paths,
            include_paths=include_paths,
            partitioning=partitioning,
            partition_filter=partition_filter,
            shuffle=shuffle,
            opening=open_stream_args,
        )

    def _read_stream(self, f: pa.NativeFile, path: str) -> Iterator[DataBatch]:
        """Yield the tables, DataFrames or dictionaries of an open file."""
        raise NotImplementedError(
            f"{type(self).__name__} has no _read_stream(f, path): define it, and yield tables."
        )

    def _open_input_source(
        self, filesystem: ArrowFileSystem, path: str, **open_args: object
    ) -> pa.NativeFile:
        """Open a file."""
        return filesystem.open_input_stream(path, **open_args)

    def _tables(
        self, filesystem: ArrowFileSystem, path: str, opening: Mapping[str, object]
    ) -> Iterator[Block]:
        with self._open_input_source(filesystem, path, **opening) as stream:
            yield from map(to_table, self._read_stream(stream, path))


class ParquetDatasource(FileDatasource):
    """Parquet files; large ones are cut at their groups of rows.

    Parameters
    ----------
    columns : sequence of str, optional
        The columns to read. Default: all.
    options : dict
        Arguments of ``pyarrow.parquet.ParquetFile.iter_batches``, ``filter`` and ``schema``.
    """

    #: Groups of rows are blocks, however many are asked for, as in Ray.
    splits_blocks = False

    def __init__(
        self, paths: Paths, columns: Sequence[str] | None, options: Mapping[str, Any], **more: Any
    ) -> None:
        super().__init__("ReadParquet", readers.Parquet(columns, None, options), paths, **more)
        self._reader: readers.Parquet
        self._columns = columns
        self._options = options
        if columns is not None:
            in_folders = self._columns_in_folders()
            self._folder_columns = [name for name in columns if name in in_folders]
            self._columns = [name for name in columns if name not in in_folders]
            self._reader = readers.Parquet(self._columns, None, options)

    def _columns_in_folders(self) -> list[str]:
        if self._partitioning is None:
            return []
        return [*self._partitioning.values_of(self.files[0].path)]

    def _some_schemas(self) -> list[pa.Schema]:
        """Return the schemas of some files, the first and the last among them."""
        numbers = np.linspace(0, len(self.files) - 1, min(_SAMPLED_FILES, len(self.files)))
        paths = [self.files[number].path for number in numbers.astype(int)]
        with ThreadPoolExecutor(_SAMPLED_FILES) as threads:
            return list(threads.map(self._schema_of, paths))

    def _schema_of(self, path: str) -> pa.Schema:
        import pyarrow.parquet

        try:
            return pyarrow.parquet.read_schema(path, filesystem=self.filesystem)
        except (OSError, ValueError) as error:
            raise pa.ArrowInvalid(readers.not_read(path, error)) from error

    def get_read_tasks(
        self,
        parallelism: int,
        per_task_row_limit: int | None = None,
        data_context: DataContext | None = None,
    ) -> list[ReadTask]:
        """Return a task for each file, or for some groups of rows of it."""
        schemas = self._some_schemas()
        if "schema" not in self._options:
            common = _common(schemas)
            self._reader = replace(self._reader, common=common)
            schemas = [common] if common is not None else schemas
        if self._columns is not None:
            known = [
                *(self._options.get("schema") or schemas[0]).names,
                *self._columns_in_folders(),
            ]
            require_columns(self._columns, known, "read_parquet")
        target = (data_context or DataContext.get_current()).target_max_block_size
        small = [file for file in self.files if file.size_bytes * 2 <= target]
        if small == self.files and len(small) >= parallelism:
            return super().get_read_tasks(parallelism, per_task_row_limit, data_context)
        parts = max(1, parallelism // len(self.files))
        return [
            task
            for file in self.files
            for task in self._tasks_of(file, parts, target, per_task_row_limit)
        ]

    def _tasks_of(self, file: File, parts: int, target: int, limit: int | None) -> list[ReadTask]:
        import pyarrow.parquet

        with self.filesystem.open_input_file(file.path) as source:
            try:
                metadata = pyarrow.parquet.read_metadata(source)
            except (OSError, ValueError) as error:
                raise pa.ArrowInvalid(readers.not_read(file.path, error)) from error
        groups = [metadata.row_group(index) for index in range(metadata.num_row_groups)]
        total = sum(group.total_byte_size for group in groups)
        num = min(max(parts, -(-total // target), 1), max(len(groups), 1))
        tasks = []
        for numbers in np.array_split(np.arange(len(groups)), num):
            chosen = [int(number) for number in numbers]
            read = self.read_of([file.path], replace(self._reader, row_groups=chosen))
            rows = sum(groups[number].num_rows for number in chosen)
            size = sum(groups[number].total_byte_size for number in chosen)
            changing = (self._options.get(name) for name in ("filter", "_block_udf"))
            known = rows if all(each is None for each in changing) else None
            tasks.append(ReadTask(read, BlockMetadata(known, size, [file.path]), None, limit))
        return tasks


def _common(schemas: Sequence[pa.Schema]) -> pa.Schema | None:
    """Return the columns of all files, in types that fit all; None if the files do not differ."""
    if all(schema.equals(schemas[0]) for schema in schemas):
        return None
    try:
        return pa.unify_schemas(schemas, promote_options="permissive").remove_metadata()
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise pa.ArrowTypeError(
            f"read_parquet: the files have columns of one name with types that do not fit together "
            f"({error}). Give one type for each column in schema, or read the files apart."
        ) from error
