"""The process of a trial: `TrialActor` holds the trainable, and runs the runner's requests."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from raycompat._surface import forms
from raycompat.tune.trainable.place import TrialPlace
from raycompat.tune.trainable.trainable import Trainable, TrainingResult

if TYPE_CHECKING:
    from raycompat.tune.trainable.nested import Config, Metrics


class TrialActor:
    """Holds one trainable after the other, in its own process.

    Notes
    -----
    Made without arguments, so that an error of the trainable's ``setup`` arrives as the user's own
    error, not as that of a dead actor.
    """

    def __init__(self) -> None:
        self._trainable: Any = None
        self._output: contextlib.ExitStack | None = None

    def begin(
        self,
        trainable_cls: type[Trainable],
        config: Config,
        place: TrialPlace,
        checkpoint: TrainingResult | None,
    ) -> int:
        """Set the trainable up, from the checkpoint where there is one; return the process's id."""
        self._enter(place)
        if self._trainable is not None:
            raise RuntimeError("The actor has a trainable already; reset it.")
        self._trainable = _construct(trainable_cls, config, place)
        if checkpoint is not None:
            self._restore(place, checkpoint)
        return os.getpid()

    def become(self, config: Config, place: TrialPlace, checkpoint: TrainingResult | None) -> bool:
        """Be another trial; False when the trainable cannot be reset."""
        self._enter(place)
        if not self._trainable.reset(config, storage=place):
            return False
        if checkpoint is not None:
            self._restore(place, checkpoint)
        return True

    def _restore(self, place: TrialPlace, checkpoint: TrainingResult) -> None:
        from raycompat.tune.trainable.function_trainable import FunctionTrainable

        # A trial gets other resources by a restart.
        if place.has_new_resources and hasattr(self._trainable, "update_resources"):
            forms.used("ray.tune.Trainable.update_resources")
            self._trainable.update_resources(self._trainable.trial_resources)
        is_function = isinstance(self._trainable, FunctionTrainable)
        self._trainable.restore(checkpoint if is_function else checkpoint.checkpoint)

    def _enter(self, place: TrialPlace) -> None:
        """Go to the trial's folder, and print into its files where that was asked for."""
        if place.works_in_folder and os.environ.get("RAY_CHDIR_TO_TRIAL_DIR", "1") != "0":
            os.chdir(place.logdir)
        if self._output is not None:
            self._output.close()
        self._output = contextlib.ExitStack()
        for name, redirect in zip(
            place.log_to_file,
            (contextlib.redirect_stdout, contextlib.redirect_stderr),
            strict=True,
        ):
            if name is not None:
                path = Path(place.logdir, name)
                file = self._output.enter_context(path.open("a", buffering=1))
                self._output.enter_context(redirect(file))

    def train(self) -> tuple[Metrics, TrainingResult | None]:
        """Return the next result, and the checkpoint that came with it."""
        from raycompat.tune.trainable.function_trainable import FunctionTrainable

        result = self._trainable.train()
        trainable = self._trainable
        if isinstance(trainable, FunctionTrainable) and trainable.has_new_checkpoint():
            return result, trainable.save()
        return result, None

    def save(self) -> TrainingResult:
        """Return a new checkpoint; of a function, the one that it reported last."""
        made = self._trainable.save()
        if isinstance(made, TrainingResult):
            return made
        from raycompat.train import Checkpoint

        return TrainingResult(Checkpoint.from_directory(str(made)), {})

    def export(self, formats: str | Sequence[str]) -> None:
        """Let the trainable write its model; classes that are not of Tune have none."""
        if isinstance(self._trainable, Trainable):
            self._trainable.export_model(formats)

    def stop(self) -> None:
        """End the trainable: its ``cleanup`` runs, or the ``finally`` of its function."""
        trainable, self._trainable = self._trainable, None
        if trainable is not None:
            trainable.stop()
        sys.stdout.flush()
        if self._output is not None:
            self._output.close()
            self._output = None


def _construct(cls: Any, config: Config, place: TrialPlace) -> Any:
    """Make the trainable; classes that are not of Tune take only a config."""
    if issubclass(cls, Trainable):
        return cls(config, storage=place)
    return cls(config=config)
