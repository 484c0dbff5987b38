"""`BaseTrainer` of 2.0 to 2.48: a subclass writes ``training_loop``, which runs in one process."""

from __future__ import annotations

import functools
from typing import Any

from raycompat import train
from raycompat._surface import forms
from raycompat.train._configs import ScalingConfig
from raycompat.train._result import Result
from raycompat.train._run_state import RunState
from raycompat.train._trial import InTrial
from raycompat.train.data_parallel_trainer import DataParallelTrainer

__all__ = ["BaseTrainer"]


class _OfAllTrainers(type):
    """Makes `BaseTrainer` the base of all trainers, as it was in Ray."""

    def __instancecheck__(cls, instance: object) -> bool:
        return cls.__subclasscheck__(type(instance))

    def __subclasscheck__(cls, subclass: type) -> bool:
        base = DataParallelTrainer if cls.__dict__.get("_is_base") else cls
        return base in subclass.__mro__


@forms.takes_old_options_in_constructor("ray.train.base_trainer.BaseTrainer")
class BaseTrainer(DataParallelTrainer, metaclass=_OfAllTrainers):
    """Trains by the method ``training_loop`` of a subclass.

    Parameters
    ----------
    scaling_config : ScalingConfig, optional
        ``trainer_resources`` are the resources of the process. The loop reads the rest itself.
    run_config : RunConfig, optional
        The run's name, its folder, and the reaction to failures.
    datasets : dict, optional
        Data sets by name, which the loop has whole, as ``self.datasets``.
    metadata : dict, optional
        Not supported.
    resume_from_checkpoint : Checkpoint, optional
        Is ``self.starting_checkpoint``.
    """

    _is_base = True

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls._is_base = False

    def __init__(
        self,
        *,
        scaling_config: Any = None,
        run_config: Any = None,
        datasets: dict[str, Any] | None = None,
        metadata: dict[str, Any] | None = None,
        resume_from_checkpoint: Any = None,
    ) -> None:
        resources = getattr(scaling_config, "trainer_resources", None) or {"CPU": 1}
        self._of_loop = ScalingConfig(num_workers=1, resources_per_worker=dict(resources))
        super().__init__(
            functools.partial(_run_loop, trainer=self),
            train_loop_config={"datasets": dict(datasets or {})},
            scaling_config=self._of_loop,
            run_config=run_config,
            metadata=metadata,
            resume_from_checkpoint=resume_from_checkpoint,
        )
        self.datasets = dict(datasets or {})
        self.scaling_config = scaling_config or train.ScalingConfig()
        self.starting_checkpoint = resume_from_checkpoint

    def setup(self) -> None:
        """Prepare; called before the loop."""

    def preprocess_datasets(self) -> None:
        """Prepare the data sets; called before the loop."""

    def training_loop(self) -> None:
        """Train, and report by ``train.report``."""
        raise NotImplementedError(f"{type(self).__name__} has no method training_loop().")

    def _run(self, function: Any, state: RunState, in_trial: InTrial | None) -> Result:
        whole, self.datasets = self.datasets, {}  # they go to the loop, and are not divided
        try:
            return super()._run(function, state, in_trial)
        finally:
            self.datasets = whole

    def _arguments(self) -> dict[str, Any]:
        return {**super()._arguments(), "scaling_config": self._of_loop}

    @classmethod
    def _from_arguments(cls, arguments: dict[str, Any]) -> Any:
        return DataParallelTrainer(**{**arguments, "datasets": None})  # its function has all else


def _run_loop(config: dict[str, Any], trainer: BaseTrainer) -> None:
    """Run the loop, in the worker."""
    trainer.datasets = config["datasets"]
    trainer.starting_checkpoint = train.get_checkpoint()
    trainer.setup()
    trainer.preprocess_datasets()
    trainer.training_loop()
