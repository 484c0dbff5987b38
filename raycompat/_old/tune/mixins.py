"""`wandb_mixin`, `mlflow_mixin`, `WandbTrainableMixin`: trials whose code logs to a run (0.8 to 1.13).

The config of a trial has the options of the run, under the key ``wandb`` or ``mlflow``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from raycompat._old.air.mlflow import setup_mlflow
from raycompat._old.air.wandb import setup_wandb

_R = TypeVar("_R")


def wandb_mixin(func: Callable[..., _R]) -> Callable[..., _R]:
    """Let a trial's function log to a run of Weights & Biases: call ``wandb.log`` in it.

    Parameters
    ----------
    func : callable
        A function of the config, whose key ``wandb`` has ``project`` and others of ``wandb.init``.
    """
    return _begun_with(_start_wandb, func)


def mlflow_mixin(func: Callable[..., _R]) -> Callable[..., _R]:
    """Let a trial's function log to a run of MLflow: call ``mlflow.log_metric`` in it.

    Parameters
    ----------
    func : callable
        A function of the config, whose key ``mlflow`` has ``tracking_uri``, ``experiment_name`` or
        ``experiment_id``, and ``token``.
    """
    return _begun_with(_start_mlflow, func)


class WandbTrainableMixin:
    """Gives a subclass of `Trainable` a run of Weights & Biases, as its attribute ``wandb``.

    Parameters
    ----------
    config : dict
        The config of the trial. Its key ``wandb`` has the options of ``wandb.init``.
    *args, **kwargs
        Further arguments of `Trainable`.
    """

    def __init__(self, config: dict[str, Any], *args: Any, **kwargs: Any) -> None:
        super().__init__(config, *args, **kwargs)  # type: ignore[call-arg]
        self.wandb = _start_wandb(
            config,
            id=self.trial_id,  # type: ignore[attr-defined]
            name=self.trial_name,  # type: ignore[attr-defined]
        )


def _begun_with(
    start: Callable[[dict[str, Any]], Any], func: Callable[..., _R]
) -> Callable[..., _R]:
    @functools.wraps(func)
    def run(config: dict[str, Any], *args: Any, **kwargs: Any) -> _R:
        start(config)
        return func(config, *args, **kwargs)

    return run


def _start_wandb(config: dict[str, Any], **defaults: Any) -> Any:
    options, others = _divided(config, "wandb", "project")
    return setup_wandb(others, **{**defaults, **options})


def _start_mlflow(config: dict[str, Any]) -> None:
    options, _ = _divided(config, "mlflow", "tracking_uri")
    token = options.pop("token", None)
    setup_mlflow(tracking_token=token, **options)


def _divided(
    config: dict[str, Any], key: str, needed: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the options of the run, and the other values of a config."""
    if needed not in config.get(key, {}):
        raise ValueError(
            f"The config of the trial has no {needed!r} for {key}: expected "
            f'config={{"{key}": {{"{needed}": ...}}, ...}}.'
        )
    others = dict(config)
    return dict(others.pop(key)), others
