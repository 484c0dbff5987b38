"""Distributions of actions as modules and learners of programs use them, in PyTorch."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, ClassVar, Self

import torch
from torch.distributions import Categorical, Distribution, Independent, Normal, kl_divergence

from raycompat.rllib._types import Space
from raycompat.rllib.distributions import LOG_STD_RANGE, Layout
from raycompat.rllib.spaces import ActionDecoder


class TorchDistribution:
    """A distribution of actions for each row of a batch.

    Parameters
    ----------
    *args, **kwargs
        Given to ``_get_torch_distribution``, which a subclass writes: it returns a distribution of
        ``torch.distributions``.
    """

    def __init__(self, *args: object, **kwargs: object) -> None:
        self._dist = self._get_torch_distribution(*args, **kwargs)

    def _get_torch_distribution(self, *args: Any, **kwargs: Any) -> Distribution:
        raise NotImplementedError(f"{type(self).__name__}._get_torch_distribution is not written.")

    @classmethod
    def from_logits(cls, logits: torch.Tensor, **kwargs: object) -> Self:
        """Return the distribution that a network's outputs describe.

        Parameters
        ----------
        logits : torch.Tensor, shape (rows, numbers)
        **kwargs
            They have no effect.
        """
        raise NotImplementedError(f"{cls.__name__}.from_logits is not written.")

    @staticmethod
    def required_input_dim(space: Space, model_config: object = None, as_list: bool = False) -> Any:
        """Return how many numbers describe the distribution of an action.

        Parameters
        ----------
        space : gymnasium.Space
        model_config : dict, optional
            Has no effect.
        as_list : bool, default False
            Return those of each part of the action.
        """
        counts = [part.num_parameters for part in ActionDecoder(space).layout]
        return counts if as_list else sum(counts)

    def sample(self, *, sample_shape: Sequence[int] = ()) -> torch.Tensor:
        """Return random actions."""
        return self._dist.sample(torch.Size(sample_shape))

    def rsample(self, *, sample_shape: Sequence[int] = ()) -> torch.Tensor:
        """Return random actions through which gradients flow."""
        return self._dist.rsample(torch.Size(sample_shape))

    def logp(self, value: torch.Tensor, **kwargs: object) -> torch.Tensor:
        """Return the logarithms of chances or densities of actions, of shape (rows,)."""
        return self._dist.log_prob(value)

    def entropy(self) -> torch.Tensor:
        """Return the entropies, in nats, of shape (rows,)."""
        return self._dist.entropy()

    def kl(self, other: TorchDistribution, **kwargs: object) -> torch.Tensor:
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

    def __init__(self, loc: torch.Tensor) -> None:
        self._dist = loc
        #: Of an action of several parts, those of each.
        self._flat_child_distributions: list[TorchDeterministic] = []

    @classmethod
    def from_logits(cls, logits: torch.Tensor, **kwargs: object) -> Self:
        """Return what gives the network's outputs as actions."""
        return cls(logits)

    def sample(self, *, sample_shape: Sequence[int] = ()) -> torch.Tensor:
        """Return the actions."""
        return self._dist

    def to_deterministic(self) -> TorchDeterministic:
        """Return the distribution itself."""
        return self


class TorchCategorical(TorchDistribution):
    """One of several choices.

    Parameters
    ----------
    logits, probs : torch.Tensor, shape (rows, choices), optional
        Unnormalized logarithms of chances, or the chances.
    """

    def __init__(
        self, logits: torch.Tensor | None = None, probs: torch.Tensor | None = None
    ) -> None:
        self._dist = Categorical(probs, logits)

    @classmethod
    def from_logits(cls, logits: torch.Tensor, **kwargs: object) -> Self:
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

    def __init__(self, loc: torch.Tensor, scale: torch.Tensor) -> None:
        self._dist = Independent(Normal(loc, scale), 1)

    @classmethod
    def from_logits(cls, logits: torch.Tensor, **kwargs: object) -> Self:
        """Return the distribution of means and logarithms of deviations, one after the other."""
        mean, log_std = logits.chunk(2, -1)
        return cls(mean, log_std.clamp(*LOG_STD_RANGE).exp())

    def to_deterministic(self) -> TorchDeterministic:
        """Return what always gives the means."""
        return TorchDeterministic(self._dist.mean)


class _Parts(TorchDistribution):
    """Parts of an action, which are independent: choices and numbers, one after the other."""

    layout: ClassVar[Layout]

    def __init__(self, parts: list[TorchDistribution]) -> None:
        self._flat_child_distributions = parts

    @classmethod
    def from_logits(cls, logits: torch.Tensor, **kwargs: object) -> Self:
        """Return the distributions of the parts, whose parameters follow one another."""
        each = logits.split([part.num_parameters for part in cls.layout], -1)
        pairs = zip(cls.layout, each, strict=True)
        return cls([class_for((part,)).from_logits(own) for part, own in pairs])

    def sample(self, *, sample_shape: Sequence[int] = ()) -> torch.Tensor:
        """Return random actions, of shape (rows, columns of all parts)."""
        return _joined(
            [each.sample(sample_shape=sample_shape) for each in self._flat_child_distributions],
            self,
        )

    def _columns(
        self, value: torch.Tensor | tuple[torch.Tensor, ...] | list[torch.Tensor]
    ) -> list[torch.Tensor]:
        if isinstance(value, tuple | list):  # an action of each part
            value = torch.cat([own.reshape(len(own), -1).float() for own in value], -1)
        each = value.split([part.width for part in self.layout], -1)
        pairs = zip(self.layout, each, strict=True)
        return [own[..., 0].long() if part.is_discrete else own for part, own in pairs]

    def logp(
        self, value: torch.Tensor | tuple[torch.Tensor, ...] | list[torch.Tensor], **kwargs: object
    ) -> torch.Tensor:
        """Return the sums of the parts' logarithms, of shape (rows,)."""
        pairs = zip(self._flat_child_distributions, self._columns(value), strict=True)
        return sum(each.logp(own) for each, own in pairs)

    def entropy(self) -> torch.Tensor:
        """Return the sums of the parts' entropies, in nats, of shape (rows,)."""
        return sum(each.entropy() for each in self._flat_child_distributions)

    def kl(self, other: Any, **kwargs: object) -> torch.Tensor:
        """Return the sums of how far the parts are apart, of shape (rows,)."""
        pairs = zip(self._flat_child_distributions, other._flat_child_distributions, strict=True)
        return sum(ours.kl(theirs) for ours, theirs in pairs)

    def to_deterministic(self) -> TorchDeterministic:
        """Return what always gives the likeliest actions."""
        parts = [each.to_deterministic() for each in self._flat_child_distributions]
        made = TorchDeterministic(_joined([each.sample() for each in parts], self))
        made._flat_child_distributions = parts
        return made


def _joined(actions: list[torch.Tensor], of: _Parts) -> torch.Tensor:
    """Return the actions of parts as columns of one tensor of numbers."""
    pairs = zip(of.layout, actions, strict=True)
    columns = [own.unsqueeze(-1) if part.is_discrete else own for part, own in pairs]
    return torch.cat([each.float() for each in columns], -1)


@cache
def class_for(layout: Layout) -> type[TorchDistribution]:
    """Return the class of distributions for actions."""
    if len(layout) != 1:
        return type("TorchMultiDistribution", (_Parts,), {"layout": layout})
    return TorchCategorical if layout[0].is_discrete else TorchDiagGaussian
