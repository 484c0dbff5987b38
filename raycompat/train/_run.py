"""`TrainRunContext`: the configuration of a run, for callbacks."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from raycompat.train._configs import RunConfig, ScalingConfig

if TYPE_CHECKING:
    from raycompat.train._data_config import DataConfig
    from raycompat.train._types import Config
    from raycompat.train.backend import BackendConfig


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
    train_loop_config: Config | None
    scaling_config: ScalingConfig
    backend_config: BackendConfig
    dataset_config: DataConfig

    def get_run_config(self) -> RunConfig:
        """Return the configuration of the run."""
        return self.run_config
