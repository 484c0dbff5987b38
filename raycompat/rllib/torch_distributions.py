"""Distributions of actions as modules and learners of programs use them, in PyTorch."""

from __future__ import annotations

from typing import Any, Self

import torch
from torch.distributions import Categorical, Independent, Normal, kl_divergence

from raycompat.rllib.distributions import LOG_STD_RANGE, Layout
from raycompat.rllib.utils.error import UnsupportedSpaceException


class TorchDistribution:
    """A distribution of actions for each row of a batch.

    Parameters
    ----------
    *args, **kwargs
        Given to ``_get_torch_distribution``, which a subclass writes: it returns a distribution of
        ``torch.distributions``.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._dist = self._get_torch_distribution(*args, **kwargs)

    def _get_torch_distribution(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__}._get_torch_distribution is not written.")

    @classmethod
    def from_logits(cls, logits: Any, **kwargs: Any) -> Self:
        """Return the distribution that a network's outputs describe.

        Parameters
        ----------
        logits : torch.Tensor, shape (rows, numbers)
        **kwargs
            They have no effect.
        """
        raise NotImplementedError(f"{cls.__name__}.from_logits is not written.")

    def sample(self, *, sample_shape: Any = ()) -> Any:
        """Return random actions."""
        return self._dist.sample(torch.Size(sample_shape))

    def logp(self, value: Any, **kwargs: Any) -> Any:
        """Return the logarithms of chances or densities of actions, of shape (rows,)."""
        return self._dist.log_prob(value)

    def entropy(self) -> Any:
        """Return the entropies, in nats, of shape (rows,)."""
        return self._dist.entropy()

    def kl(self, other: TorchDistribution, **kwargs: Any) -> Any:
        """Return how far another distribution is from this one, of shape (rows,)."""
        return kl_divergence(self._dist, other._dist)

    def to_deterministic(self) -> TorchDeterministic:
        """Return what always gives the likeliest actions."""
        raise NotImplementedError(f"{type(self).__name__}.to_deterministic is not written.")


class TorchDeterministic(TorchDistribution):
    """Always the same actions.

    Parameters
    ----------
    loc : torch.Tensor
        The actions.
    """

    def __init__(self, loc: Any) -> None:
        self._dist = loc

    @classmethod
    def from_logits(cls, logits: Any, **kwargs: Any) -> Self:
        """Return what gives the network's outputs as actions."""
        return cls(logits)

    def sample(self, *, sample_shape: Any = ()) -> Any:
        """Return the actions."""
        return self._dist


class TorchCategorical(TorchDistribution):
    """One of several choices.

    Parameters
    ----------
    logits, probs : torch.Tensor, shape (rows, choices), optional
        Unnormalized logarithms of chances, or the chances.
    """

    def __init__(self, logits: Any = None, probs: Any = None) -> None:
        self._dist = Categorical(probs, logits)

    @classmethod
    def from_logits(cls, logits: Any, **kwargs: Any) -> Self:
        """Return the distribution of choices with these logits."""
        return cls(logits=logits)

    def to_deterministic(self) -> TorchDeterministic:
        """Return what always gives the likeliest choices."""
        return TorchDeterministic(self._dist.logits.argmax(-1))


class TorchDiagGaussian(TorchDistribution):
    """Numbers, each normally distributed and independent of the others.

    Parameters
    ----------
    loc, scale : torch.Tensor, shape (rows, numbers)
        Means and standard deviations.
    """

    def __init__(self, loc: Any, scale: Any) -> None:
        self._dist = Independent(Normal(loc, scale), 1)

    @classmethod
    def from_logits(cls, logits: Any, **kwargs: Any) -> Self:
        """Return the distribution of means and logarithms of deviations, one after the other."""
        mean, log_std = logits.chunk(2, -1)
        return cls(mean, log_std.clamp(*LOG_STD_RANGE).exp())

    def to_deterministic(self) -> TorchDeterministic:
        """Return what always gives the means."""
        return TorchDeterministic(self._dist.mean)


def class_for(layout: Layout) -> type[TorchDistribution]:
    """Return the class of distributions for actions.

    Raises
    ------
    UnsupportedSpaceException
        When an action consists of several parts.
    """
    if len(layout) != 1:
        raise UnsupportedSpaceException(
            f"An RLModule with actions of {len(layout)} parts: expected a Discrete or a Box space."
        )
    return TorchCategorical if layout[0].is_discrete else TorchDiagGaussian
