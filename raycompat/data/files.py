"""Files: which ones a path names, on the file systems of pyarrow and fsspec."""

from __future__ import annotations

import fnmatch
import posixpath
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import unquote

import numpy as np
import pyarrow.fs

from raycompat.data import seeds

if TYPE_CHECKING:
    import fsspec

#: A file system as the rest of the room has it.
ArrowFileSystem: TypeAlias = pyarrow.fs.FileSystem

#: A file system that a user gives: pyarrow's, or one of fsspec.
FileSystem: TypeAlias = "ArrowFileSystem | fsspec.AbstractFileSystem"

#: A path or several, as a user gives them: files, folders and patterns.
Paths: TypeAlias = "str | Path | Sequence[str | Path]"

#: How paths of files begin that are in Ray's own package.
_EXAMPLE = "example://"


@dataclass(frozen=True)
class FileShuffleConfig:
    """Read files in a random order.

    Parameters
    ----------
    seed : int, optional
        Seed of the random numbers. By default each execution has another order.
    reseed_after_execution : bool, default True
        Give each execution of a data set another order, which the seed determines too. Otherwise all
        executions have the same.

    Raises
    ------
    ValueError
        For a seed that is neither an ``int`` nor None.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> ray.data.range(4, override_num_blocks=4).write_parquet(folder)
    >>> shuffled = ray.data.read_parquet(
    ...     folder, shuffle=ray.data.FileShuffleConfig(seed=7)
    ... )
    >>> sorted(row["id"] for row in shuffled.take_all())
    [0, 1, 2, 3]
    """

    seed: int | None = None
    reseed_after_execution: bool = True

    def __post_init__(self) -> None:
        if self.seed is not None and not isinstance(self.seed, int):
            raise ValueError(
                f"FileShuffleConfig(seed={self.seed!r}): give an integer, or None for another order in "
                "each execution."
            )

    def get_seed(self, execution_idx: int = 0) -> int | None:
        """Return the seed of an execution; None without a seed.

        Parameters
        ----------
        execution_idx : int, default 0
            The number of the execution.

        Examples
        --------
        >>> config = ray.data.FileShuffleConfig(seed=7, reseed_after_execution=False)
        >>> config.get_seed(0), config.get_seed(1)
        (7, 7)
        """
        if self.seed is None:
            return None
        config = seeds.RandomSeedConfig(self.seed, self.reseed_after_execution)
        return seeds.number(config, execution_idx)


@dataclass(frozen=True)
class File:
    """A file that is to be read."""

    path: str
    size_bytes: int


def resolve(path: object, filesystem: FileSystem | None) -> tuple[ArrowFileSystem, str]:
    """Return the file system of a path, and the path in it.

    Parameters
    ----------
    path : str or os.PathLike
        A path, or a URL of a scheme that pyarrow or fsspec knows.
    filesystem : pyarrow.fs.FileSystem or fsspec.AbstractFileSystem, optional
        The file system that the path is of.
    """
    if not isinstance(path, str | Path):
        raise ValueError(f"{path!r} is not a path: give a str, a pathlib.Path or a list of them.")
    if path == "":
        raise FileNotFoundError("The path '' names no file: give the path of a file or a folder.")
    text = str(path)
    if text.startswith(_EXAMPLE):
        raise FileNotFoundError(
            f"{text!r} is a file of Ray's own package, which raycompat does not have. Give the path of "
            "a file of yours."
        )
    if text.startswith("local://"):
        text = text.removeprefix("local://")
    if filesystem is not None:
        return as_arrow(filesystem), text.partition("://")[2] or text
    if "://" not in text:
        return pyarrow.fs.LocalFileSystem(), str(Path(text).expanduser().absolute())
    try:
        found, inside = pyarrow.fs.FileSystem.from_uri(text)
    except (ValueError, NotImplementedError):
        import fsspec

        made, inside = fsspec.core.url_to_fs(text)
        found = as_arrow(made)
    return found, unquote(inside) if text.startswith("file://") else inside


def as_arrow(filesystem: FileSystem) -> ArrowFileSystem:
    """Return a file system, pyarrow's or fsspec's, as one of pyarrow's."""
    if isinstance(filesystem, pyarrow.fs.FileSystem):
        return filesystem
    return pyarrow.fs.PyFileSystem(pyarrow.fs.FSSpecHandler(filesystem))


def find(
    paths: Paths,
    filesystem: FileSystem | None,
    extensions: Sequence[str] | None,
    ignore_missing: bool,
) -> tuple[ArrowFileSystem, list[File]]:
    """Return the files that paths name: files, folders (all files below), and patterns.

    Returns
    -------
    filesystem : pyarrow.fs.FileSystem
    files : list of File
        In order of the paths, those of one folder in order of their names.

    Raises
    ------
    FileNotFoundError
        When a path does not exist.
    ValueError
        When a folder has no such file, or there are no paths.
    """
    if not isinstance(paths, str | Path | Sequence):
        raise ValueError(f"paths={paths!r} should be a path, or a list of them.")
    listed = [paths] if isinstance(paths, str | Path) else list(paths)
    if not listed:
        raise ValueError("paths is empty: give at least one path.")
    files: list[File] = []
    found_filesystem = None
    for path in listed:
        found_filesystem, inside = resolve(path, filesystem)
        found = _find_one(found_filesystem, inside, extensions)
        if not found and not ignore_missing:
            raise _nothing_there(found_filesystem, inside, extensions)
        files.extend(found)
    if not files:
        raise ValueError(f"None of the paths {listed} names a file.")
    return found_filesystem, files


def shuffle_of(shuffle: object) -> FileShuffleConfig | None:
    """Return the option ``shuffle`` of a read as a configuration; None for files in their order."""
    if shuffle is None or isinstance(shuffle, FileShuffleConfig):
        return shuffle
    if shuffle != "files":
        raise ValueError(f'shuffle={shuffle!r} should be "files" or a FileShuffleConfig.')
    return FileShuffleConfig()


def shuffled(files: Sequence[File], config: FileShuffleConfig, execution: int) -> list[File]:
    """Return files in the order of an execution."""
    order = np.random.default_rng(config.get_seed(execution)).permutation(len(files))
    return [files[index] for index in order]


def _find_one(
    filesystem: ArrowFileSystem, path: str, extensions: Sequence[str] | None
) -> list[File]:
    info = filesystem.get_file_info(path)
    if info.type == pyarrow.fs.FileType.File:
        return [File(path, info.size or 0)]
    if info.type == pyarrow.fs.FileType.Directory:
        return [file for file in _below(filesystem, path) if _has_extension(file.path, extensions)]
    if not _is_pattern(path):
        return []
    folder = path
    while _is_pattern(folder):
        folder = posixpath.dirname(folder)
    return [file for file in _below(filesystem, folder) if fnmatch.fnmatch(file.path, path)]


def _is_pattern(path: str) -> bool:
    return any(sign in path for sign in "*?[")


def _below(filesystem: ArrowFileSystem, folder: str) -> list[File]:
    selector = pyarrow.fs.FileSelector(folder, recursive=True, allow_not_found=True)
    return sorted(
        (
            File(info.path, info.size or 0)
            for info in filesystem.get_file_info(selector)
            if info.type == pyarrow.fs.FileType.File
            and not posixpath.relpath(info.path, folder).startswith((".", "_"))
        ),
        key=lambda file: file.path,
    )


def _has_extension(path: str, extensions: Sequence[str] | None) -> bool:
    if extensions is None:
        return True
    return path.lower().endswith(tuple(f".{each.lower().lstrip('.')}" for each in extensions))


def _nothing_there(
    filesystem: ArrowFileSystem, path: str, extensions: Sequence[str] | None
) -> Exception:
    kinds = f" that ends with {' or '.join(extensions)}" if extensions else ""
    info = filesystem.get_file_info(path)
    if info.type == pyarrow.fs.FileType.Directory:
        return ValueError(
            f"The folder {path!r} has no file{kinds}. Name the files, or pass file_extensions."
        )
    return FileNotFoundError(f"The file or folder {path!r} does not exist.")
