"""`Analysis` of 0.8 to 2.0, and the methods that `ExperimentAnalysis` had in those versions."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from raycompat._surface import era, forms
from raycompat._upper import upper


class OldForms:
    """What `ExperimentAnalysis` could do in older Rays, beside what it does today."""

    trials: list[Any]
    default_metric: str | None

    def get_best_trial(self, metric: str | None = None, mode: str | None = None) -> Any:
        """See `ExperimentAnalysis`."""
        raise NotImplementedError

    def _noted(self, name: str) -> None:
        forms.used(f"ray.tune.ExperimentAnalysis.{name}", refusal=AttributeError)

    def get_best_logdir(
        self, metric: str | None = None, mode: str | None = None, scope: str = "last"
    ) -> str | None:
        """Return the folder of the best trial; None when there is none."""
        self._noted("get_best_logdir")
        best = self.get_best_trial(metric, mode, scope)  # type: ignore[call-arg]
        return None if best is None else best.path

    @property
    def best_logdir(self) -> str:
        """The folder of the best trial."""
        self._noted("best_logdir")
        return str(self.get_best_trial().path)

    def fetch_trial_dataframes(self) -> dict[str, Any]:
        """Return all results of each trial, by its folder."""
        self._noted("fetch_trial_dataframes")
        return {trial.path: self.dataframe_of(trial) for trial in self.trials}

    def dataframe_of(self, trial: Any) -> Any:
        """See `ExperimentAnalysis`."""
        raise NotImplementedError

    def get_trial_checkpoints_paths(
        self, trial: Any, metric: str | None = None
    ) -> list[tuple[str, Any]]:
        """Return the folder of each checkpoint of a trial, with its value of a metric."""
        self._noted("get_trial_checkpoints_paths")
        metric = metric or self.default_metric or "training_iteration"
        return [
            (entry.checkpoint.path, entry.metrics.get(metric)) for entry in trial.checkpoints.ranked
        ]

    def stats(self) -> dict[str, Any]:
        """Return how many trials there are, and how they ended."""
        self._noted("stats")
        ends = [trial.status for trial in self.trials]
        return {"num_trials": len(ends), **{status: ends.count(status) for status in set(ends)}}

    def runner_data(self) -> dict[str, Any]:
        """Return the same as `stats`."""
        return self.stats()


def as_of_the_time(checkpoint: Any) -> Any:
    """Return a checkpoint as a path where the chosen version of Ray had paths."""
    is_path = era.is_within("1.13") and checkpoint is not None
    return checkpoint.path if is_path else checkpoint


class Analysis:
    """The results in a folder of trials, from the files that each trial has written.

    Parameters
    ----------
    experiment_dir : str
        The folder; those of trials are below it.
    default_metric, default_mode : str, optional
        For the methods that are given none.

    Raises
    ------
    ValueError
        When it is not a folder.
    """

    def __init__(
        self,
        experiment_dir: str,
        default_metric: str | None = None,
        default_mode: str | None = None,
        file_type: str | None = None,
    ) -> None:
        root = Path(os.path.expanduser(experiment_dir))
        if not root.is_dir():
            raise ValueError(f"{experiment_dir!r} is not a folder: expected that of an experiment.")
        self._folders = sorted(path.parent for path in root.rglob("params.json"))
        self.default_metric, self.default_mode = default_metric, default_mode

    @property
    def trial_dataframes(self) -> dict[str, Any]:
        """All results of each trial, by its folder."""
        import pandas

        flatten, found = upper("tune.trainable.nested").flatten_dict, {}
        for folder in self._folders:
            lines = (folder / "result.json").read_text().splitlines()
            rows = [flatten(json.loads(line)) for line in lines]
            found[str(folder)] = pandas.DataFrame.from_records(rows)
        return found

    def fetch_trial_dataframes(self) -> dict[str, Any]:
        """Return the same as `trial_dataframes`."""
        return self.trial_dataframes

    def get_all_configs(self, prefix: bool = False) -> dict[str, dict[str, Any]]:
        """Return the config of each trial, by its folder."""
        found = {}
        for folder in self._folders:
            config = json.loads((folder / "params.json").read_text())
            found[str(folder)] = {f"config/{k}": v for k, v in config.items()} if prefix else config
        return found

    def _scored(self, metric: str | None, mode: str | None) -> tuple[str, str]:
        metric, mode = metric or self.default_metric, mode or self.default_mode or "max"
        if metric is None:
            raise ValueError("metric=None: pass it here, or to Analysis.")
        return metric, mode

    def dataframe(self, metric: str | None = None, mode: str | None = None) -> Any:
        """Return one result of each trial with its config: the last, or the best of a metric."""
        import pandas

        rows = []
        configs = self.get_all_configs(prefix=True)
        for folder, table in self.trial_dataframes.items():
            if table.empty:
                continue
            row = table.iloc[-1]
            if metric or self.default_metric:
                name, order = self._scored(metric, mode)
                row = table.loc[table[name].idxmax() if order == "max" else table[name].idxmin()]
            rows.append({**row.to_dict(), **configs[folder], "logdir": folder})
        return pandas.DataFrame.from_records(rows)

    def get_best_logdir(self, metric: str | None = None, mode: str | None = None) -> str:
        """Return the folder of the trial with the best value of a metric."""
        name, order = self._scored(metric, mode)
        table = self.dataframe(name, order)
        best = table[name].idxmax() if order == "max" else table[name].idxmin()
        return str(table.loc[best]["logdir"])

    def get_best_config(self, metric: str | None = None, mode: str | None = None) -> dict[str, Any]:
        """Return the config of that trial."""
        return self.get_all_configs()[self.get_best_logdir(metric, mode)]
