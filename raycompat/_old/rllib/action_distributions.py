"""Distributions of actions as classes, for the losses of programs: ``dist_class(logits, model)``."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from raycompat.rllib.distributions import (
    LOG_STD_RANGE,
    Layout,
    columns_of,
    distribution_of,
    tf_entropy,
    tf_kl_divergence,
    tf_log_probability,
)


class ActionDistribution:
    """A distribution of actions for each row.

    Parameters
    ----------
    inputs : tensor, shape (rows, numbers)
        Outputs of a network.
    model : optional
        Has no effect.
    """

    #: Of the actions.
    layout: ClassVar[Layout]

    def __init__(self, inputs: Any, model: Any = None) -> None:
        self.inputs, self.model = inputs, model

    def logp(self, x: Any) -> Any:
        """Return the logarithms of chances or densities of actions, of shape (rows,)."""
        raise NotImplementedError

    def entropy(self) -> Any:
        """Return the entropies, of shape (rows,), in nats."""
        raise NotImplementedError

    def kl(self, other: ActionDistribution) -> Any:
        """Return how far another distribution is from this one, of shape (rows,)."""
        raise NotImplementedError

    def _tensor(self, actions: Any) -> Any:
        raise NotImplementedError

    def _drawn_from(self) -> Any:
        detach = getattr(self.inputs, "detach", None)
        inputs = self.inputs if detach is None else detach()
        return distribution_of(self.layout, np.asarray(inputs))

    def sample(self) -> Any:
        """Return random actions."""
        actions = self._drawn_from().sample(np.random.default_rng())
        self._sampled = self._tensor(actions)
        return self._sampled

    def deterministic_sample(self) -> Any:
        """Return the likeliest actions."""
        self._sampled = self._tensor(self._drawn_from().mode())
        return self._sampled

    def sampled_action_logp(self) -> Any:
        """Return the logarithms of chances or densities of the actions drawn last."""
        return self.logp(self._sampled)


class TFActionDistribution(ActionDistribution):
    """In TensorFlow; see `ActionDistribution`."""

    def logp(self, x: Any) -> Any:
        """Return the logarithms of chances or densities of actions, of shape (rows,)."""
        import tensorflow as tf

        is_choice = len(self.layout) == 1 and self.layout[0].is_discrete
        actions = tf.reshape(tf.cast(x, tf.int32), [-1]) if is_choice else tf.cast(x, tf.float32)
        return tf_log_probability(self.layout, self.inputs, actions)

    def entropy(self) -> Any:
        """Return the entropies, of shape (rows,), in nats."""
        return tf_entropy(self.layout, self.inputs)

    def kl(self, other: ActionDistribution) -> Any:
        """Return how far another distribution is from this one, of shape (rows,)."""
        return tf_kl_divergence(self.layout, self.inputs, other.inputs)

    def _tensor(self, actions: Any) -> Any:
        import tensorflow as tf

        return tf.convert_to_tensor(actions)


class TorchActionDistribution(ActionDistribution):
    """In PyTorch; see `ActionDistribution`."""

    def __init__(self, inputs: Any, model: Any = None) -> None:
        import torch
        from torch import distributions

        super().__init__(inputs, model)
        self._parts = []
        for part, own in zip(self.layout, columns_of(self.layout, inputs), strict=True):
            if part.is_discrete:
                self._parts.append(distributions.Categorical(logits=own))
            else:
                mean, log_std = own.chunk(2, -1)
                normal = distributions.Normal(mean, torch.exp(log_std.clamp(*LOG_STD_RANGE)))
                self._parts.append(distributions.Independent(normal, 1))

    def logp(self, x: Any) -> Any:
        """Return the logarithms of chances or densities of actions, of shape (rows,)."""
        import torch

        actions = torch.as_tensor(x).reshape(len(self.inputs), -1)
        found, begin = [], 0
        for part, distribution in zip(self.layout, self._parts, strict=True):
            own = actions[:, begin : begin + part.width]
            found.append(distribution.log_prob(own[:, 0] if part.is_discrete else own))
            begin += part.width
        return sum(found[1:], found[0])

    def entropy(self) -> Any:
        """Return the entropies, of shape (rows,), in nats."""
        found = [each.entropy() for each in self._parts]
        return sum(found[1:], found[0])

    def kl(self, other: ActionDistribution) -> Any:
        """Return how far another distribution is from this one, of shape (rows,)."""
        from torch.distributions import kl_divergence

        assert isinstance(other, TorchActionDistribution)
        pairs = zip(self._parts, other._parts, strict=True)
        found = [kl_divergence(own, theirs) for own, theirs in pairs]
        return sum(found[1:], found[0])

    def _tensor(self, actions: Any) -> Any:
        import torch

        return torch.as_tensor(actions)


def distribution_class(layout: Layout, kind: type[ActionDistribution]) -> type[ActionDistribution]:
    """Return the class of distributions of actions with a layout.

    Parameters
    ----------
    layout : tuple of Part
    kind : type
        `TFActionDistribution` or `TorchActionDistribution`.
    """
    return type(kind.__name__, (kind,), {"layout": layout, "__module__": __name__})
