"""`TensorflowCheckpoint`: a checkpoint that is a model of Keras."""

from __future__ import annotations

import os
import shutil
import tempfile
from typing import TYPE_CHECKING, ClassVar

from raycompat.train._framework_checkpoint import FrameworkCheckpoint

if TYPE_CHECKING:
    import keras

    from raycompat.data.preprocessor import Preprocessor

__all__ = ["TensorflowCheckpoint"]


class TensorflowCheckpoint(FrameworkCheckpoint):
    """A checkpoint that is a model of Keras.

    Parameters as in `raycompat.train.Checkpoint`.

    Examples
    --------
    >>> import keras
    >>> from raycompat.train.tensorflow import TensorflowCheckpoint
    >>> model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    >>> checkpoint = TensorflowCheckpoint.from_model(model)
    >>> checkpoint.get_model().output_shape
    (None, 1)

    From files that a program has written:

    >>> import os, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> model.save(os.path.join(folder, "model.h5"))
    >>> from_file = TensorflowCheckpoint.from_h5(os.path.join(folder, "model.h5"))
    >>> from_file.get_model().output_shape
    (None, 1)
    >>> model.export(os.path.join(folder, "saved"), verbose=False)
    >>> exported = TensorflowCheckpoint.from_saved_model(
    ...     os.path.join(folder, "saved")
    ... )
    >>> "saved_model.pb" in os.listdir(exported.path)
    True

    Notes
    -----
    Ray source: ``ray.train.tensorflow.TensorflowCheckpoint``, 2.60.0, where it is deprecated: a
    `Checkpoint` with the file of the model does as well.
    """

    MODEL_FILENAME_KEY: ClassVar[str] = "_model_filename"

    @classmethod
    def from_model(
        cls, model: keras.Model, *, preprocessor: Preprocessor | None = None
    ) -> TensorflowCheckpoint:
        """Save a model into a new temporary folder.

        Parameters
        ----------
        model : keras.Model
            The model.
        preprocessor : Preprocessor, optional
            Kept with it, for `get_preprocessor`.
        """
        folder = tempfile.mkdtemp(prefix="checkpoint-")
        model.save(os.path.join(folder, "model.keras"))
        return cls._described(folder, "model.keras", preprocessor)

    @classmethod
    def from_h5(
        cls, file_path: str, *, preprocessor: Preprocessor | None = None
    ) -> TensorflowCheckpoint:
        """Copy a model in a file ``.h5`` into a new temporary folder.

        Raises
        ------
        ValueError
            When the file does not exist, or its name does not end with ``.h5``.
        """
        if not os.path.isfile(file_path) or not file_path.endswith(".h5"):
            raise ValueError(f"{file_path!r}: expected a file whose name ends with .h5.")
        folder = tempfile.mkdtemp(prefix="checkpoint-")
        shutil.copy(file_path, folder)
        return cls._described(folder, os.path.basename(file_path), preprocessor)

    @classmethod
    def from_saved_model(
        cls, dir_path: str, *, preprocessor: Preprocessor | None = None
    ) -> TensorflowCheckpoint:
        """Copy a SavedModel into a new temporary folder.

        Raises
        ------
        ValueError
            When the folder does not exist.
        """
        if not os.path.isdir(dir_path):
            raise ValueError(f"{dir_path!r}: expected the folder of a SavedModel.")
        folder = tempfile.mkdtemp(prefix="checkpoint-")
        shutil.copytree(dir_path, folder, dirs_exist_ok=True)
        return cls._described(folder, ".", preprocessor)

    @classmethod
    def _described(
        cls, folder: str, name: str, preprocessor: Preprocessor | None
    ) -> TensorflowCheckpoint:
        checkpoint = cls(folder)
        if preprocessor is not None:
            checkpoint.set_preprocessor(preprocessor)
        checkpoint.update_metadata({cls.MODEL_FILENAME_KEY: name})
        return checkpoint

    def get_model(self) -> keras.Model:
        """Load the model, with the Keras of this process.

        Returns
        -------
        keras.Model
            The model.

        Raises
        ------
        ValueError
            When the metadata does not name its file.
        """
        name = self.get_metadata().get(self.MODEL_FILENAME_KEY)
        if name is None:
            raise ValueError(
                f"The metadata of {self!r} does not name the model's file. Add to metadata with "
                "update_metadata(): set_metadata() replaces all of it."
            )
        import tensorflow as tf

        with self.as_directory() as folder:
            return tf.keras.models.load_model(os.path.join(folder, name))


TensorflowCheckpoint.__module__ = "raycompat.train.tensorflow"
