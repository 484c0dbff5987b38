"""The experiment's state in its folder, from which it can continue after its driver was killed.

Two files. ``experiment_state.jsonl`` is a journal: a line for each trial that was made, and one
for each change of it. A line is written before the change counts, so a kill at any moment loses no
finished trial; a last line without an end is left out. ``experiment_state.pkl`` holds the
searcher, the stoppers and the callbacks; it is replaced as a whole, so often that it takes at most
a twentieth of the time. Schedulers begin again with the trials that are left, as in Ray. Trials
that the journal has and the searcher's state does not know are counted on restoring.
"""

from __future__ import annotations

import base64
import json
import logging
import pickle
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import cloudpickle

from raycompat._storage import Folder, append_whole, is_full, when_there_is_room
from raycompat.tune.error import NoExperimentError

if TYPE_CHECKING:
    from raycompat.tune.experiment.trial import Trial

logger = logging.getLogger(__name__)

JOURNAL = "experiment_state.jsonl"
SNAPSHOT = "experiment_state.pkl"
TUNER = "tuner.pkl"

#: How much of the time snapshots take at most is one over this.
SNAPSHOT_SHARE = 20


class ExperimentState:
    """Writes the state of an experiment during the run.

    Parameters
    ----------
    folder : Folder
        The experiment's folder.
    """

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._file: Any = None
        self._next_snapshot = 0.0

    def begin(self, trials: list[Trial]) -> None:
        """Write a journal of all trials, which replaces the old one."""
        self._folder.create()
        lines = [_line(trial.trial_id, self.describe(trial)) for trial in trials]
        self._folder.write(JOURNAL, "".join(line + "\n" for line in lines).encode())

    def describe(self, trial: Trial) -> dict[str, object]:
        """Return the data from which a trial is created again."""
        kept = trial.__dict__.copy()
        for name in ("experiment_folder", "is_saving"):
            kept.pop(name, None)
        kept["_recent"] = dict(kept["_recent"])
        return {"trial": kept}

    def add(self, trial: Trial) -> None:
        """Write down a new trial."""
        self._append(_line(trial.trial_id, self.describe(trial)))

    def change(self, trial: Trial) -> None:
        """Write the changes of a trial: its status, result, checkpoints and config."""
        names = (
            "status",
            "last_result",
            "num_results",
            "metric_analysis",
            "checkpoints",
            "num_failures",
            "error",
            "config",
            "experiment_tag",
            "_continue_from",
            "_next_checkpoint",
        )
        self._append(
            _line(trial.trial_id, {"changes": {name: getattr(trial, name) for name in names}})
        )

    def _append(self, line: str) -> None:
        if not self._folder.is_local:
            self._folder.append_line(JOURNAL, line)
            return
        if self._file is None:
            self._file = open(self._folder.at(JOURNAL), "ab", buffering=0)  # noqa: SIM115
        when_there_is_room(lambda: append_whole(self._file, line.encode() + b"\n"))

    def snapshot(self, make: Callable[[], dict[str, object]], force: bool = False) -> None:
        """Replace the snapshot when it is due."""
        begin = time.monotonic()
        if not force and begin < self._next_snapshot:
            return
        try:
            self._folder.write(SNAPSHOT, cloudpickle.dumps(make()))
        except OSError as error:
            if not is_full(error):
                raise
            # The old snapshot is kept; the journal has the changes since then.
            logger.warning("The experiment's state is not up to date: %s", error)
        end = time.monotonic()
        self._next_snapshot = end + SNAPSHOT_SHARE * (end - begin)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def _line(trial_id: str, content: dict[str, Any]) -> str:
    pickled = base64.b64encode(cloudpickle.dumps(content)).decode()
    kind, fields = next(iter(content.items()))
    return json.dumps({"trial_id": trial_id, kind: fields.get("status"), "state": pickled})


def load_trials(folder: Folder) -> list[Trial]:
    """Return the trials of a journal, each as its last line has it.

    Raises
    ------
    NoExperimentError
        When the folder has no journal.
    """
    from raycompat.tune.experiment.trial import Trial

    if not folder.exists(JOURNAL):
        raise NoExperimentError(
            f"{folder.path} is not the folder of an experiment: expected the file {JOURNAL} in it. "
            "Pass the path that ResultGrid.experiment_path has."
        )
    states: dict[str, dict[str, object]] = {}
    for raw in folder.read(JOURNAL).split(b"\n")[:-1]:
        line = json.loads(raw)
        content = pickle.loads(base64.b64decode(line["state"]))
        if "trial" in content:
            states[line["trial_id"]] = content["trial"]
        else:
            states[line["trial_id"]].update(content["changes"])
    trials = []
    for state in states.values():
        trial = Trial.__new__(Trial)
        trial.__dict__.update(state)
        trial.revive(folder)
        trials.append(trial)
    return trials


def load_snapshot(folder: Folder) -> dict[str, Any]:
    """Return the last snapshot; empty when there is none."""
    if not folder.exists(SNAPSHOT):
        return {}
    found: dict[str, object] = pickle.loads(folder.read(SNAPSHOT))
    return found
