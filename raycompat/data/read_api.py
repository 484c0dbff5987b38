"""`read_csv` and its like: data sets of files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from raycompat._surface import forms
from raycompat._surface.modules import names_of
from raycompat.data import readers
from raycompat.data.dataset import Dataset
from raycompat.data.datasource import Datasource
from raycompat.data.datasource.partitioning import Partitioning
from raycompat.data.file_datasource import FileDatasource, ParquetDatasource
from raycompat.data.options import refuse_options, remote_args
from raycompat.data.sources import dataset_of as _read
from raycompat.data.webdataset import Samples
from raycompat.exceptions import UnsupportedRayFeatureError

if TYPE_CHECKING:
    from raycompat.data.block import Block
    from raycompat.data.datasource.partitioning import PathPartitionFilter
    from raycompat.data.files import FileShuffleConfig, FileSystem
    from raycompat.data.webdataset import Coders, Renames, Select

#: Default options for reading files of tables.
HIVE = Partitioning("hive")

#: The options that choose files and say what their folders mean.
_OF_FILES = (
    *("filesystem", "file_extensions", "ignore_missing_paths", "include_paths"),
    *("partitioning", "partition_filter", "shuffle"),
)

#: Endings of the files of a folder that are read.
_PARQUET = ["parquet"]
_NUMPY = ["npy"]
_ORC = ["orc"]
_IMAGES = ["png", "jpg", "jpeg", "tif", "tiff", "bmp", "gif"]
_AUDIO = ["mp3", "wav", "aac", "flac", "ogg", "m4a", "wma", "alac", "aiff", "pcm", "amr", "opus"]
_AUDIO += ["ra", "rm", "au", "mid", "midi", "caf"]
_JSON = [
    f"{name}{compression}"
    for compression in ("", ".gz", ".br", ".zst", ".lz4")
    for name in ("json", "jsonl")
]


def _read_files(
    name: str, reader: Callable[..., Iterator[Block]], parameters: dict[str, Any], *, growth: float
) -> Dataset:
    """Return a data set of files of one format.

    `parameters` are the caller's ``locals()``: each option is written once, in the caller's signature.
    """
    return _read_source(partial(FileDatasource, name, reader, growth=growth), parameters)


def _read_source(source_of: Callable[..., Datasource], parameters: dict[str, Any]) -> Dataset:
    options = remote_args(parameters)
    opening = parameters.get("arrow_open_stream_args") or parameters.get("arrow_open_file_args")
    chosen = {name: parameters[name] for name in _OF_FILES if name in parameters}
    return _read(
        source_of(parameters["paths"], opening=opening, **chosen),
        parameters.get("parallelism", -1),
        parameters["override_num_blocks"],
        parameters["concurrency"],
        options,
    )


def read_csv(
    paths: str | list[str],
    *,
    filesystem: FileSystem | None = None,
    parallelism: int = -1,
    num_cpus: float | None = None,
    num_gpus: float | None = None,
    memory: float | None = None,
    arrow_open_stream_args: Mapping[str, object] | None = None,
    partition_filter: PathPartitionFilter | None = None,
    partitioning: Partitioning | None = HIVE,
    include_paths: bool = False,
    ignore_missing_paths: bool = False,
    shuffle: Literal["files"] | FileShuffleConfig | None = None,
    file_extensions: list[str] | None = None,
    concurrency: int | None = None,
    override_num_blocks: int | None = None,
    label_selector: dict[str, str] | None = None,
    fallback_strategy: Sequence[Mapping[str, object]] | None = None,
    max_calls: int | None = None,
    resources: dict[str, float] | None = None,
    accelerator_type: str | None = None,
    runtime_env: Mapping[str, object] | None = None,
    ray_remote_args: Mapping[str, object] | None = None,
    **arrow_csv_args: object,
) -> Dataset:
    r"""Return a data set of the rows of CSV files.

    Parameters
    ----------
    paths : str or list of str
        Files, folders (all files below) and patterns, with ``*``.
    filesystem : pyarrow.fs.FileSystem or fsspec.AbstractFileSystem, optional
        The file system of the paths. Default: that of their URLs.
    partition_filter : PathPartitionFilter or callable, optional
        Chooses files by the names of their folders; a callable takes the path of a file, and returns
        whether to read it.
    partitioning : Partitioning, optional
        Hive's (``year=2024/``) by default: names of folders are columns. None: they are not.
    include_paths : bool, default False
        Add a column ``path``.
    ignore_missing_paths : bool, default False
        Skip missing files instead of raising an error.
    shuffle : "files" or FileShuffleConfig, optional
        Read the files in a random order.
    file_extensions : list of str, optional
        Endings of the files to read in a folder.
    concurrency : int, optional
        Maximum number of concurrent tasks.
    override_num_blocks, parallelism : int, optional
        Approximate number of tasks. Default: from the number and size of the files.
    arrow_open_stream_args : dict, optional
        Arguments of the file system's ``open_input_stream``.
    num_cpus, num_gpus, memory, label_selector, max_calls, resources, accelerator_type, runtime_env
        Options of each task, as in `raycompat.remote`; others in `ray_remote_args`.
    fallback_strategy
        Not supported.
    **arrow_csv_args
        Arguments of ``pyarrow.csv.open_csv``.

    Raises
    ------
    FileNotFoundError
        When a path names nothing.
    ValueError
        When executed, if a file is cut short or of another format.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "days.csv").write_text(
    ...     "station,celsius\ncoast,10.5\npeak,-3\n"
    ... )
    >>> ray.data.read_csv(folder).take_all()
    [{'station': 'coast', 'celsius': 10.5}, {'station': 'peak', 'celsius': -3.0}]
    """
    return _read_files("ReadCSV", readers.Csv(arrow_csv_args), locals(), growth=2.0)


def read_json(
    paths: str | list[str],
    *,
    lines: bool = False,
    filesystem: FileSystem | None = None,
    parallelism: int = -1,
    num_cpus: float | None = None,
    num_gpus: float | None = None,
    memory: float | None = None,
    arrow_open_stream_args: Mapping[str, object] | None = None,
    partition_filter: PathPartitionFilter | None = None,
    partitioning: Partitioning | None = HIVE,
    include_paths: bool = False,
    ignore_missing_paths: bool = False,
    shuffle: Literal["files"] | FileShuffleConfig | None = None,
    file_extensions: list[str] | None = _JSON,
    concurrency: int | None = None,
    override_num_blocks: int | None = None,
    label_selector: dict[str, str] | None = None,
    fallback_strategy: Sequence[Mapping[str, object]] | None = None,
    max_calls: int | None = None,
    resources: dict[str, float] | None = None,
    accelerator_type: str | None = None,
    runtime_env: Mapping[str, object] | None = None,
    ray_remote_args: Mapping[str, object] | None = None,
    **arrow_json_args: object,
) -> Dataset:
    r"""Return a data set of the rows of JSON files: one on each line, or a list of them.

    Parameters
    ----------
    paths : str or list of str
        Files, folders (all files below) and patterns, with ``*``.
    lines : bool, default False
        Read a row of each line by pandas, which takes text that looks like a time as text. Otherwise
        Arrow reads the file.
    filesystem : pyarrow.fs.FileSystem or fsspec.AbstractFileSystem, optional
        The file system of the paths. Default: that of their URLs.
    partition_filter : PathPartitionFilter or callable, optional
        Chooses files by the names of their folders; a callable takes the path of a file, and returns
        whether to read it.
    partitioning : Partitioning, optional
        Hive's (``year=2024/``) by default: names of folders are columns. None: they are not.
    include_paths : bool, default False
        Add a column ``path``.
    ignore_missing_paths : bool, default False
        Skip missing files instead of raising an error.
    shuffle : "files" or FileShuffleConfig, optional
        Read the files in a random order.
    file_extensions : list of str, optional
        Endings of the files to read in a folder.
    concurrency : int, optional
        Maximum number of concurrent tasks.
    override_num_blocks, parallelism : int, optional
        Approximate number of tasks. Default: from the number and size of the files.
    arrow_open_stream_args : dict, optional
        Arguments of the file system's ``open_input_stream``.
    num_cpus, num_gpus, memory, label_selector, max_calls, resources, accelerator_type, runtime_env
        Options of each task, as in `raycompat.remote`; others in `ray_remote_args`.
    fallback_strategy
        Not supported.
    **arrow_json_args
        Arguments of ``pyarrow.json.read_json``, not with ``lines=True``.

    Raises
    ------
    FileNotFoundError
        When a path names nothing.
    ValueError
        When executed, if a file is cut short or of another format.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "days.jsonl").write_text(
    ...     '{"station": "coast"}\n{"station": "peak"}\n'
    ... )
    >>> ray.data.read_json(folder, lines=True).take_all()
    [{'station': 'coast'}, {'station': 'peak'}]
    """
    if lines and arrow_json_args:
        raise ValueError(
            f"{sorted(arrow_json_args)} are arguments of Arrow, and pandas reads lines=True. Leave "
            "lines or these out."
        )
    return _read_files(
        "ReadJSON",
        readers.JsonLines() if lines else readers.Json(arrow_json_args),
        locals(),
        growth=2.0,
    )


@forms.takes_old_options("ray.data.read_text")
def read_text(
    paths: str | list[str],
    *,
    encoding: str = "utf-8",
    drop_empty_lines: bool = True,
    filesystem: FileSystem | None = None,
    parallelism: int = -1,
    num_cpus: float | None = None,
    num_gpus: float | None = None,
    memory: float | None = None,
    arrow_open_stream_args: Mapping[str, object] | None = None,
    partition_filter: PathPartitionFilter | None = None,
    partitioning: Partitioning | None = None,
    include_paths: bool = False,
    ignore_missing_paths: bool = False,
    shuffle: Literal["files"] | FileShuffleConfig | None = None,
    file_extensions: list[str] | None = None,
    concurrency: int | None = None,
    override_num_blocks: int | None = None,
    label_selector: dict[str, str] | None = None,
    fallback_strategy: Sequence[Mapping[str, object]] | None = None,
    max_calls: int | None = None,
    resources: dict[str, float] | None = None,
    accelerator_type: str | None = None,
    runtime_env: Mapping[str, object] | None = None,
    ray_remote_args: Mapping[str, object] | None = None,
) -> Dataset:
    r"""Return a data set of the lines of text files, in a column ``text``.

    Parameters
    ----------
    paths : str or list of str
        Files, folders (all files below) and patterns, with ``*``.
    encoding : str, default "utf-8"
        Of the files.
    drop_empty_lines : bool, default True
        Skip lines with only blanks.
    filesystem : pyarrow.fs.FileSystem or fsspec.AbstractFileSystem, optional
        The file system of the paths. Default: that of their URLs.
    partition_filter : PathPartitionFilter or callable, optional
        Chooses files by the names of their folders; a callable takes the path of a file, and returns
        whether to read it.
    partitioning : Partitioning, optional
        Hive's (``year=2024/``) by default: names of folders are columns. None: they are not.
    include_paths : bool, default False
        Add a column ``path``.
    ignore_missing_paths : bool, default False
        Skip missing files instead of raising an error.
    shuffle : "files" or FileShuffleConfig, optional
        Read the files in a random order.
    file_extensions : list of str, optional
        Endings of the files to read in a folder.
    concurrency : int, optional
        Maximum number of concurrent tasks.
    override_num_blocks, parallelism : int, optional
        Approximate number of tasks. Default: from the number and size of the files.
    arrow_open_stream_args : dict, optional
        Arguments of the file system's ``open_input_stream``.
    num_cpus, num_gpus, memory, label_selector, max_calls, resources, accelerator_type, runtime_env
        Options of each task, as in `raycompat.remote`; others in `ray_remote_args`.
    fallback_strategy
        Not supported.

    Raises
    ------
    FileNotFoundError
        When a path names nothing.
    ValueError
        When executed, if a file is cut short or of another format.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "words.txt"
    >>> _ = file.write_text("first line\n\nlast line\n")
    >>> ray.data.read_text(str(file)).take_all()
    [{'text': 'first line'}, {'text': 'last line'}]
    """
    return _read_files("ReadText", readers.Text(encoding, drop_empty_lines), locals(), growth=1.5)


@forms.takes_old_options("ray.data.read_binary_files")
def read_binary_files(
    paths: str | list[str],
    *,
    include_paths: bool = False,
    filesystem: FileSystem | None = None,
    parallelism: int = -1,
    num_cpus: float | None = None,
    num_gpus: float | None = None,
    memory: float | None = None,
    arrow_open_stream_args: Mapping[str, object] | None = None,
    partition_filter: PathPartitionFilter | None = None,
    partitioning: Partitioning | None = None,
    ignore_missing_paths: bool = False,
    shuffle: Literal["files"] | FileShuffleConfig | None = None,
    file_extensions: list[str] | None = None,
    concurrency: int | None = None,
    override_num_blocks: int | None = None,
    label_selector: dict[str, str] | None = None,
    fallback_strategy: Sequence[Mapping[str, object]] | None = None,
    max_calls: int | None = None,
    resources: dict[str, float] | None = None,
    accelerator_type: str | None = None,
    runtime_env: Mapping[str, object] | None = None,
    ray_remote_args: Mapping[str, object] | None = None,
) -> Dataset:
    r"""Return a data set of whole files, in a column ``bytes``.

    Parameters
    ----------
    paths : str or list of str
        Files, folders (all files below) and patterns, with ``*``.
    filesystem : pyarrow.fs.FileSystem or fsspec.AbstractFileSystem, optional
        The file system of the paths. Default: that of their URLs.
    partition_filter : PathPartitionFilter or callable, optional
        Chooses files by the names of their folders; a callable takes the path of a file, and returns
        whether to read it.
    partitioning : Partitioning, optional
        Hive's (``year=2024/``) by default: names of folders are columns. None: they are not.
    include_paths : bool, default False
        Add a column ``path``.
    ignore_missing_paths : bool, default False
        Skip missing files instead of raising an error.
    shuffle : "files" or FileShuffleConfig, optional
        Read the files in a random order.
    file_extensions : list of str, optional
        Endings of the files to read in a folder.
    concurrency : int, optional
        Maximum number of concurrent tasks.
    override_num_blocks, parallelism : int, optional
        Approximate number of tasks. Default: from the number and size of the files.
    arrow_open_stream_args : dict, optional
        Arguments of the file system's ``open_input_stream``.
    num_cpus, num_gpus, memory, label_selector, max_calls, resources, accelerator_type, runtime_env
        Options of each task, as in `raycompat.remote`; others in `ray_remote_args`.
    fallback_strategy
        Not supported.

    Raises
    ------
    FileNotFoundError
        When a path names nothing.
    ValueError
        When executed, if a file is cut short or of another format.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "a.bin").write_bytes(b"\x00\x01")
    >>> (row,) = ray.data.read_binary_files(
    ...     str(folder), include_paths=True
    ... ).take_all()
    >>> row["bytes"], pathlib.Path(row["path"]).name
    (b'\x00\x01', 'a.bin')
    """
    return _read_files("ReadBinary", readers.Binary(), locals(), growth=1.0)


def read_numpy(
    paths: str | list[str],
    *,
    filesystem: FileSystem | None = None,
    parallelism: int = -1,
    arrow_open_stream_args: Mapping[str, object] | None = None,
    partition_filter: PathPartitionFilter | None = None,
    partitioning: Partitioning | None = None,
    include_paths: bool = False,
    ignore_missing_paths: bool = False,
    shuffle: Literal["files"] | FileShuffleConfig | None = None,
    file_extensions: list[str] | None = _NUMPY,
    concurrency: int | None = None,
    override_num_blocks: int | None = None,
    allow_pickle: bool = False,
    **numpy_load_args: object,
) -> Dataset:
    """Return a data set of the rows of arrays in ``.npy`` files, in a column ``data``.

    Parameters
    ----------
    paths : str or list of str
        Files, folders (all files below) and patterns, with ``*``.
    allow_pickle : bool, default False
        Also load arrays of objects; only for trusted files.
    filesystem : pyarrow.fs.FileSystem or fsspec.AbstractFileSystem, optional
        The file system of the paths. Default: that of their URLs.
    partition_filter : PathPartitionFilter or callable, optional
        Chooses files by the names of their folders; a callable takes the path of a file, and returns
        whether to read it.
    partitioning : Partitioning, optional
        Hive's (``year=2024/``) by default: names of folders are columns. None: they are not.
    arrow_open_stream_args : dict, optional
        Arguments of the file system's ``open_input_stream``.
    include_paths : bool, default False
        Add a column ``path``.
    ignore_missing_paths : bool, default False
        Skip missing files instead of raising an error.
    shuffle : "files" or FileShuffleConfig, optional
        Read the files in a random order.
    file_extensions : list of str, optional
        Endings of the files to read in a folder.
    concurrency : int, optional
        Maximum number of concurrent tasks.
    override_num_blocks, parallelism : int, optional
        Approximate number of tasks. Default: from the number and size of the files.
    **numpy_load_args
        Arguments of ``numpy.load``.

    Raises
    ------
    FileNotFoundError
        When a path names nothing.
    ValueError
        When executed, if a file is cut short or of another format.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import numpy as np
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> np.save(folder / "points.npy", np.arange(6).reshape(3, 2))
    >>> ray.data.read_numpy(str(folder)).take_batch()
    {'data': array([[0, 1],
           [2, 3],
           [4, 5]])}
    """
    return _read_files(
        "ReadNumpy", readers.Numpy(allow_pickle, numpy_load_args), locals(), growth=1.0
    )


@forms.takes_old_options("ray.data.read_images")
def read_images(
    paths: str | list[str],
    *,
    filesystem: FileSystem | None = None,
    parallelism: int = -1,
    num_cpus: float | None = None,
    num_gpus: float | None = None,
    memory: float | None = None,
    arrow_open_file_args: Mapping[str, object] | None = None,
    partition_filter: PathPartitionFilter | None = None,
    partitioning: Partitioning | None = None,
    size: tuple[int, int] | None = None,
    mode: str | None = None,
    include_paths: bool = False,
    ignore_missing_paths: bool = False,
    shuffle: Literal["files"] | FileShuffleConfig | None = None,
    file_extensions: list[str] | None = _IMAGES,
    concurrency: int | None = None,
    override_num_blocks: int | None = None,
    label_selector: dict[str, str] | None = None,
    fallback_strategy: Sequence[Mapping[str, object]] | None = None,
    max_calls: int | None = None,
    resources: dict[str, float] | None = None,
    accelerator_type: str | None = None,
    runtime_env: Mapping[str, object] | None = None,
    ray_remote_args: Mapping[str, object] | None = None,
) -> Dataset:
    """Return a data set of images, in a column ``image`` of arrays of shape (height, width, channels).

    Parameters
    ----------
    paths : str or list of str
        Files, folders (all files below) and patterns, with ``*``.
    size : (int, int), optional
        Height and width to which all are resized.
    mode : str, optional
        Pillow's name of the colour mode: ``"RGB"``, ``"L"``.
    filesystem : pyarrow.fs.FileSystem or fsspec.AbstractFileSystem, optional
        The file system of the paths. Default: that of their URLs.
    partition_filter : PathPartitionFilter or callable, optional
        Chooses files by the names of their folders; a callable takes the path of a file, and returns
        whether to read it.
    partitioning : Partitioning, optional
        Hive's (``year=2024/``) by default: names of folders are columns. None: they are not.
    include_paths : bool, default False
        Add a column ``path``.
    ignore_missing_paths : bool, default False
        Skip missing files instead of raising an error.
    shuffle : "files" or FileShuffleConfig, optional
        Read the files in a random order.
    file_extensions : list of str, optional
        Endings of the files to read in a folder.
    concurrency : int, optional
        Maximum number of concurrent tasks.
    override_num_blocks, parallelism : int, optional
        Approximate number of tasks. Default: from the number and size of the files.
    arrow_open_file_args : dict, optional
        Arguments of the file system's ``open_input_file``.
    num_cpus, num_gpus, memory, label_selector, max_calls, resources, accelerator_type, runtime_env
        Options of each task, as in `raycompat.remote`; others in `ray_remote_args`.
    fallback_strategy
        Not supported.

    Raises
    ------
    FileNotFoundError
        When a path names nothing.
    ValueError
        When executed, if a file is cut short or of another format.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import numpy as np
    >>> from PIL import Image
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> Image.fromarray(np.zeros((8, 12, 3), "uint8")).save(folder / "dark.png")
    >>> batch = ray.data.read_images(str(folder), size=(4, 6)).take_batch()
    >>> batch["image"].shape
    (1, 4, 6, 3)
    """
    return _read_files("ReadImage", readers.Image(size, mode), locals(), growth=4.0)


@forms.takes_old_options("ray.data.read_tfrecords")
def read_tfrecords(
    paths: str | list[str],
    *,
    filesystem: FileSystem | None = None,
    parallelism: int = -1,
    num_cpus: float | None = None,
    num_gpus: float | None = None,
    memory: float | None = None,
    arrow_open_stream_args: Mapping[str, object] | None = None,
    partition_filter: PathPartitionFilter | None = None,
    include_paths: bool = False,
    ignore_missing_paths: bool = False,
    tf_schema: object = None,
    shuffle: Literal["files"] | FileShuffleConfig | None = None,
    file_extensions: list[str] | None = None,
    concurrency: int | None = None,
    override_num_blocks: int | None = None,
    label_selector: dict[str, str] | None = None,
    fallback_strategy: Sequence[Mapping[str, object]] | None = None,
    max_calls: int | None = None,
    resources: dict[str, float] | None = None,
    accelerator_type: str | None = None,
    runtime_env: Mapping[str, object] | None = None,
    ray_remote_args: Mapping[str, object] | None = None,
) -> Dataset:
    """Return a data set of the examples in TFRecord files; TensorFlow reads them.

    Parameters
    ----------
    paths : str or list of str
        Files, folders (all files below) and patterns, with ``*``.
    tf_schema : optional
        Not supported.
    filesystem : pyarrow.fs.FileSystem or fsspec.AbstractFileSystem, optional
        The file system of the paths. Default: that of their URLs.
    partition_filter : PathPartitionFilter or callable, optional
        Chooses files by the names of their folders; a callable takes the path of a file, and returns
        whether to read it.
    include_paths : bool, default False
        Add a column ``path``.
    ignore_missing_paths : bool, default False
        Skip missing files instead of raising an error.
    shuffle : "files" or FileShuffleConfig, optional
        Read the files in a random order.
    file_extensions : list of str, optional
        Endings of the files to read in a folder.
    concurrency : int, optional
        Maximum number of concurrent tasks.
    override_num_blocks, parallelism : int, optional
        Approximate number of tasks. Default: from the number and size of the files.
    arrow_open_stream_args : dict, optional
        Arguments of the file system's ``open_input_stream``.
    num_cpus, num_gpus, memory, label_selector, max_calls, resources, accelerator_type, runtime_env
        Options of each task, as in `raycompat.remote`; others in `ray_remote_args`.
    fallback_strategy
        Not supported.

    Raises
    ------
    FileNotFoundError
        When a path names nothing.
    ValueError
        When executed, if a file is cut short or of another format.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> ray.data.range(3).write_tfrecords(folder)
    >>> ray.data.read_tfrecords(folder).sum("id")
    3
    """
    if tf_schema is not None:
        raise UnsupportedRayFeatureError(
            "read_tfrecords(tf_schema=...)",
            "the features' own types are used",
            "convert the columns with map_batches",
        )
    return _read_files("ReadTFRecord", readers.TfRecords(), locals(), growth=2.0)


@forms.takes_old_options("ray.data.read_webdataset")
def read_webdataset(
    paths: str | list[str],
    *,
    filesystem: FileSystem | None = None,
    parallelism: int = -1,
    num_cpus: float | None = None,
    num_gpus: float | None = None,
    memory: float | None = None,
    arrow_open_stream_args: Mapping[str, object] | None = None,
    partition_filter: PathPartitionFilter | None = None,
    decoder: Coders = True,
    fileselect: Select = None,
    filerename: Renames = None,
    suffixes: Select = None,
    verbose_open: bool = False,
    shuffle: Literal["files"] | FileShuffleConfig | None = None,
    include_paths: bool = False,
    file_extensions: list[str] | None = None,
    concurrency: int | None = None,
    override_num_blocks: int | None = None,
    expand_json: bool = False,
    label_selector: dict[str, str] | None = None,
    fallback_strategy: Sequence[Mapping[str, object]] | None = None,
    max_calls: int | None = None,
    resources: dict[str, float] | None = None,
    accelerator_type: str | None = None,
    runtime_env: Mapping[str, object] | None = None,
    ray_remote_args: Mapping[str, object] | None = None,
) -> Dataset:
    """Return a data set of archives in the form of WebDataset.

    Files ``0007.png`` and ``0007.cls`` of an archive are the columns ``png`` and ``cls`` of one row.
    The column ``__key__`` has the name before the first dot, and ``__url__`` the path of the archive.

    Parameters
    ----------
    paths : str or list of str
        Files, folders (all files below) and patterns, with ``*``.
    filesystem : pyarrow.fs.FileSystem or fsspec.AbstractFileSystem, optional
        The file system of the paths. Default: that of their URLs.
    arrow_open_stream_args : dict, optional
        Arguments of ``open_input_stream`` of the file system.
    partition_filter : PathPartitionFilter or callable, optional
        Chooses archives by the names of their folders; a callable takes the path of an archive, and
        returns whether to read it.
    decoder : bool, str, callable or list of these, default True
        Makes values of the bytes of a row. True: texts of ``txt``, integers of ``cls``, values of
        ``json``, ``npy`` and ``mp``, and arrays of images; other endings stay bytes. ``"PIL"``: images
        are those of Pillow. A function takes a row and returns one. None: bytes.
    fileselect : callable or list of str, optional
        Chooses files of the archives by their names: patterns, with ``*``, or whole names.
    filerename : callable or list of callables, optional
        Takes a file's name, and returns the one to use.
    suffixes : callable or list of str, optional
        Chooses columns by their names.
    verbose_open : bool, default False
        Print when an archive is opened and closed.
    shuffle : "files" or FileShuffleConfig, optional
        Read the archives in a random order.
    include_paths : bool, default False
        Add a column ``path``.
    file_extensions : list of str, optional
        Endings of the archives to read in a folder.
    concurrency : int, optional
        Maximum number of concurrent tasks.
    override_num_blocks, parallelism : int, optional
        Approximate number of tasks. Default: from the number and size of the archives.
    expand_json : bool, default False
        Add a column for each item of the dictionaries of the column ``json``.
    num_cpus, num_gpus, memory, label_selector, max_calls, resources, accelerator_type, runtime_env
        Options of each task, as in `raycompat.remote`; others in `ray_remote_args`.
    fallback_strategy
        Not supported.

    Raises
    ------
    FileNotFoundError
        When a path names nothing.
    ValueError
        When executed, if an archive is cut short or of another format, has two files of one name, or
        has files of one row in different places. And if a file is a pickle, or a model of PyTorch,
        because reading these can run code: give a `decoder` for files that you trust.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> rows = [
    ...     {"__key__": "a", "txt": "one", "cls": 1},
    ...     {"__key__": "b", "txt": "two", "cls": 2},
    ... ]
    >>> ray.data.from_items(rows).write_webdataset(folder)
    >>> ray.data.read_webdataset(folder, suffixes=["txt"]).select_columns(
    ...     ["__key__", "txt"]
    ... ).take_all()
    [{'__key__': 'a', 'txt': 'one'}, {'__key__': 'b', 'txt': 'two'}]

    Notes
    -----
    Ray source: ``ray.data.read_webdataset``, 2.60.0. Differs from Ray: `filerename` takes functions
    only, and there is no setting that allows pickles.
    """
    return _read_files(
        "ReadWebDataset",
        Samples(decoder, fileselect, filerename, suffixes, verbose_open, expand_json),
        locals(),
        growth=2.0,
    )


def read_orc(
    paths: str | list[str],
    *,
    filesystem: FileSystem | None = None,
    parallelism: int = -1,
    num_cpus: float | None = None,
    num_gpus: float | None = None,
    memory: float | None = None,
    partition_filter: PathPartitionFilter | None = None,
    partitioning: Partitioning | None = None,
    include_paths: bool = False,
    ignore_missing_paths: bool = False,
    shuffle: Literal["files"] | FileShuffleConfig | None = None,
    file_extensions: list[str] | None = _ORC,
    concurrency: int | None = None,
    override_num_blocks: int | None = None,
    label_selector: dict[str, str] | None = None,
    fallback_strategy: Sequence[Mapping[str, object]] | None = None,
    max_calls: int | None = None,
    resources: dict[str, float] | None = None,
    accelerator_type: str | None = None,
    runtime_env: Mapping[str, object] | None = None,
    ray_remote_args: Mapping[str, object] | None = None,
) -> Dataset:
    """Return a data set of the rows of ORC files.

    Parameters
    ----------
    paths : str or list of str
        Files, folders (all files below) and patterns, with ``*``.
    filesystem : pyarrow.fs.FileSystem or fsspec.AbstractFileSystem, optional
        The file system of the paths. Default: that of their URLs.
    partition_filter : PathPartitionFilter or callable, optional
        Chooses files by the names of their folders; a callable takes the path of a file, and returns
        whether to read it.
    partitioning : Partitioning, optional
        How names of folders are columns. Default: they are not.
    include_paths : bool, default False
        Add a column ``path``.
    ignore_missing_paths : bool, default False
        Skip missing files instead of raising an error.
    shuffle : "files" or FileShuffleConfig, optional
        Read the files in a random order.
    file_extensions : list of str, optional
        Endings of the files to read in a folder.
    concurrency : int, optional
        Maximum number of concurrent tasks.
    override_num_blocks, parallelism : int, optional
        Approximate number of tasks. Default: from the number and size of the files.
    num_cpus, num_gpus, memory, label_selector, max_calls, resources, accelerator_type, runtime_env
        Options of each task, as in `raycompat.remote`; others in `ray_remote_args`.
    fallback_strategy
        Not supported.

    Raises
    ------
    FileNotFoundError
        When a path names nothing.
    ValueError
        When executed, if a file is cut short or of another format.

    Examples
    --------
    >>> import os, tempfile
    >>> import pyarrow as pa, pyarrow.orc
    >>> path = os.path.join(tempfile.mkdtemp(), "numbers.orc")
    >>> pyarrow.orc.write_table(pa.table({"id": [1, 2]}), path)
    >>> ray.data.read_orc(path).take_all()
    [{'id': 1}, {'id': 2}]
    """
    return _read_files("ReadORC", readers.Orc(), locals(), growth=2.0)


@forms.takes_old_options("ray.data.read_parquet")
def read_parquet(
    paths: str | list[str],
    *,
    filesystem: FileSystem | None = None,
    catalog: object = None,
    columns: list[str] | None = None,
    parallelism: int = -1,
    num_cpus: float | None = None,
    num_gpus: float | None = None,
    memory: float | None = None,
    tensor_column_schema: object = None,
    partition_filter: PathPartitionFilter | None = None,
    partitioning: Partitioning | None = HIVE,
    shuffle: Literal["files"] | FileShuffleConfig | None = None,
    include_paths: bool = False,
    include_row_hash: bool = False,
    file_extensions: list[str] | None = _PARQUET,
    ignore_missing_paths: bool = False,
    skip_paths: object = None,
    concurrency: int | None = None,
    override_num_blocks: int | None = None,
    label_selector: dict[str, str] | None = None,
    fallback_strategy: Sequence[Mapping[str, object]] | None = None,
    max_calls: int | None = None,
    resources: dict[str, float] | None = None,
    accelerator_type: str | None = None,
    runtime_env: Mapping[str, object] | None = None,
    ray_remote_args: Mapping[str, object] | None = None,
    **arrow_parquet_args: object,
) -> Dataset:
    """Return a data set of the rows of Parquet files; only the requested columns are read.

    Parameters
    ----------
    paths : str or list of str
        Files, folders (all files below) and patterns, with ``*``.
    columns : list of str, optional
        The columns to read. Default: all.
    tensor_column_schema : dict of str to (dtype, shape), optional
        Columns of bytes that are arrays: the dtype and the shape of each array.
    catalog, include_row_hash, skip_paths : optional
        Not supported.
    filesystem : pyarrow.fs.FileSystem or fsspec.AbstractFileSystem, optional
        The file system of the paths. Default: that of their URLs.
    partition_filter : PathPartitionFilter or callable, optional
        Chooses files by the names of their folders; a callable takes the path of a file, and returns
        whether to read it.
    partitioning : Partitioning, optional
        Hive's (``year=2024/``) by default: names of folders are columns. None: they are not.
    include_paths : bool, default False
        Add a column ``path``.
    ignore_missing_paths : bool, default False
        Skip missing files instead of raising an error.
    shuffle : "files" or FileShuffleConfig, optional
        Read the files in a random order.
    file_extensions : list of str, optional
        Endings of the files to read in a folder.
    concurrency : int, optional
        Maximum number of concurrent tasks.
    override_num_blocks, parallelism : int, optional
        Approximate number of tasks. Default: from the number and size of the files.
    num_cpus, num_gpus, memory, label_selector, max_calls, resources, accelerator_type, runtime_env
        Options of each task, as in `raycompat.remote`; others in `ray_remote_args`.
    fallback_strategy
        Not supported.
    **arrow_parquet_args
        Arguments of ``pyarrow.parquet.ParquetFile.iter_batches``; ``filter``, an Arrow expression; and
        ``schema``, the columns and types of the rows. A column that a file lacks has no values.

    Raises
    ------
    FileNotFoundError
        When a path names nothing.
    ValueError
        When executed, if a file is cut short or of another format.

    Examples
    --------
    Only what the program needs is read:

    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> ray.data.from_items(
    ...     [{"x": number, "y": -number} for number in range(3)]
    ... ).write_parquet(folder)
    >>> ray.data.read_parquet(folder, columns=["y"]).take_all()
    [{'y': 0}, {'y': -1}, {'y': -2}]
    """
    refuse_options(
        "read_parquet",
        catalog=catalog,
        include_row_hash=include_row_hash or None,
        skip_paths=skip_paths,
    )
    options = {**arrow_parquet_args, "tensor_column_schema": tensor_column_schema}
    source = partial(ParquetDatasource, columns=columns, options=options, growth=3.0)
    return _read_source(source, locals())


@forms.takes_old_options("ray.data.read_avro")
def read_avro(
    paths: str | list[str],
    *,
    filesystem: FileSystem | None = None,
    parallelism: int = -1,
    num_cpus: float | None = None,
    num_gpus: float | None = None,
    memory: float | None = None,
    arrow_open_stream_args: Mapping[str, object] | None = None,
    partition_filter: PathPartitionFilter | None = None,
    partitioning: Partitioning | None = None,
    include_paths: bool = False,
    ignore_missing_paths: bool = False,
    shuffle: Literal["files"] | FileShuffleConfig | None = None,
    file_extensions: list[str] | None = None,
    concurrency: int | None = None,
    override_num_blocks: int | None = None,
    label_selector: dict[str, str] | None = None,
    fallback_strategy: Sequence[Mapping[str, object]] | None = None,
    max_calls: int | None = None,
    resources: dict[str, float] | None = None,
    accelerator_type: str | None = None,
    runtime_env: Mapping[str, object] | None = None,
    ray_remote_args: Mapping[str, object] | None = None,
) -> Dataset:
    """Return a data set of the records of Avro files, by fastavro (``pip install fastavro``).

    Parameters
    ----------
    paths : str or list of str
        Files, folders (all files below) and patterns, with ``*``.
    filesystem : pyarrow.fs.FileSystem or fsspec.AbstractFileSystem, optional
        The file system of the paths. Default: that of their URLs.
    arrow_open_stream_args : dict, optional
        Arguments of ``open_input_stream`` of the file system.
    partition_filter : PathPartitionFilter or callable, optional
        Chooses files by the names of their folders; a callable takes the path of a file, and returns
        whether to read it.
    partitioning : Partitioning, optional
        How names of folders are columns. Default: they are not.
    include_paths : bool, default False
        Add a column ``path``.
    ignore_missing_paths : bool, default False
        Skip missing files instead of raising an error.
    shuffle : "files" or FileShuffleConfig, optional
        Read the files in a random order.
    file_extensions : list of str, optional
        Endings of the files to read in a folder.
    concurrency : int, optional
        Maximum number of concurrent tasks.
    override_num_blocks, parallelism : int, optional
        Approximate number of tasks. Default: from the number and size of the files.
    num_cpus, num_gpus, memory, label_selector, max_calls, resources, accelerator_type, runtime_env
        Options of each task, as in `raycompat.remote`; others in `ray_remote_args`.
    fallback_strategy
        Not supported.

    Raises
    ------
    ImportError
        When fastavro is not installed.
    FileNotFoundError
        When a path names nothing.
    ValueError
        When executed, if a file is cut short or of another format.

    Examples
    --------
    .. code-block:: python

        stations = ray.data.read_avro("/data/stations")
        stations.take(1)
    """
    return _read_files("ReadAvro", readers.Avro(), locals(), growth=2.0)


def read_audio(
    paths: str | list[str],
    *,
    filesystem: FileSystem | None = None,
    arrow_open_stream_args: Mapping[str, object] | None = None,
    partition_filter: PathPartitionFilter | None = None,
    partitioning: Partitioning | None = None,
    include_paths: bool = False,
    ignore_missing_paths: bool = False,
    file_extensions: list[str] | None = _AUDIO,
    shuffle: Literal["files"] | FileShuffleConfig | None = None,
    concurrency: int | None = None,
    override_num_blocks: int | None = None,
    num_cpus: float | None = None,
    num_gpus: float | None = None,
    memory: float | None = None,
    label_selector: dict[str, str] | None = None,
    fallback_strategy: Sequence[Mapping[str, object]] | None = None,
    max_calls: int | None = None,
    resources: dict[str, float] | None = None,
    accelerator_type: str | None = None,
    runtime_env: Mapping[str, object] | None = None,
    ray_remote_args: Mapping[str, object] | None = None,
) -> Dataset:
    """Return a data set of files with sound, by soundfile (``pip install soundfile``).

    A row has the column ``amplitude``, an array of float32 with the shape (channels, samples), and the
    column ``sample_rate``, in samples a second.

    Parameters
    ----------
    paths : str or list of str
        Files, folders (all files below) and patterns, with ``*``.
    filesystem : pyarrow.fs.FileSystem or fsspec.AbstractFileSystem, optional
        The file system of the paths. Default: that of their URLs.
    arrow_open_stream_args : dict, optional
        Arguments of ``open_input_stream`` of the file system.
    partition_filter : PathPartitionFilter or callable, optional
        Chooses files by the names of their folders; a callable takes the path of a file, and returns
        whether to read it.
    partitioning : Partitioning, optional
        How names of folders are columns. Default: they are not.
    include_paths : bool, default False
        Add a column ``path``.
    ignore_missing_paths : bool, default False
        Skip missing files instead of raising an error.
    shuffle : "files" or FileShuffleConfig, optional
        Read the files in a random order.
    file_extensions : list of str, optional
        Endings of the files to read in a folder.
    concurrency : int, optional
        Maximum number of concurrent tasks.
    override_num_blocks : int, optional
        Approximate number of tasks. Default: from the number and size of the files.
    num_cpus, num_gpus, memory, label_selector, max_calls, resources, accelerator_type, runtime_env
        Options of each task, as in `raycompat.remote`; others in `ray_remote_args`.
    fallback_strategy
        Not supported.

    Raises
    ------
    ImportError
        When soundfile is not installed.
    FileNotFoundError
        When a path names nothing.
    ValueError
        When executed, if a file is cut short or of a format that soundfile does not read.

    Examples
    --------
    .. code-block:: python

        songs = ray.data.read_audio("/data/birds")
        songs.map(
            lambda row: {"seconds": row["amplitude"].shape[1] / row["sample_rate"]}
        )
    """
    return _read_files("ReadAudio", readers.Audio(), locals(), growth=2.0)


__getattr__ = names_of(__name__)
