"""`Tuner`: an experiment as an object, which can be restored."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

import cloudpickle

from raycompat import train
from raycompat._storage import Folder, checked_name
from raycompat.train.data_parallel_trainer import DataParallelTrainer
from raycompat.tune.analysis.experiment_analysis import ExperimentAnalysis
from raycompat.tune.config import ResumeConfig, TuneConfig
from raycompat.tune.error import TuneError
from raycompat.tune.execution.experiment_state import JOURNAL, TUNER
from raycompat.tune.execution.restore import check_same_trainable
from raycompat.tune.execution.run import RunSettings, run_experiments_to_end
from raycompat.tune.experiment.experiment import Experiment, register_if_needed
from raycompat.tune.registry import get_trainable_cls
from raycompat.tune.result_grid import ResultGrid
from raycompat.tune.run_config import CheckpointConfig, RunConfig
from raycompat.tune.trainable.function_trainable import FunctionTrainable
from raycompat.tune.trainable.identifiers import date_str
from raycompat.tune.trainable.nested import flatten_dict
from raycompat.tune.trainable.trainable import Trainable
from raycompat.tune.trainable.trainer import checked_space, run_config_of, trainable_of, tunes

if TYPE_CHECKING:
    import pyarrow.fs

    from raycompat.tune.trainable.nested import Space


class Tuner:
    """Search for hyperparameters.

    Parameters
    ----------
    trainable : callable, subclass of Trainable, str or trainer
        A function of the config; a class; a registered name; a trainer of `raycompat.train`, such as
        `TensorflowTrainer`, of which each trial is a run.
    param_space : dict or AlgorithmConfig, optional
        The search space. That of a trainer has the trainer's arguments: ``train_loop_config`` and
        ``datasets`` are merged into the trainer's, ``scaling_config`` replaces it.
    tune_config : TuneConfig, optional
        How it is searched.
    run_config : RunConfig, optional
        Where results go, and when trials stop. By default a trainer's own.

    Raises
    ------
    TuneError, ValueError, TypeError
        When an argument is not valid.
    UnsupportedRayFeatureError
        For a trainer that validates checkpoints.

    Examples
    --------
    >>> from raycompat import tune
    >>> def train(config):
    ...     tune.report({"score": -((config["x"] - 3) ** 2)})
    >>> tuner = tune.Tuner(
    ...     train,
    ...     param_space={"x": tune.grid_search([1, 2, 3])},
    ...     tune_config=tune.TuneConfig(metric="score", mode="max"),
    ... )

    Then ``tuner.fit().get_best_result().config`` is ``{"x": 3}``.

    Notes
    -----
    Ray source: ``ray.tune.Tuner``, 2.60.0. A trainer as trainable is as in Ray with the first version
    of Train (``RAY_TRAIN_V2_ENABLED=0``); with the second, Ray takes only functions that run one. The
    workers of a trainer take the trial's resources, its reports and checkpoints are the trial's, and a
    failure of a worker is one of the trial. Callbacks of the trainer run in the trial's process.
    """

    def __init__(
        self,
        trainable: str | Callable[..., object] | DataParallelTrainer | None = None,
        *,
        param_space: Any = None,
        tune_config: TuneConfig | None = None,
        run_config: RunConfig | train.RunConfig | None = None,
    ) -> None:
        if trainable is None:
            raise TuneError(
                "Tuner(None): expected a function of the config, or a class that trains."
            )
        _check("tune_config", tune_config, TuneConfig)
        # The config of an algorithm is one: PPOConfig().environment("CartPole-v1").
        to_dict = getattr(param_space, "to_dict", None)
        self._param_space = (to_dict() if callable(to_dict) else param_space) or {}
        self._tune_config = tune_config or TuneConfig()
        if isinstance(run_config, train.RunConfig):
            run_config = tunes(run_config)
        self._trainable: str | Callable[..., object]
        if isinstance(trainable, DataParallelTrainer):
            self._run_config = run_config_of(trainable, run_config)
            self._trainable = trainable_of(trainable, self._run_config.checkpoint_config)
        else:
            self._run_config = run_config or RunConfig()
            self._trainable = trainable
        self._resume_config: ResumeConfig | None = None
        self._results: ResultGrid | None = None
        if not isinstance(self._param_space, dict):
            raise ValueError(f"param_space={param_space!r}: expected a dict.")
        if isinstance(trainable, DataParallelTrainer):
            self._param_space = checked_space(type(trainable), self._param_space)
        register_if_needed(self._trainable)

    @classmethod
    def restore(
        cls,
        path: str | os.PathLike[str],
        trainable: str | Callable[..., object] | DataParallelTrainer,
        resume_unfinished: bool = True,
        resume_errored: bool = False,
        restart_errored: bool = False,
        param_space: Space | None = None,
        storage_filesystem: pyarrow.fs.FileSystem | None = None,
        _resume_config: ResumeConfig | None = None,
    ) -> Tuner:
        """Return a Tuner that continues an experiment that was killed or has ended.

        Parameters
        ----------
        path : str or path-like
            The experiment's folder; it may have been moved. Its files are unpickled: it must come
            from a trusted source.
        trainable : callable, subclass of Trainable, str or trainer
            The same as before.
        resume_unfinished : bool, default True
            Continue trials that have not ended, from their last checkpoints.
        resume_errored, restart_errored : bool, default False
            Run failed trials again, from their last checkpoints or from the beginning.
        param_space : dict, optional
            The same as before, with new references in it.
        storage_filesystem : optional
            The file system of `path`.

        Raises
        ------
        FileNotFoundError
            When `path` is not the folder of an experiment.
        ValueError
            When the experiment had a trainable of another name.

        Examples
        --------
        >>> import tempfile
        >>> from raycompat import tune
        >>> def cost(config):
        ...     return {"cost": (config["x"] - 3) ** 2}
        >>> folder = tempfile.mkdtemp()
        >>> tuner = tune.Tuner(
        ...     cost,
        ...     param_space={"x": tune.grid_search([1, 3, 5])},
        ...     run_config=tune.RunConfig(
        ...         name="parabola", storage_path=folder, verbose=0
        ...     ),
        ... )
        >>> results = tuner.fit()

        Later, also in another program:

        >>> tune.Tuner.can_restore(f"{folder}/parabola")
        True
        >>> tuner = tune.Tuner.restore(f"{folder}/parabola", trainable=cost)
        >>> tuner.get_results().get_best_result("cost", "min").config
        {'x': 3}

        Notes
        -----
        Ray source: ``ray.tune.Tuner.restore``, 2.60.0. Every trial that had ended stays as it was.
        """
        folder = Folder(path, storage_filesystem)
        if not folder.exists(TUNER):
            raise FileNotFoundError(
                f"{folder.path} is not the folder of a Tuner: expected the file {TUNER} in it. "
                "Pass the path that ResultGrid.experiment_path has."
            )
        saved = pickle.loads(folder.read(TUNER))
        if isinstance(trainable, DataParallelTrainer):
            trainable = trainable_of(trainable, saved["run_config"].checkpoint_config)
        check_same_trainable(folder, saved["trainable_name"], {register_if_needed(trainable)})
        if param_space is not None:
            _check_same_names(saved["param_space"], param_space)
        run_config = saved["run_config"]
        run_config.storage_path, run_config.name = os.path.split(folder.path)
        run_config.storage_filesystem = folder.filesystem
        tuner = cls(
            trainable,
            param_space=saved["param_space"] if param_space is None else param_space,
            tune_config=saved["tune_config"],
            run_config=run_config,
        )
        types = ResumeConfig.ResumeType
        errored = types.RESUME if resume_errored else types.SKIP
        tuner._resume_config = _resume_config or ResumeConfig(
            unfinished=types.RESUME if resume_unfinished else types.SKIP,
            errored=types.RESTART if restart_errored and not resume_errored else errored,
        )
        return tuner

    @classmethod
    def can_restore(
        cls, path: str | os.PathLike[str], storage_filesystem: pyarrow.fs.FileSystem | None = None
    ) -> bool:
        """Return whether `path` of `storage_filesystem` is the folder of a Tuner that has started."""
        return Folder(path, storage_filesystem).exists(TUNER)

    def fit(self) -> ResultGrid:
        """Run the trials to their end, and return their results.

        Errors of trials are in the results; others are raised.

        Raises
        ------
        ValueError
            When a result lacks the metric.

        Examples
        --------
        >>> import tempfile
        >>> from raycompat import tune
        >>> def cost(config):
        ...     return {"cost": (config["x"] - 3) ** 2}
        >>> tuner = tune.Tuner(
        ...     cost,
        ...     param_space={"x": tune.grid_search([1, 3, 5])},
        ...     tune_config=tune.TuneConfig(metric="cost", mode="min"),
        ...     run_config=tune.RunConfig(storage_path=tempfile.mkdtemp(), verbose=0),
        ... )
        >>> tuner.fit().get_best_result().config
        {'x': 3}
        >>> len(tuner.get_results())
        3
        """
        tuned, run_config = self._tune_config, self._run_config
        if not run_config.name:
            run_config.name = f"{register_if_needed(self._trainable)}_{date_str()}"
        experiment = Experiment(
            run_config.name,
            self._trainable,
            stop=run_config.stop,
            time_budget_s=tuned.time_budget_s,
            config=self._param_space,
            num_samples=tuned.num_samples,
            storage_path=run_config.storage_path,
            storage_filesystem=run_config.storage_filesystem,
            checkpoint_config=_checkpoints(run_config.checkpoint_config, self._trainable),
            trial_name_creator=tuned.trial_name_creator,
            trial_dirname_creator=tuned.trial_dirname_creator,
            log_to_file=run_config.log_to_file,
            max_failures=run_config.failure_config.max_failures,
        )
        self._save(experiment.folder)
        analysis = run_experiments_to_end(
            [experiment],
            RunSettings(
                metric=tuned.metric,
                mode=tuned.mode,
                search_alg=tuned.search_alg,
                scheduler=tuned.scheduler,
                verbose=run_config.verbose,
                progress_reporter=run_config.progress_reporter,
                fail_fast=run_config.failure_config.fail_fast,
                resume_config=self._resume_config,
                reuse_actors=tuned.reuse_actors,
                raise_on_failed_trial=False,
                callbacks=list(run_config.callbacks or []),
                max_concurrent_trials=tuned.max_concurrent_trials,
                works_in_folder=tuned.chdir_to_trial_dir is not False,
            ),
        )
        self._results = ResultGrid(analysis)
        return self._results

    def _save(self, folder: Folder) -> None:
        """Write down what `restore` needs; searchers and schedulers as they are before the first
        trial.
        """
        if self._resume_config is not None:
            return
        plain = {f.name: getattr(self._run_config, f.name) for f in fields(self._run_config)}
        # `restore` is given the file system, and does without the reporter.
        plain["progress_reporter"] = plain["storage_filesystem"] = None
        saved = {
            "trainable_name": register_if_needed(self._trainable),
            "param_space": self._param_space,
            "tune_config": self._tune_config,
            "run_config": type(self._run_config)(**plain),
        }
        folder.create().write(TUNER, cloudpickle.dumps(saved))

    def get_results(self) -> ResultGrid:
        """Return the results of `fit`, or of an experiment that was restored.

        Raises
        ------
        RuntimeError
            When nothing was run yet.
        """
        if self._results is not None:
            return self._results
        if self._resume_config is None:
            raise RuntimeError("There are no results yet: call fit() first.")
        run_config = self._run_config
        folder = Folder(run_config.storage_path, run_config.storage_filesystem).folder(
            checked_name("RunConfig(name", run_config.name)
        )
        return ResultGrid(
            ExperimentAnalysis(
                folder.at(JOURNAL),
                storage_filesystem=folder.filesystem,
                default_metric=self._tune_config.metric,
                default_mode=self._tune_config.mode,
            )
        )


def _check(name: str, value: object, expected: type) -> None:
    if value is not None and not isinstance(value, expected):
        raise TypeError(f"{name}={value!r}: expected an instance of tune.{expected.__name__}.")


def _check_same_names(saved: Space | None, given: Space | None) -> None:
    """Raise for a space of a restored experiment that has other parameters."""
    before, now = (sorted(flatten_dict(each or {})) for each in (saved, given))
    if before != now:
        raise ValueError(
            f"param_space has {now}, and the experiment {before}. The trials keep their values: give "
            "the same space, whose references of objects are made again, or leave it out."
        )


def _checkpoints(config: CheckpointConfig | None, trainable: Any) -> CheckpointConfig | None:
    """Return the options; a class that can be saved is saved at its end, unless they say otherwise."""
    if config is not None and getattr(trainable, "_makes_checkpoints", False):
        return replace(config, checkpoint_frequency=0, checkpoint_at_end=None)
    cls = get_trainable_cls(register_if_needed(trainable))
    if config is None or config.checkpoint_at_end is not None or not isinstance(cls, type):
        return config
    can_save = hasattr(cls, "_save") or cls.save_checkpoint is not Trainable.save_checkpoint
    if not can_save or issubclass(cls, FunctionTrainable):
        return config
    return replace(config, checkpoint_at_end=True)
