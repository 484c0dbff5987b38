"""`TorchCheckpoint`: a checkpoint that is a model of PyTorch, or its state."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from raycompat._pytorch import imported
from raycompat.train._framework_checkpoint import FrameworkCheckpoint

if TYPE_CHECKING:
    import torch

    from raycompat.data.preprocessor import Preprocessor

__all__ = ["TorchCheckpoint"]

#: What `DistributedDataParallel` puts before the names of a model's parameters.
_PREFIX = "module."


class TorchCheckpoint(FrameworkCheckpoint):
    """A checkpoint that is a model of PyTorch, or the state of one.

    Parameters as in `raycompat.train.Checkpoint`.

    Examples
    --------
    In a program with PyTorch::

        checkpoint = TorchCheckpoint.from_model(model)
        train.report({"loss": loss.item()}, checkpoint=checkpoint)
        ...
        model = result.checkpoint.get_model()

    Save the state of a model only; the reader makes the model::

        checkpoint = TorchCheckpoint.from_state_dict(model.state_dict())
        ...
        model = result.checkpoint.get_model(torch.nn.Linear(2, 1))

    Notes
    -----
    Ray source: ``ray.train.torch.TorchCheckpoint``, 2.60.0, where it is deprecated: a `Checkpoint` with
    the file of `torch.save` does as well.
    """

    MODEL_FILENAME: ClassVar[str] = "model.pt"

    @classmethod
    def from_state_dict(
        cls, state_dict: Mapping[str, torch.Tensor], *, preprocessor: Preprocessor | None = None
    ) -> TorchCheckpoint:
        """Save a model's state into a new temporary folder.

        Parameters
        ----------
        state_dict : dict of str to torch.Tensor
            From ``model.state_dict()``, also of a model that `prepare_model` has returned.
        preprocessor : Preprocessor, optional
            Kept with it, for `get_preprocessor`.
        """
        bare = {name.removeprefix(_PREFIX): value for name, value in state_dict.items()}
        return cls._saved(bare, preprocessor)

    @classmethod
    def from_model(
        cls, model: torch.nn.Module, *, preprocessor: Preprocessor | None = None
    ) -> TorchCheckpoint:
        """Save a whole model, pickled, into a new temporary folder.

        Parameters
        ----------
        model : torch.nn.Module
            The model. `from_state_dict` does not depend on where its class is defined.
        preprocessor : Preprocessor, optional
            Kept with it, for `get_preprocessor`.
        """
        return cls._saved(model, preprocessor)

    @classmethod
    def _saved(cls, value: object, preprocessor: Preprocessor | None) -> TorchCheckpoint:
        torch = imported("TorchCheckpoint")
        folder = tempfile.mkdtemp(prefix="checkpoint-")
        torch.save(value, os.path.join(folder, cls.MODEL_FILENAME))
        checkpoint = cls(folder)
        if preprocessor is not None:
            checkpoint.set_preprocessor(preprocessor)
        return checkpoint

    def get_model(self, model: torch.nn.Module | None = None) -> torch.nn.Module:
        """Load the model into the memory of the CPU.

        Loading can run code that is in the checkpoint: load only what you trust.

        Parameters
        ----------
        model : torch.nn.Module, optional
            Where the state is loaded into. Not used if the checkpoint has a whole model.

        Returns
        -------
        torch.nn.Module
            The model.

        Raises
        ------
        RuntimeError
            When the checkpoint has no file of a model.
        ValueError
            When it has a state, and `model` is not given.
        """
        torch = imported("TorchCheckpoint")
        with self.as_directory() as folder:
            path = os.path.join(folder, self.MODEL_FILENAME)
            if not os.path.exists(path):
                raise RuntimeError(
                    f"{self!r} has no file {self.MODEL_FILENAME}: expected a checkpoint from "
                    "TorchCheckpoint.from_state_dict or from_model. Load other files with as_directory."
                )
            found = torch.load(path, map_location="cpu", weights_only=False)
        if isinstance(found, torch.nn.Module):
            return found
        if not isinstance(found, Mapping):
            raise ValueError(
                f"{self.MODEL_FILENAME} of {self!r} is a {type(found).__name__}: expected a model or "
                "the state of one. Load it with as_directory and torch.load."
            )
        if model is None:
            raise ValueError(
                f"{self!r} has the state of a model, not the model: call get_model(model) with a model "
                "of the same class."
            )
        model.load_state_dict(found)
        return model


TorchCheckpoint.__module__ = "raycompat.train.torch"
