"""Checkpoints of 1.x and early 2.x: of dictionaries, and folders that a report takes with it."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cloudpickle

from raycompat import _storage
from raycompat._old_forms.checkpoints import DICT_FILE, PREPROCESSOR_KEY
from raycompat.train._callback import UserCallback
from raycompat.train._checkpoint import Checkpoint
from raycompat.tune.trainable import session

if TYPE_CHECKING:
    from raycompat.data.preprocessor import Preprocessor
    from raycompat.train._run import TrainRunContext


class InMemory(Checkpoint):
    """A checkpoint of a dict. It is written into a folder when one is asked for.

    Parameters
    ----------
    data : dict
        Its values by name.
    """

    def __init__(self, data: dict[str, Any]) -> None:
        if not isinstance(data, dict):
            raise TypeError(f"Checkpoint.from_dict({data!r}): expected a dict.")
        self._data = data
        self._filesystem, _ = _storage.resolve(tempfile.gettempdir(), None)
        self._written: str | None = None

    @property
    def path(self) -> str:
        """A temporary folder, which is deleted with this object."""
        if self._written is None:
            self._written = tempfile.mkdtemp(prefix="checkpoint-")
            Path(self._written, DICT_FILE).write_bytes(cloudpickle.dumps(self._data))
            weakref.finalize(self, shutil.rmtree, self._written, ignore_errors=True)
        return self._written

    def to_dict(self) -> dict[str, Any]:
        return dict(self._data)

    def set_preprocessor(self, preprocessor: Any) -> None:
        self._data[PREPROCESSOR_KEY] = preprocessor

    def __reduce__(self) -> Any:
        return _loaded, (self._data,)

    def __repr__(self) -> str:
        return f"Checkpoint({sorted(map(str, self._data))})"


class KeepsPreprocessor(UserCallback):
    """Writes the preprocessor of a trainer into each checkpoint.

    Parameters
    ----------
    preprocessor : Preprocessor
        It is fitted.
    """

    def __init__(self, preprocessor: Preprocessor) -> None:
        self._pickled: bytes = cloudpickle.dumps(preprocessor)

    def after_report(
        self,
        run_context: TrainRunContext,
        metrics: list[dict[str, Any]],
        checkpoint: Checkpoint | None,
    ) -> None:
        if checkpoint is not None:
            checkpoint._folder.write(PREPROCESSOR_KEY, self._pickled)


InMemory.__name__ = InMemory.__qualname__ = "Checkpoint"


def _loaded(data: dict[str, Any]) -> InMemory:
    return InMemory(data)


@contextlib.contextmanager
def checkpoint_dir(step: int | None = None) -> Iterator[str]:
    """Give the function of a trial a folder, whose files the next report keeps as a checkpoint.

    Parameters
    ----------
    step : int, optional
        Of no effect: checkpoints are numbered in the order of reports.
    """
    current = session.current("checkpoint_dir")
    folder = tempfile.mkdtemp(prefix="checkpoint-")
    # The report copies the files. An unreported checkpoint goes with the object.
    yield folder
    checkpoint = Checkpoint.from_directory(folder)
    weakref.finalize(checkpoint, shutil.rmtree, folder, ignore_errors=True)
    current.unreported = checkpoint


def make_checkpoint_dir(step: int | None = None) -> str:
    """Return a folder for a checkpoint of a trial, to be passed to `save_checkpoint`."""
    session.current("make_checkpoint_dir")
    return tempfile.mkdtemp(prefix="checkpoint-")


def save_checkpoint(checkpoint: str) -> None:
    """Keep the files of a folder, or of a file's folder, as the checkpoint of the next report."""
    folder = checkpoint if os.path.isdir(checkpoint) else os.path.dirname(checkpoint)
    session.current("save_checkpoint").unreported = Checkpoint.from_directory(folder)
