"""`Checkpoint`: a folder of files, on a disk or on a file system of fsspec or pyarrow."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from raycompat import _storage
from raycompat._old_forms.checkpoints import OldForms
from raycompat._surface import forms

if TYPE_CHECKING:
    import pyarrow.fs

    from raycompat.train._types import Metrics

_METADATA = ".metadata.json"


@forms.takes_old_options_in_constructor("ray.train.Checkpoint")
class Checkpoint(OldForms):
    """A folder with the data from which training is resumed.

    Parameters
    ----------
    path : str or path-like
        A local folder, or a URI; with `filesystem`, a path on it.
    filesystem : pyarrow or fsspec file system, optional
        The file system of the folder. By default it depends on the path.

    Attributes
    ----------
    path : str
        The path on the file system, without protocol.

    Examples
    --------
    >>> import os, tempfile
    >>> from raycompat.train import Checkpoint
    >>> folder = tempfile.mkdtemp()
    >>> with open(os.path.join(folder, "step"), "w") as file:
    ...     print(3, file=file)
    >>> with Checkpoint(folder).as_directory() as found:
    ...     print(open(os.path.join(found, "step")).read().strip())
    3

    Notes
    -----
    Ray source: ``ray.train.Checkpoint``, 2.60.0. Differs: relative paths and file systems of fsspec are
    accepted, too.
    """

    def __init__(
        self, path: str | os.PathLike[str], filesystem: pyarrow.fs.FileSystem | None = None
    ) -> None:
        self._filesystem, self.path = _storage.resolve(path, filesystem)

    @property
    def filesystem(self) -> pyarrow.fs.FileSystem:
        """The pyarrow file system that `path` is on.

        Examples
        --------
        >>> import tempfile
        >>> from raycompat.train import Checkpoint
        >>> Checkpoint(tempfile.mkdtemp()).filesystem.type_name
        'local'
        """
        return _storage.as_pyarrow(self._filesystem)

    @property
    def _folder(self) -> _storage.Folder:
        return _storage.Folder(self.path, self._filesystem)

    def __repr__(self) -> str:
        kind = "local" if self._folder.is_local else self.filesystem.type_name
        return f"Checkpoint(filesystem={kind}, path={self.path})"

    def __fspath__(self) -> str:
        if not forms.is_used_today("ray.train.Checkpoint as a path"):
            raise TypeError(
                f"{self!r} is not a path, its files may be on another host. Write `with "
                "checkpoint.as_directory() as path:`, or checkpoint.to_directory()."
            )
        return self.as_path()

    @classmethod
    def from_directory(cls, path: str | os.PathLike[str]) -> Checkpoint:
        """Return the checkpoint that the local folder `path` is. Nothing is copied.

        Examples
        --------
        >>> import tempfile
        >>> from raycompat.train import Checkpoint
        >>> folder = tempfile.mkdtemp()
        >>> Checkpoint.from_directory(folder).path == folder
        True
        """
        return cls(path)

    def to_directory(self, path: str | os.PathLike[str] | None = None) -> str:
        """Copy the files to a local folder.

        Parameters
        ----------
        path : str or path-like, optional
            The folder, which is made where it is missing. By default a new temporary one.

        Returns
        -------
        str
            The folder.

        Raises
        ------
        FileNotFoundError
            When the checkpoint's folder is missing.

        Examples
        --------
        >>> import pathlib, tempfile
        >>> from raycompat.train import Checkpoint
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> (folder / "model.txt").write_text("weights")
        7
        >>> copy = Checkpoint(folder).to_directory()
        >>> pathlib.Path(copy, "model.txt").read_text()
        'weights'
        """
        if path is None:
            path = tempfile.mkdtemp(prefix="checkpoint-")
        target = os.path.normpath(os.path.expanduser(os.fspath(path)))
        self._folder.download(target)
        return target

    @contextlib.contextmanager
    def as_directory(self) -> Iterator[str]:
        """Give a local folder with the files, to be read within the ``with`` block.

        Yields
        ------
        str
            The checkpoint's own folder if it is local; otherwise a copy, which the end of the block
            deletes.

        Examples
        --------
        >>> import pathlib, tempfile
        >>> from raycompat.train import Checkpoint
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> (folder / "model.txt").write_text("weights")
        7
        >>> with Checkpoint(folder).as_directory() as found:
        ...     print(
        ...         found == str(folder), pathlib.Path(found, "model.txt").read_text()
        ...     )
        True weights
        """
        if self._folder.is_local:
            yield self.path
            return
        with tempfile.TemporaryDirectory(prefix="checkpoint-") as copy:
            yield self.to_directory(copy)

    def get_metadata(self) -> dict[str, Any]:
        """Return the metadata that the checkpoint was given; none: an empty dict.

        Examples
        --------
        >>> import tempfile
        >>> from raycompat.train import Checkpoint
        >>> checkpoint = Checkpoint(tempfile.mkdtemp())
        >>> checkpoint.get_metadata()
        {}
        >>> checkpoint.set_metadata({"epoch": 3})
        >>> Checkpoint(checkpoint.path).get_metadata()
        {'epoch': 3}
        """
        folder = self._folder
        if not folder.exists(_METADATA):
            return {}
        found: Metrics = json.loads(folder.read(_METADATA))
        return found

    def set_metadata(self, metadata: dict[str, Any]) -> None:
        """Replace the metadata by `metadata`.

        Raises
        ------
        TypeError
            When a value is not JSON.

        Examples
        --------
        >>> import tempfile
        >>> from raycompat.train import Checkpoint
        >>> checkpoint = Checkpoint(tempfile.mkdtemp())
        >>> checkpoint.set_metadata({"epoch": 3})
        >>> checkpoint.get_metadata()
        {'epoch': 3}
        """
        self._folder.write(_METADATA, json.dumps(metadata).encode())

    def update_metadata(self, metadata: dict[str, Any]) -> None:
        """Add the entries of `metadata`; keys that are there already get new values.

        Examples
        --------
        >>> import tempfile
        >>> from raycompat.train import Checkpoint
        >>> checkpoint = Checkpoint(tempfile.mkdtemp())
        >>> checkpoint.set_metadata({"epoch": 3, "loss": 0.5})
        >>> checkpoint.update_metadata({"loss": 0.4})
        >>> checkpoint.get_metadata()
        {'epoch': 3, 'loss': 0.4}
        """
        self.set_metadata({**self.get_metadata(), **metadata})


Checkpoint.__module__ = "raycompat.train"
