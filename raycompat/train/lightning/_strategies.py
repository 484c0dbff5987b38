"""What tells Lightning of the workers: strategies, and the environment of its processes."""

from __future__ import annotations

from typing import Any

from raycompat.train import _functions
from raycompat.train._joined import Joined
from raycompat.train.torch import get_device

_STRATEGIES = ("lightning.pytorch.strategies", "pytorch_lightning.strategies")
_PLUGINS = (
    "lightning.pytorch.plugins.environments",
    "pytorch_lightning.plugins.environments",
)

_PROGRAM = "lightning.Trainer(strategy=RayDDPStrategy(), plugins=[RayLightningEnvironment()])"


class _OfWorkers(Joined):
    """A strategy whose processes are the workers: each has one device and its share of the samples."""

    @property
    def root_device(self) -> Any:
        """The device of this worker, a ``torch.device``."""
        return get_device()

    @root_device.setter
    def root_device(self, device: object) -> None:
        """Accept Lightning's own choice, without effect."""

    @property
    def distributed_sampler_kwargs(self) -> dict[str, int]:
        """The arguments of a ``DistributedSampler``: the number of workers, and this one's rank."""
        context = _functions.get_context()
        return {"num_replicas": context.get_world_size(), "rank": context.get_world_rank()}


class RayDDPStrategy(_OfWorkers):
    """Lightning's ``DDPStrategy`` among the workers of a `TorchTrainer`; it takes the same arguments.

    Examples
    --------
    In the function of a worker::

        trainer = lightning.Trainer(
            strategy=RayDDPStrategy(),
            plugins=[RayLightningEnvironment()],
            callbacks=[RayTrainReportCallback()],
            devices="auto",
            accelerator="auto",
            enable_checkpointing=False,
        )
        trainer = prepare_trainer(trainer)
        trainer.fit(model, train_dataloaders=batches)

    Raises
    ------
    ImportError
        When Lightning is not installed.
    """

    _library = (_STRATEGIES, "DDPStrategy")


class RayFSDPStrategy(_OfWorkers):
    """Lightning's ``FSDPStrategy`` among the workers of a `TorchTrainer`; it takes the same arguments.

    Examples
    --------
    In the function of a worker::

        trainer = lightning.Trainer(
            strategy=RayFSDPStrategy(), plugins=[RayLightningEnvironment()]
        )

    Raises
    ------
    ImportError
        When Lightning is not installed.

    Notes
    -----
    Ray source: ``ray.train.lightning.RayFSDPStrategy``, 2.60.0. Like Lightning's, it needs GPUs.
    """

    _library = (_STRATEGIES, "FSDPStrategy")


class RayDeepSpeedStrategy(_OfWorkers):
    """Lightning's ``DeepSpeedStrategy`` among the workers of a `TorchTrainer`, with its arguments.

    Examples
    --------
    In the function of a worker::

        trainer = lightning.Trainer(
            strategy=RayDeepSpeedStrategy(), plugins=[RayLightningEnvironment()]
        )

    Raises
    ------
    ImportError
        When Lightning or DeepSpeed is not installed.

    Notes
    -----
    Ray source: ``ray.train.lightning.RayDeepSpeedStrategy``, 2.60.0. Like Lightning's, it needs GPUs.
    """

    _library = (_STRATEGIES, "DeepSpeedStrategy")


class RayLightningEnvironment(Joined):
    """Lightning's environment of the processes: the workers of a run, with their ranks.

    `args` and `kwargs` are those of Lightning's ``LightningEnvironment``.

    Examples
    --------
    In the function of a worker::

        trainer = lightning.Trainer(
            strategy=RayDDPStrategy(), plugins=[RayLightningEnvironment()]
        )

    Raises
    ------
    ImportError
        When Lightning is not installed.
    """

    _library = (_PLUGINS, "LightningEnvironment")

    @property
    def creates_processes_externally(self) -> bool:
        """True, because Train starts the processes."""
        return True

    def world_size(self) -> int:
        """Return the number of workers."""
        return int(_functions.get_context().get_world_size())

    def global_rank(self) -> int:
        """Return the rank of this worker among all."""
        return int(_functions.get_context().get_world_rank())

    def local_rank(self) -> int:
        """Return its rank among the workers of its node."""
        return int(_functions.get_context().get_local_rank())

    def node_rank(self) -> int:
        """Return the rank of its node."""
        return int(_functions.get_context().get_node_rank())

    def set_world_size(self, size: int) -> None:
        """Do nothing: the run decides."""

    def set_global_rank(self, rank: int) -> None:
        """Do nothing: the run decides."""

    def teardown(self) -> None:
        """Do nothing: variables that Lightning has not set stay."""


def prepare_trainer(trainer: Any) -> Any:
    """Return the trainer if it trains among the workers; raise an error if it would train alone.

    Parameters
    ----------
    trainer : lightning.Trainer
        Made with one of the strategies here, and with `RayLightningEnvironment`.

    Returns
    -------
    lightning.Trainer
        The same object.

    Examples
    --------
    In the function of a worker::

        trainer = lightning.Trainer(
            strategy=RayDDPStrategy(), plugins=[RayLightningEnvironment()]
        )
        trainer = prepare_trainer(trainer)

    Raises
    ------
    RuntimeError
        When its strategy, or its environment, is Lightning's own.
    """
    for what, value, kind, names in [
        (
            "strategy",
            trainer.strategy,
            _OfWorkers,
            "RayDDPStrategy, RayFSDPStrategy or RayDeepSpeedStrategy",
        ),
        (
            "environment (a plugin)",
            getattr(trainer.strategy, "cluster_environment", None),
            RayLightningEnvironment,
            "RayLightningEnvironment",
        ),
    ]:
        if not isinstance(value, kind):
            raise RuntimeError(
                f"The {what} of the trainer is a {type(value).__name__}, which does not know the "
                f"workers of this run: each would train alone. Expected {names}, as in {_PROGRAM}."
            )
    return trainer
