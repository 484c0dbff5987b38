"""Losses of programs: ``build_tf_policy(loss_fn=...)``, ``with_updates``, ``custom_loss`` of networks.

An algorithm makes its learner by `learner_with`, where a policy or a network has functions of its own:

1. The steps of a sample are cut where episodes end, and ``postprocess_fn`` sees each piece as a
   `SampleBatch`; what it adds or replaces is learned from.
2. For each minibatch the network's outputs are computed under a `GradientTape`, and the functions see
   it by Ray's names of columns: ``loss_fn(policy, model, dist_class, train_batch)``.
3. A loss in PyTorch is a function of tensors made of the network's outputs; its gradients are handed to
   the tape.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from raycompat._old.rllib.action_distributions import (
    TFActionDistribution,
    TorchActionDistribution,
    distribution_class,
)
from raycompat._old.rllib.models.modelv2 import ModelV2, TorchModelV2
from raycompat._old.rllib.policy_functions import Functions
from raycompat._old.rllib.sample_batch import NAMES, OURS, SampleBatch
from raycompat.exceptions import UnsupportedRayFeatureError
from raycompat.rllib.agents.trainers import defaults_of_trainers
from raycompat.rllib.algorithms.a3c import ActorCriticLearner, actor_critic_loss
from raycompat.rllib.algorithms.ppo import PPOLearner
from raycompat.rllib.distributions import tf_terms
from raycompat.rllib.env.runner import Columns
from raycompat.rllib.learner import check_finite, minibatches
from raycompat.rllib.memory import learned_batch, outputs_for, sequences_of
from raycompat.rllib.networks import NetworkSpec
from raycompat.rllib.policy_learner import KerasLearner, PolicySetup
from raycompat.rllib.returns import normalized_advantages, with_advantages, with_targets
from raycompat.rllib.schedules import scheduled

#: What a piece of an episode has, as far as the runners record it.
_RECORDED = (
    "observations",
    "next_observations",
    "actions",
    "rewards",
    "terminateds",
    "truncateds",
    "parameters",
    "log_probabilities",
    "values",
    "advantages",
    "targets",
)

#: A piece of an episode in a sample: the environment, its first step and the one after its last.
_Place = tuple[int, int, int]
#: The values of a column for a piece.
_Piece = tuple[_Place, NDArray[Any]]

#: The algorithms whose learners can learn by a loss of a program.
_CAN = "use PG, A2C or PPO"


def learner_with(
    base: type[Any], policy_class: Any, model_class: Any, distribution: Any = None
) -> type[Any]:
    """Return a learner with the functions of a policy and of a network; itself where there are none.

    Parameters
    ----------
    base : subclass of PolicyLearner
        Of the algorithm.
    policy_class : type or None
        Its ``functions`` count.
    model_class : type or None
        Its method ``custom_loss`` counts.
    distribution : DistributionOfUser, optional
        Of actions, by which the loss is computed.

    Raises
    ------
    UnsupportedRayFeatureError
        When the algorithm does not learn by a loss of actions and values.
    """
    functions: Functions | None = getattr(policy_class, "functions", None)
    has_loss = model_class is not None and model_class.custom_loss is not ModelV2.custom_loss
    if functions is None and not has_loss and distribution is None:
        return base
    if functions is None:
        is_torch = model_class is not None and issubclass(model_class, TorchModelV2)
        functions = Functions("torch" if is_torch else "tf")
    can_learn = issubclass(base, ActorCriticLearner | PPOLearner)
    if distribution is not None:
        can_learn = base in (ActorCriticLearner, PPOLearner)
        framework = "torch" if distribution.is_torch else functions.framework
        functions = dataclasses.replace(functions, framework=framework)
    if not can_learn:
        if distribution is not None:
            what = f"custom_action_dist={distribution.cls.__name__}"
        else:
            what = f"{model_class.__name__}.custom_loss" if has_loss else policy_class.__name__
        name = base.__name__.removesuffix("Learner")
        raise UnsupportedRayFeatureError(
            f"{what} in {name}", f"{name} learns by its own loss", _CAN
        )
    return type(f"{base.__name__}WithFunctions", (_WithFunctions, base), {"functions": functions})


class PolicyOfFunctions:
    """What the functions of a policy see as ``policy``.

    Parameters
    ----------
    learner : PolicyLearner
    setup : PolicySetup

    Attributes
    ----------
    config : dict
        The options, by today's names and by those of trainers.
    model : ModelOfLoss
    dist_class : type
        See `raycompat._old.rllib.action_distributions`.
    observation_space, action_space : gymnasium.Space
    """

    def __init__(self, learner: Any, setup: PolicySetup) -> None:
        config, framework = learner.config, learner.functions.framework
        self.config = {
            **config.to_dict(),
            **defaults_of_trainers(config),
            "framework": framework,
        }
        self.observation_space, self.action_space = setup.observation_space, setup.action_space
        self.model = ModelOfLoss(learner, setup.encode.shape)
        kind = TorchActionDistribution if framework == "torch" else TFActionDistribution
        of_user = learner.network.distribution
        self.dist_class = (
            distribution_class(learner.layout, kind) if of_user is None else of_user.cls
        )
        self.device = "cpu"

    def loss_initialized(self) -> bool:
        """Return True: what the functions get is never made up."""
        return True

    def get_session(self) -> None:
        """Return None: TensorFlow 2 has no sessions."""

    def is_recurrent(self) -> bool:
        """Return whether the network has a memory."""
        return self.model.memory is not None


class ModelOfLoss:
    """What the functions of a policy see as ``model``; it has the attributes of a network's class, too.

    Parameters
    ----------
    learner : PolicyLearner
    shape : tuple of int
        Of an encoded observation.
    """

    def __init__(self, learner: Any, shape: tuple[int, ...]) -> None:
        self._network, self.memory = learner.learner.network, learner.network.memory
        self._is_torch, self._shape = learner.functions.framework == "torch", shape
        self.base_model = self._network.model
        #: The network of a class; None where it is made of options.
        self.of_class = self._network.of_class
        self._batch: Any = None
        self._own: dict[str, Any] = {}
        self._last: dict[str, Any] = {}
        #: Outputs of the network, and the tensors of PyTorch made of them.
        self.made: list[tuple[Any, Any]] = []

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the network's class."""
        if name.startswith("__") or self.__dict__.get("of_class") is None:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self.of_class, name)

    def begin(self, batch: Mapping[str, Any], outputs: dict[str, Any]) -> None:
        """Take a minibatch, with the network's outputs for it."""
        self._batch, self.made = batch, []
        self._own = self._last = {name: self.shown(each) for name, each in outputs.items()}

    def shown(self, output: Any) -> Any:
        """Return a tensor as one of the loss's framework."""
        if not self._is_torch:
            return output
        import torch

        tensor = torch.tensor(output.numpy(), requires_grad=True)
        self.made.append((output, tensor))
        return tensor

    def __call__(
        self, input_dict: Mapping[str, Any], state: Any = None, seq_lens: Any = None
    ) -> tuple[Any, list[Any]]:
        """Return the outputs for the observations of a batch, and the states, which are none."""
        observations, own = input_dict["obs"], self._batch["obs"]
        if observations is own:
            self._last = self._own
        elif self.memory is not None:
            raise UnsupportedRayFeatureError(
                "A loss of a network with a memory for other observations than the batch's",
                "Its states before them are not known",
                "use the outputs for train_batch",
            )
        else:
            import tensorflow as tf

            inputs = np.asarray(observations) if self._is_torch else observations
            rows = tf.reshape(tf.cast(inputs, tf.float32), (-1, *self._shape))
            outputs = self._network(rows)
            self._last = {name: self.shown(each) for name, each in outputs.items()}
        return self._last["policy"], []

    def own_gradients(self) -> list[tuple[Any, Any]]:
        """Return gradients of variables of a network in PyTorch that a loss has computed itself."""
        layers = (getattr(each, "take_gradients", None) for each in self.base_model.layers)
        return [pair for take in layers if take is not None for pair in take()]

    def from_batch(self, train_batch: Mapping[str, Any], is_training: bool = True) -> Any:
        """Return the outputs for a batch, and the states, which are none."""
        return self(train_batch)

    def value_function(self) -> Any:
        """Return the critic's values, of shape (rows,), of the last observations."""
        return self._last["value"][:, 0]

    def last_output(self) -> Any:
        """Return the outputs for the last observations."""
        return self._last["policy"]

    def variables(self) -> list[Any]:
        """Return the variables of the network."""
        return list(self.base_model.variables)

    def trainable_variables(self) -> list[Any]:
        """Return the variables that learn."""
        return list(self._network.variables)

    def is_time_major(self) -> bool:
        """Return False: the rows are steps."""
        return False


class _Optimizer:
    """What ``compute_gradients_fn`` sees as ``optimizer``.

    Parameters
    ----------
    gradients_of : callable
        Of a loss: returns the gradients of all variables.
    variables : list
    """

    def __init__(self, gradients_of: Callable[[Any], Any], variables: list[Any]) -> None:
        self._gradients_of, self._variables = gradients_of, variables

    def compute_gradients(self, loss: Any, var_list: Any = None) -> list[tuple[Any, Any]]:
        """Return the gradients with their variables: those of `var_list`, or all."""
        gradients = self._gradients_of(loss)
        if var_list is None:
            return list(zip(gradients, self._variables, strict=True))
        given = list(var_list)
        return [(gradients[_place_of(each, self._variables)], each) for each in given]

    def in_order(self, pairs: Any) -> list[Any]:
        """Return the gradients of all variables; 0 for those without a pair, or with None in it."""
        import tensorflow as tf

        found = [tf.zeros_like(each.value) for each in self._variables]
        for gradient, variable in pairs:
            place = _place_of(variable, self._variables)
            if gradient is not None:
                found[place] += gradient
        return found


def _place_of(variable: Any, variables: list[Any]) -> int:
    """Return which of a network's variables one is: that of Keras, or TensorFlow's within it."""
    for place, each in enumerate(variables):
        if variable is each or variable is each.value:
            return place
    name = getattr(variable, "name", variable)
    raise ValueError(
        f"compute_gradients_fn: {str(name).split(':')[0]!r} is not a variable of the network that "
        "learns. Expected those of policy.model.trainable_variables()."
    )


class _WithFunctions(KerasLearner):
    """What `learner_with` adds to a learner."""

    functions: Functions

    def __init__(self: Any, setup: PolicySetup, network: NetworkSpec, seed: int) -> None:
        super().__init__(setup, network, seed)
        functions = self.functions
        kind: Any = type("PolicyOfFunctions", (*functions.mixins, PolicyOfFunctions), {})
        policy = self._policy = kind.__new__(kind)
        PolicyOfFunctions.__init__(policy, self, setup)
        given = policy, setup.observation_space, setup.action_space, policy.config
        for function in (functions.before_init, functions.before_loss_init, functions.after_init):
            if function is not None:
                function(*given)

    def options(self: Any, num_steps: int) -> Any:
        """Refuse: A3C's runners compute gradients of A3C's own loss."""
        raise UnsupportedRayFeatureError(
            "A loss of a program in A3C", "Its runners compute the gradients", _CAN
        )

    def learn(self: Any, parts: list[Columns], num_steps: int, rng: Any = None) -> dict[str, Any]:
        """Learn from samples by the functions; a policy of PPO in minibatches, others once."""
        settings = self.config
        batch = self._batch_of(parts)
        rows = len(batch["actions"])
        if rng is None:
            order: Any = np.arange(rows)[None]
        else:
            size, memory = settings.minibatch_size, self.network.memory
            size = size if memory is None else max(1, size // memory.max_length)
            order = minibatches(rows, size, settings.num_epochs, rng)
        self.learner.set_learning_rate(scheduled(settings.lr, num_steps))
        statistics: dict[str, Any] = {}
        for chosen in order:
            minibatch = {name: column[chosen] for name, column in batch.items()}
            statistics = self._learn_once(minibatch, num_steps)
            check_finite({"total_loss": statistics["total_loss"]}, f"After {num_steps} steps")
        if isinstance(self, PPOLearner) and "mean_kl_loss" in statistics:
            self.adapt(statistics["mean_kl_loss"])
        return statistics

    def _batch_of(self: Any, parts: list[Columns]) -> Columns:
        """Return the valid steps of samples in one, with what ``postprocess_fn`` makes of them."""
        found = [self._postprocessed(columns) for columns in parts]
        names = [name for name in found[0] if name != "valid"]
        batch = learned_batch(found, names, self.network.memory)
        if isinstance(self, PPOLearner) and "advantages" in batch:
            batch["advantages"] = normalized_advantages(batch["advantages"], batch.get("mask"))
        return batch

    def _postprocessed(self: Any, columns: Columns) -> Columns:
        settings, function = self.config, self.functions.postprocess_fn
        ends = columns["terminateds"], columns["truncateds"]
        if isinstance(self, PPOLearner):
            known = with_advantages(columns, settings)
        else:
            known = with_targets(columns, settings.gamma, settings.lambda_)
        found = {name: known[name] for name in _RECORDED if name in known}
        if function is None:
            return {**found, "valid": columns["valid"], "dones": ends[0] | ends[1]}
        changed: dict[str, list[Any]] = {}
        for number, (env, begin, after) in enumerate(sequences_of(columns, len(ends[0]))):
            piece = SampleBatch(
                {NAMES.get(n, n): each[begin:after, env] for n, each in found.items()}
            )
            piece["obs"] = self._plain(piece["obs"])
            piece["dones"] = piece["terminateds"] | piece["truncateds"]
            piece["eps_id"] = piece["unroll_id"] = np.full(after - begin, number)
            for name, values in function(self._policy, piece, {}, None).items():
                place = env, begin, after
                changed.setdefault(name, []).append((place, _one_for_each(name, values, place)))
        if self.network.memory is not None:
            self._check_observations(found["observations"], changed.pop("obs", []))
        return {
            **found,
            **{OURS.get(n, n): _column_of(each, ends[0].shape) for n, each in changed.items()},
            "terminateds": ends[0],
            "truncateds": ends[1],
            "valid": columns["valid"],
        }

    def _check_observations(self: Any, rows: Any, changed: list[_Piece]) -> None:
        """Refuse observations other than those of a network with a memory."""
        for (env, begin, after), values in changed:
            if not np.array_equal(values, self._plain(rows[begin:after, env])):
                raise UnsupportedRayFeatureError(
                    "A postprocess_fn that changes 'obs', with a network that has a memory",
                    "Its states belong to the observations that it has seen",
                    "change the observations in the environment, or add another column",
                )

    def _plain(self: Any, observations: Any) -> Any:
        """Return observations without what a memory remembers beside them."""
        if self.network.memory is None:
            return observations
        shape = self.network.observation_shape
        plain = observations[:, : int(np.prod(shape))]
        if isinstance(plain, np.ndarray):
            return plain.reshape(-1, *shape).copy()  # a change in place is seen as one
        import tensorflow as tf

        return tf.reshape(plain, (-1, *shape))

    def _learn_once(self: Any, minibatch: Columns, num_steps: int) -> dict[str, Any]:
        import tensorflow as tf

        network, functions, policy = self.learner.network, self.functions, self._policy
        tensors = {name: tf.convert_to_tensor(each) for name, each in minibatch.items()}
        # A function of the program may ask for the gradients of several losses.
        with tf.GradientTape(persistent=functions.compute_gradients_fn is not None) as tape:
            outputs, steps = outputs_for(network, tensors)
            batch = self._shown(steps)
            policy.model.begin(batch, outputs)
            loss, parts = self._loss(outputs, steps, batch, num_steps)

        def gradients_of(loss: Any) -> Any:
            return self._gradients_by(tape, loss)

        if functions.compute_gradients_fn is None:
            gradients = gradients_of(loss)
        else:
            optimizer = _Optimizer(gradients_of, network.variables)
            pairs = functions.compute_gradients_fn(policy, optimizer, loss)
            gradients = optimizer.in_order(pairs)
        norm = self.learner.apply(gradients)
        found = {"total_loss": loss, **parts, "gradients_norm": norm}
        if functions.stats_fn is not None:
            found |= functions.stats_fn(policy, batch)
        if functions.grad_stats_fn is not None:
            found |= functions.grad_stats_fn(policy, batch, gradients)
        of_class = policy.model.of_class
        found |= {} if of_class is None else of_class.metrics()
        return {name: _number(each) for name, each in found.items()}

    def _shown(self: Any, steps: dict[str, Any]) -> SampleBatch:
        """Return steps by Ray's names, as tensors of the loss's framework."""
        named = {NAMES.get(name, name): each for name, each in steps.items()}
        named["obs"] = self._plain(named["obs"])
        if self.functions.framework == "torch":
            import torch

            named = {name: torch.as_tensor(each.numpy()) for name, each in named.items()}
        return SampleBatch.of_tensors(named)

    def _loss(
        self: Any, outputs: dict[str, Any], steps: dict[str, Any], batch: Any, num_steps: int
    ) -> tuple[Any, dict[str, Any]]:
        functions, policy, parts = self.functions, self._policy, {}
        model = policy.model
        if functions.loss_fn is not None:
            loss = functions.loss_fn(policy, model, policy.dist_class, batch)
        else:
            loss, parts = self._loss_of_algorithm(outputs, steps, num_steps)
            loss = model.shown(loss)
        of_class = model.of_class
        if of_class is not None and type(of_class).custom_loss is not ModelV2.custom_loss:
            given = [loss] if functions.framework == "torch" else loss
            loss = of_class.custom_loss(given, batch)
        if isinstance(loss, list | tuple):
            loss = sum(loss[1:], loss[0])
        return _mean(loss), parts

    def _loss_of_algorithm(self: Any, outputs: Any, steps: Any, num_steps: int) -> Any:
        of_user, model = self.network.distribution, self._policy.model
        terms_of = (
            partial(tf_terms, self.layout)
            if of_user is None
            else of_user.for_learning(model.of_class, self.functions.framework == "torch")
        )
        if isinstance(self, PPOLearner):
            return self.loss(outputs, steps, num_steps, terms_of)
        settings = self.config
        entropy_coeff = scheduled(settings.entropy_coeff, num_steps)
        return actor_critic_loss(outputs, steps, terms_of, settings.vf_loss_coeff, entropy_coeff)

    def _gradients_by(self: Any, tape: Any, loss: Any) -> Any:
        """Return the gradients of a loss, which may be a tensor of PyTorch."""
        import tensorflow as tf

        variables = self.learner.network.variables
        # TensorFlow makes zeros for its own variables only, not for those of Keras.
        sources, zero = [each.value for each in variables], tf.UnconnectedGradients.ZERO
        if self.functions.framework != "torch":
            return tape.gradient(loss, sources, unconnected_gradients=zero)
        model = self._policy.model
        for _, leaf in model.made:
            leaf.grad = None
        loss.backward(retain_graph=self.functions.compute_gradients_fn is not None)
        made = [(out, leaf) for out, leaf in model.made if leaf.grad is not None]
        found = tape.gradient(
            [output for output, _ in made],
            sources,
            output_gradients=[tf.constant(leaf.grad.numpy()) for _, leaf in made],
            unconnected_gradients=zero,
        )
        # A network of PyTorch may have been computed by the loss itself, too.
        beside = {id(variable): each for variable, each in model.own_gradients()}
        pairs = zip(found, variables, strict=True)
        return [each + beside[id(v)] if id(v) in beside else each for each, v in pairs]


def _one_for_each(name: str, values: Any, place: _Place) -> Any:
    """Return what ``postprocess_fn`` has made for a piece, as an array with a row for each step."""
    _, begin, after = place
    values = np.asarray(values)
    if len(values) != after - begin:
        raise ValueError(
            f"postprocess_fn returned {len(values)} values of {name!r} for {after - begin} steps: "
            "expected one for each step."
        )
    return values


def _column_of(pieces: list[_Piece], shape: Any) -> Any:
    """Return the column of a sample, of a type that holds the values of all its pieces."""
    kind = np.result_type(*(values.dtype for _, values in pieces))
    kind = np.dtype(np.float32) if kind == np.float64 else kind
    column = np.zeros((*shape, *pieces[0][1].shape[1:]), kind)
    for (env, begin, after), values in pieces:
        column[begin:after, env] = values
    return column


def _mean(loss: Any) -> Any:
    """Return a loss as one number: the mean over rows, where it has one for each."""
    if not len(loss.shape):
        return loss
    if hasattr(loss, "detach"):
        return loss.mean()
    import tensorflow as tf

    return tf.reduce_mean(loss)


def _number(value: Any) -> Any:
    """Return a tensor as a number, or as an array."""
    detach = getattr(value, "detach", None)
    array = np.asarray(value if detach is None else detach().numpy())
    return array.item() if array.ndim == 0 else array
