"""The state of a run in its folder: its checkpoints, and the metrics of each report.

The state is replaced as a whole after each checkpoint, when its files are all there. So it never names
a checkpoint that is not whole. Metrics are lines that are added to a second file.
"""

from __future__ import annotations

import json
import logging
import pickle
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict

import cloudpickle

from raycompat._recordable import as_json_text
from raycompat._storage import Folder
from raycompat.train._checkpoint import Checkpoint
from raycompat.train._checkpoint_registry import CheckpointRegistry, Registered, Retention
from raycompat.train._configs import CheckpointConfig
from raycompat.train._context import StorageContext
from raycompat.train._errors import TrainingFailedError

if TYPE_CHECKING:
    import pyarrow.fs

    from raycompat.train._types import Metrics

_log = logging.getLogger("raycompat.train")

#: The name that Ray has for it.
STATE_FILE = "checkpoint_manager_snapshot.json"
#: A line of JSON for each report: the metrics of rank 0.
METRICS_FILE = "metrics.jsonl"
#: The error of the last try, pickled.
ERROR_FILE = "error.pkl"
_VERSION = 1


class ResultFields(TypedDict):
    """The fields of a `Result` that the state of a run has."""

    metrics: Metrics | None
    checkpoint: Checkpoint | None
    error: Exception | None
    path: str
    metrics_dataframe: NotRequired[list[Metrics] | None]
    best_checkpoints: NotRequired[list[tuple[Checkpoint, Metrics]]]
    _storage_filesystem: NotRequired[pyarrow.fs.FileSystem]


class RunState:
    """The state of a run, in memory and in its folder.

    Attributes
    ----------
    folder : Folder
        The run's folder.
    registry : CheckpointRegistry
        Its checkpoints.
    num_reports : int
        How many reports there have been, over all tries.
    rows : list of dict
        The metrics of each report of rank 0.
    """

    def __init__(self, folder: Folder, config: Retention) -> None:
        self.folder = folder
        self.registry = CheckpointRegistry(config)
        self.num_reports = 0
        self.rows: list[Metrics] = []

    @classmethod
    def load(cls, folder: Folder, config: Retention | None = None) -> RunState:
        """Read the state of a run that was there before.

        Raises
        ------
        RuntimeError
            When the folder has no state, or a damaged one, or lacks a checkpoint.
        """
        try:
            saved = folder.read_state(STATE_FILE)
        except ValueError as error:
            raise RuntimeError(
                f"{error} Use another name for the run, or delete its folder."
            ) from error
        if saved is None:
            raise RuntimeError(
                f"{folder.uri} has no {STATE_FILE}: no run of Train has made this folder."
            )
        state = cls(folder, config or CheckpointConfig())
        state._fill(saved)
        return state

    def _fill(self, saved: Any) -> None:
        try:
            if saved["version"] != _VERSION:
                raise KeyError(f"version {saved['version']}")
            entries = [self._entry(item) for item in saved["checkpoints"]]
        except (KeyError, TypeError) as error:
            raise RuntimeError(
                f"{self.folder.at(STATE_FILE)} was not written by this version of raycompat: {error}. "
                "Use another name for the run, or delete its folder."
            ) from error
        self.rows = _read_rows(self.folder)
        self.num_reports = max([len(self.rows), *(entry.index + 1 for entry in entries)])
        self.registry.ranked = entries
        self.registry.latest = max(entries, key=lambda entry: entry.index, default=None)

    def _entry(self, item: dict[str, Any]) -> Registered:
        name = item["name"]
        if not (self.folder.exists(name) if "/" in name else self.folder.is_whole(name)):
            raise RuntimeError(
                f"The state names the checkpoint {name!r}, which is not in {self.folder.uri}. Put "
                "it back, use another name for the run, or delete its folder."
            )
        return Registered(self.checkpoint(name), item["metrics"], item["index"], item["status"])

    def begin(self) -> None:
        """Make the run's folder ready: without unfinished files, and without an earlier error."""
        self.folder.create().delete_partial()
        self.folder.delete(ERROR_FILE)

    def keep_error(self, error: TrainingFailedError) -> None:
        """Write the error, for `Result.from_path`."""
        try:
            content = cloudpickle.dumps(error)
            pickle.loads(content)
        except Exception:  # the user's error cannot travel: its text can
            content = cloudpickle.dumps(TrainingFailedError(str(error)))
        try:
            self.folder.write(ERROR_FILE, content)
        except OSError as failure:
            _log.error("The error of the run could not be written: %s", failure)

    def checkpoint_name(self) -> str:
        """Return the name of the next checkpoint's folder."""
        return StorageContext.make_default_checkpoint_dir_name()

    def checkpoint(self, name: str) -> Checkpoint:
        """Return the checkpoint of that name in the run's folder, or elsewhere by its path."""
        return Checkpoint(self.folder.at(name), self.folder.filesystem)

    def save(self) -> None:
        """Write the state. Its checkpoints must be whole by now."""
        entries = [
            {
                "name": entry.checkpoint.path.removeprefix(f"{self.folder.path}/"),
                "metrics": entry.metrics,
                "index": entry.index,
                "status": entry.status,
            }
            for entry in self.registry.ranked
        ]
        self.folder.write_state(STATE_FILE, {"version": _VERSION, "checkpoints": entries})

    def add_report(self, metrics: Metrics, checkpoint: Checkpoint | None) -> Registered | None:
        """Record the metrics of rank 0 and the saved files; delete checkpoints that are not kept.

        Returns
        -------
        Registered or None
            The checkpoint.
        """
        index = self.num_reports
        self.num_reports += 1
        self.rows.append(metrics)
        self.folder.append_line(METRICS_FILE, as_json_text(metrics))
        if checkpoint is None:
            return None
        entry = Registered(checkpoint, metrics, index)
        self.keep(self.registry.register(entry, self.pending))
        return entry

    def keep(self, doomed: list[Registered]) -> None:
        """Write the state without the checkpoints to delete, and then delete them."""
        self.save()
        for entry in doomed:
            entry.checkpoint._folder.delete()

    def kept(self) -> list[Registered]:
        """Return the checkpoints that exist, worst first."""
        return self.registry.ranked

    @property
    def pending(self) -> tuple[Registered, ...]:
        """The checkpoints that are being validated."""
        return tuple(
            entry for entry in self.registry.ranked if entry.status == "PENDING_VALIDATION"
        )

    def result_fields(self) -> ResultFields:
        """Return the fields of the result of `fit`; the error is the one in the folder."""
        has_error = self.folder.exists(ERROR_FILE)
        error = pickle.loads(self.folder.read(ERROR_FILE)) if has_error else None
        latest = self.registry.latest
        best = [(entry.checkpoint, entry.metrics) for entry in self.registry.best]
        rows = [metrics for _, metrics in best] or self.rows
        metrics = self.rows[-1] if self.rows else None
        return ResultFields(
            metrics=latest.metrics if latest else metrics,
            checkpoint=latest.checkpoint if latest else None,
            error=error,
            path=self.folder.path,
            metrics_dataframe=rows or None,
            best_checkpoints=best,
            _storage_filesystem=None if self.folder.is_local else self.folder.filesystem,
        )


def _read_rows(folder: Folder) -> list[Metrics]:
    """Return the metrics of earlier reports; an incomplete line of a killed process is skipped."""
    if not folder.exists(METRICS_FILE):
        return []
    *lines, _ = folder.read(METRICS_FILE).split(b"\n")
    return [json.loads(line) for line in lines if line.endswith(b"}")]
