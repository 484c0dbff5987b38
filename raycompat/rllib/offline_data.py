"""`OfflineData`: how a program opens recorded data that is not in files of steps."""

from __future__ import annotations

from typing import Any

import raycompat as ray
from raycompat.exceptions import UnsupportedRayFeatureError
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

    def __init__(self, config: Any) -> None:
        self.config = config
        self.path = config.input_
        self.data = ray.data.read_parquet(self.path)

    def __getattr__(self, name: str) -> Any:
        """Say what happened where a program has caught the error of opening its data."""
        if name == "data":
            raise AttributeError(
                f"{type(self).__name__} has no data: its __init__ has not opened "
                f"{getattr(self.config, 'input_', None)!r}, and the log has the reason. Expected "
                "files that this machine can read."
            )
        raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")

    def sample(self, num_samples: int, **kwargs: Any) -> Any:
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


def recorded_batches(config: Any) -> list[Batch]:
    """Return the recorded rows of a program's class, or of the files of ``input_``.

    Parameters
    ----------
    config : AlgorithmConfig

    Raises
    ------
    TypeError
        When ``offline_data_class`` is not a class of `OfflineData`.
    """
    cls = config.offline_data_class
    if cls is None:
        return read_steps(config)
    if not (isinstance(cls, type) and issubclass(cls, OfflineData)):
        raise TypeError(f"offline_data_class={cls!r}: expected a subclass of OfflineData.")
    return list(cls(config).data.iter_batches(batch_size=None))
