"""Methods and properties that objects of Tune had in older Rays: each takes the object first."""

from __future__ import annotations

import io
import shutil
import tarfile
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from raycompat.tune.trainable.trainable import TrainingResult
from raycompat.util import get_node_ip_address

if TYPE_CHECKING:
    from raycompat.train import SyncConfig
    from raycompat.tune.experiment.experiment import Experiment
    from raycompat.tune.experiment.trial import Trial
    from raycompat.tune.progress_reporter import TuneReporterBase
    from raycompat.tune.trainable.trainable import Trainable


class Resources(NamedTuple):
    """The resources of a trial, as in Ray 0.2 to 1.13."""

    cpu: float
    gpu: float
    memory: float
    custom_resources: dict[str, float]


def resources(trial: Trial) -> Resources:
    """Return what a trial needs in all."""
    needed = dict(trial.placement_group_factory.required_resources)
    cpu, gpu, memory = (needed.pop(name, 0) for name in ("CPU", "GPU", "memory"))
    return Resources(cpu, gpu, memory, needed)


def checkpoint_freq(trial: Trial) -> int:
    """Return after how many results a checkpoint is made; 0 is never."""
    return int(trial.checkpoint_config.checkpoint_frequency)


def checkpoint_at_end(trial: Trial) -> bool:
    """Return whether a checkpoint is made after the last result."""
    return bool(trial.checkpoint_config.checkpoint_at_end)


def keep_checkpoints_num(trial: Trial) -> int | None:
    """Return how many checkpoints are kept; None is all."""
    return trial.checkpoint_config.num_to_keep


def checkpoint_score_attr(trial: Trial) -> str:
    """Return the metric of the best checkpoints, with ``min-`` before it if a low one is better."""
    config = trial.checkpoint_config
    order = "min-" if config.checkpoint_score_order == "min" else ""
    return f"{order}{config.checkpoint_score_attribute or 'training_iteration'}"


def get_trainable_cls(trial: Trial) -> type:
    """Return the class that the trial trains with."""
    from raycompat.tune.registry import get_trainable_cls

    return get_trainable_cls(trial.trainable_name)


def node_ip(trial: Trial) -> str | None:
    """Return the address of the node of its last result; None before there is one."""
    return trial.last_result.get("node_ip")


def upload_dir(config: SyncConfig) -> object:
    """Return where results go by the config, a path or URI; None if it does not say so."""
    return config._storage_path


def remote_checkpoint_dir(of: Trial | Experiment) -> str | None:
    """Return where the files are, if that is not a folder of this machine."""
    return None if of.folder.is_local else of.folder.uri


def uses_placement_groups(trial: Trial) -> bool:
    """Return True: each trial has bundles."""
    return True


def is_restoring(trial: Trial) -> bool:
    """Return False: a trial that runs has been restored."""
    return False


def folder_of_experiment(experiment: Experiment) -> str:
    """Return the folder of an experiment."""
    return experiment.folder.path


def folder_of_experiments(experiment: Experiment) -> str:
    """Return the folder in which the folder of an experiment is."""
    return str(Path(experiment.folder.path).parent)


def save_to_object(trainable: Trainable) -> bytes:
    """Return a checkpoint as bytes."""
    packed = io.BytesIO()
    with tempfile.TemporaryDirectory() as folder:
        path = _folder_of(trainable.save(folder))
        with tarfile.open(fileobj=packed, mode="w") as archive:
            archive.add(path, arcname=".")
    return packed.getvalue()


def restore_from_object(trainable: Trainable, obj: bytes) -> None:
    """Take the state from a checkpoint of `save_to_object`."""
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(fileobj=io.BytesIO(obj)) as archive:
            archive.extractall(folder, filter="data")
        trainable.restore(folder)


def delete_checkpoint(trainable: Trainable, checkpoint_path: str | TrainingResult) -> None:
    """Delete the folder of a checkpoint, which `Trainable.save` has returned."""
    path = _folder_of(checkpoint_path)
    if path.is_file():  # as older trainables returned it
        path = path.parent
    if path.is_dir():
        shutil.rmtree(path)


def _folder_of(saved: str | TrainingResult) -> Path:
    """Return the path of what `Trainable.save` has returned."""
    if isinstance(saved, str):
        return Path(saved)
    if saved.checkpoint is None:
        raise ValueError("The trainable has saved nothing: write its save_checkpoint().")
    return Path(saved.checkpoint.path)


def get_current_ip(trainable: Trainable) -> str:
    """Return the address of the node."""
    return get_node_ip_address()


def set_total_samples(reporter: TuneReporterBase, total_samples: int) -> None:
    """Set how many trials are planned."""
    reporter._total_samples = total_samples
