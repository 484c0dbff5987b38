"""Dask behind those names of Ray that the lines about tasks need: ``microbenchmark.py --vs dask``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from distributed import Client, LocalCluster

_client: Client


class _Function:
    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def remote(self, *args: Any) -> Any:
        """Submit a call; a future stands for its result."""
        return _client.submit(self._function, *args, pure=False)


def init(num_cpus: int, **_: Any) -> None:
    """Start as many workers of one thread."""
    global _client
    cluster = LocalCluster(n_workers=num_cpus, threads_per_worker=1, dashboard_address=None)
    _client = Client(cluster)


def remote(function: Callable[..., Any]) -> _Function:
    """Return what has `remote`."""
    return _Function(function)


def get(futures: Any) -> Any:
    """Return the results."""
    return _client.gather(futures)


def shutdown() -> None:
    """End the cluster."""
    _client.shutdown()
