"""`ModelV2` and its subclasses: what programs derive the classes of their networks from."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

from raycompat._old.rllib.models.original_spaces import restored
from raycompat._old.rllib.sample_batch import SampleBatch


class ModelV2:
    """A network as a class. Subclasses write `forward`, and `value_function` for a critic.

    Parameters
    ----------
    obs_space : gymnasium.Space
        Of encoded observations; its ``original_space`` is that of the environment.
    action_space : gymnasium.Space
    num_outputs : int or None
        How many numbers `forward` returns for each observation. None, within another network: as many
        as there are features.
    model_config : dict
        The option ``model``.
    name : str
    framework : str, optional

    Notes
    -----
    Ray source: ``ray.rllib.models.modelv2.ModelV2``, 2.60.0. No known difference.
    """

    _framework: ClassVar[str] = "tf"

    def __init__(
        self,
        obs_space: Any,
        action_space: Any,
        num_outputs: int | None,
        model_config: Mapping[str, Any],
        name: str,
        framework: str | None = None,
    ) -> None:
        self.obs_space, self.action_space = obs_space, action_space
        self.num_outputs, self.model_config = num_outputs, model_config
        self.name, self.framework = name, framework or self._framework
        self._last_output: Any = None
        #: What it sees of earlier steps, by name; a class adds a `ViewRequirement` for each.
        self.view_requirements: dict[str, Any] = {}

    def forward(
        self, input_dict: dict[str, Any], state: list[Any], seq_lens: Any
    ) -> tuple[Any, list[Any]]:
        """Return the outputs for observations, and the states after them.

        Parameters
        ----------
        input_dict : dict of tensors
            ``obs``, in the form of the environment's space; ``obs_flat``, of shape (rows, numbers);
            ``is_training``.
        state : list of tensors, each of shape (sequences, ...)
            Of a network with a memory: the states before the sequences; else empty. The rows of
            ``obs`` are all steps of the first sequence, of the second one, and so on.
        seq_lens : tensor of int32, shape (sequences,)
            The steps of each sequence, equally many. Steps after the end of an episode are among them;
            nothing is learned from these. None without a memory.
        """
        raise NotImplementedError(f"{type(self).__name__} has no method forward.")

    def value_function(self) -> Any:
        """Return the critic's values, of shape (rows,), of the observations that `forward` saw last."""
        raise NotImplementedError(
            f"{type(self).__name__} has no method value_function, and its algorithm has a critic."
        )

    def get_initial_state(self) -> list[Any]:
        """Return the states at the beginning of an episode: none, for a network without a memory.

        A network with a memory returns a list of arrays, each without an axis of rows.
        """
        return []

    def custom_loss(self, policy_loss: Any, loss_inputs: Any) -> Any:
        """Return the loss from which the network learns: that of the algorithm, as it is.

        PG, A2C and PPO call it for each minibatch.

        Parameters
        ----------
        policy_loss : scalar tensor
            The loss of the algorithm. For a network of PyTorch, a list with this tensor.
        loss_inputs : SampleBatch
            The minibatch, of tensors with a row for each step.
        """
        return policy_loss

    def metrics(self) -> dict[str, Any]:
        """Return what results have beside the losses, after `custom_loss`: nothing."""
        return {}

    def last_output(self) -> Any:
        """Return what `forward` returned last."""
        return self._last_output

    def context(self) -> contextlib.AbstractContextManager[None]:
        """Return a context in which the network is used: none is needed."""
        return contextlib.nullcontext()

    def get_input_dict(self, sample_batch: Mapping[str, Any], index: int | str = "last") -> Any:
        """Return one step of a batch as the network sees it, in a batch of one row.

        Parameters
        ----------
        sample_batch : SampleBatch
        index : int or "last"
            See `SampleBatch.get_single_step_input_dict`.
        """
        views = {"obs": _Seen(), **self.view_requirements}
        return SampleBatch(sample_batch).get_single_step_input_dict(views, index)

    def from_batch(self, train_batch: Mapping[str, Any], is_training: bool = True) -> Any:
        """Return the outputs for the steps of a batch, and the states after them.

        Parameters
        ----------
        train_batch : SampleBatch
            Of a network with a memory, it has ``state_in_0`` and so on, and ``seq_lens``.
        is_training : bool, default True
            What the network sees under this name.
        """
        columns = {**train_batch, "is_training": is_training}
        states = [name for name in columns if name.startswith("state_in_")]
        before = [columns[f"state_in_{place}"] for place in range(len(states))]
        return self(columns, before, columns.get("seq_lens"))

    def variables(self, as_dict: bool = False) -> Any:
        """Return what the network learns by, and what it keeps beside that.

        Parameters
        ----------
        as_dict : bool, default False
            By their names, in place of a list.
        """
        raise NotImplementedError(f"{type(self).__name__} has no method variables.")

    def trainable_variables(self, as_dict: bool = False) -> Any:
        """Return those of `variables` that learn."""
        raise NotImplementedError(f"{type(self).__name__} has no method trainable_variables.")

    def is_time_major(self) -> bool:
        """Return False: the first axis is that of observations."""
        return False

    def __call__(
        self, input_dict: dict[str, Any], state: list[Any] | None = None, seq_lens: Any = None
    ) -> tuple[Any, list[Any]]:
        """Return the outputs of `forward`; a single observation tensor may be given as ``obs``."""
        given = {"is_training": False, **input_dict}
        given.setdefault("obs_flat", given["obs"])
        found = self.forward(given, state or [], seq_lens)
        outputs, states = found if isinstance(found, tuple | list) else (found, [])
        self._last_output = outputs
        return outputs, states


def restore_original_dimensions(obs: Any, obs_space: Any, tensorlib: Any = "tf") -> Any:
    """Return encoded observations in the form of their space; choices stay one-hot vectors.

    Parameters
    ----------
    obs : tensor, shape (rows, numbers)
    obs_space : gymnasium.Space
        That of the environment, or of a network, which has it as ``original_space``.
    tensorlib : module or str, default "tf"
        What `obs` is a tensor of: numpy, "tf" or "torch".
    """
    space = getattr(obs_space, "original_space", obs_space)
    if tensorlib == "tf":
        import tensorflow as tf

        return restored(space, obs, tf.reshape)
    return restored(space, obs, lambda tensor, shape: tensor.reshape(shape))


def parts_of(value: Any, kinds: tuple[type[Any], ...], seen: set[int]) -> list[Any]:
    """Return the layers and variables among the attributes of a network, and of those in it."""
    if id(value) in seen:
        return []
    seen.add(id(value))
    if isinstance(value, kinds):
        return [value]
    if isinstance(value, ModelV2):
        value = vars(value)
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return [part for each in value for part in parts_of(each, kinds, seen)]
    return []


class TFModelV2(ModelV2):
    """A network of Keras layers, models and variables, which are its attributes: see `ModelV2`."""

    _framework = "tf"

    def register_variables(self, variables: Any) -> None:
        """Add variables of Keras that are in none of the attributes.

        Parameters
        ----------
        variables : iterable of keras.Variable
        """
        vars(self).setdefault("_own_variables", []).extend(variables)

    def variables(self, as_dict: bool = False) -> Any:
        """Return the variables of the layers and models among its attributes."""
        import keras

        parts = parts_of(self, (keras.layers.Layer, keras.Variable), set())
        found = [own for each in parts for own in getattr(each, "weights", [each])]
        return _named(list({id(each): each for each in found}.values()), as_dict)

    def trainable_variables(self, as_dict: bool = False) -> Any:
        """Return those that learn."""
        return _named([each for each in self.variables() if each.trainable], as_dict)

    def update_ops(self) -> list[Any]:
        """Return none: layers of Keras update themselves when they are called."""
        return []


class TorchModelV2(ModelV2):
    """A network of PyTorch; a subclass derives from ``torch.nn.Module``, too: see `ModelV2`."""

    _framework = "torch"

    def variables(self, as_dict: bool = False) -> Any:
        """Return the parameters and buffers of the module."""
        module: Any = self  # a subclass derives from torch.nn.Module
        return module.state_dict() if as_dict else list(module.state_dict().values())

    def trainable_variables(self, as_dict: bool = False) -> Any:
        """Return the parameters that learn."""
        module: Any = self
        found = {name: each for name, each in module.named_parameters() if each.requires_grad}
        return found if as_dict else list(found.values())


def _named(variables: list[Any], as_dict: bool) -> Any:
    """Return variables of Keras as a list, or by their paths."""
    return {each.path: each for each in variables} if as_dict else variables


class _Seen(NamedTuple):
    """The requirement of the newest value of a column."""

    data_col: str | None = None


class RecurrentModel(ModelV2):
    """What networks with a memory have in common. Subclasses write `forward_rnn`: see `ModelV2`."""

    def forward(
        self, input_dict: dict[str, Any], state: list[Any], seq_lens: Any
    ) -> tuple[Any, list[Any]]:
        """Return the outputs, a row for each step, and the states after the sequences."""
        inputs = self._in_sequences(input_dict["obs_flat"], seq_lens)
        outputs, states = self.forward_rnn(inputs, state, seq_lens)
        return self._in_rows(outputs), states

    def forward_rnn(self, inputs: Any, state: list[Any], seq_lens: Any) -> tuple[Any, list[Any]]:
        """Return the outputs for sequences, and the states after them.

        Parameters
        ----------
        inputs : tensor, shape (sequences, steps, numbers)
        state : list of tensors, each of shape (sequences, ...)
        seq_lens : tensor of int32, shape (sequences,)
        """
        raise NotImplementedError(f"{type(self).__name__} has no method forward_rnn.")

    def _in_sequences(self, flat: Any, seq_lens: Any) -> Any:
        raise NotImplementedError

    def _in_rows(self, outputs: Any) -> Any:
        raise NotImplementedError


class BelowValues(ModelV2):
    """The layers below the values of actions; DQN puts its own on top.

    Parameters
    ----------
    *given
        As `ModelV2` takes them.
    **options
        Of the layers on top. They have no effect: the options of DQN say the same.
    """

    def __init__(self, *given: Any, **options: Any) -> None:
        own = inspect.signature(ModelV2).parameters
        super().__init__(*given, **{name: v for name, v in options.items() if name in own})


class DistributionalQTFModel(BelowValues, TFModelV2):
    """The layers below the values of actions, of Keras: see `BelowValues`."""
