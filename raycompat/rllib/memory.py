"""Networks with a memory: what they remember, and their layers.

A step's observation travels with what the network remembered before it, as further numbers of the same
row: ``[observation, states, last action, last reward]``. So samples, next observations and minibatches
need nothing more, and a sequence of steps may begin anywhere: its first row has the states.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from raycompat.rllib._types import Array, Tensor
from raycompat.rllib.distributions import Layout

if TYPE_CHECKING:
    from keras.layers import Dense, Layer

#: The columns of steps by name, see `env.runner.Sample`.
_Columns = dict[str, Array]


@dataclass(frozen=True)
class AttentionOptions:
    """Sizes of a gated transformer.

    Parameters
    ----------
    num_units : int
        How many transformers follow one another.
    dim : int
        How many numbers go from one to the next.
    num_heads, head_dim : int
    length : int
        How many steps before its own a step may attend to.
    mlp_dim : int
        The width of the dense layer after each attention.
    gate_bias : float
        The larger, the more a unit begins as the identity.
    """

    num_units: int
    dim: int
    num_heads: int
    head_dim: int
    length: int
    mlp_dim: int
    gate_bias: float


@dataclass(frozen=True)
class Memory:
    """What a network remembers from step to step of an episode.

    Parameters
    ----------
    initial : tuple of arrays of float32
        The states at the beginning of an episode, of one row.
    max_length : int
        The most steps of a sequence that it learns from.
    layer : int, AttentionOptions or None
        The number of cells of a long short-term memory; a transformer; None for a network of a class,
        which has its own layers.
    actions : tuple of Part
        The layout of the last action, which is a further input; empty without.
    sees_reward : bool
        Whether the last reward is a further input.
    """

    initial: tuple[NDArray[np.float32], ...] = field(compare=False)
    max_length: int
    layer: int | AttentionOptions | None = None
    actions: Layout = ()
    sees_reward: bool = False

    @property
    def num_states(self) -> int:
        """The number of numbers of all states."""
        return sum(each.size for each in self.initial)

    @property
    def num_past(self) -> int:
        """The number of numbers of the last action and reward."""
        widths = (part.size for part in self.actions)
        return sum(widths) + self.sees_reward

    @property
    def row(self) -> NDArray[np.float32]:
        """What is remembered at the beginning of an episode, of shape (num_states + num_past,)."""
        return self.joined(self.initial)

    def are_windows(self, states: Sequence[Array]) -> bool:
        """Return whether states are those of a transformer's units alone: Ray's form.

        Programs in this form append the last row of each unit themselves, and drop the first one.
        """
        return isinstance(self.layer, AttentionOptions) and len(states) == self.layer.num_units

    def joined(self, states: Sequence[Array]) -> NDArray[np.float32]:
        """Return states as one row; there was no action and no reward."""
        if self.are_windows(states):
            # Rows of zeros at the beginning are of no step yet.
            known = np.flatnonzero(np.any(np.asarray(states[0]), axis=-1))
            count = len(states[0]) - known[0] if len(known) else 0
            states = [*states, np.array([count])]
        if len(states) != len(self.initial):
            raise ValueError(
                f"state: {len(states)} arrays: expected {len(self.initial)}, as get_initial_state "
                "returns and each action gives."
            )
        flat = [np.asarray(each, np.float32).reshape(-1) for each in states]
        found = np.concatenate([*flat, np.zeros(self.num_past, np.float32)])
        if found.size != self.num_states + self.num_past:
            raise ValueError(
                f"state: arrays of the shapes {[np.shape(each) for each in states]}: expected "
                f"{[each.shape for each in self.initial]}, as get_initial_state returns."
            )
        return found

    def before(
        self, states: Sequence[Array], action: Array | None, reward: float | None
    ) -> NDArray[np.float32]:
        """Return states, and the last action and reward where the network sees these, as one row.

        Parameters
        ----------
        states : sequence of arrays
        action : array, optional
            A result of `ActionDecoder.encoded`.
        reward : float, optional
        """
        row = self.joined(states)
        if self.sees_reward and reward is not None:
            row[-1] = reward
        if self.actions and action is not None:
            row[self.num_states : self.num_states + len(action)] = action
        return row[None]

    def parted(self, row: NDArray[np.float32]) -> list[NDArray[np.float32]]:
        """Return the states of one row."""
        found, begin = [], 0
        for each in self.initial:
            found.append(row[begin : begin + each.size].reshape(each.shape))
            begin += each.size
        return found

    def after(self, states: NDArray[np.float32], actions: Array) -> NDArray[np.float32]:
        """Return what is remembered after some actions; the rewards are not known yet.

        Parameters
        ----------
        states : array of float32, shape (rows, num_states)
        actions : array, see `Layout`
        """
        columns: list[Array] = [states]
        if self.actions:
            columns.append(self._encoded(actions[:, None] if actions.ndim == 1 else actions))
        if self.sees_reward:
            columns.append(np.zeros((len(states), 1)))
        return np.concatenate(columns, axis=1, dtype=np.float32)

    def _encoded(self, actions: Array) -> NDArray[np.floating]:
        """Return choices as one-hot vectors, and numbers as they are."""
        columns, begin = [], 0
        for part in self.actions:
            own = actions[:, begin : begin + part.width]
            columns.append(
                np.eye(part.size)[own[:, 0].astype(np.int64)] if part.is_discrete else own
            )
            begin += part.width
        return np.concatenate(columns, axis=1)


def in_sequences(columns: _Columns, names: Sequence[str], length: int) -> _Columns:
    """Cut the valid steps of a sample into sequences, each of one episode.

    Parameters
    ----------
    columns : dict of arrays, each of shape (steps, environments, ...)
    names : sequence of str
        The columns to return.
    length : int
        The most steps of a sequence.

    Returns
    -------
    dict of arrays, each of shape (sequences, length, ...)
        With a further column ``mask``, which is False after the end of a sequence.
    """
    places = sequences_of(columns, length)
    envs, begins, afters = (np.array(each)[:, None] for each in zip(*places, strict=True))
    steps = begins + np.arange(length)
    mask = steps < afters
    steps = np.minimum(steps, afters - 1)
    return {**{name: columns[name][steps, envs] for name in names}, "mask": mask}


def sequences_of(columns: _Columns, length: int) -> list[tuple[int, int, int]]:
    """Return where the sequences of a sample's valid steps lie: environment, first step, one after.

    Parameters
    ----------
    columns : dict of arrays, each of shape (steps, environments, ...)
    length : int
        The most steps of a sequence, which is of one episode.
    """
    places: list[tuple[int, int, int]] = []
    ends = columns["terminateds"] | columns["truncateds"]
    num_steps, num_envs = ends.shape
    for env in range(num_envs):
        begin = 0
        for step in range(num_steps):
            is_valid = columns["valid"][step, env]
            after = step + 1 if is_valid else step
            if not is_valid or ends[step, env] or after - begin == length or after == num_steps:
                if after > begin:
                    places.append((env, begin, after))
                begin = step + 1
    return places


def learned_steps(columns: _Columns, names: Sequence[str], memory: Memory | None) -> _Columns:
    """Return the valid steps of a sample: one after the other, or in sequences for a memory."""
    if memory is not None:
        return in_sequences(columns, names, memory.max_length)
    return {name: columns[name][columns["valid"]] for name in names}


def learned_batch(
    samples: Sequence[_Columns], names: Sequence[str], memory: Memory | None
) -> _Columns:
    """Return the valid steps of several samples in one, see `learned_steps`."""
    parts = [learned_steps(each, names, memory) for each in samples]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def outputs_for(
    network: Callable[[Tensor], dict[str, Tensor]], batch: dict[str, Tensor]
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Return a network's outputs for `learned_steps`, and these, both with a row for each step."""
    import tensorflow as tf

    outputs = network(batch["observations"])
    if "mask" not in batch:
        return outputs, batch
    mask = batch["mask"]
    flat = tf.reshape(mask, [-1])
    found = {name: tf.boolean_mask(each, mask) for name, each in batch.items() if name != "mask"}
    return {
        name: tf.boolean_mask(each, flat) for name, each in outputs.items() if name != "states"
    }, found


# Keras is Any below: it is imported late, and a class of a ModuleType cannot be a base for mypy.


@functools.cache
def rows_layer(keras: Any) -> type[Layer]:
    """Return the class of a layer that gives the observations of sequences as rows."""

    class Rows(keras.layers.Layer):
        def __init__(self, shape: tuple[int, ...]) -> None:
            super().__init__()
            self._shape = shape

        def call(self, sequences: Tensor) -> Tensor:
            return keras.ops.reshape(sequences[..., : math.prod(self._shape)], (-1, *self._shape))

    return Rows


@functools.cache
def memory_layer(keras: Any) -> type[Layer]:
    """Return the class of a layer that remembers.

    It takes the features of all steps, a row each, and the sequences; it returns features, a row each,
    and the states after each sequence.
    """
    ops = keras.ops
    layers: ModuleType = keras.layers

    class Remember(keras.layers.Layer):
        def __init__(self, memory: Memory, num_observed: int, seed: int) -> None:
            super().__init__()
            self._memory, self._num_observed = memory, num_observed
            made = memory.layer
            if isinstance(made, AttentionOptions):
                self.core = transformer_layer(keras)(made, seed)
            else:
                self.core = layers.LSTM(
                    made,
                    return_sequences=True,
                    return_state=True,
                    kernel_initializer=keras.initializers.GlorotUniform(seed),
                    recurrent_initializer=keras.initializers.Orthogonal(seed=seed + 1),
                )

        def call(self, features: Tensor, sequences: Tensor) -> tuple[Tensor, Tensor]:
            memory, begin = self._memory, self._num_observed
            num, length = ops.shape(sequences)[:2]
            inputs = ops.reshape(features, (num, length, features.shape[-1]))
            if memory.num_past:
                past = sequences[..., begin + memory.num_states :]
                inputs = ops.concatenate([inputs, past], -1)
            states = []
            for each in memory.initial:
                flat = sequences[:, 0, begin : begin + each.size]
                states.append(ops.reshape(flat, (-1, *each.shape)))
                begin += each.size
            outputs, *after = self.core(inputs, initial_state=states)
            rows = ops.reshape(outputs, (-1, outputs.shape[-1]))
            sizes = [each.size for each in memory.initial]
            flat = [ops.reshape(each, (-1, size)) for each, size in zip(after, sizes, strict=True)]
            return rows, ops.concatenate(flat, -1)

    return Remember


def lstm_memory(num_cells: int, **options: Any) -> Memory:
    """Return a long short-term memory.

    Notes
    -----
    Hochreiter and Schmidhuber, "Long short-term memory", Neural Computation 9 (1997).
    """
    states = tuple(np.zeros(num_cells, np.float32) for _ in range(2))
    return Memory(states, layer=num_cells, **options)


def attention_memory(attention: AttentionOptions, **options: Any) -> Memory:
    """Return the memory of a gated transformer: the inputs of each unit, and how many there were."""
    states = [np.zeros((attention.length, attention.dim), np.float32)] * attention.num_units
    return Memory((*states, np.zeros(1, np.float32)), layer=attention, **options)


@functools.cache
def _gate_layer(keras: Any) -> type[Layer]:
    """Return the class of a gated recurrent unit in place of a sum (section 3.2)."""
    ops = keras.ops
    layers: ModuleType = keras.layers

    class Gate(keras.layers.Layer):
        def __init__(self, dim: int, bias: float, seed: int) -> None:
            super().__init__()
            self._bias = bias
            orthogonal = keras.initializers.Orthogonal
            self.of_new = layers.Dense(3 * dim, kernel_initializer=orthogonal(seed=seed))
            self.of_old = layers.Dense(
                2 * dim, use_bias=False, kernel_initializer=orthogonal(seed=seed + 1)
            )
            self.of_reset = layers.Dense(
                dim, use_bias=False, kernel_initializer=orthogonal(seed=seed + 2)
            )

        def call(self, old: Tensor, new: Tensor) -> Tensor:
            new_reset, new_update, new_value = ops.split(self.of_new(new), 3, -1)
            old_reset, old_update = ops.split(self.of_old(old), 2, -1)
            reset = ops.sigmoid(new_reset + old_reset)
            update = ops.sigmoid(new_update + old_update - self._bias)
            value = ops.tanh(new_value + self.of_reset(reset * old))
            return (1 - update) * old + update * value

    return Gate


@functools.cache
def _attention_layer(keras: Any) -> type[Layer]:
    """Return the class of heads that attend to earlier steps of the same episode."""
    ops = keras.ops
    layers: ModuleType = keras.layers

    class Attention(keras.layers.Layer):
        def __init__(self, options: AttentionOptions, seed: int) -> None:
            super().__init__()
            self._options = options
            width = options.num_heads * options.head_dim
            orthogonal = keras.initializers.Orthogonal

            def dense(size: int, place: int) -> Dense:
                initializer = orthogonal(seed=seed + place)
                return layers.Dense(size, use_bias=False, kernel_initializer=initializer)

            self.queries, self.keys = dense(width, 0), dense(width, 1)
            self.values, self.out = dense(width, 2), dense(options.dim, 3)

        def build(self, *shapes: object) -> None:
            options = self._options
            self.of_distance = self.add_weight(
                shape=(options.length + 1, options.num_heads), initializer="zeros", name="distance"
            )

        def _heads(self, flat: Tensor) -> Tensor:
            num, length = ops.shape(flat)[:2]
            return ops.reshape(flat, (num, length, self._options.num_heads, self._options.head_dim))

        def call(self, own: Tensor, seen: Tensor, distance: Tensor, is_seen: Tensor) -> Tensor:
            options = self._options
            queries, keys = self._heads(self.queries(own)), self._heads(self.keys(seen))
            scores = ops.einsum("bqhd,bkhd->bhqk", queries, keys) / math.sqrt(options.head_dim)
            known = ops.clip(distance, 0, options.length)
            scores += ops.transpose(ops.take(self.of_distance, known, axis=0), (2, 0, 1))[None]
            scores = ops.where(is_seen[:, None], scores, -1e9)
            found = ops.einsum(
                "bhqk,bkhd->bqhd", ops.softmax(scores), self._heads(self.values(seen))
            )
            num, length = ops.shape(own)[:2]
            return self.out(ops.reshape(found, (num, length, options.num_heads * options.head_dim)))

    return Attention


@functools.cache
def _unit_layer(keras: Any) -> type[Layer]:
    """Return the class of one transformer."""
    ops = keras.ops
    layers: ModuleType = keras.layers

    class Unit(keras.layers.Layer):
        def __init__(self, options: AttentionOptions, seed: int) -> None:
            super().__init__()
            self.before, self.between = (layers.LayerNormalization() for _ in range(2))
            self.attention = _attention_layer(keras)(options, seed)
            initializer = keras.initializers.HeNormal(seed + 4)
            self.wide = layers.Dense(options.mlp_dim, "relu", kernel_initializer=initializer)
            self.narrow = layers.Dense(
                options.dim, kernel_initializer=keras.initializers.Orthogonal(seed=seed + 5)
            )
            gate, sizes = _gate_layer(keras), (options.dim, options.gate_bias)
            self.first, self.second = gate(*sizes, seed + 6), gate(*sizes, seed + 9)

        def call(self, own: Tensor, past: Tensor, distance: Tensor, is_seen: Tensor) -> Tensor:
            seen = self.before(ops.concatenate([past, own], 1))
            attended = self.attention(self.before(own), seen, distance, is_seen)
            own = self.first(own, ops.relu(attended))
            return self.second(own, ops.relu(self.narrow(self.wide(self.between(own)))))

    return Unit


@functools.cache
def transformer_layer(keras: Any) -> type[Layer]:
    """Return the class of a gated transformer with a memory.

    Parisotto et al., "Stabilizing transformers for reinforcement learning" (arXiv 1910.06764): layers
    are normalized before, and gated by a recurrent unit after each part. Positions are relative: each
    distance has a learned number for each head.
    """
    ops = keras.ops
    layers: ModuleType = keras.layers

    class Transformer(keras.layers.Layer):
        def __init__(self, options: AttentionOptions, seed: int) -> None:
            super().__init__()
            self._length = options.length
            self.first = layers.Dense(
                options.dim, kernel_initializer=keras.initializers.Orthogonal(seed=seed)
            )
            self.units = [
                _unit_layer(keras)(options, seed + 20 * n + 1) for n in range(options.num_units)
            ]

        def call(self, inputs: Tensor, initial_state: Sequence[Tensor]) -> tuple[Tensor, ...]:
            *pasts, count = initial_state
            length = ops.shape(inputs)[1]
            own = self.first(inputs)
            queries = ops.arange(length)[:, None] + self._length
            places = ops.arange(self._length + length)[None, :]
            distance = queries - places
            reaches = ops.logical_and(distance >= 0, distance <= self._length)
            # The memory is filled from its end.
            is_known = ops.cast(places, "float32") >= self._length - count
            is_seen = ops.logical_and(reaches[None], is_known[:, None, :])
            after = []
            for unit, past in zip(self.units, pasts, strict=True):
                after.append(ops.concatenate([past, own], 1)[:, -self._length :])
                own = unit(own, ops.stop_gradient(past), distance, is_seen)
            many = ops.minimum(count + ops.cast(length, "float32"), float(self._length))
            return own, *after, many

    return Transformer
