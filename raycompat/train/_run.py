"""`TrainRunContext`: the configuration of a run, for callbacks."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from typing import Any

from raycompat.train._configs import RunConfig, ScalingConfig


@dataclass(frozen=True)
class TrainRunContext:
    """The configuration of a run.

    Attributes
    ----------
    run_id : str
        Identifies the run; 32 hexadecimal digits.

    Notes
    -----
    Ray source: ``ray.train.v2.api.context.TrainRunContext``, 2.60.0. No known difference.
    """

    run_id: str = field(init=False, default_factory=lambda: uuid.uuid4().hex)
    run_config: RunConfig
    train_loop_config: dict[str, Any] | None
    scaling_config: ScalingConfig
    backend_config: Any
    dataset_config: Any

    def get_run_config(self) -> RunConfig:
        """Return the configuration of the run."""
        return self.run_config
