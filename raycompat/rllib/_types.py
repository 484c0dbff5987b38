"""Types of the values that programs, environments and networks bring."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import gymnasium
    import tensorflow as tf
    import torch

#: An element of an observation space: an array, a number, or dicts and tuples of these. It is Any
#: because only the program knows its space, and computes with the element without a cast.
Observation: TypeAlias = Any

#: An element of an action space, as `step` of an environment takes it. It is Any for the same reason.
Action: TypeAlias = Any

#: An agent's name: any value that can be the key of a dict, in most programs a str. It is Any because
#: a dict is invariant in its keys, and a ``dict[str, ...]`` of a program has to fit.
AgentID: TypeAlias = Any

#: Values of one or several steps of an episode: one value, a list of them, or arrays of all. It is Any
#: because the index, `to_numpy` and the space decide which.
Values: TypeAlias = Any

#: An array whose dtype depends on the space or on the program.
Array: TypeAlias = NDArray[Any]

#: Arrays in the dicts and tuples of a space, or of the state of a module.
Nested: TypeAlias = "Array | np.generic | float | Mapping[str, Nested] | tuple[Nested, ...]"

#: A tensor of TensorFlow, eager or of a `tf.function`; those of PyTorch are `torch.Tensor`.
Tensor: TypeAlias = "tf.Tensor"

#: A space of any elements.
Space: TypeAlias = "gymnasium.Space[Any]"

#: An environment of one agent or of several, see `MultiAgentEnv`.
Env: TypeAlias = "gymnasium.Env[Observation, Action]"

#: What `get_state` returns, and `set_state` of an equal object takes. It can be pickled; each class
#: knows its keys.
State: TypeAlias = dict[str, Any]

#: Results of playing and learning: numbers by name, and dicts of these. It is Any because programs
#: compute with the numbers that they name.
Metrics: TypeAlias = dict[str, Any]

#: Options of an algorithm, a network or a buffer by name, as programs write them. It is Any because
#: each option has its own type, which `AlgorithmConfig.validate` checks.
Options: TypeAlias = dict[str, Any]

#: Columns of steps by name, as modules of PyTorch see and give them. Observations and states in dicts
#: or tuples are dicts or tuples of tensors.
TensorBatch: TypeAlias = "dict[str, torch.Tensor]"

#: Batches by module.
TensorBatches: TypeAlias = "dict[str, TensorBatch]"


class AlgorithmOptions(Protocol):
    """The options of an algorithm: an `AlgorithmConfig`, whose module imports most others.

    Their names and defaults are data of `option_groups`, so each is an attribute of any type.
    """

    def __getattr__(self, name: str) -> Any: ...
