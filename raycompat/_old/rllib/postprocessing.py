"""Advantages of pieces of episodes, for ``postprocess_fn``: ``ray.rllib.evaluation.postprocessing``."""

from __future__ import annotations

from typing import Any

import numpy as np

from raycompat._old.rllib.sample_batch import SampleBatch
from raycompat.rllib.returns import generalized_advantages


class Postprocessing:
    """Names of the columns that `compute_advantages` adds."""

    ADVANTAGES = "advantages"
    VALUE_TARGETS = "value_targets"


def discount_cumsum(x: Any, gamma: float) -> Any:
    """Return the discounted sum of each number and those after it.

    Parameters
    ----------
    x : array of numbers, shape (steps,)
    gamma : float
        Discount of a step, 0 to 1.

    Returns
    -------
    array of float32, shape (steps,)
    """
    found, total = np.zeros(len(x), np.float32), 0.0
    for place in reversed(range(len(x))):
        total = float(x[place]) + gamma * total
        found[place] = total
    return found


def compute_advantages(
    rollout: SampleBatch,
    last_r: float,
    gamma: float = 0.9,
    lambda_: float = 1.0,
    use_gae: bool = True,
    use_critic: bool = True,
    **kwargs: Any,
) -> SampleBatch:
    """Add the columns ``advantages`` and ``value_targets`` to a piece of an episode; return it.

    Parameters
    ----------
    rollout : SampleBatch
        With ``rewards``, and with ``vf_preds`` where there is a critic.
    last_r : float
        The value of the observation after it: 0 where the episode has ended.
    gamma : float, default 0.9
        Discount of a step, 0 to 1.
    lambda_ : float, default 1.0
        How far rewards count instead of values, 0 to 1.
    use_gae : bool, default True
        Generalized advantages; if not, advantages are returns less values.
    use_critic : bool, default True
        Whether values count. Without, advantages are returns, and targets are 0.
    **kwargs
        They have no effect.

    Raises
    ------
    ValueError
        For `use_gae` without `use_critic`.

    Notes
    -----
    Schulman et al., "High-dimensional continuous control using generalized advantage estimation"
    (arXiv 1506.02438).
    """
    if use_gae and not use_critic:
        raise ValueError(
            "use_gae=True with use_critic=False: generalized advantages need the critic's values. "
            "Use use_gae=False, or use_critic=True."
        )
    rewards = np.asarray(rollout["rewards"], np.float32)
    if use_gae:
        values = np.asarray(rollout["vf_preds"], np.float32)
        nexts = np.append(values[1:], np.float32(last_r))
        never = np.zeros((len(rewards), 1), bool)
        advantages = generalized_advantages(
            rewards[:, None], values[:, None], nexts[:, None], never, never, gamma, lambda_
        )[:, 0]
        targets = advantages + values
    else:
        returns = discount_cumsum(np.append(rewards, last_r), gamma)[:-1]
        advantages = returns - np.asarray(rollout["vf_preds"]) if use_critic else returns
        targets = returns if use_critic else np.zeros_like(returns)
    rollout["advantages"] = advantages.astype(np.float32)
    rollout["value_targets"] = targets.astype(np.float32)
    return rollout


#: The name until 0.8.
discount = discount_cumsum

__all__ = ["Postprocessing", "compute_advantages", "discount", "discount_cumsum"]
