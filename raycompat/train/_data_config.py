"""`DataConfig`: how data sets are divided among the workers."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from raycompat.object_ref import ObjectRef

if TYPE_CHECKING:
    from raycompat.data.limits import ExecutionOptions


class DataConfig:
    """The data sets that are split between workers.

    Parameters
    ----------
    datasets_to_split : "all" or list of str, default "all"
        Names of the data sets that are divided among the workers. Each worker gets all of the others.
    execution_options : ExecutionOptions or dict, optional
        The limits with which the shards are read, for all data sets, or by name. By default those of
        each data set.
    enable_shard_locality : bool, default True
        Whether workers get data from their own node if possible.

    Examples
    --------
    Each worker reads a part of the training data, and all of the test data:

    >>> from raycompat.train import DataConfig
    >>> config = DataConfig(datasets_to_split=["train"])
    >>> data = {"train": [1, 2, 3, 4], "test": [8, 9]}
    >>> config.configure(
    ...     data, world_size=2, worker_handles=None, worker_node_ids=None
    ... )
    [{'train': [1, 3], 'test': [8, 9]}, {'train': [2, 4], 'test': [8, 9]}]

    Notes
    -----
    Ray source: ``ray.train.DataConfig``, 2.60.0. Override `configure` to divide data sets otherwise.
    """

    def __init__(
        self,
        datasets_to_split: str | list[str] = "all",
        execution_options: ExecutionOptions | Mapping[str, ExecutionOptions] | None = None,
        enable_shard_locality: bool = True,
    ) -> None:
        if not (isinstance(datasets_to_split, list) or datasets_to_split == "all"):
            raise TypeError(
                f"datasets_to_split={datasets_to_split!r}: expected 'all' or a list of names."
            )
        self._datasets_to_split = datasets_to_split
        self._enable_shard_locality = enable_shard_locality
        self._execution_options = execution_options

    def _limited(self, name: str, dataset: Any) -> Any:
        """Return a data set with the options that are given for it."""
        options = self._execution_options
        if isinstance(options, Mapping):
            options = options.get(name)
        if options is None or not hasattr(dataset, "context"):
            return dataset
        limited = dataset.copy(dataset)
        limited._context = dataset.context.copy()
        limited.context.execution_options = copy.deepcopy(options)
        return limited

    def configure(
        self,
        datasets: dict[str, Any],
        world_size: int,
        worker_handles: list[Any] | None,
        worker_node_ids: list[str] | None,
        **kwargs: object,
    ) -> list[dict[str, Any]]:
        """Divide data sets.

        Parameters
        ----------
        datasets : dict of str to object
            Data sets, or lists, by name.
        world_size : int
            Number of workers.
        worker_handles : list of ActorHandle, optional
            Their processes.
        worker_node_ids : list of str, optional
            Their nodes.

        Returns
        -------
        list of dict
            For each worker its shards, by name.
        """
        chosen = self._datasets_to_split
        hints = worker_node_ids if self._enable_shard_locality else None
        shards: list[dict[str, object]] = [{} for _ in range(world_size)]
        for name, given in datasets.items():
            is_split = chosen == "all" or name in chosen
            dataset = self._limited(name, given)
            parts = _split(name, dataset, world_size, hints) if is_split else None
            for rank, shard in enumerate(shards):
                shard[name] = parts[rank] if parts else _whole(dataset)
        return shards

    @staticmethod
    def default_ingest_options() -> ExecutionOptions:
        """Return the limits of `raycompat.data.DataContext`, as a copy.

        Examples
        --------
        >>> from raycompat import train
        >>> options = train.DataConfig.default_ingest_options()
        >>> options.preserve_order = True
        >>> config = train.DataConfig(execution_options=options)

        Notes
        -----
        Ray source: ``DataConfig.default_ingest_options``, 2.60.0. No known difference.
        """
        from raycompat.data import DataContext

        return copy.deepcopy(DataContext.get_current().execution_options)


def _can_be_split(dataset: object) -> bool:
    is_list = isinstance(dataset, Sequence) and not isinstance(dataset, str | bytes)
    return is_list or hasattr(dataset, "streaming_split")


def _unknown_kind(name: str, dataset: object) -> TypeError:
    advice = "Pass anything else as train_loop_config, or load it in the training function."
    if isinstance(dataset, ObjectRef):
        advice = "It is a reference: pass its value, ray.get(reference)."
    return TypeError(
        f"datasets[{name!r}] is a {type(dataset).__name__}: expected a Dataset of raycompat.data, a "
        f"list, or a function that returns one. {advice}"
    )


def _split(name: str, dataset: Any, number: int, hints: list[str] | None) -> Sequence[Any]:
    if not _can_be_split(dataset):  # the result of a function
        raise _unknown_kind(name, dataset)
    if hasattr(dataset, "streaming_split"):
        parts: Sequence[object] = dataset.streaming_split(number, equal=True, locality_hints=hints)
        return parts
    return [dataset[rank::number] for rank in range(number)]


def _whole(dataset: object) -> Any:
    return dataset.iterator() if hasattr(dataset, "iterator") else dataset


def checked(datasets: Mapping[str, object] | None) -> dict[str, Any]:
    """Return the data sets by name; factories are called later.

    Raises
    ------
    TypeError
        When it is not a dict, or a value is not a data set.
    """
    if datasets is None:
        return {}
    if not isinstance(datasets, Mapping):
        raise TypeError(
            f"datasets={datasets!r}: expected a dict, for example datasets={{'train': dataset}}."
        )
    for name, dataset in datasets.items():
        if not (_can_be_split(dataset) or callable(dataset)):
            raise _unknown_kind(name, dataset)
    return dict(datasets)


DataConfig.__module__ = "raycompat.train"
