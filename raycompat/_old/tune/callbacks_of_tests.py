"""Callbacks of Ray's own tests, which its examples of 2020 to 2023 have, too."""

from __future__ import annotations

import collections
import json
import os
import time
from pathlib import Path
from typing import Any

from raycompat.exceptions import UnsupportedRayFeatureError
from raycompat.tune.callback import Callback

#: Seconds between two writings of the progress.
_INTERVAL_S = 60


class FailureInjectorCallback(Callback):
    """Ends nodes of a cluster of Ray's autoscaler by chance; elsewhere it has no effect.

    Parameters
    ----------
    config_path : str, default "~/ray_bootstrap_config.yaml"
        The file with the cluster, on its head node.
    probability, time_between_checks : float
        When a node ends.
    disable : bool, default False
        Whether no node ends.

    Raises
    ------
    UnsupportedRayFeatureError
        When there is such a file.
    """

    def __init__(
        self,
        config_path: str = "~/ray_bootstrap_config.yaml",
        probability: float = 0.1,
        time_between_checks: float = 0,
        disable: bool = False,
    ) -> None:
        if not disable and Path(config_path).expanduser().exists():
            raise UnsupportedRayFeatureError(
                f"FailureInjectorCallback({config_path!r})",
                "Ray's autoscaler is not part of raycompat",
                "leave the callback out",
            )


class ProgressCallback(Callback):
    """Writes the number of trials in each state into a file, once a minute.

    The file is that of the environment variable ``TEST_OUTPUT_JSON``, or
    ``/tmp/release_test.json``.
    """

    def __init__(self) -> None:
        self._written_at = 0.0

    def on_step_end(self, iteration: int, trials: list[Any], **info: Any) -> None:
        """Write the file, if a minute has passed."""
        now = time.time()
        if now - self._written_at < _INTERVAL_S:
            return
        self._written_at = now
        states = collections.Counter(trial.status for trial in trials)
        progress = {"last_update": now, "iteration": iteration, "trial_states": states}
        path = os.environ.get("TEST_OUTPUT_JSON", "/tmp/release_test.json")
        Path(path).write_text(json.dumps(progress))
