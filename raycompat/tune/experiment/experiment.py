"""`Experiment`: a trainable, its search space, and how its trials run."""

from __future__ import annotations

import copy
import dataclasses
import difflib
import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from raycompat import _storage
from raycompat._surface import forms
from raycompat._surface.modules import names_of
from raycompat.tune.error import TuneError
from raycompat.tune.execution.placement_groups import (
    PlacementGroupFactory,
    resource_dict_to_pg_factory,
)
from raycompat.tune.experiment.trial import MAX_DIRNAME, Trial
from raycompat.tune.registry import (
    get_trainable_cls,
    register_trainable,
    with_registered_names,
)
from raycompat.tune.run_config import CheckpointConfig
from raycompat.tune.search.variant_generator import generate_variants, parse_spec_vars
from raycompat.tune.stopper import CombinedStopper, TimeoutStopper
from raycompat.tune.stopper.stopper import stopper_of
from raycompat.tune.trainable.function_trainable import FunctionTrainable
from raycompat.tune.trainable.identifiers import date_str

if TYPE_CHECKING:
    import pyarrow.fs

    from raycompat.train import SyncConfig
    from raycompat.tune.stopper.stopper import Stop
    from raycompat.tune.trainable.nested import Config, Space

#: Keys of `run_experiments` of 2018, and their names today.
OLD_KEYS = {
    "resources": "resources_per_trial",
    "trial_resources": "resources_per_trial",
    "repeat": "num_samples",
    "local_dir": "storage_path",
    "upload_dir": "storage_path",
    "checkpoint_freq": "checkpoint_frequency",
    "keep_checkpoints_num": "num_to_keep",
    "checkpoint_score_attr": "checkpoint_score_attribute",
}

#: Keys that belong to the experiment's CheckpointConfig.
CHECKPOINT_KEYS = (
    "checkpoint_frequency",
    "checkpoint_at_end",
    "num_to_keep",
    "checkpoint_score_attribute",
)


@forms.has_old_members("ray.tune.experiment.Experiment")
@forms.takes_old_options_in_constructor("ray.tune.Experiment")
class Experiment:
    """A trainable with its search space, and how its trials run.

    Parameters
    ----------
    name : str
        The name of its folder; by default made of the trainable's and the time.
    run : str, callable or subclass of Trainable
        The function or class that trains; a str is its registered name.
    stop : dict, callable or Stopper, optional
        When a trial ends.
    time_budget_s : float or datetime.timedelta, optional
        Seconds after which everything ends.
    config : dict, optional
        The search space.
    resources_per_trial : dict or PlacementGroupFactory, optional
        By default the trainable's request, or one CPU.
    num_samples : int, default 1
        How often the space is drawn from; -1 is without end.
    storage_path : str, optional
        Where the folder is. By default ``~/ray_results``.
    storage_filesystem : optional
        The file system of `storage_path`.
    sync_config : SyncConfig, optional
        Has no effect: files are written to `storage_path` at once.
    checkpoint_config : CheckpointConfig or dict, optional
    trial_name_creator, trial_dirname_creator : callable, optional
        Functions of a trial that return its name, and its folder's.
    log_to_file : bool, str or (str, str), default False
        Files in the trial's folder for its output.
    export_formats : list of str, optional
        The formats that each trial exports at its end, by `Trainable.export_model`; see `ExportFormat`.
    max_failures : int, default 0
        How often a trial is tried again; -1 is always.
    restore : str, optional
        A checkpoint's folder, from which every trial begins.

    Raises
    ------
    ValueError, TypeError, TuneError
        When an argument is not valid.

    Examples
    --------
    >>> import tempfile
    >>> from raycompat import tune
    >>> def cost(config):
    ...     return {"cost": (config["x"] - 3) ** 2}
    >>> folder = tempfile.mkdtemp()
    >>> experiment = tune.Experiment(
    ...     "parabola", cost, config={"x": 5}, storage_path=folder
    ... )
    >>> (trial,) = tune.run_experiments(experiment, verbose=0)
    >>> trial.last_result["cost"]
    4
    >>> experiment.path == experiment.local_path == f"{folder}/parabola"
    True
    >>> experiment.public_spec["config"]
    {'x': 5}
    >>> "config" in experiment.public_spec_without_config
    False

    Notes
    -----
    Ray source: ``ray.tune.Experiment``, 2.60.0. Differs from Ray: `local_dir` is `storage_path`.
    """

    def __init__(
        self,
        name: str,
        run: str | Callable[..., object],
        *,
        stop: Stop | None = None,
        time_budget_s: float | timedelta | None = None,
        config: Config | None = None,
        resources_per_trial: Mapping[str, Any]
        | PlacementGroupFactory
        | Callable[[Config], object]
        | None = None,
        num_samples: int = 1,
        storage_path: str | None = None,
        storage_filesystem: pyarrow.fs.FileSystem | None = None,
        sync_config: SyncConfig | None = None,
        checkpoint_config: CheckpointConfig | Mapping[str, Any] | None = None,
        trial_name_creator: Callable[[Trial], str] | None = None,
        trial_dirname_creator: Callable[[Trial], str] | None = None,
        log_to_file: bool | str | Sequence[str] = False,
        export_formats: Sequence[str] | None = None,
        max_failures: int = 0,
        restore: str | None = None,
        local_dir: str | None = None,
    ) -> None:
        if isinstance(checkpoint_config, Mapping):
            checkpoint_config = CheckpointConfig(**checkpoint_config)
        self.checkpoint_config = checkpoint_config or CheckpointConfig()
        self.run_identifier = register_if_needed(run)
        self.trainable_cls = get_trainable_cls(self.run_identifier)
        self._check_checkpoints()
        if config is not None and not isinstance(config, dict):
            raise ValueError(f"config={config!r}: expected a dict, the search space.")
        identifier = _storage.cut_name(self.run_identifier, MAX_DIRNAME).replace("/", "_")
        self.name = _storage.checked_name("name", name or f"{identifier}_{date_str()}")
        place = storage_path or local_dir or _storage.default_path()
        self.folder = _storage.Folder(place, storage_filesystem).folder(self.name)
        self.stopper = stopper_of(stop)
        if time_budget_s:
            self.stopper = CombinedStopper(self.stopper, TimeoutStopper(time_budget_s))
        self.max_failures = max_failures
        self.restore = None if restore is None else os.path.abspath(os.path.expanduser(restore))
        self._names = (trial_name_creator, trial_dirname_creator)
        self._log_to_file = _log_files(log_to_file)
        self._export_formats = export_formats or ()
        _check_num_samples(num_samples)
        self.spec: Space = {
            "run": self.run_identifier,
            "config": with_registered_names(config or {}),
            "num_samples": num_samples if num_samples >= 0 else 2**62,
            "time_budget_s": time_budget_s,
            "resources_per_trial": resources_per_trial,
            "stop": stop,
        }
        parse_spec_vars(self.spec["config"])  # an empty grid is refused here

    def _check_checkpoints(self) -> None:
        """Raise for functions with options that only classes support."""
        cls = self.trainable_cls
        if not isinstance(cls, type) or not issubclass(cls, FunctionTrainable):
            return
        if cls._accepts_checkpoint_times:
            self.checkpoint_config = dataclasses.replace(
                self.checkpoint_config, checkpoint_frequency=0, checkpoint_at_end=None
            )
        for name in ("checkpoint_at_end", "checkpoint_frequency"):
            if getattr(self.checkpoint_config, name):
                raise ValueError(
                    f"{name} is for subclasses of tune.Trainable; a function makes a checkpoint by "
                    "tune.report(metrics, checkpoint=...), and that of a trainer by train.report or "
                    f"RayTrainReportCallback(frequency=...). Leave {name} out."
                )

    @classmethod
    def from_json(cls, name: str, spec: Mapping[str, Any]) -> Experiment:
        """Make an experiment of a dict with the keys of today or of 2018.

        Raises
        ------
        TuneError
            When ``run`` is missing, or a key is unknown.

        Examples
        --------
        >>> from raycompat import tune
        >>> def cost(config):
        ...     return {"cost": (config["x"] - 3) ** 2}
        >>> spec = {"run": cost, "config": {"x": 5}, "stop": {"training_iteration": 1}}
        >>> tune.Experiment.from_json("parabola", spec).name
        'parabola'
        """
        spec = {OLD_KEYS.get(key, key): value for key, value in spec.items()}
        if "run" not in spec:
            raise TuneError(f"The experiment {name!r} has no key 'run': name its trainable.")
        if "env" in spec:
            spec["config"] = {**(spec.get("config") or {}), "env": spec.pop("env")}
        checkpoints = {key: spec.pop(key) for key in CHECKPOINT_KEYS if key in spec}
        if checkpoints:
            given = spec.get("checkpoint_config")
            given = given if isinstance(given, Mapping) else getattr(given, "__dict__", {})
            spec["checkpoint_config"] = {**given, **checkpoints}
        known = list(inspect.signature(cls).parameters)
        unknown = [key for key in spec if key not in known]
        if unknown:
            near = {key: difflib.get_close_matches(key, [*known, *OLD_KEYS]) for key in unknown}
            raise TuneError(f"The experiment {name!r} has unknown keys; the closest names: {near}.")
        return cls(name, spec.pop("run"), **copy.copy(spec))

    def make_trial(
        self,
        config: Config,
        trial_id: str,
        experiment_tag: str,
        evaluated_params: Config,
    ) -> Trial:
        """Return a trial with this config."""
        name_creator, dirname_creator = self._names
        return Trial(
            self.run_identifier,
            config,
            experiment_folder=self.folder,
            checkpoint_config=self.checkpoint_config,
            trial_id=trial_id,
            experiment_tag=experiment_tag,
            evaluated_params=evaluated_params,
            resources=self._resources(config),
            max_failures=self.max_failures,
            restore_path=self.restore,
            log_to_file=self._log_to_file,
            export_formats=self._export_formats,
            trial_name_creator=name_creator,
            trial_dirname_creator=dirname_creator,
        )

    def _resources(self, config: Config) -> PlacementGroupFactory:
        """Return the resources of a trial with this config."""
        request = self.spec["resources_per_trial"]
        default = getattr(self.trainable_cls, "default_resource_request", None)
        if request is None and default is not None:
            request = default(config)
        if callable(request) and not isinstance(request, PlacementGroupFactory):
            request = request(config)
        if isinstance(request, Mapping) and _has_functions(request):
            _, variant = next(generate_variants({"config": config, "resources": dict(request)}))
            request = variant["resources"]
        if request is None or isinstance(request, Mapping):
            return resource_dict_to_pg_factory(request)
        if not isinstance(request, PlacementGroupFactory):
            raise TuneError(
                f"The resources {request!r}: expected a dict such as {{'cpu': 1}} or a "
                "PlacementGroupFactory."
            )
        return request

    @property
    def path(self) -> str:
        """The path of the experiment's folder in its storage."""
        return self.folder.path

    @property
    def local_path(self) -> str:
        """The same as `path`."""
        return self.folder.path

    @property
    def remote_path(self) -> str:
        """The folder, with the protocol of a remote file system.

        Examples
        --------
        >>> import tempfile
        >>> from raycompat import tune
        >>> folder = tempfile.mkdtemp()
        >>> experiment = tune.Experiment(
        ...     "learn", lambda config: None, storage_path=folder
        ... )
        >>> experiment.remote_path == experiment.path
        True
        """
        return self.folder.uri

    @property
    def public_spec(self) -> dict[str, Any]:
        """The description of the experiment for searchers and schedulers."""
        names = ("config", "num_samples", "stop", "time_budget_s")
        return {name: self.spec[name] for name in names}

    @property
    def public_spec_without_config(self) -> dict[str, Any]:
        """The same, for calls that have the config as an argument."""
        return {name: value for name, value in self.public_spec.items() if name != "config"}


def _has_functions(request: Mapping[str, object]) -> bool:
    _, domains, grids = parse_spec_vars(request)
    return bool(domains or grids)


def _check_num_samples(num_samples: object) -> None:
    if isinstance(num_samples, bool) or not isinstance(num_samples, int) or num_samples < -1:
        raise ValueError(
            f"num_samples={num_samples!r}: expected an integer of 0 or more, or -1 for no end."
        )


def _log_files(given: object) -> tuple[str | None, str | None]:
    """Return the files for trials' standard output and standard error."""
    if not given:
        return None, None
    if given is True:
        return "stdout", "stderr"
    if isinstance(given, str):
        return given, given
    if isinstance(given, Sequence) and len(given) == 2:
        return given[0], given[1]
    raise ValueError(f"log_to_file={given!r}: expected True, a file name, or two.")


def register_if_needed(run: str | Callable[..., object]) -> str:
    """Return the name of a trainable; a function or class is registered under its own.

    Raises
    ------
    TuneError
        When it is not a trainable, or the name is not registered.
    """
    if isinstance(run, str):
        get_trainable_cls(run)
        return run
    if not callable(run):
        raise TuneError(
            f"{run!r} is not a trainable: expected a function of the config, a subclass of "
            "tune.Trainable or a registered name."
        )
    function = getattr(run, "func", run)  # of functools.partial
    found = getattr(run, "__name__", None) or getattr(function, "__name__", type(run).__name__)
    name = "lambda" if found == "<lambda>" else str(found)
    try:
        register_trainable(name, run)
    except TypeError as error:
        raise TuneError(str(error)) from error
    return name


def convert_to_experiment_list(
    experiments: Experiment | Mapping[str, Any] | Sequence[Any],
) -> list[Experiment]:
    """Return experiments as a list: from one, a list, or a dict of names and specs.

    Raises
    ------
    TuneError
        When there is something else.
    """
    if isinstance(experiments, Experiment):
        return [experiments]
    if isinstance(experiments, Mapping):
        return [
            spec if isinstance(spec, Experiment) else Experiment.from_json(name, spec)
            for name, spec in experiments.items()
        ]
    if isinstance(experiments, Sequence) and not isinstance(experiments, str):
        found: list[Experiment] = []
        for each in experiments:
            found += convert_to_experiment_list(each)
        return found
    raise TuneError(
        f"{experiments!r}: expected an Experiment, a list of them, or a dict of names and specs."
    )


#: Names of older Rays.
__getattr__ = names_of(__name__)
