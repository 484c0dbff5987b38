"""``result.json``, ``progress.csv``, ``params.json`` and ``params.pkl`` in each trial's folder."""

from __future__ import annotations

import csv
import io
import os
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cloudpickle

from raycompat._recordable import as_json_text, as_text, recordable
from raycompat._storage import append_whole, when_there_is_room
from raycompat.tune import result as keys
from raycompat.tune.logger.logger import LocalFolders, LoggerCallback
from raycompat.tune.trainable.nested import flatten_dict

if TYPE_CHECKING:
    from raycompat.tune.experiment.trial import Trial
    from raycompat.tune.trainable.nested import Metrics


class _FileLogger(LoggerCallback):
    """Keeps one file of each running trial open."""

    file_name = ""

    def __init__(self) -> None:
        self._folders = LocalFolders()
        self._files: dict[str, FileIO] = {}

    def _file(self, trial: Trial) -> FileIO:
        file = self._files.get(trial.trial_id)
        if file is None:
            path = Path(self._folders.of(trial), self.file_name)
            cut_torn_line(path)
            file = self._files[trial.trial_id] = path.open("ab", buffering=0)
        return file

    def _write(self, trial: Trial, text: str) -> None:
        file = self._file(trial)
        when_there_is_room(lambda: append_whole(file, text.encode(errors="backslashreplace")))

    def log_trial_end(self, trial: Trial, failed: bool = False) -> None:
        file = self._files.pop(trial.trial_id, None)
        if file is not None:
            file.close()
        self._folders.upload(trial)

    def on_experiment_end(self, trials: list[Trial], **info: object) -> None:
        for trial in trials:
            if trial.trial_id in self._files:
                self.log_trial_end(trial)

    def __getstate__(self) -> dict[str, object]:
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
        shown = as_json_text(trial.config, indent=2).encode()
        pickled = cloudpickle.dumps(trial.config)
        parameters, parameters_pickled = (
            Path(folder, name) for name in (keys.EXPR_PARAM_FILE, keys.EXPR_PARAM_PICKLE_FILE)
        )
        when_there_is_room(lambda: parameters.write_bytes(shown))
        when_there_is_room(lambda: parameters_pickled.write_bytes(pickled))

    def log_trial_result(self, iteration: int, trial: Trial, result: Metrics) -> None:
        self._write(trial, as_json_text(result) + "\n")


class CSVLoggerCallback(_FileLogger):
    """Write each result as a line of ``progress.csv``, whose columns are those of the first result.

    The hyperparameters are not among the columns, as in Ray: ``params.json`` has them.

    Notes
    -----
    Ray source: ``ray.tune.logger.CSVLoggerCallback``, 2.60.0. No known difference.
    """

    file_name = keys.EXPR_PROGRESS_FILE

    def __init__(self) -> None:
        super().__init__()
        self._columns: dict[str, list[str]] = {}

    def log_trial_result(self, iteration: int, trial: Trial, result: Metrics) -> None:
        shown = recordable({k: v for k, v in result.items() if k != "config"})
        flat = {as_text(name): value for name, value in flatten_dict(shown).items()}
        rows: list[Any] = []
        if trial.trial_id not in self._columns:
            header = first_line(str(self._file(trial).name))
            self._columns[trial.trial_id] = header or list(flat)
            if not header:
                rows.append(self._columns[trial.trial_id])
        columns = self._columns[trial.trial_id]
        rows.append([_cell(flat.get(column)) for column in columns])
        text = io.StringIO(newline="")
        csv.writer(text).writerows(rows)
        self._write(trial, text.getvalue())


def _cell(value: object) -> str:
    return "" if value is None else as_text(value)


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
