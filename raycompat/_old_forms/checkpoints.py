"""Checkpoints of 1.x and early 2.x: dictionaries, paths, and folders that a report takes with it."""

from __future__ import annotations

import contextlib
import pickle
from pathlib import Path
from typing import Any, Self

import cloudpickle

import raycompat
from raycompat._surface import forms
from raycompat._upper import upper

#: The file of a checkpoint that was made of a dict.
DICT_FILE = "dict_checkpoint.pkl"
#: The key of a preprocessor in a dict, and the name of its file in a folder.
PREPROCESSOR_KEY = "_preprocessor"

_IN_MEMORY = "ray.train.Checkpoint of a dict"
_AS_PATH = "ray.train.Checkpoint as a path"
_PREPROCESSOR = "ray.train.Checkpoint with a preprocessor"


class OldForms:
    """What `Checkpoint` could do in older Rays, beside what it does today."""

    path: Any

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Return a checkpoint with the values of a dict.

        Examples
        --------
        >>> from raycompat.train import Checkpoint
        >>> checkpoint = Checkpoint.from_dict({"epoch": 3})
        >>> checkpoint.to_dict()
        {'epoch': 3}
        """
        forms.used(_IN_MEMORY, refusal=AttributeError)
        made: Self = upper("_old.checkpoints").InMemory(data)
        return made

    def to_dict(self) -> dict[str, Any]:
        """Return the dict from which the checkpoint was made.

        Raises
        ------
        ValueError
            When it was made from a folder.
        """
        forms.used(_IN_MEMORY, refusal=AttributeError)
        with self.as_directory() as folder:
            file = Path(folder, DICT_FILE)
            if not file.exists():
                raise ValueError(
                    f"{self!r} was made from a folder, not from a dict: read its files, which are in "
                    "`with checkpoint.as_directory() as path:`."
                )
            found: dict[str, Any] = pickle.loads(file.read_bytes())
        return found

    def as_directory(self) -> contextlib.AbstractContextManager[str]:
        """See `raycompat.train.Checkpoint`."""
        raise NotImplementedError

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Return a checkpoint from the bytes of `to_bytes`, which must come from a trusted source.

        Examples
        --------
        >>> from raycompat.train import Checkpoint
        >>> data = Checkpoint.from_dict({"epoch": 3}).to_bytes()
        >>> Checkpoint.from_bytes(data).to_dict()["epoch"]
        3
        """
        return cls.from_dict(pickle.loads(data))

    def to_bytes(self) -> bytes:
        """Return the dict of the checkpoint as bytes.

        Examples
        --------
        >>> from raycompat.train import Checkpoint
        >>> data = Checkpoint.from_dict({"epoch": 3}).to_bytes()
        >>> Checkpoint.from_bytes(data).to_dict()
        {'epoch': 3}
        """
        return bytes(cloudpickle.dumps(self.to_dict()))

    @classmethod
    def from_object_ref(cls, obj_ref: Any) -> Self:
        """Return a checkpoint with the values of a dict that is stored, or a stored checkpoint.

        Examples
        --------
        >>> from raycompat.train import Checkpoint
        >>> Checkpoint.from_object_ref(ray.put({"epoch": 3})).to_dict()
        {'epoch': 3}
        """
        stored = raycompat.get(obj_ref)
        return stored if isinstance(stored, cls) else cls.from_dict(stored)

    def to_object_ref(self) -> Any:
        """Store the dict of the checkpoint, or the checkpoint of a folder, and return a reference.

        Examples
        --------
        >>> from raycompat.train import Checkpoint
        >>> ray.get(Checkpoint.from_dict({"epoch": 3}).to_object_ref())
        {'epoch': 3}
        """
        forms.used(_IN_MEMORY, refusal=AttributeError)
        is_of_dict = self._folder.exists(DICT_FILE)  # type: ignore[attr-defined]
        return raycompat.put(self.to_dict() if is_of_dict else self)

    @classmethod
    def from_checkpoint(cls, other: Self) -> Self:
        """Return the checkpoint itself: today there is one class for all libraries.

        Examples
        --------
        >>> from raycompat.train import Checkpoint
        >>> Checkpoint.from_checkpoint(Checkpoint.from_dict({"epoch": 3})).to_dict()
        {'epoch': 3}
        """
        forms.used(_IN_MEMORY, refusal=AttributeError)
        return other

    def to_air_checkpoint(self) -> Self:
        """Return the checkpoint itself; Ray Tune had its own class for those of a trial.

        Examples
        --------
        >>> from raycompat.train import Checkpoint
        >>> Checkpoint.from_dict({"epoch": 3}).to_air_checkpoint().to_dict()
        {'epoch': 3}
        """
        forms.used("ray.train.Checkpoint.to_air_checkpoint", refusal=AttributeError)
        return self

    @classmethod
    def from_uri(cls, uri: str) -> Self:
        """Return the checkpoint in a folder of a storage.

        Examples
        --------
        >>> import tempfile
        >>> from raycompat.train import Checkpoint
        >>> folder = tempfile.mkdtemp()
        >>> Checkpoint.from_uri(f"file://{folder}").path == folder
        True
        """
        forms.used("ray.train.Checkpoint of a URI", refusal=AttributeError)
        return cls(uri)  # type: ignore[call-arg]

    @property
    def uri(self) -> str:
        """The folder, with the protocol of a remote file system.

        Examples
        --------
        >>> import tempfile
        >>> from raycompat.train import Checkpoint
        >>> folder = tempfile.mkdtemp()
        >>> Checkpoint(folder).uri == folder
        True
        """
        forms.used("ray.train.Checkpoint of a URI", refusal=AttributeError)
        return str(self._folder.uri)  # type: ignore[attr-defined]

    @property
    def value(self) -> str:
        """The path of the folder, as in 1.x.

        Examples
        --------
        >>> import tempfile
        >>> from raycompat.train import Checkpoint
        >>> checkpoint = Checkpoint(tempfile.mkdtemp())
        >>> checkpoint.value == checkpoint.dir_or_data == checkpoint.path
        True
        """
        return self.as_path()

    dir_or_data = value

    def as_path(self) -> str:
        """Return the path of the folder, which has to be a local one.

        Raises
        ------
        TypeError
            When the files are on another file system.

        Examples
        --------
        >>> import tempfile
        >>> from raycompat.train import Checkpoint
        >>> folder = tempfile.mkdtemp()
        >>> Checkpoint(folder).as_path() == folder
        True
        """
        forms.used(_AS_PATH)
        if not self._folder.is_local:  # type: ignore[attr-defined]
            raise TypeError(
                f"{self!r} is not a path, its files are on another file system. Write `with "
                "checkpoint.as_directory() as path:`."
            )
        return str(self.path)

    def get_preprocessor(self) -> Any:
        """Return the preprocessor that the checkpoint was given; None without one.

        Examples
        --------
        >>> import tempfile
        >>> from raycompat.data.preprocessors import StandardScaler
        >>> from raycompat.train import Checkpoint
        >>> checkpoint = Checkpoint(tempfile.mkdtemp())
        >>> checkpoint.set_preprocessor(StandardScaler(["x"]))
        >>> type(checkpoint.get_preprocessor()).__name__
        'StandardScaler'
        """
        forms.used(_PREPROCESSOR, refusal=AttributeError)
        with self.as_directory() as folder:
            for name in (
                PREPROCESSOR_KEY,
                "preprocessor.pkl",
            ):  # the second: of before
                if Path(folder, name).exists():
                    return pickle.loads(Path(folder, name).read_bytes())
            if Path(folder, DICT_FILE).exists():
                return self.to_dict().get(PREPROCESSOR_KEY)
        return None

    def set_preprocessor(self, preprocessor: Any) -> None:
        """Add a preprocessor to the checkpoint.

        Examples
        --------
        >>> from raycompat.data.preprocessors import StandardScaler
        >>> from raycompat.train import Checkpoint
        >>> checkpoint = Checkpoint.from_dict({"epoch": 3})
        >>> checkpoint.set_preprocessor(StandardScaler(["height"]))
        >>> checkpoint.get_preprocessor()
        StandardScaler(columns=['height'], ...)
        """
        forms.used(_PREPROCESSOR, refusal=AttributeError)
        self._folder.write(  # type: ignore[attr-defined]
            PREPROCESSOR_KEY, cloudpickle.dumps(preprocessor)
        )
