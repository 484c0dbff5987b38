"""Callbacks of 1.9 to 1.13: they get the results of all workers at each report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from raycompat._recordable import as_json_text


class TrainingCallback:
    """Inherit from this to handle the results of a `Trainer` of the time."""

    def process_results(self, results: list[dict[str, Any]], **info: Any) -> None:
        """Handle results; `handle_result` is what subclasses write."""
        self.handle_result(results, **info)

    def handle_result(self, results: list[dict[str, Any]], **info: Any) -> None:
        """Handle the results of a report, one for each worker."""

    def start_training(self, logdir: str, config: dict[str, Any], **info: Any) -> None:
        """Prepare for a run."""

    def finish_training(self, error: bool = False, **info: Any) -> None:
        """Handle the end of a run."""


def _chosen(results: list[dict[str, Any]], workers: int | list[int] | None) -> list[dict[str, Any]]:
    """Return the results of the workers that are logged; None is all."""
    if workers is None:
        return results
    ranks = [workers] if isinstance(workers, int) else workers
    return [results[rank] for rank in ranks]


class PrintCallback(TrainingCallback):
    """Prints the results of each report as JSON."""

    def handle_result(self, results: list[dict[str, Any]], **info: Any) -> None:
        """Print the results."""
        print(as_json_text(results))


class _InFolder(TrainingCallback):
    """Writes into a folder: its own, or else the run's.

    Parameters
    ----------
    logdir : str, optional
        The folder.
    """

    def __init__(self, logdir: str | None = None) -> None:
        self._given = logdir
        self._logdir: Path | None = None

    def start_training(self, logdir: str, config: dict[str, Any], **info: Any) -> None:
        """Make the folder."""
        self._logdir = Path(self._given or logdir)
        self._logdir.mkdir(parents=True, exist_ok=True)

    @property
    def logdir(self) -> Path:
        """The folder; known from the start of the run."""
        if self._logdir is None:
            raise RuntimeError(f"{type(self).__name__}.logdir is known when the run has started.")
        return self._logdir


class JsonLoggerCallback(_InFolder):
    """Writes a list of the results into a file.

    Parameters
    ----------
    logdir : str, optional
        The folder. By default the run's.
    filename : str, default "results.json"
        The file.
    workers_to_log : int or list of int, default 0
        Ranks whose results are written; None for all.
    """

    def __init__(
        self,
        logdir: str | None = None,
        filename: str | None = None,
        workers_to_log: int | list[int] | None = 0,
    ) -> None:
        super().__init__(logdir)
        self._filename = filename or "results.json"
        self._workers = workers_to_log
        self._written: list[Any] = []

    def start_training(self, logdir: str, config: dict[str, Any], **info: Any) -> None:
        """Begin the file with an empty list."""
        super().start_training(logdir, config, **info)
        self._written = []
        self.log_path.write_text("[]")

    def handle_result(self, results: list[dict[str, Any]], **info: Any) -> None:
        """Write the file with the new results at its end."""
        self._written.append(_chosen(results, self._workers))
        self.log_path.write_text(as_json_text(self._written))

    @property
    def log_path(self) -> Path:
        """The file."""
        return self.logdir / self._filename


class TBXLoggerCallback(_InFolder):
    """Writes the numbers of a worker's results as events for TensorBoard.

    Parameters
    ----------
    logdir : str, optional
        The folder. By default the run's.
    worker_to_log : int, default 0
        The rank.
    """

    def __init__(self, logdir: str | None = None, worker_to_log: int = 0) -> None:
        super().__init__(logdir)
        self._worker = worker_to_log

    def start_training(self, logdir: str, config: dict[str, Any], **info: Any) -> None:
        """Begin the file of events."""
        from raycompat._old_forms.packages import require

        super().start_training(logdir, config, **info)
        self._writer = require("tensorboardX", "TBXLoggerCallback").SummaryWriter(str(self.logdir))
        self._count = 0

    def handle_result(self, results: list[dict[str, Any]], **info: Any) -> None:
        """Write the numbers of the results."""
        self._count += 1
        for name, value in results[self._worker].items():
            if isinstance(value, int | float) and not name.startswith("_"):
                self._writer.add_scalar(name, value, self._count)

    def finish_training(self, error: bool = False, **info: Any) -> None:
        """End the file."""
        self._writer.close()


class MLflowLoggerCallback(_InFolder):
    """Logs the numbers of a worker's results to MLflow.

    Parameters
    ----------
    tracking_uri, experiment_name, tags : optional
        As in MLflow.
    worker_to_log : int, default 0
        The rank.
    """

    def __init__(
        self,
        tracking_uri: str | None = None,
        registry_uri: str | None = None,
        experiment_id: str | None = None,
        experiment_name: str | None = None,
        tags: dict[str, Any] | None = None,
        save_artifact: bool = False,
        logdir: str | None = None,
        worker_to_log: int = 0,
    ) -> None:
        from raycompat._old_forms.packages import require

        super().__init__(logdir)
        self._mlflow = require("mlflow", "MLflowLoggerCallback")
        self._settings = (tracking_uri, registry_uri, experiment_id, experiment_name)
        self._tags, self._saves, self._worker = tags, save_artifact, worker_to_log

    def start_training(self, logdir: str, config: dict[str, Any], **info: Any) -> None:
        """Start a run of MLflow."""
        super().start_training(logdir, config, **info)
        uri, registry, experiment, name = self._settings
        self._mlflow.set_tracking_uri(uri or str(self.logdir / "mlruns"))
        if registry:
            self._mlflow.set_registry_uri(registry)
        self._mlflow.set_experiment(experiment_id=experiment, experiment_name=name or "default")
        self._mlflow.start_run(tags=self._tags)
        self._mlflow.log_params(config or {})
        self._count = 0

    def handle_result(self, results: list[dict[str, Any]], **info: Any) -> None:
        """Log the numbers of the results."""
        self._count += 1
        found = results[self._worker].items()
        numbers = {name: value for name, value in found if isinstance(value, int | float)}
        self._mlflow.log_metrics(numbers, step=self._count)

    def finish_training(self, error: bool = False, **info: Any) -> None:
        """End the run of MLflow."""
        if self._saves:
            self._mlflow.log_artifacts(str(self.logdir))
        self._mlflow.end_run("FAILED" if error else "FINISHED")
