"""``result.json``, ``progress.csv``, ``params.json`` and ``params.pkl`` in each trial's folder."""

from __future__ import annotations

import csv
import json
import os
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import cloudpickle

from raycompat.tune import result as keys
from raycompat.tune.logger.logger import LocalFolders, LoggerCallback
from raycompat.tune.trainable.nested import flatten_dict
from raycompat.tune.trainable.trainable import as_json_line

if TYPE_CHECKING:
    from raycompat.tune.experiment.trial import Trial


class _FileLogger(LoggerCallback):
    """Keeps one file of each running trial open."""

    file_name = ""

    def __init__(self) -> None:
        self._folders = LocalFolders()
        self._files: dict[str, IO[str]] = {}

    def _file(self, trial: Trial) -> IO[str]:
        file = self._files.get(trial.trial_id)
        if file is None:
            path = Path(self._folders.of(trial), self.file_name)
            cut_torn_line(path)
            file = self._files[trial.trial_id] = path.open("a", buffering=1, newline="")
        return file

    def log_trial_end(self, trial: Trial, failed: bool = False) -> None:
        file = self._files.pop(trial.trial_id, None)
        if file is not None:
            file.close()
        self._folders.upload(trial)

    def on_experiment_end(self, trials: list[Trial], **info: Any) -> None:
        for trial in trials:
            if trial.trial_id in self._files:
                self.log_trial_end(trial)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_files": {}}


class JsonLoggerCallback(_FileLogger):
    """Write each result as a line of ``result.json``, and the config as ``params.json``.

    Notes
    -----
    Ray source: ``ray.tune.logger.JsonLoggerCallback``, 2.60.0. No known difference.
    """

    file_name = keys.EXPR_RESULT_FILE

    def log_trial_start(self, trial: Trial) -> None:
        self._file(trial)
        folder = self._folders.of(trial)
        Path(folder, keys.EXPR_PARAM_FILE).write_text(
            json.dumps(json.loads(as_json_line(trial.config)), indent=2)
        )
        Path(folder, keys.EXPR_PARAM_PICKLE_FILE).write_bytes(cloudpickle.dumps(trial.config))

    def log_trial_result(self, iteration: int, trial: Trial, result: dict[str, Any]) -> None:
        self._file(trial).write(as_json_line(result) + "\n")


class CSVLoggerCallback(_FileLogger):
    """Write each result as a line of ``progress.csv``, whose columns are those of the first result.

    Notes
    -----
    Ray source: ``ray.tune.logger.CSVLoggerCallback``, 2.60.0. No known difference.
    """

    file_name = keys.EXPR_PROGRESS_FILE

    def __init__(self) -> None:
        super().__init__()
        self._columns: dict[str, list[str]] = {}

    def log_trial_result(self, iteration: int, trial: Trial, result: dict[str, Any]) -> None:
        flat = flatten_dict({k: v for k, v in result.items() if k != "config"})
        flat |= {f"config/{k}": v for k, v in flatten_dict(result.get("config", {})).items()}
        file = self._file(trial)
        if trial.trial_id not in self._columns:
            header = first_line(file.name)
            self._columns[trial.trial_id] = header or list(flat)
            if not header:
                csv.writer(file).writerow(flat)
        columns = self._columns[trial.trial_id]
        csv.writer(file).writerow([flat.get(column, "") for column in columns])


def first_line(path: str) -> list[str]:
    """Return the columns that a CSV file has; none when it is empty."""
    with open(path, newline="") as file:
        return next(csv.reader(file), [])


def cut_torn_line(path: Path) -> None:
    """Cut off a last line without an end: its writer was killed."""
    if not path.exists():
        return
    content = path.read_bytes()
    if content and not content.endswith(b"\n"):
        os.truncate(path, content.rfind(b"\n") + 1)
