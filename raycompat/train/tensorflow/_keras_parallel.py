"""Keras 3 in data parallel: gradients, weights and metrics go over a collective group.

Keras 3's `model.fit` does not work in a ``MultiWorkerMirroredStrategy``. Here each worker runs its own
`model.fit` on its part of the data. The optimizer averages the gradients over all workers before it
applies them, so weights that are equal at the start stay equal.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import keras
import numpy as np
import tensorflow as tf

from raycompat import train
from raycompat.exceptions import UnsupportedRayFeatureError
from raycompat.util import collective

if TYPE_CHECKING:
    from raycompat.train._types import Metrics

__all__ = ["DistributedOptimizer", "SynchronizationCallback"]

#: Seconds for which a worker waits for others, which may be saving or evaluating. When a worker's
#: process ends, the others notice it within seconds.
_TIMEOUT_S = 1800.0

#: The operation's name in TensorFlow's graphs; XLA's error shows it where the callback is missing.
_OPERATION = "average_gradients_of_workers_with_SynchronizationCallback"

#: The optimizer classes that average first, by the class that they extend.
_classes: dict[type, type] = {}
_classes_lock = threading.Lock()


def DistributedOptimizer(  # noqa: N802 - the name by which such wrappers are known
    optimizer: keras.Optimizer, *, group_name: str | None = None, timeout_s: float = _TIMEOUT_S
) -> keras.Optimizer:
    """Change an optimizer so that it averages the gradients of all workers before it applies them.

    Call it in the training function of every worker, and pass `SynchronizationCallback` to `model.fit`.
    The workers then compute the same result as one process with all workers' batches.

    Parameters
    ----------
    optimizer : keras.optimizers.Optimizer or str
        An optimizer is changed and returned, so a loaded one keeps its state. A name makes a new
        optimizer, as in `model.compile`.
    group_name : str, optional
        A collective group that this process is a member of. By default the workers of the training
        run form one.
    timeout_s : float, default 1800
        Seconds within which all workers must call this, and for which a worker waits for the others'
        gradients. Not used when `group_name` is given: the group has its own timeout.

    Returns
    -------
    keras.optimizers.Optimizer
        An instance of a subclass of the optimizer's class. It is saved in a model as Keras's own class,
        so the model can be loaded without raycompat.

    Raises
    ------
    UnsupportedRayFeatureError
        When Keras has another backend than TensorFlow, or within a ``tf.distribute`` strategy.
    TypeError
        When `optimizer` is not one of Keras 3's.
    CollectiveTimeoutError
        When a worker does not call it in time.
    RuntimeError
        When `group_name` is not given outside of a training function.

    Examples
    --------
    In a training function of `TensorflowTrainer`::

        from raycompat.train.tensorflow.keras import (
            DistributedOptimizer,
            SynchronizationCallback,
        )

        model.compile(DistributedOptimizer(keras.optimizers.Adam()), loss="mse")
        model.fit(x, y, batch_size=32, callbacks=[SynchronizationCallback()])

    Notes
    -----
    Ray has no such class; Horovod has one of this name.

    The gradients of a step go through one `allreduce`. Those of 16 bits are added as 32 bits. Sparse
    gradients of embeddings become dense. All workers must take the same number of steps: when one takes
    fewer, its next operation does not match, and the workers get an error.

    For mixed precision in float16, wrap the other way round than Keras does:
    ``DistributedOptimizer(keras.optimizers.LossScaleOptimizer(optimizer))``. All workers then leave a
    step out when the gradients of one are not finite.
    """
    _check_setting()
    optimizer = keras.optimizers.get(optimizer)
    if not isinstance(optimizer, keras.optimizers.Optimizer):
        raise TypeError(
            f"DistributedOptimizer takes an optimizer of Keras 3, such as keras.optimizers.Adam(), not "
            f"{optimizer!r}. Legacy Keras (tf_keras) trains in a tf.distribute strategy instead."
        )
    group = _Group(_form_group(timeout_s) if group_name is None else group_name)
    if not isinstance(optimizer, _Averaging):
        # Not a copy from its configuration, which would forget the optimizer's state.
        object.__setattr__(optimizer, "__class__", _averaging_class(type(optimizer)))
    object.__setattr__(optimizer, "_raycompat_group", group)
    return optimizer


def _check_setting() -> None:
    if keras.backend.backend() != "tensorflow":
        raise UnsupportedRayFeatureError(
            f"DistributedOptimizer with the backend {keras.backend.backend()!r} of Keras",
            "It averages gradients inside TensorFlow's functions",
            "Set KERAS_BACKEND=tensorflow",
        )
    if tf.distribute.has_strategy():
        raise UnsupportedRayFeatureError(
            f"DistributedOptimizer within {type(tf.distribute.get_strategy()).__name__}",
            "The strategy would average the averages again, and Keras 3's model.fit fails in it",
            "Make and compile the model outside of the strategy's scope",
        )


def _form_group(timeout_s: float) -> str | None:
    """Become a member of the group of this run's workers; return its name, None for a single worker."""
    context = train.get_context()
    size, rank = context.get_world_size(), context.get_world_rank()
    if size == 1:
        return None
    # The folder, not the run's name, which runs in other folders may share.
    name = f"train:{context.get_storage().experiment_fs_path}"
    if not collective.is_group_initialized(name):
        collective.init_collective_group(size, rank, "gloo", name, int(timeout_s * 1000))
    return name


class _Group:
    """The workers; without a name, this one alone."""

    def __init__(self, name: str | None) -> None:
        self._name = name
        self.size = 1 if name is None else collective.get_group_handle(name).world_size

    def average(self, values: np.ndarray) -> np.ndarray:
        """Return the mean over the workers, as a new array: TensorFlow may keep its memory."""
        mean = np.array(values)
        if self._name is not None:
            collective.allreduce(mean, self._name)
            mean /= self.size
        return mean

    def broadcast(self, variables: list[keras.Variable]) -> None:
        """Give all workers the values that rank 0 has."""
        if self._name is None:
            return
        for variable in variables:
            values = np.array(variable)
            collective.broadcast(values, 0, self._name)
            variable.assign(values)


class _Averaging:
    """The part of a worker's optimizer that is added to its class."""

    _raycompat_group: _Group

    def build(self, variables: list[keras.Variable]) -> None:
        """Start from rank 0's weights."""
        super().build(variables)  # type: ignore[misc]
        with tf.init_scope():  # at once, even when a function is being traced
            self._raycompat_group.broadcast(list(variables))

    def apply(
        self, grads: list[tf.Tensor], trainable_variables: list[keras.Variable] | None = None
    ) -> None:
        """Apply the mean of all workers' gradients."""
        averaged = _average_gradients(self._raycompat_group, list(grads))
        super().apply(averaged, trainable_variables)  # type: ignore[misc]


def _averaging_class(cls: type) -> type:
    """Return the subclass of `cls` that averages gradients.

    It has the name and module by which Keras saves `cls`, so it is saved as `cls`.
    """
    with _classes_lock:
        if cls not in _classes:
            names = {"__module__": cls.__module__, "__doc__": cls.__doc__}
            if cls.__module__.startswith("keras.src.optimizers"):
                names["__module__"] = "keras.optimizers"
            _classes[cls] = type(cls.__name__, (_Averaging, cls), names)
        return _classes[cls]


def _average_gradients(group: _Group, gradients: list[tf.Tensor]) -> list[tf.Tensor]:
    """Return the mean of each gradient over the workers; None where one is missing."""
    if group.size == 1:
        return gradients
    averaged: list[tf.Tensor] = [None] * len(gradients)
    for dtype in (tf.float32, tf.float64):
        chosen = [
            index
            for index, each in enumerate(gradients)
            if each is not None and (each.dtype == tf.float64) == (dtype == tf.float64)
        ]
        if not chosen:
            continue
        dense = [tf.convert_to_tensor(gradients[index]) for index in chosen]
        flat = tf.concat([tf.reshape(tf.cast(each, dtype), [-1]) for each in dense], 0)
        mean = tf.numpy_function(group.average, [flat], dtype, name=_OPERATION)
        mean.set_shape(flat.shape)
        sizes = [tf.size(each) for each in dense]
        for index, each, part in zip(chosen, dense, tf.split(mean, sizes), strict=True):
            averaged[index] = tf.cast(tf.reshape(part, tf.shape(each)), each.dtype)
            averaged[index].set_shape(each.shape)
    return averaged


class SynchronizationCallback(keras.callbacks.Callback):
    """Keeps the workers of `model.fit` equal in everything except gradients.

    At the start every worker gets rank 0's weights and optimizer state. At the end of each epoch the
    callback averages the metrics over the workers, and the weights that are not trained, such as the
    moving averages of batch normalization.

    Put it first in the list of callbacks, so that the others see the averaged metrics.

    Raises
    ------
    TypeError
        In `model.fit`, when the model is not compiled with `DistributedOptimizer`.

    Notes
    -----
    Ray has no such class. Each worker counts once in the mean, so it is the mean over all rows when the
    workers have equally many.

    The callback turns the model's `jit_compile` off: XLA cannot call Python, which moves the gradients.
    """

    def set_model(self, model: keras.Model) -> None:
        """Take the group from the optimizer, and turn XLA off."""
        super().set_model(model)
        optimizer = model.optimizer
        if not isinstance(optimizer, _Averaging):
            raise TypeError(_advice(optimizer))
        self._group = optimizer._raycompat_group
        if model.jit_compile:
            model.jit_compile = False
            model.train_function = None

    def on_train_begin(self, logs: Metrics | None = None) -> None:
        """Give all workers rank 0's weights and optimizer state."""
        self._group.broadcast([*self.model.variables, *self.model.optimizer.variables])

    def on_epoch_end(self, epoch: int, logs: Metrics | None = None) -> None:
        """Average the metrics and the weights that are not trained."""
        state = [
            variable
            for variable in self.model.non_trainable_variables
            if np.issubdtype(np.array(variable).dtype, np.floating)
        ]
        for variable in state:
            variable.assign(self._group.average(np.array(variable)))
        if logs:
            names = sorted(logs)
            means = self._group.average(np.array([float(logs[name]) for name in names]))
            logs.update(zip(names, means.tolist(), strict=True))


def _advice(optimizer: keras.Optimizer) -> str:
    """Return the code that should replace an optimizer that does not average."""
    if isinstance(getattr(optimizer, "inner_optimizer", None), _Averaging):
        return (
            "The model is compiled with a LossScaleOptimizer around DistributedOptimizer. A worker "
            "with gradients that are not finite would leave the others waiting. Compile the model with "
            "DistributedOptimizer(keras.optimizers.LossScaleOptimizer(optimizer))."
        )
    return (
        f"The model is compiled with {type(optimizer).__name__}, which does not average gradients. "
        "Compile it with DistributedOptimizer(optimizer)."
    )


for _public in (DistributedOptimizer, SynchronizationCallback):
    _public.__module__ = "raycompat.train.tensorflow.keras"
