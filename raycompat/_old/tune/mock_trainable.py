"""The trainable of Ray's examples: its score rises with the number of steps."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from raycompat.tune.registry import register_trainable
from raycompat.tune.trainable import Trainable

#: The name under which `register_mock_trainable` registers the class.
MOCK_TRAINABLE_NAME = "mock_trainable"


class MyTrainableClass(Trainable):
    """Reports ``episode_reward_mean``, which rises with time; `width` and `height` shape the curve."""

    def setup(self, config: dict[str, Any]) -> None:
        """Begin at step 0."""
        self.timestep = 0

    def step(self) -> dict[str, Any]:
        """Return the value of the curve at the next step."""
        self.timestep += 1
        curve = np.tanh(self.timestep / self.config.get("width", 1))
        time.sleep(self.config.get("sleep", 0))
        return {"episode_reward_mean": curve * self.config.get("height", 1)}

    def save_checkpoint(self, checkpoint_dir: str) -> dict[str, Any]:
        """Return the number of steps."""
        return {"timestep": self.timestep}

    def load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Continue from it."""
        self.timestep = checkpoint["timestep"]


def register_mock_trainable() -> None:
    """Let experiments name the class as `MOCK_TRAINABLE_NAME`."""
    register_trainable(MOCK_TRAINABLE_NAME, MyTrainableClass)
