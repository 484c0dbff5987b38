"""The arithmetic of evolution strategies: shared noise, ranks of returns, and the gradient.

Salimans et al., "Evolution strategies as a scalable alternative to reinforcement learning"
(arXiv 1703.03864). Each worker has the same table of noise, so that an index into it stands for a whole
vector: what travels is a number, not a network.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray


def make_noise(size: int, seed: int) -> NDArray[np.float32]:
    """Return a table of standard normal noise.

    Parameters
    ----------
    size : int
        How many numbers, 4 bytes each.
    seed : int

    Returns
    -------
    array of float32, shape (size,)
    """
    return np.random.default_rng(seed).standard_normal(size, dtype=np.float32)


def noise_size(num_parameters: int, wanted: int | None = None) -> int:
    """Return how many numbers a table needs for a network.

    Parameters
    ----------
    num_parameters : int
        The length of one vector of noise.
    wanted : int, optional
        Maximum number. By default 16 million, 64 MB.

    Returns
    -------
    int
        At least twice the length of a vector, at most `wanted`; enough that 50 vectors that do not
        overlap fit, and a million in any case.
    """
    most = 16_000_000 if wanted is None else wanted
    return max(2 * num_parameters, min(most, max(1_000_000, 50 * num_parameters)))


def centered_ranks(returns: ArrayLike) -> NDArray[np.float32]:
    """Return the ranks of numbers, spread evenly from -0.5 to 0.5.

    Ranks make the step independent of the scale of the rewards and of single lucky episodes.

    Parameters
    ----------
    returns : array of float, any shape

    Returns
    -------
    array of float32, of the same shape
        Equal numbers have neighbouring ranks, in their order. A single number has rank 0.
    """
    flat = np.asarray(returns).ravel()
    if flat.size < 2:
        return np.zeros(np.shape(returns), np.float32)
    ranks = np.empty(flat.size, np.float32)
    ranks[np.argsort(flat, kind="stable")] = np.arange(flat.size, dtype=np.float32)
    return (ranks / (flat.size - 1) - 0.5).reshape(np.shape(returns)).astype(np.float32)


def ascent_direction(
    noise: NDArray[np.float32],
    indices: NDArray[np.int64],
    pair_returns: NDArray[np.floating],
    num_parameters: int,
) -> NDArray[np.float32]:
    """Return the direction in which returns grow, from antithetic pairs of episodes.

    Parameters
    ----------
    noise : array of float32, shape (size,)
        The table.
    indices : array of int, shape (pairs,)
        Where each pair's vector begins in it.
    pair_returns : array of float, shape (pairs, 2)
        The returns with the vector added to the parameters, and with it subtracted.
    num_parameters : int

    Returns
    -------
    array of float32, shape (num_parameters,)
        The mean over all episodes of the ranked difference times the vector.
    """
    ranks = centered_ranks(pair_returns)
    total = np.zeros(num_parameters, np.float32)
    for index, difference in zip(indices, ranks[:, 0] - ranks[:, 1], strict=True):
        total += difference * noise[index : index + num_parameters]
    return total / np.float32(pair_returns.size)
