"""`DataParallelTrainer`: one function, run on many workers."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Self

import cloudpickle

from raycompat import _storage
from raycompat._old_forms.train import options
from raycompat._surface import forms
from raycompat._upper import upper
from raycompat.train import _data_config, _session
from raycompat.train._callback import UserCallback
from raycompat.train._checkpoint import Checkpoint
from raycompat.train._configs import RunConfig, ScalingConfig
from raycompat.train._context import TrainContext
from raycompat.train._controller import Controller, require_session
from raycompat.train._data_config import DataConfig
from raycompat.train._errors import TrainingFailedError
from raycompat.train._report_options import ValidationConfig
from raycompat.train._result import Result
from raycompat.train._run import TrainRunContext
from raycompat.train._run_state import STATE_FILE, RunState
from raycompat.train._trial import InTrial, TrialRunState
from raycompat.train.backend import BackendConfig

if TYPE_CHECKING:
    import pyarrow.fs

    from raycompat.train._types import Config, Metrics

__all__ = ["DataParallelTrainer"]

#: The file from which a trainer is restored: its arguments, pickled.
TRAINER_FILE = "trainer.pkl"


@forms.has_old_members("ray.train.data_parallel_trainer.DataParallelTrainer")
@forms.takes_old_options_in_constructor("ray.train.DataParallelTrainer")
class DataParallelTrainer:
    """Runs a function on many workers, each a new process with its part of the data.

    Parameters
    ----------
    train_loop_per_worker : callable
        The function for each worker; it takes no argument, or `train_loop_config`.
    train_loop_config : dict, optional
        The function's argument.
    backend_config : BackendConfig, optional
        The preparation of the workers for a library.
    scaling_config : ScalingConfig, optional
        Number of workers, and the resources of each. By default one worker with one CPU.
    run_config : RunConfig, optional
        The run's name, its folder, and the reaction to failures.
    datasets : dict, optional
        Data sets by name: objects with ``streaming_split``, lists, or functions that return them.
    dataset_config : DataConfig, optional
        How they are divided.
    resume_from_checkpoint : Checkpoint, optional
        The result of `get_checkpoint` at the start of a run without checkpoints.
    metadata : dict, optional
        Not supported.
    validation_config : ValidationConfig, optional
        How checkpoints are validated.

    Raises
    ------
    ValueError
        When the function takes more than one argument, or a configuration is of another type.

    Examples
    --------
    >>> import tempfile
    >>> from raycompat import train
    >>> from raycompat.train.data_parallel_trainer import DataParallelTrainer
    >>> def square(config):
    ...     train.report({"value": config["x"] ** 2})
    >>> trainer = DataParallelTrainer(
    ...     square,
    ...     train_loop_config={"x": 3},
    ...     scaling_config=train.ScalingConfig(num_workers=2),
    ...     run_config=train.RunConfig(storage_path=tempfile.mkdtemp()),
    ... )
    >>> trainer.fit().metrics
    {'value': 9}

    Notes
    -----
    Ray source: ``ray.train.v2.api.data_parallel_trainer.DataParallelTrainer``, 2.60.0. Differs:
    `resume_from_checkpoint`, `restore` and `can_restore` work, as in Ray's first version of Train.
    """

    #: The argument of the constructor that has the configuration of the backend.
    _backend_option: ClassVar[str] = "backend_config"
    #: Former names of arguments that a search space of Tune can have, and what they are today.
    _also_searched: ClassVar[dict[str, str]] = {}

    def __init__(
        self,
        train_loop_per_worker: Callable[..., object],
        *,
        train_loop_config: Config | None = None,
        backend_config: BackendConfig | None = None,
        scaling_config: ScalingConfig | None = None,
        run_config: RunConfig | None = None,
        datasets: Mapping[str, object] | None = None,
        dataset_config: DataConfig | None = None,
        resume_from_checkpoint: Checkpoint | None = None,
        metadata: Mapping[str, object] | None = None,
        validation_config: ValidationConfig | None = None,
    ) -> None:
        if metadata is not None:
            raise DeprecationWarning(
                f"metadata={metadata!r}: Ray has given this up. Pass it as train_loop_config, or call "
                "checkpoint.set_metadata() before train.report()."
            )
        if not callable(train_loop_per_worker):
            raise TypeError(
                f"train_loop_per_worker={train_loop_per_worker!r}: expected a function."
            )
        self.train_loop_per_worker = train_loop_per_worker
        self.train_loop_config = train_loop_config
        self.backend_config = backend_config or BackendConfig()
        self.scaling_config = options.scaling_config(scaling_config) or ScalingConfig()
        self.run_config = options.of_air(run_config) or RunConfig()
        self.datasets = _data_config.checked(datasets)
        self.data_config = options.data_config(dataset_config, scaling_config, self.datasets)
        self.resume_from_checkpoint = resume_from_checkpoint
        self.validation_config = validation_config
        self._check_types()
        self.running_in_local_mode = self.scaling_config.num_workers == 0
        self.train_run_context = TrainRunContext(
            run_config=self.run_config,
            train_loop_config=self.train_loop_config,
            scaling_config=self.scaling_config,
            backend_config=self.backend_config,
            dataset_config=self.data_config,
        )

    def _check_types(self) -> None:
        for name, value, expected in (
            ("run_config", self.run_config, RunConfig),
            ("scaling_config", self.scaling_config, ScalingConfig),
            ("dataset_config", self.data_config, DataConfig),
            ("backend_config", self.backend_config, BackendConfig),
        ):
            if not isinstance(value, expected):
                raise ValueError(
                    f"{name}={value!r}: expected a train.{expected.__name__}, which is imported from "
                    "raycompat.train."
                )
        resume = self.resume_from_checkpoint
        if resume is not None and not isinstance(resume, Checkpoint):
            raise ValueError(
                f"resume_from_checkpoint={resume!r}: expected a train.Checkpoint, for example "
                "Result.checkpoint."
            )

    def fit(self) -> Result:
        """Train, and wait until that has ended.

        Returns
        -------
        Result
            The last metrics and checkpoints.

        Raises
        ------
        WorkerGroupError
            When workers failed more often than `FailureConfig` allows: with rank, node and traceback.
        ControllerError
            When the cluster has no room for the workers, or the run's folder cannot be written.
        ValueError
            When the training function takes more than one argument.
        """
        if self.run_config.is_for_tune:
            result: Result = self._fit_as_trial()
            return result
        return self._fit(None)

    def _fit_as_trial(self) -> Any:
        """Train as the only trial of an experiment, which stops and reports as Tune does."""
        result = upper("tune").Tuner(self).fit()[0]
        if result.error is not None:
            raise TrainingFailedError(str(result.error)) from result.error
        return result

    def _fit(self, in_trial: InTrial | None) -> Result:
        """Train as the run that `in_trial` describes; None: a separate run."""
        function = _bound(self.train_loop_per_worker, self.train_loop_config, self.backend_config)
        if self.running_in_local_mode:
            return self._fit_here(function)
        require_session()
        folder = self.run_config.storage_context
        if in_trial is not None:
            return self._run(function, TrialRunState(folder, in_trial), in_trial)
        state = RunState(folder, self._retention)
        if folder.exists(STATE_FILE):
            state = RunState.load(folder, self._retention)
        folder.write(TRAINER_FILE, cloudpickle.dumps(self._arguments()))
        return self._run(function, state, None)

    def _run(
        self, function: Callable[[], object], state: RunState, in_trial: InTrial | None
    ) -> Result:
        return Controller(
            function,
            self.train_run_context,
            self.datasets,
            state,
            self.resume_from_checkpoint,
            self.validation_config,
            None if in_trial is None else in_trial.group,
            in_trial=in_trial is not None,
        ).run()

    def _on_local_report(self, metrics: Metrics, checkpoint: Checkpoint | None) -> None:
        for callback in self.run_config.callbacks or []:
            if isinstance(callback, UserCallback):
                callback.after_report(self.train_run_context, [metrics], checkpoint)

    @property
    def _retention(self) -> Any:
        return self.run_config.checkpoint_config

    def _fit_here(self, function: Callable[[], object]) -> Result:
        datasets = {
            name: each() if callable(each) and not hasattr(each, "streaming_split") else each
            for name, each in self.datasets.items()
        }
        context = TrainContext(str(self.run_config.name))
        session = _session.LocalSession(
            context, datasets, self.resume_from_checkpoint, on_report=self._on_local_report
        )
        _session.enter(session)
        try:
            value = function()
        finally:
            _session.enter(None)
        return Result(
            metrics=session.metrics,
            checkpoint=session.checkpoint,
            error=None,
            path=None,
            return_value=value,
        )

    # --- restore --------------------------------------------------------------------------------

    def _arguments(self) -> dict[str, Any]:
        """Return the arguments that a trainer like this one is made with, without data sets."""
        return {
            "train_loop_per_worker": self.train_loop_per_worker,
            "train_loop_config": self.train_loop_config,
            "backend_config": self.backend_config,
            "scaling_config": self.scaling_config,
            "run_config": self.run_config,
            "dataset_config": self.data_config,
            "resume_from_checkpoint": self.resume_from_checkpoint,
            "validation_config": self.validation_config,
        }

    @classmethod
    def restore(
        cls,
        path: str | os.PathLike[str],
        train_loop_per_worker: Callable[..., object] | None = None,
        train_loop_config: Config | None = None,
        *,
        storage_filesystem: pyarrow.fs.FileSystem | None = None,
        datasets: Mapping[str, object] | None = None,
        scaling_config: ScalingConfig | None = None,
    ) -> Self:
        """Return a trainer whose `fit` continues a run that was interrupted.

        Parameters
        ----------
        path : str or path-like
            The run's folder.
        train_loop_per_worker : callable, optional
            The training function, where it has changed.
        train_loop_config : dict, optional
            Its argument, where it has changed.
        storage_filesystem : pyarrow or fsspec file system, optional
            Where the folder is.
        datasets : dict, optional
            The data sets: they are not saved.
        scaling_config : ScalingConfig, optional
            The workers, where they have changed.

        Raises
        ------
        ValueError
            When no run of a trainer has made the folder.

        Examples
        --------
        A run that failed goes on with a mended function, from its last checkpoint:

        >>> import tempfile
        >>> from raycompat import train
        >>> from raycompat.train.data_parallel_trainer import DataParallelTrainer
        >>> def fail():
        ...     raise ValueError("no such file")
        >>> run_config = train.RunConfig(name="mended", storage_path=tempfile.mkdtemp())
        >>> try:
        ...     DataParallelTrainer(fail, run_config=run_config).fit()
        ... except train.WorkerGroupError:
        ...     print("failed")
        failed
        >>> path = f"{run_config.storage_path}/mended"
        >>> DataParallelTrainer.can_restore(path)
        True
        >>> trainer = DataParallelTrainer.restore(
        ...     path, lambda: train.report({"loss": 0.5})
        ... )
        >>> trainer.fit().metrics
        {'loss': 0.5}

        Notes
        -----
        Ray source: ``DataParallelTrainer.restore`` of Ray's first version of Train; that of 2.60.0
        raises.
        """
        folder = _storage.Folder(path, storage_filesystem)
        if not folder.exists(TRAINER_FILE):
            raise ValueError(
                f"{folder.uri} has no {TRAINER_FILE}: expected the folder of a run, a Result.path."
            )
        arguments = cloudpickle.loads(folder.read(TRAINER_FILE))
        changed = {
            "train_loop_per_worker": train_loop_per_worker,
            "train_loop_config": train_loop_config,
            "scaling_config": scaling_config,
            "datasets": datasets,
        }
        arguments.update({name: value for name, value in changed.items() if value is not None})
        run_config: RunConfig = arguments["run_config"]
        parent, _, run_config.name = folder.path.rpartition("/")
        run_config.storage_path = parent
        run_config.storage_filesystem = None if folder.is_local else folder.filesystem
        run_config.__dict__.pop("storage_context", None)
        return cls._from_arguments(arguments)

    @classmethod
    def _from_arguments(cls, arguments: dict[str, Any]) -> Self:
        backend_config = arguments.pop("backend_config")
        return cls(**arguments, **{cls._backend_option: backend_config})

    @classmethod
    def can_restore(
        cls, path: str | os.PathLike[str], storage_filesystem: pyarrow.fs.FileSystem | None = None
    ) -> bool:
        """Whether `restore` can continue a run.

        Parameters
        ----------
        path : str or path-like
            The run's folder.
        storage_filesystem : pyarrow or fsspec file system, optional
            Where the folder is.

        Examples
        --------
        >>> import tempfile
        >>> from raycompat.train.data_parallel_trainer import DataParallelTrainer
        >>> DataParallelTrainer.can_restore(tempfile.mkdtemp())
        False
        """
        return _storage.Folder(path, storage_filesystem).exists(TRAINER_FILE)


def _bound(
    function: Callable[..., object], config: Config | None, backend: BackendConfig
) -> Callable[[], Any]:
    """Return the training function with its argument, in the backend's context."""
    parameters = inspect.signature(function).parameters.values()
    required = [
        each.name
        for each in parameters
        if each.default is each.empty
        and each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)
    ]
    if len(required) > 1:
        raise ValueError(
            f"train_loop_per_worker requires {len(required)} arguments, {required}: expected none, or "
            "one that takes train_loop_config."
        )
    arguments = (config or {},) if required else ()
    entered = backend.train_func_context

    @functools.wraps(function)
    def train() -> Any:
        with entered():
            return function(*arguments)

    return train
