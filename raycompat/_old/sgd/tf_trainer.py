"""`TFTrainer` of ``ray.util.sgd`` (0.8 to 1.13): workers that fit a Keras model, call by call."""

from __future__ import annotations

import importlib
import pickle
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import raycompat as ray
from raycompat._old.sgd.trials import group_of_trial, needs_of_workers
from raycompat.train._configs import ScalingConfig
from raycompat.train._worker import RayTrainWorker
from raycompat.train._worker_group import WorkerGroup
from raycompat.tune import PlacementGroupFactory, Trainable

__all__ = ["TFTrainable", "TFTrainer"]


class TFTrainer:
    """Trains a Keras model on several workers, which stay between calls.

    Parameters
    ----------
    model_creator : callable
        Takes `config`; returns a compiled Keras model.
    data_creator : callable
        Takes `config`; returns two ``tf.data.Dataset`` of batches, for training and for validation.
    config : dict, optional
        For the two functions. ``fit_config`` has options of ``model.fit``, ``evaluate_config`` those
        of ``model.evaluate``.
    num_replicas : int, default 1
        Number of workers. Each trains on its part of every batch.
    num_cpus_per_worker : float, default 1
    use_gpu : bool, default False
        Whether each worker has a GPU.
    verbose : bool, default False
        Whether the first worker prints its progress.

    Raises
    ------
    RayTaskError
        When one of the functions raised.

    Notes
    -----
    Ray source: ``ray.util.sgd.tf.TFTrainer``, 1.12.1. Differs from Ray: several workers need a model
    of Keras 3, and average their gradients without a ``MultiWorkerMirroredStrategy``; `restore` brings
    back the optimizer, too.
    """

    def __init__(
        self,
        model_creator: Callable[[dict[str, Any]], Any],
        data_creator: Callable[[dict[str, Any]], Any],
        config: dict[str, Any] | None = None,
        num_replicas: int = 1,
        num_cpus_per_worker: float = 1,
        use_gpu: bool = False,
        verbose: bool = False,
    ) -> None:
        self.model_creator = model_creator
        self.data_creator = data_creator
        self.config = dict(config or {})
        self.num_replicas = num_replicas
        self.verbose = verbose
        if not ray.is_initialized():
            ray.init()
        scaling = ScalingConfig(
            num_workers=num_replicas,
            use_gpu=bool(use_gpu),
            resources_per_worker={"CPU": num_cpus_per_worker},
        )
        self._group = WorkerGroup(scaling, RayTrainWorker, {}, group_of_trial(scaling))
        try:
            self._group.start()
            creators, name = (model_creator, data_creator), f"sgd:{uuid.uuid4().hex}"
            ray.get(
                [
                    self._group.execute_single_async(
                        rank, _call, "set_up", creators, self.config, (rank, num_replicas), name
                    )
                    for rank in range(num_replicas)
                ]
            )
        except BaseException:
            self.shutdown()
            raise

    def train(self) -> dict[str, Any]:
        """Fit the model on all workers.

        Returns
        -------
        dict
            The metrics of the last epoch, with the prefix ``train_``.
        """
        found: list[dict[str, Any]] = ray.get(
            [
                self._group.execute_single_async(rank, _call, "train", self.verbose and rank == 0)
                for rank in range(self.num_replicas)
            ]
        )
        return found[0]

    def validate(self) -> dict[str, Any]:
        """Evaluate the model on the first worker; return metrics with the prefix ``validation_``."""
        found: dict[str, Any] = self._group.execute_single(0, _call, "validate", self.verbose)
        return found

    def get_model(self) -> Any:
        """Return a new model with the weights that the workers have."""
        model = self.model_creator(self.config)
        model.set_weights(self._state()["weights"])
        return model

    def _state(self) -> dict[str, Any]:
        found: dict[str, Any] = self._group.execute_single(0, _call, "state")
        return found

    def save(self, checkpoint: str) -> str:
        """Write the state into a file; return its path."""
        Path(checkpoint).write_bytes(pickle.dumps(self._state()))
        return checkpoint

    def restore(self, checkpoint: str) -> None:
        """Continue from a file of `save`, which must come from a trusted source."""
        state = ray.put(pickle.loads(Path(checkpoint).read_bytes()))
        self._group.execute(_call, "load", state)

    def shutdown(self) -> None:
        """End the workers."""
        self._group.stop()


class TFTrainable(Trainable):
    """A `TFTrainer` as a trainable, whose options are in the trial's config.

    The config has ``model_creator``, ``data_creator``, ``num_replicas``, ``use_gpu``, and may have
    ``num_cpus_per_worker`` and ``trainer_config``, which is the trainer's ``config``.
    """

    @classmethod
    def default_resource_request(cls, config: dict[str, Any]) -> PlacementGroupFactory:
        """Return a bundle for each worker; the trial itself needs none."""
        cpus = config.get("num_cpus_per_worker", 1)
        return needs_of_workers(config["num_replicas"], cpus, bool(config["use_gpu"]))

    def setup(self, config: dict[str, Any]) -> None:
        """Make the trainer."""
        self._trainer = TFTrainer(
            model_creator=config["model_creator"],
            data_creator=config["data_creator"],
            config=config.get("trainer_config", {}),
            num_replicas=config["num_replicas"],
            use_gpu=config["use_gpu"],
            num_cpus_per_worker=config.get("num_cpus_per_worker", 1),
        )

    def step(self) -> dict[str, Any]:
        """Train and validate."""
        return {**self._trainer.train(), **self._trainer.validate()}

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        """Save the trainer's state."""
        self._trainer.save(f"{checkpoint_dir}/model")

    def load_checkpoint(self, checkpoint_path: Any) -> None:
        """Continue from a state."""
        self._trainer.restore(f"{checkpoint_path}/model")

    def cleanup(self) -> None:
        """End the workers."""
        self._trainer.shutdown()


def _call(function: str, *args: Any) -> Any:
    """Call a function of `tf_worker`, which imports TensorFlow, in a worker's process."""
    worker = importlib.import_module("raycompat._old.sgd.tf_worker")
    return getattr(worker, function)(*args)
