"""`LightGBMConfig`: the preparation of workers for LightGBM."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

from raycompat.train._ports import send_addresses
from raycompat.train._worker_group import WorkerGroup
from raycompat.train.backend import Backend, BackendConfig

__all__ = ["LightGBMConfig", "get_network_params"]

_log = logging.getLogger("raycompat.train")

#: How this process, a worker, reaches the other workers.
_parameters: dict[str, object] = {}


def get_network_params() -> dict[str, object]:
    """Return the parameters by which LightGBM reaches the other workers of a `LightGBMTrainer`.

    Returns
    -------
    dict of str to object
        ``num_machines``, ``local_listen_port`` and ``machines``, for ``lightgbm.train``. It is empty,
        with a line in the log, outside the function of a worker.

    Examples
    --------
    >>> from raycompat.train.lightgbm import get_network_params
    >>> get_network_params()
    {}
    """
    if not _parameters:
        _log.warning(
            "get_network_params() was called outside a LightGBMTrainer, and returns an empty dict: "
            "call it in the training function."
        )
    return dict(_parameters)


@dataclass
class LightGBMConfig(BackendConfig):
    """Give each worker the addresses of all: see `get_network_params`.

    Examples
    --------
    >>> from raycompat.train.lightgbm import LightGBMConfig
    >>> LightGBMConfig().framework
    'lightgbm'
    """

    @property
    def backend_cls(self) -> type[Backend]:
        return _LightGBMBackend

    @property
    def framework(self) -> Any:
        return "lightgbm"


class _LightGBMBackend(Backend):
    """Sets `LightGBMConfig` up."""

    def on_training_start(self, worker_group: WorkerGroup, backend_config: Any) -> None:
        """Send the list of workers to each worker."""
        send_addresses(worker_group, _parameters_are)


def _parameters_are(addresses: list[str], rank: int) -> None:
    _parameters.update(
        num_machines=len(addresses),
        local_listen_port=int(addresses[rank].rpartition(":")[2]),
        machines=",".join(addresses),
    )
