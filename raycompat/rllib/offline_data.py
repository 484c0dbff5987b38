"""`OfflineData`: how a program opens recorded data that is not in files of steps."""

from __future__ import annotations

from typing import Any, NoReturn

import raycompat as ray
from raycompat.exceptions import UnsupportedRayFeatureError
from raycompat.rllib._types import AlgorithmOptions
from raycompat.rllib.recorded_steps import Batch, read_steps


class OfflineData:
    """Opens the Parquet files of ``input_``. Subclass it, and set ``data`` in ``__init__``.

    Parameters
    ----------
    config : AlgorithmConfig

    Attributes
    ----------
    data : raycompat.data.Dataset
        Rows of which `OfflinePreLearner` makes episodes.
    path : str or list of str

    Notes
    -----
    Ray source: ``ray.rllib.offline.offline_data.OfflineData``, 2.60.0. Differs from Ray: an algorithm
    reads ``data`` once, into its memory, and does not call `sample`.
    """

    def __init__(self, config: AlgorithmOptions) -> None:
        self.config = config
        self.path = config.input_
        self.data = ray.data.read_parquet(self.path)

    def __getattr__(self, name: str) -> NoReturn:
        """Say what happened where a program has caught the error of opening its data."""
        if name == "data":
            raise AttributeError(
                f"{type(self).__name__} has no data: its __init__ has not set it. Expected self.data = "
                "a Dataset. Where __init__ catches errors of opening, let it raise them."
            )
        raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")

    def sample(self, num_samples: int, **kwargs: object) -> Any:
        """Refuse to draw samples: an algorithm draws them from its memory.

        Parameters
        ----------
        num_samples : int
        **kwargs
            As in Ray.

        Raises
        ------
        UnsupportedRayFeatureError
            Always.
        """
        raise UnsupportedRayFeatureError(
            f"{type(self).__name__}.sample({num_samples})",
            "The algorithm draws samples from its memory",
            "take rows with data.take_batch, or train with offline_data(offline_data_class=...)",
        )


def recorded_batches(config: AlgorithmOptions) -> list[Batch]:
    """Return the recorded rows of a program's class, or of the files of ``input_``.

    Parameters
    ----------
    config : AlgorithmConfig

    Raises
    ------
    TypeError
        When ``offline_data_class`` is not a class of `OfflineData`.
    UnsupportedRayFeatureError
        When the class has its own ``sample``, which an algorithm does not call.
    ValueError
        When its data has no rows.
    """
    cls = config.offline_data_class
    if cls is None:
        return read_steps(config)
    if not (isinstance(cls, type) and issubclass(cls, OfflineData)):
        raise TypeError(f"offline_data_class={cls!r}: expected a subclass of OfflineData.")
    if cls.sample is not OfflineData.sample:
        raise UnsupportedRayFeatureError(
            f"{cls.__name__}.sample",
            "The algorithm draws samples from its memory",
            "change the rows in __init__, where data is set, or with a prelearner_class",
        )
    batches: list[Batch] = list(cls(config).data.iter_batches(batch_size=None))
    if not any(len(column) for batch in batches for column in batch.values()):
        raise ValueError(
            f"offline_data_class={cls.__name__}: its data has no rows. Expected one row for each "
            "recorded step. Look at input_, and at what __init__ filters."
        )
    return batches
