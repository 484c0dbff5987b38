"""A run of Train that is a trial of Tune, which keeps the results and places the workers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from raycompat._storage import Folder
from raycompat.train._checkpoint import Checkpoint
from raycompat.train._checkpoint_registry import Registered
from raycompat.train._configs import CheckpointConfig
from raycompat.train._errors import TrainingFailedError
from raycompat.train._run_state import ResultFields, RunState
from raycompat.util.placement_group import PlacementGroup

if TYPE_CHECKING:
    from raycompat.train._types import Metrics


@dataclass(frozen=True)
class InTrial:
    """What a trial gives to the run in it.

    Parameters
    ----------
    group : PlacementGroup
        The trial's bundles, one for each worker.
    checkpoint_names : iterator of str
        The names of the next checkpoints' folders in the trial's folder.
    """

    group: PlacementGroup
    checkpoint_names: Iterator[str]


class TrialRunState(RunState):
    """The state of a run in a trial, in memory only: the experiment's journal has it.

    Parameters
    ----------
    folder : Folder
        The trial's folder, in which the checkpoints are.
    trial : InTrial
        Names the checkpoints.
    """

    def __init__(self, folder: Folder, trial: InTrial) -> None:
        super().__init__(folder, CheckpointConfig())
        self._trial = trial

    def checkpoint_name(self) -> str:
        return next(self._trial.checkpoint_names)

    def begin(self) -> None:
        self.folder.create().delete_partial()

    def add_report(self, metrics: Metrics, checkpoint: Checkpoint | None) -> Registered | None:
        index = self.num_reports
        self.num_reports += 1
        if checkpoint is None:
            return None
        entry = Registered(checkpoint, metrics, index)
        self.registry.register(entry)
        return entry

    def kept(self) -> list[Registered]:
        """Return the checkpoints that Tune has not deleted."""
        return [entry for entry in self.registry.ranked if entry.checkpoint._folder.exists()]

    def keep_error(self, error: TrainingFailedError) -> None:
        """Do nothing: the trial's files have the error."""

    def result_fields(self) -> ResultFields:
        """Return the last checkpoint only: the metrics are in the trial's result."""
        latest = self.registry.latest
        return ResultFields(
            metrics=latest.metrics if latest else None,
            checkpoint=latest.checkpoint if latest else None,
            error=None,
            path=self.folder.path,
        )
