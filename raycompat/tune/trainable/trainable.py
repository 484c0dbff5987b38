"""`Trainable`: a class that trains step by step, and can be saved, restored and reset."""

from __future__ import annotations

import copy
import os
import pickle
import platform
import shutil
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cloudpickle

from raycompat._recordable import recordable
from raycompat._surface import forms
from raycompat._surface.modules import lacks, names_of
from raycompat.tune import result as keys
from raycompat.tune.trainable.place import TrialPlace

if TYPE_CHECKING:
    from raycompat.train import Checkpoint
    from raycompat.tune.execution.placement_groups import PlacementGroupFactory
    from raycompat.tune.trainable.nested import Config, Metrics

#: A checkpoint that `save_checkpoint` returned as a dict.
DICT_FILE = "dict_checkpoint.pkl"
#: Iterations, times and totals of a checkpoint, and what `save_checkpoint` returned.
METADATA_FILE = ".tune_metadata"


@dataclass
class TrainingResult:
    """A checkpoint, and the result that it belongs to."""

    checkpoint: Checkpoint | None
    metrics: Metrics


@forms.has_old_members("ray.tune.Trainable")
@lacks("ray.tune.Trainable", "is_actor")
@forms.takes_old_options_in_constructor("ray.tune.Trainable")
class Trainable:
    """Train step by step. Subclasses write `setup`, `step`, `save_checkpoint` and `load_checkpoint`.

    The names of 2018 work, too: ``_setup``, ``_train``, ``_save``, ``_restore``, ``_stop``.

    Parameters
    ----------
    config : dict, optional
        The hyperparameters, in ``self.config``.
    storage : optional
        The place of the trial in an experiment; Tune gives it.

    Attributes
    ----------
    config : dict
        The hyperparameters.

    Examples
    --------
    >>> from raycompat import tune
    >>> class Countdown(tune.Trainable):
    ...     def setup(self, config):
    ...         self.left = config["start"]
    ...
    ...     def step(self):
    ...         self.left -= 1
    ...         return {"left": self.left, "done": self.left == 0}
    ...
    ...     def save_checkpoint(self, checkpoint_dir):
    ...         return {"left": self.left}
    ...
    ...     def load_checkpoint(self, checkpoint):
    ...         self.left = checkpoint["left"]

    A program can use one without trials:

    >>> countdown = Countdown({"start": 3})
    >>> [result["left"] for result in countdown.train_buffered(buffer_time_s=5)]
    [2, 1, 0]
    >>> countdown.get_state()["iteration"], countdown.get_config()
    (3, {'start': 3})
    >>> countdown.iteration, countdown.training_iteration, countdown.trial_id
    (3, 3, 'default')
    >>> countdown.trial_resources is None  # as outside of a trial
    True
    >>> countdown.config, countdown.trial_name, countdown.logdir != ""
    ({'start': 3}, 'default', True)
    >>> countdown.stop()

    `log_result` looks at each result, `resource_help` explains a request that cannot be met, and
    ``_export_model`` writes the model at the end of a trial:

    >>> import os, tempfile
    >>> class Exported(Countdown):
    ...     def log_result(self, result):
    ...         print("left:", result["left"])
    ...
    ...     @classmethod
    ...     def resource_help(cls, config):
    ...         return "A smaller start needs less."
    ...
    ...     def _export_model(self, formats, export_dir):
    ...         path = os.path.join(export_dir, "left.txt")
    ...         with open(path, "w") as file:
    ...             file.write(str(self.left))
    ...         return {"text": path}
    >>> exported = Exported({"start": 2})
    >>> result = exported.train()
    left: 1
    >>> path = exported.export_model("text", tempfile.mkdtemp())["text"]
    >>> os.path.basename(path), Exported.resource_help({})
    ('left.txt', 'A smaller start needs less.')

    Notes
    -----
    Ray source: ``ray.tune.Trainable``, 2.60.0; the old names are of Ray before 0.8.6.
    """

    def __init__(self, config: Config | None = None, storage: TrialPlace | None = None) -> None:
        self.config = config or {}
        self._place: TrialPlace | None = storage
        self._logdir = self._place.logdir if self._place else None
        self._iteration = 0
        self._time_total = 0.0
        self._timesteps_total: int | None = None
        self._episodes_total: int | None = None
        self._begin_counting()
        self._last_result: Metrics = {}
        self.setup(copy.deepcopy(self.config))

    def _begin_counting(self) -> None:
        """Count from 0 what results say of the time since the last restore."""
        self._time_since_restore = 0.0
        self._timesteps_since_restore = 0
        self._iterations_since_restore = 0

    # What subclasses write.

    def setup(self, config: Config) -> None:
        """Prepare training with the hyperparameters `config`; called once, before the first step."""
        if hasattr(self, "_setup"):
            self._setup(config)

    def step(self) -> Metrics:
        """Train for a while, and return a result.

        Examples
        --------
        >>> from raycompat import tune
        >>> class Halving(tune.Trainable):
        ...     def setup(self, config):
        ...         self.loss = config["start"]
        ...
        ...     def step(self):
        ...         self.loss /= 2
        ...         return {"loss": self.loss}
        >>> trainable = Halving({"start": 1.0})
        >>> trainable.train()["loss"], trainable.train()["loss"]
        (0.5, 0.25)
        """
        if hasattr(self, "_train"):
            result: Metrics = self._train()
            return result
        raise NotImplementedError(f"{type(self).__name__} has no method step().")

    def save_checkpoint(self, checkpoint_dir: str) -> dict[str, Any] | str | None:
        """Write the state into the folder `checkpoint_dir`, or return it as a dict."""
        if hasattr(self, "_save"):
            saved: dict[str, object] | str | None = self._save(checkpoint_dir)
            return saved
        raise NotImplementedError(
            f"{type(self).__name__} has no method save_checkpoint(): pausing, retrying and "
            "restoring need it."
        )

    def load_checkpoint(self, checkpoint: Any) -> None:
        """Take the state from `checkpoint`: the dict, or the folder."""
        if not hasattr(self, "_restore"):
            raise NotImplementedError(f"{type(self).__name__} has no method load_checkpoint().")
        self._restore(checkpoint)

    def reset_config(self, new_config: Config) -> bool:
        """Become another trial, with the hyperparameters `new_config`; False when that cannot be done.

        Examples
        --------
        >>> class Reusable(Countdown):
        ...     def reset_config(self, new_config):
        ...         self.left = new_config["start"]
        ...         return True
        >>> config = tune.TuneConfig(reuse_actors=True)
        >>> trainable = Reusable({"start": 3})
        >>> trainable.reset({"start": 8})
        True
        >>> trainable.train()["left"]
        7
        """
        return False

    def cleanup(self) -> None:
        """Release what `setup` has taken; called once, at the end.

        Examples
        --------
        >>> class Tidy(Countdown):
        ...     def cleanup(self):
        ...         print("closing the log")
        >>> Tidy({"start": 3}).stop()
        closing the log
        """
        if hasattr(self, "_stop"):
            self._stop()

    def log_result(self, result: Metrics) -> None:
        """Inspect each `result` before it is reported."""

    @classmethod
    def default_resource_request(cls, config: Config) -> PlacementGroupFactory | None:
        """Return the resources of a trial with the hyperparameters `config`; None is one CPU.

        Examples
        --------
        >>> class Large(Countdown):
        ...     @classmethod
        ...     def default_resource_request(cls, config):
        ...         return tune.PlacementGroupFactory([{"CPU": config["cpus"]}])
        >>> Large.default_resource_request({"cpus": 2}).required_resources
        {'CPU': 2.0}
        """
        return None

    @classmethod
    def resource_help(cls, config: Config) -> str:
        """Return a hint on the resources of a trial with `config`, for errors."""
        return ""

    # Methods that the runner calls; users may call them too.

    def train(self) -> Metrics:
        """Make one step, and return its result with times and counts filled in.

        Raises
        ------
        TypeError
            When the step returns something else than a dict.

        Examples
        --------
        >>> trainable = Countdown({"start": 3})
        >>> result = trainable.train()
        >>> result["left"], result["training_iteration"], trainable.get_config()
        (2, 1, {'start': 3})
        """
        start = time.time()
        result = self.step()
        if not isinstance(result, dict):
            raise TypeError(f"step() returned {result!r}: expected a dict of results.")
        if keys.RESULT_DUPLICATE in result:
            return result
        return self._filled(recordable(result, "tune.report"), time.time() - start)

    def _filled(self, result: Metrics, duration_s: float) -> Metrics:
        """Return the result with the counters of this class."""
        result = dict(result)
        this_iter: float = result.get(keys.TIME_THIS_ITER_S) or duration_s
        self._iteration += 1
        self._iterations_since_restore += 1
        self._time_total += this_iter
        self._time_since_restore += this_iter
        result.setdefault(keys.DONE, False)
        timesteps = result.get(keys.TIMESTEPS_THIS_ITER)
        if timesteps is not None:
            self._timesteps_total = (self._timesteps_total or 0) + timesteps
            self._timesteps_since_restore += timesteps
        episodes = result.get(keys.EPISODES_THIS_ITER)
        if episodes is not None:
            self._episodes_total = (self._episodes_total or 0) + episodes
        if self._timesteps_total is not None:
            result.setdefault(keys.TIMESTEPS_TOTAL, self._timesteps_total)
        if self._episodes_total is not None:
            result.setdefault(keys.EPISODES_TOTAL, self._episodes_total)
        result.setdefault(keys.TRAINING_ITERATION, self._iteration)
        result.update(
            self.get_auto_filled_metrics(
                time_this_iter=this_iter, timestamp=result.get(keys.TIMESTAMP)
            )
        )
        if self._timesteps_since_restore:
            result["timesteps_since_restore"] = self._timesteps_since_restore
        self.log_result(result)
        self._last_result = result
        return result

    def get_auto_filled_metrics(
        self,
        now: datetime | None = None,
        time_this_iter: float | None = None,
        timestamp: int | None = None,
        debug_metrics_only: bool = False,
    ) -> dict[str, Any]:
        """Return what `train` adds to each result: the trial, its process, and times.

        Parameters
        ----------
        now : datetime.datetime, optional
            The time of the result. By default the present.
        time_this_iter : float, optional
            Duration of the step, in seconds.
        timestamp : int, optional
            The time in seconds since 1970, if it is not that of `now`.
        debug_metrics_only : bool, default False
            Leave the durations out.

        Examples
        --------
        >>> import os
        >>> fresh = Countdown({"start": 3})
        >>> filled = fresh.get_auto_filled_metrics(debug_metrics_only=True)
        >>> (
        ...     filled["trial_id"],
        ...     filled["pid"] == fresh.get_current_ip_pid()[1] == os.getpid(),
        ... )
        ('default', True)
        """
        now = now or datetime.now()
        address, pid = self.get_current_ip_pid()
        filled = {
            keys.TRIAL_ID: self.trial_id,
            keys.DATE: now.strftime("%Y-%m-%d_%H-%M-%S"),
            keys.TIMESTAMP: timestamp or int(now.timestamp()),
            keys.PID: pid,
            keys.HOSTNAME: platform.node(),
            keys.NODE_IP: address,
            "config": self.config,
        }
        if not debug_metrics_only:
            filled |= {
                keys.TIME_THIS_ITER_S: time_this_iter,
                keys.TIME_TOTAL_S: self._time_total,
                "time_since_restore": self._time_since_restore,
                "iterations_since_restore": self._iterations_since_restore,
            }
        return filled

    def get_current_ip_pid(self) -> tuple[str, int]:
        """Return the address of the node, and the id of the process."""
        return self._place.node_ip if self._place else "127.0.0.1", os.getpid()

    def train_buffered(self, buffer_time_s: float, max_buffer_length: int = 1000) -> list[Metrics]:
        """Make steps for `buffer_time_s` seconds, and return their results.

        It ends earlier after `max_buffer_length` results, or when training is done.
        """
        results: list[Metrics] = []
        end = time.monotonic() + buffer_time_s
        while not results or time.monotonic() < end:
            results.append(self.train())
            ends = (keys.DONE, keys.SHOULD_CHECKPOINT, keys.RESULT_DUPLICATE)
            if any(results[-1].get(key) for key in ends) or len(results) >= max_buffer_length:
                break
        return results

    def save(self, checkpoint_dir: str | None = None) -> TrainingResult:
        """Save the state as a checkpoint.

        Parameters
        ----------
        checkpoint_dir : str, optional
            The folder. By default the trial's next, such as ``checkpoint_000000``; outside of a trial a
            temporary one.

        Returns
        -------
        TrainingResult
            With the attributes `checkpoint` and `metrics`.

        Examples
        --------
        >>> saved = trainable.save()
        >>> other = Countdown({"start": 30})
        >>> other.restore(saved)
        >>> other.train()["left"]
        1
        >>> other.stop()
        """
        from raycompat.train import Checkpoint

        if checkpoint_dir is None and self._place is not None:
            with tempfile.TemporaryDirectory(prefix="checkpoint-") as folder:
                self._write_checkpoint(folder)
                checkpoint = self._place.keep_checkpoint(Checkpoint.from_directory(folder))
            self._last_result[keys.CHECKPOINT_DIR_NAME] = os.path.basename(checkpoint.path)
        else:
            folder = checkpoint_dir or tempfile.mkdtemp(prefix="checkpoint-")
            os.makedirs(folder, exist_ok=True)
            self._write_checkpoint(folder)
            checkpoint = Checkpoint.from_directory(folder)
        return TrainingResult(checkpoint, dict(self._last_result))

    def _write_checkpoint(self, folder: str) -> None:
        saved = self.save_checkpoint(folder)
        kind: str | None = None
        if isinstance(saved, dict):
            kind = "dict"
            with open(os.path.join(folder, DICT_FILE), "wb") as file:
                cloudpickle.dump(saved, file)
        elif isinstance(saved, str):
            kind = self._path_in(folder, saved)
        elif saved is not None:
            raise TypeError(
                f"save_checkpoint() returned {saved!r}: expected a dict, a path or None."
            )
        metadata = {**self.get_state(), "saved": kind}
        Path(folder, METADATA_FILE).write_bytes(cloudpickle.dumps(metadata))

    def _path_in(self, folder: str, saved: str) -> str:
        """Return a path in the folder, relative to it; today's `save_checkpoint` returns the folder."""
        inside = os.path.relpath(saved, folder)
        if inside.startswith(".."):
            raise ValueError(
                f"save_checkpoint({folder!r}) returned {saved!r}: expected None, a dict, or the folder."
            )
        if inside != "." and not hasattr(self, "_save"):
            forms.used("ray.tune.Trainable.save_checkpoint with a file", refusal=ValueError)
        return inside

    def restore(self, checkpoint_path: Any) -> None:
        """Continue from a checkpoint.

        Parameters
        ----------
        checkpoint_path : Checkpoint, TrainingResult or str
            What `save` returned, or its folder.
        """
        from raycompat.train import Checkpoint

        checkpoint = checkpoint_path
        if isinstance(checkpoint, TrainingResult):
            checkpoint = checkpoint.checkpoint
        if not isinstance(checkpoint, Checkpoint):
            checkpoint = Checkpoint.from_directory(os.fspath(checkpoint))
        with checkpoint.as_directory() as folder:
            metadata = self._read_metadata(folder)
            saved = metadata.pop("saved", None)
            if saved == "dict":
                with open(os.path.join(folder, DICT_FILE), "rb") as file:
                    self.load_checkpoint(pickle.load(file))
            else:
                self.load_checkpoint(os.path.normpath(os.path.join(folder, saved or ".")))
        self._set_state(metadata)

    def _read_metadata(self, folder: str) -> dict[str, Any]:
        path = Path(folder, METADATA_FILE)
        if not path.exists():
            return {}
        try:
            metadata: dict[str, Any] = pickle.loads(path.read_bytes())
        except (pickle.UnpicklingError, EOFError, AttributeError, IndexError, ValueError) as error:
            raise ValueError(
                f"{path} is damaged, or of another version: it cannot be unpickled ({error}). Use an "
                "older checkpoint."
            ) from error
        return metadata

    def _set_state(self, metadata: dict[str, Any]) -> None:
        self._iteration = metadata.get("iteration", 0)
        self._time_total = metadata.get("time_total", 0.0)
        self._timesteps_total = metadata.get("timesteps_total")
        self._episodes_total = metadata.get("episodes_total")
        self._last_result = metadata.get("last_result") or {}
        self._begin_counting()

    def get_state(self) -> dict[str, Any]:
        """Return counts and times, which a checkpoint has."""
        return {
            "iteration": self._iteration,
            "timesteps_total": self._timesteps_total,
            "time_total": self._time_total,
            "episodes_total": self._episodes_total,
            "last_result": self._last_result,
        }

    def reset(self, new_config: Config, storage: TrialPlace | None = None) -> bool:
        """Become the trial with `new_config` and `storage` in the same process.

        Return False when `reset_config` does.
        """
        if storage is not None:
            self._place, self._logdir = storage, storage.logdir
        has_changed = self.reset_config(new_config)
        self.config = new_config
        if not has_changed:
            return False
        self._set_state({})
        return True

    def stop(self) -> None:
        """End training, and release its resources."""
        self.cleanup()

    def export_model(
        self, export_formats: str | Sequence[str], export_dir: str | None = None
    ) -> dict[str, str]:
        """Write the model to `export_dir` in `export_formats`.

        Subclasses write ``_export_model(formats, folder)``.
        """
        formats = [export_formats] if isinstance(export_formats, str) else list(export_formats)
        return self._export_model(formats, export_dir or self.logdir)

    def _export_model(self, export_formats: list[str], export_dir: str) -> dict[str, str]:
        """Write the model into a folder; return the path of each format. There is none here."""
        return {}

    # The attributes of a trainable.

    @property
    def logdir(self) -> str:
        """The trial's local folder; outside of a trial a temporary one."""
        if self._logdir is None:
            self._logdir = tempfile.mkdtemp(prefix="trainable-")
        return self._logdir

    @property
    def iteration(self) -> int:
        """Number of steps, including those before a restore."""
        return self._iteration

    @property
    def training_iteration(self) -> int:
        """The same as `iteration`."""
        return self._iteration

    @property
    def trial_id(self) -> str:
        """The trial's id; "default" outside of a trial."""
        return self._place.trial_id if self._place else "default"

    @property
    def trial_name(self) -> str:
        """The trial's name; "default" outside of a trial."""
        return self._place.trial_name if self._place else "default"

    @property
    def trial_resources(self) -> PlacementGroupFactory | None:
        """The resources of the trial; None outside a trial."""
        return self._place.resources if self._place else None

    def get_config(self) -> Config:
        """Return the hyperparameters."""
        return self.config


def delete_folder(path: str) -> None:
    """Delete a local folder; a missing one is as good."""
    shutil.rmtree(path, ignore_errors=True)


#: Names of older Rays.
__getattr__ = names_of(__name__)
