"""``update_global_seed_if_necessary`` of ``ray.rllib.utils.debug``."""

from __future__ import annotations

import random
import sys

import numpy as np


def update_global_seed_if_necessary(framework: str | None = None, seed: int | None = None) -> None:
    """Seed the random numbers of Python, numpy and a framework, for all of this process.

    Parameters
    ----------
    framework : {"torch", "tf", "tf2"}, optional
        Where it has been imported.
    seed : int, optional
        Without one nothing happens.
    """
    if seed is None:
        return
    random.seed(seed)
    np.random.seed(seed)
    if framework == "torch" and (torch := sys.modules.get("torch")):
        torch.manual_seed(seed)
    if framework in ("tf", "tf2") and (tensorflow := sys.modules.get("tensorflow")):
        tensorflow.random.set_seed(seed)


__all__ = ["update_global_seed_if_necessary"]
