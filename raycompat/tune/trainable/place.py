"""The node of a trial, and the place of its files, for the trial's process."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from raycompat._storage import Folder

if TYPE_CHECKING:
    from raycompat.train import Checkpoint
    from raycompat.tune.execution.placement_groups import PlacementGroupFactory


@dataclass
class TrialPlace:
    """The driver's description of a trial for the trial's process.

    Parameters
    ----------
    trial_id, trial_name, experiment_name : str
    folder : Folder
        The trial's folder in the storage.
    resources : PlacementGroupFactory
        The resources of the trial.
    next_checkpoint : int
        The number of the next checkpoint's folder.
    works_in_folder : bool
        Whether the trial's process goes to the folder.
    has_new_resources : bool
        Whether its resources were changed after it had begun.
    """

    trial_id: str
    trial_name: str
    experiment_name: str
    folder: Folder
    resources: PlacementGroupFactory
    next_checkpoint: int = 0
    log_to_file: tuple[str | None, str | None] = (None, None)
    works_in_folder: bool = True
    has_new_resources: bool = False
    _logdir: str | None = field(default=None, repr=False)

    @property
    def logdir(self) -> str:
        """The trial's local folder; a temporary one when the storage is remote."""
        if self._logdir is None:
            if self.folder.is_local:
                os.makedirs(self.folder.path, exist_ok=True)
                self._logdir = self.folder.path
            else:
                self._logdir = tempfile.mkdtemp(prefix=f"{self.trial_id}-")
        return self._logdir

    @property
    def node_ip(self) -> str:
        from raycompat.util import get_node_ip_address

        return str(get_node_ip_address())

    def keep_checkpoint(self, checkpoint: Checkpoint) -> Checkpoint:
        """Copy a checkpoint into the trial's folder, as a whole, and return the copy."""
        from raycompat.train import Checkpoint

        name = f"checkpoint_{self.next_checkpoint:06d}"
        with checkpoint.as_directory() as source:
            kept = self.folder.upload(source, name)
        self.next_checkpoint += 1
        return Checkpoint(kept.path, kept.filesystem)
