"""Returns and advantages: the value of a step, from the rewards that followed it.

Arrays have the shape (steps, environments). An episode that *terminated* has no value after its last
step; one that was *truncated*, by a time limit or by the end of the sample, has the value of the
observation that would have come next.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from raycompat.rllib._types import AlgorithmOptions, Array


def generalized_advantages(
    rewards: NDArray[np.floating],
    values: NDArray[np.floating],
    next_values: NDArray[np.floating],
    terminateds: NDArray[np.bool_],
    truncateds: NDArray[np.bool_],
    gamma: float,
    lambda_: float,
) -> NDArray[np.float32]:
    r"""Return advantages by generalized advantage estimation.

    Parameters
    ----------
    rewards, values : array of float, shape (steps, environments)
        The rewards, and the critic's values of the observations before the steps.
    next_values : array of float, shape (steps, environments)
        The critic's values of the observations after the steps; where an episode was truncated, of its
        last observation, not of the next episode's first.
    terminateds, truncateds : array of bool, shape (steps, environments)
        How the episode ended with this step.
    gamma : float, 0 to 1
        The discount of rewards, for each step.
    lambda_ : float, 0 to 1
        0 trusts the critic after one step, 1 the rewards alone.

    Returns
    -------
    array of float32, shape (steps, environments)
        Their sum with `values` is the target of the critic.

    Notes
    -----
    Schulman et al., "High-dimensional continuous control using generalized advantage estimation"
    (arXiv 1506.02438), equation 16: :math:`A_t = \delta_t + \gamma\lambda A_{t+1}` with
    :math:`\delta_t = r_t + \gamma V(s_{t+1}) - V(s_t)`.
    """
    goes_on = 1.0 - np.asarray(terminateds, np.float32)
    same_episode = goes_on * (1.0 - np.asarray(truncateds, np.float32))
    deltas = rewards + gamma * next_values * goes_on - values
    advantages = np.empty_like(deltas, dtype=np.float32)
    following = np.zeros(deltas.shape[1:], np.float32)
    for step in range(len(deltas) - 1, -1, -1):
        following = deltas[step] + gamma * lambda_ * same_episode[step] * following
        advantages[step] = following
    return advantages


def discounted_sums(rewards: NDArray[np.floating], gamma: float) -> NDArray[np.float64]:
    """Return the discounted sum of the rewards from each step to the end of one episode.

    Parameters
    ----------
    rewards : array of float, shape (steps,)
    gamma : float, 0 to 1

    Returns
    -------
    array of float64, shape (steps,)
    """
    sums = np.zeros(len(rewards), np.float64)
    following = 0.0
    for step in range(len(rewards) - 1, -1, -1):
        following = float(rewards[step]) + gamma * following
        sums[step] = following
    return sums


def n_step_transitions(
    rewards: NDArray[np.floating],
    terminateds: NDArray[np.bool_],
    truncateds: NDArray[np.bool_],
    gamma: float,
    n_step: int,
) -> tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.float32]]:
    """Join each step with the up to ``n_step - 1`` that follow it in the same episode.

    Parameters
    ----------
    rewards : array of float, shape (steps, environments)
    terminateds, truncateds : array of bool, shape (steps, environments)
    gamma : float, 0 to 1
    n_step : int, at least 1

    Returns
    -------
    sums : array of float32, shape (steps, environments)
        The discounted sum of the joined rewards.
    last : array of int64, shape (steps, environments)
        The index of the last joined step: the observation after it is bootstrapped from.
    discounts : array of float32, shape (steps, environments)
        The factor of the value of that observation; 0 where the episode terminated.

    Notes
    -----
    Sutton and Barto, "Reinforcement learning: an introduction", 2nd edition, 7.1; for Q-learning
    Hessel et al., "Rainbow" (arXiv 1710.02298). Steps near the end of the sample join fewer steps.
    """
    num_steps = len(rewards)
    ended = np.asarray(terminateds, bool) | np.asarray(truncateds, bool)
    sums = np.asarray(rewards, np.float32).copy()
    last = np.broadcast_to(np.arange(num_steps)[:, None], rewards.shape).copy()
    is_open = ~ended
    columns = np.arange(rewards.shape[1])
    for distance in range(1, n_step):
        joins = is_open & (np.arange(num_steps)[:, None] + distance < num_steps)
        if not joins.any():
            break
        ahead = np.minimum(last + 1, num_steps - 1)
        sums += np.where(joins, gamma**distance * np.asarray(rewards)[ahead, columns], 0)
        last = np.where(joins, ahead, last)
        is_open = joins & ~ended[last, columns]
    lengths = last - np.arange(num_steps)[:, None] + 1
    goes_on = ~np.asarray(terminateds, bool)[last, columns]
    discounts = (gamma**lengths * goes_on).astype(np.float32)
    return sums.astype(np.float32), last, discounts


def v_trace(
    rewards: NDArray[np.floating],
    values: NDArray[np.floating],
    next_values: NDArray[np.floating],
    terminateds: NDArray[np.bool_],
    truncateds: NDArray[np.bool_],
    ratios: NDArray[np.floating],
    gamma: float,
    lambda_: float = 1.0,
    clip: float = 1.0,
    clip_of_policy: float = 1.0,
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    r"""Return the targets of a critic, and advantages, for steps that an older policy has played.

    Parameters
    ----------
    rewards, values, next_values : array of float, shape (steps, environments)
        As in `generalized_advantages`.
    terminateds, truncateds : array of bool, shape (steps, environments)
        How the episode ended with this step.
    ratios : array of float, shape (steps, environments)
        How much likelier the action is by the policy that learns than by the one that played.
    gamma : float, 0 to 1
        The discount of rewards, for each step.
    lambda_ : float, 0 to 1
        0 trusts the critic after one step, 1 the rewards.
    clip, clip_of_policy : float
        The largest ratio that counts, for targets and for advantages.

    Returns
    -------
    targets, advantages : array of float32, shape (steps, environments)

    Notes
    -----
    Espeholt et al., "IMPALA: scalable distributed deep-RL" (arXiv 1802.01561), equation 1 and section
    4.2: :math:`v_s - V(x_s) = \delta_s + \gamma c_s (v_{s+1} - V(x_{s+1}))`. Where all ratios are 1,
    targets less values are the generalized advantages.
    """
    goes_on = 1.0 - np.asarray(terminateds, np.float32)
    same_episode = goes_on * (1.0 - np.asarray(truncateds, np.float32))
    clipped = np.minimum(ratios, clip)
    deltas = clipped * (rewards + gamma * next_values * goes_on - values)
    errors = np.zeros_like(deltas, dtype=np.float32)
    following = np.zeros(deltas.shape[1:], np.float32)
    for step in range(len(deltas) - 1, -1, -1):
        cut = lambda_ * np.minimum(ratios[step], 1.0)
        following = deltas[step] + gamma * cut * same_episode[step] * following
        errors[step] = following
    targets = (values + errors).astype(np.float32)
    next_targets = np.array(next_values, np.float32)
    next_targets[:-1] = np.where(same_episode[:-1] > 0, targets[1:], next_targets[:-1])
    surprise = rewards + gamma * next_targets * goes_on - values
    return targets, (np.minimum(ratios, clip_of_policy) * surprise).astype(np.float32)


def with_targets(columns: dict[str, Array], gamma: float, lambda_: float) -> dict[str, Array]:
    """Return the columns of a sample, and ``advantages`` and the critic's ``targets``.

    Parameters
    ----------
    columns : dict of arrays, each of shape (steps, environments, ...)
        See `Sample`.
    gamma, lambda_ : float
        See `generalized_advantages`.

    Notes
    -----
    Columns that have them, because a program has made them, stay as they are.
    """
    if "advantages" in columns and "targets" in columns:
        return columns
    advantages = generalized_advantages(
        columns["rewards"],
        columns["values"],
        columns["next_values"],
        columns["terminateds"],
        columns["truncateds"],
        gamma,
        lambda_,
    )
    return {**columns, "advantages": advantages, "targets": advantages + columns["values"]}


def with_advantages(columns: dict[str, Array], settings: AlgorithmOptions) -> dict[str, Array]:
    """Return the columns of a sample, and ``advantages`` and ``targets``; see `with_targets`.

    Parameters
    ----------
    columns : dict of arrays, each of shape (steps, environments, ...)
    settings : PPOConfig
        Its ``gamma``, ``lambda_``, ``use_gae`` and ``use_critic`` count.
    """
    lambda_ = settings.lambda_ if settings.use_gae else 1.0
    if settings.use_critic:
        return with_targets(columns, settings.gamma, lambda_)
    without = {name: np.zeros_like(columns[name]) for name in ("values", "next_values")}
    return with_targets({**columns, **without}, settings.gamma, lambda_)


def normalized_advantages(
    advantages: NDArray[np.floating], mask: NDArray[np.bool_] | None
) -> NDArray[np.float32]:
    """Return advantages with mean 0 and deviation 1 over the steps of a mask, or over all."""
    known = advantages if mask is None else advantages[mask]
    deviation = max(1e-4, float(known.std()))
    scaled: NDArray[np.float32] = (advantages - known.mean()) / deviation
    return scaled
