"""What the trainers of XGBoost and LightGBM have in common."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar, cast

from raycompat._surface import forms
from raycompat._upper import upper
from raycompat.train import _functions
from raycompat.train._framework_checkpoint import FrameworkCheckpoint
from raycompat.train._round_reports import RoundReports, report_by

if TYPE_CHECKING:
    from raycompat.data.preprocessor import Preprocessor
    from raycompat.train._types import Metrics

_F = TypeVar("_F", bound=Callable[..., None])


class ReportsToTrain(RoundReports):
    """Reports from each worker of a trainer, or from a trial; rank 0 has the checkpoint."""

    def _send(self, metrics: Metrics, write: Callable[[str], object] | None) -> None:
        writes = _functions.get_context().get_world_rank() in (0, None)
        report_by(_functions.report, metrics, write if writes else None)


class ModelCheckpoint(FrameworkCheckpoint):
    """A checkpoint that is a model of boosted trees."""

    MODEL_FILENAME: ClassVar[str]

    @classmethod
    def from_model(
        cls, booster: Any, *, preprocessor: Preprocessor | None = None, path: str | None = None
    ) -> Self:
        """Save a model.

        Parameters
        ----------
        booster : Booster
            The library's model.
        preprocessor : Preprocessor, optional
            Kept with it, for `get_preprocessor`.
        path : str, optional
            The folder, which must exist. By default a new temporary folder.

        Raises
        ------
        ValueError
            When `path` is not a folder.
        """
        folder = Path(path or tempfile.mkdtemp(prefix="checkpoint-"))
        if not folder.is_dir():
            raise ValueError(f"path={path!r}: expected an existing folder.")
        booster.save_model(str(folder / cls.MODEL_FILENAME))
        checkpoint = cls(str(folder))
        if preprocessor is not None:
            checkpoint.set_preprocessor(preprocessor)
        return checkpoint

    def get_model(self) -> Any:
        """Return the library's model."""
        with self.as_directory() as folder:
            return self._load(str(Path(folder) / self.MODEL_FILENAME))

    @staticmethod
    def _load(path: str) -> Any:
        """Return the library's model from its file."""
        raise NotImplementedError


def takes_parameters(of: str) -> Callable[[_F], _F]:
    """Make a trainer take parameters of its library in place of a function, as Ray did until 2.48.

    Parameters
    ----------
    of : str
        The trainer's dotted name in Ray.
    """

    def decorate(init: _F) -> _F:
        @functools.wraps(init)
        def with_parameters(self: object, *args: object, **kwargs: object) -> None:
            if not args and "train_loop_per_worker" not in kwargs and "params" in kwargs:
                forms.used(f"{of} without a function", refusal=DeprecationWarning)
                kwargs = upper("_old.train.boosting").with_function(of, init, kwargs)
            init(self, *args, **kwargs)

        return cast("_F", with_parameters)

    return decorate


def refuse_parameters(of: str, **given: object) -> None:
    """Raise an error for parameters of the library beside a function."""
    named = sorted(name for name, value in given.items() if value is not None)
    if named:
        raise DeprecationWarning(
            f"{of}({', '.join(f'{name}=' for name in named)}): a training function was given too. Pass "
            "these in train_loop_config, or leave the function out."
        )
