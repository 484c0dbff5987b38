"""`RunConfig` and its parts: where and how an experiment runs."""

from __future__ import annotations

from dataclasses import dataclass

from raycompat.train import _run_configs as air


@dataclass(repr=False)
class CheckpointConfig(air.CheckpointConfig):
    """The checkpoints of a trial that are kept, and when a class trainable makes them.

    Examples
    --------
    >>> from raycompat import tune
    >>> best_two = tune.CheckpointConfig(
    ...     num_to_keep=2,
    ...     checkpoint_score_attribute="accuracy",
    ...     checkpoint_score_order="max",
    ... )

    Notes
    -----
    Ray source: ``ray.tune.CheckpointConfig``, 2.60.0. Parameters as in
    `raycompat.air.CheckpointConfig`.
    """


@dataclass(repr=False)
class FailureConfig(air.FailureConfig):
    """How often a failed trial is retried.

    Examples
    --------
    >>> from raycompat import tune
    >>> tune.FailureConfig(max_failures=3).max_failures
    3

    Notes
    -----
    Ray source: ``ray.tune.FailureConfig``, 2.60.0. Parameters as in `raycompat.air.FailureConfig`.
    """


@dataclass(repr=False)
class RunConfig(air.RunConfig):
    """The place of an experiment's results, when its trials stop, and what is shown during the run.

    Examples
    --------
    >>> from raycompat import tune
    >>> config = tune.RunConfig(
    ...     name="digits",
    ...     storage_path="/tmp/experiments",
    ...     stop={"training_iteration": 20},
    ...     checkpoint_config=tune.CheckpointConfig(num_to_keep=2),
    ...     failure_config=tune.FailureConfig(max_failures=1),
    ... )

    Notes
    -----
    Ray source: ``ray.tune.RunConfig``, 2.60.0. Parameters as in `raycompat.air.RunConfig`.
    """

    def __post_init__(self) -> None:
        self.checkpoint_config = self.checkpoint_config or CheckpointConfig()
        self.failure_config = self.failure_config or FailureConfig()
        super().__post_init__()
