"""`with_parameters` and `with_resources`: further inputs of a trainable besides its config."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import raycompat as ray
from raycompat.tune.execution.placement_groups import (
    PlacementGroupFactory,
    resource_dict_to_pg_factory,
)
from raycompat.tune.trainable.function_trainable import takes_checkpoint_dir
from raycompat.tune.trainable.trainable import Trainable

if TYPE_CHECKING:
    from raycompat.tune.trainable.nested import Config


def _check_trainable(trainable: Any, what: str) -> None:
    is_class = isinstance(trainable, type)
    if not callable(trainable) or (is_class and not issubclass(trainable, Trainable)):
        raise ValueError(
            f"tune.{what}({trainable!r}, ...): expected a function or a subclass of tune.Trainable."
        )


def with_parameters(trainable: Any, **kwargs: Any) -> Any:
    """Give a trainable large values, each stored once for all trials.

    Parameters
    ----------
    trainable : callable or subclass of Trainable
        A function is called with the values as keywords; so is ``setup`` of a class.
    **kwargs
        The values.

    Raises
    ------
    ValueError
        When it is not a trainable.

    Examples
    --------
    >>> from raycompat import tune
    >>> def train(config, data):
    ...     tune.report({"score": sum(data) * config["x"]})
    >>> trainable = tune.with_parameters(train, data=list(range(1000)))
    """
    _check_trainable(trainable, "with_parameters")
    values = _StoredValues(kwargs)
    name = getattr(trainable, "__name__", "tune_with_parameters")
    if isinstance(trainable, type):

        class WithParameters(trainable):
            def setup(self, config: Config) -> None:
                super().setup(config, **values.get())

        WithParameters.__name__ = WithParameters.__qualname__ = name
        return WithParameters

    def call(config: Config) -> Any:
        return trainable(config, **values.get())

    def call_from(config: Config, checkpoint_dir: str | None = None) -> Any:
        return trainable(config, checkpoint_dir=checkpoint_dir, **values.get())

    made: Any = call_from if takes_checkpoint_dir(trainable) else call
    made.__name__ = name
    if hasattr(trainable, "_resources"):
        made._resources = trainable._resources
    return made


class _StoredValues:
    """Values that go into the object store when the trainable does, once for an experiment.

    They leave it together with the trainable.
    """

    def __init__(self, values: dict[str, object]) -> None:
        self._values: dict[str, object] | None = values
        #: Where a copy, in a trial's process, finds the values.
        self._refs: dict[str, ray.ObjectRef[Any]] = {}

    def get(self) -> dict[str, object]:
        if self._values is None:
            refs = list(self._refs.values())
            self._values = dict(zip(self._refs, ray.get(refs), strict=True))
        return self._values

    def __getstate__(self) -> dict[str, object]:
        if self._refs:
            return {"_values": None, "_refs": self._refs}
        if not ray.is_initialized():  # pickled for another reason than for a trial
            return {"_values": self._values, "_refs": {}}
        refs = {name: ray.put(value) for name, value in (self._values or {}).items()}
        return {"_values": None, "_refs": refs}


def with_resources(
    trainable: Any,
    resources: dict[str, Any] | PlacementGroupFactory | Callable[[Config], Any],
) -> Any:
    """Set the resources of each trial.

    Parameters
    ----------
    trainable : callable or subclass of Trainable
    resources : dict, PlacementGroupFactory or callable
        Such as ``{"cpu": 2, "gpu": 0.5}``; bundles for a trial with workers; or a function of the
        config that returns one of these.

    Raises
    ------
    ValueError
        When it is not a trainable, or not resources.

    Examples
    --------
    >>> import tempfile
    >>> from raycompat import tune
    >>> def count(config):
    ...     return {
    ...         "cpus": tune.get_context()
    ...         .get_trial_resources()
    ...         .required_resources["CPU"]
    ...     }
    >>> results = tune.Tuner(
    ...     tune.with_resources(count, {"CPU": 2}),
    ...     run_config=tune.RunConfig(storage_path=tempfile.mkdtemp(), verbose=0),
    ... ).fit()
    >>> results[0].metrics["cpus"]
    2.0

    Notes
    -----
    Ray source: ``ray.tune.with_resources``, 2.60.0. Differs from Ray: the function itself is not
    changed.
    """
    _check_trainable(trainable, "with_resources")
    if isinstance(resources, dict):
        resources = resource_dict_to_pg_factory(resources)
    elif not (isinstance(resources, PlacementGroupFactory) or callable(resources)):
        raise ValueError(
            f"tune.with_resources(..., {resources!r}): expected a dict such as {{'cpu': 2}}, a "
            "PlacementGroupFactory, or a function of the config."
        )
    if isinstance(trainable, type):

        class WithResources(trainable):
            @classmethod
            def default_resource_request(cls, config: Config) -> Any:
                is_factory = isinstance(resources, PlacementGroupFactory)
                return resources if is_factory else resources(config)  # type: ignore[operator]

        WithResources.__name__ = WithResources.__qualname__ = trainable.__name__
        return WithResources

    @functools.wraps(trainable)
    def call(*args: Any, **kwargs: Any) -> Any:
        return trainable(*args, **kwargs)

    call._resources = resources  # type: ignore[attr-defined]
    return call
