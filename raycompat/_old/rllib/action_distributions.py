"""Distributions of actions as classes: ``dist_class(logits, model)``.

The losses of programs make them, and programs derive classes from them for the option
``custom_action_dist`` of networks. Algorithms act and learn by such a class with `DistributionOfUser`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from raycompat.rllib.distributions import (
    LOG_STD_RANGE,
    Distribution,
    Layout,
    Part,
    Terms,
    columns_of,
    num_parameters,
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
    model : ModelV2, optional
        The network, for classes that use more of it. None where it is made of options.
    """

    #: Of the actions.
    layout: Layout

    def __init__(self, inputs: Any, model: Any = None) -> None:
        self.inputs, self.model = inputs, model
        self._sampled: Any = None

    @staticmethod
    def required_model_output_shape(action_space: Any, model_config: Any) -> Any:
        """Return how many numbers the network gives: by default, as many as the actions need.

        Parameters
        ----------
        action_space : gymnasium.Space
        model_config : dict
            The option ``model``.
        """
        from raycompat.rllib.spaces import ActionDecoder

        return num_parameters(ActionDecoder(action_space).layout)

    def logp(self, x: Any) -> Any:
        """Return the logarithms of chances or densities of actions, of shape (rows,)."""
        raise NotImplementedError

    def entropy(self) -> Any:
        """Return the entropies, of shape (rows,), in nats."""
        raise NotImplementedError

    def kl(self, other: ActionDistribution) -> Any:
        """Return how far another distribution is from this one, of shape (rows,)."""
        raise NotImplementedError

    def sample(self) -> Any:
        """Return random actions."""
        raise NotImplementedError

    def deterministic_sample(self) -> Any:
        """Return the likeliest actions."""
        raise NotImplementedError

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

    def _build_sample_op(self) -> Any:
        """Return random actions; classes of programs replace it in place of `sample`."""
        import tensorflow as tf

        def drawn(part: Part, own: Any) -> Any:
            if part.is_discrete:
                return tf.random.categorical(own, 1)
            mean, log_std = tf.split(own, 2, -1)
            spread = tf.exp(tf.clip_by_value(log_std, *LOG_STD_RANGE))
            return mean + spread * tf.random.normal(tf.shape(mean))

        return self._joined(drawn)

    def sample(self) -> Any:
        """Return random actions."""
        self.sample_op = self._sampled = self._build_sample_op()
        return self._sampled

    def deterministic_sample(self) -> Any:
        """Return the likeliest actions."""
        import tensorflow as tf

        def likeliest(part: Part, own: Any) -> Any:
            return tf.argmax(own, -1)[:, None] if part.is_discrete else tf.split(own, 2, -1)[0]

        self._sampled = self._joined(likeliest)
        return self._sampled

    def _joined(self, function: Callable[[Part, Any], Any]) -> Any:
        import tensorflow as tf

        pairs = zip(self.layout, columns_of(self.layout, self.inputs), strict=True)
        found = [function(part, own) for part, own in pairs]
        if len(found) == 1:
            return found[0][:, 0] if self.layout[0].is_discrete else found[0]
        return tf.concat([tf.cast(each, tf.float32) for each in found], -1)


class TorchDistributionWrapper(ActionDistribution):
    """A distribution of PyTorch, the attribute ``dist`` of a program's class; see `ActionDistribution`.

    Parameters
    ----------
    inputs : tensor, shape (rows, numbers)
    model : ModelV2, optional
    """

    dist: Any

    def __init__(self, inputs: Any, model: Any = None) -> None:
        import torch

        super().__init__(torch.as_tensor(inputs), model)

    def logp(self, x: Any) -> Any:
        """Return the logarithms of chances or densities of actions, of shape (rows,)."""
        return self.dist.log_prob(x)

    def entropy(self) -> Any:
        """Return the entropies, of shape (rows,), in nats."""
        return self.dist.entropy()

    def kl(self, other: ActionDistribution) -> Any:
        """Return how far another distribution is from this one, of shape (rows,)."""
        from torch.distributions import kl_divergence

        assert isinstance(other, TorchDistributionWrapper)
        return kl_divergence(self.dist, other.dist)

    def sample(self) -> Any:
        """Return random actions."""
        self._sampled = self.last_sample = self.dist.sample()
        return self._sampled


class TorchActionDistribution(TorchDistributionWrapper):
    """In PyTorch, of the parts of an action; see `ActionDistribution`."""

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

    def sample(self) -> Any:
        """Return random actions."""
        self._sampled = self._joined([each.sample() for each in self._parts])
        return self._sampled

    def deterministic_sample(self) -> Any:
        """Return the likeliest actions."""
        pairs = zip(self.layout, self._parts, strict=True)
        self._sampled = self._joined(
            [each.logits.argmax(-1) if part.is_discrete else each.mean for part, each in pairs]
        )
        return self._sampled

    def _joined(self, found: list[Any]) -> Any:
        import torch

        if len(found) == 1:
            return found[0]
        columns = [each[:, None] if each.ndim == 1 else each for each in found]
        return torch.cat([each.float() for each in columns], -1)


class _OfInputs:
    """Distributions whose inputs say their layout."""

    def __init__(self, inputs: Any, model: Any = None, *args: Any, **kwargs: Any) -> None:
        self.layout = self._layout_of(int(inputs.shape[-1]), *args, **kwargs)
        super().__init__(inputs, model)  # type: ignore[call-arg]

    @staticmethod
    def _layout_of(count: int, *args: Any, **kwargs: Any) -> Layout:
        raise NotImplementedError


class _OfChoice(_OfInputs):
    """One of several choices; inputs are logits, which a ``temperature`` divides."""

    def __init__(self, inputs: Any, model: Any = None, temperature: float = 1.0) -> None:
        super().__init__(inputs / temperature, model)

    @staticmethod
    def _layout_of(count: int, *args: Any, **kwargs: Any) -> Layout:
        return (Part(True, count),)


class _OfChoices(_OfInputs):
    """Several choices; ``input_lens`` are the numbers of logits of each."""

    @staticmethod
    def _layout_of(count: int, *args: Any, **kwargs: Any) -> Layout:
        input_lens = args[0] if args else kwargs["input_lens"]
        return tuple(Part(True, int(each)) for each in input_lens)


class _OfNumbers(_OfInputs):
    """Numbers, normally distributed; inputs are means and logarithms of deviations."""

    @staticmethod
    def _layout_of(count: int, *args: Any, **kwargs: Any) -> Layout:
        return (Part(False, count // 2),)


class Categorical(_OfChoice, TFActionDistribution):
    """One of several choices, in TensorFlow."""


class MultiCategorical(_OfChoices, TFActionDistribution):
    """Several choices, in TensorFlow."""


class DiagGaussian(_OfNumbers, TFActionDistribution):
    """Numbers, normally distributed, in TensorFlow."""


class TorchCategorical(_OfChoice, TorchActionDistribution):
    """One of several choices, in PyTorch."""


class TorchMultiCategorical(_OfChoices, TorchActionDistribution):
    """Several choices, in PyTorch."""


class TorchDiagGaussian(_OfNumbers, TorchActionDistribution):
    """Numbers, normally distributed, in PyTorch."""


@dataclass(frozen=True)
class DistributionOfUser:
    """A program's class of distributions, as algorithms act and learn by it.

    Parameters
    ----------
    cls : subclass of ActionDistribution
    action_space : gymnasium.Space
    layout : tuple of Part
        Of its actions.
    options : dict
        The option ``model``.
    """

    cls: type[ActionDistribution]
    action_space: Any
    layout: Layout
    options: Any

    @property
    def is_torch(self) -> bool:
        """Whether it says itself that it computes in PyTorch."""
        return issubclass(self.cls, TorchDistributionWrapper)

    @property
    def num_parameters(self) -> int:
        """How many numbers the network gives for an action."""
        needed = self.cls.required_model_output_shape(self.action_space, self.options)
        return int(np.prod(needed))

    def for_acting(self, model: Any) -> Callable[[Any], Distribution]:
        """Return what makes the distributions of parameters, arrays of shape (rows, numbers).

        Parameters
        ----------
        model : ModelV2 or None
        """
        is_torch = self.is_torch or getattr(model, "framework", None) == "torch"
        draw: Any = _TorchDraw(self, model) if is_torch else _TFDraw(self, model)
        return lambda parameters: _Drawn(draw, parameters)

    def for_learning(self, model: Any, is_torch: bool) -> Callable[..., Terms]:
        """Return what computes the terms of a loss; see `raycompat.rllib.distributions.tf_terms`.

        Parameters
        ----------
        model : ModelV2 or None
        is_torch : bool
            Whether it computes in PyTorch. Its gradients are handed to TensorFlow's tape then.
        """

        def terms(parameters: Any, actions: Any, played: Any = None) -> Terms:
            own = self.cls(parameters, model)
            divergences = None if played is None else self.cls(played, model).kl(own)
            return Terms(own.logp(self._shown(actions)), own.entropy(), divergences)

        return _bridged(terms) if is_torch else terms

    def _shown(self, actions: Any) -> Any:
        """Return actions as the class takes them: choices are whole numbers."""
        if not all(part.is_discrete for part in self.layout):
            return actions
        long = getattr(actions, "long", None)
        if long is not None:
            return long()
        import tensorflow as tf

        return tf.cast(actions, tf.int32)

    def encoded(self, sampled: Any) -> Any:
        """Return what the class draws as an array of the layout.

        Raises
        ------
        ValueError
            When it has another size.
        """
        columns = [np.reshape(each, (len(each), -1)) for each in _leaves(sampled)]
        found = np.concatenate(columns, -1)
        width = sum(part.width for part in self.layout)
        if found.shape[1] != width:
            raise ValueError(
                f"{self.cls.__name__}.sample returned {found.shape[1]} numbers for each row: "
                f"expected {width}, an action of {self.action_space!r}."
            )
        is_choice = len(self.layout) == 1 and self.layout[0].is_discrete
        return found[:, 0].astype(np.int64) if is_choice else found.astype(np.float32)

    def drawn(self, model: Any, parameters: Any, explore: bool) -> tuple[Any, Any]:
        """Return actions, as the class has them, and the logarithms of their chances."""
        made = self.cls(parameters, model)
        actions = made._sampled = made.sample() if explore else made.deterministic_sample()
        return actions, made.sampled_action_logp()


def _leaves(sampled: Any) -> list[Any]:
    """Return the arrays of actions, which tuples, lists and dicts may have in them."""
    if isinstance(sampled, Mapping):
        sampled = list(sampled.values())
    if isinstance(sampled, tuple | list):
        return [leaf for each in sampled for leaf in _leaves(each)]
    detach = getattr(sampled, "detach", None)
    return [np.asarray(sampled if detach is None else detach().cpu().numpy())]


class _TorchDraw:
    """Draws in PyTorch, whose own generator it leaves as it is."""

    def __init__(self, of_user: DistributionOfUser, model: Any) -> None:
        self._of_user, self._model = of_user, model

    def __call__(self, parameters: Any, explore: bool, seed: int) -> tuple[Any, Any]:
        import torch

        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            found, logs = self._of_user.drawn(self._model, torch.tensor(parameters), explore)
        return self._of_user.encoded(found), logs.numpy().reshape(-1)


class _TFDraw:
    """Draws in TensorFlow, in a `tf.function`."""

    def __init__(self, of_user: DistributionOfUser, model: Any) -> None:
        import tensorflow as tf

        def drawn(parameters: Any, explore: bool) -> tuple[Any, Any]:
            return of_user.drawn(model, parameters, explore)

        self._of_user = of_user
        self._drawn = tf.function(drawn, reduce_retracing=True)

    def __call__(self, parameters: Any, explore: bool, seed: int) -> tuple[Any, Any]:
        import tensorflow as tf

        found, logs = self._drawn(tf.constant(parameters), explore)
        return self._of_user.encoded(found), logs.numpy().reshape(-1)


class _Drawn:
    """The distributions of a program with some parameters; it remembers the actions drawn last."""

    def __init__(self, draw: Any, parameters: Any) -> None:
        self._draw, self._parameters = draw, parameters
        self._logs: Any = None

    def mode(self) -> Any:
        actions, self._logs = self._draw(self._parameters, False, 0)
        return actions

    def sample(self, rng: np.random.Generator) -> Any:
        actions, self._logs = self._draw(self._parameters, True, int(rng.integers(2**31)))
        return actions

    def log_probability(self, actions: Any) -> Any:
        """Return those of the actions drawn last: a policy asks for no others."""
        return self._logs


def _bridged(terms: Callable[..., Terms]) -> Callable[..., Terms]:
    """Return terms computed in PyTorch as tensors of TensorFlow, with their gradient.

    What a network of PyTorch computed for them leaves its gradients at its parameters.
    """
    import tensorflow as tf
    import torch

    def bridged(parameters: Any, actions: Any, played: Any = None) -> Terms:
        others = [torch.tensor(each.numpy()) for each in (actions, played) if each is not None]

        @tf.custom_gradient
        def computed(parameters: Any) -> Any:
            leaf = torch.tensor(parameters.numpy(), requires_grad=True)
            found = [each for each in terms(leaf, *others) if each is not None]

            def gradient(*upstream: Any) -> Any:
                pairs = zip(found, upstream, strict=True)
                known = [(each, torch.tensor(u.numpy())) for each, u in pairs if each.requires_grad]
                leaf.grad = None  # several losses may be differentiated
                torch.autograd.backward(*zip(*known, strict=True), retain_graph=True)
                own = leaf.grad
                return tf.zeros_like(parameters) if own is None else tf.constant(own.numpy())

            return tuple(tf.constant(each.detach().numpy()) for each in found), gradient

        log_probabilities, entropies, *divergences = computed(parameters)
        return Terms(log_probabilities, entropies, *(divergences or [None]))

    return bridged


def torch_distribution_class(layout: Layout) -> type[ActionDistribution]:
    """Return the class of PyTorch for actions with a layout, by its own name where it has one."""
    if len(layout) > 1 and all(part.is_discrete for part in layout):
        return TorchMultiCategorical
    if len(layout) > 1:
        return distribution_class(layout, TorchActionDistribution)
    return TorchCategorical if layout[0].is_discrete else TorchDiagGaussian


def distribution_class(layout: Layout, kind: type[ActionDistribution]) -> type[ActionDistribution]:
    """Return the class of distributions of actions with a layout.

    Parameters
    ----------
    layout : tuple of Part
    kind : type
        `TFActionDistribution` or `TorchActionDistribution`.
    """
    return type(kind.__name__, (kind,), {"layout": layout, "__module__": __name__})
