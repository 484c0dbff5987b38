"""The part of ``ray.util.sgd.tf.TFTrainer`` that runs in a worker's process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from raycompat.exceptions import UnsupportedRayFeatureError
from raycompat.train.tensorflow.keras import DistributedOptimizer, SynchronizationCallback
from raycompat.util import collective


class _Work:
    """A worker's model and data.

    Parameters
    ----------
    model : keras.Model
        Compiled.
    data : tuple
        What the model is fitted with, and what it is evaluated with.
    config : dict
        The trainer's.
    is_alone : bool
        Whether there is no other worker.
    """

    def __init__(self, model: Any, data: Any, config: dict[str, Any], is_alone: bool) -> None:
        self.model = model
        self.train_data, self.validation_data = data
        self.config = config
        self.callbacks = [] if is_alone else [SynchronizationCallback()]
        self.num_epochs = 0


#: The work of this process.
_work: _Work | None = None


def _current() -> _Work:
    assert _work is not None, "the trainer has not set this worker up"
    return _work


def set_up(
    creators: tuple[Callable[..., Any], Callable[..., Any]],
    config: dict[str, Any],
    place: tuple[int, int],
    group_name: str,
) -> None:
    """Make the model and the data; `place` is the worker's rank, and the number of all."""
    global _work
    make_model, make_data = creators
    rank, size = place
    train_data, validation_data = make_data(config)
    model = make_model(config)
    if size > 1:
        if not isinstance(model, keras.Model):
            kind = f"{type(model).__module__}.{type(model).__name__}"
            raise UnsupportedRayFeatureError(
                f"TFTrainer(num_replicas={size}) with a {kind}",
                "Its gradients are averaged by Keras 3",
                "make a keras.Model of Keras 3, or use num_replicas=1",
            )
        collective.init_collective_group(size, rank, "gloo", group_name)
        DistributedOptimizer(model.optimizer, group_name=group_name)
        train_data = _part(train_data, rank, size)
    _work = _Work(model, (train_data, validation_data), config, size == 1)


def _part(data: Any, rank: int, size: int) -> Any:
    """Return the rows of each batch that are for one of the workers.

    A last batch with fewer rows than workers is left out by all.
    """

    def is_enough(*batch: Any) -> Any:
        return tf.shape(tf.nest.flatten(batch)[0])[0] >= size

    def rows(*batch: Any) -> Any:
        return tf.nest.map_structure(lambda each: each[rank::size], batch)

    return data.filter(is_enough).map(rows)


def train(verbose: bool) -> dict[str, Any]:
    """Fit the model; return the metrics of the last epoch."""
    work = _current()
    options = {"verbose": int(verbose), **work.config.get("fit_config", {})}
    options["callbacks"] = [*work.callbacks, *(options.get("callbacks") or ())]
    history = work.model.fit(work.train_data, **options)
    work.num_epochs += 1
    return {f"train_{name}": values[-1] for name, values in history.history.items()}


def validate(verbose: bool) -> dict[str, Any]:
    """Return the metrics of the data for validation."""
    work = _current()
    options = {"verbose": int(verbose), **work.config.get("evaluate_config", {})}
    found = work.model.evaluate(work.validation_data, **{**options, "return_dict": True})
    return {f"validation_{name}": value for name, value in found.items()}


def state() -> dict[str, Any]:
    """Return all that training continues from."""
    work = _current()
    return {
        "epoch": work.num_epochs,
        "weights": work.model.get_weights(),
        "optimizer_weights": [np.array(each) for each in work.model.optimizer.variables],
    }


def load(found: dict[str, Any]) -> None:
    """Continue from what `state` returned."""
    work = _current()
    work.num_epochs = found["epoch"]
    work.model.set_weights(found["weights"])
    optimizer, weights = work.model.optimizer, found["optimizer_weights"]
    optimizer.build(work.model.trainable_variables)
    for variable, value in zip(optimizer.variables, weights, strict=True):
        variable.assign(value)
