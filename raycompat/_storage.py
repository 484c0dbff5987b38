"""Folders for the results of runs: on disks, and on file systems that fsspec can access.

Readers see only complete files. A file is written under another name and renamed; so is a folder of
files (`Folder.stage`, `Folder.commit`). A process that is killed leaves only names that begin with
`PARTIAL`, which listings skip and the next run deletes. Object stores cannot rename: there, a file
appears when it is closed, and a folder is valid when its marker `COMMITTED` is written, as the last
file; until then a marker beside it makes the next run delete it.

Train, Tune and RL share this module, which does not depend on them.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import posixpath
import shutil
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from io import FileIO
from pathlib import Path
from typing import Any, TypeVar

from fsspec import AbstractFileSystem
from fsspec.core import url_to_fs
from fsspec.implementations.local import LocalFileSystem

from raycompat._recordable import as_json_text

#: Prefix of the names of unfinished files and folders.
PARTIAL = ".partial-"
#: The last file of a folder on a file system that cannot rename.
COMMITTED = ".committed"
#: Bytes of a name. File systems store 255; unfinished folders get a prefix and an end.
MAX_NAME_BYTES = 230
#: Seconds that small writes wait for room on a disk that is full, and between two tries.
ROOM_S = 5.0
ROOM_POLL_S = 0.05

T = TypeVar("T")


def checked_name(what: str, name: Any) -> str:
    """Return the name of a folder in another one; with ``/`` it is below several folders.

    Raises
    ------
    ValueError
        When it would lead out of the other folder, or cannot be the name of a folder. `what` is the
        option that has it.
    """
    text = str(name)
    parts = text.split("/")
    if why_not := _why_no_name(text, parts):
        raise ValueError(
            f"{what}={text!r}: {why_not}. Expected the name of a folder, such as 'my_run'; the folder "
            "that it is in is given by storage_path."
        )
    return "/".join(filter(None, parts))


def _why_no_name(text: str, parts: list[str]) -> str | None:
    if text.startswith("/"):
        return "it is an absolute path"
    if ".." in parts or set(parts) <= {"", "."}:
        return "it leads out of the folder for it"
    if "\0" in text:
        return "it has a null character"
    try:
        longest = max(len(part.encode()) for part in parts)
    except UnicodeEncodeError as error:
        return f"it is not valid Unicode, because of {text[error.start]!r}"
    if longest > MAX_NAME_BYTES:
        return f"it has {longest} bytes, and {MAX_NAME_BYTES} is the most"
    if any(part.startswith(PARTIAL) for part in parts):
        return f"names that begin with {PARTIAL!r} are those of unfinished folders"
    return None


def cut_name(name: str, num_bytes: int) -> str:
    """Return the beginning of a name that has at most so many bytes, without invalid characters."""
    return name.encode(errors="replace")[:num_bytes].decode(errors="ignore")


def default_path() -> str:
    """Return the default folder for runs: ``~/ray_results``."""
    given = os.environ.get("RAY_AIR_LOCAL_CACHE_DIR") or "~/ray_results"
    return Path(given).expanduser().as_posix()


def resolve(path: str | os.PathLike[str], filesystem: Any = None) -> tuple[AbstractFileSystem, str]:
    """Return the fsspec file system of a path or URI, and the path on it.

    Parameters
    ----------
    path : str or path-like
        A local path, relative to the working folder or absolute, or a URI that fsspec knows. With
        `filesystem`, a path on it.
    filesystem : fsspec or pyarrow file system, optional
        The file system of the path.

    Raises
    ------
    ValueError
        When neither fsspec nor pyarrow knows the URI.
    TypeError
        When `filesystem` is not a file system.
    """
    text = os.fspath(path)
    if filesystem is not None:
        return as_fsspec(filesystem), text
    if "://" not in text:
        return LocalFileSystem(), Path(text).expanduser().absolute().as_posix()
    try:
        found, inside = url_to_fs(text)
    except (ImportError, ValueError) as error:
        return _resolve_by_pyarrow(text, error)
    return found, inside


def _resolve_by_pyarrow(uri: str, reason: Exception) -> tuple[AbstractFileSystem, str]:
    """Try the file systems of pyarrow, such as S3's, when fsspec lacks a package."""
    try:
        import pyarrow.fs

        found, inside = pyarrow.fs.FileSystem.from_uri(uri)
    except Exception as error:
        raise ValueError(
            f"{uri!r} cannot be used to write files: {reason}. Expected a local path, or a URI "
            "whose file system is installed."
        ) from error
    return as_fsspec(found), inside


def as_fsspec(filesystem: Any) -> AbstractFileSystem:
    """Return a file system as an fsspec one; pyarrow's are wrapped."""
    if isinstance(filesystem, AbstractFileSystem):
        return filesystem
    if type(filesystem).__module__.startswith("pyarrow."):
        return _unwrapped(filesystem)
    raise TypeError(
        f"{filesystem!r} is not a file system: expected one of fsspec or of pyarrow.fs, for example "
        "pyarrow.fs.S3FileSystem()."
    )


def _unwrapped(filesystem: Any) -> AbstractFileSystem:
    import pyarrow.fs
    from fsspec.implementations.arrow import ArrowFSWrapper

    if isinstance(filesystem, pyarrow.fs.LocalFileSystem):
        return LocalFileSystem()
    handler = getattr(filesystem, "handler", None)
    if isinstance(handler, pyarrow.fs.FSSpecHandler):
        return handler.fs
    return ArrowFSWrapper(filesystem)


def as_pyarrow(filesystem: Any) -> Any:
    """Return a file system as a pyarrow one."""
    import pyarrow.fs

    if isinstance(filesystem, pyarrow.fs.FileSystem):
        return filesystem
    if isinstance(filesystem, LocalFileSystem):
        return pyarrow.fs.LocalFileSystem()
    wrapped = getattr(filesystem, "fs", None)
    if isinstance(wrapped, pyarrow.fs.FileSystem):
        return wrapped
    return pyarrow.fs.PyFileSystem(pyarrow.fs.FSSpecHandler(filesystem))


class Folder:
    """A folder, local or remote.

    Parameters
    ----------
    path : str or path-like
        As in `resolve`.
    filesystem : fsspec or pyarrow file system, optional
        The file system of the path.

    Notes
    -----
    Names that the methods take are relative to the folder and may contain ``/``.
    """

    def __init__(self, path: str | os.PathLike[str], filesystem: Any = None) -> None:
        self.filesystem, found = resolve(path, filesystem)
        self.path = found.rstrip("/") or "/"

    def __repr__(self) -> str:
        return f"Folder({self.uri!r})"

    @property
    def is_local(self) -> bool:
        """Whether the folder is on a disk of this host, where files can be renamed."""
        return isinstance(self.filesystem, LocalFileSystem)

    @property
    def uri(self) -> str:
        """The path, with the protocol of a remote file system."""
        return self.path if self.is_local else str(self.filesystem.unstrip_protocol(self.path))

    def at(self, name: str) -> str:
        """Return the path of a file or folder in this folder."""
        return posixpath.join(self.path, name) if name else self.path

    def folder(self, name: str) -> Folder:
        """Return a folder in this folder."""
        return Folder(self.at(name), self.filesystem)

    def create(self) -> Folder:
        """Make the folder if it is missing."""
        with _explained("create", self.path):
            self.filesystem.makedirs(self.path, exist_ok=True)
        return self

    def delete_partial(self) -> None:
        """Delete the files and folders that were staged and never committed."""
        for entry in self._entries():
            if not entry.startswith(PARTIAL):
                continue
            name = entry.removeprefix(PARTIAL)
            if not self.is_local and not self.is_whole(name):
                self.delete(name)
            self.delete(entry)

    def exists(self, name: str = "") -> bool:
        """Return whether a file or folder with that name exists, complete or not."""
        return bool(self.filesystem.exists(self.at(name)))

    def is_whole(self, name: str) -> bool:
        """Return whether a folder in this folder was committed."""
        if self.is_local:
            return Path(self.at(name)).is_dir()
        return bool(self.filesystem.exists(self.at(posixpath.join(name, COMMITTED))))

    def names(self) -> list[str]:
        """Return the sorted names in this folder; an empty list if the folder is missing."""
        return sorted(name for name in self._entries() if not name.startswith(PARTIAL))

    def _entries(self) -> list[str]:
        try:
            self.filesystem.invalidate_cache(self.path)
            found = self.filesystem.ls(self.path, detail=False)
        except FileNotFoundError:
            return []
        return [posixpath.basename(path.rstrip("/")) for path in found]

    # --- files ----------------------------------------------------------------------------------

    def read(self, name: str) -> bytes:
        """Return the content of a file."""
        with self.filesystem.open(self.at(name), "rb") as file:
            return bytes(file.read())

    def write(self, name: str, content: bytes) -> None:
        """Replace a file at once: readers see the old content or the new one, also after a kill.

        Raises
        ------
        OSError
            When there is no room, or no permission to write. The old content is kept.
        """
        path = self.at(name)
        with _explained("write", path):
            if not self.is_local:
                self.filesystem.makedirs(posixpath.dirname(path), exist_ok=True)
                self.filesystem.pipe_file(path, content)
                return
            _replace_file(Path(path), content)

    def read_state(self, name: str) -> Any:
        """Return the value that `write_state` has written; None if there is none.

        Raises
        ------
        ValueError
            When the file is not JSON: another program has written it.
        """
        if not self.exists(name):
            return None
        try:
            return json.loads(self.read(name))
        except ValueError as error:
            raise ValueError(f"{self.at(name)} is damaged: expected JSON, {error}.") from error

    def write_state(self, name: str, state: Any) -> None:
        """Replace a file of JSON; values that are not JSON are written as text."""
        self.write(name, as_json_text(state, indent=1).encode())

    def append_line(self, name: str, line: str) -> None:
        """Add a line to a file. Remote files are written again as a whole."""
        path, data = self.at(name), line.encode(errors="backslashreplace") + b"\n"
        with _explained("write", path):
            if self.is_local:
                os.makedirs(posixpath.dirname(path), exist_ok=True)
                with open(path, "ab", buffering=0) as file:
                    append_whole(file, data)
                return
            before = self.read(name) if self.exists(name) else b""
            self.filesystem.pipe_file(path, before + data)

    def delete(self, name: str = "") -> None:
        """Delete a file or a folder; a missing one is not an error.

        A folder is renamed first, so that a partly deleted folder is not taken for a complete one.
        """
        path = self.at(name)
        with contextlib.suppress(FileNotFoundError):
            if self.is_local and os.path.isdir(path) and not os.path.islink(path):
                head, tail = os.path.split(path)
                doomed = path if tail.startswith(PARTIAL) else f"{head}/{PARTIAL}{tail}-{_token()}"
                os.replace(path, doomed)
                shutil.rmtree(doomed)
                return
            self.filesystem.rm(path, recursive=True)

    # --- folders of files -----------------------------------------------------------------------

    def stage(self, name: str) -> Folder:
        """Return the folder in which the files of the future folder `name` are written.

        Where folders cannot be renamed it is the future folder; a file beside it says that it is not
        whole, for `delete_partial`.
        """
        if not self.is_local:
            self.write(_partial(name), b"")
            return self.folder(name)
        return self.folder(_partial(name)).create()

    def commit(self, name: str) -> Folder:
        """Make the staged files the folder `name`, together with the other files of an older one.

        Returns
        -------
        Folder
            The folder.
        """
        if not self.is_local:
            self.write(posixpath.join(name, COMMITTED), b"")
            self.delete(_partial(name))
            return self.folder(name)
        staged, final = self.stage(name).path, self.at(name)
        with _explained("write", final):
            _sync_tree(staged)
            if os.path.isdir(final):
                # The two become one new folder, which replaces the old one.
                _copy_tree(final, staged, keep_existing=True)
                self.delete(name)
            os.replace(staged, final)
            _sync_folder(posixpath.dirname(final))
        return self.folder(name)

    def upload(self, source: str | os.PathLike[str], name: str) -> Folder:
        """Copy a local folder to `name`, as a whole."""
        staged = self.stage(name)
        if self.is_local:
            staged.delete()  # removes files of a killed process
        staged.create().receive(source)
        return self.commit(name)

    def receive(self, source: str | os.PathLike[str]) -> None:
        """Copy the files of a local folder into this one.

        Raises
        ------
        FileNotFoundError
            When the folder to be copied is missing.
        OSError
            When there is no room for the files.
        """
        source = os.fspath(source)
        if not os.path.isdir(source):
            raise FileNotFoundError(errno.ENOENT, "The folder to copy does not exist", source)
        with _explained("write", self.path):
            if self.is_local:
                _copy_tree(source, self.path)
            else:
                self.filesystem.put(f"{source.rstrip('/')}/", f"{self.path}/", recursive=True)

    def download(self, target: str | os.PathLike[str]) -> None:
        """Copy the files of this folder into a local one.

        Raises
        ------
        FileNotFoundError
            When this folder is missing.
        """
        if not self.exists():
            raise FileNotFoundError(errno.ENOENT, "The folder to copy does not exist", self.uri)
        with _explained("write", os.fspath(target)):
            if self.is_local:
                _copy_tree(self.path, os.fspath(target))
                return
            os.makedirs(target, exist_ok=True)
            # File by file, because not every file system understands a trailing slash.
            files = self.filesystem.find(self.path)
            begin = len(self.uri) + 1
            names = [self.filesystem.unstrip_protocol(file)[begin:] for file in files]
            self.filesystem.get(files, [posixpath.join(os.fspath(target), name) for name in names])
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(target, COMMITTED))


def _partial(name: str) -> str:
    head, tail = posixpath.split(name)
    return posixpath.join(head, PARTIAL + tail)


def _token() -> str:
    return uuid.uuid4().hex[:8]


@contextlib.contextmanager
def _explained(verb: str, path: str) -> Iterator[None]:
    """Add the failed operation and the free space to errors about a full disk."""
    try:
        yield
    except OSError as error:
        if not is_full(error):
            raise
        raise OSError(
            error.errno,
            f"Cannot {verb} {path}: the disk is full ({_free(path)}). Free some room, or keep fewer "
            "checkpoints, for example with CheckpointConfig(num_to_keep=2)",
        ) from error


def _free(path: str) -> str:
    for folder in (Path(path), *Path(path).parents):
        if folder.exists():
            return f"{shutil.disk_usage(folder).free:,} bytes free"
    return "free room unknown"


def is_full(error: OSError) -> bool:
    """Return whether an error means that a disk is full, or a quota used up."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def when_there_is_room(write: Callable[[], T]) -> T:
    """Call a function that writes; call it again while the disk is full, for at most `ROOM_S` seconds.

    Another process may be copying a checkpoint that does not fit. It then fails and deletes its copy.
    The function writes all or nothing.
    """
    deadline = time.monotonic() + ROOM_S
    while True:
        try:
            return write()
        except OSError as error:
            if not is_full(error) or time.monotonic() > deadline:
                raise
        time.sleep(ROOM_POLL_S)  # no event says that a disk has room again


def append_whole(file: FileIO, data: bytes) -> None:
    """Add data to the end of an unbuffered file: all of it or, on an error, none.

    Raises
    ------
    OSError
        When there is no room.
    """
    length = os.fstat(file.fileno()).st_size
    rest = memoryview(data)
    try:
        with _explained("write", str(file.name)):
            while rest:  # a disk that is nearly full takes a part of it
                rest = rest[file.write(rest) :]
    except OSError:
        os.ftruncate(file.fileno(), length)
        raise


def _replace_file(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, beside = tempfile.mkstemp(prefix=PARTIAL, dir=path.parent)
    with _renamed(beside, path):
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(beside, 0o644)


@contextlib.contextmanager
def _renamed(beside: str, path: str | Path) -> Iterator[None]:
    """Rename the file that the block writes; remove it if the block fails."""
    try:
        yield
        os.replace(beside, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(beside)
        raise


def _copy_tree(source: str, target: str, keep_existing: bool = False) -> None:
    """Copy the files below a folder; each is written under another name and then renamed."""
    for folder, _, files in os.walk(source):
        below = os.path.join(target, os.path.relpath(folder, source))
        os.makedirs(below, exist_ok=True)
        for file in files:
            place = os.path.join(below, file)
            if keep_existing and os.path.exists(place):
                continue
            beside = os.path.join(below, f"{PARTIAL}{_token()}")
            with _renamed(beside, place):
                shutil.copy2(os.path.join(folder, file), beside)


def _sync_tree(path: str) -> None:
    """Flush files and folders to disk before the rename that makes them visible."""
    for folder, _, files in os.walk(path):
        for file in files:
            _sync_folder(os.path.join(folder, file))
        _sync_folder(folder)


def _sync_folder(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
